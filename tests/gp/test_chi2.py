"""Gaussian processes with the chi-squared kernel against the dense formulas with its features."""

import copy
import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from chi2_features import features
from discovery import all_estimators
from kernel_operators import FixedChi2, map_of
from oracles import Answer, alike, chi2_kernel, histograms
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor, Optimizer
from histogp.active import pool, query
from histogp.kernels import Chi2, HistogramIntersection

pytestmark = pytest.mark.portable

N, D = 90, 5
X = histograms(N, D)
TEST = histograms(30, D, seed=9) * 1.5
RNG = np.random.default_rng(0)
CODES = RNG.integers(3, size=N)
Y = np.array(["ash", "birch", "elm"])[CODES]
TARGETS = X @ RNG.standard_normal(D) + 3
SAMPLE = RNG.uniform(0.5, 2, N)
NOISE = 0.1
# Fifteen features: more rows than that are solved in their space, fewer in that of the rows.
WAYS = {
    "primal": (N, {"noise": NOISE}),
    "primal by name": (N, {"noise": NOISE, "solver": "cholesky"}),
    "dual": (12, {"noise": NOISE}),
    "cg": (N, {"noise": NOISE, "solver": "cg", "tol": 1e-10}),
    "cg with few rows": (12, {"noise": NOISE, "solver": "cg", "tol": 1e-10}),
}
by_way = pytest.mark.parametrize("way", WAYS)


def gram(model, A, B, weights=None):
    """The kernel that the model approximates with."""
    points = map_of(model).points
    return features(A, points, weights) @ features(B, points, weights).T


def posterior(model, noise, targets, X=X):
    """Means, and the covariance of the latent function, of the test rows."""
    A = gram(model, X, X) + np.diag(noise)
    k = gram(model, X, TEST)
    return k.T @ np.linalg.solve(A, targets), gram(model, TEST, TEST) - k.T @ np.linalg.solve(A, k)


def density(K, noise, targets):
    return sum(multivariate_normal(np.zeros(len(K)), K + np.diag(noise)).logpdf(y) for y in targets.T)


def signs(codes=CODES):
    return np.where(codes[:, None] == np.arange(3), 1.0, -1.0)


@by_way
def test_a_classifier_is_the_dense_process(way):
    n, options = WAYS[way]
    model = HistogramGPClassifier("chi2", **options).fit(X[:n], Y[:n], SAMPLE[:n])
    noise = NOISE / SAMPLE[:n]
    mean, covariance = posterior(model, noise, signs()[:n], X[:n])
    np.testing.assert_allclose(model.decision_function(TEST), mean, atol=1e-8)
    np.testing.assert_array_equal(model.predict(TEST), np.array(["ash", "birch", "elm"])[mean.argmax(axis=1)])
    latent = model.predict_variance(TEST, include_noise=False)
    np.testing.assert_allclose(latent, covariance.diagonal(), atol=1e-8)
    np.testing.assert_allclose(model.predict_variance(TEST), latent + NOISE)
    prior = gram(model, TEST, TEST).diagonal()
    np.testing.assert_allclose(model.novelty(TEST), covariance.diagonal() / prior, atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(TEST).sum(axis=1), 1)
    K = gram(model, X[:n], X[:n])
    assert model.log_marginal_likelihood(method="exact") == pytest.approx(density(K, noise, signs()[:n]), rel=1e-9)
    assert model.log_marginal_likelihood() == pytest.approx(density(K, noise, signs()[:n]), rel=1e-9)


@by_way
def test_label_dependent_noise(way):
    n, options = WAYS[way]
    model = HistogramGPClassifier("chi2", class_weight="balanced-ovr", **options).fit(X[:n], Y[:n])
    own = CODES[:n, None] == np.arange(3)
    share = own.mean(axis=0)
    noises = 2 * NOISE * np.where(own, share, 1 - share)
    found = [posterior(model, noise, y, X[:n]) for noise, y in zip(noises.T, signs()[:n].T, strict=True)]
    np.testing.assert_allclose(model.decision_function(TEST), np.stack([mean for mean, _ in found], 1), atol=1e-8)
    variances = np.stack([covariance.diagonal() for _, covariance in found], axis=1)
    each = model.predict_variance(TEST, include_noise=False, per_class=True)
    np.testing.assert_allclose(each, variances, atol=1e-8)
    _, largest = posterior(model, noises.max(axis=1), signs()[:n], X[:n])
    np.testing.assert_allclose(model.predict_variance(TEST, include_noise=False), largest.diagonal(), atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(TEST).sum(axis=1), 1)
    expected = sum(
        density(gram(model, X[:n], X[:n]), d, y[:, None]) for d, y in zip(noises.T, signs()[:n].T, strict=True)
    )
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)


@by_way
@pytest.mark.parametrize("several", [False, True])
def test_a_regressor_is_the_dense_process(way, several):
    n, options = WAYS[way]
    y = np.stack([TARGETS, TARGETS**2], axis=1)[:n] if several else TARGETS[:n]
    model = HistogramGPRegressor("chi2", normalize_y=True, **options).fit(X[:n], y, SAMPLE[:n])
    center, scale = np.average(y, axis=0, weights=SAMPLE[:n]), model._codec.unit
    mean, covariance = posterior(model, NOISE / SAMPLE[:n], (y - center) / scale, X[:n])
    observed = covariance + NOISE * np.eye(len(TEST))
    found, cov = model.predict(TEST, return_cov=True)
    np.testing.assert_allclose(found, mean * scale + center, atol=1e-8)
    np.testing.assert_allclose(cov, np.multiply.outer(observed, scale**2), atol=1e-8)
    _, std = model.predict(TEST, return_std=True)
    np.testing.assert_allclose(std**2, np.multiply.outer(observed.diagonal(), scale**2), atol=1e-8)
    assert model.sample_y(TEST, 3).shape == (len(TEST), 2, 3) if several else (len(TEST), 3)


@pytest.mark.parametrize(("way", "criterion"), [("primal", "variance"), ("dual", "ratio"), ("cg", "mean")])
def test_a_one_class_model_is_the_dense_process(way, criterion):
    n, options = WAYS[way]
    model = HistogramGPOneClass("chi2", criterion=criterion, **options).fit(X[:n])
    mean, covariance = posterior(model, np.full(n, NOISE), np.ones(n), X[:n])
    variance = covariance.diagonal()
    expected = {"variance": -variance, "mean": mean, "ratio": mean / np.sqrt(variance + NOISE)}[criterion]
    np.testing.assert_allclose(model.score_samples(TEST), expected, atol=1e-8)


@by_way
def test_leaving_one_out_is_a_fit_without_it(way):
    n, options = WAYS[way]
    model = HistogramGPClassifier("chi2", **options).fit(X[:n], Y[:n], SAMPLE[:n])
    without = model._posterior.leave_one_out(model._variance_options())
    index, means, latent = without.index, without.means, without.variances
    np.testing.assert_array_equal(index, np.arange(n))
    for i in (0, 5, 11):
        left = np.delete(np.arange(n), i)
        A = gram(model, X[left], X[left]) + np.diag(NOISE / SAMPLE[left])
        k = gram(model, X[left], X[[i]])
        np.testing.assert_allclose(means[i], (k.T @ np.linalg.solve(A, signs()[left]))[0], atol=1e-7)
        expected = gram(model, X[[i]], X[[i]]) - k.T @ np.linalg.solve(A, k)
        np.testing.assert_allclose(latent[i], expected[0], atol=1e-7)


def test_dirichlet_probabilities_sum_to_one():
    model = HistogramGPClassifier("chi2", noise=0.1, probability="dirichlet", random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(TEST).sum(axis=1), 1)


@pytest.mark.parametrize("weights", [None, 2.0, np.linspace(0, 3, D)], ids=["none", "one", "each"])
def test_predictions_approach_those_of_the_exact_kernel(weights):
    w = 1.0 if weights is None else np.broadcast_to(weights, D)
    K, k = chi2_kernel(X * w, X * w), chi2_kernel(X * w, TEST * w)
    np.testing.assert_allclose(Chi2(weights=weights)(X, TEST), k)
    A = K + NOISE * np.eye(N)
    mean = k.T @ np.linalg.solve(A, TARGETS)
    variance = chi2_kernel(TEST * w, TEST * w).diagonal() - np.einsum("ij,ij->j", k, np.linalg.solve(A, k))
    errors = []
    for n_terms in (1, 3, 6, 12):
        model = HistogramGPRegressor(Chi2(n_terms, weights=weights), noise=0.1, normalize_y=False).fit(X, TARGETS)
        off = (
            np.abs(model.predict(TEST) - mean).max(),
            np.abs(model.predict_variance(TEST, include_noise=False) - variance).max(),
        )
        errors.append(max(off))
    assert errors[-1] < 2e-3
    assert all(later < earlier / 5 for earlier, later in pairwise(errors))


def test_as_many_components_as_meet_the_tolerance():
    n_terms = []
    for tol in (0.1, 1e-2, 1e-4):
        model = HistogramGPClassifier(Chi2("auto", tol=tol), noise=0.1).fit(X, Y)
        n_terms.append(model.kernel_.n_terms)
        values = [X[X[:, d] > 0, d] for d in range(D)]
        off = kernel = 0.0
        for d, x in enumerate(values):
            Z = features(x[:, None], map_of(model).points[:, [d]])
            exact = chi2_kernel(x[:, None], x[:, None])
            off, kernel = off + np.abs(exact - Z @ Z.T).sum(), kernel + exact.sum()
        assert off < 2 * tol * kernel
    assert n_terms == sorted(set(n_terms))


def test_a_model_of_many_examples_keeps_its_points(monkeypatch):
    kernel = Chi2(4, weights=2.0)
    model = HistogramGPClassifier(kernel, noise=0.1).fit(X, Y)
    assert model.kernel is kernel
    assert model.kernel_.get_params() == kernel.get_params()
    points = map_of(model).points
    assert points.shape == (4, D)
    few = copy.deepcopy(model).partial_fit(TEST, Y[: len(TEST)])
    assert np.abs(map_of(few).points - points).max() > 1e-3
    monkeypatch.setattr("histogp.kernels.chi_squared.MOST_ADAPTED_SAMPLES", N)  # from here on samples are many
    model.partial_fit(TEST, Y[: len(TEST)]).forget([0, 1])
    assert map_of(model).points is points
    again = HistogramGPClassifier(model.kernel_, noise=0.1).fit(TEST, Y[: len(TEST)])
    assert not np.any(map_of(again).points == points)  # a fit chooses its own


MAKE = {
    "classifier": (partial(HistogramGPClassifier, noise=NOISE), Y),
    "balanced": (partial(HistogramGPClassifier, noise=NOISE, class_weight="balanced-ovr"), Y),
    "regressor": (partial(HistogramGPRegressor, noise=NOISE, normalize_y=True), TARGETS),
    "one class": (partial(HistogramGPOneClass, noise=NOISE, contamination=0.1), np.ones(N)),
}


def assert_same(model, other, atol=1e-7):
    np.testing.assert_allclose(model.predict_variance(TEST), other.predict_variance(TEST), atol=atol)
    scores = "decision_function" if hasattr(model, "decision_function") else "predict"
    np.testing.assert_allclose(getattr(model, scores)(TEST), getattr(other, scores)(TEST), atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"solver": "cg", "tol": 1e-10}], ids=["factors", "cg"])
@pytest.mark.parametrize("name", MAKE)
def test_what_is_learnt_piece_by_piece_is_a_fit_with_the_same_points(name, options):
    """From fewer rows than features to more, and back."""
    make, y = MAKE[name]
    model = make("chi2", random_state=0, **options)
    begin = 0
    for end in (10, 13, 14, 15, 16, 60, N):
        model.partial_fit(X[begin:end], y[begin:end], sample_weight=SAMPLE[begin:end])
        begin = end
    fresh = partial(make, FixedChi2(map_of(model).points), random_state=0, **options)
    assert_same(model, fresh().fit(X, y, sample_weight=SAMPLE))
    model.forget(np.arange(20, N))
    assert_same(model, fresh().fit(X[:20], y[:20], sample_weight=SAMPLE[:20]))
    model.forget(np.arange(8, 20))
    assert_same(model, fresh().fit(X[:8], y[:8], sample_weight=SAMPLE[:8]))


def test_relabeling_and_late_classes():
    model = HistogramGPClassifier("chi2", noise=0.1).fit(X[:60], Y[:60])
    right = Y.astype("<U6")
    right[[3, 5]], right[60:] = "ash", "fir"
    model.relabel([5, 3], right[[5, 3]]).partial_fit(X[60:], right[60:])
    assert "fir" in model.classes_
    assert_same(model, HistogramGPClassifier(FixedChi2(map_of(model).points), noise=0.1).fit(X, right))
    regressor = HistogramGPRegressor("chi2", noise=0.1, normalize_y=False).fit(X, TARGETS).relabel([4, 2], [1.0, 2.0])
    changed = TARGETS.copy()
    changed[[4, 2]] = 1.0, 2.0
    assert_same(
        regressor,
        HistogramGPRegressor(FixedChi2(map_of(regressor).points), noise=0.1, normalize_y=False).fit(X, changed),
    )


@pytest.mark.parametrize("n", [N, 12])
def test_the_search_ends_where_the_dense_likelihood_is_largest(n):
    rng = np.random.default_rng(3)
    points = map_of(HistogramGPRegressor("chi2", noise=0.1, normalize_y=False).fit(X[:n], TARGETS[:n])).points
    K = features(X[:n], points) @ features(X[:n], points).T
    y = rng.multivariate_normal(np.zeros(n), 3 * K + 0.2 * np.eye(n))
    options = Optimizer("gradient", prior_width=None)
    model = HistogramGPRegressor(Chi2(), normalize_y=False, optimize=options, random_state=0).fit(X[:n], y)

    def negative(theta):
        return -density(np.exp(theta[0]) * K, np.full(n, np.exp(theta[1])), y[:, None])

    oracle = minimize(negative, [0.0, np.log(0.1)], method="Nelder-Mead", options={"fatol": 1e-8, "xatol": 1e-6})
    assert -model.log_marginal_likelihood_ == pytest.approx(oracle.fun, abs=0.01)
    assert model.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood_)
    if n == N:
        np.testing.assert_allclose(np.log([model.kernel_.scale, model.noise_]), oracle.x, atol=0.1)


def test_every_weight_is_where_the_likelihood_is_stationary():
    y = 4 * np.sqrt(X[:, 1]) + np.random.default_rng(1).normal(0, 0.1, N)
    options = Optimizer("gradient", prior_width=None, sparsity=0)
    model = HistogramGPRegressor(Chi2(weights="ard"), normalize_y=False, optimize=options, random_state=0).fit(
        X, y - y.mean()
    )
    weights = np.asarray(model.kernel_.weights)

    def value(weights, noise):
        Z = features(X, map_of(model).points, weights)
        return density(Z @ Z.T, np.full(N, noise), (y - y.mean())[:, None])

    best = value(weights, model.noise_)
    for d in range(D):
        for factor in (0.8, 1.25):
            changed = weights.copy()
            changed[d] *= factor
            assert value(changed, model.noise_) < best + 0.05
    for factor in (0.8, 1.25):
        assert value(weights, factor * model.noise_) < best + 0.05


def test_relevance_finds_planted_features():
    rng = np.random.default_rng(5)
    A = rng.gamma(1.0, size=(300, 10))
    codes = (A[:, 2] + A[:, 7] > 2).astype(int)
    model = HistogramGPClassifier(Chi2(weights="ard"), optimize="gradient", random_state=0).fit(A, codes)
    assert set(np.argsort(-model.feature_relevance_)[:2]) == {2, 7}
    assert model.feature_relevance_[[2, 7]].sum() > 0.6
    assert model.score(A, codes) > 0.9
    grouped = Chi2(weights="ard", groups=["ab"[d in (2, 7)] for d in range(10)])
    model = HistogramGPClassifier(grouped, optimize="gradient", random_state=0).fit(A, codes)
    assert np.shape(model.kernel_.weights) == (2,)
    assert model.feature_relevance_[[2, 7]].sum() > 0.6


@pytest.mark.parametrize("method", ["bound", "quadrature"])
def test_other_ways_to_the_likelihood(method):
    model = HistogramGPClassifier("chi2", noise=0.1, random_state=0).fit(X, Y)
    exact = model.log_marginal_likelihood(method="exact")
    found, error = model.log_marginal_likelihood(method=method, return_error=True)
    assert found <= exact + 1e-9 * abs(exact) if method == "bound" else abs(found - exact) < 5 * error


def test_the_likelihood_at_other_weights_and_noise():
    model = HistogramGPClassifier("chi2", noise=0.1).fit(X, Y)
    weights = np.linspace(0, 2, D)
    Z = features(X, map_of(model).points, weights)
    expected = density(Z @ Z.T, np.full(N, 0.3), signs())
    assert model.log_marginal_likelihood(Chi2(weights=weights), 0.3) == pytest.approx(expected, rel=1e-10)
    with pytest.raises(ValueError, match="another kind"):
        model.log_marginal_likelihood("hik")


def test_the_likelihood_of_another_model_with_this_kernel_is_refused():
    with pytest.raises(ValueError, match="kind"):
        HistogramGPClassifier("hik", noise=0.1).fit(X, Y).log_marginal_likelihood("chi2")


@pytest.mark.parametrize("n", [N, 12])
@pytest.mark.parametrize("name", MAKE)
def test_a_loaded_model_is_the_same_and_goes_on_learning(name, n, tmp_path):
    make, y = MAKE[name]
    model = make(Chi2(weights=np.linspace(0, 2, D)), random_state=0).fit(X[:n], y[:n], sample_weight=SAMPLE[:n])
    model.save(tmp_path / "m")
    loaded = histogp.load(tmp_path / "m")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    for method in ("decision_function", "predict", "predict_variance", "predict_proba", "score_samples"):
        if hasattr(model, method):
            alike(getattr(loaded, method)(TEST), getattr(model, method)(TEST))
    np.testing.assert_array_equal(map_of(loaded).points, map_of(model).points)
    assert loaded.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood(), rel=1e-10)
    assert repr(loaded) == repr(model)
    for one in (model, loaded):
        one.partial_fit(TEST, y[: len(TEST)])
    assert_same(loaded, model)


@pytest.mark.parametrize("n", [N, 12])
@pytest.mark.parametrize("name", ["classifier", "regressor", "one class"])
def test_a_model_without_its_examples_predicts_alike_and_learns_no_more(name, n, tmp_path):
    make, y = MAKE[name]
    model = make("chi2", random_state=0).fit(X[:n], y[:n], sample_weight=SAMPLE[:n])
    model.save(tmp_path / "m", include_training=False)
    loaded = histogp.load(tmp_path / "m")
    assert_same(loaded, model, atol=1e-9)
    if name == "classifier":
        np.testing.assert_allclose(loaded.predict_proba(TEST), model.predict_proba(TEST))
    with pytest.raises(ValueError, match="without its training samples"):
        loaded.partial_fit(TEST, y[: len(TEST)])


def test_quantized_prediction_is_refused_by_a_sentence():
    with pytest.raises(ValueError, match=r'^prediction="quantized" needs tables.*\.$'):
        HistogramGPClassifier("chi2", noise=0.1, prediction="quantized").fit(X, Y)
    model = HistogramGPClassifier("chi2", noise=0.1).fit(X, Y).set_params(prediction="quantized")
    with pytest.raises(ValueError, match=r'^prediction="quantized" needs tables.*\.$'):
        model.predict(TEST)
    with pytest.raises(ValueError, match=r'^prediction="quantized" needs tables'):
        model.quantization_error_bound()
    model.set_params(prediction="exact").predict(TEST)


@pytest.mark.parametrize("n", [N, 300])
def test_variances(n):
    A = histograms(n, D, seed=4)
    model = HistogramGPRegressor("chi2", noise=0.1, normalize_y=False).fit(A, A[:, 1])
    precise = model.predict_variance(TEST)
    np.testing.assert_array_equal(model.predict_variance(TEST, "calibrated"), precise)
    assert model.variance_error_ == 0
    fine = model.predict_variance(TEST, "fine", n_eigenvectors=[2, 10])
    assert np.all(fine >= precise[:, None] - 1e-9)
    for method in ("coarse", "coarse-quantized", "sampled"):
        with pytest.raises(ValueError, match=rf'^The variance "{method}" needs tables.*\.$'):
            model.predict_variance(TEST, method)


def test_a_one_class_model_by_a_refused_variance_is_left_as_it_was():
    with pytest.raises(ValueError, match=r'^The variance "sampled" needs tables'):
        HistogramGPOneClass("chi2", noise=0.1, contamination=0.1, method="sampled").fit(X)


@pytest.mark.parametrize("strategy", ["uncertainty", "variance", "batch-uncertainty", "batch-variance", "random"])
def test_questions_what_to_label_next(strategy):
    model = HistogramGPClassifier("chi2", noise=0.1).fit(X[:40], Y[:40])
    chosen, utilities = query(model, X[40:], strategy, 5, random_state=0, return_utilities=True)
    assert len(set(chosen)) == len(utilities) == 5
    if strategy == "variance":
        variances = model.predict_variance(X[40:])
        np.testing.assert_array_equal(np.sort(chosen), np.sort(np.argsort(-variances)[:5]))


def test_questions_to_a_large_pool(monkeypatch):
    monkeypatch.setattr(pool, "MANY_CANDIDATES", 10)
    A = histograms(300, D, seed=4)
    model = HistogramGPClassifier("chi2", noise=0.1).fit(A, A[:, 1] > A[:, 2])
    assert len(query(model, X, "uncertainty", 5)) == 5


def test_grid_search_reaches_the_number_of_components():
    search = GridSearchCV(
        HistogramGPClassifier("chi2", noise=0.1), {"kernel__n_terms": [1, 3], "noise": [0.01, 1.0]}, cv=3
    )
    search.fit(X, X[:, 1] > X[:, 2])
    assert len(map_of(search.best_estimator_).points) == search.best_params_["kernel__n_terms"]


@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
def test_every_container_gives_the_same_model(make):
    y = Y if make is HistogramGPClassifier else TARGETS
    expected = make("chi2").fit(X, y)
    for data in (sparse.csr_array(X), sparse.coo_matrix(X), pd.DataFrame(X), np.asfortranarray(X), X.tolist()):
        model = make("chi2").fit(data, y)
        alike(model.predict_variance(data), expected.predict_variance(X))
        alike(model.predict(data), expected.predict(X))
    for twin in (pickle.loads(pickle.dumps(expected)), copy.deepcopy(expected)):
        alike(twin.predict(TEST), expected.predict(TEST))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Chi2(0), "n_terms must be"),
        (Chi2("many"), "n_terms must be"),
        (Chi2("auto", tol=0), "tol must be"),
        (Chi2(weights=-1.0), "weights must not be negative"),
        (Chi2(weights="much"), "weights must be"),
        (Chi2(weights=1.0, groups=[0, 1]), "groups must name"),
        ("chi", "chi"),
    ],
)
def test_kernels_that_do_not_do_are_refused_by_a_sentence(kernel, message):
    with pytest.raises(ValueError, match=message) as caught:
        HistogramGPClassifier(kernel, noise=0.1).fit(X, Y)
    assert str(caught.value).endswith(".")


def test_rows_of_zeros_and_columns_of_zeros():
    A = X.copy()
    A[:, 2] = 0
    A[5] = 0
    model = HistogramGPRegressor("chi2", noise=0.1, normalize_y=False).fit(A, TARGETS)
    assert np.isfinite(model.predict(A)).all()
    assert model.predict_variance(np.zeros((1, D)), include_noise=False) == 0
    nothing = HistogramGPRegressor("chi2", noise=0.1, normalize_y=False).fit(np.zeros((20, D)), np.ones(20))
    np.testing.assert_array_equal(nothing.predict(TEST[:0:-1]) * 0, np.zeros(len(TEST) - 1))


def test_units_do_not_matter_beyond_those_of_the_kernel():
    model = HistogramGPRegressor("chi2", noise=0.1, normalize_y=False).fit(X, TARGETS)
    for unit in (1e-8, 1e8):
        other = HistogramGPRegressor(Chi2(weights=1 / unit), noise=0.1, normalize_y=False).fit(X * unit, TARGETS)
        np.testing.assert_allclose(other.predict(TEST * unit), model.predict(TEST), rtol=1e-4)
    assert not isinstance(model.kernel_, HistogramIntersection)


@pytest.mark.slow
@pytest.mark.usefixtures("non_negative_blobs")
@parametrize_with_checks(
    [HistogramGPClassifier("chi2", noise=0.1), HistogramGPRegressor("chi2", noise=0.1, normalize_y=False)]
)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-12])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_mean_keeps_its_digits_with_little_noise(noise, tmp_path):
    model = HistogramGPRegressor("chi2", normalize_y=False, noise=noise).fit(X, np.sin(4 * X[:, 0]))
    Z, Z_test = (features(A, map_of(model).points) for A in (X, TEST))
    weights = np.linalg.solve(noise * np.eye(15) + Z.T @ Z, Z.T @ np.sin(4 * X[:, 0]))
    np.testing.assert_allclose(model.predict(TEST), Z_test @ weights, rtol=1e-6, atol=1e-9)
    model.save(tmp_path / "m")
    alike(histogp.load(tmp_path / "m").predict(TEST), model.predict(TEST))
    alike(pickle.loads(pickle.dumps(model)).predict(TEST), model.predict(TEST))


def test_probabilities_with_more_features_than_rows_and_many_rows(monkeypatch):
    wide = np.random.default_rng(0).random((330, 120))
    labels = wide[:, 0] > wide[:, 1]
    exact = HistogramGPClassifier("chi2", noise=0.1, random_state=0).fit(wide, labels).predict_proba(wide[:9])
    factors_pay = Answer(False)
    monkeypatch.setattr("histogp._core.solvers.factors_pay", factors_pay)
    monkeypatch.setattr("histogp._core.solvers.LARGEST_FACTOR", 329)
    model = HistogramGPClassifier("chi2", noise=0.1, random_state=0, tol=1e-8).fit(wide, labels)
    assert factors_pay.n_calls >= 1
    assert model.n_iter_ > 1
    found = model.predict_proba(wide[:9])
    np.testing.assert_allclose(found, exact, atol=0.02)
    assert not np.array_equal(found, exact)


def test_points_are_chosen_again_while_examples_are_few():
    model = HistogramGPClassifier("chi2", noise=0.1).partial_fit(X[:2], Y[:2]).partial_fit(X[2:], Y[2:])
    whole = HistogramGPClassifier("chi2", noise=0.1).fit(X, Y)
    np.testing.assert_array_equal(map_of(model).points, map_of(whole).points)
    np.testing.assert_allclose(model.decision_function(TEST), whole.decision_function(TEST), atol=1e-9)
