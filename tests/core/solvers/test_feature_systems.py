"""Solutions in the space of features against dense linear algebra."""

import numpy as np
import pytest
from chi2_features import features, some_points
from kernel_operators import FixedChi2, kernel_operator
from oracles import close, histograms

from histogp._core.data import Rows
from histogp._core.operators import feature_kernels
from histogp._core.solvers import build_system, factors, problem, system_kind, update_system
from histogp._core.solvers.factors import DenseSystem, FeatureFactor, FeatureSystem, inverse_of
from histogp._core.solvers.iterative import IterativeSystem
from histogp._core.solvers.problem import Noise, SolverOptions

pytestmark = pytest.mark.portable

N, D, T = 70, 5, 3
X, Y = histograms(N, D), histograms(12, D, seed=2) * 2
X[4] = 0
POINTS = some_points(T, D)
NOISE = np.random.default_rng(1).uniform(0.05, 2, N)
B = np.random.default_rng(3).standard_normal((N, 3))
CODES = np.random.default_rng(4).integers(3, size=N)
PER_PROBLEM = Noise(NOISE, CODES, np.array([0.4, 0.6, 1.0]), np.array([1.6, 1.4, 1.0]))
WEIGHTS = {"no weights": None, "weights": np.linspace(0, 30, D)}
RNG = np.random.default_rng(0)


@pytest.fixture(params=WEIGHTS)
def weights(request):
    return WEIGHTS[request.param]


@pytest.fixture(params=["at once", "in blocks"], autouse=True)
def block(request, monkeypatch):
    if request.param == "in blocks":
        monkeypatch.setattr(feature_kernels, "BLOCK_NUMBERS", 60)


def operator(weights, X=X):
    return kernel_operator(X, FixedChi2(POINTS, weights=weights), 1)


def system_matrix(weights, noise=NOISE, X=X):
    Z = features(X, POINTS, weights)
    return Z @ Z.T + np.diag(noise)


def test_the_inverse_is_that_of_the_dense_matrix(weights):
    A, factor = system_matrix(weights), FeatureFactor.of(operator(weights), NOISE)
    Z, Z_new, rows = features(X, POINTS, weights), features(Y, POINTS, weights), Rows.from_array(Y)
    close(factor.solve(B), np.linalg.solve(A, B), rtol=1e-10)
    close(factor.weights(B), Z.T @ np.linalg.solve(A, B), rtol=1e-10)
    assert factor.weights(B).flags.c_contiguous  # as from a file
    k = Z @ Z_new.T
    covariance = Z_new @ Z_new.T - k.T @ np.linalg.solve(A, k)
    close(factor.covariance(rows), covariance, rtol=1e-10)
    close(factor.variance(rows), covariance.diagonal(), rtol=1e-10)
    index = np.array([5, 0, 4, 69])
    close(factor.inverse_diagonal(index), np.linalg.inv(A).diagonal()[index], rtol=1e-10)
    close(factor.gram, Z.T @ (Z / NOISE[:, None]))
    close(inverse_of(factor.factor), np.linalg.inv(np.eye(T * D) + factor.gram), rtol=1e-10)


@pytest.mark.parametrize("factor", [1.0, 3.0, 0.2])
def test_blocks_of_the_inverse_and_other_noise(weights, factor):
    index = np.array([5, 0, 4, 69])
    system = build_system(operator(weights), Noise(NOISE), 3, SolverOptions(), RNG).with_noise_times(factor)
    assert isinstance(system, FeatureSystem)
    inverse = np.linalg.inv(system_matrix(weights, factor * NOISE))
    close(system.solve(B, 1e-10).values, inverse @ B, rtol=1e-9)
    close(system.noise.sample, factor * NOISE)
    block, slope = system.inverse_slope(index)
    close(block, inverse[np.ix_(index, index)], rtol=1e-9)
    close(system.inverse_block(index), block, rtol=1e-12)
    close(slope, -(inverse @ np.diag(factor * NOISE) @ inverse)[np.ix_(index, index)], rtol=1e-9)


def test_more_rows_are_added_to_the_factor(weights):
    first, last = X[:50], X[50:]
    before = FeatureFactor.of(operator(weights, first), NOISE[:50])
    longer = operator(weights, first).extend(Rows.from_array(last))
    factor = before.extended(longer, Rows.from_array(last), NOISE[50:])
    close(factor.solve(B), np.linalg.solve(system_matrix(weights), B), rtol=1e-10)
    np.testing.assert_array_equal(factor.diagonal, NOISE)
    # And the one before is what it was.
    close(before.solve(B[:50]), np.linalg.solve(system_matrix(weights, NOISE[:50], first), B[:50]), rtol=1e-10)


def test_statistics_of_targets_go_along(weights):
    found = factors.weighted_gram(operator(weights), Rows.from_array(X), NOISE, B)
    Z = features(X, POINTS, weights)
    close(found.cross, Z.T @ (B / NOISE[:, None]))
    close(found.target_gram, B.T @ (B / NOISE[:, None]))


def test_every_problem_may_have_its_noise(weights):
    system = build_system(operator(weights), PER_PROBLEM, 3, SolverOptions(), RNG)
    assert isinstance(system, FeatureSystem)
    assert len(system.factors) == 3
    solution = system.solve(B, 1e-8, verify=True)
    matrices = [system_matrix(weights, noise) for noise in PER_PROBLEM.diagonals().T]
    expected = [np.linalg.solve(A, b) for A, b in zip(matrices, B.T, strict=True)]
    close(solution.values, np.stack(expected, axis=1), rtol=1e-10)
    assert solution.converged
    again = system.solve(B[:, [2, 0]], 1e-8, outputs=np.array([1, 1]))
    close(again.values, np.linalg.solve(matrices[1], B[:, [2, 0]]), rtol=1e-10)


@pytest.mark.parametrize("noise", [Noise(NOISE), PER_PROBLEM], ids=["one noise", "one a problem"])
def test_a_system_goes_on_with_more_rows(noise, weights):
    some = np.arange(50)
    system = build_system(operator(weights, X[:50]), noise.subset(some), 3, SolverOptions(), RNG)
    rows = Rows.from_array(X[50:])
    longer = system.operator.extend(rows)
    updated = update_system(system, longer, rows, noise)
    fresh = build_system(operator(weights), noise, 3, SolverOptions(), RNG)
    close(updated.solve(B, 1e-8).values, fresh.solve(B, 1e-8).values, rtol=1e-10)
    nothing = Rows.from_array(np.empty((0, D)))
    assert updated.updated(longer, nothing, noise).factors is updated.factors
    assert updated.updated(longer, nothing, noise.scaled(2.0)) is None


def test_the_smaller_space_of_features_and_samples_is_taken(monkeypatch):
    rank = T * D
    few, enough = operator(None, X[: rank - 1]), operator(None, X[:rank])
    assert system_kind(few, Noise(NOISE[: rank - 1]), SolverOptions()) is DenseSystem
    assert system_kind(enough, Noise(NOISE[:rank]), SolverOptions()) is FeatureSystem
    system = build_system(few, Noise(NOISE[: rank - 1]), 1, SolverOptions(), RNG)
    rows = Rows.from_array(X[rank - 1 : rank])
    assert update_system(system, few.extend(rows), rows, Noise(NOISE[:rank])) is None
    # Not where neither is small: without the limit for few samples, which would take them anyway.
    monkeypatch.setattr(problem, "MOST_DENSE_SAMPLES", 0)
    for limit, kind in ((rank - 1, IterativeSystem), (rank, FeatureSystem)):
        monkeypatch.setattr(problem, "LARGEST_FACTOR", limit)
        monkeypatch.setattr("histogp._core.solvers.LARGEST_FACTOR", limit)
        assert system_kind(enough, Noise(NOISE[:rank]), SolverOptions()) is kind
    monkeypatch.setattr("histogp._core.solvers.LARGEST_FACTOR", rank - 1)
    assert system_kind(few, Noise(NOISE[: rank - 1]), SolverOptions()) is DenseSystem
    # Factors of several matrices share the memory of the largest.
    several = PER_PROBLEM.subset(np.arange(rank - 1))
    monkeypatch.setattr(problem, "LARGEST_FACTOR", 0)
    assert system_kind(few, several, SolverOptions()) is IterativeSystem


def test_overflow_is_refused():
    with pytest.raises(ValueError, match="overflows"), np.errstate(all="ignore"):
        build_system(operator(np.full(D, 1e308), X * 1e3), Noise(NOISE), 1, SolverOptions(), RNG)
