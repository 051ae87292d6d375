"""Whether more or less noise predicts left-out rows better: against models without the row, and finite differences."""

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from histogp._core.posterior import condition
from histogp._core.probability import Link
from histogp._core.search import leave_one_out
from histogp._core.search.leave_one_out import (
    left_out_loss,
    left_out_rows,
    left_out_slope,
    promising_factor,
)
from histogp._core.solvers.problem import Noise, SolverOptions, TrainingTargets
from histogp.kernels import Constant, Laplacian, Sum

N = 40
X = histograms(N, 5, density=0.9)
KERNEL = Sum([Laplacian(unit=0.5), Constant(0.3)])
OPTIONS = SolverOptions()
LINK = Link(2.0, 0.7)
ROWS = np.array([0, 3, 8, 21, 39])
RNG = np.random.default_rng(0)
VALUES = np.sin(9 * X[:, :2]) + 0.1 * RNG.standard_normal((N, 2))
CODES = np.argmax(X[:, :3], axis=1)
LABELS = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
WEIGHTS = RNG.uniform(0.3, 1.0, N)


@pytest.fixture(autouse=True)
def _one_link(monkeypatch):
    """One link for all, so that the loss depends on the noise in one way only."""
    monkeypatch.setattr(leave_one_out, "fit_link_to", lambda scores, wanted: LINK)


def posterior_of(targets, noise=0.1, weights=WEIGHTS, row_of=None, rows=X):
    given = TrainingTargets(targets, Noise(noise / weights), row_of, noise)
    return condition(kernel_operator(rows, KERNEL), given, OPTIONS, np.random.default_rng(0), seed=0, keep=True)[0]


def loss_by_hand(targets, noise, is_classification):
    """Of `ROWS`, each by a model without it."""
    A, total = KERNEL(X) + np.diag(noise / WEIGHTS), 0.0
    for i in ROWS:
        rest = np.delete(np.arange(N), i)
        solved = np.linalg.solve(A[np.ix_(rest, rest)], np.column_stack([targets[rest], A[rest, i]]))
        means, variance = A[i, rest] @ solved[:, :-1], A[i, i] - A[i, rest] @ solved[:, -1]
        if is_classification:
            doubt = 1 / (len(ROWS) + 2)
            wanted = np.where(targets[i] > 0, 1 - doubt, doubt / 2)
            logits = LINK.temperature * means + LINK.bend * np.log(np.clip((1 + means) / 2, 0.02, 1.5))
            total -= WEIGHTS[i] / WEIGHTS.mean() * wanted @ log_softmax(logits)
        else:
            one = np.median(WEIGHTS)  # the weight of a sample
            variance += noise / one - noise / WEIGHTS[i]
            total += WEIGHTS[i] / one * np.sum(np.log(2 * np.pi * variance) + (targets[i] - means) ** 2 / variance) / 2
    return total


@pytest.mark.parametrize("is_classification", [True, False])
def test_the_loss_is_that_of_models_without_the_row(is_classification):
    targets = LABELS if is_classification else VALUES
    found = left_out_loss(posterior_of(targets), ROWS, OPTIONS, is_classification=is_classification)
    close(found, loss_by_hand(targets, 0.1, is_classification), rtol=1e-8)


@pytest.mark.parametrize("is_classification", [True, False])
@pytest.mark.parametrize("repeated", ["none", "copies", "come again"])
def test_the_slope_is_that_of_finite_differences(is_classification, repeated):
    """Also where rows have several samples, whether these are left out together or one by one."""
    targets, row_of, weights, rows = LABELS if is_classification else VALUES, None, WEIGHTS, X
    if repeated != "none":
        weights, rows = np.ones(N), X[:20] if repeated == "copies" else X[:30]
        row_of = np.concatenate([np.arange(len(rows)), np.arange(N - len(rows))])
        targets = targets[row_of] if is_classification else targets
    index = np.arange(0, len(rows), 3)
    at = [posterior_of(targets, 0.1 * np.exp(step), weights, row_of, rows) for step in (0, 1e-5, -1e-5)]
    found = [left_out_slope(one, index, OPTIONS, is_classification=is_classification) for one in at]
    np.testing.assert_allclose(found[0][1], (found[1][0] - found[2][0]) / 2e-5, rtol=1e-5)


def test_rows_are_chosen_by_what_they_hold():
    hashes = np.random.default_rng(0).integers(2**63, size=2000).astype(np.uint64)
    chosen = left_out_rows(hashes)
    assert len(chosen) == leave_one_out.LEFT_OUT_ROWS
    assert np.all(np.diff(chosen) > 0)
    order = np.random.default_rng(1).permutation(2000)
    assert set(hashes[chosen]) == set(hashes[order][left_out_rows(hashes[order])])
    np.testing.assert_array_equal(left_out_rows(hashes[:10]), np.arange(10))


def test_the_better_side_is_promised():
    """Values with some noise, and models that have less, what suits left-out rows best, or more."""
    rows, every = histograms(200, 5, density=0.9), np.arange(200)
    K = KERNEL(rows) + 0.3 * np.eye(200)
    values = (np.linalg.cholesky(K) @ np.random.default_rng(0).standard_normal(200))[:, None]

    def at(logarithm):
        return posterior_of(values, np.exp(logarithm), np.ones(200), None, rows)

    def loss(logarithm):
        return left_out_loss(at(logarithm), every, OPTIONS, is_classification=False)

    best = minimize_scalar(loss, bounds=np.log([0.03, 3.0]), method="bounded", options={"xatol": 1e-4}).x
    found = [promising_factor(at(best + k), every, OPTIONS, is_classification=False) for k in (-2, 0, 2)]
    factors, losses = zip(*found, strict=True)
    assert factors == (leave_one_out.TRIED_FACTOR, 1.0, 1 / leave_one_out.TRIED_FACTOR)
    assert losses[1] < min(losses[0], losses[2]) - 1


def test_nothing_is_promised_without_factors_or_with_a_noise_for_each_output(monkeypatch):
    posterior = posterior_of(LABELS)
    with monkeypatch.context() as patch:
        patch.setattr(leave_one_out, "direct_options", lambda *arguments: None)
        assert promising_factor(posterior, ROWS, OPTIONS, is_classification=True) == (1.0, np.inf)
    assert promising_factor(posterior, ROWS, OPTIONS, is_classification=True)[1] < np.inf
    each = TrainingTargets(LABELS, Noise(np.full(N, 0.1), CODES, np.ones(3), np.full(3, 2.0)), None, 0.1)
    posterior = condition(kernel_operator(X, KERNEL), each, OPTIONS, np.random.default_rng(0), seed=0)[0]
    assert promising_factor(posterior, ROWS, OPTIONS, is_classification=True) == (1.0, np.inf)
