"""The likelihood from statistics of features against dense factors and SciPy's normal density."""

import numpy as np
import pytest
from chi2_features import features, some_points
from oracles import histograms
from scipy.stats import multivariate_normal

from histogp.hyperparameters import free_hyperparameters
from histogp.kernels import Chi2, resolve
from histogp.operators import low_rank
from histogp.operators.build import build_operator
from histogp.posterior.likelihood import exact_likelihood
from histogp.posterior.objectives import Data
from histogp.posterior.primal import Primal
from histogp.solvers.noise import Noise
from histogp.storage import Rows

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
    return build_operator(X, resolve(Chi2(T, weights=weights, points=POINTS), D), 1)


def close_to(found, expected, rtol=1e-9):
    assert found.value == pytest.approx(expected.value, rel=1e-11)
    assert found.data_term == pytest.approx(expected.data_term, rel=1e-9)
    for name in ("weights", "noise"):
        for side in ("demand", "supply"):
            actual, wanted = (getattr(one, side)[name] for one in (found, expected))
            assert np.shape(actual) == np.shape(wanted)
            np.testing.assert_allclose(actual, wanted, rtol=rtol, err_msg=f"{side} of {name}")


@pytest.mark.parametrize("block", [2**22, 100])
@pytest.mark.parametrize("factor", [1.0, 0.03])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_value_and_derivatives_are_those_of_dense_factors(weights, noise, factor, block, monkeypatch):
    monkeypatch.setattr(low_rank, "BLOCK", block)
    objective = Primal(Data(operator_of(np.ones(D)), NOISES[noise], Y))
    expected = exact_likelihood(operator_of(WEIGHTS[weights]), NOISES[noise].scaled(factor), Y, derivatives=True)
    close_to(objective.at(WEIGHTS[weights], factor), expected)
    only_value = objective.at(WEIGHTS[weights], factor, derivatives=False)
    assert only_value.value == pytest.approx(expected.value, rel=1e-11)
    assert only_value.demand == {}


@pytest.mark.parametrize("noise", NOISES)
def test_the_value_is_the_log_density_of_the_targets(noise):
    Z = features(X, POINTS, SOME)
    diagonals = np.broadcast_to(NOISES[noise].diagonals(), Y.shape)
    density = sum(
        multivariate_normal(np.zeros(N), Z @ Z.T + np.diag(d)).logpdf(y) for d, y in zip(diagonals.T, Y.T, strict=True)
    )
    assert Primal(Data(operator_of(None), NOISES[noise], Y)).at(SOME, 1.0).value == pytest.approx(density, rel=1e-11)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    "kernel",
    [Chi2(T), Chi2(T, weights="ard"), Chi2(T, weights=SOME), Chi2(T, weights="ard", groups=[0, 1, 1, 0, 2, 2])],
    ids=["scale", "ard", "weights", "groups"],
)
def test_derivatives_are_finite_differences(kernel, noise):
    kernel.set_params(points=POINTS)
    objective = Primal(Data(build_operator(X, resolve(kernel, D), 1), NOISES[noise], Y))
    space = free_hyperparameters(kernel, Rows.from_array(X), 0.1, 1.0, None)
    theta = space.start + np.random.default_rng(3).uniform(-0.3, 0.3, len(space.start))
    found = space.gradient(theta, objective(space, theta).derivatives)
    expected = [
        (objective(space, theta + step).value - objective(space, theta - step).value) / 2e-5
        for step in 1e-5 * np.eye(len(theta))
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
