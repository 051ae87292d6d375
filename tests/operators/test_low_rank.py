"""The operator of explicit features against dense ones."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from chi2_features import features, some_points
from kernel_operators import FixedChi2, kernel_operator
from oracles import alike, close, histograms
from scipy import sparse

from histogp._core.data import Rows
from histogp._core.layouts import Grid
from histogp._core.operators import feature_kernels
from histogp.kernels import HistogramIntersection

pytestmark = pytest.mark.portable

N, D, T = 40, 6, 3
X = histograms(N, D)
X[3] = 0
X[:, 4] = 0
Y = histograms(9, D, seed=2) * 3
POINTS = some_points(T, D)
WEIGHTS = {"no weights": None, "weights": np.linspace(0, 2, D), "nothing but zeros": np.zeros(D)}
ROWS = Rows.from_array(Y)
U, V = np.random.default_rng(0).standard_normal((2, N, 3))


@pytest.fixture(params=["dense", "sparse", "in small blocks", "sparse in small blocks"])
def way(request, monkeypatch):
    if "sparse" in request.param:
        monkeypatch.setattr(feature_kernels, "MOST_DENSE", 4)
    if "blocks" in request.param:
        monkeypatch.setattr(feature_kernels, "BLOCK", 50)
    return request.param


@pytest.fixture(params=WEIGHTS)
def weights(request):
    return WEIGHTS[request.param]


def make(weights=None, X=X, n_threads=1, points=POINTS):
    return kernel_operator(X, FixedChi2(points, weights=weights), n_threads)


def joined(blocks, shape):
    out = np.full(shape, np.nan)
    for some, block in blocks:
        out[some] = block.toarray() if sparse.issparse(block) else block
    return out


@pytest.mark.parametrize("n_threads", [1, 2])
def test_every_product_is_one_of_dense_features(way, weights, n_threads):
    operator = make(weights, n_threads=n_threads)
    Z, Z_new = features(X, POINTS, weights), features(Y, POINTS, weights)
    K, K_cross = Z @ Z.T, Z_new @ Z.T
    assert (operator.n_rows, operator.n_columns, operator.rank) == (N, D, T * D)
    assert operator.product_cost == np.count_nonzero(X)
    close(joined(operator.features(ROWS), Z_new.shape), Z_new, rtol=1e-14)
    close(operator.project(V), Z.T @ V)
    close(operator.combine(V[: T * D]), Z @ V[: T * D])
    for precision in ("double", "single"):
        close(operator.matmat(V, precision), K @ V)
    close(operator.matrix(), K)
    close(operator.diagonal(), K.diagonal())
    close(operator.row_sums(), K.sum(axis=1))
    close(joined(operator.cross(ROWS), K_cross.shape), K_cross)
    close(operator.cross_diagonal(ROWS), (Z_new**2).sum(axis=1))
    close(operator.cross_matrix(ROWS, ROWS.take([0, 2])), Z_new @ Z_new[[0, 2]].T)
    table = operator.table(V)
    for threads in (1, 2):
        close(table.evaluate(ROWS, threads), K_cross @ V)
    close(operator.traces(), (Z**2).sum(axis=0).reshape(T, D).sum(axis=0))


def test_features_are_sparse_if_they_are_many(monkeypatch):
    assert not any(sparse.issparse(block) for _, block in make().features(ROWS))
    monkeypatch.setattr(feature_kernels, "MOST_DENSE", T * D - 1)
    assert all(sparse.issparse(block) for _, block in make(WEIGHTS["weights"]).features(ROWS))


def test_blocks_of_features_and_kernel_values_are_small(monkeypatch):
    monkeypatch.setattr(feature_kernels, "BLOCK", 90)
    assert max(block.size for _, block in make().features(ROWS)) <= 90
    assert max(block.size for _, block in make().cross(ROWS)) <= 90


def test_columns_in_both_precisions(way, weights):
    operator, Z = make(weights), features(X, POINTS, weights)
    for index in ([3, 1], [-1], [2, 2]):
        K = Z @ Z[index].T
        close(operator.columns(np.array(index)), K)
        single = operator.columns(np.array(index), "single")
        assert single.dtype == np.float32
        close(single.astype(float) * operator.scale, K, (Z**2).sum(axis=1).max(), rtol=1e-6)
    assert operator.columns(np.array([], int)).shape == (N, 0)


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_the_unit_of_single_precision_is_a_power_of_two_that_fits(unit):
    operator = make(X=X * unit, points=POINTS * unit)
    assert np.log2(operator.scale) == np.rint(np.log2(operator.scale))
    single = operator.columns(np.arange(N), "single")
    assert 0.1 < single.max() < D
    assert make(np.zeros(D)).scale == 1.0


def test_derivatives_by_weights(way, weights):
    operator, plain = make(weights), features(X, POINTS).reshape(N, T, D)
    each = np.einsum("is,itd,jtd,js->ds", U, plain, plain, V)
    gradient = operator.gradient(U, V)
    assert gradient.keys() == {"weights"}
    close(gradient["weights"], each.sum(axis=1))
    sums = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, -1.0]])
    close(operator.gradient(U, V, sums)["weights"], each @ sums)
    close(operator.trace_gradient()["weights"], (plain**2).sum(axis=(0, 1)))


def test_derivatives_are_finite_differences():
    weights = np.linspace(0.5, 2, D)

    def form(weights):
        return np.einsum("is,ij,js->", U, make(weights).matrix(), V)

    expected = [(form(weights + step) - form(weights - step)) / 2e-6 for step in 1e-6 * np.eye(D)]
    np.testing.assert_allclose(make(weights).gradient(U, V)["weights"], expected, rtol=1e-6, atol=1e-7)


def test_further_rows_and_fewer(way, weights):
    longer = make(weights).extend(ROWS)
    Z = features(np.vstack([X, Y]), POINTS, weights)
    close(longer.matrix(), Z @ Z.T)
    for gone in ([0, 45], [], np.array([7])):
        left = np.delete(Z, np.array(gone, int), axis=0)
        shorter = longer.remove(gone)
        close(shorter.matrix(), left @ left.T)
        assert shorter.n_rows == len(left)
    assert make().remove([0, 1]).training_rows().n_rows == N - 2


def test_rows_come_back_also_sorted(weights):
    operator = make(weights)
    np.testing.assert_array_equal(operator.training_rows().to_dense(), X)
    data = operator.sorted_columns()
    np.testing.assert_array_equal(data.to_rows(data.values).to_dense(), X)


def test_another_kernel_on_the_same_rows(weights):
    operator = make(np.ones(D))
    operator = operator.with_kernel(replace(operator.kernel, weights=weights))
    Z = features(X, POINTS, weights)
    close(operator.matrix(), Z @ Z.T)
    other = some_points(2, D, seed=8)
    Z = features(X, other, weights)
    close(operator.with_kernel(FixedChi2(other, weights=weights)._adapt(X).value).matrix(), Z @ Z.T)
    with pytest.raises(ValueError, match=r"cannot take one of another kind: fit another\.$"):
        operator.with_kernel(HistogramIntersection()._value(D))


def test_threads_may_change():
    operator = make()
    assert operator.using(1) is operator
    assert operator.using(2).n_threads == 2
    close(operator.using(2).matrix(), operator.matrix(), rtol=1e-14)


REFUSED = {
    "splitting": lambda operator: operator.split(2),
    "quantized": lambda operator: operator.grid_table(V, Grid(5)),
    '"coarse"': lambda operator: operator.norm_table(),
    '"coarse-quantized"': lambda operator: operator.lower_table(5, 1.0),
    '"sampled"': lambda operator: operator.layout(64),
    "tables on a grid": lambda operator: operator.tabulate(None, V),
    "on a grid": lambda operator: operator.tabulate_smoothed(None, np.ones(N)),
    "a grid": lambda operator: operator.prior_draws(None, None, 3),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_by_a_sentence(what):
    with pytest.raises(ValueError, match=rf"does not need .*{what}.*\.$") as caught:
        REFUSED[what](make())
    assert "\n" not in str(caught.value)


def test_copies_multiply_alike(weights):
    operator = make(weights, n_threads=2)
    for twin in (pickle.loads(pickle.dumps(operator)), copy.deepcopy(operator)):
        alike(twin.matmat(V), operator.matmat(V))


def test_sparse_rows_and_single_precision_are_the_same_rows():
    expected = make().matrix()
    alike(make(X=sparse.csr_array(X)).matrix(), expected)
    close(make(X=X.astype(np.float32)).matrix(), expected, rtol=1e-6)
