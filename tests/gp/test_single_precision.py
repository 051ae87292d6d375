"""Where numbers are rounded to single precision for speed: features of many samples, and searches by a matrix."""

import numpy as np
import pytest
from oracles import histograms

import histogp
from histogp import HistogramGPClassifier, HistogramGPRegressor, Optimizer
from histogp._core.operators import pair_kernels, pair_operators
from histogp._core.solvers import factors
from histogp.kernels import ExpChi2, Gaussian, HistogramIntersection, Laplacian, Sum

pytestmark = pytest.mark.portable
X, TEST = histograms(400, 5), histograms(50, 5, seed=3)
Y = np.sin(9 * X[:, 0]) + X[:, 1] - 3 * X[:, 2] * X[:, 3]
KERNELS = {
    "landmarks": Laplacian(approximation="nystroem", n_components=60),
    "smooth landmarks": Gaussian(approximation="nystroem", n_components=60),
    "waves": Gaussian(approximation="fourier", n_components=60),
    "chi2 waves": ExpChi2(60, approximation="fourier"),
    "sum": Sum([HistogramIntersection(), Laplacian()], approximation="nystroem", n_components=60),
}
by_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))


def fitted(kernel, noise=0.1, X=X, **options):
    return HistogramGPRegressor(kernel, noise=noise, normalize_y=False, **options).fit(X, Y)


@pytest.fixture
def rounded(monkeypatch):
    """A function that fits a model whose features are in single precision, however few they are."""

    def fit(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(pair_operators, "MOST_DOUBLE_FEATURES", 0)
            model = fitted(*arguments, **options)
        assert model._posterior.operator.dtype == np.float32
        return model

    return fit


@by_kernel
@pytest.mark.parametrize("noise", [0.1, 1e-3])
def test_rounded_features_answer_as_exact_ones(kernel, noise, rounded):
    """Landmarks in double precision are the oracle; rounding is a millionth of the features."""
    expected, model = fitted(kernel, noise), rounded(kernel, noise)
    scale = np.abs(expected.predict(TEST)).max()
    np.testing.assert_allclose(model.predict(TEST), expected.predict(TEST), atol=1e-4 * scale)
    variances = [one.predict_variance(TEST, include_noise=False) for one in (model, expected)]
    np.testing.assert_allclose(*variances, rtol=0.01)
    assert model.residual_.max() < 1e-6


@by_kernel
def test_with_tiny_noise_products_are_in_double_precision(kernel, rounded):
    expected, model = fitted(kernel, 1e-7), rounded(kernel, 1e-7)
    scale = np.abs(expected.predict(TEST)).max()
    np.testing.assert_allclose(model.predict(TEST), expected.predict(TEST), atol=0.01 * scale)
    assert np.all(np.isfinite(model.predict_variance(TEST)))


@pytest.mark.parametrize("failure", ["factor", "refinement"])
def test_where_rounding_is_too_much_products_are_made_again(failure, rounded, monkeypatch):
    """The limit on rounding is taken away, so that a factor fails, or its refinement."""
    monkeypatch.setattr(factors, "MOST_GRAM_ROUNDING", np.inf)
    asked = []
    gram = factors.weighted_gram

    def counted(*arguments, single=True, **options):
        asked.append(single)
        found = gram(*arguments, single=single, **options)
        if single and failure == "factor":
            found.gram[np.diag_indices_from(found.gram)] = -2.0
        if single and failure == "refinement":
            found.gram[:] *= 0.01
        return found

    monkeypatch.setattr(factors, "weighted_gram", counted)
    kernel = KERNELS["landmarks"]
    model = rounded(kernel)
    assert {True, False} <= set(asked)
    monkeypatch.undo()
    np.testing.assert_allclose(model.predict(TEST), fitted(kernel).predict(TEST), atol=1e-4)


@by_kernel
def test_files_predict_as_the_model_does(kernel, rounded, tmp_path):
    model = rounded(kernel)
    for include_training in (True, False):
        model.save(tmp_path / "model", include_training=include_training)
        loaded = histogp.load(tmp_path / "model")
        np.testing.assert_allclose(loaded.predict(TEST), model.predict(TEST), rtol=1e-7)
        variances = [one.predict_variance(TEST) for one in (loaded, model)]
        np.testing.assert_allclose(*variances, rtol=1e-4)


def test_updates_equal_a_fit(rounded, monkeypatch):
    kernel = Laplacian(unit=0.5, approximation="nystroem", n_components=400)
    monkeypatch.setattr(pair_operators, "MOST_DOUBLE_FEATURES", 0)
    model = HistogramGPRegressor(kernel, normalize_y=False, noise=0.1, random_state=0).fit(X[:350], Y[:350])
    model.partial_fit(X[350:], Y[350:])
    assert model._posterior.operator.dtype == np.float32
    np.testing.assert_allclose(model.predict(TEST), fitted(kernel).predict(TEST), atol=1e-3)


@pytest.mark.parametrize("unit", [1e-24, 1e-44, 1e21, 1e40])
@pytest.mark.parametrize("name", ["landmarks", "smooth landmarks", "waves"])
def test_rounded_features_of_any_magnitude(name, unit, rounded):
    expected = rounded(KERNELS[name])
    model = rounded(KERNELS[name], X=X * unit)
    np.testing.assert_allclose(model.predict(TEST * unit), expected.predict(TEST), atol=2e-3)


@pytest.mark.parametrize("unit", [1e-24, 1e-44, 1e21, 1e40])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Gaussian() + Laplacian()], ids=str)
def test_searches_by_leave_one_out_of_any_magnitude(kernel, unit):
    """Their matrix is in single precision, which cannot hold such numbers, or their squares."""
    labels = np.median(Y) < Y
    losses = []
    for factor in (1.0, unit):
        model = HistogramGPClassifier(kernel, optimize=Optimizer(criterion="loo"), random_state=0)
        losses.append(model.fit(X * factor, labels).optimization_path_["loss"].min())
    # Rounding leads 18 steps to slightly different places.
    assert losses[1] == pytest.approx(losses[0], rel=5e-3)


def test_rows_far_from_all_others_are_known_to_be_far():
    """In single precision, by a unit of the training samples that the test rows exceed by far."""
    model = HistogramGPRegressor(Gaussian(), noise=0.1, normalize_y=False, prediction="quantized", random_state=0).fit(
        X, Y
    )
    np.testing.assert_allclose(model.predict(TEST * 1e25), 0.0, atol=1e-6)


@pytest.mark.parametrize("deviation", [0.0, 1e-3, 1e-2])
def test_a_search_by_evidence_finds_little_noise(deviation):
    rng = np.random.default_rng(0)
    X = rng.random((700, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + deviation * rng.standard_normal(len(X))
    found = {}
    for method in ("gradient", "exact"):
        model = HistogramGPRegressor(Gaussian(), normalize_y=True, optimize=method, random_state=0).fit(X, y)
        found[method] = model.log_marginal_likelihood_
    assert found["gradient"] == pytest.approx(found["exact"], abs=3.0)


def test_derivatives_for_many_heights_are_rounded_to_a_millionth(monkeypatch):
    kernel = Sum([HistogramIntersection(), Laplacian(unit=0.5), Gaussian(unit=0.3)], weights=np.linspace(0.5, 2, 5))
    adapted = kernel._adapt(X)
    upstream = np.random.default_rng(0).standard_normal((len(X), len(X)))
    upstream += upstream.T
    found = []
    for most in (2**60, 0):
        monkeypatch.setattr(pair_kernels, "MOST_DOUBLE_SLOPES", most)
        operator = adapted.kernel._operator(adapted.value, X, 2)
        heights = operator.measured()._heights_by_column()[0]
        assert heights.dtype == (np.float64 if most else np.float32)
        found.append(operator.matrix_gradient(upstream))
    for name, exact in found[0].items():
        np.testing.assert_allclose(found[1][name], exact, atol=1e-5 * np.abs(exact).max())


def test_a_pickle_does_not_grow_by_predictions():
    import pickle

    model = HistogramGPRegressor(Gaussian(), noise=0.1, normalize_y=False, prediction="quantized", random_state=0).fit(
        X, Y
    )
    model.predict(TEST)
    before = len(pickle.dumps(model))
    model.predict(np.vstack([TEST] * 3))
    assert len(pickle.dumps(model)) <= before + 1000
