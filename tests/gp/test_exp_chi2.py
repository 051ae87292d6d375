"""Gaussian processes with the exponential chi-squared kernel, exact and by features, against dense formulas."""

import copy
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from discovery import all_estimators
from kernel_operators import FixedExpChi2, kernel_operator, map_of
from mutations import damaged_bytes, forged_contents, packed
from oracles import alike, histograms
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import histogp
from histogp import (
    ApproximationWarning,
    HistogramGPClassifier,
    HistogramGPOneClass,
    HistogramGPRegressor,
    ModelFileError,
    Optimizer,
)
from histogp._core.maps.pair_distances import inverse_median, most_likely
from histogp.active import pool, query
from histogp.io import container
from histogp.kernels import ExpChi2, Exponential, Laplacian, Power

pytestmark = pytest.mark.portable

N, D, M = 60, 5, 20
X = histograms(N, D)
TEST = histograms(20, D, seed=9) * 1.5
RNG = np.random.default_rng(0)
CODES = RNG.integers(3, size=N)
NAMES = np.array(["ash", "birch", "elm"])
Y = NAMES[CODES]
TARGETS = np.sin(3 * X @ RNG.standard_normal(D)) + 3
SAMPLE = RNG.uniform(0.5, 2, N)
NOISE = 0.1
KERNELS = {
    kind: ExpChi2(M, beta=2.0, scale=1.5, approximation=kind) for kind in ("auto", "exact", "nystroem", "fourier")
}
KERNEL = KERNELS["fourier"]
by_kind = pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
# More rows than features are solved in their space, fewer in that of the rows.
WAYS = {
    "primal": (N, {"noise": NOISE}),
    "primal by name": (N, {"noise": NOISE, "solver": "cholesky"}),
    "dual": (12, {"noise": NOISE}),
    "cg": (N, {"noise": NOISE, "solver": "cg", "tol": 1e-10}),
    "cg with few rows": (12, {"noise": NOISE, "solver": "cg", "tol": 1e-10}),
}
by_way = pytest.mark.parametrize("way", WAYS)


def features(value, A):
    """Random waves that the value of a kernel stands for, by the dense formula."""
    waves, x, remainder, terms = value.map.waves, A, 1.0, []
    for k in waves.additive.points:
        terms.append(remainder * 2 * np.sqrt(k) * x / (x + k))
        remainder = remainder * (x - k) / (x + k)
    angles = np.hstack(terms) @ waves.frequencies
    return np.sqrt(value.parts[0].scale / angles.shape[1]) * np.hstack([np.cos(angles), np.sin(angles)])


def value_of(model):
    return model._posterior.operator.kernel


def exact(value, A, B):
    """The kernel itself."""
    (part,) = value.parts
    return part.scale * chi2_kernel(A, B, gamma=part.beta / 2)


def gram_of(value, A, B):
    """What a model works with: the kernel, products of its random waves, or its Nystroem approximation."""
    if value.map is None:
        return exact(value, A, B)
    if value.map.name == "fourier":
        return features(value, A) @ features(value, B).T
    Z = value.map.rows.to_dense()
    return exact(value, A, Z) @ np.linalg.solve(exact(value, Z, Z), exact(value, Z, B))


def gram(model, A, B):
    return gram_of(value_of(model), A, B)


def prior(model, A):
    """The covariance of test rows before anything is learnt, to which landmarks add what they leave of the kernel."""
    value = value_of(model)
    return gram(model, A, A) if value.map is not None and value.map.name == "fourier" else exact(value, A, A)


def posterior(model, noise, targets, X=X, test=TEST):
    """Means, and the covariance of the latent function, of the test rows."""
    A = gram(model, X, X) + np.diag(noise)
    k = gram(model, X, test)
    return k.T @ np.linalg.solve(A, targets), prior(model, test) - k.T @ np.linalg.solve(A, k)


def left_out(model, noise, targets, X=X):
    """Means and latent variances of every row from a fit without it."""
    found = []
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        mean, covariance = posterior(model, noise[rest], targets[rest], X[rest], X[[i]])
        found.append((mean[0], covariance[0, 0]))
    return np.array([mean for mean, _ in found]), np.array([variance for _, variance in found])


def density(K, noise, targets):
    return sum(multivariate_normal(np.zeros(len(K)), K + np.diag(noise)).logpdf(y) for y in targets.T)


def signs(codes=CODES):
    return np.where(codes[:, None] == np.arange(3), 1.0, -1.0)


@by_way
@by_kind
def test_a_classifier_is_the_dense_process(kind, way):
    n, options = WAYS[way]
    model = HistogramGPClassifier(KERNELS[kind], **options).fit(X[:n], Y[:n], SAMPLE[:n])
    noise = NOISE / SAMPLE[:n]
    mean, covariance = posterior(model, noise, signs()[:n], X[:n])
    np.testing.assert_allclose(model.decision_function(TEST), mean, atol=1e-8)
    np.testing.assert_array_equal(model.predict(TEST), NAMES[mean.argmax(axis=1)])
    latent = model.predict_variance(TEST, include_noise=False)
    np.testing.assert_allclose(latent, covariance.diagonal(), atol=1e-8)
    np.testing.assert_allclose(model.predict_variance(TEST), latent + NOISE)
    np.testing.assert_allclose(model.novelty(TEST), covariance.diagonal() / 1.5, atol=1e-7)
    expected = density(gram(model, X[:n], X[:n]), noise, signs()[:n])
    for method in ("auto", "exact"):
        assert model.log_marginal_likelihood(method=method) == pytest.approx(expected, rel=1e-9)


@by_way
@by_kind
def test_probabilities_are_calibrated_on_rows_that_were_left_out(kind, way):
    n, options = WAYS[way]
    model = HistogramGPClassifier(KERNELS[kind], probability="temperature", **options).fit(X[:n], Y[:n], SAMPLE[:n])
    means, variances = left_out(model, NOISE / SAMPLE[:n], signs()[:n], X[:n])
    without = model._posterior.leave_one_out(model._variance_options())
    index, found, latent = without.index, without.means, without.variances
    np.testing.assert_array_equal(index, np.arange(n))
    np.testing.assert_allclose(found, means, atol=1e-7)
    np.testing.assert_allclose(latent[:, 0], variances, atol=1e-7)
    doubt = 1 / (n + 2)
    wanted = np.where(signs()[:n] > 0, 1 - doubt, doubt / 2) * SAMPLE[:n, None]
    temperatures = np.geomspace(1e-2, 1e3, 3000)
    costs = [-(wanted * log_softmax(t * means, axis=1)).sum() for t in temperatures]
    best = temperatures[np.argmin(costs)]
    expected = np.exp(log_softmax(best * model.decision_function(TEST), axis=1))
    np.testing.assert_allclose(model.predict_proba(TEST), expected, atol=0.01)


@by_way
@by_kind
def test_label_dependent_noise(kind, way):
    n, options = WAYS[way]
    model = HistogramGPClassifier(KERNELS[kind], class_weight="balanced-ovr", **options).fit(X[:n], Y[:n])
    own = CODES[:n, None] == np.arange(3)
    share = own.mean(axis=0)
    noises = 2 * NOISE * np.where(own, share, 1 - share)
    found = [posterior(model, noise, y, X[:n]) for noise, y in zip(noises.T, signs()[:n].T, strict=True)]
    np.testing.assert_allclose(model.decision_function(TEST), np.stack([mean for mean, _ in found], 1), atol=1e-8)
    variances = np.stack([covariance.diagonal() for _, covariance in found], axis=1)
    each = model.predict_variance(TEST, include_noise=False, per_class=True)
    np.testing.assert_allclose(each, variances, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(TEST).sum(axis=1), 1)
    K = gram(model, X[:n], X[:n])
    expected = sum(density(K, d, y[:, None]) for d, y in zip(noises.T, signs()[:n].T, strict=True))
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)


@by_way
@by_kind
@pytest.mark.parametrize("several", [False, True])
def test_a_regressor_is_the_dense_process(way, several, kind):
    n, options = WAYS[way]
    y = np.stack([TARGETS, TARGETS**2], axis=1)[:n] if several else TARGETS[:n]
    model = HistogramGPRegressor(KERNELS[kind], normalize_y=True, **options).fit(X[:n], y, SAMPLE[:n])
    center, scale = np.average(y, axis=0, weights=SAMPLE[:n]), model._codec.unit
    normalized = (y - center) / scale
    mean, covariance = posterior(model, NOISE / SAMPLE[:n], normalized, X[:n])
    observed = covariance + NOISE * np.eye(len(TEST))
    found, cov = model.predict(TEST, return_cov=True)
    np.testing.assert_allclose(found, mean * scale + center, atol=1e-8)
    np.testing.assert_allclose(cov, np.multiply.outer(observed, scale**2), atol=1e-8)
    _, std = model.predict(TEST, return_std=True)
    np.testing.assert_allclose(std**2, np.multiply.outer(observed.diagonal(), scale**2), atol=1e-8)
    expected = density(gram(model, X[:n], X[:n]), NOISE / SAMPLE[:n], normalized.reshape(n, -1))
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)
    assert model.sample_y(TEST, 3).shape == ((len(TEST), 2, 3) if several else (len(TEST), 3))


@pytest.mark.parametrize("criterion", ["variance", "ratio", "mean"])
@by_way
@by_kind
def test_a_one_class_model_is_the_dense_process(kind, way, criterion):
    n, options = WAYS[way]
    model = HistogramGPOneClass(KERNELS[kind], criterion=criterion, **options).fit(X[:n])
    mean, covariance = posterior(model, np.full(n, NOISE), np.ones(n), X[:n])
    variance = covariance.diagonal()
    expected = {"variance": -variance, "mean": mean, "ratio": mean / np.sqrt(variance + NOISE)}[criterion]
    np.testing.assert_allclose(model.score_samples(TEST), expected, atol=1e-8)


@pytest.mark.slow
@by_way
@pytest.mark.parametrize("kernel", [ExpChi2(M, approximation="fourier"), *KERNELS.values()], ids=["no scale", *KERNELS])
def test_a_threshold_from_training_rows_does_not_change_the_model(way, kernel):
    n, options = WAYS[way]
    model = HistogramGPOneClass(kernel, contamination=0.25, **options).fit(X[:n])
    _, covariance = posterior(model, np.full(n, NOISE), np.ones(n), X[:n], X[:n])
    scores = -covariance.diagonal()
    for _ in range(2):
        np.testing.assert_allclose(model.score_samples(X[:n]), scores, atol=1e-8)
    assert scores.min() < model.offset_ < scores.max()
    expected = density(gram(model, X[:n], X[:n]), np.full(n, NOISE), np.ones((n, 1)))
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)
    without = model._posterior.leave_one_out(model._variance_options())
    index, means, latent = without.index, without.means, without.variances
    expected_means, variances = left_out(model, np.full(n, NOISE), np.ones((n, 1)), X[:n])
    np.testing.assert_allclose(means, expected_means[index], atol=1e-7)
    np.testing.assert_allclose(latent[:, 0], variances[index], atol=1e-7)
    model.partial_fit(TEST)
    together = np.vstack([X[:n], TEST])
    _, covariance = posterior(model, np.full(len(together), NOISE), np.ones(len(together)), together, X)
    np.testing.assert_allclose(model.score_samples(X), -covariance.diagonal(), atol=1e-7)


@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_predictions_approach_those_of_the_exact_kernel(kind):
    K, k = (2 * chi2_kernel(X, A, gamma=1.5) for A in (X, TEST))
    A = K + NOISE * np.eye(N)
    mean, variance = k.T @ np.linalg.solve(A, TARGETS), 2 - np.einsum("ij,ij->j", k, np.linalg.solve(A, k))
    errors = []
    for n_components in (10, 30, N) if kind == "nystroem" else (20, 200, 4000):
        kernel = ExpChi2(n_components, beta=3.0, n_terms=9, scale=2.0, approximation=kind)
        model = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X, TARGETS)
        off = model.predict(TEST) - mean, model.predict_variance(TEST, include_noise=False) - variance
        errors.append(np.sqrt(np.mean(np.square(off))))
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < (1e-6 if kind == "nystroem" else 0.1)


def test_a_short_name_is_the_default_kernel():
    model = HistogramGPClassifier("exp-chi2", noise=0.1).fit(X[:15], Y[:15])
    assert model.kernel == "exp-chi2"
    assert model.kernel_.n_components == 2000
    assert model.kernel_.beta == inverse_median(X[:15])
    mean, _ = posterior(model, np.full(15, NOISE), signs()[:15], X[:15])
    np.testing.assert_allclose(model.decision_function(TEST), mean, atol=1e-8)
    assert map_of(model) is None
    model.set_params(kernel__n_components=M, kernel__approximation="fourier").fit(X, Y)
    assert map_of(model).waves.frequencies.shape == (3 * D, M // 2)
    model.set_params(kernel__approximation="nystroem").fit(X, Y)
    assert map_of(model).factor.shape == (M, M)


def test_a_fitted_kernel_has_its_width_and_the_given_one_nothing_from_data():
    kernel = ExpChi2(M, n_terms=4, approximation="fourier")
    model = HistogramGPClassifier(kernel, noise=0.1).fit(X, Y)
    assert model.kernel is kernel
    assert kernel.beta == "median"
    assert map_of(model).waves.additive.points.shape == (4, D)
    again = HistogramGPClassifier(model.kernel_, noise=0.1).fit(TEST, Y[: len(TEST)])
    assert again.kernel_.beta == model.kernel_.beta == inverse_median(X)
    np.testing.assert_array_equal(map_of(again).waves.frequencies, map_of(model).waves.frequencies)
    assert not np.any(map_of(again).waves.additive.points == map_of(model).waves.additive.points)  # of its own data


def test_the_width_under_which_targets_are_most_likely():
    classifier = HistogramGPClassifier(ExpChi2(M, beta="evidence"), noise=0.1).fit(X, Y)
    assert classifier.kernel_.beta == pytest.approx(most_likely(X, signs()), rel=1e-9)
    two = HistogramGPClassifier(ExpChi2(M, beta="evidence"), noise=0.1).fit(X, CODES == 1)
    assert two.kernel_.beta == pytest.approx(most_likely(X, signs()[:, [1]]), rel=1e-9)
    regressor = HistogramGPRegressor(ExpChi2(M, beta="evidence"), noise=0.1, normalize_y=True).fit(X, TARGETS)
    assert regressor.kernel_.beta == pytest.approx(most_likely(X, (TARGETS - TARGETS.mean())[:, None]), rel=1e-9)


MAKE = {
    "classifier": (partial(HistogramGPClassifier, noise=NOISE), Y),
    "two classes": (partial(HistogramGPClassifier, noise=NOISE), CODES == 1),
    "balanced": (partial(HistogramGPClassifier, noise=NOISE, class_weight="balanced-ovr"), Y),
    "regressor": (partial(HistogramGPRegressor, noise=NOISE, normalize_y=True), TARGETS),
    "one class": (partial(HistogramGPOneClass, noise=NOISE, contamination=0.1), np.ones(N)),
}


def assert_same(model, other, atol=1e-7):
    np.testing.assert_allclose(model.predict_variance(TEST), other.predict_variance(TEST), atol=atol)
    scores = "decision_function" if hasattr(model, "decision_function") else "predict"
    np.testing.assert_allclose(getattr(model, scores)(TEST), getattr(other, scores)(TEST), atol=atol)


def same_map(value, other):
    assert type(value.map) is type(other.map)
    if value.map is None:
        assert value.parts == other.parts
    elif value.map.name == "nystroem":
        np.testing.assert_array_equal(value.map.rows.to_dense(), other.map.rows.to_dense())
        alike(value.map.factor, other.map.factor)
    else:
        np.testing.assert_array_equal(value.map.waves.additive.points, other.map.waves.additive.points)
        np.testing.assert_array_equal(value.map.waves.frequencies, other.map.waves.frequencies)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"solver": "cg", "tol": 1e-10}], ids=["factors", "cg"])
@pytest.mark.parametrize("beta", ["median", "evidence"])
@pytest.mark.parametrize("name", MAKE)
@by_kind
def test_what_is_learnt_piece_by_piece_is_a_fit(kind, name, beta, options):
    """From fewer rows than features to more, and back; if all samples are landmarks, it does not matter which."""
    make, y = MAKE[name]
    kernel, atol = ExpChi2(2 * N if kind == "nystroem" else M, beta=beta, approximation=kind), 1e-7
    if kind == "nystroem":
        atol = 1e-5
    model = make(kernel, random_state=0, **options)
    begin = 0
    for end in (10, 20, 21, N):
        model.partial_fit(X[begin:end], y[begin:end], sample_weight=SAMPLE[begin:end])
        begin = end
    whole = make(kernel, random_state=0, **options).fit(X, y, sample_weight=SAMPLE)
    # Examples are few: points and the width have been chosen again.
    if kind != "nystroem":
        same_map(value_of(model), value_of(whole))
    assert model.kernel_.beta == whole.kernel_.beta
    assert_same(model, whole, atol)
    for left in (30, 15):
        model.forget(model.ids_[left:])
        fresh = make(kernel, random_state=0, **options).fit(X[:left], y[:left], sample_weight=SAMPLE[:left])
        assert model.kernel_.beta == fresh.kernel_.beta
        assert_same(model, fresh, atol)


@by_kind
def test_the_kernel_stays_with_many_examples(kind, monkeypatch):
    kernel = ExpChi2(M, approximation=kind)
    model = HistogramGPClassifier(kernel, noise=0.1).fit(X[:40], Y[:40])
    before = value_of(model)
    few = copy.deepcopy(model).partial_fit(X[40:], Y[40:])
    assert few.kernel_.beta != model.kernel_.beta
    monkeypatch.setattr("histogp.kernels.pairwise.MOST_ADAPTED_SAMPLES", 40)  # from here on samples are many
    monkeypatch.setattr("histogp._core.operators.pair_operators.MOST_CHOSEN_AGAIN", 40)
    model.partial_fit(X[40:], Y[40:])
    same_map(value_of(model), before)
    assert model.kernel_.beta == inverse_median(X[:40])
    mean, covariance = posterior(model, np.full(N, NOISE), signs())
    np.testing.assert_allclose(model.decision_function(TEST), mean, atol=1e-7)
    np.testing.assert_allclose(model.predict_variance(TEST, include_noise=False), covariance.diagonal(), atol=1e-7)
    given = (
        HistogramGPClassifier(clone(kernel).set_params(beta=7.0), noise=0.1)
        .fit(X[:20], Y[:20])
        .partial_fit(X[20:], Y[20:])
    )
    assert given.kernel_.beta == 7.0


def test_waves_that_are_given_stay():
    waves = kernel_operator(X[:40], KERNEL).kernel.map.waves
    model = (
        HistogramGPClassifier(FixedExpChi2(waves, beta=2.0), noise=0.1).fit(X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    )
    np.testing.assert_array_equal(map_of(model).waves.frequencies, waves.frequencies)
    np.testing.assert_array_equal(map_of(model).waves.additive.points, waves.additive.points)
    assert_same(model, HistogramGPClassifier(FixedExpChi2(waves, beta=2.0), noise=0.1).fit(X, Y))


def test_landmarks_grow_with_the_samples_up_to_their_number(monkeypatch):
    monkeypatch.setattr("histogp._core.operators.pair_operators.MOST_CHOSEN_AGAIN", 50)  # from here on they stay
    kernel = ExpChi2(30, beta=2.0, approximation="nystroem")
    n_different = [len(np.unique(X[:end], axis=0)) for end in range(N + 1)]
    model = HistogramGPClassifier(kernel, noise=0.1).fit(X[:10], Y[:10])
    assert map_of(model).n_components == n_different[10]
    for end in (25, 50, N):
        before = map_of(model)
        model.partial_fit(X[model.n_samples_ : end], Y[model.n_samples_ : end])
        assert map_of(model).n_components == min(n_different[end], 30)
        mean, covariance = posterior(model, np.full(end, NOISE), signs()[:end], X[:end])
        np.testing.assert_allclose(model.decision_function(TEST), mean, atol=1e-7)
        np.testing.assert_allclose(model.predict_variance(TEST, include_noise=False), covariance.diagonal(), atol=1e-7)
    np.testing.assert_array_equal(map_of(model).rows.to_dense(), before.rows.to_dense())


@pytest.mark.parametrize("approximation", ["auto", "exact"])
def test_a_model_outgrows_its_matrix(approximation, monkeypatch):
    monkeypatch.setattr("histogp._core.operators.pair_operators.MOST_EXACT_SAMPLES", 40)
    kernel = ExpChi2(M, beta=2.0, approximation=approximation)
    model = HistogramGPClassifier(kernel, noise=0.1).fit(X[:30], Y[:30])
    assert map_of(model) is None
    with pytest.warns(ApproximationWarning, match=r"the kernel is approximated \(\w+\) from now on\.$"):
        model.partial_fit(X[30:], Y[30:])
    assert (map_of(model) is None) == (approximation == "exact")
    assert len(model.approximation_) == 1
    mean, _ = posterior(model, np.full(N, NOISE), signs())
    np.testing.assert_allclose(model.decision_function(TEST), mean, atol=1e-5 if approximation == "exact" else 1e-7)
    with pytest.warns(ApproximationWarning, match=r"With 35 distinct training samples the kernel is exact .* on\.$"):
        model.forget(model.ids_[35:])
    assert model.approximation_ == {}
    assert map_of(model) is None
    assert_same(model, HistogramGPClassifier(kernel, noise=0.1).fit(X[:35], Y[:35]))


@by_kind
def test_relabeling_and_late_classes(kind):
    kernel = ExpChi2(2 * N if kind == "nystroem" else M, approximation=kind)
    model = HistogramGPClassifier(kernel, noise=0.1).fit(X[:40], Y[:40])
    right = Y.astype("<U6")
    right[[3, 5]], right[40:] = "ash", "fir"
    model.relabel([5, 3], right[[5, 3]]).partial_fit(X[40:], right[40:])
    assert "fir" in model.classes_
    assert_same(model, HistogramGPClassifier(kernel, noise=0.1).fit(X, right), 1e-5 if kind == "nystroem" else 1e-7)
    regressor = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X, TARGETS).relabel([4, 2], [1.0, 2.0])
    changed = TARGETS.copy()
    changed[[4, 2]] = 1.0, 2.0
    assert_same(regressor, HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X, changed))


def drawn_targets(n):
    return np.random.default_rng(3).multivariate_normal(
        np.zeros(n), 3 * chi2_kernel(X[:n], gamma=1.0) + 0.2 * np.eye(n)
    )


@pytest.mark.parametrize("n", [N, 16])
def test_the_search_ends_where_the_dense_likelihood_is_largest(n):
    y, options = drawn_targets(n), Optimizer("gradient", prior_width=None)
    model = HistogramGPRegressor(ExpChi2(beta=2.0), normalize_y=False, optimize=options, random_state=0).fit(X[:n], y)

    def negative(theta):
        scale, beta, noise = np.exp(theta)
        return -density(scale * chi2_kernel(X[:n], gamma=beta / 2), np.full(n, noise), y[:, None])

    start = np.log([1.0, 2.0, 0.1])
    oracle = minimize(negative, start, method="Nelder-Mead", options={"fatol": 1e-8, "xatol": 1e-6, "maxiter": 2000})
    assert -model.log_marginal_likelihood_ == pytest.approx(oracle.fun, abs=0.01)
    assert model.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_)
    if n == N:
        found = np.log([model.kernel_.scale, model.kernel_.beta, model.noise_])
        np.testing.assert_allclose(found, oracle.x, atol=0.1)


def test_a_search_on_some_of_the_samples(monkeypatch):
    monkeypatch.setattr("histogp._core.operators.pair_operators.DenseOperator.most_searched", 40)
    model = HistogramGPRegressor("exp-chi2", normalize_y=False, optimize="gradient", random_state=0).fit(
        X, drawn_targets(N)
    )
    assert set(model.optimization_path_["n_samples"]) == {40}
    assert np.isnan(model.log_marginal_likelihood_)
    mean, _ = posterior(model, np.full(N, model.noise_), drawn_targets(N))
    np.testing.assert_allclose(model.predict(TEST), mean, atol=1e-7)


@by_kind
def test_a_search_of_more_samples_is_exact_too(kind, monkeypatch):
    monkeypatch.setattr("histogp._core.search.optimization.FIRST_SAMPLES", 30)  # from here on samples are many
    y, kernel = drawn_targets(N), ExpChi2(M, approximation=kind)
    options = Optimizer("gradient", prior_width=None)
    model = HistogramGPRegressor(kernel, normalize_y=False, optimize=options, random_state=0).fit(X, y)
    path = model.optimization_path_
    assert set(path["n_samples"]) == {30, N}
    assert not path["standard_error"].any()
    found = density(exact(value_of(model), X, X), np.full(N, model.noise_), y[:, None])
    assert path["log_marginal_likelihood"][path["n_samples"] == N].max() == pytest.approx(found, rel=1e-9)
    if kind == "exact":
        assert model.log_marginal_likelihood_ == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_a_search_with_features_is_that_of_the_kernel_itself(kind):
    y = drawn_targets(N)
    expected = HistogramGPRegressor(ExpChi2(M), normalize_y=False, optimize="gradient", random_state=0).fit(X, y)
    model = HistogramGPRegressor(
        ExpChi2(M, approximation=kind), normalize_y=False, optimize="gradient", random_state=0
    ).fit(X, y)
    names = ("scale", "beta")
    assert [getattr(model.kernel_, name) for name in names] == [getattr(expected.kernel_, name) for name in names]
    assert model.noise_ == expected.noise_
    assert np.isnan(model.log_marginal_likelihood_)
    noise = np.full(N, model.noise_)
    assert model.log_marginal_likelihood() == pytest.approx(density(gram(model, X, X), noise, y[:, None]), rel=1e-7)
    mean, _ = posterior(model, noise, y)
    np.testing.assert_allclose(model.predict(TEST), mean, atol=1e-6)
    if kind == "fourier":
        same_map(value_of(model), kernel_operator(X, model.kernel_).kernel)


@pytest.mark.parametrize("optimize", ["gradient", "exact", "bound"])
@by_kind
def test_a_search_is_no_worse_than_where_it_starts(kind, optimize):
    kernel = ExpChi2(M, scale=3.0, approximation=kind)
    start = HistogramGPClassifier(kernel, noise=0.7, random_state=0).fit(X, Y)
    found = clone(start).set_params(optimize=optimize).fit(X, Y)
    likelihoods = [density(exact(value_of(model), X, X), np.full(N, model.noise_), signs()) for model in (start, found)]
    assert likelihoods[1] >= likelihoods[0] - 1e-6
    noise = np.full(N, found.noise_)
    assert found.log_marginal_likelihood() == pytest.approx(density(gram(found, X, X), noise, signs()), rel=1e-9)
    mean, _ = posterior(found, noise, signs())
    np.testing.assert_allclose(found.decision_function(TEST), mean, atol=1e-6)


@pytest.mark.parametrize("every", [0.5, None], ids=["search again", "search once"])
@by_kind
def test_a_search_goes_on_with_further_examples(kind, every):
    optimize = Optimizer("gradient", reoptimize_every=every)
    model = HistogramGPRegressor(
        ExpChi2(M, approximation=kind), optimize=optimize, normalize_y=True, noise=0.1, random_state=0
    )
    found = model.fit(X[:25], TARGETS[:25]).kernel_
    model.partial_fit(X[25:], TARGETS[25:])
    # What a search has found is not taken from the data again.
    assert (model.kernel_.beta == found.beta) == (every is None)
    assert (model.kernel_.scale == found.scale) == (every is None)
    normalized = (TARGETS - TARGETS.mean()) / model._codec.unit
    expected = density(gram(model, X, X), np.full(N, model.noise_), normalized[:, None])
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("method", ["bound", "quadrature"])
@by_kind
def test_other_ways_to_the_likelihood(kind, method):
    model = HistogramGPClassifier(KERNELS[kind], noise=0.1, random_state=0).fit(X, Y)
    exact = model.log_marginal_likelihood(method="exact")
    found, error = model.log_marginal_likelihood(method=method, return_error=True)
    assert found <= exact + 1e-9 * abs(exact) if method == "bound" else abs(found - exact) < 5 * error


@by_kind
def test_the_likelihood_at_other_scales_widths_and_noise(kind):
    model = HistogramGPClassifier(KERNELS[kind], noise=0.1).fit(X, Y)
    for parameters in ({"beta": 2.0, "scale": 0.4}, {"beta": 9.0}, {"n_components": M + 4, "random_state": 3}):
        kernel = ExpChi2(**{"n_components": M, **parameters}, approximation=kind)
        value = model._posterior.operator.with_kernel(kernel._adapt(X).value).kernel
        expected = density(gram_of(value, X, X), np.full(N, 0.3), signs())
        assert model.log_marginal_likelihood(kernel, 0.3) == pytest.approx(expected, rel=1e-9)
    assert model.log_marginal_likelihood(model.kernel_) == pytest.approx(model.log_marginal_likelihood(), rel=1e-12)
    for others in ("hik", "chi2"):
        with pytest.raises(ValueError, match="another kind"):
            model.log_marginal_likelihood(others)
        with pytest.raises(ValueError, match="kind"):
            HistogramGPClassifier(others, noise=0.1).fit(X, Y).log_marginal_likelihood(KERNELS[kind])


@pytest.mark.parametrize("first", range(4))
def test_the_likelihood_of_other_kernels_of_pairs(first):
    """Heights of the samples are not taken for those of another transform or weights."""
    kernels = [
        Laplacian(unit=0.7),
        Laplacian(unit=0.7, transform=Power(0.5)),
        Laplacian(unit=0.7, transform=Exponential(0.5)),
        ExpChi2(beta=2.0, scale=1.5),
    ]
    model = HistogramGPClassifier(kernels[first], noise=0.1).fit(X, Y)
    for kernel in [*kernels, Laplacian(unit=0.7, weights=[1.0, 2.0, 3.0, 0.0, 1.0])]:
        expected = density(kernel(X), np.full(N, 0.3), signs())
        assert model.log_marginal_likelihood(kernel, 0.3) == pytest.approx(expected, rel=1e-9)


@by_kind
def test_relevance_is_the_part_in_the_mean_distance(kind):
    kernel = ExpChi2(M, n_terms=9, approximation=kind)
    model = HistogramGPClassifier(kernel, noise=0.1).fit(X, Y)
    means = [-np.log(chi2_kernel(X[:, [d]], gamma=1.0)).mean() for d in range(D)]
    np.testing.assert_allclose(model.feature_relevance_, means / np.sum(means), atol=0.01)


@pytest.mark.parametrize("n", [N, 12])
@pytest.mark.parametrize("name", MAKE)
@by_kind
def test_a_loaded_model_is_the_same_and_goes_on_learning(kind, name, n, tmp_path):
    make, y = MAKE[name]
    kernel = ExpChi2(M, scale=2.0, approximation=kind)
    model = make(kernel, random_state=0).fit(X[:n], y[:n], sample_weight=SAMPLE[:n])
    model.save(tmp_path / "m")
    loaded = histogp.load(tmp_path / "m")
    loaded.save(tmp_path / "again")
    pickle.loads(pickle.dumps(model)).save(tmp_path / "pickled")
    for twin in ("again", "pickled"):
        assert (tmp_path / twin).read_bytes() == (tmp_path / "m").read_bytes()
    for method in ("decision_function", "predict", "predict_variance", "predict_proba", "score_samples", "novelty"):
        if hasattr(model, method):
            alike(getattr(loaded, method)(TEST), getattr(model, method)(TEST))
    same_map(value_of(loaded), value_of(model))
    assert loaded.kernel_.get_params() == model.kernel_.get_params()
    assert loaded.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood(), rel=1e-10)
    assert loaded.n_nonzeros_ == model.n_nonzeros_ == np.count_nonzero(X[:n])
    assert repr(loaded) == repr(model)
    for one in (model, loaded):
        one.partial_fit(TEST, y[: len(TEST)])
    assert_same(loaded, model)
    same_map(value_of(loaded), value_of(model))


@pytest.mark.parametrize("n", [N, 12])
@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("kind", ["nystroem", "fourier"])
def test_a_model_without_its_examples_predicts_alike_and_learns_no_more(kind, name, n, tmp_path):
    make, y = MAKE[name]
    model = make(KERNELS[kind], random_state=0).fit(X[:n], y[:n], sample_weight=SAMPLE[:n])
    model.save(tmp_path / "m", include_training=False)
    loaded = histogp.load(tmp_path / "m")
    if name == "balanced":
        np.testing.assert_allclose(loaded.decision_function(TEST), model.decision_function(TEST), atol=1e-9)
    else:
        assert_same(loaded, model, atol=1e-9)
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(loaded.predict_proba(TEST), model.predict_proba(TEST), atol=1e-9)
    with pytest.raises(ValueError, match="without its training samples"):
        loaded.partial_fit(TEST, y[: len(TEST)])
    loaded.save(tmp_path / "again", include_training=False)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("kind", ["auto", "exact"])
def test_an_exact_model_needs_its_examples(kind, tmp_path):
    model = HistogramGPClassifier(KERNELS[kind], noise=0.1).fit(X, Y)
    sentence = r'^Exact prediction needs the training samples: save them.*set_params\(prediction="quantized"\) first\.$'
    with pytest.raises(ValueError, match=sentence):
        model.save(tmp_path / "m", include_training=False)
    assert not (tmp_path / "m").exists()


CONTENTS = {
    "fourier": ("fourier", True),
    "fourier without examples": ("fourier", False),
    "nystroem": ("nystroem", True),
    "nystroem without examples": ("nystroem", False),
    "exact": ("exact", True),
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Model files by name."""
    found = {}
    for name, (kind, include_training) in CONTENTS.items():
        path = tmp_path_factory.mktemp("model") / "model.histogp"
        model = HistogramGPClassifier(ExpChi2(6, scale=2.0, approximation=kind), noise=0.1, random_state=0).fit(
            X[:20], Y[:20]
        )
        model.save(path, include_training=include_training)
        found[name] = path.read_bytes()
    return found


@pytest.fixture(params=CONTENTS)
def content(request, contents):
    return contents[request.param]


def forged(content, folder, change):
    document, arrays = container.parse(content)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(document["kernel"]["parameters"], arrays)
    return packed(document, arrays, folder)


def set_array(name, make):
    return lambda _, arrays: arrays.__setitem__(name, make(arrays[name]))


FORGERIES = {
    "components beyond numbers": lambda kernel, _: kernel.update(n_components=10**400),
    "far more components": lambda kernel, _: kernel.update(n_components=2**60),
    "an odd number": lambda kernel, _: kernel.update(n_components=7),
    "no width": lambda kernel, _: kernel.update(beta=0.0),
    "a width by name": lambda kernel, _: kernel.update(beta="median"),
    "no scale": lambda kernel, _: kernel.update(scale=0.0),
    "a negative scale": lambda kernel, _: kernel.update(scale=-1.0),
    "a scale and a weight": lambda kernel, _: kernel.update(weights=2.0),
    "an unknown approximation": lambda kernel, _: kernel.update(approximation="best"),
    "an unknown sampling": lambda kernel, _: kernel.update(sampling="best"),
    "columns that there are not": lambda kernel, _: kernel.update(columns={"slice": [7, 9, None]}),
    "one parameter less": lambda kernel, _: kernel.pop("sampling"),
    "frequencies as a parameter": lambda kernel, _: kernel.update(frequencies=None),
    "points of another width": lambda _, arrays: arrays.update({"value.additive.points": np.ones((3, 4))}),
}
FORGED_WAVES = {
    "more components": lambda kernel, _: kernel.update(n_components=8),
    "other terms": lambda kernel, _: kernel.update(n_terms=2),
    "missing frequencies": lambda _, arrays: arrays.pop("value.frequencies"),
    "phases": lambda _, arrays: arrays.update({"value.phases": np.ones(1)}),
    "few frequencies": set_array("value.frequencies", lambda a: a[:, :-1]),
    "frequencies that are none": set_array("value.frequencies", lambda a: np.where(a > 0, np.nan, a)),
    "frequencies in single precision": set_array("value.frequencies", lambda a: a.astype(np.float32)),
    "flat frequencies": set_array("value.frequencies", np.ravel),
    "points of zero": set_array("value.additive.points", np.zeros_like),
    "infinite points": set_array("value.additive.points", lambda a: a * np.inf),
    "few points": set_array("value.additive.points", lambda a: a[:, :-1]),
    "missing points": lambda _, arrays: arrays.pop("value.additive.points"),
}
FORGED_LANDMARKS = {
    "a missing factor": lambda _, arrays: arrays.pop("value.triangle"),
    "no triangle": set_array("value.triangle", lambda a: a[:-1]),
    "fewer landmarks": set_array("value.triangle", lambda a: a[:15]),
    "a factor of zeros": set_array("value.triangle", np.zeros_like),
    "a factor that is none": set_array("value.triangle", lambda a: a * np.nan),
    "missing landmarks": lambda _, arrays: arrays.pop("value.landmarks.indptr"),
}


def refused(content, path):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is not an intact histogp model: ") as caught:
        histogp.load(path)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_kernels_are_refused(name, content, tmp_path):
    refused(forged(content, tmp_path, FORGERIES[name]), tmp_path / "m")


@pytest.mark.parametrize("examples", ["", " without examples"])
@pytest.mark.parametrize(("kind", "forgeries"), [("fourier", FORGED_WAVES), ("nystroem", FORGED_LANDMARKS)])
def test_forged_features_are_refused(kind, forgeries, examples, contents, tmp_path):
    for change in forgeries.values():
        refused(forged(contents[kind + examples], tmp_path, change), tmp_path / "m")


@pytest.mark.parametrize("name", ["nystroem", "fourier", "best", 1])
def test_features_of_another_kind_are_refused(name, contents, tmp_path):
    for content in contents.values():
        document, arrays = container.parse(content)
        if document.get("value.map") != name:
            refused(packed({**document, "value.map": name}, arrays, tmp_path), tmp_path / "m")


@pytest.mark.parametrize("n_features", [4, 6, 200_000_000, 2**53 - 1])
def test_a_forged_width_allocates_nothing(n_features, content, tmp_path):
    document, arrays = container.parse(content)
    document["n_features"] = n_features
    refused(packed(document, arrays, tmp_path), tmp_path / "m")


def test_cut_and_flipped_files_are_refused(content, tmp_path):
    for end in range(0, len(content), 997):
        refused(content[:end], tmp_path / "m")
    for at in range(8 + int.from_bytes(content[:8], "little"), len(content), 97):
        refused(content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :], tmp_path / "m")


def test_random_damage(content, tmp_path):
    rng = np.random.default_rng(0)
    parsed = container.parse(content)
    for k in range(60):
        bad = packed(*forged_contents(*parsed, rng), tmp_path) if k % 2 else damaged_bytes(content, rng)
        (tmp_path / "m").write_bytes(bad)
        try:
            model = histogp.load(tmp_path / "m")
        except ModelFileError:
            continue
        assert len(model.decision_function(TEST)) == len(TEST)


@by_kind
def test_variances_and_what_is_refused(kind):
    model = HistogramGPRegressor(KERNELS[kind], noise=0.1, normalize_y=False).fit(X, TARGETS)
    precise = model.predict_variance(TEST)
    np.testing.assert_array_equal(model.predict_variance(TEST, "calibrated"), precise)
    fine = model.predict_variance(TEST, "fine", n_eigenvectors=[2, 10])
    assert np.all(fine >= precise[:, None] - 1e-9)
    for method in ("coarse", "coarse-quantized", "sampled"):
        with pytest.raises(ValueError, match=rf'^The variance "{method}" needs tables.*\.$'):
            model.predict_variance(TEST, method)
    model.set_params(prediction="quantized")
    if kind == "exact":
        exact = model.set_params(prediction="exact").predict(TEST)
        np.testing.assert_allclose(model.set_params(prediction="quantized").predict(TEST), exact, atol=1e-4)
    else:
        with pytest.raises(ValueError, match=r'^prediction="quantized" needs tables.*\.$'):
            model.predict(TEST)


@by_kind
def test_dirichlet_probabilities_sum_to_one(kind):
    model = HistogramGPClassifier(KERNELS[kind], noise=0.1, probability="dirichlet", random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(TEST).sum(axis=1), 1)


@pytest.mark.parametrize("n", [40, 12])
@pytest.mark.parametrize("strategy", ["uncertainty", "variance", "batch-uncertainty", "batch-variance", "random"])
@by_kind
def test_questions_what_to_label_next(kind, strategy, n):
    model = HistogramGPClassifier(KERNELS[kind], noise=0.1).fit(X[:n], Y[:n])
    chosen, utilities = query(model, X[40:], strategy, 5, random_state=0, return_utilities=True)
    assert len(set(chosen)) == len(utilities) == 5
    if strategy == "variance":
        _, covariance = posterior(model, np.full(n, NOISE), signs()[:n], X[:n], X[40:])
        np.testing.assert_array_equal(np.sort(chosen), np.sort(np.argsort(-covariance.diagonal())[:5]))


@pytest.mark.parametrize("kind", ["exact", "fourier"])
def test_a_batch_is_chosen_one_after_the_other(kind):
    model = HistogramGPClassifier(KERNELS[kind], noise=0.1).fit(X[:30], Y[:30])
    chosen = query(model, X[30:], "batch-variance", 4, random_state=0)
    seen, noise = X[:30], NOISE
    for i in chosen:
        _, covariance = posterior(model, np.full(len(seen), noise), np.zeros(len(seen)), seen, X[30:])
        variances = covariance.diagonal().copy()
        assert variances[i] == pytest.approx(np.delete(variances, [j for j in chosen if j != i]).max(), rel=1e-6)
        seen = np.vstack([seen, X[30 + i]])


@by_kind
def test_questions_to_a_large_pool(kind, monkeypatch):
    monkeypatch.setattr(pool, "MANY_CANDIDATES", 10)
    model = HistogramGPClassifier(KERNELS[kind], noise=0.1).fit(X, X[:, 1] > X[:, 2])
    assert len(query(model, TEST, "uncertainty", 5)) == 5


def test_grid_search_reaches_the_width():
    search = GridSearchCV(HistogramGPClassifier(ExpChi2(M), noise=0.1), {"kernel__beta": [0.1, 4.0]}, cv=2)
    search.fit(X, X[:, 1] > X[:, 2])
    assert search.best_estimator_.kernel_.beta == search.best_params_["kernel__beta"]
    grid = {"kernel__n_components": [4, M], "kernel__approximation": ["nystroem", "fourier"]}
    by_name = GridSearchCV(HistogramGPClassifier("exp-chi2", noise=0.1), grid, cv=2)
    by_name.fit(X, X[:, 1] > X[:, 2])
    assert by_name.best_estimator_.kernel_.approximation == by_name.best_params_["kernel__approximation"]
    assert by_name.best_estimator_.kernel_.n_components == by_name.best_params_["kernel__n_components"]


@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
@by_kind
def test_every_container_gives_the_same_model(kind, make):
    y, kernel = Y if make is HistogramGPClassifier else TARGETS, ExpChi2(M, approximation=kind)
    expected = make(kernel).fit(X, y)
    for data in (sparse.csr_array(X), sparse.coo_matrix(X), pd.DataFrame(X), np.asfortranarray(X), X.tolist()):
        model = make(kernel).fit(data, y)
        same_map(value_of(model), value_of(expected))
        alike(model.predict_variance(data), expected.predict_variance(X))
        alike(model.predict(data), expected.predict(X))
    single = make(kernel).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict_variance(TEST), expected.predict_variance(TEST), atol=1e-3)
    for twin in (pickle.loads(pickle.dumps(expected)), copy.deepcopy(expected)):
        alike(twin.predict(TEST), expected.predict(TEST))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (ExpChi2(7), "n_components must be even"),
        (ExpChi2(M, n_terms=0), "n_terms must be"),
        (ExpChi2(M, beta=-1.0), "beta must be"),
        (ExpChi2(M, scale="ard"), "scale must be"),
        (ExpChi2(M, scale=[1.0] * D), "scale must be"),
        (ExpChi2(M, approximation="best"), "approximation must be"),
        (ExpChi2(M, columns=[D]), "columns must be"),
        (ExpChi2(M, sampling="best"), "sampling must be"),
        (ExpChi2(M, random_state=None), "random_state must be"),
        ("exp-chi", "exp-chi"),
    ],
)
def test_kernels_that_do_not_do_are_refused_by_a_sentence(kernel, message):
    with pytest.raises(ValueError, match=message) as caught:
        HistogramGPClassifier(kernel, noise=0.1).fit(X, Y)
    assert str(caught.value).endswith(".")
    model = HistogramGPClassifier(KERNEL, noise=0.1).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.set_params(kernel=kernel).fit(X, Y)
    assert model.kernel_.n_components == M


@by_kind
def test_rows_and_columns_of_zeros(kind):
    A, kernel = X.copy(), ExpChi2(M, approximation=kind)
    A[:, 2] = 0
    A[5] = 0
    model = HistogramGPRegressor(KERNELS[kind], noise=0.1, normalize_y=False).fit(A, TARGETS)
    mean, covariance = posterior(model, np.full(N, NOISE), TARGETS, A, np.zeros((1, D)))
    np.testing.assert_allclose(model.predict(np.zeros((1, D))), mean, atol=1e-9)
    found = model.predict_variance(np.zeros((1, D)), include_noise=False)
    np.testing.assert_allclose(found, covariance.diagonal(), atol=1e-9)
    nothing = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(np.zeros((30, D)), np.ones(30))
    np.testing.assert_allclose(nothing.predict(np.zeros((2, D))), np.full(2, 30 / (30 + NOISE)))
    one = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X[:1], TARGETS[:1])
    np.testing.assert_allclose(one.predict(X[:1]), TARGETS[:1] / (1 + NOISE))


@by_kind
def test_units_do_not_matter(kind):
    kernel = ExpChi2(M, approximation=kind)
    model = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X, TARGETS)
    for unit in (2.0**-30, 2.0**30):
        other = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X * unit, TARGETS)
        np.testing.assert_allclose(other.predict(TEST * unit), model.predict(TEST), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("non_negative_blobs")
@parametrize_with_checks(
    [
        HistogramGPClassifier(ExpChi2(20), noise=0.1),
        HistogramGPRegressor(ExpChi2(20), noise=0.1, normalize_y=False),
        HistogramGPClassifier(ExpChi2(20, approximation="fourier"), noise=0.1),
        HistogramGPRegressor(ExpChi2(20, approximation="fourier"), noise=0.1, normalize_y=False),
        HistogramGPRegressor(ExpChi2(20, approximation="nystroem"), noise=0.1, normalize_y=False),
    ]
)
def test_common_checks(estimator, check):
    check(estimator)
