"""Solutions of ``(K + diag(noise)) x = b`` against dense NumPy."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms, kernel_matrix, solve
from threadpoolctl import threadpool_info

from histogp._core.solvers import iterative, problem
from histogp._core.solvers.preconditioner import (
    CostModel,
    PivotedCholesky,
    Preconditioner,
    grow_to_best_rank,
    make_preconditioner,
)
from histogp._core.solvers.problem import Noise, SolverOptions
from histogp.kernels import HistogramIntersection

pytestmark = pytest.mark.portable

N, D = 300, 12
X = histograms(N, D)
K = kernel_matrix(X, X, HistogramIntersection())
OPERATOR = kernel_operator(X, HistogramIntersection(), 2)
CODES = np.random.default_rng(1).choice(3, size=N, p=[0.1, 0.3, 0.6])
B = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
SHARE = np.bincount(CODES) / N
NOISES = {
    "scalar": Noise(np.full(N, 0.1)),
    "per sample": Noise(np.random.default_rng(2).uniform(0.05, 2, N)),
    "per problem": Noise(np.full(N, 0.1), CODES, 2 * SHARE, 2 * (1 - SHARE)),
}


def rng():
    return np.random.default_rng(0)


def dense_solution(noise, b=B):
    diagonals = np.broadcast_to(noise.diagonals(), b.shape)
    return np.stack([np.linalg.solve(K + np.diag(d), c) for d, c in zip(diagonals.T, b.T, strict=True)], axis=1)


def test_label_dependent_noise_is_the_papers():
    diagonals = NOISES["per problem"].diagonals()
    for output in range(3):
        positive = output == CODES
        np.testing.assert_allclose(diagonals[positive, output], 2 * 0.1 * positive.mean())
        np.testing.assert_allclose(diagonals[~positive, output], 2 * 0.1 * (~positive).mean())
        # Equations S4 and S5: both sides weigh the same, and together as much as before.
        weight = 1 / (2 * diagonals[:, output])
        np.testing.assert_allclose(weight[positive].sum(), weight[~positive].sum())
        np.testing.assert_allclose(weight.sum(), N / (2 * 0.1))


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("rank", [0, 10, 80, "auto"])
@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_solutions_agree_with_numpy(name, rank, solver):
    options = SolverOptions(solver, tol=1e-11, preconditioner_rank=rank, n_threads=2)
    solution = solve(OPERATOR, NOISES[name], B, options, rng())
    assert solution.converged
    np.testing.assert_allclose(solution.values, dense_solution(NOISES[name]), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4, 1e-7])
def test_reported_residuals_are_the_true_ones_and_meet_the_target(name, tol):
    noise = NOISES[name]
    solution = solve(OPERATOR, noise, B * [1, 1e-20, 1e20], SolverOptions("cg", tol), rng())
    r = B * [1, 1e-20, 1e20] - K @ solution.values - noise.diagonals() * solution.values
    true = np.abs(r).max(axis=0) / [1, 1e-20, 1e20]
    assert np.all(true <= tol)
    np.testing.assert_allclose(solution.relative_residuals, true, atol=1e-12)


def test_a_right_hand_side_of_zeros_has_the_solution_zero():
    b = B.copy()
    b[:, 1] = 0
    solution = solve(OPERATOR, NOISES["scalar"], b, SolverOptions("cg", 1e-8), rng())
    assert solution.converged
    assert not solution.values[:, 1].any()


def test_many_right_hand_sides_finish_one_by_one():
    b = np.random.default_rng(3).standard_normal((N, 40))
    b[:, :20] = np.linalg.eigh(K)[1][:, -20:]  # these converge at once
    solution = solve(OPERATOR, NOISES["scalar"], b, SolverOptions("cg", 1e-6, preconditioner_rank=0), rng())
    assert solution.converged
    assert solution.n_products < 40 * (solution.n_iterations + 2)
    np.testing.assert_allclose(solution.values, dense_solution(NOISES["scalar"], b), atol=1e-4)


def test_a_good_start_saves_iterations():
    exact = dense_solution(NOISES["scalar"])
    options = dict(tol=1e-6, max_iter=1000)
    cold = iterative.solve_cg(OPERATOR, NOISES["scalar"], B, **options)
    warm = iterative.solve_cg(OPERATOR, NOISES["scalar"], B, start=exact * (1 + 1e-5), **options)
    assert warm.converged
    assert warm.n_iterations < cold.n_iterations / 2


def test_single_precision_is_repaired_in_double():
    """Noise so small that float32 products cannot reach the target: the answer is right all the same."""
    noise = Noise(np.full(N, 1e-6))
    solution = solve(OPERATOR, noise, B, SolverOptions("cg", 1e-4, max_iter=5000, preconditioner_rank=0), rng())
    assert solution.converged
    r = B - K @ solution.values - 1e-6 * solution.values
    assert np.abs(r).max() <= 1e-4


def test_too_few_iterations_are_reported():
    solution = solve(OPERATOR, NOISES["scalar"], B, SolverOptions("cg", 1e-8, max_iter=3), rng())
    assert not solution.converged
    assert solution.n_iterations == 3
    assert solution.relative_residuals.max() > 1e-8


def test_a_callback_sees_every_iteration_and_can_stop():
    seen = []

    def stop_at_four(iteration, residuals, present):
        seen.append((iteration, residuals.max(), present()))
        return iteration == 4

    solution = iterative.solve_cg(OPERATOR, NOISES["scalar"], B, tol=1e-8, max_iter=100, callback=stop_at_four)
    assert [iteration for iteration, _, _ in seen] == [1, 2, 3, 4]
    assert solution.stopped_by_callback
    np.testing.assert_allclose(seen[-1][2], solution.values)


@pytest.mark.parametrize("name", NOISES)
def test_the_preconditioner_is_the_inverse_of_its_low_rank_model(name):
    noise = NOISES[name]
    factor = PivotedCholesky(OPERATOR, noise, rng(), 60, 2)
    factor.grow(60)
    F = np.hstack(factor.blocks) * np.sqrt(factor.scale)
    r = np.random.default_rng(4).standard_normal((N, 3))
    diagonals = np.broadcast_to(noise.diagonals(), r.shape)
    expected = np.stack(
        [np.linalg.solve(F @ F.T + np.diag(d), c) for d, c in zip(diagonals.T, r.T, strict=True)], axis=1
    )
    actual = Preconditioner(factor, noise, 2).apply(r, np.arange(3))
    np.testing.assert_allclose(actual, expected, atol=2e-5 * np.abs(expected).max())
    some = Preconditioner(factor, noise, 1).apply(r[:, [2, 0]], np.array([2, 0]))
    np.testing.assert_allclose(some, expected[:, [2, 0]], atol=2e-5 * np.abs(expected).max())


def test_the_factor_approximates_the_kernel_from_below():
    factor = PivotedCholesky(OPERATOR, NOISES["scalar"], rng(), 150, 1)
    factor.grow(150)
    F = np.hstack(factor.blocks) * np.sqrt(factor.scale)
    remaining = np.linalg.eigvalsh(K - F @ F.T)
    assert remaining.min() > -1e-4
    best = np.sort(np.linalg.eigvalsh(K))[:-150].sum()
    assert np.trace(K - F @ F.T) < 4 * best


@pytest.mark.parametrize("noise", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("rank", [50, 250, "auto"])
def test_a_preconditioner_never_spoils_small_noise(noise, rank):
    """Single precision cannot resolve the noise here; the preconditioner must not pretend to."""
    options = SolverOptions("cg", tol=1e-6, preconditioner_rank=rank, max_iter=3000)
    solution = solve(OPERATOR, Noise(np.full(N, noise)), B, options, rng())
    assert solution.converged
    plain = solve(OPERATOR, Noise(np.full(N, noise)), B, replace(options, preconditioner_rank=0), rng())
    assert solution.n_iterations <= plain.n_iterations / (2 if rank == 250 else 1)


def test_an_automatic_rank_of_zero_is_never_chosen_when_plain_iterations_would_not_do():
    factor = PivotedCholesky(OPERATOR, NOISES["scalar"], rng(), N // 2, 1)
    cheap = dict(n_rows=N, cost=1, column_cost=1, n_outputs=1, n_blocks=1, tol=1e-2)
    assert grow_to_best_rank(factor, CostModel(**cheap, noise=1e-1, max_iter=1000)) == 0
    assert grow_to_best_rank(factor, CostModel(**cheap, noise=1e-1, max_iter=5)) > 0


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_gets_its_threads_back_after_concurrent_fits():
    before = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    options = SolverOptions("cg", tol=1e-8, preconditioner_rank=40)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: solve(OPERATOR, NOISES["scalar"], B, options, rng()), range(12)))
    assert [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"] == before


def test_a_matrix_of_low_rank_is_exhausted_without_an_error():
    ones = np.ones((200, 3))
    operator = kernel_operator(ones, HistogramIntersection())
    solution = solve(operator, Noise(np.full(200, 0.1)), ones[:, :1], SolverOptions("cg", 1e-8), rng())
    np.testing.assert_allclose(solution.values, 1 / 600.1, rtol=1e-6)


@pytest.mark.slow
def test_preconditioning_saves_iterations_and_the_automatic_rank_can_be_zero(fashion_mnist):
    X, y, _, _ = fashion_mnist
    operator = kernel_operator(X, HistogramIntersection(), 2)
    b = np.where(y[:, None] == np.arange(10), 1.0, -1.0)
    noise = Noise(np.full(len(y), 0.1))
    plain = solve(operator, noise, b, SolverOptions(preconditioner_rank=0, n_threads=2), rng())
    auto = solve(operator, noise, b, SolverOptions(n_threads=2), rng())
    assert auto.rank > 0
    assert auto.n_iterations < plain.n_iterations / 3
    strong = make_preconditioner(operator, Noise(np.full(len(y), 1e4)), 10, SolverOptions(n_threads=2), rng())
    assert strong is None


def test_the_rank_grows_with_difficulty():
    ranks = []
    for noise in (100.0, 1e-2, 1e-4):
        factor = PivotedCholesky(OPERATOR, NOISES["scalar"], rng(), N // 2, 1)
        expensive = CostModel(N, 10**6, 10**6, n_outputs=10, n_blocks=1, tol=1e-2, noise=noise, max_iter=1000)
        ranks.append(grow_to_best_rank(factor, expensive))
    assert ranks[0] == 0
    assert ranks == sorted(ranks)
    assert ranks[-1] > 0


def test_small_problems_are_factorized_and_large_ones_never(monkeypatch):
    assert problem.factors_pay(2000, 1)
    assert not problem.factors_pay(2001, 1)
    assert not problem.factors_pay(2000, 10)
    monkeypatch.setattr(problem, "MOST_DENSE_SAMPLES", N - 1)
    monkeypatch.setattr(problem, "LARGEST_FACTOR", N - 1)
    assert solve(OPERATOR, NOISES["scalar"], B, SolverOptions(), rng()).n_iterations > 1


def test_many_outputs_are_worth_a_factor_and_few_are_not():
    n, n_nonzeros = 8000, 8000 * 70
    assert not problem.factors_pay(n, 1, 10, n_nonzeros)
    assert problem.factors_pay(n, 1, 500, n_nonzeros)
    pays = [problem.factors_pay(n, 1, n_outputs, n_nonzeros) for n_outputs in range(1, 1000, 10)]
    assert pays == sorted(pays)  # from some number on
    # Not with a matrix for each output, nor beyond the memory of the largest factor.
    assert not problem.factors_pay(n, 500, 500, n_nonzeros)
    assert problem.factors_pay(problem.LARGEST_FACTOR, 1, 10**5, n_nonzeros)
    assert not problem.factors_pay(problem.LARGEST_FACTOR + 1, 1, 10**5, n_nonzeros)


def test_many_outputs_are_solved_for_by_a_factor(monkeypatch):
    monkeypatch.setattr(problem, "MOST_DENSE_SAMPLES", 0)
    monkeypatch.setattr(problem, "TYPICAL_ITERATIONS", 1)
    many = rng().standard_normal((N, 2000))
    found = solve(OPERATOR, NOISES["scalar"], many, SolverOptions(), rng())
    assert (found.n_iterations, found.rank) == (1, 0)
    close(found.values, np.linalg.solve(K + np.diag(NOISES["scalar"].sample), many), rtol=1e-11)
    assert solve(OPERATOR, NOISES["scalar"], many[:, :1], SolverOptions(), rng()).n_iterations > 1


def test_a_matrix_that_float64_cannot_factorize_is_named():
    ones = np.ones((50, 3))
    operator = kernel_operator(ones, HistogramIntersection())
    with pytest.raises(ValueError, match=r"not positive definite in float64; use a larger noise"):
        solve(operator, Noise(np.full(50, 1e-300)), ones[:, :1], SolverOptions(), rng())
