"""Systems that grow, against ones built anew and against dense NumPy."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms, kernel_matrix

from histogp._core.data import Rows
from histogp._core.solvers import build_system, direct_options, factors, problem, update_system
from histogp._core.solvers.factors import Factor, symmetric_inverse
from histogp._core.solvers.problem import Noise, SolverOptions
from histogp.kernels import HistogramIntersection

pytestmark = pytest.mark.portable

N, D = 260, 10
X = histograms(N, D)
X[200:] *= 3  # beyond what came before, so that the unit of single precision changes
K = kernel_matrix(X, X, HistogramIntersection())
NOISE = np.random.default_rng(2).uniform(0.05, 2, N)
B = np.random.default_rng(3).standard_normal((N, 3))
CODES = np.random.default_rng(4).integers(3, size=N)
CG = SolverOptions("cg", 1e-10, preconditioner_rank=40)
CHOLESKY = SolverOptions("cholesky", 1e-10)


def operator(n):
    return kernel_operator(X[:n], HistogramIntersection(), 2)


def extended(system, begin, end, noise):
    rows = Rows.from_array(X[begin:end])
    return update_system(system, system.operator.extend(rows), rows, noise)


def grown(ends, options, noise=lambda n: Noise(NOISE[:n])):
    system = build_system(operator(ends[0]), noise(ends[0]), 3, options, np.random.default_rng(0))
    for begin, end in itertools.pairwise(ends):
        system = extended(system, begin, end, noise(end))
    return system


def dense_solution(n):
    return np.linalg.solve(K[:n, :n] + np.diag(NOISE[:n]), B[:n])


@pytest.mark.parametrize("options", [CG, CHOLESKY], ids=["cg", "cholesky"])
@pytest.mark.parametrize("ends", [(200, 201), (180, 230, N), (180, *range(181, 230)), (200, 200)])
def test_a_grown_system_has_the_solutions_of_all_its_rows(options, ends):
    system = grown(ends, options)
    solution = system.solve(B[: ends[-1]], 1e-10, verify=True)
    assert solution.converged
    np.testing.assert_allclose(solution.values, dense_solution(ends[-1]), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("options", [CG, CHOLESKY], ids=["cg", "cholesky"])
@pytest.mark.parametrize("ends", [(200,), (180, 200)])
def test_blocks_of_the_inverse_and_their_slopes_are_those_of_the_matrix(options, ends):
    index, rtol = np.array([7, 3, 150, 199]), 1e-7 if options is CHOLESKY else 1e-3
    A = K[:200, :200] + np.diag(NOISE[:200])
    inverse = np.linalg.inv(A)
    expected, slope = inverse[np.ix_(index, index)], -(inverse @ np.diag(NOISE[:200]) @ inverse)[np.ix_(index, index)]
    system = grown(ends, options)
    close(system.inverse_block(index), expected, rtol=rtol)
    block, found = system.inverse_slope(index)
    close(block, expected, rtol=rtol)
    close(found, slope, rtol=rtol)
    noise = Noise(NOISE[:200], CODES[:200], np.array([0.4, 0.6, 1.0]), np.array([1.6, 1.4, 1.0]))
    several = build_system(operator(200), noise, 3, options, np.random.default_rng(0))
    own = np.linalg.inv(K[:200, :200] + np.diag(noise.diagonals()[:, 1]))
    close(several.inverse_block(index, 1), own[np.ix_(index, index)], rtol=rtol)
    assert system.with_noise_times(2.0) is None


def test_the_system_that_was_there_stays_as_it_was():
    before = grown((100,), CHOLESKY)
    left = extended(before, 100, 120, Noise(NOISE[:120]))
    right = extended(before, 120, 150, Noise(np.full(130, 1.0)))
    assert right is None  # other noise for the rows that were there
    np.testing.assert_allclose(before.solve(B[:100], 0).values, dense_solution(100), rtol=1e-9)
    np.testing.assert_allclose(left.solve(B[:120], 0).values, dense_solution(120), rtol=1e-9)


def test_panels_of_a_factor_are_shared_and_joined_when_there_are_many(monkeypatch):
    monkeypatch.setattr(factors, "MOST_PANELS", 4)
    factor = Factor.of(K[:50, :50].copy(), NOISE[:50])
    seen = []
    for n in range(50, 60):
        longer = factor.extended(K[:n, n : n + 1], K[n : n + 1, n : n + 1], NOISE[n : n + 1])
        seen.append(len(longer.panels))
        if seen[-1] > 1:
            assert longer.panels[0] is factor.panels[0]
        factor = longer
        assert factor.n_rows == n + 1
        np.testing.assert_allclose(factor.solve(B[: n + 1]), dense_solution(n + 1), rtol=1e-9)
    assert seen == [2, 3, 4, 1, 2, 3, 4, 1, 2, 3]


def test_an_extended_preconditioner_is_that_of_the_same_pivots():
    system = grown((180, 190, 230), CG)
    factor = system.preconditioner._factor
    columns = np.hstack(factor.blocks)
    pivots = np.concatenate([pivots for pivots, _ in factor._recipes])
    # A pivoted Cholesky factor reproduces the matrix at the columns of its pivots.
    np.testing.assert_allclose(factor.scale * columns @ columns[pivots].T, K[:230, pivots], rtol=1e-3, atol=1e-3)
    r = B[:230]
    expected = np.linalg.solve(factor.scale * columns @ columns.T + np.diag(NOISE[:230]), r)
    np.testing.assert_allclose(system.preconditioner.apply(r, np.arange(3)), expected, rtol=1e-3, atol=1e-3)


def test_an_extended_preconditioner_works_as_well_as_a_new_one():
    iterations = [system.solve(B[:N], 1e-10).n_iterations for system in (grown((200, N), CG), grown((N,), CG))]
    plain = build_system(operator(N), Noise(NOISE), 3, replace(CG, preconditioner_rank=0), None)
    assert iterations[0] <= 1.5 * iterations[1] < 0.7 * plain.solve(B, 1e-10).n_iterations


@pytest.mark.parametrize("options", [CG, CHOLESKY], ids=["cg", "cholesky"])
def test_noise_of_each_problem_may_change(options):
    def noise(n):
        share = np.bincount(CODES[:n], minlength=3) / n
        return Noise(NOISE[:n], CODES[:n], 2 * share, 2 * (1 - share))

    before = grown((200,), options, noise)
    system = extended(before, 200, N, noise(N))
    if options is CHOLESKY:
        assert system is None
        return
    expected = [np.linalg.solve(K + np.diag(d), b) for d, b in zip(noise(N).diagonals().T, B.T, strict=True)]
    np.testing.assert_allclose(system.solve(B, 1e-10).values, np.transpose(expected), rtol=1e-7, atol=1e-7)


def test_a_preconditioner_does_not_serve_many_times_more_rows():
    before = grown((100,), CG)
    assert extended(before, 100, 150, Noise(NOISE[:150])) is not None
    assert extended(before, 100, 151, Noise(NOISE[:151])) is None


def test_the_solver_changes_where_a_dense_factor_no_longer_pays(monkeypatch):
    monkeypatch.setattr(problem, "MOST_DENSE_SAMPLES", 120)
    monkeypatch.setattr(problem, "LARGEST_FACTOR", 120)
    options = SolverOptions("auto", 1e-10)
    before = grown((100,), options)
    assert isinstance(before, factors.DenseSystem)
    assert isinstance(extended(before, 100, 120, Noise(NOISE[:120])), factors.DenseSystem)
    assert extended(before, 100, 121, Noise(NOISE[:121])) is None


def test_factors_are_offered_where_they_are_affordable_whatever_the_solver(monkeypatch):
    monkeypatch.setattr(problem, "MOST_DENSE_SAMPLES", 120)
    monkeypatch.setattr(problem, "LARGEST_FACTOR", 120)
    noise = Noise(NOISE)
    for solver in ("auto", "cg", "cholesky"):
        found = direct_options(operator(100), noise.subset(np.arange(100)), SolverOptions(solver))
        assert found.solver == {"auto": "auto"}.get(solver, "cholesky")
        assert direct_options(operator(N), noise, SolverOptions(solver)) is None


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 1e-3)])
def test_the_inverse_of_a_triangle_is_that_of_its_matrix(n, dtype, rtol):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, n + 5))
    matrix = A @ A.T + np.eye(n)
    lower = np.linalg.cholesky(matrix).astype(dtype)
    lower += np.triu(rng.standard_normal((n, n)), 1).astype(dtype)  # what is above does not matter
    for n_threads in (1, 2):
        found = symmetric_inverse(lower, n_threads)
        assert found.dtype == dtype
        close(found.astype(float), np.linalg.inv(matrix), rtol=rtol)
