"""What a report says about how sure a model is."""

import numpy as np
import pytest
from oracles import histograms
from scipy import sparse
from sklearn.metrics import roc_auc_score

import histogp
from histogp import HistogramGPClassifier, HistogramGPRegressor
from histogp.reports import calibration
from histogp.reports.calibration import coverage, reliability, shuffled, some_samples
from histogp.reports.report import report

X, TEST = histograms(120, 6), histograms(60, 6, seed=5)
Y, Y_TEST = (np.array(["a", "b", "c"])[np.argmax(some[:, 1:4], axis=1)] for some in (X, TEST))


def page(model, y, X=TEST, **options):
    return report(model, X, y, title="t", **options)[0]


def test_the_calibration_error_is_the_mean_gap_over_the_rows():
    rng = np.random.default_rng(0)
    probability = np.append(rng.uniform(size=500), [0, 1])
    right = rng.uniform(size=502) < probability**2
    found = reliability(probability, right)
    expected = 0
    for k in range(15):
        inside = (probability >= k / 15) & ((probability < (k + 1) / 15) | (k == 14))
        expected += abs(probability[inside].sum() - right[inside].sum()) / 502
    assert found.error == pytest.approx(expected)
    assert found.n_samples.sum() == 502


def test_bins_without_rows_are_left_out_and_a_perfect_model_has_no_error():
    found = reliability(np.array([1.0, 1.0, 0.5, 0.5]), np.array([True, True, True, False]))
    np.testing.assert_array_equal(found.n_samples, [2, 2])
    np.testing.assert_allclose([found.low, found.high], [[7 / 15, 14 / 15], [8 / 15, 1]])
    assert found.error == 0


def test_coverage_counts_within_deviations():
    assert coverage(np.array([0.5, 1.5, 2.5, 0]), np.ones(4)) == {1: 0.5, 2: 0.75}
    errors = np.abs(np.random.default_rng(0).normal(size=100_000))
    for k, share in coverage(errors, np.ones(100_000)).items():
        assert share == pytest.approx(calibration.WITHIN[k], abs=0.01)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_shuffled_rows_have_their_values_in_other_bins(make):
    found = shuffled(make(TEST))
    np.testing.assert_array_equal(np.sort(found.toarray()), np.sort(TEST))
    assert (found.toarray() != TEST).any(axis=1).mean() > 0.9
    np.testing.assert_array_equal(found.toarray(), shuffled(make(TEST)).toarray())
    found.check_format()
    # All bins are as likely.
    ones = shuffled(make(np.tile([1.0, 0, 0, 0, 0], (5000, 1)))).toarray()
    np.testing.assert_allclose(ones.mean(axis=0), 0.2, atol=0.03)


def test_rows_for_a_chart_are_spread_over_the_file():
    np.testing.assert_array_equal(some_samples(7), np.arange(7))
    chosen = some_samples(1_000_000)
    assert len(chosen) == calibration.MOST_VARIANCES
    assert (chosen[0], chosen[-1]) == (0, 999_999)


@pytest.mark.slow
@pytest.mark.parametrize("probability", ["temperature", "dirichlet"])
def test_a_classifier_shows_its_calibration_and_its_novelty(probability):
    clf = HistogramGPClassifier(probability=probability).fit(X, Y)
    proba = clf.predict_proba(TEST)
    error = reliability(proba.max(axis=1), clf.classes_[proba.argmax(axis=1)] == Y_TEST).error
    novelty = np.concatenate([clf.novelty(TEST), clf.novelty(shuffled(TEST))])
    found = page(clf, Y_TEST)
    assert f"they are {error:.1%} off" in found
    assert f"more novel in {roc_auc_score(np.arange(120) >= 60, novelty):.0%} of all pairs" in found
    assert "The most novel test samples" not in found


def test_the_most_novel_rows_are_shown_as_images():
    clf = HistogramGPClassifier().fit(X, Y)
    found = page(clf, Y_TEST, image_shape=(2, 3))
    assert found.count("data:image/png") == 2 * 12
    assert f"novelty {clf.novelty(TEST).max():.3f}" in found


def test_rows_that_shuffling_does_not_change_are_not_told_apart():
    one_bin = X[:, :1] + 0.1
    found = page(HistogramGPClassifier().fit(one_bin, Y == "a"), Y_TEST == "a", TEST[:, :1])
    assert "in 50% of all pairs: here novelty does not tell them apart" in found


def test_a_regressor_shows_how_many_targets_are_as_near_as_it_says():
    for y, y_test in ((X[:, 1], TEST[:, 1]), (X[:, 1:3], TEST[:, 1:3])):
        reg = HistogramGPRegressor(noise=1e-4).fit(X, y)
        mean, deviations = reg.predict(TEST, return_std=True)
        share = np.mean(np.abs(mean - y_test) <= deviations)
        assert f'<td class="number">1</td><td class="number">{share:.1%}</td>' in page(reg, y_test)
    assert "Here they are too large" in page(HistogramGPRegressor(noise=10).fit(X, X[:, 1]), TEST[:, 1])
    noisy = TEST[:, 1] + np.random.default_rng(0).normal(size=60)
    assert "Here they are too small" in page(HistogramGPRegressor(noise=1e-4).fit(X, X[:, 1]), noisy)


@pytest.mark.parametrize("method", [None, "sampled"])
def test_a_model_without_training_examples_shows_what_it_still_can(tmp_path, method):
    clf = HistogramGPClassifier("hik", noise=0.1, prediction="quantized").fit(X, Y)
    reg = HistogramGPRegressor("hik", noise=0.1, prediction="quantized").fit(X, X[:, 1])
    for model, name in ((clf, "clf"), (reg, "reg")):
        if method is not None:
            model.predict_variance(X[:1], method)
        model.save(tmp_path / name, include_training=False)
    found = page(histogp.load(tmp_path / "clf"), Y_TEST)
    assert "expected calibration error" in found
    assert ("Novelty of test samples" in found) == (method is not None)
    found = page(histogp.load(tmp_path / "reg"), TEST[:, 1])
    assert ("How sure it is" in found) == (method is not None)


def test_a_single_test_row_is_enough():
    page(HistogramGPClassifier().fit(X, Y), Y_TEST[:1], TEST[:1], image_shape=(2, 3))
    page(HistogramGPRegressor().fit(X, X[:, 1]), TEST[:2, 1], TEST[:2])
