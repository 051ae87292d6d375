"""Kernels of distances, and their matrix: against dense formulas, and the contract of operators."""

import numpy as np
import pytest
from hypothesis import strategies as st
from kernel_operators import kernel_operator
from oracles import close, dense, histograms
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone

from core.operators.suite import CoreSuite, D, State, UpdatesTuningSuite, WithoutTablesSuite
from histogp import HistogramGPClassifier, HistogramGPRegressor, ModelFileError, Optimizer, load
from histogp._core.data import Rows
from histogp._core.operators import pair_kernels
from histogp._core.operators.pair_kernels import HeightsKernel
from histogp.kernels import Gaussian, Laplacian, Power

pytestmark = pytest.mark.portable
WEIGHTS = np.linspace(0.2, 2, D)


def transformed(A, kernel):
    """``g(x)`` of dense or sparse rows, with the sign of x."""
    A = np.asarray(dense(A), float)
    eta = 1.0 if kernel.transform is None else np.asarray(kernel.transform.eta, float)
    return np.sign(A) * np.abs(A) ** eta


def formula(A, B, kernel):
    """``s exp(-beta |h - h'| / unit)``, with the distance of its kind."""
    weights = 1.0 if kernel.weights is None else np.asarray(kernel.weights, float)
    left, right = (transformed(rows, kernel) * weights for rows in (A, B))
    metric = "cityblock" if isinstance(kernel, Laplacian) else "sqeuclidean"
    return kernel.scale * np.exp(-kernel.beta * cdist(left, right, metric) / kernel.unit)


class TestDense(CoreSuite, UpdatesTuningSuite, WithoutTablesSuite):
    typical = {  # noqa: RUF012
        "laplacian": Laplacian(0.7, unit=2.0, scale=1.5),
        "laplacian, weights": Laplacian(unit=3.0, weights=WEIGHTS, transform=Power(0.5)),
        "gaussian": Gaussian(0.7, unit=2.0, scale=1.5),
        "gaussian, weights": Gaussian(unit=3.0, weights=WEIGHTS, transform=Power(1.5)),
    }
    smooth = {**typical, "each its own": Laplacian(unit=2.0, weights=WEIGHTS, transform=Power(WEIGHTS))}  # noqa: RUF012

    def make(self, X, kernel, n_threads=1):
        return kernel_operator(X, kernel, n_threads)

    def evaluate(self, A, B, kernel):
        return formula(A, B, kernel)

    def size(self, A, B, kernel):
        """Distances are differences of sums of heights, or of their squares."""
        power = 1 if isinstance(kernel, Laplacian) else 2
        weights = 1.0 if kernel.weights is None else np.asarray(kernel.weights, float)
        left, right = ((np.abs(transformed(rows, kernel)) * weights) ** power for rows in (A, B))
        sums = left.sum(axis=1)[:, None] + right.sum(axis=1)
        return formula(A, B, kernel) * (1 + kernel.beta / kernel.unit * sums)

    def cost(self, X):
        return X.shape[0] ** 2

    def kernels(self, X):
        size = max(1.0, float(np.max(dense(X), initial=0.0)))
        return st.sampled_from([Laplacian(unit=size), Gaussian(unit=size**2)])

    def hyperparameters(self, kernel):
        own = {"scale": np.asarray(kernel.scale), "beta": np.asarray(kernel.beta)}
        return super().hyperparameters(kernel) | own

    def derivatives(self, A, B, kernel):
        K = formula(A, B, kernel)
        left, right = (transformed(rows, kernel).T for rows in (A, B))
        weights = self.hyperparameters(kernel)["weights"][:, None, None]
        between = np.abs(left[:, :, None] - right[:, None])
        if isinstance(kernel, Gaussian):
            between = 2 * weights * between**2
        distance = -np.log(K / kernel.scale) / kernel.beta
        by_weight = -kernel.beta / kernel.unit * K * between
        return {"weights": by_weight, "scale": K / kernel.scale, "beta": -K * distance}


SIGNED = np.random.default_rng(0).standard_normal((40, 5)) * (np.random.default_rng(1).random((40, 5)) < 0.7)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_values_of_any_sign(make, container):
    kernel = make(0.5, unit=2.0, transform=Power(0.5), weights=np.linspace(0.5, 2, 5))
    close(kernel(container(SIGNED)), formula(SIGNED, SIGNED, kernel))
    close(kernel(container(SIGNED), container(SIGNED[:3])), formula(SIGNED, SIGNED[:3], kernel))
    y = SIGNED[:, 0]
    model = HistogramGPRegressor(kernel, noise=0.1).fit(container(SIGNED), y)
    K = formula(SIGNED, SIGNED, kernel)
    expected = formula(SIGNED[:7] - 0.5, SIGNED, kernel) @ np.linalg.solve(K + 0.1 * np.eye(40), y)
    close(model.predict(container(SIGNED[:7] - 0.5)), expected)


@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_the_unit_is_the_mean_distance(make):
    kernel = make()._adapt(SIGNED).kernel
    metric = "cityblock" if make is Laplacian else "sqeuclidean"
    distances = cdist(SIGNED, SIGNED, metric)[np.triu_indices(40, 1)]
    np.testing.assert_allclose(kernel.unit, distances.mean(), rtol=1e-12)
    with pytest.raises(ValueError, match=r'unit="mean" is found by an estimator'):
        make()(SIGNED)


@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_files_updates_and_variances(make, tmp_path):
    X, test = histograms(80, 6), histograms(9, 6, seed=4)
    labels = np.where(X[:, 1] > X[:, 2], "yes", "no")
    model = HistogramGPClassifier(make(unit=0.7), noise=0.2).fit(X[:60], labels[:60])
    model.partial_fit(X[60:], labels[60:]).forget([3, 70])
    kept = np.delete(np.arange(80), [3, 70])
    fresh = HistogramGPClassifier(make(unit=0.7), noise=0.2).fit(X[kept], labels[kept])
    close(model.decision_function(test), fresh.decision_function(test))
    kernel = make(unit=0.7)
    K = formula(X[kept], X[kept], kernel) + 0.2 * np.eye(len(kept))
    k = formula(test, X[kept], kernel)
    expected = 1.2 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
    model.save(tmp_path / "model")
    for one in (model, fresh, load(tmp_path / "model")):
        close(one.predict_variance(test), expected)
        close(one.novelty(test), expected - 0.2)
    assert model.predict_proba(test).shape == (9, 2)


@pytest.mark.filterwarnings("ignore:The search for hyperparameters ended")
@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_a_search_finds_more_likely_parameters(make):
    X = histograms(60, 4)
    y = np.sin(20 * X[:, 0])
    optimizer = Optimizer("exact", max_steps=30)
    for kernel in (make(), make(weights="ard"), make(transform=Power(1.0))):
        model = HistogramGPRegressor(kernel, optimize=optimizer, random_state=0).fit(X, y)
        start = HistogramGPRegressor(clone(kernel).set_params(weights=None)).fit(X, y)
        assert model.log_marginal_likelihood_ > start.log_marginal_likelihood(method="exact") + 1


@pytest.mark.parametrize("parameters", [{"beta": 0}, {"scale": -1.0}, {"unit": "median"}, {"beta": "1"}])
def test_parameters_that_make_no_sense_are_refused(parameters):
    with pytest.raises(ValueError, match=f"{next(iter(parameters))} must be a number above 0"):
        HistogramGPRegressor(Laplacian(**parameters)).fit(SIGNED, SIGNED[:, 0])


def test_too_many_samples_are_refused_before_the_work_starts(monkeypatch):
    monkeypatch.setattr(pair_kernels, "MOST_EXACT_SAMPLES", 30)
    monkeypatch.setattr(HeightsKernel, "pairs", None)
    with pytest.raises(ValueError, match="for which 40 samples are too many: learn from at most 30 of them"):
        HistogramGPRegressor(Laplacian()).fit(SIGNED, SIGNED[:, 0])


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        ("indptr", 0, 1),
        ("indptr", 3, 10**9),
        ("indptr", -1, 0),
        ("column_of", 2, 5),
        ("column_of", 1, 0),
        ("values", 3, 0.0),
    ],
)
def test_a_damaged_state_is_refused(name, entry, value):
    rows, state = Rows.from_array(np.abs(SIGNED) + 1), State()
    rows.to_state(state)
    np.testing.assert_array_equal(Rows.from_state(state, 40, 5).to_dense(), rows.to_dense())
    state.arrays[name] = state.arrays[name].copy()
    state.arrays[name][entry] = value
    with pytest.raises(ModelFileError, match="its samples "):
        Rows.from_state(state, 40, 5)
