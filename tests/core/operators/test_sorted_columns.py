"""The operator on sorted columns keeps the contract."""

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import Log, close, dense, histograms, kernel_matrix
from scipy import sparse

from core.operators.intersection_kernels import kernels
from core.operators.suite import CoreSuite, D, TablesSuite, UpdatesTuningSuite
from histogp._core.data import Rows, SortedColumns
from histogp.kernels import Chi2, Exponential, HistogramIntersection, Power, Transform

pytestmark = pytest.mark.portable

WEIGHTS = np.linspace(0.5, 2, D)
VALUES = np.linspace(0.9, 1.2, D)
SOME = np.array([1.0, 0.1, 2.0, 0.5, 1.5, 0.7])


class TestSortedOperator(CoreSuite, UpdatesTuningSuite, TablesSuite):
    typical = {  # noqa: RUF012
        "power": HistogramIntersection(Power(0.5), WEIGHTS),
        "plain": HistogramIntersection(),
        "some weights zero": HistogramIntersection(weights=np.linspace(0, 2, D)),
    }
    smooth = {
        f"{type(transform(1.0)).__name__} {'each' if np.ndim(value) else 'all'}": HistogramIntersection(
            transform(value), SOME
        )
        for transform, base in ((Power, 0.7), (Exponential, 1.3), (Log, 2.0))
        for value in (base, base * VALUES)
    } | {"no transform": HistogramIntersection(weights=SOME)}

    def make(self, X, kernel, n_threads=1):
        return kernel_operator(X, kernel, n_threads)

    def evaluate(self, A, B, kernel):
        return kernel_matrix(A, B, kernel)

    def kernels(self, X):
        return kernels(X)

    def fits(self, Y, kernel):
        return not isinstance(kernel.transform, Exponential) or dense(Y).max() * 1e-4 < 500

    def derivatives(self, A, B, kernel):
        smaller = np.minimum(A.T[:, :, None], B.T[:, None])
        if kernel.transform is None:
            return {"weights": smaller}
        weights, eta = np.asarray(kernel.weights)[:, None, None], kernel.transform.eta
        slope = smaller**eta * np.log(np.maximum(smaller, 1e-300))
        return {"weights": smaller**eta, "transform__eta": (weights * slope).sum(axis=0)}


def test_a_kernel_of_another_kind_is_refused():
    operator = kernel_operator(histograms(5, 3), HistogramIntersection())
    with pytest.raises(ValueError, match="another kind"):
        operator.with_kernel(Chi2()._adapt(np.eye(3)).value)


def test_kernel_values_of_other_rows_leave_the_training_samples_alone(monkeypatch):
    """An update asks for a few of them; bringing all samples into rows would take longer than a product."""
    operator = kernel_operator(histograms(500, 8), HistogramIntersection())
    rows = Rows.from_array(histograms(3, 8))
    monkeypatch.setattr(SortedColumns, "to_rows", None)
    assert operator.cross(rows, rows).shape == (3, 3)


@pytest.mark.parametrize("magnitude", [1e-200, 1e-30, 1e30, 1e200])
def test_extreme_magnitudes_survive_both_precisions(magnitude):
    X = histograms(50, 8) * magnitude
    K = kernel_matrix(X, X, HistogramIntersection())
    operator = kernel_operator(X, HistogramIntersection())
    V = np.random.default_rng(0).standard_normal((50, 4))
    close(operator.matmat(V) / magnitude, K @ V / magnitude)
    close(operator.matmat(V, "single") / magnitude, K @ V / magnitude, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 16])
def test_single_precision_survives_an_outlier(width):
    """All values tiny but one: the sum over all rows must be taken down to that one's share."""
    X = np.r_[np.full(20_000, 1e-6), 1.0][:, None]
    V = np.random.default_rng(0).random((len(X), width))
    operator = kernel_operator(X, HistogramIntersection())
    close(operator.matmat(V, "single"), operator.matmat(V), rtol=1e-5)


def test_wide_data_cost_only_their_nonzeros(monkeypatch):
    sorts = []
    lexsort = np.lexsort
    monkeypatch.setattr(np, "lexsort", lambda keys: sorts.append(len(keys[0])) or lexsort(keys))
    monkeypatch.delattr(np, "argsort")
    X = sparse.csr_array(([1.0, 2.0, 3.0], ([0, 1, 2], [7, 7, 9])), shape=(3, 100_000))
    operator = kernel_operator(X, HistogramIntersection())
    operator.extend(Rows.from_array(X[:1]))
    assert sorts == [3, 1]
    assert operator.prior_draws(operator.layout(8), np.random.default_rng(0), 2)[0].shape == (3, 2)
    assert operator.remove([]).n_samples == 3


def test_threads_that_share_many_columns_change_rounding_only():
    X = np.random.default_rng(5).random((300, 40))
    V = np.random.default_rng(6).standard_normal((300, 5))
    one, two = (kernel_operator(X, HistogramIntersection(), n) for n in (1, 2))
    close(one.matmat(V), two.matmat(V), rtol=1e-13)
    np.testing.assert_array_equal(two.matmat(V), two.matmat(V))


@pytest.fixture
def merged(monkeypatch):
    """Numbers of rows that were merged into sorted columns, which takes time in proportion to all non-zeros."""
    found, merge = [], SortedColumns.merge

    def counted(self, rows):
        found.append(rows.n_rows)
        return merge(self, rows)

    monkeypatch.setattr(SortedColumns, "merge", counted)
    return found


def test_a_hundred_rows_that_come_one_by_one_are_merged_at_once(merged):
    """Any look at the columns would merge them: what is known of few values is all that products need."""
    X = np.random.default_rng(0).poisson(1.0, (500, 4)).astype(float)
    K = kernel_matrix(X, X, HistogramIntersection())
    operator = kernel_operator(X[:400], HistogramIntersection())
    operator.matmat(np.ones((400, 1)))
    for n in range(400, 500):
        operator = operator.extend(Rows.from_array(X[n : n + 1]))
        assert operator.n_samples == n + 1
    assert operator.cost == np.count_nonzero(X)
    close(operator.matmat(np.eye(500)), K)
    close(operator.table(np.eye(500)).evaluate(Rows.from_array(X)), K)
    assert merged == []
    for _ in range(2):
        close(operator.matrix(), K)
        close(operator.diagonal(), K.diagonal())
    assert merged == [100]


def test_a_hundred_rows_with_values_of_their_own_are_merged_once_each(merged):
    X = np.random.default_rng(0).random((500, 4))
    data = SortedColumns.from_rows(Rows.from_array(X[:400]))
    for n in range(400, 500):
        data = data.extend(Rows.from_array(X[n : n + 1]))
        assert (data.n_rows, data.n_columns, data.n_nonzeros) == (n + 1, 4, 4 * (n + 1))
    assert merged == []
    np.testing.assert_array_equal(data.values, np.sort(X, axis=0).T.ravel())
    np.testing.assert_array_equal(data.row_of, np.argsort(X, axis=0).T.ravel())
    assert merged == [100]
    merged.clear()
    operator = kernel_operator(X[:400], HistogramIntersection())
    for n in range(400, 500):
        operator = operator.extend(Rows.from_array(X[n : n + 1]))
    close(operator.matrix(), kernel_matrix(X, X, HistogramIntersection()))
    # The operator looks at all heights when it is made.
    assert len(merged) <= 100


def test_a_table_is_exact_across_many_blocks():
    X = np.random.default_rng(0).random((1000, 3))
    Y = np.vstack([X[:50], np.random.default_rng(1).random((50, 3)) * 1.5])
    alpha = np.random.default_rng(2).standard_normal((1000, 2))
    expected = kernel_matrix(Y, X, HistogramIntersection()) @ alpha
    operator = kernel_operator(X, HistogramIntersection())
    close(operator.table(alpha).evaluate(Rows.from_array(Y)), expected)


def test_a_transform_that_does_not_preserve_the_order_is_refused():
    class Falling(Transform):
        def value(self, x):
            return np.minimum(x, 3 - x)  # falls from 1.5 on

    with pytest.raises(ValueError, match="must not decrease"):
        kernel_operator(np.array([[1.0], [2.5]]), HistogramIntersection(Falling()))
