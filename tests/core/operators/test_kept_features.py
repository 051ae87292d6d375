"""Features that take long to make are kept by their operator, shared with its kin, and dropped."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from kernel_operators import FixedExpChi2, kernel_operator, waves_operator
from oracles import alike, close

from core.operators.suite import TYPICAL_DATA, D, N, U, V
from histogp._core.data import Rows
from histogp._core.maps.additive import Direct
from histogp._core.maps.random_waves import RandomWaves
from histogp._core.operators import feature_kernels
from histogp._core.solvers.factors import FeatureFactor

pytestmark = pytest.mark.portable

T, M, BETA = 3, 14, 2.5
X, Y = TYPICAL_DATA["histograms"]
RNG = np.random.default_rng(5)
POINTS = RNG.uniform(0.02, 0.5, (T, D))
FREQUENCIES = RNG.standard_normal((T * D, M // 2))
OTHER = RNG.standard_normal((T * D, M // 2))
ROWS = Rows.from_array(Y)
WAVES = RandomWaves(Direct(POINTS), np.sqrt(BETA) * FREQUENCIES, np.empty(0))


def features(A, weights=None, frequencies=FREQUENCIES):
    waves = RandomWaves(Direct(POINTS), np.sqrt(BETA) * frequencies, np.empty(0))
    return np.sqrt(1.0 if weights is None else weights) * waves.transform(A)


def make(weights=None):
    return waves_operator(X, WAVES, weights)


@pytest.fixture
def made(monkeypatch):
    """Numbers of rows whose features were made, call by call."""
    calls, transform = [], RandomWaves.transform

    def counted(self, X, n_threads=1):
        calls.append(X.shape[0])
        return transform(self, X, n_threads)

    monkeypatch.setattr(RandomWaves, "transform", counted)
    return calls


def test_features_of_training_rows_are_made_once(made):
    operator = make(2.0)
    for _ in range(3):
        operator.matmat(V)
        operator.matrix()
    assert made == [N]
    list(operator.blocks(ROWS))
    list(operator.blocks(ROWS))
    list(operator.blocks(operator.training_rows().take(np.arange(N))))
    assert made == [N, 9, 9, N]


@pytest.mark.parametrize("weights", [None, 2.5, 1.0, 0.0])
def test_nothing_is_made_for_the_diagonal(made, weights):
    operator = make(weights)
    np.testing.assert_array_equal(operator.diagonal(), np.full(N, 1.0 if weights is None else weights))
    np.testing.assert_array_equal(operator.diagonal(ROWS), np.full(9, 1.0 if weights is None else weights))
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
    waves = RandomWaves(Direct(POINTS), np.sqrt(BETA) * OTHER, np.empty(0))
    other = operator.with_kernel(replace(operator.kernel, map=waves, weights=np.array([2.0])))
    close(other.matmat(V), Z @ (Z.T @ V))
    assert made == [N]
    Z = features(X)
    close(operator.matmat(V), Z @ (Z.T @ V))


def test_too_many_features_are_not_kept(made, monkeypatch):
    expected = make(2.0).matmat(V)
    monkeypatch.setattr(feature_kernels, "MOST_KEPT_BYTES", 8 * N * M - 1)
    made.clear()
    operator = make(2.0)
    for _ in range(2):
        close(operator.matmat(V), expected)
    assert made == [N] * 4


def test_an_approximate_kernel_keeps_its_features_too(made):
    operator = kernel_operator(X, FixedExpChi2(WAVES, beta=BETA, scale=2.0))
    Z = features(X, 2.0)
    made.clear()
    for _ in range(3):
        close(operator.matmat(V), Z @ (Z.T @ V))
        close(operator.matrix(), Z @ Z.T)
    assert made == [N]
    np.testing.assert_array_equal(operator.diagonal(ROWS), np.full(9, 2.0))
    assert made == [N]
    operator.release()
    close(operator.matmat(V), Z @ (Z.T @ V))
    assert made == [N, N, N]


@pytest.mark.parametrize("weight", [None, 2.0])
def test_variances_of_training_rows_leave_their_features_alone(weight):
    operator, Z = make(weight), features(X, weight)
    factor = FeatureFactor.of(operator, np.full(N, 0.1))
    expected = np.diag(Z @ np.linalg.solve(np.eye(M) + Z.T @ Z / 0.1, Z.T))
    for _ in range(2):
        close(factor.variance(operator.training_rows()), expected, rtol=1e-9)
    close(operator.matrix(), Z @ Z.T)
