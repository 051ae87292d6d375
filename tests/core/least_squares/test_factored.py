"""Ridge solutions by Cholesky factors against those of an eigendecomposition, and scikit-learn."""

import numpy as np
import pytest
from oracles import close
from sklearn import linear_model

from histogp._core.least_squares.ridge import RELATIVE_PENALTY_RANGE, FactoredRidge, LeftOut, Ridge
from histogp._core.least_squares.statistics import Quadratic, StreamingStatistics

pytestmark = pytest.mark.portable

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((60, 8)) @ RNG.standard_normal((8, 8)) + 3 * RNG.standard_normal(8)
Y = Z @ RNG.standard_normal((8, 2)) + 4 * RNG.standard_normal((60, 2)) + 5
WEIGHTS = RNG.random(60) + 0.1
ALPHAS = [1e-6, 1e-3, 0.5, 20.0, 1e4, 1e8]
by_intercept = pytest.mark.parametrize("intercept", [True, False])
by_weights = pytest.mark.parametrize("weights", [None, WEIGHTS, WEIGHTS * (WEIGHTS > 0.4)], ids=["no", "all", "zeros"])


def both(Z=Z, Y=Y, weights=None, intercept=True):
    statistics = StreamingStatistics.of(Z, Y, weights)
    factored = FactoredRidge(Quadratic.of(statistics, intercept=intercept), intercept)
    return factored, Ridge.of(statistics, intercept=intercept)


def sample(ridge, weights=None):
    """Every third row to leave out."""
    some = slice(0, 60, 3)
    given = np.ones(60) if weights is None else weights
    return LeftOut(ridge.transform(Z[some]), Y[some], given[some], np.minimum(given[some], 1))


def left_out_error(ridge, alpha, weights=None):
    rows = sample(ridge, weights)
    return rows.mean_square(ridge.leave_out(alpha, rows))


@by_weights
@by_intercept
@pytest.mark.parametrize("alpha", ALPHAS)
def test_coefficients_and_errors_are_those_of_an_eigendecomposition(alpha, intercept, weights):
    factored, ridge = both(weights=weights, intercept=intercept)
    for found, expected in zip(factored.coefficients(alpha), ridge.coefficients(alpha), strict=True):
        close(found, expected, rtol=1e-9)
    for measure in ("generalized_error", "negative_evidence"):
        expected = getattr(ridge, measure)(alpha)
        assert getattr(factored, measure)(alpha) == pytest.approx(expected, rel=1e-8)
    assert left_out_error(factored, alpha, weights) == pytest.approx(left_out_error(ridge, alpha, weights), rel=1e-8)
    close(
        factored.leave_out(alpha, sample(factored, weights)), ridge.leave_out(alpha, sample(ridge, weights)), rtol=1e-8
    )


@by_intercept
@pytest.mark.parametrize("unit", [1e-3, 0.1, 1.0, 1e3])
def test_weights_of_any_unit(unit, intercept):
    """Also where they sum to less than there are features."""
    factored, ridge = both(weights=unit * WEIGHTS, intercept=intercept)
    for alpha in unit * np.array([1e-3, 0.5, 20.0]):
        for measure in ("generalized_error", "negative_evidence"):
            assert getattr(factored, measure)(alpha) == pytest.approx(getattr(ridge, measure)(alpha), rel=1e-7)
    best = factored.find_penalty(factored.generalized_error)
    candidates = ridge.penalties()[10:]
    assert ridge.generalized_error(best) < 1.01 * min(map(ridge.generalized_error, candidates))


@by_weights
@by_intercept
@pytest.mark.parametrize("alpha", [1e-3, 20.0])
def test_coefficients_are_those_of_scikit_learn(alpha, intercept, weights):
    coefficients, intercepts = both(weights=weights, intercept=intercept)[0].coefficients(alpha)
    theirs = linear_model.Ridge(alpha=alpha, fit_intercept=intercept, solver="svd").fit(Z, Y, weights)
    close(coefficients, theirs.coef_.T, rtol=1e-9)
    close(intercepts, np.broadcast_to(theirs.intercept_, 2), np.abs(Y).max(), rtol=1e-9)


@by_intercept
@pytest.mark.parametrize("measure", ["generalized_error", "negative_evidence", "left_out_error"])
@pytest.mark.parametrize("noise", [0.1, 4.0, 100.0])
def test_the_best_penalty_is_close_to_that_of_a_fine_grid(measure, noise, intercept):
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((200, 20)) * np.geomspace(1, 0.05, 20)
    targets = wide @ rng.standard_normal((20, 2)) + noise * rng.standard_normal((200, 2))
    factored, ridge = both(wide, targets, intercept=intercept)

    def of(one):
        if measure != "left_out_error":
            return getattr(one, measure)
        rows = LeftOut(one.transform(wide), targets, *np.ones((2, 200)))
        return lambda alpha: rows.mean_square(one.leave_out(alpha, rows))

    error = of(ridge)
    grid = np.trace(factored.problem.hessian) * np.geomspace(*RELATIVE_PENALTY_RANGE, 1000)
    values = np.array([error(alpha) for alpha in grid])
    found = error(factored.find_penalty(of(factored)))
    # Less than a hundredth of what there is to be lost, and a sample has far more to say than that.
    assert found <= values.min() + 0.01 * (values.max() - values.min())
    assert found <= error(ridge.find_penalty(error)) + 0.002 * (values.max() - values.min())


def test_the_best_penalty_asks_few_questions():
    asked = []
    factored, _ = both()

    def error(alpha):
        asked.append(alpha)
        return factored.negative_evidence(alpha)

    best = factored.find_penalty(error)
    trace = np.trace(factored.problem.hessian)
    assert len(asked) < 30
    assert RELATIVE_PENALTY_RANGE[0] * trace <= best <= RELATIVE_PENALTY_RANGE[1] * trace


def test_weights_count_like_repeated_rows():
    times = np.arange(60) % 4
    weighted, _ = both(weights=times)
    repeated, _ = both(Z.repeat(times, axis=0), Y.repeat(times, axis=0))
    for alpha in ALPHAS:
        close(weighted.coefficients(alpha)[0], repeated.coefficients(alpha)[0], rtol=1e-9)
        for measure in (FactoredRidge.generalized_error, FactoredRidge.negative_evidence):
            np.testing.assert_allclose(measure(weighted, alpha), measure(repeated, alpha), rtol=1e-9)


def test_features_without_their_means():
    factored, _ = both()
    close(factored.transform(Z), Z - Z.mean(axis=0), rtol=1e-13)
    close(both(intercept=False)[0].transform(Z), Z, rtol=1e-15)


@pytest.mark.parametrize("below", [1e-14, 1e-12, 1e-10])
@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-14])
def test_a_hessian_that_rounding_has_made_indefinite_does_not_matter(alpha, below):
    vectors = np.linalg.qr(np.random.default_rng(2).standard_normal((8, 8)))[0]
    hessian = vectors @ np.diag([50.0, 20, 10, 5, 2, 1, 0, -below]) @ vectors.T
    hessian = (hessian + hessian.T) / 2
    weights = vectors[:, :6] @ np.ones((6, 2))
    cross = hessian @ weights
    squares = np.sum(weights * cross, axis=0) + 3.0
    problem = Quadratic(hessian, cross, squares, np.zeros(8), np.zeros(2), 60.0, 60.0, below)
    factored = FactoredRidge(problem, True)
    found, intercepts = factored.coefficients(alpha)
    # What weights are where there is no variance does not matter.
    close(hessian @ found, cross, rtol=1e-7)
    assert np.isfinite(intercepts).all()
    assert np.isfinite(factored.generalized_error(alpha))
    alive = np.random.default_rng(3).standard_normal((5, 6)) @ vectors[:, :6].T
    errors = factored.leave_out(alpha, LeftOut(alive, alive @ weights, *np.ones((2, 5))))
    assert np.isfinite(errors).all()
    if alpha > 0:
        assert np.isfinite(factored.negative_evidence(alpha))
    for measure in (factored.generalized_error, factored.negative_evidence):
        assert np.isfinite(factored.find_penalty(measure))


def test_columns_that_occur_twice_and_columns_of_nothing():
    wide = np.hstack([Z, Z, np.zeros((60, 1)), np.full((60, 1), 1e3)])
    factored, ridge = both(wide, Y)
    for alpha in (0.0, 1e-9, 1.0):
        found, expected = (wide @ w + b for w, b in (factored.coefficients(alpha), ridge.coefficients(alpha)))
        close(found, expected, rtol=1e-5)


def test_targets_that_do_not_vary():
    factored, _ = both(Y=np.full((60, 1), 3.0))
    for measure in (factored.generalized_error, factored.negative_evidence):
        coefficients, intercepts = factored.coefficients(factored.find_penalty(measure))
        close(coefficients, np.zeros((8, 1)), 1.0, rtol=1e-9)
        close(intercepts, np.full(1, 3.0), rtol=1e-9)
    features_of_nothing, _ = both(np.zeros((60, 8)), Y)
    best = features_of_nothing.find_penalty(features_of_nothing.generalized_error)
    close(features_of_nothing.coefficients(best)[1], Y.mean(axis=0), rtol=1e-12)


def test_a_penalty_is_not_below_rounding():
    statistics = StreamingStatistics.of(Z, Y)
    for precision in (np.float64, np.float32):
        problem = Quadratic.of(statistics, precision=precision)
        lowest = max(8 * problem.rounding, RELATIVE_PENALTY_RANGE[0] * np.trace(problem.hessian))
        # The search stops at half a unit of the logarithm.
        found = FactoredRidge(problem, True).find_penalty(lambda alpha: alpha)
        assert lowest <= found < 2 * lowest
