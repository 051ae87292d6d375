"""The operator of explicit features with random waves, against dense ones."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import alike, close, histograms
from scipy import sparse
from sklearn.metrics.pairwise import chi2_kernel

from histogp._core.data import Rows
from histogp._core.layouts import Grid
from histogp._core.maps.additive import Direct
from histogp._core.maps.random_waves import RandomWaves
from histogp._core.operators import feature_kernels
from histogp._core.operators.feature_kernels import FeatureKernel, LowRankOperator
from histogp._core.solvers.factors import PrimalFactor
from histogp.kernels import Chi2, ExpChi2, HistogramIntersection

pytestmark = pytest.mark.portable

N, D, T, M, BETA = 40, 6, 3, 14, 2.5
X = histograms(N, D)
X[3] = 0
X[:, 4] = 0
Y = histograms(9, D, seed=2) * 3
RNG = np.random.default_rng(5)
POINTS = RNG.uniform(0.02, 0.5, (T, D))
FREQUENCIES = RNG.standard_normal((T * D, M // 2))
OTHER = RNG.standard_normal((T * D, M // 2))
WEIGHTS = {"no weight": None, "a weight": 2.5, "one": 1.0, "zero": 0.0}
ROWS = Rows.from_array(Y)
U, V = np.random.default_rng(0).standard_normal((2, N, 3))


def features(A, weights=None, frequencies=FREQUENCIES):
    waves = RandomWaves(Direct(POINTS), np.sqrt(BETA) * frequencies, np.empty(0))
    return np.sqrt(1.0 if weights is None else weights) * waves.transform(A)


def kernel(weights=None, frequencies=FREQUENCIES):
    waves = RandomWaves(Direct(POINTS), np.sqrt(BETA) * frequencies, np.empty(0))
    return FeatureKernel(waves, n_features=D, weights=None if weights is None else np.array([weights]))


def make(weights=None, X=X, n_threads=1):
    return LowRankOperator(Rows.from_array(X), kernel(weights), n_threads)


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


@pytest.fixture
def made(monkeypatch):
    """Numbers of rows whose features were made, call by call."""
    calls, transform = [], RandomWaves.transform

    def counted(self, X, n_threads=1):
        calls.append(X.shape[0])
        return transform(self, X, n_threads)

    monkeypatch.setattr(RandomWaves, "transform", counted)
    return calls


def joined(blocks, shape):
    out = np.full(shape, np.nan)
    for some, block in blocks:
        out[some] = block.toarray() if sparse.issparse(block) else block
    return out


@pytest.mark.parametrize("n_threads", [1, 2])
def test_every_product_is_one_of_dense_features(way, weights, n_threads):
    operator = make(weights, n_threads=n_threads)
    Z, Z_new = features(X, weights), features(Y, weights)
    K, K_cross = Z @ Z.T, Z_new @ Z.T
    assert (operator.n_rows, operator.n_columns, operator.rank) == (N, D, M)
    assert operator.product_cost == np.count_nonzero(X)
    for _ in range(2):  # the second time from what is kept
        close(joined(operator.features(ROWS), Z_new.shape), Z_new, rtol=1e-12)
        close(joined(operator.features(operator.training_rows()), Z.shape), Z, rtol=1e-12)
        close(operator.project(V), Z.T @ V)
        close(operator.combine(V[:M]), Z @ V[:M])
        for precision in ("double", "single"):
            close(operator.matmat(V, precision), K @ V)
        close(operator.matrix(), K)
        close(operator.diagonal(), K.diagonal())
        close(operator.row_sums(), K.sum(axis=1), np.abs(K).sum(axis=1).max())
        close(joined(operator.cross(ROWS), K_cross.shape), K_cross)
        close(operator.cross_diagonal(ROWS), (Z_new**2).sum(axis=1))
        close(operator.cross_matrix(ROWS, ROWS.take([0, 2])), Z_new @ Z_new[[0, 2]].T)
        close(operator.traces(), np.array([(Z**2).sum()]))
    table = operator.table(V)
    for threads in (1, 2):
        close(table.evaluate(ROWS, threads), K_cross @ V)


def test_with_many_waves_and_terms_it_is_the_kernel_itself():
    K = kernel_operator(X, ExpChi2(8000, beta=BETA, n_terms=9, weights=2.0)).matrix()
    assert np.abs(K - 2 * chi2_kernel(X, gamma=BETA / 2)).max() < 0.1


def test_blocks_of_features_and_kernel_values_are_small(monkeypatch):
    monkeypatch.setattr(feature_kernels, "BLOCK", 90)
    operator = make()
    for rows in (ROWS, operator.training_rows()):
        assert max(block.size for _, block in operator.features(rows)) <= 90
    assert max(block.size for _, block in operator.cross(ROWS)) <= 90


def test_columns_in_both_precisions(way, weights):
    operator, Z = make(weights), features(X, weights)
    for index in ([3, 1], [-1], [2, 2]):
        K = Z @ Z[index].T
        close(operator.columns(np.array(index)), K)
        single = operator.columns(np.array(index), "single")
        assert single.dtype == np.float32
        close(single.astype(float) * operator.scale, K, (Z**2).sum(axis=1).max(), rtol=1e-6)
    assert operator.columns(np.array([], int)).shape == (N, 0)


@pytest.mark.parametrize("weight", [1e-30, 0.3, 1.0, 1e30])
def test_the_unit_of_single_precision_is_a_power_of_two_that_fits(weight):
    operator = make(weight)
    assert np.log2(operator.scale) == np.rint(np.log2(operator.scale))
    assert 0.5 <= operator.columns(np.arange(N), "single").max() <= 1.0
    assert make(0.0).scale == 1.0
    # The size of the values has no say.
    assert make(X=X * 1e6).scale == 1.0


def test_derivatives_by_the_weight(way, weights):
    operator, plain = make(weights), features(X)
    each = np.einsum("is,ij,js->s", U, plain @ plain.T, V)
    gradient = operator.gradient(U, V)
    assert gradient.keys() == {"weights"}
    close(gradient["weights"], each.sum(keepdims=True), np.abs(each).sum())
    sums = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, -1.0]])
    close(operator.gradient(U, V, sums)["weights"], (each @ sums)[None], np.abs(each).sum())
    close(operator.trace_gradient()["weights"], np.array([(plain**2).sum()]))


def test_derivatives_are_finite_differences():
    def form(weight):
        return np.einsum("is,ij,js->", U, make(weight).matrix(), V)

    expected = (form(1.5 + 1e-6) - form(1.5 - 1e-6)) / 2e-6
    np.testing.assert_allclose(make(1.5).gradient(U, V)["weights"], [expected], rtol=1e-6)


def test_further_rows_and_fewer(way, weights):
    operator = make(weights)
    operator.matrix()
    longer = operator.extend(ROWS)
    Z = features(np.vstack([X, Y]), weights)
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
    operator = make(3.0)
    operator.matrix()
    Z = features(X, weights)
    close(operator.with_kernel(kernel(weights)).matrix(), Z @ Z.T)
    Z = features(X, weights, OTHER)
    close(operator.with_kernel(kernel(weights, OTHER)).matrix(), Z @ Z.T)
    additive = kernel_operator(X, Chi2(T))
    close(operator.with_kernel(additive.kernel).matrix(), additive.matrix())
    with pytest.raises(ValueError, match=r"cannot take one of another kind: fit another\.$"):
        operator.with_kernel(HistogramIntersection()._value(D))


def test_features_of_training_rows_are_made_once(made):
    operator = make(2.0)
    for _ in range(3):
        operator.matmat(V)
        operator.matrix()
    assert made == [N]
    list(operator.features(ROWS))
    list(operator.features(ROWS))
    list(operator.features(operator.training_rows().take(np.arange(N))))
    assert made == [N, 9, 9, N]


def test_nothing_is_made_for_the_diagonal(made, weights):
    operator = make(weights)
    np.testing.assert_array_equal(operator.diagonal(), np.full(N, 1.0 if weights is None else weights))
    np.testing.assert_array_equal(operator.cross_diagonal(ROWS), np.full(9, 1.0 if weights is None else weights))
    assert made == []


def test_after_a_release_features_are_made_again_and_not_kept(made):
    operator = make(2.0)
    before = operator.matmat(V)
    operator.release()
    operator.release()
    alike(operator.matmat(V), before)
    assert made == [N, N, N]
    operator.matmat(V)
    assert made == [N, N, N, N, N]


def test_features_do_not_go_into_a_pickle_or_a_copy(made):
    operator = make(2.0)
    empty = len(pickle.dumps(operator))
    before = operator.matmat(V)
    assert len(pickle.dumps(operator)) == empty
    for twin in (pickle.loads(pickle.dumps(operator)), copy.deepcopy(operator)):
        alike(twin.matmat(V), before)
    made.clear()
    operator.matmat(V)
    assert made == []


def test_other_weights_share_features(made):
    operator = make(2.0)
    before = operator.matmat(V)
    other = operator.with_kernel(replace(operator.kernel, weights=np.array([5.0])))
    close(other.matmat(V), 2.5 * before)
    unweighted = other.unweighted()
    close(unweighted.matmat(V), before / 2)
    unweighted.gradient(U, V)
    operator.gradient(U, V)
    assert made == [N]
    # Also those that one of them has made before the first.
    made.clear()
    operator = make()
    operator.with_kernel(replace(operator.kernel, weights=np.array([5.0]))).matmat(V)
    operator.matmat(V)
    assert made == [N]


def test_who_releases_leaves_the_others_theirs(made):
    operator = make(2.0)
    other = operator.with_kernel(replace(operator.kernel, weights=np.array([5.0])))
    before = operator.matmat(V)
    operator.release()
    close(other.matmat(V), 2.5 * before)
    assert made == [N]
    close(operator.matmat(V), before)
    assert made == [N, N, N]


def test_who_releases_meanwhile_does_not_matter():
    operator = make(2.0)

    class Fleeting(list):
        """Gone as soon as it is filled, as if another thread had released the operator."""

        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            operator.release()

    operator._kept = Fleeting()
    Z = features(X, 2.0)
    close(operator.matmat(V), Z @ (Z.T @ V))


def test_another_map_shares_nothing(made):
    operator = make()
    operator.matmat(V)
    Z = features(X, 2.0, OTHER)
    made.clear()
    other = operator.with_kernel(kernel(2.0, OTHER))
    close(other.matmat(V), Z @ (Z.T @ V))
    assert made == [N]
    Z = features(X)
    close(operator.matmat(V), Z @ (Z.T @ V))


def test_too_many_features_are_not_kept(made, monkeypatch):
    expected = make(2.0).matmat(V)
    monkeypatch.setattr(feature_kernels, "MOST_KEPT", 8 * N * M - 1)
    made.clear()
    operator = make(2.0)
    for _ in range(2):
        close(operator.matmat(V), expected)
    assert made == [N] * 4


@pytest.mark.parametrize("weight", [None, 2.0])
def test_variances_of_training_rows_leave_their_features_alone(weight):
    operator, Z = make(weight), features(X, weight)
    factor = PrimalFactor.of(operator, np.full(N, 0.1))
    expected = np.diag(Z @ np.linalg.solve(np.eye(M) + Z.T @ Z / 0.1, Z.T))
    for _ in range(2):
        close(factor.variances(operator.training_rows()), expected, rtol=1e-9)
    close(operator.matrix(), Z @ Z.T)


@pytest.mark.parametrize("n", [N, 1500])
def test_shares_are_parts_of_the_mean_distance(n):
    A = np.vstack([X, histograms(n - N, D, seed=8)]) if n > N else X
    found = kernel_operator(A, ExpChi2(M, beta=BETA, n_terms=9, weights=3.0)).shares()
    some = A[:1000]
    means = [-np.log(chi2_kernel(some[:, [d]], gamma=1.0)).mean() for d in range(D)]
    np.testing.assert_allclose(found, means / np.sum(means), atol=0.01)
    assert found.sum() == pytest.approx(1)
    assert found[4] == 0 or n > N


def test_shares_where_all_rows_are_alike():
    found = make(X=np.tile(X[:1], (5, 1))).shares()
    np.testing.assert_array_equal(found > 1, np.zeros(D, bool))
    assert np.isfinite(found).all()


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
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_makes_no_sense_is_refused_by_a_sentence(what):
    with pytest.raises(ValueError, match=rf"does not need .*{what}.*\.$") as caught:
        REFUSED[what](make())
    assert "\n" not in str(caught.value)


def test_sparse_rows_and_single_precision_are_the_same_rows():
    expected = make().matrix()
    alike(make(X=sparse.csr_array(X)).matrix(), expected)
    close(make(X=X.astype(np.float32)).matrix(), expected, rtol=1e-5)


def test_few_values_are_expanded_as_sparse_ones():
    few = np.zeros((60, D))
    few[::7, 2] = 0.4
    assert np.count_nonzero(few) < feature_kernels.SPARSE * few.size
    Z = features(few)
    close(make(X=few).matrix(), Z @ Z.T)
    close(make(X=few).cross_matrix(ROWS, ROWS), features(Y) @ features(Y).T)
