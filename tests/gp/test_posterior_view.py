"""The public view of a posterior against dense NumPy formulas."""

import numpy as np
import pytest
from oracles import histograms, kernel_matrix
from scipy import sparse
from sklearn.exceptions import NotFittedError

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.gp import VARIANCE_ESTIMATES, VARIANCE_METHODS, VARIANCE_TABLES, PosteriorView
from histogp.kernels import Chi2, ExpChi2, HistogramIntersection, Power

N, D, NOISE = 40, 6, 0.2
KERNEL = HistogramIntersection(Power(0.7))
X = histograms(N, D)
X_NEW = histograms(25, D, seed=5)
CODES = np.random.default_rng(1).integers(3, size=N)
WEIGHTS = np.random.default_rng(2).uniform(0.5, 2, N)


def classifier(codes=CODES, **options):
    return HistogramGPClassifier(KERNEL, noise=NOISE, solver="cholesky", **options).fit(X, codes)


def dense_covariance(A, B):
    inverse = np.linalg.inv(kernel_matrix(X, X, KERNEL) + NOISE * np.eye(N))
    return kernel_matrix(A, B, KERNEL) - kernel_matrix(A, X, KERNEL) @ inverse @ kernel_matrix(X, B, KERNEL)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.coo_array])
def test_means_and_variances_are_those_of_the_formulas(convert):
    posterior = classifier().posterior_
    targets = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
    means = kernel_matrix(X_NEW, X, KERNEL) @ np.linalg.solve(kernel_matrix(X, X, KERNEL) + NOISE * np.eye(N), targets)
    rows = convert(X_NEW)
    np.testing.assert_allclose(posterior.mean(rows), means, rtol=1e-9, atol=1e-12)
    variances = dense_covariance(X_NEW, X_NEW).diagonal()
    np.testing.assert_allclose(posterior.variance(rows), variances, rtol=1e-6)
    for found, expected in zip(posterior.mean_and_variance(rows), (means, variances), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("method", VARIANCE_METHODS)
def test_variances_are_those_of_predict_variance_without_noise(method):
    model = classifier()
    expected = model.predict_variance(X_NEW, method, include_noise=False)
    np.testing.assert_array_equal(model.posterior_.variance(X_NEW, method), expected)


def test_covariances_with_samples_of_reference():
    posterior = classifier().posterior_
    evaluate = posterior.covariances(X_NEW[:4])
    np.testing.assert_allclose(evaluate(X_NEW), dense_covariance(X_NEW, X_NEW[:4]), atol=1e-6)


def test_observations_take_variance_away():
    posterior = classifier().posterior_
    observations = posterior.observations(3)
    variances, known = posterior.variance(X_NEW), np.empty((25, 0))
    covariance = dense_covariance(X_NEW, X_NEW)
    for k in (3, 11, 3):
        observations.add(X_NEW[k : k + 1])
        known = observations.explained(X_NEW, known)
        column = covariance[:, k]
        covariance = covariance - np.outer(column, column) / (column[k] + NOISE)
    assert len(observations) == 3
    np.testing.assert_allclose(variances - np.sum(known**2, axis=1), covariance.diagonal(), rtol=1e-5)
    np.testing.assert_allclose(observations.explained(X_NEW), known, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "y", "shape"),
    [
        (HistogramGPClassifier(KERNEL, noise=0.1), np.array(list("abc"))[CODES], (3,)),
        (HistogramGPClassifier(KERNEL, noise=0.1), CODES > 0, ()),
        (HistogramGPRegressor(KERNEL, noise=0.1, normalize_y=True), 100 + 7 * X[:, 0], ()),
        (HistogramGPRegressor(KERNEL, noise=0.1, normalize_y=True), 100 + 7 * X[:, :1], (1,)),
        (HistogramGPRegressor(KERNEL, noise=0.1, normalize_y=False), X[:, :2], (2,)),
        (HistogramGPOneClass(KERNEL, noise=0.1, contamination=0.1), np.ones(N), ()),
    ],
)
def test_training_data_are_what_was_given(model, y, shape):
    posterior = model.fit(X, y, sample_weight=WEIGHTS).posterior_
    assert isinstance(posterior, PosteriorView)
    rows, labels, weights = posterior.training_data()
    np.testing.assert_array_equal(rows.toarray(), X)
    if y.dtype.kind == "f":
        np.testing.assert_allclose(labels, y, rtol=1e-12)
    else:
        np.testing.assert_array_equal(labels, y)
    np.testing.assert_allclose(weights, WEIGHTS, rtol=1e-12)
    assert posterior.output_shape == shape
    assert posterior.n_samples == N
    assert posterior.noise == model.noise_


def test_refit_is_a_fit_with_that_kernel_and_noise():
    model = HistogramGPClassifier(KERNEL, noise=NOISE).fit(X, CODES, sample_weight=WEIGHTS)
    other = HistogramIntersection(Power(1.3))
    expected = HistogramGPClassifier(other, noise=0.5).fit(X, CODES, sample_weight=WEIGHTS)
    found = model.posterior_.refit(other, 0.5)
    np.testing.assert_allclose(found.decision_function(X_NEW), expected.decision_function(X_NEW), rtol=1e-9)
    assert model.kernel_.transform.eta == 0.7
    assert model.noise_ == NOISE


def test_a_view_keeps_its_state():
    model = classifier()
    posterior = model.posterior_
    means = posterior.mean(X_NEW)
    model.partial_fit(X_NEW, np.zeros(25, int))
    model.set_params(prediction="quantized", n_bins=2)
    assert posterior.n_samples == N
    np.testing.assert_array_equal(posterior.mean(X_NEW), means)
    assert model.posterior_.n_samples == N + 25


def test_other_parameters_of_prediction():
    model = classifier(CODES > 0)
    quantized = model.posterior_.using(prediction="quantized", n_bins=10)
    assert model.prediction == "exact"
    expected = model.set_params(prediction="quantized", n_bins=10).decision_function(X_NEW)
    np.testing.assert_array_equal(quantized.mean(X_NEW)[:, 0], expected)


@pytest.mark.parametrize(
    ("kernel", "offered"),
    [
        (KERNEL, ["tables"]),
        (Chi2(), ["features"]),
        (ExpChi2(20), []),
        (ExpChi2(20, approximation="nystroem"), ["features"]),
        (ExpChi2(20, approximation="fourier"), ["features"]),
    ],
)
def test_what_a_model_offers(kernel, offered):
    posterior = HistogramGPClassifier(kernel, noise=0.1).fit(X, CODES).posterior_
    assert [what for what in ("tables", "features") if posterior.offers(what)] == offered
    with pytest.raises(ValueError, match="what must be one of 'tables', 'features'; got 'wings'"):
        posterior.offers("wings")


def test_what_is_prepared_and_what_is_left_without_training_samples(tmp_path):
    model = classifier(prediction="quantized")
    assert model.posterior_.includes_training
    assert model.posterior_.prepared == ()
    model.predict_variance(X_NEW, "sampled")
    assert model.posterior_.prepared == ("sampled",)
    model.save(tmp_path / "m", include_training=False)
    posterior = histogp.load(tmp_path / "m").posterior_
    assert not posterior.includes_training
    assert posterior.prepared == ("sampled",)
    assert posterior.quick_method == "sampled"
    assert posterior.output_shape == (3,)
    np.testing.assert_array_equal(posterior.variance(X_NEW), model.posterior_.variance(X_NEW, "sampled"))
    for refused in (
        posterior.training_data,
        lambda: posterior.observations(1),
        lambda: posterior.covariances(X_NEW),
        lambda: posterior.refit(KERNEL, 1.0),
    ):
        with pytest.raises(ValueError, match="without its training samples"):
            refused()


def test_before_a_fit_there_is_none():
    model = HistogramGPClassifier("hik", noise=0.1)
    assert not hasattr(model, "posterior_")
    with pytest.raises(NotFittedError):
        model.posterior_  # noqa: B018


def test_names_of_methods():
    assert set(VARIANCE_TABLES) < set(VARIANCE_METHODS)
    assert set(VARIANCE_ESTIMATES) < set(VARIANCE_METHODS)


def test_only_parameters_of_prediction_can_be_other_ones():
    model = classifier()
    with pytest.raises(ValueError, match="'kernel__weights' does not count when predicting; prediction, "):
        model.posterior_.using(kernel__weights=7.0)
