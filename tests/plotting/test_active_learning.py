"""The comparison of strategies."""

import numpy as np
import pytest
from matplotlib import pyplot
from scipy import stats

from histogp.plotting import ActiveLearningDisplay

RNG = np.random.default_rng(0)
CURVES = {
    name: [{"n_labels": np.arange(5), "score": RNG.uniform(size=5), "auc": RNG.uniform(size=5)} for _ in range(n_runs)]
    for name, n_runs in (("random", 6), ("mean", 4), ("once", 1))
}


def test_lines_are_means_and_bands_are_confidence_intervals():
    display = ActiveLearningDisplay.from_curves(CURVES, score="auc", confidence=0.9)
    values = np.array([run["auc"] for run in CURVES["random"]])
    np.testing.assert_allclose(display.lines_["random"].get_ydata(), values.mean(axis=0))
    interval = stats.t.interval(0.9, 5, values.mean(axis=0), stats.sem(values))
    vertices = display.bands_["random"].get_paths()[0].vertices
    for k in range(5):
        heights = vertices[vertices[:, 0] == k, 1]
        np.testing.assert_allclose([heights.min(), heights.max()], [interval[0][k], interval[1][k]])
    assert set(display.lines_) == set(CURVES)
    assert set(display.bands_) == {"random", "mean"}
    assert display.ax_.get_ylabel() == "auc"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == list(CURVES)


def test_axes_may_be_given():
    _, ax = pyplot.subplots()
    assert ActiveLearningDisplay.from_curves(CURVES, ax=ax).ax_ is ax


def test_curves_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="no curves"):
        ActiveLearningDisplay.from_curves({})
    with pytest.raises(ValueError, match="same numbers of labels"):
        ActiveLearningDisplay.from_curves(
            {"a": [{"n_labels": [0, 1], "score": [0, 0]}, {"n_labels": [0], "score": [0]}]}
        )
    with pytest.raises(ValueError, match="lists of curves"):
        ActiveLearningDisplay.from_curves({"a": CURVES["mean"][0]})
    with pytest.raises(ValueError, match="each with 'n_labels' and 'other'"):
        ActiveLearningDisplay.from_curves(CURVES, score="other")
    with pytest.raises(ValueError, match="between 0 and 1"):
        ActiveLearningDisplay.from_curves(CURVES, confidence=95)
    with pytest.raises(ValueError, match="'a' have 2 entries, but there are 3"):
        ActiveLearningDisplay([1, 2, 3], {"a": [[0.1, 0.2]]})
