"""Random features of the exponential chi-squared kernel against the kernel itself."""

import numpy as np
import pytest
from oracles import alike, histograms
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import histogp
from histogp._core.maps.pair_distances import BETA_FACTORS, NOISE_SHARES
from histogp._core.maps.random_waves import normal_frequencies
from histogp.feature_maps import AdditiveChi2Map, ExpChi2Sampler
from histogp.streaming import StreamingRidgeClassifier

X = histograms(40, 6)
SAMPLINGS = ["orthogonal", "plain", "quasi"]


@pytest.mark.slow
@parametrize_with_checks([ExpChi2Sampler(20), ExpChi2Sampler(7, sampling="plain", additive=AdditiveChi2Map("vz"))])
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("n_components", [20_000, 20_001])
def test_products_approach_the_kernel(sampling, n_components):
    additive = AdditiveChi2Map(n_terms=9)
    sampler = ExpChi2Sampler(n_components, beta=3.0, additive=additive, sampling=sampling, random_state=0)
    Z = sampler.fit_transform(X)
    assert Z.shape == (40, n_components)
    assert np.abs(Z @ Z.T - chi2_kernel(X, gamma=1.5)).max() < 0.04
    if n_components % 2 == 0:
        np.testing.assert_allclose((Z**2).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_orthogonal_frequencies_and_those_of_a_sequence_are_better_than_plain_ones():
    exact = chi2_kernel(X, gamma=1.0)
    errors = {}
    for sampling in SAMPLINGS:
        squares = []
        for seed in range(30):
            Z = ExpChi2Sampler(60, beta=2.0, sampling=sampling, random_state=seed).fit_transform(X)
            squares.append(np.mean((Z @ Z.T - exact) ** 2))
        errors[sampling] = np.mean(squares)
    assert errors["orthogonal"] < 0.8 * errors["plain"]
    assert errors["quasi"] < errors["plain"]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_frequencies_are_standard_normal(sampling):
    drawn = normal_frequencies(sampling, 7, 40_000, np.random.default_rng(0))
    assert drawn.shape == (7, 40_000)
    np.testing.assert_allclose(drawn.mean(axis=1), 0, atol=0.02)
    np.testing.assert_allclose(np.cov(drawn), np.eye(7), atol=0.03)
    np.testing.assert_allclose((drawn**4).mean(axis=1), 3, atol=0.15)


def test_orthogonal_frequencies_are_orthogonal():
    drawn = normal_frequencies("orthogonal", 7, 7, np.random.default_rng(0))
    gram = drawn.T @ drawn
    np.testing.assert_allclose(gram, np.diag(gram.diagonal()), atol=1e-12)


def test_the_median():
    kernel = -np.log(chi2_kernel(X, gamma=1.0)) / 2
    median = np.median(kernel[np.triu_indices(40, 1)])
    np.testing.assert_allclose(ExpChi2Sampler(2).fit(X).beta_, 1 / median)
    assert ExpChi2Sampler(2).fit(X[:1]).beta_ == 1
    assert ExpChi2Sampler(2).fit(np.zeros((5, 3))).beta_ == 1


def likely_widths(targets):
    """Every candidate, and the density of centered targets with the best noise and scale for it."""
    distances = -np.log(chi2_kernel(X, gamma=1.0)) / 2
    targets = targets - targets.mean(axis=0)
    found = {}
    for beta in BETA_FACTORS / np.median(distances[np.triu_indices(40, 1)]):
        densities = []
        for noise in NOISE_SHARES:
            C = np.exp(-beta * distances) + noise * np.eye(40)
            scale = np.sum(targets * np.linalg.solve(C, targets)) / targets.size
            densities.append(multivariate_normal(np.zeros(40), scale * C).logpdf(targets.T).sum())
        found[beta] = max(densities)
    return found


CODES = X[:, 1:4].argmax(axis=1)
ONE_HOT = 2.0 * (CODES[:, None] == np.arange(3)) - 1
LIKELY = {
    "numbers": (CODES, ONE_HOT),
    "texts": (np.array(["ash", "birch", "elm"])[CODES].tolist(), ONE_HOT),
    "two classes": (CODES == 1, ONE_HOT[:, [1]]),
    "a target": (np.sin(9 * X[:, 1]) + 7.3, np.sin(9 * X[:, [1]])),
    "several targets": (np.sin(9 * X[:, 1:3]) + 7.3, np.sin(9 * X[:, 1:3])),
    "a column": (np.sin(9 * X[:, [1]]), np.sin(9 * X[:, [1]])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIKELY)
def test_the_most_likely_width(name):
    y, targets = LIKELY[name]
    found = likely_widths(targets)
    for data in (X, sparse.csr_array(X)):
        beta = ExpChi2Sampler(4, beta="evidence", random_state=0).fit(data, y).beta_
        nearest = min(found, key=lambda candidate: abs(np.log(candidate / beta)))
        assert beta == pytest.approx(nearest, rel=1e-9)
        assert found[nearest] == pytest.approx(max(found.values()), abs=1e-6)


def test_targets_have_a_say_in_the_width_alone():
    likely = ExpChi2Sampler(8, beta="evidence", random_state=0).fit(X, CODES)
    given = ExpChi2Sampler(8, beta=likely.beta_, random_state=0).fit(X)
    np.testing.assert_array_equal(likely.transform(X), given.transform(X))
    for beta in ("median", 2.0):
        with_labels, without = (ExpChi2Sampler(8, beta=beta, random_state=0).fit(X, y) for y in (CODES, None))
        np.testing.assert_array_equal(with_labels.transform(X), without.transform(X))


def test_the_most_likely_width_needs_targets():
    sampler = ExpChi2Sampler(4, beta="evidence")
    for work in (sampler.fit, sampler.fit_transform):
        with pytest.raises(ValueError, match=r'^beta="evidence" needs the labels or targets y\.$'):
            work(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        sampler.fit(X, CODES[:-1])
    assert not hasattr(clone(sampler), "beta_")


@pytest.mark.portable
def test_the_most_likely_width_in_pipelines_streams_and_files(tmp_path):
    sampler = ExpChi2Sampler(8, beta="evidence", random_state=0)
    expected = clone(sampler).fit(X, CODES).beta_
    found = make_pipeline(clone(sampler), LogisticRegression()).fit(X, CODES)[0].beta_
    assert found == pytest.approx(expected, rel=1e-9)
    model = StreamingRidgeClassifier(clone(sampler), alpha=0.1).partial_fit(X, CODES)
    found = model._learned.feature_map.beta_
    assert found == pytest.approx(expected, rel=1e-9)
    model.save(tmp_path / "m")
    loaded = histogp.load(tmp_path / "m")
    assert loaded._learned.feature_map.beta_ == found
    alike(loaded.decision_function(X), model.decision_function(X))


def test_sparse_rows_and_types():
    sampler = ExpChi2Sampler(30, random_state=0).fit(X)
    Z = sampler.transform(X)
    assert Z.dtype == np.float64
    np.testing.assert_allclose(sampler.transform(sparse.csr_array(X)), Z, atol=1e-5)
    single = sampler.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Z, atol=1e-5)


@pytest.mark.portable
def test_blocks_do_not_matter(monkeypatch):
    sampler = ExpChi2Sampler(30, random_state=0).fit(X)
    Z = sampler.transform(X)
    monkeypatch.setattr("histogp._core.maps.random_waves.BLOCK_ANGLES", 100)
    np.testing.assert_allclose(sampler.transform(X), Z, atol=1e-6)


@pytest.mark.portable
def test_it_learns_what_an_additive_kernel_cannot(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.random((600, 2))
    labels = (rows[:, 0] > 0.5) ^ (rows[:, 1] > 0.5)
    pipeline = make_pipeline(ExpChi2Sampler(200, beta=20.0, random_state=0), LogisticRegression(C=100))
    assert pipeline.fit(rows[:400], labels[:400]).score(rows[400:], labels[400:]) > 0.9
    model = StreamingRidgeClassifier(ExpChi2Sampler(201, beta=20.0, random_state=0), alpha=1e-3)
    assert model.fit(rows[:400], labels[:400]).score(rows[400:], labels[400:]) > 0.9
    model.save(tmp_path / "m")
    loaded = histogp.load(tmp_path / "m")
    alike(loaded.decision_function(rows), model.decision_function(rows))
    more = [one.partial_fit(rows[400:], labels[400:]).decision_function(rows) for one in (loaded, model)]
    alike(*more, rtol=1e-4)  # sums of random features are in single precision within a block


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (ExpChi2Sampler(beta=0), "beta"),
        (ExpChi2Sampler(beta="mean"), "beta"),
        (ExpChi2Sampler(0), "n_components"),
        (ExpChi2Sampler(additive="vz"), "additive"),
        (ExpChi2Sampler(sampling="random"), "sampling"),
    ],
)
def test_wrong_parameters_are_named(sampler, message):
    with pytest.raises(ValueError, match=message):
        sampler.fit(X)
    with pytest.raises(ValueError, match="Negative values"):
        ExpChi2Sampler(4).fit(-X)


def test_a_refused_fit_changes_nothing():
    sampler = ExpChi2Sampler(10).fit(histograms(30, 4))
    expected = sampler.transform(histograms(5, 4))
    with pytest.raises(ValueError, match="needs the labels"):
        sampler.set_params(beta="evidence").fit(histograms(30, 7))
    assert sampler.n_features_in_ == 4
    np.testing.assert_array_equal(sampler.transform(histograms(5, 4)), expected)
