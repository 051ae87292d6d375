"""Upper bounds of the log-determinant against NumPy's, and the papers' lemmas."""

import os
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_operators import kernel_operator
from oracles import histograms, kernel_matrix, matrices

from histogp._core.solvers.problem import Noise
from histogp._core.solvers.subspace import determinant_bounds, fischer_bound, leading_subspace, papers_bound
from histogp.kernels import HistogramIntersection, Power

SPECTRA = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12)


def ub(n, beta, mu1, mu2):
    """As it stands in gp-hik-ijcv2016, eq. 18 to 20."""
    t = (beta * mu1 - mu2) / (beta * n - mu1)
    return float(np.array([np.log(beta), np.log(t)]) @ np.linalg.solve([[beta, t], [beta**2, t**2]], [mu1, mu2]))


def rounding(*values):
    return 1e-9 * (1 + sum(np.abs(value) for value in values))


@pytest.mark.slow
@given(SPECTRA, st.floats(1, 100), st.floats(0, 1))
@settings(max_examples=1_000)
def test_theorem_2_holds_for_any_beta_above_and_any_norm_below(spectrum, excess, share):
    values = np.array(spectrum)
    n, beta, trace, squares = len(values), values.max() * excess, values.sum(), (values**2).sum()
    exact = np.log(values).sum()
    bound = papers_bound(n, beta, trace, squares, values.min())
    looser = papers_bound(n, beta, trace, share * squares, values.min())
    # The node t is a difference of numbers as large as beta.
    slack = rounding(n * np.log(beta), exact) + 1e-15 * n * beta / values.min()
    assert exact <= bound + slack
    assert bound <= looser + slack


@given(SPECTRA.filter(lambda values: len(values) > 1 and max(values) > 1.1 * min(values)))
def test_lemma_1_the_bound_falls_as_the_norm_grows(spectrum):
    values = np.array(spectrum) / max(spectrum)
    bounds = [papers_bound(len(values), 1.0, values.sum(), share * (values**2).sum()) for share in (0.2, 0.5, 0.9, 1.0)]
    assert all(a >= b - rounding(a) for a, b in pairwise(bounds))


@given(SPECTRA, st.floats(1e-3, 1e3))
def test_lemma_2_scaling_adds_a_constant(spectrum, gamma):
    values = np.array(spectrum)
    n, beta, trace, squares = len(values), 1.5 * values.max(), values.sum(), (values**2).sum()
    scaled = papers_bound(n, gamma * beta, gamma * trace, gamma**2 * squares)
    expected = papers_bound(n, beta, trace, squares) + n * np.log(gamma)
    np.testing.assert_allclose(scaled, expected, atol=rounding(n * np.log(beta), n * np.log(gamma)))


def test_the_stable_form_is_the_papers_formula():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.uniform(0.1, 5, 8)
        arguments = (8, values.max() * rng.uniform(1, 3), values.sum(), (values**2).sum() * rng.uniform(0.3, 1))
        np.testing.assert_allclose(papers_bound(*arguments), ub(*arguments), rtol=1e-10)


@pytest.mark.parametrize("n", [1, 2, 50])
def test_tight_for_multiples_of_the_identity_and_for_rank_one(n):
    assert papers_bound(n, 3.0, 3.0 * n, 9.0 * n) == pytest.approx(n * np.log(3))
    u = np.linspace(1, 2, n)
    values = np.linalg.eigvalsh(np.outer(u, u) + 0.1 * np.eye(n))
    bound = papers_bound(n, values.max(), values.sum(), (values**2).sum(), 0.1)
    assert bound == pytest.approx(np.log(values).sum(), abs=1e-9)
    assert fischer_bound(n, values[-1:], values.sum()) == pytest.approx(np.log(values).sum(), abs=1e-9)


@pytest.mark.slow
@given(matrices(), st.sampled_from([1e-3, 0.1, 10.0]), st.integers(1, 14), st.sampled_from(["one", "rows", "problems"]))
@settings(max_examples=int(os.environ.get("HISTOGP_CASES", "2000")))  # `make bench` tries 10,000
def test_no_bound_is_below_the_determinant(X, level, dimension, kind):
    kernel = HistogramIntersection(Power(0.5))
    n = X.shape[0]
    rng = np.random.default_rng(n)
    noise = {
        "one": Noise(np.full(n, level)),
        "rows": Noise(level * rng.uniform(0.5, 2, n)),
        "problems": Noise(np.full(n, level), rng.integers(2, size=n), np.array([0.5, 1.5]), np.array([1.5, 0.5])),
    }[kind]
    operator = kernel_operator(X, kernel, 1)
    bounds = determinant_bounds(operator, noise, leading_subspace(operator, dimension, rng))
    for k, diagonal in enumerate(noise.diagonals().T):
        values = np.linalg.eigvalsh(kernel_matrix(X, X, kernel) + np.diag(diagonal))
        exact = np.log(np.maximum(values, diagonal.min())).sum()
        # An eigenvalue is known to rounding of the largest, its logarithm to that in units of itself.
        slack = rounding(exact) + 1e-13 * n * values.max() / diagonal.min()
        for name in ("papers", "fischer", "tightest"):
            assert getattr(bounds, name)[k] >= exact - slack, name


@pytest.mark.parametrize("case", ["one row", "equal rows", "rank one", "zero"])
def test_degenerate_matrices(case):
    X = {
        "one row": np.array([[1.0, 2.0]]),
        "equal rows": np.ones((20, 3)),
        "rank one": np.repeat([[1.0, 0.0], [0.0, 0.0]], 10, axis=0),
        "zero": np.zeros((5, 2)),
    }[case]
    operator = kernel_operator(X, HistogramIntersection(), 1)
    bounds = determinant_bounds(
        operator, Noise(np.full(len(X), 0.3)), leading_subspace(operator, 8, np.random.default_rng(0))
    )
    exact = np.linalg.slogdet(kernel_matrix(X, X, HistogramIntersection()) + 0.3 * np.eye(len(X)))[1]
    for name in ("papers", "fischer"):
        np.testing.assert_allclose(getattr(bounds, name), exact, atol=1e-6)


def test_a_larger_subspace_is_tighter_and_fischer_tighter_than_the_papers():
    X = histograms(300, 12)
    operator = kernel_operator(X, HistogramIntersection(), 2)
    exact = np.linalg.slogdet(kernel_matrix(X, X, HistogramIntersection()) + 0.1 * np.eye(300))[1]
    found = [
        determinant_bounds(
            operator, Noise(np.full(300, 0.1)), leading_subspace(operator, size, np.random.default_rng(0))
        )
        for size in (16, 64, 300)
    ]
    fischer = [bounds.fischer[0] for bounds in found]
    assert fischer[0] > fischer[1] > fischer[2] == pytest.approx(exact)
    assert all(bounds.fischer[0] <= bounds.papers[0] for bounds in found)


def test_a_subspace_is_orthonormal_and_holds_the_leading_eigenvectors():
    X = histograms(300, 12)
    operator = kernel_operator(X, HistogramIntersection(), 2)
    space = leading_subspace(operator, 48, np.random.default_rng(0))
    K = kernel_matrix(X, X, HistogramIntersection())
    np.testing.assert_allclose(space.basis.T @ space.basis, np.eye(space.basis.shape[1]), atol=1e-12)
    np.testing.assert_allclose(space.image, K @ space.basis, atol=1e-10)
    ritz = np.linalg.eigvalsh(space.basis.T @ space.image)
    np.testing.assert_allclose(ritz[-4:], np.linalg.eigvalsh(K)[-4:], rtol=1e-3)
