"""Groups that are left out as a whole: against models without them, and finite differences."""

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms

from histogp._core.groups import groups_of_rows, members_of, whole_groups
from histogp._core.probability import START_LINK, Link, wanted_probabilities
from histogp._core.search import leave_one_out
from histogp._core.search.leave_one_out import class_loss, density_loss, leave_one_out_loss, wanted_labels
from histogp._core.search.space import Data, Space
from histogp._core.solvers.problem import Noise
from histogp.kernels import Constant, Gaussian, HistogramIntersection, Laplacian, Sum

N = 24
X = histograms(N, 4, density=0.9) + 0.01
CODES = np.argmax(X[:, :3], axis=1)
TARGETS = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
NOISE = np.linspace(0.1, 0.3, N)
WEIGHTS = 0.1 / NOISE
GROUPS = np.random.default_rng(3).integers(9, size=N)
LINK = Link(2.0, 0.7)
KERNEL = Sum([HistogramIntersection(scale=0.5), Laplacian(unit=0.8), Gaussian(0.7, unit=0.5), Constant(0.5)])


def by_hand(A, targets, groups):
    """Means, (n, M), and variances, (n, 1), of targets whose groups are left out."""
    means, variances = np.empty(targets.shape), np.empty((len(targets), 1))
    for group in np.unique(groups):
        out, rest = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
        weights = np.linalg.solve(A[np.ix_(rest, rest)], A[rest][:, out]).T
        means[out] = weights @ targets[rest]
        variances[out, 0] = (A[np.ix_(out, out)] - weights @ A[rest][:, out]).diagonal()
    return means, variances


def terms_of(kind, noise):
    wanted = wanted_probabilities(CODES, 3) * WEIGHTS[:, None]
    if kind == "classes":
        return lambda alpha, inverse: class_loss(TARGETS, alpha, inverse, wanted, LINK)
    return lambda alpha, inverse: density_loss(alpha, inverse, WEIGHTS, np.zeros((N, 3)), noise, WEIGHTS)


def test_losses_are_those_of_models_without_the_group():
    operator, noise = kernel_operator(X, KERNEL), Noise(NOISE)
    means, variances = by_hand(operator.matrix() + np.diag(NOISE), TARGETS, GROUPS)
    found = leave_one_out_loss(operator, noise, TARGETS, terms_of("classes", noise), groups=GROUPS)
    wanted = wanted_probabilities(CODES, 3) * WEIGHTS[:, None]
    close(found.value, -np.sum(wanted * LINK.log_probabilities(means)), rtol=1e-10)
    found = leave_one_out_loss(operator, noise, TARGETS, terms_of("densities", noise), groups=GROUPS)
    variances = variances + (WEIGHTS[:, None] - 1) * noise.diagonals()
    densities = -0.5 * (np.log(2 * np.pi * variances) + (TARGETS - means) ** 2 / variances)
    close(found.value, -np.sum(WEIGHTS[:, None] * densities), rtol=1e-10)


@pytest.mark.parametrize("kind", ["classes", "densities"])
def test_derivatives_are_those_of_finite_differences(kind):
    operator = kernel_operator(X, KERNEL)
    space = Space.of(operator.kernel, operator.training_rows(), 0.2, 1.0, None)
    data = Data(operator, Noise(NOISE), TARGETS)

    def value(theta):
        operator, noise = data.at(space, theta)
        names = [one.name for one in space.free]
        return leave_one_out_loss(operator, noise, TARGETS, terms_of(kind, noise), names, GROUPS)

    theta = space.start + np.random.default_rng(0).normal(0, 0.1, len(space.start))
    slope = space.gradient(theta, value(theta).derivatives)
    for k, step in enumerate(1e-5 * np.eye(len(theta))):
        expected = (value(theta + step).value - value(theta - step).value) / 2e-5
        np.testing.assert_allclose(slope[k], expected, rtol=1e-5, atol=1e-6)


def test_against_priors_a_group_counts_as_one():
    operator, noise = kernel_operator(X, KERNEL), Noise(np.full(N, 0.1))
    space = Space.of(operator.kernel, operator.training_rows(), 0.1, 1.0, None)
    wanted = wanted_labels(TARGETS, np.ones(N))
    terms = lambda alpha, inverse: class_loss(TARGETS, alpha, inverse, wanted, START_LINK)  # noqa: E731
    for groups, n_groups in ((None, N), (np.arange(N), N), (GROUPS, len(np.unique(GROUPS)))):
        search = leave_one_out._Search(Data(operator, noise, TARGETS, groups=groups), space, True, None)
        value, _ = search.evaluate(search.start)
        of_rows = leave_one_out_loss(operator, noise, TARGETS, terms, (), groups).value
        close(value, of_rows * n_groups / N, rtol=1e-10)


def test_groups_of_one_are_single_rows():
    operator, noise = kernel_operator(X, KERNEL), Noise(NOISE)
    single, grouped = (
        leave_one_out_loss(operator, noise, TARGETS, terms_of("densities", noise), groups=groups)
        for groups in (None, np.arange(N))
    )
    close(single.value, grouped.value, rtol=1e-10)
    for name, values in single.derivatives.items():
        close(values, grouped.derivatives[name], rtol=1e-8)


def test_groups_that_share_a_row_are_one():
    #   samples 0 and 4 are equal, so that the groups 0 and 2 are one
    found = groups_of_rows(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 3, 0, 4]))
    assert len(found) == 5
    assert len(set(found[[0, 1, 4]])) == 1
    assert len(set(found[[2, 3]])) == 1
    assert found[0] != found[2]
    np.testing.assert_array_equal(groups_of_rows(np.array([5, 3, 5]), None), [1, 0, 1])


@pytest.mark.parametrize("most", [1, 3, 10, 100])
def test_whole_groups_are_whole_and_follow_the_order(most):
    rng = np.random.default_rng(0)
    groups, keys = np.unique(rng.integers(12, size=40), return_inverse=True)[1], rng.permutation(40)
    found = whole_groups(groups, np.argsort(keys), most)
    chosen = np.unique(groups[found])
    np.testing.assert_array_equal(found, np.flatnonzero(np.isin(groups, chosen)))
    assert len(found) <= max(most, np.bincount(groups).min())
    other = rng.permutation(40)  # the same rows in another order
    moved = whole_groups(groups[other], np.argsort(keys[other]), most)
    np.testing.assert_array_equal(np.sort(keys[other][moved]), np.sort(keys[found]))
    assert sum(map(len, members_of(groups[found]))) == len(found)
