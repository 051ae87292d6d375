"""The likelihood from statistics of features against dense factors and SciPy's normal density."""

import numpy as np
import pytest
from chi2_features import features, some_points
from kernel_operators import FixedChi2, kernel_operator, waves_operator
from oracles import histograms
from scipy.stats import multivariate_normal

from histogp._core.data import Rows
from histogp._core.likelihood import exact_likelihood
from histogp._core.operators import feature_kernels
from histogp._core.search.feature_objective import FeatureObjective, Tridiagonal, _total
from histogp._core.search.space import Data, Space
from histogp._core.solvers.problem import Noise
from histogp.kernels import ExpChi2, HistogramIntersection

pytestmark = pytest.mark.portable

N, D, T = 90, 6, 3
X = histograms(N, D)
POINTS = some_points(T, D)
CODES = np.random.default_rng(1).choice(3, size=N, p=[0.2, 0.3, 0.5])
Y = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
NOISES = {
    "scalar": Noise(np.full(N, 0.1)),
    "per sample": Noise(np.random.default_rng(2).uniform(0.05, 2, N)),
    "per problem": Noise(np.full(N, 0.1), CODES, np.array([0.4, 0.6, 1.0]), np.array([1.6, 1.4, 1.0])),
}
SOME = np.array([2.0, 0, 0.5, 1, 0, 3])
WEIGHTS = {
    "none": None,
    "some": SOME + 0.1,
    "zeros": SOME,
    "one": np.eye(D)[2],
    "from tiny to large": np.array([1e-14, 1e-9, 1, 10, 1e-20, 1e-4]),
    "all zero": np.zeros(D),
}


def operator_of(weights):
    return kernel_operator(X, FixedChi2(POINTS, weights=weights), 1)


def close_to(found, expected, rtol=1e-9):
    assert found.value == pytest.approx(expected.value, rel=max(1e-11, rtol / 1e4))
    assert found.data_term == pytest.approx(expected.data_term, rel=1e-9)
    for name in ("weights", "noise"):
        for side in ("data_fit_gradient", "complexity_gradient"):
            actual, wanted = (getattr(one, side)[name] for one in (found, expected))
            assert np.shape(actual) == np.shape(wanted)
            np.testing.assert_allclose(actual, wanted, rtol=rtol, err_msg=f"{side} of {name}")


@pytest.mark.parametrize("block", [2**22, 100])
@pytest.mark.parametrize("factor", [1.0, 0.03])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_value_and_derivatives_are_those_of_dense_factors(weights, noise, factor, block, monkeypatch):
    monkeypatch.setattr(feature_kernels, "BLOCK_NUMBERS", block)
    objective = FeatureObjective(Data(operator_of(np.ones(D)), NOISES[noise], Y))
    expected = exact_likelihood(operator_of(WEIGHTS[weights]), NOISES[noise].scaled(factor), Y, derivatives=True)
    close_to(objective.at(WEIGHTS[weights], factor), expected)
    only_value = objective.at(WEIGHTS[weights], factor, derivatives=False)
    assert only_value.value == pytest.approx(expected.value, rel=1e-11)
    assert only_value.data_fit_gradient == {}


@pytest.mark.parametrize("noise", NOISES)
def test_the_value_is_the_log_density_of_the_targets(noise):
    Z = features(X, POINTS, SOME)
    diagonals = np.broadcast_to(NOISES[noise].diagonals(), Y.shape)
    density = sum(
        multivariate_normal(np.zeros(N), Z @ Z.T + np.diag(d)).logpdf(y) for d, y in zip(diagonals.T, Y.T, strict=True)
    )
    objective = FeatureObjective(Data(operator_of(None), NOISES[noise], Y))
    assert objective.at(SOME, 1.0).value == pytest.approx(density, rel=1e-11)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "kernel",
    [
        FixedChi2(POINTS),
        FixedChi2(POINTS, weights="ard"),
        FixedChi2(POINTS, weights=SOME),
        FixedChi2(POINTS, weights="ard", groups=[0, 1, 1, 0, 2, 2]),
    ],
    ids=["scale", "ard", "weights", "groups"],
)
def test_derivatives_are_finite_differences(kernel, noise):
    operator = kernel_operator(X, kernel, 1)
    objective = FeatureObjective(Data(operator, NOISES[noise], Y))
    space = Space.of(operator.kernel, Rows.from_array(X), 0.1, 1.0)
    theta = space.start + np.random.default_rng(3).uniform(-0.3, 0.3, len(space.start))
    found = space.gradient(theta, objective(space, theta).derivatives)
    expected = [
        (objective(space, theta + step).value - objective(space, theta - step).value) / 2e-5
        for step in 1e-5 * np.eye(len(theta))
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", [N, T * D, 11], ids=["fewer features", "as many", "more"])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("weights", [None, SOME], ids=["no weights", "weights"])
def test_a_scale_is_that_of_dense_factors_in_either_space(weights, noise, n):
    operator = kernel_operator(X[:n], FixedChi2(POINTS, weights=weights), 1)
    data = Data(operator, NOISES[noise].subset(np.arange(n)), Y[:n])
    objective = FeatureObjective(data)
    space = Space.of(operator.kernel, Rows.from_array(X[:n]), 0.1, 1.0)
    assert [one.name for one in space.free] == ["noise", "scale"]
    for some in (space, space.only(["noise"])):
        for theta in some.start + np.array([[0.0, 0.0], [0.7, -0.4], [-3.0, 2.0]])[:, : len(some.start)]:
            found, expected = objective(some, theta), exact_likelihood(*data.at(some, theta), Y[:n], derivatives=True)
            assert found.value == pytest.approx(expected.value, rel=1e-10)
            assert found.data_term == pytest.approx(expected.data_term, rel=1e-8)
            slopes = [some.gradient(theta, one.derivatives) for one in (found, expected)]
            np.testing.assert_allclose(*slopes, rtol=1e-7, atol=1e-7)


def test_the_smaller_matrix_is_made_once_a_search(monkeypatch):
    made, of = [], Tridiagonal.of

    def count(matrix, sides):
        made.append(matrix.shape)
        return of(matrix, sides)

    monkeypatch.setattr(Tridiagonal, "of", count)
    operator = kernel_operator(X[:11], FixedChi2(POINTS), 1)
    objective = FeatureObjective(Data(operator, NOISES["scalar"].subset(np.arange(11)), Y[:11]))
    space = Space.of(operator.kernel, Rows.from_array(X[:11]), 0.1, 1.0)
    for step in range(3):
        objective(space, space.start + step)
    assert made == [(11, 11)]


@pytest.mark.parametrize("n", [1, 2, 40])
def test_a_tridiagonal_matrix_stands_for_a_dense_one(n):
    rng = np.random.default_rng(0)
    Z, b = rng.standard_normal((n, n + 2)), rng.standard_normal((n, 3))
    A = Z @ Z.T
    reduced = Tridiagonal.of(A.copy(), b)
    np.testing.assert_allclose(reduced.values, np.linalg.eigvalsh(A), rtol=1e-9)
    for weight in (0.0, 0.3, 50.0):
        solved, expected = reduced.solve(weight), np.linalg.solve(np.eye(n) + weight * A, b)
        # Both are the same up to a rotation, which all products forget.
        np.testing.assert_allclose(solved.T @ solved, expected.T @ expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(solved.T @ reduced.sides, expected.T @ b, rtol=1e-9, atol=1e-12)
        image = solved.T @ reduced.multiply(solved)
        np.testing.assert_allclose(image, expected.T @ A @ expected, rtol=1e-9, atol=1e-12)


def test_a_scale_needs_one_small_space_and_weights_few_features(monkeypatch):
    wide, noises = kernel_operator(X[:11], FixedChi2(POINTS), 1), {1: NOISES["scalar"], 3: NOISES["per problem"]}
    monkeypatch.setattr("histogp._core.search.feature_objective.MOST_TIMES_SAMPLES", 1)
    for limit, n_matrices, suits in ((10, 1, False), (11, 1, True), (11, 3, False), (16, 3, True)):
        monkeypatch.setattr("histogp._core.search.feature_objective.LARGEST_FACTOR", limit)
        assert not FeatureObjective.suits(wide, most_times=1)
        assert FeatureObjective.suits_scale(wide, noises[n_matrices]) == suits
    assert not FeatureObjective.suits_scale(kernel_operator(X, HistogramIntersection()), NOISES["scalar"])


def one_weight(n_features, weight=None):
    """Random waves, with a weight for all of them."""
    approximate = kernel_operator(X, ExpChi2(n_features, beta=2.0, approximation="fourier"))
    return waves_operator(X, approximate.kernel.map.waves, weight)


ONE_WEIGHT = [0.0, 1e-20, 1e-9, 0.3, 1.0, 40.0]
by_rank = pytest.mark.parametrize("n_features", [20, N, 150], ids=["fewer", "as many", "more"])


@pytest.mark.slow
@by_rank
@pytest.mark.parametrize("factor", [1.0, 0.03, 50.0])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("weight", ONE_WEIGHT)
def test_one_scale_for_all_by_a_tridiagonal_matrix_and_by_factors(weight, noise, factor, n_features):
    objective = FeatureObjective(Data(one_weight(n_features), NOISES[noise], Y))
    for group in objective._groups:
        scaled = group.at_scale(weight, factor)
        plain = objective._by_factor(group, np.array([weight]), factor, True)
        # Directions with hardly any variance are rounding, which a large weight makes large.
        close_to(scaled, plain, rtol=1e-9 if weight <= 1 else 1e-6)


@pytest.mark.slow
@by_rank
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("weight", [None, 0.0, 0.3, 40.0])
def test_one_weight_for_all_by_dense_factors(weight, noise, n_features):
    weights = None if weight is None else np.array([weight])
    objective = FeatureObjective(Data(one_weight(n_features, 2.0), NOISES[noise], Y))
    for factor in (1.0, 0.3):
        operator = one_weight(n_features, weight)
        expected = exact_likelihood(operator, NOISES[noise].scaled(factor), Y, derivatives=True)
        close_to(objective.at(weights, factor), expected, rtol=1e-6)
        only_value = objective.at(weights, factor, derivatives=False)
        assert only_value.value == pytest.approx(expected.value, rel=1e-10)
        assert only_value.data_fit_gradient == {}


@by_rank
def test_one_weight_for_all_is_the_log_density_of_the_targets(n_features):
    operator = one_weight(n_features)
    K = operator.matrix()
    objective = FeatureObjective(Data(operator, NOISES["per sample"], Y))
    for weight, factor in ((0.5, 1.0), (3.0, 0.2)):
        covariance = weight * K + factor * np.diag(NOISES["per sample"].sample)
        expected = multivariate_normal(np.zeros(N), covariance).logpdf(Y.T).sum()
        assert objective.at(np.array([weight]), factor).value == pytest.approx(expected, rel=1e-10)


@by_rank
@pytest.mark.parametrize("noise", NOISES)
def test_derivatives_by_one_weight_are_finite_differences(noise, n_features):
    operator = one_weight(n_features, 0.7)
    objective = FeatureObjective(Data(operator, NOISES[noise], Y))
    space = Space.of(operator.kernel, Rows.from_array(X), 0.1, 1.0)
    assert [one.name for one in space.free] == ["noise", "scale"]
    for theta in space.start + np.array([[0.0, 0.0], [0.7, -0.4], [-1.0, 2.0]]):
        found = space.gradient(theta, objective(space, theta).derivatives)
        expected = [
            (objective(space, theta + step).value - objective(space, theta - step).value) / 2e-5
            for step in 1e-5 * np.eye(2)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_one_dimension_has_one_weight_too():
    values, points = histograms(N, 2)[:, :1], some_points(T, 1)
    operator = kernel_operator(values, FixedChi2(points), 1)
    objective = FeatureObjective(Data(operator, NOISES["per problem"], Y))
    for weight in (0.0, 0.4, 9.0):
        plain = [objective._by_factor(group, np.array([weight]), 0.5, True) for group in objective._groups]
        found = objective.at(np.array([weight]), 0.5)
        assert found.value == pytest.approx(sum(part.value for part in plain), rel=1e-11)
        for side in ("data_fit_gradient", "complexity_gradient"):
            expected = _total([getattr(part, side) for part in plain])
            for name in ("weights", "noise"):
                np.testing.assert_allclose(getattr(found, side)[name], expected[name], rtol=1e-8)
