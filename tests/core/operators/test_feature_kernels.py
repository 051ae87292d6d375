"""The operator of explicit features keeps the contract, with additive ones and with random waves."""

import numpy as np
import pytest
from chi2_features import features, some_points
from hypothesis import given
from hypothesis import strategies as st
from kernel_operators import FixedChi2, FixedExpChi2, kernel_operator
from oracles import close, dense, histograms
from scipy import sparse
from sklearn.metrics.pairwise import chi2_kernel

from core.operators.suite import (
    TYPICAL_DATA,
    CoreSuite,
    D,
    FeaturesSuite,
    N,
    UpdatesSuite,
    UpdatesTuningSuite,
    V,
    WithoutTablesSuite,
    with_kernel,
    with_threads,
)
from histogp._core.data import Rows
from histogp._core.maps.additive import Direct
from histogp._core.maps.random_waves import RandomWaves
from histogp._core.operators import contract, feature_kernels
from histogp._core.operators.pair_operators import ApproximateOperator, DenseOperator
from histogp.kernels import Chi2, ExpChi2, HistogramIntersection

pytestmark = pytest.mark.portable

T, M, BETA = 3, 14, 2.5
X, Y = TYPICAL_DATA["histograms"]
ROWS = Rows.from_array(Y)
USUAL = {name: getattr(feature_kernels, name) for name in ("MOST_DENSE_FEATURES", "BLOCK_NUMBERS")}
FEW, SMALL = {"MOST_DENSE_FEATURES": 4}, {"BLOCK_NUMBERS": 50}


@pytest.fixture(scope="module", autouse=True)
def _leave_limits_as_they_were():
    """Hypothesis takes no patch for a single test; `choose` sets both limits each time."""
    yield
    for name, value in USUAL.items():
        setattr(feature_kernels, name, value)


class LowRankSuite(CoreSuite, FeaturesSuite, WithoutTablesSuite):
    """What holds for features of any map."""

    ways = ("dense", "sparse", "in small blocks", "sparse in small blocks")
    single_rtol = 1e-11  # products are in double precision anyway

    def choose(self, way):
        chosen = USUAL | (FEW if "sparse" in way else {}) | (SMALL if "blocks" in way else {})
        for name, value in chosen.items():
            setattr(feature_kernels, name, value)

    def make(self, X, kernel, n_threads=1):
        return kernel_operator(X, kernel, n_threads)

    def test_threads_that_are_there_already_need_no_other_operator(self, kernel):
        operator = self.make(X, kernel)
        assert with_threads(operator, 1) is operator

    def test_blocks_of_features_and_kernel_values_are_small(self, kernel, monkeypatch):
        self.choose("dense")
        monkeypatch.setattr(feature_kernels, "BLOCK_NUMBERS", 90)
        operator = self.make(X, kernel)
        for rows in (ROWS, None):
            assert max(block.size for _, block in operator.blocks(rows)) <= 90
        monkeypatch.setattr(contract, "CROSS_NUMBERS", 90)
        monkeypatch.setattr(contract, "FEWEST_CROSS_ROWS", 1)
        assert max(block.size for _, block in contract.cross_blocks(operator, ROWS)) <= 90

    def test_a_kernel_of_another_kind_is_refused(self, kernel):
        operator = self.make(X, kernel)
        for other in self.others:
            with pytest.raises(ValueError, match=r"of another kind on the same data: fit another model\.$"):
                with_kernel(operator, other)

    def test_few_values_are_expanded_as_sparse_ones(self, kernel):
        self.choose("dense")
        few = np.zeros((60, D))
        few[::7, 2] = 0.4
        assert np.count_nonzero(few) < feature_kernels.SPARSE_SHARE * few.size
        operator = self.make(few, kernel)
        close(operator.matrix(), self.evaluate(few, few, kernel))
        close(operator.cross(ROWS, ROWS), self.evaluate(Y, Y, kernel))


def chi2(weights=None, n_features=D, seed=5, n_terms=T):
    return FixedChi2(some_points(n_terms, n_features, seed), weights=weights)


class TestAdditiveFeatures(UpdatesTuningSuite, LowRankSuite):
    typical = {  # noqa: RUF012
        "no weights": chi2(),
        "weights": chi2(np.linspace(0, 2, D)),
        "nothing but zeros": chi2(np.zeros(D)),
    }
    smooth = {"weights": chi2(np.linspace(0.5, 2, D))}  # noqa: RUF012
    others = (HistogramIntersection(),)

    def features(self, A, kernel):
        return features(A, kernel.points, kernel.weights)

    def kernels(self, X):
        weights = st.sampled_from([None, np.linspace(0, 2, X.shape[1]), np.full(X.shape[1], 3.0)])
        return weights.map(lambda weights: chi2(weights, X.shape[1]))

    def derivatives(self, A, B, kernel):
        left, right = (features(rows, kernel.points).reshape(len(rows), T, D) for rows in (A, B))
        return {"weights": np.einsum("itd,jtd->dij", left, right)}

    def test_features_are_sparse_if_they_are_many(self, kernel):
        self.choose("dense")
        assert not any(sparse.issparse(block) for _, block in self.make(X, kernel).blocks(ROWS))
        self.choose("sparse")
        assert all(sparse.issparse(block) for _, block in self.make(X, kernel).blocks(ROWS))

    def test_the_matrix_of_sparse_features_is_made_in_pieces(self, kernel, monkeypatch):
        self.choose("sparse")
        operator, expected = self.make(X, kernel), self.evaluate(X, X, kernel)
        for n_rows in (1, 7, N, N + 1):
            monkeypatch.setattr(feature_kernels, "MATRIX_ROWS", n_rows)
            found = operator.matrix()
            close(found, expected)
            np.testing.assert_array_equal(found, found.T)

    @pytest.mark.parametrize("most", [T * D - 1, T * D])
    def test_the_limit_of_dense_features_is_their_number(self, monkeypatch, most):
        monkeypatch.setattr(feature_kernels, "MOST_DENSE_FEATURES", most)
        found = [sparse.issparse(block) for _, block in self.make(X, chi2()).blocks(ROWS)]
        assert set(found) == {most < T * D}

    @pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
    def test_the_unit_of_single_precision_is_a_power_of_two_that_fits(self, unit):
        operator = self.make(X * unit, FixedChi2(some_points(T, D) * unit))
        assert np.log2(operator.scale) == np.rint(np.log2(operator.scale))
        single = operator.columns(np.arange(N), "single")
        assert 0.1 < single.max() < D
        assert self.make(X, chi2(np.zeros(D))).scale == 1.0

    def test_another_kernel_on_the_same_rows(self, kernel):
        operator = with_kernel(self.make(X, chi2(np.ones(D))), kernel)
        close(operator.matrix(), self.evaluate(X, X, kernel))
        other = chi2(kernel.weights, seed=8, n_terms=2)
        close(with_kernel(operator, other).matrix(), self.evaluate(X, X, other))


def exp_chi2(scale=1.0, n_features=D, seed=5):
    """With points and frequencies of its own."""
    rng = np.random.default_rng(seed)
    points, frequencies = rng.uniform(0.02, 0.5, (T, n_features)), rng.standard_normal((T * n_features, M // 2))
    waves = RandomWaves(Direct(points), np.sqrt(BETA) * frequencies, np.empty(0))
    return FixedExpChi2(waves, beta=BETA, scale=scale)


def fourier(n_components=M, **parameters):
    """With waves for the training rows."""
    return ExpChi2(n_components, beta=BETA, approximation="fourier", **parameters)


def wave_features(A, waves, scale):
    """Cosines and sines of random projections of the additive features, whose squares sum up to the scale."""
    angles = features(A, waves.additive.points) @ waves.frequencies
    return np.sqrt(2 * scale / waves.n_components) * np.hstack([np.cos(angles), np.sin(angles)])


class TestRandomWaves(UpdatesSuite, LowRankSuite):
    """The exponential chi-squared kernel, approximated by waves."""

    typical = {  # noqa: RUF012
        "one": exp_chi2(),
        "a scale": exp_chi2(2.5),
        "a small scale": exp_chi2(1e-9),
    }
    others = (HistogramIntersection(), Chi2())
    feature_rtol = 1e-12

    def features(self, A, kernel):
        return wave_features(A, kernel.waves, kernel.scale)

    def kernels(self, X):
        return st.sampled_from([1.0, 2.5, 1e-9]).map(lambda scale: exp_chi2(scale, X.shape[1]))

    def check_fewer(self, shorter, kernel, kept):
        """An operator from which rows were removed has waves of its own for those that are left."""
        assert isinstance(shorter, ApproximateOperator)
        Z = wave_features(kept, shorter.kernel.map.waves, kernel.scale)
        close(shorter.matrix(), Z @ Z.T, np.abs(Z) @ np.abs(Z).T)
        close(shorter.matmat(np.ones((len(kept), 1)))[:, 0], (Z @ Z.T).sum(axis=1), (np.abs(Z) @ np.abs(Z).T).sum())
        fresh = self.make(kept, fourier(scale=kernel.scale)).kernel.map.waves
        np.testing.assert_array_equal(shorter.kernel.map.waves.frequencies, fresh.frequencies)
        np.testing.assert_array_equal(shorter.kernel.map.waves.additive.points, fresh.additive.points)
        np.testing.assert_array_equal(shorter.training_rows().to_dense(), kept)

    def test_typical_rows_come_and_go(self, kernel, way, on):
        self.choose(way)
        X, Y = TYPICAL_DATA[on]
        operator = self.make(X, kernel, 2)
        operator.matrix()
        longer, both = operator.extend(Rows.from_array(Y)), np.vstack([X, Y])
        close(longer.matrix(), self.evaluate(both, both, kernel))
        assert longer.kernel is operator.kernel
        for gone in ([0, 45], [], np.array([7])):
            self.check_fewer(longer.remove(gone), kernel, np.delete(both, np.array(gone, int), axis=0))

    @given(st.data())
    def test_extend_and_remove_equal_an_operator_made_afresh(self, data):
        X, kernel, operator = self.case(data)
        both = np.vstack([dense(X), dense(self.draw_rows(data, X, kernel))])
        longer = operator.extend(Rows.from_array(both[X.shape[0] :]))
        close(longer.matrix(), self.evaluate(both, both, kernel), self.size(both, both, kernel))
        gone = sorted(data.draw(st.sets(st.integers(0, len(both) - 1), max_size=len(both) - 1)))
        self.check_fewer(longer.remove(gone), kernel, np.delete(both, gone, axis=0))

    @given(st.data())
    def test_with_kernel_equals_a_fresh_operator(self, data):
        X, _, operator = self.case(data)
        other = data.draw(self.kernels(X))
        close(with_kernel(operator, other).matrix(), self.evaluate(X, X, other), self.size(X, X, other))

    def test_with_many_waves_and_terms_it_is_the_kernel_itself(self):
        K = self.make(X, fourier(8000, n_terms=9, scale=2.0)).matrix()
        assert np.abs(K - 2 * chi2_kernel(X, gamma=BETA / 2)).max() < 0.1

    def test_nothing_is_left_of_the_prior(self, kernel):
        """The squares of waves add up to the scale, and products of different rows are as often too large."""
        operator = self.make(X, kernel)
        np.testing.assert_array_equal(operator.diagonal(ROWS), np.full(len(Y), kernel.scale))
        assert operator.remainder(ROWS) == operator.remainder(ROWS, ROWS) == 0
        close(contract.prior_covariance(operator, ROWS, ROWS), self.evaluate(Y, Y, kernel))

    def test_derivatives_are_those_of_the_kernel_itself(self, kernel):
        operator = self.make(X, kernel)
        with pytest.raises(
            ValueError, match=r"^Derivatives of an approximate kernel are those of the kernel itself.*\.$"
        ):
            operator.gradient(V, V)
        exact = operator.exactly()
        assert isinstance(exact, DenseOperator)
        K = kernel.scale * chi2_kernel(X, gamma=BETA / 2)
        close(exact.matrix(), K)
        found = exact.gradient(V, V)
        close(found["scale"], np.sum((V @ V.T) * K) / kernel.scale)
        close(found["beta"], np.sum((V @ V.T) * K * np.log(K / kernel.scale)) / BETA)
        assert operator.trace_gradient()["scale"] == pytest.approx(N)
        assert operator.trace_gradient()["beta"] == 0

    @pytest.mark.parametrize("scale", [1e-30, 0.3, 1.0, 1e30])
    def test_the_unit_of_single_precision_is_a_power_of_two_that_fits(self, scale):
        operator = self.make(X, exp_chi2(scale))
        assert np.log2(operator.scale) == np.rint(np.log2(operator.scale))
        assert 0.5 <= operator.columns(np.arange(N), "single").max() <= 1.0
        # The size of the values has no say.
        assert self.make(X * 1e6, exp_chi2()).scale == 1.0

    def test_another_kernel_on_the_same_rows(self, kernel):
        operator = self.make(X, exp_chi2(3.0))
        operator.matrix()
        close(with_kernel(operator, kernel).matrix(), self.evaluate(X, X, kernel))
        other = exp_chi2(kernel.scale, seed=8)
        close(with_kernel(operator, other).matrix(), self.evaluate(X, X, other))
        drawn = with_kernel(operator, fourier(20, scale=2.0))
        Z = wave_features(X, drawn.kernel.map.waves, 2.0)
        close(drawn.matrix(), Z @ Z.T)

    @pytest.mark.parametrize("n", [N, 1500])
    def test_shares_are_parts_of_the_mean_distance(self, n):
        A = np.vstack([X, histograms(n - N, D, seed=8)]) if n > N else X
        found = self.make(A, fourier(scale=3.0)).relevance()
        means = [-np.log(chi2_kernel(A[:1000, [d]], gamma=1.0)).mean() for d in range(D)]
        np.testing.assert_allclose(found, means / np.sum(means), atol=0.01)
        assert found.sum() == pytest.approx(1)
        assert found[4] == 0 or n > N

    def test_shares_where_all_rows_are_alike(self):
        found = self.make(np.tile(X[:1], (5, 1)), exp_chi2()).relevance()
        np.testing.assert_array_equal(found > 1, np.zeros(D, bool))
        assert np.isfinite(found).all()
