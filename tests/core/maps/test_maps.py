"""Maps of single values, and the choice of their points, against dense formulas."""

from itertools import pairwise

import numpy as np
import pytest
from oracles import chi2_kernel, close, histograms
from scipy import sparse
from sklearn.kernel_approximation import AdditiveChi2Sampler

from histogp._core.data import Rows
from histogp._core.maps import pair_distances
from histogp._core.maps.additive import SIGNATURES, Chebyshev, Direct, Root, sampled
from histogp._core.maps.pair_distances import chi2_matrix
from histogp._core.maps.points import (
    ENOUGH_TERMS,
    Distribution,
    _log_error,
    best_interval,
    direct_map,
    geometric_mean,
    greedy_points,
    refined_points,
)

X = np.vstack([histograms(60, 5), np.zeros((1, 5))])
X[:, 3] = 0
ROWS = Rows.from_array(X)
# Columns in units of their own.
UNLIKE = X * np.array([1e-3, 1, 50, 1, 7])
MAPS = [
    Direct(np.array([[0.5, 0.1, 0.2, 1, 2], [0.01, 0.1, 0.3, 1, 1], [0.05, 0.1, 0.1, 1, 0.1]])),
    sampled("chi2", 3, 0.5),
    sampled("intersection", 5, 0.6),
    sampled("jensen-shannon", 5, 0.6),
    Root(),
    Chebyshev(4, 0.2),
]
by_map = pytest.mark.parametrize("additive", MAPS, ids=lambda additive: type(additive).__name__)


def products(additive, A, B):
    return additive.transform(A) @ additive.transform(B).T


def error(additive, A):
    """Over all pairs of values of the same column: the sum of absolute errors by that of the kernel."""
    errors = kernels = 0
    for d in range(A.shape[1]):
        values = A[A[:, d] > 0, d][:, None]
        kernel = chi2_kernel(values, values)
        errors += np.abs(kernel - products(additive.at(np.array([d])), values, values)).sum()
        kernels += kernel.sum()
    return errors / kernels


def algorithm_1(x, h, n_terms):
    b, k = x / (x + x.max()) * h, []
    for _ in range(n_terms):
        k.append(x[np.abs(b).argmax()])
        b = b * (x - k[-1]) / (x + k[-1])
    return k


def test_products_miss_the_kernel_by_equation_7():
    rng = np.random.default_rng(1)
    for n_terms in range(1, 10):
        additive = Direct(rng.gamma(0.5, size=(n_terms, 5)) + 1e-3)
        kernel = chi2_kernel(X, X[:20])
        k, x = additive.points[None], X[:, None]
        remainders = np.prod((x - k) / (x + k), axis=1)
        close(additive.remainders(X), remainders, rtol=1e-13)
        missing = chi2_matrix(X, X[:20], factors=(remainders, remainders[:20]))
        each = [(remainders[:, [d]], X[:, [d]]) for d in range(5)]
        close(missing, sum(r @ r[:20].T * chi2_kernel(v, v[:20]) for r, v in each), kernel.max(), rtol=1e-13)
        close(kernel - products(additive, X, X[:20]), missing, kernel.max(), rtol=1e-13)


def test_the_features_of_eq_6():
    k = np.array([[0.3, 0.2], [0.1, 0.9]])
    x = np.array([[0.7, 0.0]])
    c = np.vstack([2 * np.sqrt(k[0]) * x / (x + k[0]), (x - k[0]) / (x + k[0]) * 2 * np.sqrt(k[1]) * x / (x + k[1])])
    close(Direct(k).transform(x), c.reshape(1, -1), rtol=1e-15)


def test_points_are_exact():
    additive = direct_map(ROWS, 4, 1e-3)
    for point in additive.points:
        kernel = chi2_kernel(point[None], X)
        close(products(additive, point[None], X), kernel, kernel.max(), rtol=1e-14)


def test_the_kernel_in_slices_and_threads(monkeypatch):
    weights = np.arange(5.0)
    expected = chi2_kernel(X * weights, X[:9] * weights)
    monkeypatch.setattr(pair_distances, "PAIRS_AT_ONCE", 100)
    for n_threads in (1, 2, 5):
        close(chi2_matrix(X, X[:9], weights=weights, n_threads=n_threads), expected, rtol=1e-14)


def test_greedy_points_are_those_of_algorithm_1():
    for data in (Distribution.of(ROWS, by_column=False), Distribution.of(Rows.from_array(UNLIKE), by_column=True)):
        np.testing.assert_array_equal(greedy_points(data, 8), algorithm_1(data.values, data.counts, 8))
    values = X[X > 0]
    edges = np.geomspace(values.min(), values.max() * (1 + 1e-9), 201)
    expected = algorithm_1(np.sqrt(edges[1:] * edges[:-1]), np.histogram(values, edges)[0], 6)
    np.testing.assert_allclose(direct_map(ROWS, 6, 1e-3, refine=False).points[:, 2], np.sort(expected)[::-1])


def test_a_columns_scale_is_where_its_values_matter():
    scales = Distribution.of(Rows.from_array(UNLIKE), by_column=True).scales
    filled = [0, 1, 2, 4]
    expected = (UNLIKE**1.5).sum(axis=0)[filled] / (UNLIKE**0.5).sum(axis=0)[filled]
    np.testing.assert_allclose(scales[filled], expected)
    np.testing.assert_allclose(scales[3], np.exp(np.log(expected).mean()))
    assert Distribution.of(ROWS, by_column=False).scales.tolist() == [1] * 5


def relative_error(data, points):
    """``sum |error| / sum kernel`` over all pairs of values."""
    return np.exp(_log_error(np.log(points), data.values, data.kernel())[0])


def test_relative_error_is_that_of_the_binned_values():
    data = Distribution.of(ROWS, by_column=False)
    points = np.array([0.3, 0.02])
    x, h = data.values[:, None], np.outer(data.counts, data.counts)
    r = np.prod((x - points) / (x + points), axis=1)
    kernel = h * chi2_kernel(x, x)
    np.testing.assert_allclose(relative_error(data, points), (np.abs(np.outer(r, r)) * kernel).sum() / kernel.sum())
    # Bins are narrow: the values themselves have nearly the same error.
    values = X[X > 0][:, None]
    np.testing.assert_allclose(relative_error(data, points), error(Direct(points[:, None]), values), rtol=0.05)


@pytest.mark.parametrize("data", [X, UNLIKE, histograms(30, 3, seed=4, density=1), np.array([[0.2, 0.3, 0.3]])])
def test_refined_points_are_never_worse_than_greedy_ones(data):
    for by_column in (True, False):
        distribution = Distribution.of(Rows.from_array(data), by_column=by_column)
        for n_terms in (1, 2, 3, 5, 8):
            greedy, refined = (choose(distribution, n_terms) for choose in (greedy_points, refined_points))
            assert relative_error(distribution, refined) <= relative_error(distribution, greedy) * (1 + 1e-9) + 1e-25
            assert np.all((refined >= distribution.values[0] * 0.999) & (refined <= distribution.values[-1] * 1.001))


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("factor", [2.0**-90, 1e-30, 0.3, 1e30])
def test_points_have_the_unit_of_the_features(refine, factor):
    additive, scaled = (direct_map(Rows.from_array(A), 4, 1e-3, refine=refine) for A in (X, X * factor))
    filled = X.any(axis=0)
    if refine and factor != 2.0**-90:
        # Of several minima rounding may choose another one, about as good.
        assert error(scaled, X * factor) < 1.5 * error(additive, X)
    else:
        np.testing.assert_allclose(scaled.points[:, filled], additive.points[:, filled] * factor, rtol=1e-9)
        np.testing.assert_allclose(error(scaled, X * factor), error(additive, X), rtol=1e-6)


def test_columns_in_other_units_are_approximated_alike():
    rows = Rows.from_array(UNLIKE)
    by_column, pooled = (error(direct_map(rows, 4, 1e-3, refine=refine), UNLIKE) for refine in (True, False))
    assert by_column < 3e-3
    assert by_column < pooled


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("tol", [0.1, 1e-2, 1e-4, 1e-7])
def test_as_few_terms_as_meet_the_tolerance(tol, refine):
    additive = direct_map(ROWS, None, tol, refine=refine)
    assert error(additive, X) <= tol
    assert additive.n_terms == 1 or error(direct_map(ROWS, additive.n_terms - 1, tol, refine=refine), X) > tol


def test_the_number_of_terms_is_bounded():
    assert direct_map(ROWS, None, 1e-300, refine=False).n_terms <= ENOUGH_TERMS


@pytest.mark.parametrize("sample_steps", [1, 2, 3])
def test_sampled_agrees_with_scikit_learn(sample_steps):
    theirs = AdditiveChi2Sampler(sample_steps=sample_steps)
    interval = {1: 0.8, 2: 0.5, 3: 0.4}[sample_steps]
    ours = sampled("chi2", 2 * sample_steps - 1, interval)
    close(ours.transform(X), theirs.fit_transform(X), rtol=1e-14)
    close(ours.transform(sparse.csr_array(X)).toarray(), theirs.transform(sparse.csr_array(X)).toarray(), rtol=1e-14)


NEAR = np.geomspace(0.3, 3, 8)[:, None] * 0.2


def test_chebyshev_converges_to_the_kernel_near_its_scale():
    kernel = chi2_kernel(NEAR, NEAR)
    errors = [np.abs(products(Chebyshev(n, 0.2), NEAR, NEAR) - kernel).max() for n in (2, 5, 20, 80, 320)]
    assert errors[1] < 0.05 * kernel.max()
    assert all(after < before for before, after in pairwise(errors))
    assert errors[-1] < 1e-3 * kernel.max()


def jensen_shannon(x, y):
    return x / 2 * np.log2((x + y) / x) + y / 2 * np.log2((x + y) / y)


@pytest.mark.parametrize(
    ("kernel", "formula", "n_terms", "tolerance"),
    [
        ("chi2", lambda x, y: 2 * x * y / (x + y), 301, 1e-11),
        ("jensen-shannon", jensen_shannon, 301, 1e-11),
        ("intersection", np.minimum, 10001, 1e-3),
    ],
)
def test_sampled_spectra_converge_to_their_kernels(kernel, formula, n_terms, tolerance):
    expected = formula(NEAR, NEAR.T)
    close(products(sampled(kernel, n_terms, 0.1), NEAR, NEAR), expected, rtol=tolerance)
    rough, fine = (np.abs(products(sampled(kernel, n, 0.3), NEAR, NEAR) - expected).max() for n in (3, 9))
    assert fine < rough / 2
    close(np.sqrt(NEAR * NEAR.T) * SIGNATURES[kernel](np.log(NEAR / NEAR.T)), expected, rtol=1e-13)


def test_root_is_exact():
    close(products(Root(), X, X), np.sqrt(X[:, None] * X[None]).sum(axis=2), rtol=1e-14)


@pytest.mark.parametrize("kernel", ["chi2", "intersection", "jensen-shannon"])
def test_the_best_interval_is_no_worse_than_others(kernel):
    values = X[X > 0][:, None]
    exact = np.sqrt(values * values.T) * SIGNATURES[kernel](np.log(values / values.T))

    def total(interval):
        return np.abs(products(sampled(kernel, 5, interval), values, values) - exact).sum()

    best = best_interval(ROWS, kernel, 5)
    assert total(best) < 1.02 * min(total(interval) for interval in (0.2, 0.4, 0.6, 0.8, 1.2))


def test_the_geometric_mean_is_of_the_values_above_zero():
    np.testing.assert_allclose(geometric_mean(ROWS), np.exp(np.log(X[X > 0]).mean()))
    assert geometric_mean(Rows.from_array(np.zeros((2, 2)))) == 1


@by_map
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_give_the_dense_features_in_their_precision(additive, dtype):
    values = X.astype(dtype)
    expected = additive.transform(values)
    assert expected.dtype == dtype
    assert expected.shape == (len(X), 5 * additive.n_terms)
    assert not expected[-1].any()
    assert not expected.reshape(len(X), -1, 5)[:, :, 3].any()
    rtol = 1e-14 if dtype == np.float64 else 1e-5
    close(expected, additive.transform(X), rtol=rtol)
    for made in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        Z = additive.transform(made(values))
        assert Z.format == "csr"
        assert Z.dtype == dtype
        assert Z.nnz <= additive.n_terms * np.count_nonzero(X)
        close(Z.toarray(), expected, rtol=rtol)


@by_map
def test_entries_that_are_zero_unsorted_or_in_parts(additive):
    data, indices = np.array([0.0, 0.5, 0.1, 0.2, 0.3]), np.array([4, 1, 0, 2, 2])
    A = sparse.csr_array((data, indices, np.array([0, 2, 2, 5])), shape=(3, 5))
    close(additive.transform(A).toarray(), additive.transform(A.toarray()), rtol=1e-14)
    np.testing.assert_array_equal(A.data, data)


@by_map
def test_threads_and_blocks_do_not_matter(additive, monkeypatch):
    expected = additive.transform(X)
    monkeypatch.setattr("histogp._core.maps.additive.BLOCK_VALUES", 17)
    for n_threads in (1, 2, 5):
        np.testing.assert_allclose(additive.transform(X, n_threads), expected, rtol=1e-13, atol=1e-16)
        np.testing.assert_allclose(
            additive.transform(sparse.csr_array(X), n_threads).toarray(), expected, rtol=1e-13, atol=1e-16
        )


@by_map
def test_nothing_but_zeros(additive):
    for A in (np.zeros((3, 5)), np.zeros((0, 5))):
        assert not additive.transform(A).any()
        Z = additive.transform(sparse.csr_array(A.astype(np.float32)))
        assert Z.shape == (len(A), 5 * additive.n_terms)
        assert Z.nnz == 0
        assert Z.dtype == np.float32


@pytest.mark.parametrize("refine", [True, False])
def test_data_without_values_or_with_one(refine):
    nothing = Rows.from_array(np.zeros((3, 2)))
    for n_terms in (None, 3):
        assert np.all(direct_map(nothing, n_terms, 1e-3, refine=refine).points > 0)
    A = np.array([[0.0, 0.7], [0.0, 0.0]])
    additive = direct_map(Rows.from_array(A), None, 1e-3, refine=refine)
    assert additive.n_terms == 1
    close(products(additive, A, A), chi2_kernel(A, A), rtol=1e-9)
    assert np.isfinite(best_interval(nothing, "intersection", 3))
    assert np.isfinite(best_interval(Rows.from_array(A), "intersection", 3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e30])
def test_huge_and_tiny_values_keep_their_digits(factor, dtype):
    A = (X * factor).astype(dtype)
    rows = Rows.from_array(A)
    close(chi2_matrix(A, A), chi2_kernel(A, A), rtol=1e-14)
    interval = best_interval(rows, "intersection", 5)
    for additive in (direct_map(rows, 6, 1e-3), Chebyshev(40, geometric_mean(rows)), sampled("chi2", 9, 0.4)):
        Z = additive.transform(A).astype(np.float64)
        close(Z @ Z.T, chi2_kernel(A, A), rtol=0.02)
        close(additive.transform(sparse.csr_array(A)).toarray(), Z, rtol=1e-6)
    np.testing.assert_allclose(interval, best_interval(ROWS, "intersection", 5), rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_huge_beside_tiny_values(dtype):
    A = np.array([[1e-30, 1e30], [1e30, 1e-30], [1e-30, 0.0]], dtype)
    rows = Rows.from_array(A)
    for refine in (True, False):
        additive = direct_map(rows, 4, 1e-3, refine=refine)
        close(additive.transform(A).astype(np.float64) @ additive.transform(A).T, chi2_kernel(A, A), rtol=0.05)
    for scale in (1e-30, 1.0, 1e30):
        assert np.isfinite(Chebyshev(4, scale).transform(A)).all()
    for kernel in SIGNATURES:
        assert np.isfinite(sampled(kernel, 5, best_interval(rows, kernel, 5)).transform(A)).all()


def test_many_values_are_thinned(monkeypatch):
    A = np.random.default_rng(0).random((4000, 3))
    expected = direct_map(Rows.from_array(A), 3, 1e-3)
    monkeypatch.setattr("histogp._core.maps.points.MOST_VALUES", 3000)
    close(error(direct_map(Rows.from_array(A), 3, 1e-3), A[:300]), error(expected, A[:300]), 1e-3, rtol=1)


def test_a_map_of_some_columns():
    column_of = np.array([2, 0, 2])
    for additive in MAPS:
        whole = additive.transform(X).reshape(len(X), -1, 5)
        some = additive.at(column_of).transform(X[:, column_of])
        close(some.reshape(len(X), -1, 3), whole[:, :, column_of], rtol=1e-14)
