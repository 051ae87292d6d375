"""Quantized prediction against exact prediction, and its error against every bound."""

import numpy as np
import pytest
from discovery import all_transforms
from hypothesis import given
from hypothesis import strategies as st
from oracles import Log, histograms, kernel_matrix
from scipy import sparse
from sklearn.datasets import load_digits

from histogp import HistogramGPClassifier, HistogramGPRegressor
from histogp.kernels import Exponential, HistogramIntersection, Power

X = histograms(150, 8)
Y2, Y3 = (X[:, 1] > 0.1).astype(int), np.argmax(X[:, 1:4], axis=1)
TEST = np.vstack([histograms(200, 8, seed=9), histograms(50, 8, seed=10) * 5])
KERNELS = [
    HistogramIntersection(),
    HistogramIntersection(Power(0.25)),
    HistogramIntersection(Power(np.linspace(0.3, 2, 8)), np.linspace(0, 3, 8)),
    HistogramIntersection(Exponential(2.0)),
    HistogramIntersection(Log()),
    *(HistogramIntersection(make()) for make in all_transforms()),
]


def scores(clf, X, **parameters):
    return clf.set_params(**parameters).decision_function(X)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("y", [Y2, Y3])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_every_bound_that_assumes_nothing_holds(kernel, y, container):
    clf = HistogramGPClassifier(kernel, noise=0.05).fit(container(X), y)
    exact = scores(clf, container(TEST))
    for value_range in (None, 0.3, np.linspace(0.2, 2, 8)):
        for n_bins in (3, 40):
            for interpolation in ("linear", "nearest"):
                options = {"n_bins": n_bins, "interpolation": interpolation, "value_range": value_range}
                error = np.abs(scores(clf, container(TEST), prediction="quantized", **options) - exact)
                kinds = ["assumption-free", "auto"] + ["worst-case", "linear"] * (interpolation == "linear")
                for kind in kinds:
                    assert np.all(error <= np.add(clf.quantization_error_bound(kind), 1e-9)), (kind, options)
        clf.set_params(prediction="exact")


@given(st.data())
def test_theorem_1_holds_for_rows_that_keep_their_sum_and_its_a_priori_form_is_looser(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    train = rng.random((30, 6))
    train[0] = 1.0  # all grids end there
    y = np.argmax(train[:, :3], axis=1) if data.draw(st.booleans()) else (train[:, 0] > train[:, 1]).astype(int)
    n_bins = data.draw(st.integers(2, 12))
    solver = data.draw(st.sampled_from([{}, {"solver": "cg", "tol": 0.3}]))
    clf = HistogramGPClassifier("hik", noise=data.draw(st.sampled_from([0.01, 1.0])), **solver).fit(train, y)
    # Pairs of dimensions are rounded by the same amount, one up and one down.
    nodes = rng.integers(1, n_bins, (20, 6)) / n_bins
    shift = rng.uniform(0, 0.49 / n_bins, (20, 3))
    test = nodes - np.hstack([shift, -shift])
    error = np.abs(
        scores(clf, test) - scores(clf, test, prediction="quantized", interpolation="nearest", n_bins=n_bins)
    )
    theorem, a_priori = (np.atleast_1d(clf.quantization_error_bound(kind)) for kind in ("theorem", "a-priori"))
    assert np.all(error <= theorem + 1e-9)
    assert np.all(theorem <= a_priori * (1 + 1e-9))
    assert np.isclose(theorem.max(), 6 * (0.5 / n_bins) / 2 * np.abs(clf.alpha_).sum(axis=0).max())


def test_theorem_1_needs_its_assumption():
    """All rounded down, the sum is not kept, and the error exceeds the theorem's bound but not the others'."""
    train = np.ones((5, 4))
    reg = HistogramGPRegressor("hik", normalize_y=False, noise=0.1).fit(train, np.ones(5))
    test = np.full((1, 4), 0.499)
    exact = reg.predict(test)
    reg.set_params(prediction="quantized", interpolation="nearest", n_bins=1)
    error = np.abs(reg.predict(test) - exact)
    assert error > 1.9 * reg.quantization_error_bound("theorem")
    assert error <= reg.quantization_error_bound("assumption-free")


def test_the_worst_case_is_attained():
    y = np.random.default_rng(0).standard_normal(150)
    reg = HistogramGPRegressor("hik", normalize_y=False, noise=0.01, n_bins=10).fit(X, y)
    exact = HistogramGPRegressor("hik", normalize_y=False, noise=0.01).fit(X, y)
    reg.set_params(prediction="quantized")
    worst = np.zeros((2, 8))
    for d in range(8):
        alone = np.zeros((150, 8))
        alone[:, d] = X[:, d]
        error = exact.predict(alone) - reg.predict(alone)
        for row, best, sign in ((0, error.argmax(), 1), (1, error.argmin(), -1)):
            worst[row, d] = X[best, d] if sign * error[best] > 0 else 0
    attained = np.abs(exact.predict(worst) - reg.predict(worst)).max()
    assert np.isclose(attained, reg.quantization_error_bound(), rtol=1e-9)


def test_the_regressor_bounds_are_in_units_of_the_target():
    targets = np.stack([X[:, 1], 1000 * X[:, 2]], axis=1)
    reg = HistogramGPRegressor("hik", noise=0.01, normalize_y=True).fit(X, targets)
    exact = reg.predict(TEST)
    error = np.abs(reg.set_params(prediction="quantized", n_bins=5).predict(TEST) - exact)
    bound = reg.quantization_error_bound()
    assert bound.shape == (2,)
    assert np.all(error <= bound + 1e-9)
    assert bound[1] > 100 * bound[0]


def test_the_grid_lies_in_the_transformed_features():
    kernel = HistogramIntersection(Power(0.25))
    clf = HistogramGPClassifier(kernel, noise=0.05).fit(X, Y2)
    at_nodes = (np.arange(0, 11)[:, None] / 10) ** 4 * X.max(axis=0)
    options = {"prediction": "quantized", "n_bins": 10, "interpolation": "nearest"}
    np.testing.assert_allclose(scores(clf, at_nodes, **options), scores(clf, at_nodes, prediction="exact"), atol=1e-9)


def test_counts_on_a_grid_of_counts_are_exact():
    digits, labels = load_digits(return_X_y=True)
    clf = HistogramGPClassifier("hik", noise=100, n_bins=16, value_range=16, interpolation="nearest").fit(
        digits, labels
    )
    exact = clf.decision_function(digits)
    np.testing.assert_allclose(scores(clf, digits, prediction="quantized"), exact, atol=1e-10)


@pytest.mark.slow
def test_linear_interpolation_beats_the_nearest_node_on_real_features(fashion_mnist):
    X_train, y_train, X_test, _ = fashion_mnist
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X_train, y_train)
    exact = scores(clf, X_test)
    linear, nearest = (
        scores(clf, X_test, prediction="quantized", interpolation=kind) for kind in ("linear", "nearest")
    )
    assert np.abs(linear - exact).max() < np.abs(nearest - exact).max() / 5
    assert np.mean(linear.argmax(axis=1) == exact.argmax(axis=1)) >= 0.999


def test_a_table_does_not_grow_with_the_training_data():
    tables = []
    for copies in (1, 20):
        clf = HistogramGPClassifier("hik", noise=0.1, prediction="quantized").fit(
            np.tile(X, (copies, 1)), np.tile(Y3, copies)
        )
        clf.predict(TEST)
        tables.append(clf._posterior.quantized(clf._grid()).table)
    sizes = [sum(value.nbytes for value in vars(table).values() if isinstance(value, np.ndarray)) for table in tables]
    assert sizes[1] < 1.5 * sizes[0]


def test_tables_are_made_once_and_never_by_fit(monkeypatch):
    from histogp._core.predictors import QuantizedTable

    built = []
    build = QuantizedTable.build
    monkeypatch.setattr(QuantizedTable, "build", lambda *arguments: built.append(1) or build(*arguments))
    clf = HistogramGPClassifier("hik", noise=0.1, prediction="quantized").fit(X, Y3)
    assert not built
    for _ in range(3):
        clf.predict(TEST)
    assert len(built) == 1
    clf.set_params(n_bins=7).predict(TEST)
    assert len(built) == 2


def test_empty_columns_and_values_beyond_the_training_range():
    train = X.copy()
    train[:, 3] = 0
    clf = HistogramGPClassifier("hik", noise=0.1).fit(train, Y3)
    far = TEST * 1e6
    expected = kernel_matrix(far, train, HistogramIntersection()) @ clf.alpha_
    np.testing.assert_allclose(scores(clf, far, prediction="quantized"), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins"),
        ({"prediction": "fast"}, "prediction"),
        ({"interpolation": "cubic"}, "interpolation"),
        ({"value_range": [1.0, 2.0]}, "each of the 8 features"),
        ({"value_range": [0.0] * 8}, "value_range must be positive"),
    ],
)
def test_parameters_changed_after_fit_are_checked(options, message):
    clf = HistogramGPClassifier("hik", noise=0.1, prediction="quantized").fit(X, Y2)
    with pytest.raises(ValueError, match=message):
        clf.set_params(**options).predict(TEST)


def test_an_unknown_kind_of_bound_is_refused():
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X, Y2)
    with pytest.raises(ValueError, match="Unknown kind 'exact'; known are 'worst-case'"):
        clf.quantization_error_bound("exact")
