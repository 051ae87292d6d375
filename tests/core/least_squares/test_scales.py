"""Scales of blocks by the evidence, against the likelihood of dense covariances."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracles import close
from scipy import optimize
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

from histogp._core.least_squares import block_scales
from histogp._core.least_squares.block_scales import likely_scales
from histogp._core.least_squares.statistics import Quadratic, StreamingStatistics

pytestmark = pytest.mark.portable

RNG = np.random.default_rng(0)
BLOCKS = np.array([0, 1, 0, 2, 2, 1, 2, 2])
Z = RNG.standard_normal((40, 8)) * [3, 0.1, 3, 1, 1, 0.1, 1, 1] + 3 * RNG.standard_normal(8)
Y = Z @ (RNG.standard_normal((8, 2)) * [[0.3], [8], [0.3], [0.1], [0.1], [8], [0.1], [0.1]])
Y += RNG.standard_normal((40, 2)) + 5
TIMES = np.arange(40) % 3
by_intercept = pytest.mark.parametrize("intercept", [True, False])
by_targets = pytest.mark.parametrize("targets", [Y, Y[:, :1]], ids=["two", "one"])


def log_likelihood(logarithms, Z, Y, blocks, intercept):
    """Of ``y ~ N(0, s^2 (I + sum_b w_b Z_b Z_b^T))`` without means, under the best s."""
    if intercept:
        basis = null_space(np.ones((1, len(Z))))
        Z, Y = basis.T @ Z, basis.T @ Y
    C = np.eye(len(Z)) + (Z * np.exp(logarithms)[blocks]) @ Z.T
    noise = np.sum(Y * np.linalg.solve(C, Y)) / Y.size
    return multivariate_normal(cov=noise * C).logpdf(Y.T).sum()


def problem(Z, Y, intercept, weights=None):
    return Quadratic.of(StreamingStatistics.of(Z, Y, weights), intercept=intercept)


def objective(given, blocks, intercept, monkeypatch):
    """The function that is minimized, and where that begins."""
    seen = []

    def minimize(function, start, **options):
        seen.append((function, start))
        return optimize.minimize(function, start, **options)

    monkeypatch.setattr(block_scales, "optimize", SimpleNamespace(minimize=minimize))
    likely_scales(given, blocks, intercept=intercept)
    return seen[0]


@by_intercept
@by_targets
@pytest.mark.parametrize("n_rows", [40, 6])
def test_value_and_gradient_are_those_of_the_likelihood(n_rows, targets, intercept, monkeypatch):
    F, T = Z[:n_rows], targets[:n_rows]
    function, start = objective(problem(F, T, intercept), BLOCKS, intercept, monkeypatch)
    differences = []
    for shift in ([0, 0, 0], [-2, 1, 0.5], [1, -6, 2], [-9, -9, -9]):
        theta = start + shift
        value, gradient = function(theta)
        differences.append(value + log_likelihood(theta, F, T, BLOCKS, intercept))
        numeric = optimize.approx_fprime(theta, lambda x: -log_likelihood(x, F, T, BLOCKS, intercept), 1e-5)
        close(gradient, numeric, max(np.abs(numeric).max(), 1.0), rtol=1e-3)
    size = T.size - intercept * T.shape[1]
    np.testing.assert_allclose(differences, size / 2 * (-1 - np.log(2 * np.pi)), rtol=1e-6)


@by_intercept
@by_targets
def test_the_scales_are_a_maximum(targets, intercept):
    found = likely_scales(problem(Z, targets, intercept), BLOCKS, intercept=intercept)
    assert found.shape == (3,)
    best = log_likelihood(2 * np.log(found), Z, targets, BLOCKS, intercept)
    for direction in np.vstack([np.eye(3), RNG.standard_normal((10, 3))]):
        for step in (-3.0, -0.3, 0.3, 3.0):
            moved = 2 * np.log(found) + step * direction / np.linalg.norm(direction)
            assert log_likelihood(moved, Z, targets, BLOCKS, intercept) < best + 1e-3
    from_anywhere = optimize.minimize(
        lambda x: -log_likelihood(x, Z, targets, BLOCKS, intercept), 2 * np.log(found) + 0.5, method="Nelder-Mead"
    )
    assert best > -from_anywhere.fun - 0.05


@by_intercept
def test_weights_count_like_repeated_rows(intercept):
    weighted = likely_scales(problem(Z, Y, intercept, TIMES), BLOCKS, intercept=intercept)
    repeated = problem(Z.repeat(TIMES, axis=0), Y.repeat(TIMES, axis=0), intercept)
    np.testing.assert_allclose(weighted, likely_scales(repeated, BLOCKS, intercept=intercept), rtol=1e-4)


def test_units_of_blocks_and_of_targets_do_not_matter():
    expected = likely_scales(problem(Z, Y, True), BLOCKS, intercept=True)
    units = np.array([1e-4, 1.0, 1e5])
    other = likely_scales(problem(Z * units[BLOCKS], 1e3 * Y, True), BLOCKS, intercept=True)
    np.testing.assert_allclose(other * units, expected, rtol=1e-3)


def test_a_block_without_use_gets_a_small_scale():
    rng = np.random.default_rng(1)
    F = rng.standard_normal((300, 30))
    blocks = np.repeat([0, 1], [5, 25])
    T = F[:, :5] @ rng.standard_normal((5, 1)) + 0.3 * rng.standard_normal((300, 1))
    useful, useless = likely_scales(problem(F, T, True), blocks, intercept=True) ** 2
    assert useless < 1e-2 * useful
    # The prior variance of weights in units of the noise.
    assert 0.1 < useful * 0.3**2 < 10


def test_targets_without_noise_and_targets_of_noise_alone_have_finite_scales():
    rng = np.random.default_rng(2)
    for T in (Z @ rng.standard_normal((8, 1)), rng.standard_normal((40, 1)), np.ones((40, 1)), np.zeros((40, 1))):
        found = likely_scales(problem(Z, T, True), BLOCKS, intercept=True)
        assert np.all(np.isfinite(found))
        assert np.all(found > 0)


@pytest.mark.parametrize("value", [0.0, 0.3, 1e5])
def test_a_block_that_does_not_vary_does_not_matter(value):
    expected = likely_scales(problem(Z, Y, True), BLOCKS, intercept=True)
    wider = np.hstack([Z, np.full((40, 2), value)])
    found = likely_scales(problem(wider, Y, True), np.append(BLOCKS, [3, 3]), intercept=True)
    np.testing.assert_allclose(found[:3], expected, rtol=1e-3)
    assert np.all(np.isfinite(found**2))
    assert found[3] < 1e3 * expected.max()


def test_stretched_statistics_are_those_of_stretched_features():
    factors = RNG.standard_normal(8) * (np.arange(8) != 3)
    weights = RNG.random(40)
    given = StreamingStatistics.of(Z, Y, weights)
    before = given.gram.copy()
    found, expected = given.stretched(factors), StreamingStatistics.of(Z * factors, Y, weights)
    for name in ("gram", "sums", "cross", "target_sums", "target_gram"):
        close(getattr(found, name), getattr(expected, name), rtol=1e-13)
    assert (found.weight, found.count) == (given.weight, given.count)
    np.testing.assert_array_equal(given.gram, before)
