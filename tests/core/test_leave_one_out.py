"""Leave-one-out loss in closed form: against models without the sample, and finite differences."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms
from scipy.special import log_softmax

from histogp import HistogramGPClassifier, HistogramGPRegressor, Optimizer
from histogp._core.data import Rows
from histogp._core.probability import Link, fit_link_to, wanted_probabilities
from histogp._core.repeats import come_again
from histogp._core.search import leave_one_out
from histogp._core.search.leave_one_out import (
    RowLoss,
    class_loss,
    clearly_best,
    density_loss,
    leave_one_out_loss,
    search_leave_one_out,
    searched_samples,
    unseen_losses,
    unseen_rows,
    wanted_labels,
)
from histogp._core.search.space import Data, Space
from histogp._core.solvers.problem import Noise, TrainingTargets
from histogp.kernels import Constant, Gaussian, HistogramIntersection, Laplacian, Power, Sum

N, D = 24, 4
X = histograms(N, D, density=0.9) + 0.01
CODES = np.argmax(X[:, :3], axis=1)
TARGETS = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
NOISE = np.linspace(0.1, 0.3, N)
WEIGHTS = 0.1 / NOISE
LINK = Link(2.0, 0.7)


def recipe(**shared):
    parts = [HistogramIntersection(scale=0.5), Laplacian(unit=0.8), Gaussian(0.7, unit=0.5), Constant(0.5)]
    return Sum(parts, **shared)


def by_hand(A, targets):
    """Means and variances of targets that are left out one by one, (n, M) each."""
    found = []
    for i in range(len(A)):
        rest = np.delete(np.arange(len(A)), i)
        solved = np.linalg.solve(A[np.ix_(rest, rest)], np.column_stack([targets[rest], A[rest, i]]))
        mean, explained = A[i, rest] @ solved[:, :-1], A[i, rest] @ solved[:, -1]
        found.append((mean, np.full(targets.shape[1], A[i, i] - explained)))
    return np.array(found).transpose(1, 0, 2)


def terms_of_classes(targets=TARGETS, codes=CODES, link=LINK):
    wanted = wanted_probabilities(codes, max(2, targets.shape[1])) * WEIGHTS[:, None]
    return lambda alpha, inverse: class_loss(targets, alpha, inverse, wanted, link)


def terms_of_densities(noise, scatter=0.0):
    return lambda alpha, inverse: density_loss(alpha, inverse, WEIGHTS, scatter, noise, WEIGHTS)


def probabilities(scores, link=LINK):
    """Of classes, as the link describes them."""
    f = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
    return log_softmax(link.temperature * f + link.bend * np.log(np.clip((1 + f) / 2, 0.02, 1.5)), axis=1)


@pytest.mark.parametrize("several", [True, False])
def test_the_loss_of_classes_is_that_of_models_without_the_sample(several):
    targets, codes = (TARGETS, CODES) if several else (TARGETS[:, 1:2], (CODES == 1).astype(int))
    operator = kernel_operator(X, recipe())
    means, _ = by_hand(operator.matrix() + np.diag(NOISE), targets)
    found = leave_one_out_loss(operator, Noise(NOISE), targets, terms_of_classes(targets, codes))
    wanted = wanted_probabilities(codes, 3 if several else 2)
    close(found.value, -np.sum(WEIGHTS[:, None] * wanted * probabilities(means)), rtol=1e-10)
    close(LINK.log_probabilities(means), probabilities(means))
    close(wanted.sum(axis=1), np.ones(N))
    assert (wanted.argmax(axis=1) == codes).all()
    alone = leave_one_out_loss(operator, Noise(NOISE), targets, terms_of_classes(targets, codes), ())
    assert alone.value == found.value
    assert alone.derivatives == {}


def test_the_loss_of_values_is_the_density_of_models_without_the_sample():
    """Each of so many samples as the weight says has the noise of all of them times the weight."""
    operator = kernel_operator(X, recipe())
    means, variances = by_hand(operator.matrix() + np.diag(NOISE), TARGETS)
    variances += (WEIGHTS * NOISE - NOISE)[:, None]
    densities = -0.5 * (np.log(2 * np.pi * variances) + (TARGETS - means) ** 2 / variances)
    found = leave_one_out_loss(operator, Noise(NOISE), TARGETS, terms_of_densities(Noise(NOISE)))
    close(found.value, -np.sum(WEIGHTS[:, None] * densities), rtol=1e-10)


def grouped(seed=0):
    """Samples of 9 rows with labels, values, and weights."""
    rng = np.random.default_rng(seed)
    row_of = np.concatenate([np.arange(9), rng.integers(9, size=15)])
    return row_of, rng.integers(3, size=N), rng.normal(size=(N, 2)), rng.uniform(0.3, 2, N)


def without_groups(K, row_of, noise, targets):
    """Means and latent variances of samples by all those of other rows, (N, M) and (N,)."""
    means, variances = np.empty_like(targets), np.empty(len(targets))
    for row in np.unique(row_of):
        own, rest = np.flatnonzero(row_of == row), np.flatnonzero(row_of != row)
        A, k = K[np.ix_(rest, rest)] + np.diag(noise[rest]), K[own[0], rest]
        means[own] = k @ np.linalg.solve(A, targets[rest])
        variances[own] = K[own[0], own[0]] - k @ np.linalg.solve(A, k)
    return means, variances


@pytest.mark.parametrize("is_classification", [True, False])
def test_equal_samples_are_left_out_together(is_classification):
    """The loss of a search is that of all samples, by models without any that is equal."""
    row_of, codes, values, weights = grouped()
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0) if is_classification else values
    given = TrainingTargets(targets, Noise(0.1 / weights), row_of, 0.1)
    operator = kernel_operator(X[:9], recipe())
    data = Data.of(operator, given)
    space = Space.of(operator.kernel, operator.training_rows(), 0.1, 1.0, None)
    search = leave_one_out._Search(data, space, is_classification, None)
    search._loss_of_rows = replace(search._loss_of_rows, one_by_one=False)
    search.evaluate(search.start)
    means, variances = without_groups(operator.matrix()[np.ix_(row_of, row_of)], row_of, 0.1 / weights, targets)
    if is_classification:
        doubt = 1 / (9 + 2)
        wanted = np.where(targets > 0, 1 - doubt, doubt / 2)
        losses = -np.sum(wanted * probabilities(means, leave_one_out.START_LINK), axis=1)
    else:
        of_one = variances[:, None] + 0.1 / min(1.0, np.median(weights))
        losses = np.sum(np.log(2 * np.pi * of_one) + (targets - means) ** 2 / of_one, axis=1) / 2
    close(search.path[0]["loss"], np.average(losses, weights=weights), rtol=1e-9)


@pytest.mark.parametrize("is_classification", [True, False])
def test_equal_samples_that_come_again_are_left_out_one_by_one(is_classification):
    """Of a row that counts m > 1 times a part of 1 / m is left out, with the target of one of its samples."""
    row_of, codes, values, weights = grouped()
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0) if is_classification else values
    given = TrainingTargets(targets, Noise(0.1 / weights), row_of, 0.1)
    operator = kernel_operator(X[:9], recipe())
    space = Space.of(operator.kernel, operator.training_rows(), 0.1, 1.0, None)
    search = leave_one_out._Search(Data.of(operator, given), space, is_classification, None)
    search._loss_of_rows = replace(search._loss_of_rows, one_by_one=True)
    search.evaluate(search.start)
    K, total, losses = operator.matrix(), np.bincount(row_of, weights), []
    of_one = min(1.0, np.median(weights))  # the weight of a sample
    for row, z in zip(row_of, targets, strict=True):
        unit = min(of_one, total[row])
        left = total - unit * (np.arange(9) == row)
        kept = left > 1e-12
        y = np.stack([np.bincount(row_of, weights * column) for column in targets.T], axis=1)
        y[row] -= unit * z
        A, k = K[np.ix_(kept, kept)] + np.diag(0.1 / left[kept]), K[row, kept]
        mean = k @ np.linalg.solve(A, y[kept] / left[kept, None])
        variance = K[row, row] - k @ np.linalg.solve(A, k) + 0.1 / unit
        if is_classification:
            doubt = 1 / (weights.sum() / of_one + 2)
            wanted = np.where(z > 0, 1 - doubt, doubt / 2)
            losses.append(-wanted @ probabilities(mean[None], leave_one_out.START_LINK)[0])
        else:
            losses.append(np.sum(np.log(2 * np.pi * variance) + (z - mean) ** 2 / variance) / 2)
    close(search.path[0]["loss"], np.average(losses, weights=weights), rtol=1e-9)


@pytest.mark.parametrize("is_classification", [True, False])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_slopes_of_the_loss_of_rows(is_classification, one_by_one):
    rng = np.random.default_rng(0)
    targets, weights = 2 * rng.dirichlet(np.ones(3), 7) - 1, np.array([1, 2, 3, 0.5, 1, 4, 1.0])
    loss = RowLoss(targets, weights, rng.uniform(0, 1, (7, 3)), 1.3 * weights, is_classification, one_by_one)
    at = [rng.normal(size=(7, 3)), np.repeat(rng.uniform(1, 3, (7, 1)), 3, 1), rng.uniform(0.1, 0.5, 7)]

    def value(alpha, inverse, noise):
        return loss.terms(alpha, inverse, Noise(noise), LINK).value

    found = loss.terms(at[0], at[1], Noise(at[2]), LINK)
    for k, slope in ((0, found.by_alpha), (1, found.by_inverse)):
        for place in np.ndindex(7, 3):
            step = np.zeros((7, 3))
            step[place] = 1e-6
            up, down = ([*at[:k], at[k] + sign * step, *at[k + 1 :]] for sign in (1, -1))
            np.testing.assert_allclose(slope[place], (value(*up) - value(*down)) / 2e-6, rtol=1e-5, atol=1e-7)
    up, down = (value(at[0], at[1], at[2] * np.exp(sign * 1e-6)) for sign in (1, -1))
    np.testing.assert_allclose(found.by_noise, (up - down) / 2e-6, rtol=1e-5, atol=1e-7)


def test_equal_samples_come_again_or_are_copies():
    single, twins = np.eye(2)[[0, 1, 0, 1]], 2 * np.eye(2)[[0, 1]]
    sure = np.tile([[0.99, 0.01]], (6, 1))
    assert come_again(np.vstack([single, twins]), sure)  # most rows have one sample
    assert not come_again(np.vstack([twins, twins, twins]), np.tile([[0.7, 0.3]], (6, 1)))  # never differ
    assert come_again(np.ones((6, 2)), np.tile([[0.5, 0.5]], (6, 1)))  # differ as often as predicted
    assert not come_again(np.vstack([single, 1.37 * twins]), sure)  # weights that are no numbers of samples
    assert not come_again(np.vstack([single[:2], 3 * np.eye(2)[[0, 0, 0, 0]]]), sure)  # one class was repeated


def test_labels_of_rows_are_those_of_their_samples():
    row_of, codes, _, weights = grouped()
    counts = np.zeros((9, 3))
    np.add.at(counts, (row_of, codes), weights)
    total = counts.sum(axis=1, keepdims=True)
    expected = (1 - 1 / 11) * counts + (total - counts) / 11 / 2
    close(wanted_labels(2 * counts / total - 1, total[:, 0]), expected)
    of_two = np.stack([total[:, 0] - counts[:, 0], counts[:, 0]], axis=1)
    expected = (1 - 1 / 11) * of_two + (total - of_two) / 11
    close(wanted_labels((2 * counts / total - 1)[:, :1], total[:, 0]), expected)
    np.testing.assert_array_equal(wanted_labels(TARGETS, np.ones(N)), wanted_probabilities(CODES, 3))


NOISES = {
    "one for all": Noise(NOISE),
    "one for each": Noise(NOISE, CODES, np.array([0.5, 1.0, 2.0]), np.array([1.0, 2.0, 0.7])),
}
KERNELS = {
    "recipe": recipe(weights=np.linspace(0.5, 2, D), transform=Power(1.1)),
    "sorted": HistogramIntersection(Power(0.7)),
    "stacked": HistogramIntersection(columns=[0, 1]) + HistogramIntersection(Power(0.7)) + Constant(0.3),
    "apart": Sum([Laplacian(unit=1.0, weights=np.linspace(0.5, 2, D)), Gaussian(unit=1.0, columns=[1, 3])]),
}


@pytest.mark.parametrize("terms", ["classes", "densities"])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_derivatives_are_those_of_finite_differences(kernel, noise, terms):
    operator = kernel_operator(X, KERNELS[kernel])
    space = Space.of(operator.kernel, operator.training_rows(), 0.2, 1.0, None)
    data = Data(operator, NOISES[noise], TARGETS)
    scatter = np.random.default_rng(1).random((N, 3))
    names = [one.name for one in space.free]

    def value(theta):
        operator, noise = data.at(space, theta)
        make = terms_of_classes() if terms == "classes" else terms_of_densities(noise, scatter)
        return leave_one_out_loss(operator, noise, TARGETS, make, names)

    theta = space.start + np.random.default_rng(0).normal(0, 0.1, len(space.start))
    slope = space.gradient(theta, value(theta).derivatives)
    assert len(slope) >= 3
    for k, step in enumerate(1e-5 * np.eye(len(theta))):
        expected = (value(theta + step).value - value(theta - step).value) / 2e-5
        np.testing.assert_allclose(slope[k], expected, rtol=1e-5, atol=1e-6)


def loss_of(link, scores, wanted):
    return link.loss(scores, wanted)[0].sum()


def test_derivatives_of_the_link():
    scores = np.random.default_rng(0).uniform(-1.3, 2.2, (N, 3))  # some beyond where its logarithm ends
    wanted = wanted_probabilities(CODES, 3)
    for given, of in ((scores, wanted), (scores[:, :1], wanted_probabilities((CODES == 1).astype(int), 2))):
        losses, by_score, by_link = LINK.loss(given, of)
        close(losses, -np.sum(of * probabilities(given), axis=1))
        step = 1e-6
        for i, m in ((0, 0), (5, given.shape[1] - 1)):
            change = np.zeros_like(given)
            change[i, m] = step
            expected = (loss_of(LINK, given + change, of) - loss_of(LINK, given - change, of)) / (2 * step)
            np.testing.assert_allclose(by_score[i, m], expected, rtol=1e-5, atol=1e-7)
        by_hand = [
            loss_of(Link(2.0 * np.exp(step), 0.7), given, of) - loss_of(Link(2.0 * np.exp(-step), 0.7), given, of),
            loss_of(Link(2.0, 0.7 + step), given, of) - loss_of(Link(2.0, 0.7 - step), given, of),
        ]
        np.testing.assert_allclose(by_link, np.array(by_hand) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("is_classification", [True, False])
def test_the_slope_of_the_search_is_that_of_its_value(is_classification):
    operator = kernel_operator(X, recipe(weights="ard"))
    space = Space.of(operator.kernel, operator.training_rows(), 0.2, 1.0, None)
    scatter = np.random.default_rng(2).random((N, 3))
    data = Data(operator, Noise(NOISE), TARGETS, WEIGHTS, scatter)
    search = leave_one_out._Search(data, space, is_classification, None)
    x = search.start + np.random.default_rng(1).normal(0, 0.05, len(search.start))
    slope = search.evaluate(x)[1]
    assert len(x) == len(space.start) + 1 + 2 * is_classification  # the spread of weights, and the link
    for k, step in enumerate(1e-5 * np.eye(len(x))):
        expected = (search.evaluate(x + step)[0] - search.evaluate(x - step)[0]) / 2e-5
        np.testing.assert_allclose(slope[k], expected, rtol=1e-5, atol=1e-6)


def test_a_feature_that_does_not_vary_does_not_count():
    constant = np.column_stack([X, np.full(N, 3.0)])
    operator = kernel_operator(constant, recipe(weights="ard"))
    weights = next(one for one in operator.kernel.hyperparameters(operator.rows, 0.1, 1.0) if one.name == "weights")
    assert weights.start[-1] < 1e-6 * weights.start[:-1].min()
    assert weights.spread[-1] == 0
    assert abs(weights.spread[:-1].sum()) < 1e-12


def test_the_spread_of_weights_does_not_depend_on_units():
    """Without it all features are scaled by their largest values, whatever their units are."""
    units = np.array([1.0, 1e-3, 50.0, 7.0])
    spreads = []
    for rows in (X, X * units):
        operator = kernel_operator(rows, recipe(weights="ard"))
        found = operator.kernel.hyperparameters(operator.rows, 0.1, 1.0)
        weights = next(one for one in found if one.name == "weights")
        spreads.append(weights.spread)
        scaled = np.log(weights.start) - weights.spread + np.log(rows.max(axis=0))
        np.testing.assert_allclose(scaled, scaled.mean())
    np.testing.assert_allclose(*spreads, atol=1e-12)


def test_parts_that_hardly_matter_are_dropped():
    rng = np.random.default_rng(0)
    rows = rng.random((120, 3))
    codes = (rows[:, 0] + 0.3 * rng.standard_normal(120) > 0.5).astype(int)
    operator = kernel_operator(rows, recipe())
    names = ("histogram_intersection__scale", "laplacian__scale", "gaussian__scale")
    data = Data(operator, Noise(np.full(120, 0.1)), np.where(codes[:, None] == 1, 1.0, -1.0))
    space = Space.of(operator.kernel, operator.training_rows(), 0.1, 1.0, None)
    whole = search_leave_one_out(data, space, True, 18)
    found = search_leave_one_out(data, space, True, 18, droppable=names)
    values = space.kernel_values(found.theta)
    dropped = [name for name in names if values[name] == 0]
    assert 1 <= len(dropped) <= 2
    assert found.loss < whole.loss + len(dropped)
    assert all(value > 0 for name, value in values.items() if name not in dropped)


def test_a_search_finds_a_smaller_loss_and_stays_near_its_priors():
    operator = kernel_operator(X, recipe())
    space = Space.of(operator.kernel, operator.training_rows(), 0.2, 1.0, None)
    found = search_leave_one_out(Data(operator, Noise(np.full(N, 0.2)), TARGETS), space, True, 18)
    losses = [row["loss"] for row in found.path]
    assert min(losses) < losses[0]
    assert not found.interrupted
    assert found.converged
    assert len(losses) <= 25
    assert 0.01 <= 0.2 * space.noise_factor(found.theta) <= 10


def test_a_search_may_begin_where_another_has_ended():
    operator = kernel_operator(X, recipe())
    data = Data(operator, Noise(np.full(N, 0.2)), TARGETS)
    space = Space.of(operator.kernel, operator.training_rows(), 0.2, 1.0, None)
    first = search_leave_one_out(data, space, True, 5)
    again = search_leave_one_out(data, space, True, 5, begin=first.point)
    whole = search_leave_one_out(data, space, True, 200)
    assert np.isclose([row["loss"] for row in first.path], again.path[0]["loss"], rtol=1e-9).any()
    assert whole.loss - 1e-6 <= again.loss < first.loss
    close(search_leave_one_out(data, space, True, 200, begin=first.point).loss, whole.loss, rtol=1e-3)
    far = search_leave_one_out(data, space, True, 5, begin=np.full(len(first.point), 1e3))
    assert np.all(np.isfinite(far.theta))


def test_a_search_begins_nearer_to_its_start_where_another_has_ended_in_rounding(monkeypatch):
    operator = kernel_operator(X, recipe())
    data = Data(operator, Noise(np.full(N, 0.2)), TARGETS)
    space = Space.of(operator.kernel, operator.training_rows(), 0.2, 1.0, None)
    point = search_leave_one_out(data, space, True, 5).point
    begun = []
    for n_failures in (0, 1, 2):
        failing = iter(range(n_failures))

        def loss(*arguments, failing=failing):
            if next(failing, None) is not None:
                raise ValueError("not positive definite")
            return leave_one_out_loss(*arguments)

        monkeypatch.setattr(leave_one_out, "leave_one_out_loss", loss)
        begun.append(search_leave_one_out(data, space, True, 5, begin=point).path[0]["noise"])
    close(begun[2], 0.2)
    assert (begun[0] - begun[1]) * (begun[1] - begun[2]) > 0
    always = iter(range(9))
    monkeypatch.setattr(leave_one_out, "leave_one_out_loss", lambda *arguments: loss(*arguments, failing=always))
    with pytest.raises(ValueError, match="not positive definite"):
        search_leave_one_out(data, space, True, 5, begin=point)


SEEN, UNSEEN = np.array([4, 0, 7, 2]), np.array([8, 1, 3])


def losses_of_unseen(given, is_classification):
    """Losses of rows, and by hand the means and latent variances that the other rows predict for them."""
    operator, noise, rows = kernel_operator(X[SEEN], recipe()), given.row_noise.subset(SEEN), Rows.from_array(X[UNSEEN])
    targets = given.row_targets[SEEN]
    found = unseen_losses(operator, noise, targets, rows, given, UNSEEN, is_classification=is_classification)
    A, cross = operator.matrix() + np.diag(noise.sample), operator.cross(rows)
    variances = operator.diagonal(rows) - np.sum(cross * np.linalg.solve(A, cross.T).T, axis=1)
    return found, cross @ np.linalg.solve(A, targets), variances


@pytest.mark.parametrize("is_classification", [True, False])
def test_losses_of_rows_that_were_not_seen(is_classification):
    """Those of models of the others; the noise of a sample of weight one is what a new one has."""
    weights = np.random.default_rng(0).uniform(0.8, 1.2, N)
    targets = TARGETS if is_classification else np.random.default_rng(1).normal(size=(N, 2))
    given = TrainingTargets(targets, Noise(0.1 / weights), None, 0.1)
    found, means, variances = losses_of_unseen(given, is_classification)
    if is_classification:
        wanted = wanted_probabilities(CODES[UNSEEN], 3, 3) * (weights[UNSEEN] / weights.mean())[:, None]
        expected = -np.sum(wanted * probabilities(means, fit_link_to(means, wanted)), axis=1)
    else:
        unit = min(1.0, np.median(weights))
        of_one = variances[:, None] + 0.1 / unit
        densities = -0.5 * (np.log(2 * np.pi * of_one) + (targets[UNSEEN] - means) ** 2 / of_one)
        expected = -np.sum(densities, axis=1) * weights[UNSEEN] / unit
    close(found, expected, rtol=1e-9)


def test_rows_that_are_not_seen_are_the_same_in_any_order(monkeypatch):
    hashes, groups = np.random.default_rng(0).permutation(30), np.arange(30) // 3
    seen = np.array([3, 4, 20])
    found = unseen_rows(hashes, seen)
    assert set(found) == set(range(30)) - set(seen)
    assert np.all(np.diff(hashes[found]) > 0)
    assert set(unseen_rows(hashes, seen, groups)) == set(range(30)) - {3, 4, 5, 18, 19, 20}
    monkeypatch.setattr(leave_one_out, "UNSEEN_ROWS", 7)
    order = np.random.default_rng(1).permutation(30)
    place = np.argsort(order)
    np.testing.assert_array_equal(order[unseen_rows(hashes[order], place[seen])], found[:7])


def test_another_than_the_first_is_best_only_beyond_chance():
    rng = np.random.default_rng(0)
    first = rng.random(400)
    better, lucky = first - 0.2 + rng.normal(size=400), first - 0.01 + rng.normal(size=400)
    assert clearly_best([first, lucky + 0.5, better]) == 2
    assert clearly_best([first, first + 0.1]) == 0
    outlier = first.copy()
    outlier[7] -= 30.0  # one row is no reason
    assert clearly_best([first, outlier]) == 0
    outlier[7] -= 60.0  # and does not stand in the way of another one
    assert clearly_best([first, outlier, better]) == 2
    assert clearly_best([first, better - 1.0, better]) == 1


def test_rows_of_a_group_are_one_reason():
    groups = np.repeat([7, 3, 5, 1], 100)
    first = np.ones(400)
    by_chance = first - np.where(groups == 3, 0.8, -0.1)
    assert clearly_best([first, by_chance]) == 1
    assert clearly_best([first, by_chance], groups) == 0
    assert clearly_best([first, first - 0.1], groups) == 1


@pytest.mark.parametrize("is_classification", [True, False])
def test_losses_of_unseen_rows_that_have_several_samples(is_classification):
    """Those of all their samples, of which none is known, whether they agree or not."""
    rng = np.random.default_rng(0)
    row_of = np.repeat(np.arange(N), 3)
    codes = rng.integers(3, size=3 * N)
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0) if is_classification else rng.normal(size=(3 * N, 1))
    given = TrainingTargets(targets, Noise(np.full(3 * N, 0.1)), row_of, 0.1)
    found, means, variances = losses_of_unseen(given, is_classification)
    if is_classification:
        wanted = wanted_labels(given.row_targets[UNSEEN], np.ones(3))
        expected = -np.sum(wanted * probabilities(means, fit_link_to(means, wanted)), axis=1)
    else:
        own = targets.reshape(N, 3)[UNSEEN]
        of_one = (variances + 0.1)[:, None]
        expected = 0.5 * np.sum(np.log(2 * np.pi * of_one) + (own - means) ** 2 / of_one, axis=1)
    close(found, expected, rtol=1e-9)


def test_every_class_is_seen_in_proportion(monkeypatch):
    monkeypatch.setattr(leave_one_out, "FEWEST_SAMPLES", 100)
    monkeypatch.setattr(leave_one_out, "MOST_WITHOUT_MATRIX", 50)
    rows = histograms(1000, D)
    codes = np.repeat([0, 1, 2], [700, 200, 100])
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    for kernel, most in ((recipe(), 100), (HistogramIntersection(), 50)):
        data = Data(kernel_operator(rows, kernel), Noise(np.ones(1000)), targets)
        index = searched_samples(data, True, np.random.default_rng(0))
        assert len(np.unique(index)) == most
        np.testing.assert_allclose(np.bincount(codes[index]) / most, [0.7, 0.2, 0.1], atol=0.03)
    assert searched_samples(data.subset(np.arange(40)), True, np.random.default_rng(0)) is None


@pytest.mark.parametrize("kernel", [recipe(weights="ard"), HistogramIntersection(), "hik-poly", "exp-chi2", "chi2"])
def test_estimators_search_by_it(kernel):
    rows = histograms(80, 6)
    codes = np.argmax(rows[:, 1:4], axis=1)
    optimizer = Optimizer(criterion="loo")
    model = HistogramGPClassifier(kernel, optimize=optimizer, random_state=0).fit(rows, codes)
    path = model.optimization_path_
    assert path["loss"].min() < path["loss"][0]
    assert np.isnan(model.log_marginal_likelihood_)
    assert np.isclose(model.noise_, path["noise"], rtol=1e-12).any()
    fixed = Optimizer(criterion="loo", parameters=["noise"])
    model = HistogramGPRegressor(HistogramIntersection(), normalize_y=False, optimize=fixed).fit(rows, rows[:, 0])
    assert model.kernel_.scale == 1
    assert model.noise_ != 1


def test_single_precision_is_close_enough_for_a_search():
    rows = histograms(200, 6)
    codes = np.argmax(rows[:, 1:4], axis=1)
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    wanted = wanted_probabilities(codes, 3)
    operator = kernel_operator(rows, recipe(weights="ard"))
    terms = lambda alpha, inverse: class_loss(targets, alpha, inverse, wanted, LINK)  # noqa: E731
    exact, single = (
        leave_one_out_loss(one, Noise(np.full(200, 0.1)), targets, terms) for one in (operator, operator.in_single())
    )
    np.testing.assert_allclose(single.value, exact.value, rtol=1e-3)
    # A step goes along all derivatives, and one of them may be what is left of large summands.
    largest = max(np.abs(value).max() for value in exact.derivatives.values())
    for name, value in exact.derivatives.items():
        np.testing.assert_allclose(single.derivatives[name], value, atol=1e-3 * largest, rtol=2e-2)
