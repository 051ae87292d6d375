"""Landmarks, how they are chosen, and the error of an approximation, against dense formulas."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from chi2_features import some_points
from oracles import close, histograms
from scipy import sparse

from histogp._core.data import Rows
from histogp._core.maps import landmarks
from histogp._core.maps.additive import Direct
from histogp._core.maps.landmarks import Landmarks, approximation_error, choose_landmarks
from histogp._core.maps.random_waves import RandomWaves
from histogp._core.operators.feature_kernels import FeatureKernel, FeatureOperator
from histogp._core.operators.pair_kernels import Approximation
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

N, D = 120, 6
X = histograms(N, D, density=0.9)
ROWS = Rows.from_array(X)
OTHERS = histograms(30, D, seed=3)


@dataclass
class OfDistance:
    """``scale exp(-(|x - y|_p / width)^p)``: Laplacian for p = 1, Gaussian for p = 2."""

    p: int
    width: float = 1.0
    scale: float = 1.0
    approximation: Approximation = field(default_factory=Approximation)
    takes_any_sign: bool = True

    def dense(self, A, B):
        distances = (np.abs(A[:, None] - B[None]) ** self.p).sum(axis=2)
        return self.scale * np.exp(-distances / self.width**self.p)

    def points(self, rows, dtype=float, n_threads=1):
        return rows.to_dense(n_threads)

    def add_cross(self, left, right, out, n_threads=1):
        out += self.dense(left, right)

    def cross(self, left, right, n_threads=1):
        return self.dense(left.to_dense(), right.to_dense())

    def matrix(self, rows, n_threads=1):
        return self.cross(rows, rows)

    def own(self, rows):
        return np.full(rows.n_rows, float(self.scale))

    def relevance(self, rows):
        return np.arange(rows.n_columns) / 15


class Minima(OfDistance):
    """The intersection kernel, whose diagonal is that of no distance."""

    def __init__(self):
        super().__init__(1)

    def dense(self, A, B):
        return np.minimum(A[:, None], B[None]).sum(axis=2)

    def own(self, rows):
        return rows.row_sums(rows.values)


LAPLACIAN, GAUSSIAN = OfDistance(1), OfDistance(2, 0.5, 3.0)
KERNELS = {"laplacian": LAPLACIAN, "gaussian": GAUSSIAN, "minima": Minima()}
by_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def rng(seed=0):
    return np.random.default_rng(seed)


def nystroem(kernel, A, Z, B):
    """``K_AZ K_ZZ^-1 K_ZB``."""
    return kernel.dense(A, Z) @ np.linalg.solve(kernel.dense(Z, Z), kernel.dense(Z, B))


def trace_left(kernel, A, chosen):
    """The trace of the kernel matrix of A minus its approximation by rows of A as landmarks."""
    return np.trace(kernel.dense(A, A)) - np.trace(nystroem(kernel, A, A[chosen], A))


def clusters():
    """A cluster with nearly all rows, and 30 others with three each, all far from each other; and whose each row is."""
    draw = rng()
    members = np.repeat(np.arange(31), [500, *[3] * 30])
    centers = 10 * draw.random((31, 8))
    return np.abs(centers[members] + 0.05 * draw.standard_normal((len(members), 8))), members


@by_kernel
def test_products_of_features_are_the_nystroem_approximation(kernel):
    made = Landmarks.at(kernel, ROWS.block(0, 10))
    left, right = made.transform(X), made.transform(OTHERS)
    assert left.shape == (N, made.n_components) == (N, 10)
    close(left @ right.T, nystroem(kernel, X, X[:10], OTHERS), rtol=1e-9)
    close(left[:10] @ right.T, kernel.dense(X[:10], OTHERS), rtol=1e-9)


@pytest.mark.parametrize("kernel", [LAPLACIAN, OfDistance(2, 0.2)], ids=["laplacian", "gaussian"])
def test_all_samples_as_landmarks_give_the_kernel(kernel):
    made = Landmarks.choose(kernel, ROWS, N, rng())
    assert made.n_components == N
    features = made.transform(X)
    close(features @ features.T, kernel.dense(X, X), rtol=1e-9)
    assert approximation_error(made, ROWS, rng()) < 1e-9


@by_kernel
def test_the_more_landmarks_the_less_is_left_and_not_much_more_than_must_be(kernel):
    """No k landmarks leave less than all eigenvalues but the k largest; at most twice that of k / 2 is left on average.

    The theorem has it for k = 2 r plus a logarithm.
    """
    eigenvalues = np.linalg.eigvalsh(kernel.dense(X, X))[::-1]
    before = np.inf
    for k in (6, 12, 24, 48):
        left = np.mean([trace_left(kernel, X, choose_landmarks(kernel, ROWS, k, rng(seed))) for seed in range(5)])
        assert eigenvalues[k:].sum() < left < 2 * eigenvalues[k // 2 :].sum()
        assert left < before
        before = left


def test_all_clusters_are_found_where_uniform_landmarks_miss_most(monkeypatch):
    monkeypatch.setattr(landmarks, "CANDIDATES_PER_LANDMARK", 1000)
    A, members = clusters()
    kernel = OfDistance(2, 2.0)
    chosen = choose_landmarks(kernel, Rows.from_array(A), 40, rng())
    uniform = rng().choice(len(A), 40, replace=False)
    assert len(set(members[chosen])) == 31
    assert len(set(members[uniform])) < 15
    assert trace_left(kernel, A, uniform) > 10 * trace_left(kernel, A, chosen)


@pytest.mark.parametrize("n_proposals", [1, 7, 256])
def test_proposals_at_once_do_not_change_the_distribution(monkeypatch, n_proposals):
    """Three rows: the second landmark is one of the two others, in proportion to what is left of each."""
    monkeypatch.setattr(landmarks, "PROPOSALS", n_proposals)
    A = np.array([[1.0], [1.05], [3.0]])
    K = LAPLACIAN.dense(A, A)
    counts = np.zeros((3, 3))
    draw = rng(3)
    for _ in range(300):
        counts[tuple(choose_landmarks(LAPLACIAN, Rows.from_array(A), 2, draw))] += 1
    left = 1 - K**2
    expected = left / left.sum(axis=1, keepdims=True) / 3
    assert np.all(np.abs(counts / 300 - expected) <= 4 * np.sqrt(expected * (1 - expected) / 300))


def test_candidates_are_a_sample_of_the_rows(monkeypatch):
    monkeypatch.setattr(landmarks, "CANDIDATES_PER_LANDMARK", 2)
    asked = []

    class Watched(OfDistance):
        def own(self, rows):
            asked.append(rows)
            return super().own(rows)

    chosen = choose_landmarks(Watched(1), ROWS, 20, rng())
    assert [rows.n_rows for rows in asked] == [40]
    assert len(set(chosen)) == 20
    among = {row.tobytes() for row in asked[0].to_dense()}
    assert all(X[number].tobytes() in among for number in chosen)


@by_kernel
@pytest.mark.parametrize("n_proposals", [3, 256])
def test_equal_rows_are_chosen_once(monkeypatch, kernel, n_proposals):
    monkeypatch.setattr(landmarks, "PROPOSALS", n_proposals)
    A = np.tile(X[:4], (30, 1))
    rows = Rows.from_array(A)
    chosen = choose_landmarks(kernel, rows, 50, rng())
    assert len(chosen) == 4
    assert set(chosen % 4) == {0, 1, 2, 3}
    made = Landmarks.choose(kernel, rows, 50, rng())
    close(made.transform(A) @ made.transform(A).T, kernel.dense(A, A), rtol=1e-9)


def test_there_are_no_more_landmarks_when_nothing_but_rounding_is_left():
    """A wide Gaussian has few eigenvalues above rounding."""
    kernel = OfDistance(2, 20.0)
    chosen = choose_landmarks(kernel, ROWS, N, rng())
    assert 5 < len(chosen) < 80
    assert trace_left(kernel, X, chosen) < 1e-7
    made = Landmarks.at(kernel, ROWS.take(chosen))
    close(made.factor @ made.factor.T, kernel.dense(X[chosen], X[chosen]), rtol=1e-14)
    features = made.transform(X)
    close(features @ features.T, kernel.dense(X, X), rtol=1e-8)


def test_a_diagonal_that_does_not_fit_the_pairs_comes_to_an_end(monkeypatch):
    """Something seems to be left of rows that equal a landmark, but not when they are looked at."""

    class Rough(OfDistance):
        def own(self, rows):
            return super().own(rows) * (1 + 1e-7)

    accept, counts = landmarks._accept, []

    def counted(*arguments):
        taken, factor = accept(*arguments)
        counts.append(len(taken))
        return taken, factor

    monkeypatch.setattr(landmarks, "_accept", counted)
    assert len(choose_landmarks(Rough(1), Rows.from_array(np.tile(X[:4], (30, 1))), 100, rng())) == 4
    assert 0 in counts


def test_nothing_is_chosen_where_there_is_nothing():
    empty = Rows.from_array(np.zeros((5, D)))
    assert len(choose_landmarks(Minima(), empty, 3, rng())) == 0
    assert len(choose_landmarks(LAPLACIAN, empty, 3, rng())) == 1
    assert len(choose_landmarks(LAPLACIAN, empty.block(0, 0), 3, rng())) == 0
    with pytest.raises(ValueError, match="The kernel is zero on all samples"):
        Landmarks.choose(Minima(), empty, 3, rng())


@by_kernel
def test_the_same_numbers_by_chance_give_the_same_landmarks(kernel):
    chosen = choose_landmarks(kernel, ROWS, 15, rng(4))
    np.testing.assert_array_equal(choose_landmarks(kernel, ROWS, 15, rng(4)), chosen)
    np.testing.assert_array_equal(choose_landmarks(kernel, ROWS, 15, rng(4), 2), chosen)
    assert list(choose_landmarks(kernel, ROWS, 15, rng(5))) != list(chosen)


def test_landmarks_that_are_given_twice_need_a_jitter_that_does_not_matter():
    twice = Landmarks.at(GAUSSIAN, Rows.from_array(np.vstack([X[:10], X[:10]])))
    once = Landmarks.at(GAUSSIAN, ROWS.block(0, 10))
    assert twice.n_components == 20
    expected = once.transform(OTHERS) @ once.transform(X).T
    close(twice.transform(OTHERS) @ twice.transform(X).T, expected, rtol=1e-6)


def test_landmarks_without_a_factor_are_refused():
    kernel = OfDistance(1)
    kernel.dense = lambda A, B: np.full((len(A), len(B)), -1.0)
    with pytest.raises(ValueError, match=r"too much alike .*: choose fewer of them\.$"):
        Landmarks.at(kernel, ROWS)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_blocks_threads_and_sparse_rows_do_not_matter(monkeypatch, dtype, n_threads):
    made = Landmarks.choose(LAPLACIAN, ROWS, 20, rng())
    expected = made.transform(X)
    rtol, transform = (1e-12, made.transform) if dtype == np.float64 else (1e-5, made.rounded)
    for block in (landmarks.BLOCK_NUMBERS, 100):
        monkeypatch.setattr(landmarks, "BLOCK_NUMBERS", block)
        for rows in (X, np.asfortranarray(X), sparse.csr_array(X)):
            features = transform(rows, n_threads)
            assert features.dtype == dtype
            close(features.astype(float), expected, rtol=rtol)
    assert transform(X[:0]).shape == (0, made.n_components)


def test_blocks_of_kernel_values_are_bounded(monkeypatch):
    made = Landmarks.at(LAPLACIAN, ROWS.block(0, 20))
    sizes, add_cross = [], OfDistance.add_cross

    def counted(self, left, right, out, n_threads=1):
        add_cross(self, left, right, out)
        sizes.append(out.size)

    monkeypatch.setattr(landmarks, "BLOCK_NUMBERS", 100)
    monkeypatch.setattr(OfDistance, "add_cross", counted)
    made.transform(X)
    assert max(sizes) == 100
    assert sum(sizes) == N * 20


def test_a_factor_with_small_pivots_is_solved_with_in_double_precision():
    """In single precision features of a wide kernel would be wrong in the second digit."""
    kernel = OfDistance(2, 4.0)
    made = Landmarks.choose(kernel, ROWS, 40, rng())
    diagonal = made.factor.diagonal()
    assert diagonal.min() < landmarks.LEAST_SINGLE_PIVOT * diagonal.max()
    single = X.astype(np.float32)
    # Rows that are rounded to single precision are other rows, hence those in double precision of the same values.
    close(made.transform(single).astype(float), made.transform(single.astype(float)), rtol=1e-6)


def test_it_is_a_map_for_the_operator_of_features(two_blas_threads):
    made = Landmarks.choose(LAPLACIAN, ROWS, 20, rng())
    operator = FeatureOperator(ROWS, FeatureKernel(n_features=D, weights=np.array([2.0]), map=made), 2)
    chosen = made.rows.to_dense()
    close(operator.matrix(), 2 * nystroem(LAPLACIAN, X, chosen, X), rtol=1e-9)
    close(operator.diagonal(), 2 * np.diag(nystroem(LAPLACIAN, X, chosen, X)), rtol=1e-9)
    np.testing.assert_array_equal(operator.relevance(), np.arange(D) / 15)
    assert (made.width, made.is_additive, made.is_costly, made.is_normalized) == (20, False, True, False)
    assert Landmarks.at(LAPLACIAN, ROWS.block(0, 2)).width == D


def state(made):
    writer = Writer()
    made.to_state(writer)
    return writer


def restored(writer, **changed):
    """The map of a state in which some arrays are others."""
    reader = Reader(writer.document(), {**writer.arrays, **changed})
    made = Landmarks.from_state(reader, LAPLACIAN, D)
    reader.finish()
    return made


def test_it_comes_back_from_a_state():
    made = Landmarks.choose(LAPLACIAN, ROWS, 20, rng())
    back = restored(state(made))
    np.testing.assert_array_equal(back.factor, made.factor)
    np.testing.assert_array_equal(back.rows.to_dense(), made.rows.to_dense())
    np.testing.assert_array_equal(back.transform(OTHERS), made.transform(OTHERS))
    assert state(made).arrays["triangle"].shape == (210,)


def with_entry(array, entry, value):
    array = array.copy()
    array[entry] = value
    return array


DAMAGES = {
    "not a number": ("triangle", lambda a: with_entry(a, 3, np.nan), "not finite"),
    "infinite": ("triangle", lambda a: with_entry(a, 4, np.inf), "not finite"),
    "a pivot of zero": ("triangle", lambda a: with_entry(a, 2, 0.0), "factor of its landmarks is damaged"),
    "a negative pivot": ("triangle", lambda a: with_entry(a, -1, -1.0), "factor of its landmarks is damaged"),
    "no triangle": ("triangle", lambda a: a[:-1], "no triangle"),
    "nothing": ("triangle", lambda a: a[:0], "no triangle"),
    "a smaller triangle": ("triangle", lambda a: a[:190], "unexpected shape"),
    "a matrix": ("triangle", lambda a: a[:, None], "unexpected shape"),
    "single precision": ("triangle", lambda a: a.astype(np.float32), "unexpected shape or type"),
    "a row too few": ("landmarks.indptr", lambda a: a[:-1], "unexpected shape"),
    "descending rows": ("landmarks.indptr", lambda a: with_entry(a, 1, 10**6), "samples do not fit together"),
    "a column that is none": ("landmarks.column_of", lambda a: with_entry(a, 0, D), "samples are damaged"),
    "a value too few": ("landmarks.values", lambda a: a[:-1], "unexpected shape"),
    "a value that is none": ("landmarks.values", lambda a: with_entry(a, 0, np.nan), "not finite"),
}


@pytest.mark.parametrize(("name", "damage", "reason"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_refused(name, damage, reason):
    writer = state(Landmarks.at(LAPLACIAN, ROWS.block(0, 20)))
    with pytest.raises(ModelFileError, match=reason):
        restored(writer, **{name: damage(writer.arrays[name])})


def relative_error(K, approximate):
    """Over pairs of different rows."""
    above = np.triu_indices(len(K), 1)
    return np.sqrt(np.sum((K - approximate)[above] ** 2) / np.sum(K[above] ** 2))


def test_the_error_is_that_of_rows_that_are_no_landmarks():
    made = Landmarks.at(LAPLACIAN, ROWS.block(0, 20))
    rest = X[20:]
    expected = relative_error(LAPLACIAN.dense(rest, rest), nystroem(LAPLACIAN, rest, X[:20], rest))
    assert expected > 0.01
    assert approximation_error(made, ROWS, rng()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_error_of_a_map_without_landmarks_is_that_of_all_rows(make):
    waves = RandomWaves.draw(Direct(some_points(3, D)), D, 30, 2.0, "orthogonal", rng())
    made = SimpleNamespace(kernel=LAPLACIAN, rows=None, transform=lambda A: make(waves.transform(A)))
    features = waves.transform(X)
    expected = relative_error(LAPLACIAN.dense(X, X), features @ features.T)
    assert approximation_error(made, ROWS, rng()) == pytest.approx(expected, rel=1e-9)


def test_the_error_of_many_rows_is_that_of_some():
    A = histograms(1200, D, density=0.9)
    rows = Rows.from_array(A)
    made = Landmarks.choose(LAPLACIAN, rows, 30, rng())
    found = approximation_error(made, rows, rng())
    expected = relative_error(LAPLACIAN.dense(A, A), nystroem(LAPLACIAN, A, made.rows.to_dense(), A))
    assert found == pytest.approx(expected, rel=0.1)
    assert found == approximation_error(made, rows, rng())


def test_the_error_falls_with_the_number_of_landmarks():
    made = [Landmarks.choose(LAPLACIAN, ROWS, k, rng()) for k in (5, 20, 60)]
    errors = [approximation_error(one, ROWS, rng()) for one in made]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_the_error_of_landmarks_and_of_a_single_row(n_rows):
    few = ROWS.block(0, n_rows)
    assert approximation_error(Landmarks.at(LAPLACIAN, few), few, rng()) < 1e-15
