"""Every compiled leaf against its NumPy twin of a few lines."""

import numpy as np
import pytest
from oracles import chi2_kernel, close, histograms, octave_nodes, read_grid

from histogp._core._numba import chi2_loops, column_loops, pair_loops, table_loops
from histogp._core.data import Rows, SortedColumns

X = np.vstack([histograms(70, 9), np.zeros((1, 9))])
X[:, 4] = 0
X[3:9, 2] = 0.25
COLUMNS = SortedColumns.from_rows(Rows.from_array(X))
ROWS = Rows.from_array(X)
K = np.minimum(X[:, None], X[None]).sum(axis=2)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_multiply(dtype, rtol):
    V = np.random.default_rng(0).standard_normal((len(X), column_loops.LANES)).astype(dtype)
    heights = COLUMNS.values.astype(dtype)
    suffix = np.empty((1, column_loops.LANES), dtype)
    block, vector = np.zeros_like(V), np.zeros_like(V[:, 0])
    column_loops.multiply_block(COLUMNS.indptr, COLUMNS.row_of, heights, V, 0, 9, suffix, block)
    column_loops.multiply_vector(
        COLUMNS.indptr, COLUMNS.row_of, heights, V[:, 0].copy(), 0, 9, suffix[:, 0].copy(), vector
    )
    close(block, K @ V, np.abs(K) @ np.abs(V), rtol)
    close(vector, K @ V[:, 0], np.abs(K) @ np.abs(V[:, 0]), rtol)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_levels(dtype, rtol):
    rng = np.random.default_rng(0)
    indptr = np.array([0, 3, 3, 10, 21, 40])
    level_of = rng.integers(6, size=40).astype(np.uint16)
    incidence = np.zeros((6, 5))
    np.add.at(incidence, (level_of, np.repeat(np.arange(5), np.diff(indptr))), 1)
    V, W = (rng.standard_normal((n, column_loops.LANES)).astype(dtype) for n in (5, 6))
    sums, sums_of_one = np.zeros_like(W), np.zeros(6, dtype)
    column_loops.add_block_to_levels(indptr, level_of, V, 0, 5, sums)
    column_loops.add_to_levels(indptr, level_of, V[:, 0].copy(), 0, 5, sums_of_one)
    close(sums, incidence @ V, rtol=rtol)
    close(sums_of_one, incidence @ V[:, 0], rtol=rtol)
    out, out_of_one = np.zeros_like(V), np.zeros(5, dtype)
    column_loops.read_block_of_levels(indptr, level_of, W, 0, 5, out)
    column_loops.read_levels(indptr, level_of, W[:, 0].copy(), 0, 5, out_of_one)
    close(out, incidence.T @ W, rtol=rtol)
    close(out_of_one, incidence.T @ W[:, 0], rtol=rtol)


def test_quadratic_forms():
    U, V = np.random.default_rng(1).standard_normal((2, len(X), column_loops.LANES))
    sums = np.random.default_rng(2).standard_normal((column_loops.LANES, 3))
    profiles = np.stack([COLUMNS.values, COLUMNS.values**2])
    out = np.zeros((9, 2, 3))
    totals = np.empty((2, column_loops.LANES))
    column_loops.quadratic_forms(COLUMNS.indptr, COLUMNS.row_of, profiles, U, V, sums, 0, 9, totals, out)
    smaller = np.minimum(X[:, None], X[None])
    expected = [np.einsum("is,ijd,js,sg->dg", U, smaller**p, V, sums) for p in (1, 2)]
    close(out, np.stack(expected, axis=1), rtol=1e-12)


def test_count_and_gather_rows():
    counts = np.zeros(len(X), np.int64)
    column_loops.count_in_rows(X, 0, len(X), counts)
    np.testing.assert_array_equal(counts, (X != 0).sum(axis=1))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    column_of, values = np.empty(indptr[-1], np.uint32), np.empty(indptr[-1])
    column_loops.gather_rows(X, indptr, 0, len(X), column_of, values)
    np.testing.assert_array_equal(column_of, np.nonzero(X)[1])
    np.testing.assert_array_equal(values, X[X != 0])


def test_scatter_rows():
    back = np.full_like(X, 7)
    column_loops.scatter_rows(ROWS.indptr, ROWS.column_of, ROWS.values, 0, len(X), back)
    np.testing.assert_array_equal(back, X)


def test_count_and_gather_columns():
    counts = np.zeros(9, np.int64)
    column_loops.count_in_columns(X, 0, 9, counts)
    np.testing.assert_array_equal(counts, (X != 0).sum(axis=0))
    starts = np.concatenate([[0], np.cumsum(counts)])
    row_of, values = np.empty(starts[-1], np.uint32), np.empty(starts[-1])
    column_loops.gather_columns(X, 0, 9, starts[:-1].copy(), row_of, values)
    np.testing.assert_array_equal(row_of, np.nonzero(X.T)[1])
    np.testing.assert_array_equal(values, X.T[X.T != 0])


def test_count_and_transpose():
    counts = np.zeros(9, np.int64)
    column_loops.count(ROWS.column_of, counts)
    np.testing.assert_array_equal(counts, np.bincount(ROWS.column_of, minlength=9))
    starts = np.concatenate([[0], np.cumsum(counts)])
    row_of, values = np.empty(starts[-1], np.uint32), np.empty(starts[-1])
    cursor = starts[:-1].copy()
    column_loops.transpose(ROWS.indptr, ROWS.column_of, ROWS.values, 0, 4, cursor, row_of, values)
    column_loops.transpose(ROWS.indptr, ROWS.column_of, ROWS.values, 4, 9, cursor, row_of, values)
    np.testing.assert_array_equal(row_of, np.nonzero(X.T)[1])
    np.testing.assert_array_equal(values, X.T[X.T != 0])


def test_hash_rows():
    columns = np.arange(1, 10, dtype=np.uint64) * column_loops.STEP
    z = X.view(np.uint64) ^ columns
    z = (z ^ (z >> np.uint64(30))) * column_loops.FIRST
    z = (z ^ (z >> np.uint64(27))) * column_loops.SECOND
    expected = np.where(X != 0, z ^ (z >> np.uint64(31)), np.uint64(0)).sum(axis=1)
    out = np.empty(len(X), np.uint64)
    column_loops.hash_dense_rows(X.view(np.uint64), out)
    np.testing.assert_array_equal(out, expected)
    column_loops.hash_sparse_rows(ROWS.indptr, ROWS.column_of, ROWS.values.view(np.uint64), 0, len(X), out)
    np.testing.assert_array_equal(out, expected)


def test_add_up():
    out = np.zeros(len(X))
    column_loops.add_up(COLUMNS.row_of, COLUMNS.values, out)
    close(out, X.sum(axis=1), rtol=1e-14)


def test_merge_columns():
    first, second = SortedColumns.from_rows(ROWS.block(0, 30)), SortedColumns.from_rows(ROWS.block(30, len(X)))
    indptr = first.indptr + second.indptr
    row_of, values = np.empty(indptr[-1], np.uint32), np.empty(indptr[-1])
    column_loops.merge_columns(
        first.indptr,
        first.row_of,
        first.values,
        second.indptr,
        second.row_of + np.uint32(30),
        second.values,
        indptr,
        row_of,
        values,
    )
    np.testing.assert_array_equal(values, COLUMNS.values)
    np.testing.assert_array_equal(X[row_of, np.repeat(np.arange(9), COLUMNS.counts)], values)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_intersect(dtype):
    table = np.ascontiguousarray(X[:32].T, dtype)
    out = np.zeros((len(X), 32), dtype)
    column_loops.intersect(ROWS.indptr, ROWS.column_of, ROWS.values.astype(dtype), table, 0, len(X), out)
    close(out, K[:, :32], rtol=1e-6 if dtype == np.float32 else 1e-14)


def test_blocks_and_look_up():
    alpha = np.random.default_rng(2).standard_normal((len(X), 2))
    stride = 4
    starts = np.concatenate([[0], np.cumsum(-(-COLUMNS.counts // stride))])
    blocks = np.full((starts[-1], 2, 2), np.nan)
    column_loops.fill_blocks(COLUMNS.indptr, COLUMNS.row_of, COLUMNS.values, alpha, stride, starts, 0, 9, blocks)
    for column in range(9):
        inside = slice(COLUMNS.indptr[column], COLUMNS.indptr[column + 1])
        h, a = COLUMNS.values[inside, None], alpha[COLUMNS.row_of[inside]]
        for number, block in enumerate(blocks[starts[column] : starts[column + 1]]):
            below, above = number * stride, (number + 1) * stride
            close(block, np.stack([(h * a)[:below].sum(axis=0), a[above:].sum(axis=0)]), scale=np.abs(a).sum())
    Y = np.vstack([X[:5], X[5:9] * 3, np.random.default_rng(3).random((5, 9))])
    rows = Rows.from_array(Y)
    out = np.zeros((len(Y), 2))
    column_loops.look_up(
        COLUMNS.indptr, COLUMNS.row_of, COLUMNS.values, alpha, stride, starts, blocks, *rows.transpose(), out
    )
    close(out, np.minimum(Y[:, None], X[None]).sum(axis=2) @ alpha, rtol=1e-12)


ALPHA = np.random.default_rng(7).standard_normal((len(X), 3))
# Some columns reach beyond their grid, one is empty.
TOP = X.max(axis=0) * np.linspace(0.5, 1.2, 9)
OCTAVES = np.arange(9) % 3 + 1
GRIDS = [octave_nodes(5, octaves) * top for octaves, top in zip(OCTAVES, TOP, strict=True)]
STARTS = np.cumsum([0, *map(len, GRIDS)])
PLACES = np.concatenate(GRIDS)
TABLES = [np.minimum(X[None, :, d], grid[:, None]) @ ALPHA for d, grid in enumerate(GRIDS)]
TABLE = np.vstack([*TABLES, np.zeros((1, 3))])
SWEPT = (COLUMNS.indptr, COLUMNS.row_of, COLUMNS.values, ALPHA, STARTS, PLACES)


def test_crowding():
    out = np.empty((9, 3))
    importance = np.arange(1.0, len(X) + 1)
    table_loops.crowding(COLUMNS.indptr, COLUMNS.row_of, COLUMNS.values, importance, TOP, 5, 0, 9, out)
    for d in (0, 2, 8):
        for c in range(3):
            grid = octave_nodes(5, c + 1)
            mass, _ = np.histogram(X[:, d], np.nextafter(grid * TOP[d], np.inf), weights=importance)
            close(out[d, c], ((mass * np.diff(grid)) ** 2).sum(), rtol=1e-12)
    assert not out[4].any()


def test_fill_nodes():
    out = np.zeros_like(TABLE)
    table_loops.fill_nodes(*SWEPT, 0, 9, out)
    close(out, TABLE, rtol=1e-13)


def test_weigh_bins():
    out = np.empty((9, 3))
    table_loops.weigh_bins(*SWEPT, 0, 9, out)
    for d, grid in enumerate(GRIDS):
        x = X[:, d]
        in_bin = (x[None] > grid[:-1, None]) & (x[None] <= grid[1:, None])
        inside = (np.diff(grid)[:, None] / 4 * (in_bin @ np.abs(ALPHA))).max(axis=0)
        beyond = (x.max() - TOP[d]) * np.abs(ALPHA[x > TOP[d]]).sum(axis=0)
        close(out[d], inside + beyond, rtol=1e-13)


def test_extreme_errors():
    out = np.empty((9, 2, 3))
    table_loops.extreme_errors(*SWEPT, TABLE, 0, 9, out)
    for d in np.flatnonzero(X.any(axis=0)):
        exact = np.minimum(X[:, None, d], X[None, :, d]) @ ALPHA
        error = exact - read_grid(X[:, d], GRIDS[d], TABLES[d], "linear")
        close(out[d], np.stack([error.max(axis=0).clip(0), error.min(axis=0).clip(None, 0)]), rtol=1e-10)


def test_read_block_and_read_one():
    unit = TOP / (2.0**OCTAVES - 1)
    per_unit = np.divide(1, unit, where=unit > 0, out=np.zeros(9))
    rows = (ROWS.indptr, ROWS.column_of, ROWS.values, per_unit, STARTS, np.diff(STARTS) - 1.0)
    for how, shift, blend in (("linear", 0.0, 1.0), ("nearest", 0.5, 0.0)):
        block, one = np.empty((len(X), 3)), np.empty(len(X))
        table_loops.read_block(*rows, TABLE, 5, shift, blend, 0, len(X), np.empty(3), block)
        table_loops.read_one(*rows, TABLE[:, 1].copy(), 5, shift, blend, 0, len(X), one)
        filled = np.flatnonzero(X.any(axis=0))
        expected = sum(read_grid(X[:, d], GRIDS[d], TABLES[d], how) for d in filled)
        close(block, expected, rtol=1e-13)
        close(one, expected[:, 1], rtol=1e-13)


def test_subtract_lower():
    table = np.random.default_rng(8).random((9, 6)).astype(np.float32)
    per_bin = np.divide(5, TOP, where=TOP > 0, out=np.zeros(9))
    out = np.empty(len(X))
    table_loops.subtract_lower(ROWS.indptr, ROWS.column_of, ROWS.values, per_bin, table, 0, len(X), out)
    below = np.minimum(X * per_bin, 5).astype(int)
    expected = np.where(X > 0, X - table[np.arange(9), below].astype(float), 0).sum(axis=1)
    close(out, expected, rtol=1e-13)


def test_smooth_nodes():
    noise = np.linspace(0.01, 0.3, len(X))
    out = np.zeros(len(PLACES) + 1)
    table_loops.smooth_nodes(COLUMNS.indptr, COLUMNS.row_of, COLUMNS.values, noise, STARTS, PLACES, 0, 9, out)
    for d, grid in enumerate(GRIDS):
        K = np.minimum(X[:, None, d], X[None, :, d]) + np.diag(noise)
        k = np.minimum(X[:, None, d], grid[None])
        close(out[STARTS[d] : STARTS[d + 1]], grid - (k * np.linalg.solve(K, k)).sum(axis=0), grid.max(), rtol=1e-12)


def chosen(h, most):
    """Nodes for one column of ascending heights."""
    distinct = np.unique(h)
    if len(distinct) <= most:
        return np.append(0, distinct)
    half = most // 2
    by_number = h[np.ceil(np.arange(1, half + 1) * len(h) / half).astype(int) - 1]
    by_height = distinct[np.searchsorted(distinct * half, np.arange(1, half + 1) * h[-1])]
    before_gaps = distinct[:-1][np.diff(distinct) * half > 2 * h[-1]]
    return np.append(0, np.unique(np.concatenate([by_number, by_height, before_gaps])))


@pytest.mark.parametrize("most", [8, 200])
def test_choose_nodes_locate_and_read_located(most):
    room = np.concatenate([[0], np.cumsum(1 + np.minimum(COLUMNS.counts, most))])
    counts, out = np.zeros(9, np.int64), np.zeros(room[-1])
    table_loops.choose_nodes(COLUMNS.indptr, COLUMNS.values, most, room, 0, 9, counts, out)
    grids = [chosen(np.sort(x[x > 0]), most) if x.any() else np.zeros(1) for x in X.T]
    for d, grid in enumerate(grids):
        np.testing.assert_array_equal(out[room[d] : room[d] + counts[d]], grid)
    starts, places = np.cumsum([0, *map(len, grids)]), np.append(np.concatenate(grids), 0)
    Y = np.vstack([X[:9], X[9:20] * 1.5, np.random.default_rng(3).random((9, 9)) / 5])
    rows = Rows.from_array(Y)
    found, shares, beyond = np.zeros(len(rows.values), np.int64), np.zeros(len(rows.values)), np.zeros(len(Y))
    is_gap = np.random.default_rng(5).random(len(places)) < 0.5
    gaps = np.where(is_gap, np.diff(places, append=0), 0.0)
    tops = np.array([grid[-1] for grid in grids])
    per_bucket = np.divide(25, tops, out=np.zeros(9), where=tops > 0)
    before = [
        [np.flatnonzero(np.sqrt(grid * scale) < b)[-1] if b else 0 for b in range(5)] + [max(len(grid) - 2, 0)]
        for grid, scale in zip(grids, per_bucket, strict=True)
    ]
    nodes = (starts, places, is_gap, per_bucket, starts[:-1, None] + np.array(before))
    table_loops.locate(rows.indptr, rows.column_of, rows.values, *nodes, 0, len(Y), found, shares, beyond)
    bridges = np.bincount(np.repeat(np.arange(len(Y)), rows.counts), shares * (1 - shares) * gaps[found], len(Y))
    close(beyond, np.maximum(Y - [grid[-1] for grid in grids], 0).sum(axis=1) + bridges, rtol=1e-13)
    for e, (column, value) in enumerate(zip(rows.column_of, rows.values, strict=True)):
        grid = grids[column]
        k = np.searchsorted(grid, value, side="right") - 1
        assert found[e] == starts[column] + k
        last = k == len(grid) - 1
        close(shares[e], 0.0 if last else (value - grid[k]) / (grid[k + 1] - grid[k]), 1.0, rtol=1e-13)
    sums = np.zeros(len(Y))
    table_loops.gap_sums(rows.indptr, found, shares, gaps, 0, len(Y), sums)
    close(sums, bridges, rtol=1e-13)
    table = np.random.default_rng(4).standard_normal((len(places), 3))
    read = np.zeros((len(Y), 3))
    table_loops.read_located(rows.indptr, found, shares, table, 0, len(Y), np.empty(3), read)
    expected = np.zeros((len(Y), 3))
    for d, grid in enumerate(grids):
        inside = table[starts[d] : starts[d + 1]]
        expected += np.where(Y[:, d : d + 1] > 0, read_grid(Y[:, d], grid, inside, "linear"), 0)
    close(read, expected, rtol=1e-12)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_expand_direct(dtype, rtol):
    points = np.random.default_rng(5).random((4, 9)).astype(dtype)
    out = np.full((len(X), 4, 9), np.nan, dtype)
    values = X.astype(dtype)
    for first, last in ((0, 30), (30, len(X))):
        chi2_loops.expand_direct(values, points, 2 * np.sqrt(points), first, last, out)
    k, x = points.astype(np.float64)[None], X[:, None]
    before = np.concatenate([np.ones_like(x), np.cumprod((x - k) / (x + k), axis=1)[:, :-1]], axis=1)
    close(out, before * 2 * np.sqrt(k) * x / (x + k), rtol=rtol)


def test_chi2_sums():
    rng = np.random.default_rng(6)
    weights, f, g = rng.random(9), rng.standard_normal(X.shape), rng.standard_normal((20, 9))
    out = np.full((len(X), 20), np.nan)
    for first, last in ((0, 30), (30, len(X))):
        chi2_loops.chi2_sums(X, X[50:70], f, g, weights, first, last, out)
    columns = [(X[:, [d]], X[50:70, [d]]) for d in range(9)]
    expected = sum(weights[d] * np.outer(f[:, d], g[:, d]) * chi2_kernel(a, b) for d, (a, b) in enumerate(columns))
    close(out, expected, rtol=1e-13)


def test_absolute_differences():
    check_pair_loop(pair_loops.absolute_differences, lambda x, y: np.abs(x - y))


def test_chi2_differences():
    check_pair_loop(pair_loops.chi2_differences, lambda x, y: (x - y) ** 2 / np.where(x + y > 0, x + y, 1) / 2)


def check_pair_loop(loop, summand):
    """Of dense rows with some of them, in two pieces of rows and two of columns."""
    out = np.full((len(X), 9), np.nan)
    for first, last in ((0, 20), (20, len(X))):
        loop(X, np.ascontiguousarray(X[:5].T), first, last, 0, out)
        loop(X, np.ascontiguousarray(X[5:9].T), first, last, 5, out)
    close(out, summand(X[:, None], X[:9]).sum(axis=2), X.sum(axis=1)[:, None] + X[:9].sum(axis=1))


def test_harmonic_sums():
    rows, out = Rows.from_array(X), np.full((len(X), 9), np.nan)
    for first, last in ((0, 20), (20, len(X))):
        for begin, table in ((0, X[:5]), (5, X[5:9])):
            pair_loops.harmonic_sums(
                rows.indptr, rows.column_of, rows.values, np.ascontiguousarray(table.T), first, last, begin, out
            )
    sums = X[:, None] + X[:9]
    close(out, (2 * X[:, None] * X[:9] / np.where(sums > 0, sums, 1)).sum(axis=2))


def test_mirror():
    rng = np.random.default_rng(0)
    for n in (1, 31, 75):
        lower = rng.standard_normal((n, n))
        out = lower.copy()
        for first, last in ((0, n // 3), (n // 3, n)):
            pair_loops.mirror(first, last, out)
        close(out, np.tril(lower) + np.tril(lower, -1).T)


def test_sums_above():
    above = lambda x, y: (np.sign(y - x) + 1) / 2  # noqa: E731
    check_weighted_sum(pair_loops.sums_above, above)


def test_sums_of_shares():
    check_weighted_sum(pair_loops.sums_of_shares, lambda x, y: 2 * (y / np.where(x + y > 0, x + y, 1)) ** 2)


def check_weighted_sum(loop, summand):
    """Over all rows, for the features of some of them."""
    weights = np.random.default_rng(0).standard_normal((len(X), 7))
    out = np.full((X.shape[1], 7), np.nan)
    loop(weights, np.ascontiguousarray(X.T), np.ascontiguousarray(X[:7].T), out)
    each = summand(X[:7].T[:, None], X.T[:, :, None])  # (D, N, 7)
    close(out, np.einsum("ji,dji->di", weights, each), np.abs(weights).sum(axis=0))
