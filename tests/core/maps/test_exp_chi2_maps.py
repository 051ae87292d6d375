"""Random waves, distances and the choice of their width, against dense formulas."""

import numpy as np
import pytest
from oracles import close, histograms
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.metrics.pairwise import additive_chi2_kernel

from histogp._core.data import Rows
from histogp._core.maps import pair_distances, random_waves
from histogp._core.maps.additive import Direct, Root, sampled
from histogp._core.maps.pair_distances import (
    BETA_FACTORS,
    NOISE_SHARES,
    chi2_distances,
    exp_chi2_matrix,
    inverse_median,
    most_likely,
)
from histogp._core.maps.points import direct_map
from histogp._core.maps.random_waves import RandomWaves, waves

D = 5
X = np.vstack([histograms(40, D), np.zeros((1, D))])
Y = histograms(9, D, seed=2) * 3
POINTS = np.random.default_rng(1).uniform(0.02, 0.5, (3, D))
CONTAINERS = {"an array": np.asarray, "CSR": sparse.csr_array, "rows": Rows.from_array}
by_container = pytest.mark.parametrize("made", CONTAINERS.values(), ids=CONTAINERS)


def distances(A, B):
    return -additive_chi2_kernel(A, B) / 2


def draw(n_outputs, additive=None, beta=2.0, sampling="orthogonal", seed=0):
    additive = Direct(POINTS) if additive is None else additive
    return RandomWaves.draw(additive, D, n_outputs, beta, sampling, np.random.default_rng(seed))


def dense_waves(drawn, A):
    """Cosines, sines, and a cosine with a phase where there is one more."""
    angles = drawn.additive.transform(A) @ np.asarray(drawn.frequencies, float)
    n_pairs = drawn.n_components // 2
    paired, last = angles[:, :n_pairs], angles[:, n_pairs:]
    parts = [np.cos(paired), np.sin(paired), np.cos(last + drawn.phases)]
    return np.sqrt(2 / drawn.n_components) * np.hstack(parts)


def test_distances_are_those_of_scikit_learn():
    close(chi2_distances(X, Y), distances(X, Y), rtol=1e-14)
    close(exp_chi2_matrix(X, Y, 3.0), np.exp(-3 * distances(X, Y)), rtol=1e-13)
    for n_threads in (1, 2, 5):
        close(chi2_distances(X, X, n_threads), distances(X, X), rtol=1e-14)
    assert np.all(chi2_distances(X, X) >= 0)
    assert np.all(chi2_distances(X, X).diagonal() < 1e-15)


def test_distances_of_nothing():
    assert chi2_distances(X[:0], Y).shape == (0, 9)
    assert chi2_distances(np.zeros((2, 3)), np.zeros((2, 3))).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("n_outputs", [1, 2, 7, 8, 60, 61])
def test_waves_are_the_dense_formula(n_outputs):
    drawn = draw(n_outputs)
    assert drawn.n_components == n_outputs
    assert drawn.frequencies.dtype == np.float32
    assert drawn.frequencies.shape == (3 * D, (n_outputs + 1) // 2)
    assert len(drawn.phases) == n_outputs % 2
    found = drawn.transform(X)
    assert found.dtype == np.float64
    close(found, dense_waves(drawn, X), rtol=1e-13)
    if n_outputs % 2 == 0:
        close((found**2).sum(axis=1), np.ones(len(X)), rtol=1e-13)


@pytest.mark.parametrize(
    "additive", [Direct(POINTS), sampled("chi2", 3, 0.5), Root()], ids=["direct", "sampled", "root"]
)
def test_any_additive_map_does(additive):
    drawn = draw(9, additive)
    close(drawn.transform(X), dense_waves(drawn, X), rtol=1e-13)


@pytest.mark.parametrize("n_outputs", [12, 13])
@pytest.mark.parametrize("made", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_and_types(n_outputs, made):
    drawn = draw(n_outputs)
    expected = dense_waves(drawn, X)
    found = drawn.transform(made(X))
    assert isinstance(found, np.ndarray)
    close(found, expected, rtol=1e-13)
    single = drawn.transform(made(X.astype(np.float32)))
    assert single.dtype == np.float32
    close(single, expected, rtol=1e-5)


@pytest.mark.parametrize("n_outputs", [12, 13])
@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array])
def test_blocks_and_threads_do_not_matter(n_outputs, made, monkeypatch):
    drawn = draw(n_outputs)
    expected = drawn.transform(X)
    for block in (1, 100, 3 * D * 7):
        monkeypatch.setattr(random_waves, "BLOCK_ANGLES", block)
        for n_threads in (1, 2, 5):
            close(drawn.transform(made(X), n_threads), expected, rtol=1e-13)
    assert drawn.transform(made(X[:0])).shape == (0, n_outputs)


def test_a_row_without_anything_has_angles_of_zero():
    np.testing.assert_allclose(draw(6).transform(np.zeros((1, D)))[0], np.sqrt(1 / 3) * np.array([1, 1, 1, 0, 0, 0]))


def test_waves_fill_what_they_are_given():
    angles = np.random.default_rng(0).standard_normal((4, 3))
    out = np.empty((4, 5))
    assert waves(angles, np.array([0.3]), out) is out
    np.testing.assert_array_equal(out, waves(angles, np.array([0.3])))


@pytest.mark.parametrize("n_outputs", [20_000, 20_001])
def test_products_approach_the_kernel(n_outputs):
    drawn = draw(n_outputs, direct_map(Rows.from_array(X), 9, 0.0), beta=3.0)
    Z = drawn.transform(X)
    assert np.abs(Z @ Z.T - np.exp(-3 * distances(X, X))).max() < 0.04


def test_the_width_is_the_root_of_a_factor_on_frequencies():
    one, other = draw(9, beta=1.0), draw(9, beta=9.0)
    np.testing.assert_allclose(other.frequencies, 3 * one.frequencies, rtol=1e-6)
    np.testing.assert_array_equal(other.phases, one.phases)


@by_container
def test_one_over_the_median(made):
    pairs = np.triu_indices(len(X), 1)
    assert inverse_median(made(X)) == pytest.approx(1 / np.median(distances(X, X)[pairs]), rel=1e-12)
    assert inverse_median(made(X * 1e3)) == pytest.approx(1e-3 * inverse_median(X), rel=1e-9)


@by_container
def test_the_median_of_rows_that_are_many(made, monkeypatch):
    monkeypatch.setattr(pair_distances, "BETA_SAMPLES", 10)
    some = X[np.sort(np.random.default_rng(0).choice(len(X), 10, replace=False))]
    expected = 1 / np.median(distances(some, some)[np.triu_indices(len(some), 1)])
    assert inverse_median(made(X)) == pytest.approx(expected, rel=1e-12)


@by_container
@pytest.mark.parametrize(
    "A", [X[:1], np.zeros((4, D)), np.tile([[0.1, 0.2, 0.3]], (6, 1))], ids=["one", "zeros", "equal"]
)
def test_without_distances_the_width_is_one(A, made):
    assert inverse_median(made(A)) == 1
    assert np.isfinite(most_likely(made(A), np.ones((len(A), 1))))


def best_by_trying(A, targets):
    """The candidate under which the density of all targets is largest, with the best noise and scale for each."""
    K = distances(A, A)
    center = 1 / np.median(K[np.triu_indices(len(A), 1)])
    found = {}
    for width in BETA_FACTORS:
        densities = []
        for noise in NOISE_SHARES:
            C = np.exp(-center * width * K) + noise * np.eye(len(A))
            scale = np.sum(targets * np.linalg.solve(C, targets)) / targets.size
            densities.append(multivariate_normal(np.zeros(len(A)), scale * C).logpdf(targets.T).sum())
        found[center * width] = max(densities)
    return found


@pytest.mark.slow
@by_container
@pytest.mark.parametrize("factor", [0.1, 0.7, 5.0])
def test_the_most_likely_width_is_that_of_all_that_were_tried(factor, made):
    A = histograms(40, D, seed=3)
    K = np.exp(-factor * inverse_median(A) * distances(A, A))
    targets = np.random.default_rng(4).multivariate_normal(np.zeros(40), 3 * K + 0.02 * np.eye(40), size=2).T
    tried = best_by_trying(A, targets)
    found = most_likely(made(A), targets)
    assert found == pytest.approx(max(tried, key=tried.get), rel=1e-9)
    # The unit of the targets has no say.
    assert most_likely(made(A), 1e3 * targets) == found


def test_the_most_likely_width_of_labels():
    codes = np.random.default_rng(0).integers(3, size=len(X))
    targets = 2.0 * (codes[:, None] == np.arange(3)) - 1
    tried = best_by_trying(X, targets)
    best = min(tried, key=lambda beta: abs(np.log(beta / most_likely(X, targets))))
    assert tried[best] == pytest.approx(max(tried.values()), abs=1e-6)


@by_container
def test_the_most_likely_width_of_rows_that_are_many(made, monkeypatch):
    targets = np.sin(9 * X[:, :1])
    some = np.sort(np.random.default_rng(0).choice(len(X), 14, replace=False))
    expected = most_likely(X[some], targets[some])
    monkeypatch.setattr(pair_distances, "BETA_SAMPLES", 14)
    assert most_likely(made(X), targets) == expected


@pytest.mark.slow
def test_labels_that_alternate_have_the_width_of_labels_in_any_order():
    rng = np.random.default_rng(0)
    rows = np.abs(rng.standard_normal((1200, 3))) + 2 * np.tile([[0.0], [1.0]], (600, 1))
    targets = np.tile([[-1.0], [1.0]], (600, 1))
    order = rng.permutation(1200)
    ratio = most_likely(rows, targets) / most_likely(rows[order], targets[order])
    assert 1 / 3 < ratio < 3


def test_most_rows_empty_leave_the_median_to_the_others():
    rows = np.vstack([np.zeros((80, 4)), 1e4 * np.random.default_rng(0).random((20, 4))])
    apart = distances(rows, rows)[np.triu_indices(100, 1)]
    assert inverse_median(rows) == pytest.approx(1 / np.median(apart[apart > 0]), rel=1e-12)


def test_targets_of_zero_have_some_width():
    assert most_likely(X, np.zeros((len(X), 1))) in inverse_median(X) * BETA_FACTORS
