"""The regressor against dense formulas and scikit-learn's peers."""

import numpy as np
import pytest
from discovery import given
from oracles import histograms, kernel_matrix
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel
from sklearn.kernel_ridge import KernelRidge

from histogp import HistogramGPRegressor
from histogp.kernels import HistogramIntersection

X = histograms(120, 6)
TEST = histograms(25, 6, seed=5)
T = np.stack([np.sin(9 * X[:, 1]), 1e6 * X[:, 2] - 3e6, 1e-6 * X[:, 3]], axis=1)
SOLVERS = [{}, {"solver": "cg", "tol": 1e-12}]


class Intersection(Kernel):
    """Our kernel in the shape that GaussianProcessRegressor wants."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        return kernel_matrix(X, X if Y is None else Y, HistogramIntersection())

    def diag(self, X):
        return X.sum(axis=1)

    def is_stationary(self):
        return False


@pytest.mark.parametrize("options", SOLVERS)
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize("targets", [T[:, 0], T])
def test_gaussian_process_regressor_agrees(options, normalize_y, targets):
    ours = HistogramGPRegressor("hik", noise=0.02, normalize_y=normalize_y, **options).fit(X, targets)
    theirs = GaussianProcessRegressor(Intersection(), alpha=0.02, optimizer=None, normalize_y=normalize_y)
    expected = theirs.fit(X, targets).predict(TEST)
    assert ours.predict(TEST).shape == expected.shape
    scale = np.abs(targets).max(axis=0)
    np.testing.assert_allclose(ours.predict(TEST) / scale, expected / scale, atol=1e-8)


@pytest.mark.parametrize("options", SOLVERS)
def test_kernel_ridge_agrees_with_sample_weights(options):
    weights = np.random.default_rng(0).uniform(0.1, 3, len(X))
    K, K_test = (kernel_matrix(A, X, HistogramIntersection()) for A in (X, TEST))
    theirs = KernelRidge(alpha=0.05, kernel="precomputed").fit(K, T, sample_weight=weights)
    ours = given(HistogramGPRegressor, noise=0.05, **options).fit(X, T, weights)
    scale = np.abs(T).max(axis=0)
    np.testing.assert_allclose(ours.predict(TEST) / scale, theirs.predict(K_test) / scale, atol=1e-8)


def test_normalization_is_weighted_and_survives_constant_targets():
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    weighted = HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X, T, weights).predict(TEST)
    repeated = (
        HistogramGPRegressor("hik", noise=0.1, normalize_y=True)
        .fit(X.repeat(weights, 0), T.repeat(weights, 0))
        .predict(TEST)
    )
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)
    constant = HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X, np.full(len(X), 7.0))
    np.testing.assert_array_equal(constant.predict(TEST), 7.0)


@pytest.mark.parametrize("magnitude", [1e-200, 1e200])
def test_targets_of_any_magnitude(magnitude):
    for options in ({}, {"solver": "cg", "tol": 1e-10}, {"normalize_y": True}):
        expected = given(HistogramGPRegressor, **options).fit(X, T[:, 0]).predict(TEST)
        actual = given(HistogramGPRegressor, **options).fit(X, T[:, 0] * magnitude).predict(TEST)
        np.testing.assert_allclose(actual / magnitude, expected, atol=1e-7)


@pytest.mark.parametrize("magnitude", [1e-200, 1e-44, 1e-38, 1e38, 1e200])
@pytest.mark.parametrize("rank", [0, 50, "auto"])
def test_features_of_any_magnitude(magnitude, rank):
    expected = HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(X, T[:, 0]).predict(TEST)
    reg = HistogramGPRegressor(
        "hik", normalize_y=False, noise=0.1 * magnitude, solver="cg", tol=1e-10, preconditioner_rank=rank
    )
    np.testing.assert_allclose(reg.fit(X * magnitude, T[:, 0]).predict(TEST * magnitude), expected, atol=1e-8)
    if magnitude < 1:  # otherwise the noise is too small for the system to be solved at all
        reg.set_params(noise=0.1).fit(X * magnitude, T[:, 0])
        np.testing.assert_allclose(reg.alpha_, T[:, 0] / 0.1, atol=1e-12)


def test_shapes_follow_the_targets():
    one_column = HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(X, T[:, :1])
    assert one_column.predict(TEST).shape == (25, 1)
    assert one_column.alpha_.shape == (120, 1)
    assert HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(X, T[:, 0]).alpha_.shape == (120,)
    assert HistogramGPRegressor("hik", noise=0.1, normalize_y=False, solver="cg").fit(X, T).residual_.shape == (3,)


def test_the_tolerance_is_relative_to_each_target():
    reg = HistogramGPRegressor("hik", noise=0.1, normalize_y=False, solver="cg", tol=1e-3).fit(X, T)
    K = kernel_matrix(X, X, HistogramIntersection())
    residual = np.abs(T - K @ reg.alpha_ - 0.1 * reg.alpha_).max(axis=0)
    assert np.all(residual <= 1e-3 * np.abs(T).max(axis=0))
