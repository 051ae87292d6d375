"""The displays, without a screen."""

import sys

import numpy as np
import pandas as pd
import pytest
from oracles import histograms

from histogp import HistogramGPClassifier, HistogramGPRegressor
from histogp.kernels import HistogramIntersection
from histogp.plotting import LikelihoodDisplay, RelevanceDisplay

X = histograms(80, 6)
CODES = np.argmax(X[:, 1:4], axis=1)
NAMES = [f"word {k}" for k in range(6)]


@pytest.mark.slow
def test_relevance_shows_the_most_relevant_features_with_their_names():
    kernel = HistogramIntersection(weights=[1, 5, 0, 2, 0.1, 3])
    clf = HistogramGPClassifier(kernel).fit(pd.DataFrame(X, columns=NAMES), CODES)
    expected = X.sum(axis=0) * kernel.weights
    np.testing.assert_allclose(clf.feature_relevance_, expected / expected.sum())
    display = RelevanceDisplay.from_estimator(clf, top=3, color="red")
    order = np.argsort(-expected)[:3]
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], clf.feature_relevance_[order])
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == [NAMES[k] for k in order]
    assert display.figure_ is display.ax_.figure
    assert len(RelevanceDisplay.from_estimator(clf, top=None).bars_) == 6
    assert len(RelevanceDisplay(np.ones(100)).plot(top=None, ax=display.ax_).bars_) == 100


def test_likelihood_has_a_curve_for_each_method_and_the_scores():
    clf = HistogramGPClassifier("hik-poly", noise=0.1, class_weight="balanced").fit(X, CODES)
    etas = [0.25, 0.5, 1.0]
    display = LikelihoodDisplay.from_estimator(clf, "transform__eta", etas, X=X, y=CODES)
    assert set(display.lines_) == {"exact", "fischer", "papers"}
    for eta, exact, fischer, papers, score in zip(
        etas, *(display.lines_[name].get_ydata() for name in display.lines_), display.scores, strict=True
    ):
        other = HistogramGPClassifier("hik-poly", noise=0.1, class_weight="balanced")
        other.set_params(kernel__transform__eta=eta).fit(X, CODES)
        assert exact == pytest.approx(-other.log_marginal_likelihood(method="exact"))
        assert exact <= fischer + 1e-6
        assert exact <= papers + 1e-6
        assert score == other.score(X, CODES)
    assert display.score_ax_.get_ylabel() == "test accuracy"


def test_likelihood_against_the_noise_of_a_regressor():
    reg = HistogramGPRegressor(noise=0.02, random_state=0).fit(X, X[:, 1])
    display = LikelihoodDisplay.from_estimator(reg, methods=["quadrature"])
    np.testing.assert_allclose(display.values[[0, 7, -1]], [0.002, 0.02, 0.2])
    assert display.score_ax_ is None
    with pytest.raises(ValueError, match="Unknown method 'best'"):
        LikelihoodDisplay.from_estimator(reg, methods=["best"])
    with pytest.raises(ValueError, match="positive numbers"):
        LikelihoodDisplay.from_estimator(reg, values=[-1])
    with pytest.raises(ValueError, match="give the values to try"):
        LikelihoodDisplay.from_estimator(reg, "weights")


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'RelevanceDisplay needs Matplotlib: pip install "histogp\[plot\]"'):
        RelevanceDisplay([1.0]).plot()


def test_a_parameter_goes_by_its_short_and_its_long_name():
    clf = HistogramGPClassifier("hik-poly").fit(histograms(30, 4), np.arange(30) % 2)
    for name in ("eta", "transform__eta", "kernel__transform__eta"):
        display = LikelihoodDisplay.from_estimator(clf, name, [0.5, 1.0], methods=["exact"])
        assert display.parameter == "transform__eta"
    with pytest.raises(ValueError, match="'beta' is no parameter of this kernel; there are 'noise', "):
        LikelihoodDisplay.from_estimator(clf, "beta")
    with pytest.raises(ValueError, match="top must be a number of features above 0"):
        RelevanceDisplay.from_estimator(clf, top=0)
