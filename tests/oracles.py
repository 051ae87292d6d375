"""Dense NumPy formulas of a few lines, and data to try them on."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from histogp._core.solvers import build_system
from histogp.kernels import Transform


class Log(Transform):
    """A user's own transform, with one hyperparameter."""

    bounds = {"scale": (1e-3, 1e3)}  # noqa: RUF012

    def __init__(self, scale=1.0):
        self.scale = scale

    def value(self, x, scale):
        return np.log1p(scale * x)

    def derivative(self, x, scale):
        return {"scale": x / (1 + scale * x)}


def dense(X):
    return np.asarray(X.toarray() if sparse.issparse(X) else X, np.float64)


def heights(X, kernel):
    """``w_d g_d(x_d)`` for every entry of a dense X (n, D)."""
    g = dense(X)
    if kernel.transform is not None:
        g = kernel.transform.value(g, **kernel.transform.get_params(deep=False))
    return g if kernel.weights is None else g * np.asarray(kernel.weights)


def kernel_matrix(A, B, kernel):
    """``sum_d min(h_d(a), h_d(b))`` for all pairs of rows, (n_a, n_b)."""
    total = np.zeros((A.shape[0], B.shape[0]))
    for a, b in zip(heights(A, kernel).T, heights(B, kernel).T, strict=True):
        total += np.minimum.outer(a, b)
    return total


def chi2_kernel(A, B):
    """``sum_d 2 a_d b_d / (a_d + b_d)`` for all pairs of rows, (n_a, n_b)."""
    a, b = dense(A)[:, None], dense(B)[None]
    return np.divide(2 * a * b, a + b, where=a + b > 0, out=np.zeros(np.broadcast_shapes(a.shape, b.shape))).sum(axis=2)


def octave_nodes(n_bins, n_octaves):
    """A grid from 0 to 1: ``n_bins`` bins of one width, then as many of twice the width, and so on."""
    widths = np.repeat(2.0 ** np.arange(n_octaves), n_bins)
    return np.concatenate([[0], np.cumsum(widths)]) / max(widths.sum(), 1)


def read_grid(h, nodes, f, reading):
    """Values ``f`` (q + 1, M) at ascending ``nodes`` (q + 1,), read at the heights h (n,)."""
    if reading == "linear":
        return np.stack([np.interp(h, nodes, column) for column in f.T], axis=1)
    return f[np.abs(np.minimum(h, nodes[-1])[:, None] - nodes).argmin(axis=1)]


def close(actual, expected, scale=None, rtol=1e-11):
    """Equal up to rounding, relative to ``scale``: by default the largest entry expected."""
    scale = np.abs(expected).max(initial=0) if scale is None else scale
    excess = np.abs(actual - expected) - rtol * scale
    assert np.shape(actual) == np.shape(expected)
    assert np.all(excess <= 0), f"off by {np.abs(actual - expected).max():g}, {excess.max():g} too much"


def alike(actual, expected, rtol=1e-10):
    """Equal; numbers up to rounding, for what BLAS has a part in.

    BLAS picks its loops by the processor, the shapes and the order in memory, and each adds up in an order of its own:
    equal numbers in other pieces, or read back from a file, may differ in their last digits.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    if expected.dtype.kind == "f":
        close(actual, expected, rtol=max(rtol, 100 * np.finfo(expected.dtype).eps))
    else:
        np.testing.assert_array_equal(actual, expected)


class Answer:
    """Takes the place of a function, has one answer to everything, and counts how often it was asked."""

    def __init__(self, value):
        self.value = value
        self.n_calls = 0

    def __call__(self, *arguments, **options):
        self.n_calls += 1
        return self.value


VALUES = st.one_of(
    st.just(0.0),
    st.sampled_from([1.0, 2.0, 0.5]),
    st.floats(0.001, 10.0),
    st.sampled_from([1e-9, 1e9]),
)


@st.composite
def matrices(draw, n_columns=None):
    """Non-negative matrices with zeros, ties, empty and constant columns; dense or sparse, 32 or 64 bits."""
    n_rows = draw(st.integers(1, 12))
    n_columns = n_columns or draw(st.integers(1, 6))
    columns = st.one_of(
        st.lists(VALUES, min_size=n_rows, max_size=n_rows),
        st.just([0.0] * n_rows),
        VALUES.map(lambda value: [value] * n_rows),
    )
    X = np.array(draw(st.lists(columns, min_size=n_columns, max_size=n_columns))).T
    X = X.astype(draw(st.sampled_from([np.float64, np.float32])))
    layout = draw(st.sampled_from(["C", "F", "csr", "csr with explicit zeros"]))
    if layout in "CF":
        return np.asarray(X, order=layout)
    if layout == "csr":
        return sparse.csr_array(X)
    rows, entries = np.indices(X.shape)
    return sparse.csr_array((X.ravel(), (rows.ravel(), entries.ravel())), shape=X.shape)


def histograms(n_rows, n_columns, seed=0, density=0.4):
    """L1-normalized random histograms, no two of them equal; a dense array."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(0.5, size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < density)
    X[:, 0] += 1e-3
    alone = ~X[:, 1:].any(axis=1)
    X[alone, -1] += X[alone, 0] * rng.uniform(0.5, 1, size=alone.sum())
    return X / X.sum(axis=1, keepdims=True)


def solve(operator, noise, sides, options, rng, **more):
    """Build a system and solve it: what `condition` does, for tests of solvers alone."""
    system = build_system(operator, noise, sides.shape[1], options, rng)
    return system.solve(sides, options.tol, verify=True, **more)
