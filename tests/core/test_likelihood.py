"""The marginal likelihood and its derivatives against SciPy's normal density."""

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import Log, histograms, kernel_matrix, solve
from scipy.stats import multivariate_normal

from histogp._core.data import Rows
from histogp._core.likelihood import bounded_likelihood, estimated_likelihood, exact_likelihood
from histogp._core.search.objectives import quadrature_of
from histogp._core.search.space import Data, Space
from histogp._core.solvers.preconditioner import make_preconditioner
from histogp._core.solvers.problem import Noise, SolverOptions
from histogp._core.solvers.subspace import leading_subspace
from histogp.kernels import Exponential, HistogramIntersection, Power

N, D = 120, 6
X = histograms(N, D)
CODES = np.random.default_rng(1).choice(3, size=N, p=[0.2, 0.3, 0.5])
Y = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
NOISES = {
    "scalar": Noise(np.full(N, 0.1)),
    "per sample": Noise(np.random.default_rng(2).uniform(0.05, 2, N)),
    "per problem": Noise(np.full(N, 0.1), CODES, np.array([0.4, 0.6, 1.0]), np.array([1.6, 1.4, 1.0])),
}
KERNELS = {
    "plain": HistogramIntersection(),
    "power": HistogramIntersection(Power(0.6)),
    "weighted": HistogramIntersection(Exponential(1.5), np.linspace(0.2, 2, D)),
    "ard": HistogramIntersection(Power(0.6), "ard"),
    "groups": HistogramIntersection(Log([2.0, 0.5]), "ard", groups=["b", "a", "a", "b", "b", "a"]),
    "eta of each": HistogramIntersection(Power(np.linspace(0.5, 1.5, D)), 0.3),
}


def operator_of(kernel):
    return kernel_operator(X, kernel, 2)


def density(K, noise, y=Y):
    diagonals = np.broadcast_to(noise.diagonals(), y.shape)
    return sum(
        multivariate_normal(np.zeros(len(y)), K + np.diag(d)).logpdf(column)
        for d, column in zip(diagonals.T, y.T, strict=True)
    )


@pytest.mark.parametrize("name", NOISES)
def test_exact_is_the_log_density_of_the_targets(name):
    kernel = HistogramIntersection(Power(0.6))
    found = exact_likelihood(operator_of(kernel), NOISES[name], Y)
    assert found.value == pytest.approx(density(kernel_matrix(X, X, kernel), NOISES[name]), rel=1e-12)


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_derivatives_are_finite_differences(kernel, name):
    data = Data(operator_of(KERNELS[kernel]), NOISES[name], Y)
    space = Space.of(KERNELS[kernel]._adapt(X).value, Rows.from_array(X), 0.1, 1.0)
    theta = space.start + np.random.default_rng(3).uniform(-0.3, 0.3, len(space.start))

    def value(theta):
        return exact_likelihood(*data.at(space, theta), Y).value

    found = exact_likelihood(*data.at(space, theta), Y, derivatives=True)
    expected = [(value(theta + step) - value(theta - step)) / 2e-5 for step in 1e-5 * np.eye(len(theta))]
    np.testing.assert_allclose(space.gradient(theta, found.derivatives), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rank", [0, 30])
@pytest.mark.parametrize("name", NOISES)
def test_estimates_are_right_within_their_standard_error(name, rank):
    kernel = HistogramIntersection(Power(0.6))
    operator, noise = operator_of(kernel), NOISES[name]
    options = SolverOptions(preconditioner_rank=rank, n_threads=2)
    preconditioner = make_preconditioner(operator, noise, 3, options, np.random.default_rng(0))
    found = estimated_likelihood(
        operator,
        noise,
        Y,
        np.random.default_rng(4),
        n_probes=64,
        tol=1e-6,
        max_iter=1000,
        preconditioner=preconditioner,
        derivatives=True,
    )
    exact = exact_likelihood(operator, noise, Y, derivatives=True)
    assert abs(found.value - exact.value) < 4 * found.error
    assert found.error < 0.1 * abs(exact.value)
    for key, expected in exact.data_fit_gradient.items():
        np.testing.assert_allclose(found.data_fit_gradient[key], expected, rtol=1e-4)
        scale = np.abs(exact.complexity_gradient[key]).max()
        assert np.all(np.abs(found.complexity_gradient[key] - exact.complexity_gradient[key]) < 0.25 * scale), key


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISES)
def test_derivatives_average_to_the_exact_ones(name):
    """Unbiased: the mean over many probes comes as near as probes allow."""
    kernel = HistogramIntersection(Power(0.6))
    operator, noise = operator_of(kernel), NOISES[name]
    options = SolverOptions(preconditioner_rank=20)
    preconditioner = make_preconditioner(operator, noise, 3, options, np.random.default_rng(0))
    found = [
        estimated_likelihood(
            operator,
            noise,
            Y,
            np.random.default_rng(seed),
            n_probes=50,
            tol=1e-8,
            max_iter=1000,
            preconditioner=preconditioner,
            derivatives=True,
        )
        for seed in range(20)
    ]
    exact = exact_likelihood(operator, noise, Y, derivatives=True)
    for key in exact.complexity_gradient:
        samples = np.array([one.complexity_gradient[key] for one in found])
        error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
        assert np.all(np.abs(samples.mean(axis=0) - exact.complexity_gradient[key]) < 4.5 * error), key
    values = np.array([one.value for one in found])
    assert abs(values.mean() - exact.value) < 4 * values.std(ddof=1) / np.sqrt(len(values))
    # The error that is reported is the one that there is.
    assert 0.4 < np.mean([one.error for one in found]) / values.std(ddof=1) < 2.5


def test_more_probes_until_the_error_is_met():
    data = Data(operator_of(HistogramIntersection()), NOISES["scalar"], Y)
    options = SolverOptions(preconditioner_rank=0)
    rough, fine = (quadrature_of(data, 4, options, 0, error) for error in (None, 1.0))
    assert rough.error > 1 >= fine.error
    exact = exact_likelihood(data.operator, data.noise, Y).value
    assert abs(fine.value - exact) < 4


def test_a_good_preconditioner_makes_the_estimate_better():
    data = Data(operator_of(HistogramIntersection()), NOISES["scalar"], Y)
    plain, better = (
        quadrature_of(data, 16, SolverOptions(preconditioner_rank=rank), 0, None).error for rank in (0, 100)
    )
    assert better < plain / 2


@pytest.mark.parametrize("tol", [0.5, 1e-1, 1e-6])
@pytest.mark.parametrize("name", NOISES)
def test_the_bound_holds_however_inexact_the_solution(name, tol):
    operator, noise = operator_of(HistogramIntersection()), NOISES[name]
    exact = exact_likelihood(operator, noise, Y).value
    solution = solve(operator, noise, Y, SolverOptions("cg", tol=tol), np.random.default_rng(0))
    space = leading_subspace(operator, 16, np.random.default_rng(0))
    papers, fischer, tightest = (
        bounded_likelihood(operator, noise, Y, solution, space, bound).value
        for bound in ("papers", "fischer", "tightest")
    )
    assert papers <= exact
    assert fischer <= exact
    assert tightest >= max(papers, fischer) - 1e-9
    with pytest.raises(ValueError, match="Unknown bound 'best'; known are 'tightest'"):
        bounded_likelihood(operator, noise, Y, solution, space, "best")


@pytest.mark.slow
def test_quadrature_on_real_features(fashion_mnist):
    """Within 1% of the log-determinant with 16 probes, inside three standard errors."""
    X, *_ = fashion_mnist
    operator = kernel_operator(X[:2000], HistogramIntersection(), 2)
    noise, nothing = Noise(np.full(2000, 0.1)), np.zeros((2000, 1))
    constant = 2000 * np.log(2 * np.pi)
    exact = -2 * exact_likelihood(operator, noise, nothing).value - constant
    found = quadrature_of(Data(operator, noise, nothing), 16, SolverOptions(n_threads=2), 0, None)
    estimate = -2 * found.value - constant
    assert abs(estimate - exact) < 0.01 * abs(exact)
    assert abs(estimate - exact) < 3 * 2 * found.error
