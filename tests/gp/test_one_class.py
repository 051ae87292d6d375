"""Detection of rows unlike the training samples."""

import numpy as np
import pytest
from oracles import alike, kernel_matrix
from scipy import sparse
from sklearn.metrics import roc_auc_score

import histogp
from histogp import HistogramGPOneClass
from histogp.gp import VARIANCE_METHODS, VARIANCE_TABLES
from histogp.kernels import HistogramIntersection, Power

pytestmark = pytest.mark.portable

SHAPE = np.array([6.0, 6.0, 3.0, 1.0, 0.3, 0.3])
X, NEW, MANY = (np.random.default_rng(seed).dirichlet(SHAPE, size) for seed, size in ((0, 120), (1, 400), (2, 2100)))
STRANGE = NEW[:, ::-1]
KERNEL = HistogramIntersection(Power(0.7))


def dense(rows, noise=0.1, weights=1.0):
    """Mean and latent variance by the dense formula."""
    K = kernel_matrix(X, X, KERNEL) + np.diag(noise / (weights * np.ones(len(X))))
    k = kernel_matrix(X, rows, KERNEL)
    solved = np.linalg.solve(K, k)
    prior = kernel_matrix(rows, rows, KERNEL).diagonal()
    return solved.T @ np.ones(len(X)), prior - (k * solved).sum(axis=0)


@pytest.mark.parametrize("criterion", ["variance", "mean", "ratio"])
def test_scores_are_those_of_the_formula(criterion):
    weights = np.linspace(0.5, 2, len(X))
    model = HistogramGPOneClass(KERNEL, noise=0.1, contamination=0.1, criterion=criterion).fit(X, sample_weight=weights)
    mean, variance = dense(NEW[:30], weights=weights)
    expected = {"variance": -variance, "mean": mean, "ratio": mean / np.sqrt(variance + 0.1)}[criterion]
    for rows in (NEW[:30], sparse.csr_array(NEW[:30])):
        np.testing.assert_allclose(model.score_samples(rows), expected, rtol=1e-7)
    np.testing.assert_allclose(model.decision_function(NEW[:30]), expected - model.offset_, atol=1e-9)
    np.testing.assert_array_equal(model.predict(NEW[:30]), np.where(expected < model.offset_, -1, 1))
    both = np.vstack([NEW, STRANGE])
    assert roc_auc_score(np.repeat([1, 0], 400), model.score_samples(both)) > 0.8


@pytest.mark.parametrize("criterion", ["variance", "mean", "ratio"])
def test_automatic_contamination_keeps_nineteen_of_twenty_new_rows(criterion):
    model = HistogramGPOneClass(KERNEL, noise=0.1, criterion=criterion, contamination="auto").fit(X)
    assert 0.01 < np.mean(model.predict(NEW) == -1) < 0.15
    assert np.mean(model.predict(STRANGE) == -1) > 0.5


def test_a_number_is_the_part_of_outliers_among_the_training_rows():
    for part in (0.05, 0.25):
        assert np.sum(HistogramGPOneClass("hik", noise=0.1, contamination=part).fit_predict(X) == -1) == part * len(X)


@pytest.mark.parametrize("method", VARIANCE_METHODS)
def test_every_variance_serves(method):
    model = HistogramGPOneClass("hik", noise=0.1, contamination=0.1, method=method, random_state=0).fit(X)
    np.testing.assert_allclose(model.score_samples(NEW), -model.predict_variance(NEW, method, include_noise=False))
    assert roc_auc_score(np.repeat([1, 0], 400), model.score_samples(np.vstack([NEW, STRANGE]))) > 0.6


def test_many_examples_take_the_calibrated_variance():
    model = HistogramGPOneClass("hik", noise=0.1, contamination="auto", random_state=0).fit(MANY)
    np.testing.assert_array_equal(
        model.score_samples(NEW), -model.predict_variance(NEW, "calibrated", include_noise=False)
    )
    assert 0.01 < np.mean(model.predict(NEW) == -1) < 0.12


@pytest.mark.parametrize("criterion", ["variance", "mean", "ratio"])
def test_files_keep_scores_and_offset(criterion, tmp_path):
    model = HistogramGPOneClass(KERNEL, noise=0.1, contamination=0.1, criterion=criterion, random_state=0).fit(X)
    model.save(tmp_path / "model")
    loaded = histogp.load(tmp_path / "model")
    alike(loaded.decision_function(NEW), model.decision_function(NEW))
    assert loaded.offset_ == model.offset_
    model.set_params(prediction="quantized")
    if criterion != "mean":
        with pytest.raises(ValueError, match="variance 'precise' need the training samples"):
            model.save(tmp_path / "small", include_training=False)
        model.set_params(method="sampled")
    model.save(tmp_path / "small", include_training=False)
    loaded = histogp.load(tmp_path / "small")
    alike(loaded.score_samples(NEW), model.score_samples(NEW))


def test_bad_parameters_get_a_sentence():
    bound = {"method": "coarse", "contamination": "auto"}
    for options in ({"criterion": "distance"}, {"contamination": 0.7}, {"method": "good"}, bound):
        with pytest.raises(ValueError, match=next(iter(options))):
            HistogramGPOneClass(**options).fit(X)


@pytest.mark.parametrize("method", [name for name in VARIANCE_TABLES if name != "coarse-quantized"])
def test_a_model_without_its_samples_can_be_saved_again(method, tmp_path):
    model = HistogramGPOneClass(
        "hik", noise=0.1, contamination=0.1, method=method, prediction="quantized", random_state=0
    ).fit(NEW)
    model.save(tmp_path / "first", include_training=False)
    histogp.load(tmp_path / "first").save(tmp_path / "second", include_training=False)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
