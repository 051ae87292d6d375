"""The contract of an operator, as suites of tests: one for what all have in common, one a capability.

An operator's test class says in `Subject` how to make one and what it is as a dense matrix, and inherits the suites of
what it offers. How methods are called stands in a few functions at the end of this file.
"""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import alike, close, dense, heights, histograms, kernel_matrix, matrices, octave_nodes, read_grid
from scipy import sparse
from sklearn.base import clone

from histogp._core.data import Rows
from histogp._core.layouts import Grid
from histogp._core.operators.contract import Features, Tables, Tuning, Updates, cross_blocks, require, sums_by_weight
from histogp.kernels import HistogramIntersection, Power

N, D = 40, 6


def _typical_data():
    """Training and test rows, by name: with an empty row and column, and without."""
    X, Y = histograms(N, D), histograms(9, D, seed=2) * 3
    X[3] = 0
    X[:, 4] = 0
    rng = np.random.default_rng(0)
    return {
        "histograms": (X, Y),
        "uniform": (rng.random((N, D)) * (rng.random((N, D)) < 0.7), rng.random((9, D)) * 1.3),
    }


TYPICAL_DATA = _typical_data()
U, V = np.random.default_rng(0).standard_normal((2, N, 3))
SUMS = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, -1.0]])


class Subject:
    """What a test class supplies of its operator.

    typical : kernels for D features, by name; tests without hypothesis take each of them
    ways : names of code paths that `choose` switches between, if there are several
    """

    typical: dict
    ways: tuple = ("the only way",)
    single_rtol = 1e-5
    """Of products in single precision: about 1e-7 an operation, relative to the largest entries of K."""

    def make(self, X, kernel, n_threads=1):
        """The operator of rows X."""
        raise NotImplementedError

    def evaluate(self, A, B, kernel):
        """``K(A, B)`` densely, (n_a, n_b)."""
        raise NotImplementedError

    def size(self, A, B, kernel):
        """The sizes of the terms that add up to the entries of K(A, B), to which rounding is relative."""
        return self.evaluate(A, B, kernel)

    def kernels(self, X):
        """Kernels for these rows, as a strategy."""
        raise NotImplementedError

    def fits(self, Y, kernel):
        """Whether the kernel stays finite on Y."""
        return True

    def cost(self, X, kernel):
        """Numbers that a product with a vector visits."""
        return np.count_nonzero(X)

    def choose(self, way):
        """Switch to one of `ways`."""

    def case(self, data):
        """Rows, a kernel and the operator of both."""
        self.choose(data.draw(st.sampled_from(self.ways)))
        X = data.draw(matrices())
        kernel = data.draw(self.kernels(X))
        return X, kernel, self.make(X, kernel, data.draw(st.sampled_from([1, 2])))

    def draw_rows(self, data, X, kernel):
        """Further rows, or None if the kernel overflows there."""
        Y = data.draw(matrices(X.shape[1]))
        return Y if self.fits(Y, kernel) else None

    def pytest_generate_tests(self, metafunc):
        choices = {"kernel": self.typical, "way": self.ways, "n_threads": [1, 2], "on": TYPICAL_DATA}
        for name, values in choices.items():
            if name in metafunc.fixturenames:
                chosen = values.values() if name == "kernel" else values
                metafunc.parametrize(name, list(chosen), ids=list(map(str, values)))

    def check_products(self, operator, X, kernel):
        """Products and predictions in both precisions, for an operator of the rows X."""
        rng = np.random.default_rng(1)
        K, size = self.evaluate(X, X, kernel), self.size(X, X, kernel)
        V = rng.standard_normal((len(K), 3))
        of_products = size.max() * np.abs(V).sum(axis=0)
        close(operator.matmat(V), K @ V)
        close(operator.matmat(V[:, :1]), K @ V[:, :1])
        close(operator.matmat(V, "single"), K @ V, of_products, rtol=min(self.single_rtol, 1e-6))
        unseen = np.vstack([rng.random((5, X.shape[1])) * 9, X[:3]])
        close(operator.table(V).evaluate(Rows.from_array(unseen), 2), self.evaluate(unseen, X, kernel) @ V)


class CoreSuite(Subject):
    """What every operator does."""

    def test_typical_products_are_those_of_the_dense_matrix(self, kernel, way, on, n_threads):
        """Without hypothesis: quick, and the same every time."""
        self.choose(way)
        X, Y = TYPICAL_DATA[on]
        K, K_cross = self.evaluate(X, X, kernel), self.evaluate(Y, X, kernel)
        size = self.size(X, X, kernel)
        operator, rows = self.make(X, kernel, n_threads), Rows.from_array(Y)
        assert shape_of(operator) == (N, D)
        assert cost_of(operator) == self.cost(X, kernel)
        for _ in range(2):  # the second time from what is kept
            close(operator.matmat(V), K @ V)
            close(operator.matmat(V[:, :1]), K @ V[:, :1])
            close(operator.matmat(V, "single"), K @ V, size.max() * np.abs(V).sum(axis=0), rtol=self.single_rtol)
            close(operator.matrix(), K)
            close(diagonal_of(operator), K.diagonal())
            close(row_sums_of(operator), K.sum(axis=1), np.abs(K).sum(axis=1).max())
            close(joined(cross_blocks(operator, rows), K_cross.shape), K_cross)
            close(diagonal_of(operator, rows), self.evaluate(Y, Y, kernel).diagonal())
            close(cross_of(operator, rows, rows.take([0, 2])), self.evaluate(Y, Y[[0, 2]], kernel))
            table = operator.table(V)
            for threads in (1, 2):
                close(table.evaluate(rows, threads), K_cross @ V)

    def test_typical_columns_in_both_precisions(self, kernel, way, on):
        self.choose(way)
        X, _ = TYPICAL_DATA[on]
        operator = self.make(X, kernel)
        K, largest = self.evaluate(X, X, kernel), self.size(X, X, kernel).max()
        assert np.log2(operator.scale) == np.rint(np.log2(operator.scale))
        for index in ([3, 1], [-1], [2, 2]):
            close(operator.columns(np.array(index)), K[:, index])
            single = operator.columns(np.array(index), "single")
            assert single.dtype == np.float32
            close(single.astype(float) * operator.scale, K[:, index], largest, rtol=1e-6)
        assert operator.columns(np.array([], int)).shape == (N, 0)

    def test_typical_counts(self, kernel, n_threads):
        """Few distinct values."""
        X = counts()[0]
        operator = self.make(X, kernel, n_threads)
        operator.matmat(np.ones((len(X), 1)))
        self.check_products(operator, X, kernel)

    def test_every_part_of_the_diagonal_belongs_to_a_feature(self, kernel, on):
        X, _ = TYPICAL_DATA[on]
        found = relevance_of(self.make(X, kernel))
        assert found.shape == (D,)
        assert np.all(found >= 0)
        total = self.evaluate(X, X, kernel).trace()
        assert found.sum() == pytest.approx(1.0 if total > 0 or found.any() else 0.0)
        assert not found[~X.any(axis=0)].any()

    @given(st.data())
    def test_matmat_is_the_dense_product(self, data):
        X, kernel, operator = self.case(data)
        K, size = self.evaluate(X, X, kernel), self.size(X, X, kernel)
        width = data.draw(st.sampled_from([1, 2, 16, 17]))
        V = np.random.default_rng(0).standard_normal((len(K), width))
        close(operator.matmat(V), K @ V, size @ np.abs(V))
        close(operator.matmat(V, "single"), K @ V, size.max() * np.abs(V).sum(axis=0), rtol=self.single_rtol)

    @given(st.data())
    def test_matrix_diagonal_and_row_sums(self, data):
        X, kernel, operator = self.case(data)
        K, size = self.evaluate(X, X, kernel), self.size(X, X, kernel)
        close(operator.matrix(), K, size)
        close(diagonal_of(operator), K.diagonal(), size.diagonal())
        close(row_sums_of(operator), K.sum(axis=1), size.sum(axis=1))

    @given(st.data())
    def test_columns_are_columns_of_the_dense_matrix(self, data):
        X, kernel, operator = self.case(data)
        K, size = self.evaluate(X, X, kernel), self.size(X, X, kernel)
        index = np.array(data.draw(st.lists(st.integers(0, len(K) - 1), min_size=1, max_size=40)))
        close(operator.columns(index), K[:, index], size[:, index])
        close(operator.columns(index, "single") * operator.scale, K[:, index], size.max(), rtol=1e-5)
        assert operator.columns(np.array([], int)).shape == (len(K), 0)
        close(operator.columns([-1]), K[:, -1:], size[:, -1:])

    @given(st.data())
    def test_cross_and_its_diagonal_match_the_dense_kernel(self, data):
        X, kernel, operator = self.case(data)
        if (Y := self.draw_rows(data, X, kernel)) is None:
            return
        rows, expected = Rows.from_array(Y), self.evaluate(Y, X, kernel)
        close(joined(cross_blocks(operator, rows), expected.shape), expected, self.size(Y, X, kernel))
        of_rows, size = self.evaluate(Y, Y, kernel), self.size(Y, Y, kernel)
        close(diagonal_of(operator, rows), of_rows.diagonal(), size.diagonal())
        close(cross_of(operator, rows, rows), of_rows, size)

    @given(st.data())
    def test_table_predicts_as_the_dense_formula_also_outside_the_training_range(self, data):
        X, kernel, operator = self.case(data)
        if (Y := self.draw_rows(data, X, kernel)) is None:
            return
        alpha = np.random.default_rng(1).standard_normal((X.shape[0], data.draw(st.sampled_from([1, 3]))))
        found = operator.table(alpha).evaluate(Rows.from_array(Y))
        # Sums over training rows may be taken first.
        size = self.size(Y, X, kernel) @ np.abs(alpha)
        close(found, self.evaluate(Y, X, kernel) @ alpha, size)

    def test_copies_by_pickle_and_deepcopy_multiply_alike(self, kernel):
        X, _ = TYPICAL_DATA["histograms"]
        operator = self.make(X, kernel, 2)
        for twin in (pickle.loads(pickle.dumps(operator)), copy.deepcopy(operator)):
            alike(twin.matmat(V), operator.matmat(V))

    def test_a_pickle_does_not_grow_by_what_was_derived(self, kernel):
        X, Y = TYPICAL_DATA["histograms"]
        operator = self.make(X, kernel, 2)
        before = len(pickle.dumps(operator))
        operator.matmat(V)
        operator.matmat(V, "single")
        operator.matrix()
        operator.cross(Rows.from_array(Y))
        assert len(pickle.dumps(operator)) <= before

    def test_it_comes_back_from_a_state(self, kernel):
        X, _ = TYPICAL_DATA["histograms"]
        operator, state = self.make(X, kernel), State()
        operator.to_state(state)
        back = type(operator).from_state(state, operator.kernel, N, D, 2)
        assert back.n_threads == 2
        alike(back.matrix(), operator.matrix())

    @pytest.mark.parametrize("unit", [1e-30, 1e30])
    def test_single_precision_has_a_unit_that_fits(self, kernel, unit):
        """Values of any size become numbers that float32 can hold."""
        operator = self.make(histograms(20, D) * unit, kernel)
        assert np.log2(operator.scale) == np.rint(np.log2(operator.scale))
        single, double = (operator.columns(np.arange(20), precision) for precision in ("single", "double"))
        assert single.dtype == np.float32
        assert np.abs(single).max() <= D
        close(single, double / operator.scale, rtol=1e-5)

    def test_threads_change_rounding_only(self, kernel):
        X = np.random.default_rng(5).random((300, D))
        V = np.random.default_rng(6).standard_normal((300, 5))
        one, two = (self.make(X, kernel, n).matmat(V) for n in (1, 2))
        close(one, two, rtol=1e-13)

    def test_another_number_of_threads_is_the_same_operator(self, kernel):
        X, _ = TYPICAL_DATA["histograms"]
        operator = self.make(X, kernel)
        assert with_threads(operator, 2).n_threads == 2
        close(with_threads(operator, 2).matrix(), operator.matrix(), rtol=1e-14)
        close(with_threads(operator, 2).matmat(V), operator.matmat(V), self.size(X, X, kernel).max() * N, rtol=1e-14)
        assert operator.n_threads == 1

    def test_results_are_the_same_every_time(self, kernel):
        X = np.random.default_rng(7).random((300, D))
        V = np.random.default_rng(8).standard_normal((300, 5))
        operator = self.make(X, kernel, 2)
        np.testing.assert_array_equal(operator.matmat(V), operator.matmat(V))

    def test_after_a_release_everything_comes_back(self, kernel):
        X, Y = TYPICAL_DATA["histograms"]
        operator = self.make(X, kernel)
        before = [operator.matmat(V), operator.matrix(), diagonal_of(operator)]
        operator.release()
        operator.release()
        for one, other in zip(before, [operator.matmat(V), operator.matrix(), diagonal_of(operator)], strict=True):
            close(other, one, rtol=1e-14)
        close(cross_of(operator, Rows.from_array(Y)), self.evaluate(Y, X, kernel))

    def test_sparse_rows_and_single_precision_are_the_same_rows(self, kernel, way):
        self.choose(way)
        X, _ = TYPICAL_DATA["histograms"]
        expected = self.make(X, kernel).matrix()
        alike(self.make(sparse.csr_array(X), kernel).matrix(), expected)
        close(self.make(X.astype(np.float32), kernel).matrix(), expected, rtol=1e-5)


class UpdatesSuite(Subject):
    """Training rows that come back, come and go."""

    def test_updates_are_offered(self, kernel):
        assert self.make(TYPICAL_DATA["histograms"][0], kernel).offer(Updates) is not None

    def test_typical_rows_come_and_go(self, kernel, way, on):
        self.choose(way)
        X, Y = TYPICAL_DATA[on]
        operator = self.make(X, kernel, 2)
        operator.matrix()
        longer, both = operator.extend(Rows.from_array(Y)), np.vstack([X, Y])
        K = self.evaluate(both, both, kernel)
        close(longer.matrix(), K)
        close(longer.matmat(np.eye(len(K))), K)
        for gone in ([0, 45], [], np.array([7])):
            kept = np.delete(np.arange(len(K)), np.array(gone, int))
            shorter = longer.remove(gone)
            close(shorter.matrix(), K[np.ix_(kept, kept)])
            close(row_sums_of(shorter), K[np.ix_(kept, kept)].sum(axis=1), np.abs(K).sum(axis=1).max())
            assert shape_of(shorter) == (len(kept), D)
            np.testing.assert_array_equal(shorter.training_rows().to_dense(), both[kept])
        assert operator.remove([0, 1]).training_rows().n_rows == N - 2

    def test_typical_counts_come(self, kernel, n_threads):
        """Few distinct values, also where further rows bring some more."""
        X, Y = counts()
        operator = self.make(X, kernel, n_threads)
        operator.matmat(np.ones((len(X), 1)))
        longer = operator.extend(Rows.from_array(Y)).extend(Rows.from_array(Y[:2]))
        self.check_products(longer, np.vstack([X, Y, Y[:2]]), kernel)
        # Further rows may bring so many values that they no longer are few.
        more = np.random.default_rng(2).random((200, D))
        many, both = operator.extend(Rows.from_array(more)), np.vstack([X, more])
        K = self.evaluate(both, both, kernel)
        close(row_sums_of(many), K.sum(axis=1), np.abs(K).sum(axis=1).max())

    def test_typical_rows_come_back_also_from_a_state(self, kernel):
        X, _ = TYPICAL_DATA["histograms"]
        operator, state = self.make(X, kernel), State()
        np.testing.assert_array_equal(operator.training_rows().to_dense(), X)
        operator.to_state(state)
        back = type(operator).from_state(state, operator.kernel, N, D, 2)
        np.testing.assert_array_equal(back.training_rows().to_dense(), X)

    @given(st.data())
    def test_the_training_rows_come_back(self, data):
        X, _, operator = self.case(data)
        rows = operator.training_rows()
        back = np.zeros(X.shape)
        back[np.repeat(np.arange(rows.n_rows), rows.counts), rows.column_of] = rows.values
        np.testing.assert_array_equal(back, dense(X))

    @given(st.data())
    def test_extend_and_remove_equal_an_operator_made_afresh(self, data):
        X, kernel, operator = self.case(data)
        if (Y := self.draw_rows(data, X, kernel)) is None:
            return
        both = np.vstack([dense(X), dense(Y)])
        K, size = self.evaluate(both, both, kernel), self.size(both, both, kernel)
        longer = operator.extend(Rows.from_array(Y))
        close(longer.matrix(), K, size)
        gone = sorted(data.draw(st.sets(st.integers(0, len(K) - 1), max_size=len(K) - 1)))
        kept = np.setdiff1d(np.arange(len(K)), gone)
        shorter = longer.remove(np.array(gone, int))
        close(shorter.matrix(), K[np.ix_(kept, kept)], size[np.ix_(kept, kept)])
        V = np.ones((len(kept), 1))
        close(shorter.matmat(V), K[np.ix_(kept, kept)] @ V, size[np.ix_(kept, kept)].sum(axis=1).max())
        lengths = [shape_of(one)[0] for one in (operator, longer, shorter)]
        assert lengths == [X.shape[0], len(K), len(kept)]


class TuningSuite(Subject):
    """Other hyperparameters on the same data, and derivatives by them.

    smooth : kernels for D features, by name, at which finite differences make sense: no weight is zero
    """

    smooth: dict

    def test_tuning_is_offered(self, kernel):
        assert self.make(TYPICAL_DATA["histograms"][0], kernel).offer(Tuning) is not None

    def n_weights(self, n_features):
        return n_features

    def derivatives(self, A, B, kernel):
        """By hyperparameter, the derivative of K(A, B), (..., n_a, n_b); those that have a formula of a line."""
        raise NotImplementedError

    def hyperparameters(self, kernel):
        """By name, as numbers or arrays; weights always (n_weights,)."""
        weights = 1.0 if kernel.weights is None else kernel.weights
        found = {"weights": np.broadcast_to(np.asarray(weights, float), self.n_weights(D))}
        transform = getattr(kernel, "transform", None)
        of_transform = {} if transform is None else transform.get_params()
        return found | {f"transform__{name}": np.asarray(value, float) for name, value in of_transform.items()}

    def changed(self, kernel, name, value):
        """The kernel with another value of a hyperparameter."""
        return clone(kernel).set_params(**{name: value})

    def pytest_generate_tests(self, metafunc):
        super().pytest_generate_tests(metafunc)
        if "smooth_kernel" in metafunc.fixturenames:
            metafunc.parametrize("smooth_kernel", list(self.smooth.values()), ids=list(self.smooth))

    def check_derivatives(self, operator, X, kernel):
        """Of quadratic forms and the trace, for an operator of the rows X."""
        U, V = np.random.default_rng(3).standard_normal((2, len(X), 3))
        gradient, several = operator.gradient(U, V), operator.gradient(U, V, SUMS)
        of_trace = operator.trace_gradient()
        assert gradient.keys() == several.keys() == of_trace.keys() == self.hyperparameters(kernel).keys()
        for name, derivative in self.derivatives(X, X, kernel).items():
            each = np.einsum("is,...ij,js->...s", U, derivative, V)
            close(gradient[name], each.sum(axis=-1))
            close(several[name], each @ SUMS)
            close(of_trace[name], np.einsum("...ii->...", derivative))

    def test_a_kernel_of_another_kind_is_refused(self, kernel):
        other = SimpleNamespace(kind=object())
        with pytest.raises(ValueError, match="another kind"):
            self.make(TYPICAL_DATA["histograms"][0], kernel).with_kernel(other)

    def test_typical_derivatives(self, kernel, way, on, n_threads):
        self.choose(way)
        X, _ = TYPICAL_DATA[on]
        operator = self.make(X, kernel, n_threads)
        self.check_derivatives(operator, X, kernel)
        several = operator.gradient(U, V, SUMS)
        for name, values in operator.gradient(U[:, 2:], V[:, 2:]).items():
            close(several[name][..., 1], -values)
        for name, values in operator.gradient(U[:, :2] * [1, 2], V[:, :2]).items():
            close(several[name][..., 0], values)
        by_weight = self.derivatives(X, X, kernel)["weights"]
        traces = self.hyperparameters(kernel)["weights"] * np.einsum("dii->d", by_weight)
        close(self.hyperparameters(kernel)["weights"] * operator.trace_gradient()["weights"], traces)

    def test_typical_derivatives_of_counts(self, kernel):
        X = counts()[0]
        operator = self.make(X, kernel, 2)
        operator.matmat(np.ones((len(X), 1)))
        self.check_derivatives(operator, X, kernel)

    def test_gradient_matches_finite_differences_of_the_dense_form(self, smooth_kernel):
        rng = np.random.default_rng(2)
        X = rng.random((9, D)) * (rng.random((9, D)) < 0.7)
        U, V = rng.standard_normal((2, 9, 3))

        def form(name, value):
            kernel = self.changed(smooth_kernel, name, value)
            return np.einsum("is,ij,js->", U, self.evaluate(X, X, kernel), V)

        gradient = self.make(X, smooth_kernel).gradient(U, V)
        assert gradient.keys() == self.hyperparameters(smooth_kernel).keys()
        step = 1e-6
        for name, value in self.hyperparameters(smooth_kernel).items():
            expected = np.empty(value.shape)
            for d in np.ndindex(value.shape):
                up, down = value.copy(), value.copy()
                up[d] += step
                down[d] -= step
                expected[d] = (form(name, up) - form(name, down)) / (2 * step)
            np.testing.assert_allclose(gradient[name], expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("width", [1, 2, 16, 35])
    def test_weight_gradient_is_exact(self, kernel, width):
        rng = np.random.default_rng(3)
        X = rng.random((30, D)) * (rng.random((30, D)) < 0.6)
        U, V = rng.standard_normal((2, 30, width))
        expected = np.einsum("is,dij,js->d", U, self.derivatives(X, X, kernel)["weights"], V)
        close(self.make(X, kernel).gradient(U, V)["weights"], expected)

    @given(st.data())
    def test_with_kernel_equals_a_fresh_operator(self, data):
        X, _, operator = self.case(data)
        other = data.draw(self.kernels(X))
        close(with_kernel(operator, other).matrix(), self.evaluate(X, X, other), self.size(X, X, other))


class UpdatesTuningSuite(UpdatesSuite, TuningSuite):
    """Other hyperparameters after updates, for operators that offer both."""

    def test_typical_derivatives_of_counts_that_came(self, kernel):
        X, Y = counts()
        operator = self.make(X, kernel, 2)
        operator.matmat(np.ones((len(X), 1)))
        longer = operator.extend(Rows.from_array(Y)).extend(Rows.from_array(Y[:2]))
        both = np.vstack([X, Y, Y[:2]])
        for one in (longer, with_kernel(longer, kernel)):
            self.check_products(one, both, kernel)
            self.check_derivatives(one, both, kernel)


class TablesSuite(Subject):
    """Functions of one feature each, at nodes; for kernels that are intersections of heights."""

    def test_tables_are_offered(self, kernel):
        assert self.make(TYPICAL_DATA["histograms"][0], kernel).offer(Tables) is not None

    def test_typical_tables(self, kernel, n_threads):
        X, Y = TYPICAL_DATA["uniform"]
        operator, rows = self.make(X, kernel, n_threads), Rows.from_array(Y)
        for n_outputs in (1, 3):
            table = operator.grid_table(V[:, :n_outputs], Grid(7))
            for reading in ("linear", "nearest"):
                expected = quantized(X, kernel, V[:, :n_outputs], Y, table, reading)
                close(table.evaluate(rows, 1, reading), expected)
            close(table.linear_bounds, bin_bound(X, kernel, V[:, :n_outputs], table))
            close(table.linear_worst, worst_error(X, kernel, V[:, :n_outputs], table))
        squares = np.minimum(heights(Y, kernel)[:, None], heights(X, kernel)[None]) ** 2
        close(operator.norm_table().evaluate(rows), squares.sum(axis=(1, 2))[:, None])
        tabulated(operator, kernel, X, Y, U, rtol=1e-11)

    @given(st.data())
    def test_a_grid_table_reads_the_exact_predictor_at_its_nodes(self, data):
        X, kernel, operator = self.case(data)
        if (Y := self.draw_rows(data, X, kernel)) is None:
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
        if (Y := self.draw_rows(data, X, kernel)) is None:
            return
        per_dimension = np.minimum(heights(Y, kernel)[:, None], heights(X, kernel)[None])
        expected = (per_dimension**2).sum(axis=(1, 2))[:, None]
        close(operator.norm_table().evaluate(Rows.from_array(Y)), expected, expected)

    @given(st.data())
    def test_what_is_tabulated_is_exact_at_the_nodes(self, data):
        X, kernel, operator = self.case(data)
        if (Y := self.draw_rows(data, X, kernel)) is not None:
            tabulated(operator, kernel, X, Y, np.ones((X.shape[0], 2)))

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


class WithoutTablesSuite(Subject):
    """An operator without tables says so."""

    def test_tables_are_refused_by_a_sentence(self, kernel):
        operator = self.make(TYPICAL_DATA["histograms"][0], kernel)
        assert operator.offer(Tables) is None
        with pytest.raises(
            ValueError, match=r'^the variance "coarse" needs tables over single features.*\.$'
        ) as caught:
            require(operator, Tables, 'the variance "coarse"')
        assert "\n" not in str(caught.value)


class FeaturesSuite(Subject):
    """``K = Phi Phi^T`` with features that can be had."""

    feature_rtol = 1e-14

    def test_features_are_offered(self, kernel):
        assert self.make(TYPICAL_DATA["histograms"][0], kernel).offer(Features) is not None

    def features(self, A, kernel):
        """Phi of dense or sparse rows, (n, n_components), times the roots of their weights."""
        raise NotImplementedError

    def evaluate(self, A, B, kernel):
        return self.features(A, kernel) @ self.features(B, kernel).T

    def size(self, A, B, kernel):
        return np.abs(self.features(A, kernel)) @ np.abs(self.features(B, kernel)).T

    def test_typical_features(self, kernel, way, on, n_threads):
        self.choose(way)
        X, Y = TYPICAL_DATA[on]
        operator, rows = self.make(X, kernel, n_threads), Rows.from_array(Y)
        Z, Z_new = self.features(X, kernel), self.features(Y, kernel)
        assert n_components_of(operator) == Z.shape[1]
        weights = np.random.default_rng(4).standard_normal((Z.shape[1], 3))
        for _ in range(2):  # the second time from what is kept
            close(joined(operator.blocks(rows), Z_new.shape), Z_new, rtol=self.feature_rtol)
            close(joined(operator.blocks(), Z.shape), Z, rtol=self.feature_rtol)
            close(operator.project(V), Z.T @ V)
            close(operator.combine(weights), Z @ weights)
            close(operator.from_weights(weights).evaluate(rows, n_threads), Z_new @ weights)

    def test_features_share_weights(self, kernel):
        X, _ = TYPICAL_DATA["histograms"]
        operator, Z = self.make(X, kernel), self.features(X, kernel)
        weight_of = operator.weight_of()
        assert weight_of.shape == (Z.shape[1],)
        for number, total in enumerate(sums_by_weight(weight_of, Z.T)):
            close(total, Z[:, weight_of == number].sum(axis=1))

    def test_features_are_those_without_weights_times_the_roots_of_weights(self, kernel, on):
        X, _ = TYPICAL_DATA[on]
        operator, Z = self.make(X, kernel), self.features(X, kernel)
        unweighted, weights = operator.unweighted(), operator.weights()
        assert unweighted.weights() is None or np.all(unweighted.weights() == 1)
        roots = 1.0 if weights is None else np.sqrt(weights)[operator.weight_of()]
        close(joined(unweighted.blocks(), Z.shape) * roots, Z, rtol=self.feature_rtol)
        assert all(block.dtype == operator.dtype for _, block in operator.blocks())

    @given(st.data())
    def test_products_of_features_are_the_kernel(self, data):
        X, kernel, operator = self.case(data)
        Z = joined(operator.blocks(), (X.shape[0], n_components_of(operator)))
        close(Z, self.features(X, kernel), np.abs(Z).max(initial=0), rtol=1e-11)
        close(Z @ Z.T, operator.matrix(), self.size(X, X, kernel))


# How methods are called that every operator has.


def shape_of(operator):
    return operator.n_samples, operator.n_features


def cost_of(operator):
    return operator.cost


def n_components_of(operator):
    return operator.n_components


def diagonal_of(operator, rows=None):
    """K(x, x) of test rows, or of training rows."""
    return operator.diagonal(rows)


def cross_of(operator, rows, others=None):
    """K(rows, others) as one matrix; None are the training rows."""
    return operator.cross(rows, others)


def row_sums_of(operator):
    return operator.matmat(np.ones((operator.n_samples, 1)))[:, 0]


def relevance_of(operator):
    """The part of each feature in K, with the sum one."""
    return operator.relevance()


def with_threads(operator, n_threads):
    return operator.with_threads(n_threads)


def with_kernel(operator, kernel):
    return operator.with_kernel(kernel._adapt(operator.training_rows()).value)


# Data, and dense formulas of tables.


def joined(blocks, shape):
    """Pieces (slice, block) as one dense matrix."""
    out = np.full(shape, np.nan)
    for some, block in blocks:
        out[some] = dense(block)
    return out


def counts():
    """Many rows of few distinct values, and some more with values of their own."""
    rng = np.random.default_rng(6)
    return rng.poisson(1.0, (400, D)).astype(float), rng.poisson(1.5, (7, D)) + 0.5


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
            between = (h[:, None] > nodes[:-1]) & (h[:, None] < nodes[1:])
            is_empty = np.append(~between.any(axis=0), False)
            beyond += s * (1 - s) * np.where(is_empty[place], width, 0)  # a Brownian bridge
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
    read = operator.floor_table(4, 7.0).evaluate(rows)
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


class State:
    """Arrays by name, in the manner of a model file."""

    def __init__(self):
        self.arrays = {}
        self.children = {}

    def child(self, name):
        return self.children.setdefault(name, State())

    def put(self, name, array):
        self.arrays[name] = array

    def array(self, name, dtype, shape, lowest=-np.inf):
        found = self.arrays[name]
        assert not found.size or found.min() >= lowest
        assert found.dtype == dtype
        assert all(wanted in (None, given) for wanted, given in zip(shape, found.shape, strict=True))
        return found


class _UnitVectors:
    """A generator whose k-th normal is the k-th unit vector over the draws: draws become a matrix root."""

    def __init__(self, n):
        self.identity = np.eye(n)
        self.used = 0

    def standard_normal(self, shape):
        rows = self.identity[self.used : self.used + shape[0]]
        self.used += shape[0]
        return rows
