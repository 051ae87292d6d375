"""The contract of an operator, as tests that every operator's test class inherits."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import Log, close, dense, heights, kernel_matrix, matrices, octave_nodes, read_grid

from histogp._core.data import Rows
from histogp._core.layouts import Grid
from histogp.kernels import Exponential, HistogramIntersection, Power

KERNELS = [
    HistogramIntersection(),
    HistogramIntersection(transform=Power(0.5)),
    HistogramIntersection(transform=Exponential(1e-4)),  # small: the data reach 1e9
    HistogramIntersection(transform=Log(3.0)),
]


def kernels(X):
    """The kernels above, with and without weights and with one hyperparameter a dimension."""
    d = X.shape[1]
    small = dense(X).max(initial=0) * 1e-4 < 500
    usable = [k for k in KERNELS if small or not isinstance(k.transform, Exponential)]
    weighted = [HistogramIntersection(k.transform, np.linspace(0, 2, d)) for k in usable]
    per_dimension = [HistogramIntersection(Power(np.linspace(0.3, 1.5, d)), np.linspace(3, 1, d))]
    return st.sampled_from(usable + weighted + per_dimension)


class OperatorSuite:
    """Subclasses provide ``make(X, kernel, n_threads)``; the oracle is the dense kernel matrix."""

    def make(self, X, kernel, n_threads=1):
        raise NotImplementedError

    def case(self, data):
        X = data.draw(matrices())
        kernel = data.draw(kernels(X))
        return X, kernel, self.make(X, kernel, data.draw(st.sampled_from([1, 2])))

    def test_every_method_on_one_typical_matrix(self):
        """Without hypothesis: quick, and the same every time."""
        rng = np.random.default_rng(0)
        kernel = HistogramIntersection(Power(0.5), np.linspace(0.5, 2, 6))
        X, Y = rng.random((40, 6)) * (rng.random((40, 6)) < 0.7), rng.random((9, 6)) * 1.3
        U, V = rng.standard_normal((2, 40, 3))
        K, K_cross = kernel_matrix(X, X, kernel), kernel_matrix(Y, X, kernel)
        operator, rows = self.make(X, kernel, 2), Rows.from_array(Y)
        close(operator.matmat(V), K @ V)
        close(operator.matmat(V[:, :1]), K @ V[:, :1])
        close(operator.matrix(), K)
        close(operator.diagonal(), K.diagonal())
        close(operator.row_sums(), K.sum(axis=1))
        close(operator.columns(np.array([3, 1])), K[:, [3, 1]])
        close(np.vstack([block for _, block in operator.cross(rows)]), K_cross)
        close(operator.table(V).evaluate(rows), K_cross @ V)
        for n_problems in (1, 3):
            table = operator.grid_table(V[:, :n_problems], Grid(7))
            for reading in ("linear", "nearest"):
                expected = quantized(X, kernel, V[:, :n_problems], Y, table, reading)
                close(table.evaluate(rows, 1, reading), expected)
            close(table.linear_bounds, bin_bound(X, kernel, V[:, :n_problems], table))
            close(table.linear_worst, worst_error(X, kernel, V[:, :n_problems], table))
        squares = np.minimum(heights(Y, kernel)[:, None], heights(X, kernel)[None]) ** 2
        close(operator.norm_table().evaluate(rows), squares.sum(axis=(1, 2))[:, None])
        tabulated(operator, kernel, X, Y, U, rtol=1e-11)
        close(operator.cross_matrix(rows, rows.take([0, 2])), kernel_matrix(Y, Y[[0, 2]], kernel))
        smaller = np.minimum(X[:, None], X[None])
        slope = np.sqrt(smaller) * np.log(np.maximum(smaller, 1e-300))
        gradient = operator.gradient(U, V)
        close(gradient["weights"], np.einsum("is,ijd,js->d", U, np.sqrt(smaller), V))
        close(gradient["transform__eta"], np.einsum("is,ijd,d,js->", U, slope, kernel.weights, V))
        close(operator.traces(), heights(X, kernel).sum(axis=0))
        close(operator.trace_gradient()["weights"], np.sqrt(X).sum(axis=0))
        of_eta = np.sqrt(X) * np.log(np.maximum(X, 1e-300)) * kernel.weights
        close(operator.trace_gradient()["transform__eta"], of_eta.sum())
        several = operator.gradient(U, V, np.array([[1.0, 0.0], [2.0, 0.0], [0.0, -1.0]]))
        close(several["weights"][:, 1], -operator.gradient(U[:, 2:], V[:, 2:])["weights"])
        close(several["transform__eta"][0], operator.gradient(U[:, :2] * [1, 2], V[:, :2])["transform__eta"])
        longer = operator.extend(rows)
        K_longer = kernel_matrix(np.vstack([X, Y]), np.vstack([X, Y]), kernel)
        close(longer.matmat(np.eye(49)), K_longer)
        close(longer.remove([0, 45]).row_sums(), np.delete(np.delete(K_longer, [0, 45], 0), [0, 45], 1).sum(axis=1))
        self.check_counts(rng, kernel)

    def check_counts(self, rng, kernel):
        """Few distinct values, also where further rows bring some more."""
        X, Y = rng.poisson(1.0, (400, 6)).astype(float), rng.poisson(1.5, (7, 6)) + 0.5
        Z = np.vstack([X, Y, Y[:2]])
        operator = self.make(X, kernel, 2)
        operator.matmat(np.ones((400, 1)))
        longer = operator.extend(Rows.from_array(Y)).extend(Rows.from_array(Y[:2]))
        for data, it in ((X, operator), (Z, longer), (Z, longer.with_kernel(kernel._value(6)))):
            K = kernel_matrix(data, data, kernel)
            U, V = rng.standard_normal((2, len(K), 3))
            close(it.matmat(V), K @ V)
            close(it.matmat(V[:, :1]), K @ V[:, :1])
            unseen = np.vstack([rng.random((5, 6)) * 9, data[:3]])
            close(it.table(V).evaluate(Rows.from_array(unseen), 2), kernel_matrix(unseen, data, kernel) @ V)
            close(it.matmat(V, "single"), K @ V, K.max() * np.abs(V).sum(axis=0), rtol=1e-6)
            smaller = np.sqrt(np.minimum(data[:, None], data[None]))
            close(it.gradient(U, V)["weights"], np.einsum("is,ijd,js->d", U, smaller, V))
            close(it.trace_gradient()["weights"], np.sqrt(data).sum(axis=0))
        # Further rows may bring so many values that they no longer are few.
        more = rng.random((200, 6))
        many = operator.extend(Rows.from_array(more))
        K = kernel_matrix(np.vstack([X, more]), np.vstack([X, more]), kernel)
        close(many.row_sums(), K.sum(axis=1))

    @given(st.data())
    def test_matmat_is_the_dense_product(self, data):
        X, kernel, operator = self.case(data)
        K = kernel_matrix(X, X, kernel)
        width = data.draw(st.sampled_from([1, 2, 16, 17]))
        V = np.random.default_rng(0).standard_normal((len(K), width))
        close(operator.matmat(V), K @ V, np.abs(K) @ np.abs(V))
        # Single precision: about 1e-7 an operation, relative to the largest entries of K.
        close(operator.matmat(V, "single"), K @ V, K.max() * np.abs(V).sum(axis=0), rtol=1e-5)

    @given(st.data())
    def test_the_training_rows_come_back(self, data):
        X, _, operator = self.case(data)
        rows = operator.training_rows()
        back = np.zeros(X.shape)
        back[np.repeat(np.arange(rows.n_rows), rows.counts), rows.column_of] = rows.values
        np.testing.assert_array_equal(back, dense(X))

    @given(st.data())
    def test_matrix_diagonal_and_row_sums(self, data):
        X, kernel, operator = self.case(data)
        K = kernel_matrix(X, X, kernel)
        close(operator.matrix(), K, K)
        close(operator.diagonal(), K.diagonal(), K.diagonal())
        close(operator.row_sums(), K.sum(axis=1), K.sum(axis=1))

    @given(st.data())
    def test_columns_are_columns_of_the_dense_matrix(self, data):
        X, kernel, operator = self.case(data)
        K = kernel_matrix(X, X, kernel)
        index = np.array(data.draw(st.lists(st.integers(0, len(K) - 1), min_size=1, max_size=40)))
        close(operator.columns(index), K[:, index], K[:, index])
        close(operator.columns(index, "single") * operator.scale, K[:, index], K.max(), rtol=1e-5)
        assert operator.columns(np.array([], int)).shape == (len(K), 0)
        close(operator.columns([-1]), K[:, -1:], K[:, -1:])

    @given(st.data())
    def test_cross_and_its_diagonal_match_the_dense_kernel(self, data):
        X, kernel, operator = self.case(data)
        Y = data.draw(matrices(X.shape[1]))
        kernel_values = kernel_matrix(Y, X, kernel) if self.fits(Y, kernel) else None
        if kernel_values is None:
            return
        rows = Rows.from_array(Y)
        out = np.empty(kernel_values.shape)
        for block, values in operator.cross(rows):
            out[block] = values
        close(out, kernel_values, kernel_values)
        expected = heights(Y, kernel).sum(axis=1)
        close(operator.cross_diagonal(rows), expected, expected)

    @given(st.data())
    def test_table_predicts_as_the_dense_formula_also_outside_the_training_range(self, data):
        X, kernel, operator = self.case(data)
        Y = data.draw(matrices(X.shape[1]))
        if not self.fits(Y, kernel):
            return
        alpha = np.random.default_rng(1).standard_normal((X.shape[0], data.draw(st.sampled_from([1, 3]))))
        K = kernel_matrix(Y, X, kernel)
        close(operator.table(alpha).evaluate(Rows.from_array(Y)), K @ alpha, np.abs(K) @ np.abs(alpha))

    @given(st.data())
    def test_a_grid_table_reads_the_exact_predictor_at_its_nodes(self, data):
        X, kernel, operator = self.case(data)
        Y = data.draw(matrices(X.shape[1]))
        if not self.fits(Y, kernel):
            return
        alpha = np.random.default_rng(1).standard_normal((X.shape[0], data.draw(st.sampled_from([1, 3]))))
        upper = data.draw(st.sampled_from([None, np.full(X.shape[1], 2.0)]))
        grid = Grid(data.draw(st.sampled_from([1, 2, 5, 20])), upper, data.draw(st.booleans()))
        table = operator.grid_table(alpha, grid)
        # Where a value lies on the grid is known to rounding of the grid's width, not of the value.
        size = max(heights(X, kernel).max(axis=0).sum(), 1.0) * np.abs(alpha).sum(axis=0)
        actual = table.evaluate(Rows.from_array(Y), 1, "linear")
        close(actual, quantized(X, kernel, alpha, Y, table, "linear", upper), size)
        exact = kernel_matrix(Y, X, kernel) @ alpha
        assert np.all(np.abs(actual - exact) <= table.linear_worst + 1e-11 * size)
        assert np.all(table.linear_worst <= table.linear_bounds + 1e-11 * size)

    def test_more_bins_converge_to_the_exact_table(self):
        rng = np.random.default_rng(9)
        X, Y, alpha = rng.random((60, 3)), rng.random((40, 3)), rng.standard_normal((60, 2))
        operator = self.make(X, HistogramIntersection(Power(0.5)))
        exact = kernel_matrix(Y, X, HistogramIntersection(Power(0.5))) @ alpha
        tables = [operator.grid_table(alpha, Grid(n_bins)) for n_bins in (10, 100, 1000)]
        errors = [np.abs(table.evaluate(Rows.from_array(Y)) - exact).max() for table in tables]
        assert errors[0] > 4 * errors[1] > 16 * errors[2]

    def test_the_grid_is_finer_where_the_training_data_crowd(self):
        rng = np.random.default_rng(11)
        even, skewed, alpha = rng.random((2000, 1)), rng.random((2000, 1)) ** 12, rng.standard_normal((2000, 1))
        operator = self.make(skewed, HistogramIntersection())
        few = self.make(even, HistogramIntersection()).grid_table(alpha, Grid(50)).layout.starts[-1]
        assert operator.grid_table(alpha, Grid(50)).layout.starts[-1] > 2 * few
        exact = kernel_matrix(skewed, skewed, HistogramIntersection()) @ alpha
        adaptive, uniform = (
            np.abs(operator.grid_table(alpha, Grid(50, uniform=uniform)).evaluate(Rows.from_array(skewed)) - exact)
            for uniform in (False, True)
        )
        assert adaptive.mean() < uniform.mean() / 2

    def test_a_uniform_grid_that_hits_every_value_is_exact(self):
        rng = np.random.default_rng(10)
        X, Y, alpha = rng.integers(0, 17, (50, 4)), rng.integers(0, 25, (30, 4)), rng.standard_normal((50, 2))
        X[0] = 16
        table = self.make(X.astype(float), HistogramIntersection()).grid_table(alpha, Grid(16, uniform=True))
        exact = kernel_matrix(Y, X, HistogramIntersection()) @ alpha
        for reading in ("linear", "nearest"):
            close(table.evaluate(Rows.from_array(Y.astype(float)), 1, reading), exact)
        assert np.all(table.linear_worst < 1e-11)

    @given(st.data())
    def test_norm_table_sums_the_squared_kernels_of_the_dimensions(self, data):
        X, kernel, operator = self.case(data)
        Y = data.draw(matrices(X.shape[1]))
        if not self.fits(Y, kernel):
            return
        per_dimension = np.minimum(heights(Y, kernel)[:, None], heights(X, kernel)[None])
        expected = (per_dimension**2).sum(axis=(1, 2))[:, None]
        close(operator.norm_table().evaluate(Rows.from_array(Y)), expected, expected)

    @given(st.data())
    def test_what_is_tabulated_is_exact_at_the_nodes(self, data):
        X, kernel, operator = self.case(data)
        Y = data.draw(matrices(X.shape[1]))
        if self.fits(Y, kernel):
            tabulated(operator, kernel, X, Y, np.ones((X.shape[0], 2)))

    @given(st.data())
    def test_with_kernel_equals_a_fresh_operator(self, data):
        X, _, operator = self.case(data)
        other = data.draw(kernels(X))
        K = kernel_matrix(X, X, other)
        close(operator.with_kernel(other._value(X.shape[1])).matrix(), K, K)

    @pytest.mark.parametrize("per_dimension", [False, True])
    @pytest.mark.parametrize("transform", [Power(0.7), Exponential(1.3), Log(2.0)])
    def test_gradient_matches_finite_differences_of_the_dense_form(self, transform, per_dimension):
        rng = np.random.default_rng(2)
        X = rng.random((9, 4)) * (rng.random((9, 4)) < 0.7)
        U, V = rng.standard_normal((2, 9, 3))
        (name,) = transform.get_params()
        value = np.array(getattr(transform, name) * (np.linspace(0.9, 1.2, 4) if per_dimension else 1.0))
        weights = np.array([1.0, 0.1, 2.0, 0.5])

        def form(value, weights):
            kernel = HistogramIntersection(type(transform)(value), weights)
            return np.einsum("is,ij,js->", U, kernel_matrix(X, X, kernel), V)

        gradient = self.make(X, HistogramIntersection(type(transform)(value), weights)).gradient(U, V)
        step = 1e-6
        for parameter, actual in (("weights", gradient["weights"]), (name, gradient[f"transform__{name}"])):
            base = weights if parameter == "weights" else value
            expected = np.empty(base.shape)
            for d in np.ndindex(base.shape):
                up, down = base.copy(), base.copy()
                up[d] += step
                down[d] -= step
                pair = ((value, up), (value, down)) if parameter == "weights" else ((up, weights), (down, weights))
                expected[d] = (form(*pair[0]) - form(*pair[1])) / (2 * step)
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("width", [1, 2, 16, 35])
    def test_weight_gradient_is_exact(self, width):
        rng = np.random.default_rng(3)
        X = rng.random((30, 5)) * (rng.random((30, 5)) < 0.6)
        U, V = rng.standard_normal((2, 30, width))
        per_dimension = np.minimum(X[:, None], X[None])
        expected = np.einsum("is,ijd,js->d", U, per_dimension, V)
        close(self.make(X, HistogramIntersection()).gradient(U, V)["weights"], expected)

    @given(st.data())
    def test_extend_and_remove_equal_an_operator_made_afresh(self, data):
        X, kernel, operator = self.case(data)
        Y = data.draw(matrices(X.shape[1]))
        if not self.fits(Y, kernel):
            return
        both = np.vstack([dense(X), dense(Y)])
        K = kernel_matrix(both, both, kernel)
        longer = operator.extend(Rows.from_array(Y))
        close(longer.matrix(), K, K)
        gone = sorted(data.draw(st.sets(st.integers(0, len(K) - 1), max_size=len(K) - 1)))
        kept = np.setdiff1d(np.arange(len(K)), gone)
        shorter = longer.remove(np.array(gone, int))
        close(shorter.matrix(), K[np.ix_(kept, kept)], K[np.ix_(kept, kept)])
        V = np.ones((len(kept), 1))
        close(shorter.matmat(V), K[np.ix_(kept, kept)] @ V)
        assert (operator.n_rows, longer.n_rows, shorter.n_rows) == (X.shape[0], len(K), len(kept))

    @given(st.data())
    def test_drawn_functions_have_the_kernel_as_covariance_at_rows_and_nodes(self, data):
        X, kernel, operator = self.case(data)
        layout = operator.layout(data.draw(st.sampled_from([2, 64])))
        n_normals = int(np.count_nonzero(dense(X)))
        at_rows, at_nodes = operator.prior_draws(layout, _UnitVectors(n_normals), n_normals)
        K = kernel_matrix(X, X, kernel)
        size = np.sqrt(K.diagonal())
        close(at_rows @ at_rows.T, K, np.outer(size, size))
        places, dimension = layout.heights[:-1], np.repeat(np.arange(X.shape[1]), np.diff(layout.starts))
        smaller = np.where(dimension[:, None] == dimension, np.minimum(places[:, None], places), 0.0)
        close(at_nodes[:-1] @ at_nodes[:-1].T, smaller, np.sqrt(np.outer(places, places)))
        h = heights(X, kernel)[:, dimension]
        close(at_rows @ at_nodes[:-1].T, np.minimum(h, places), size[:, None] * np.sqrt(places))

    @given(st.data())
    def test_parts_of_a_split_add_up(self, data):
        X, kernel, operator = self.case(data)
        K = kernel_matrix(X, X, kernel)
        parts = operator.split(data.draw(st.integers(1, 4)))
        close(sum(part.matrix() for part in parts), K, K)
        assert sum(part.n_columns for part in parts) == X.shape[1]

    def test_copies_by_pickle_and_deepcopy_multiply_alike(self):
        X = np.random.default_rng(4).random((20, 5))
        operator = self.make(X, HistogramIntersection(transform=Power(0.5)), 2)
        V = np.ones((20, 3))
        for twin in (pickle.loads(pickle.dumps(operator)), copy.deepcopy(operator)):
            np.testing.assert_array_equal(twin.matmat(V), operator.matmat(V))

    def test_threads_change_rounding_only(self):
        X = np.random.default_rng(5).random((300, 40))
        V = np.random.default_rng(6).standard_normal((300, 5))
        one, two = (self.make(X, HistogramIntersection(), n).matmat(V) for n in (1, 2))
        close(one, two, rtol=1e-13)

    def test_results_are_the_same_every_time(self):
        X = np.random.default_rng(7).random((300, 40))
        V = np.random.default_rng(8).standard_normal((300, 5))
        operator = self.make(X, HistogramIntersection(), 2)
        np.testing.assert_array_equal(operator.matmat(V), operator.matmat(V))

    @staticmethod
    def fits(Y, kernel):
        """Whether the exponential stays finite on Y."""
        return not isinstance(kernel.transform, Exponential) or dense(Y).max() * 1e-4 < 500


def nodes_of(X, kernel, d, table, upper=None):
    """The nodes of dimension d as heights, (q + 1,)."""
    top = heights(dense(X) if upper is None else upper[None], kernel)[:, d].max(initial=0)
    return top * octave_nodes(table.layout.n_bins, table.layout.octaves[d])


def contributions(X, kernel, alpha, d, at):
    """``sum_i min(h_id, at) alpha_i`` for heights ``at`` (n,), (n, M)."""
    return np.minimum(heights(X, kernel)[None, :, d], at[:, None]) @ alpha


def quantized(X, kernel, alpha, Y, table, reading, upper=None):
    total = np.zeros((Y.shape[0], alpha.shape[1]))
    for d in range(X.shape[1]):
        nodes = nodes_of(X, kernel, d, table, upper)
        if nodes[-1] > 0:
            f = contributions(X, kernel, alpha, d, nodes)
            total += read_grid(heights(Y, kernel)[:, d], nodes, f, reading)
    return total


def tabulated(operator, kernel, X, Y, alpha, rtol=1e-7):
    """What `tabulate` and its like write at the nodes, and what layouts read of them."""
    rows, noise = Rows.from_array(Y), np.linspace(0.1, 1, X.shape[0])
    H, G = heights(X, kernel), heights(Y, kernel)
    prior, size = G.sum(axis=1), max(G.sum(axis=1).max(initial=0), H.max(axis=0).sum())
    lower, ambiguous = np.zeros(Y.shape[0]), np.zeros(Y.shape[0], bool)  # at a node or just below
    for most in (4, 64):
        layout = operator.layout(most)
        mean, smoothed = operator.tabulate(layout, alpha), operator.tabulate_smoothed(layout, noise)
        spreads = np.append(np.diff(layout.heights).clip(0) / 2, 0)
        read, beyond, gaps = np.zeros((Y.shape[0], alpha.shape[1])), np.zeros(Y.shape[0]), np.zeros(Y.shape[0])
        for d in range(X.shape[1]):
            inside = slice(*layout.starts[d : d + 2])
            h, y, nodes = H[:, d], G[:, d], layout.heights[inside]
            assert len(nodes) <= most + 1
            assert nodes[0] == 0
            assert nodes[-1] == h.max()
            assert np.isin(nodes[1:], h).all()
            k = np.minimum(h[:, None], nodes[None])
            close(mean[inside], k.T @ alpha, h.max() * np.abs(alpha).sum(axis=0), rtol=1e-10)
            explained = (k * np.linalg.solve(np.minimum(h[:, None], h) + np.diag(noise), k)).sum(axis=0)
            close(smoothed[inside, 0], nodes - explained, h.max(), rtol=rtol)
            read += read_grid(y, nodes, mean[inside], "linear")
            beyond += np.maximum(y - h.max(), 0)
            place = np.clip(np.searchsorted(nodes, y, side="right") - 1, 0, max(len(nodes) - 2, 0))
            width = nodes[place + 1] - nodes[place] if len(nodes) > 1 else np.zeros(len(y))
            s = np.clip((y - nodes[place]) / np.where(width > 0, width, 1), 0, 1)
            gaps += s * (1 - s) * spreads[inside][place]
        located = layout.locate(rows, 2)
        close(layout.read(mean, located, 2), read, size * np.abs(alpha).sum(axis=0), rtol=1e-9)
        close(located.beyond, beyond, size)
        close(located.gaps(spreads), gaps, size, rtol=1e-9)
    for h, y in zip(H.T, G.T, strict=True):
        nodes = h.max() * np.arange(5) / 4
        norms = (np.minimum(h[:, None], nodes[None]) ** 2).sum(axis=0) / 7
        place = np.searchsorted(nodes, np.minimum(y, nodes[-1]) * (1 + 1e-12), side="right") - 1
        lower += np.where(y > 0, norms[place], 0)
        nearest = np.abs(np.minimum(y, nodes[-1])[:, None] - nodes).min(axis=1)
        ambiguous |= (y > 0) & (y <= nodes[-1]) & (nearest <= 1e-9 * nodes[-1])
    read = operator.lower_table(4, 7.0).evaluate(rows)
    # The table is rounded down to single precision.
    off = (read - prior + lower)[~ambiguous] / (size + lower.max(initial=1e-30))
    assert np.all((off > -1e-11) & (off < 3e-7))


def bin_bound(X, kernel, alpha, table):
    total = np.zeros(alpha.shape[1])
    for d in range(X.shape[1]):
        nodes, h = nodes_of(X, kernel, d, table), heights(X, kernel)[:, d]
        in_bin = (h[None] > nodes[:-1, None]) & (h[None] <= nodes[1:, None])
        total += (np.diff(nodes)[:, None] / 4 * (in_bin @ np.abs(alpha))).max(axis=0)
    return total


def worst_error(X, kernel, alpha, table):
    """The largest sum, over dimensions, of errors of one sign: a test row that combines them exists."""
    largest, smallest = np.zeros((2, alpha.shape[1]))
    for d in range(X.shape[1]):
        nodes, h = nodes_of(X, kernel, d, table), heights(X, kernel)[:, d]
        read = read_grid(h, nodes, contributions(X, kernel, alpha, d, nodes), "linear")
        error = contributions(X, kernel, alpha, d, h) - read
        largest += np.maximum(error.max(axis=0), 0)
        smallest += np.minimum(error.min(axis=0), 0)
    return np.maximum(largest, -smallest)


class _UnitVectors:
    """A generator whose k-th normal is the k-th unit vector over the draws: draws become a matrix root."""

    def __init__(self, n):
        self.identity = np.eye(n)
        self.used = 0

    def standard_normal(self, shape):
        rows = self.identity[self.used : self.used + shape[0]]
        self.used += shape[0]
        return rows
