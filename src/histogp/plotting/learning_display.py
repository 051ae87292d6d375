"""How good models become with the labels that strategies ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from scipy import stats

from histogp.plotting._axes import new_axes
from histogp.plotting.uncertainty_display import COLORS


class ActiveLearningDisplay:
    """Scores of several strategies by the number of labels: means of repeated runs, with confidence bands.

    Use `from_curves`, or give the values yourself.

    Parameters
    ----------
    n_labels : array-like of shape (n,)
        Numbers of labels that were asked for.
    scores : dict of array-like of shape (n_runs, n)
        By strategy.
    score_name : str, default="score"
        What the scores are called in the plot.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : dict of matplotlib Lines
        By strategy: the means.
    bands_ : dict of matplotlib PolyCollections
        By strategy: the confidence bands; none where there is a single run.

    Examples
    --------
    >>> from histogp.plotting import ActiveLearningDisplay
    >>> runs = [{"n_labels": [0, 1, 2], "score": [0.5, 0.6, 0.8]}, {"n_labels": [0, 1, 2], "score": [0.5, 0.7, 0.7]}]
    >>> display = ActiveLearningDisplay.from_curves({"uncertainty": runs})
    """

    def __init__(self, n_labels: Any, scores: Mapping[str, Any], score_name: str = "score"):
        self.n_labels = np.asarray(n_labels)
        self.scores = {name: np.atleast_2d(np.asarray(values, float)) for name, values in scores.items()}
        self.score_name = score_name
        for name, values in self.scores.items():
            if values.shape[1] != len(self.n_labels):
                raise ValueError(
                    f"The runs of {name!r} have {values.shape[1]} entries, but there are {len(self.n_labels)} n_labels."
                )

    @classmethod
    def from_curves(
        cls,
        curves: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        score: str = "score",
        confidence: float = 0.95,
        ax: Any = None,
    ) -> ActiveLearningDisplay:
        """Plot what `ActiveLearner.run` returned.

        Parameters
        ----------
        curves : dict of lists of curves
            By strategy; all runs have the same numbers of labels.
        score : str, default="score"
            Which entry of the curves to show.
        confidence : float, default=0.95
            That the bands hold the mean score of all possible runs, by Student's t.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        display : ActiveLearningDisplay
            A display that has been drawn.
        """
        runs = [run for several in curves.values() for run in several]
        if not runs:
            raise ValueError("There are no curves to show; give at least one run of one strategy.")
        if not all(isinstance(run, Mapping) and {"n_labels", score} <= run.keys() for run in runs):
            raise ValueError(f"curves must be lists of curves, by strategy, each with 'n_labels' and {score!r}.")
        n_labels = np.asarray(runs[0]["n_labels"])
        if any(not np.array_equal(n_labels, run["n_labels"]) for run in runs):
            raise ValueError("All runs must have the same numbers of labels.")
        scores = {name: [run[score] for run in several] for name, several in curves.items()}
        return cls(n_labels, scores, score).plot(confidence=confidence, ax=ax)

    def plot(self, *, confidence: float = 0.95, ax: Any = None) -> ActiveLearningDisplay:
        """Draw the curves; see `from_curves`.

        Parameters
        ----------
        confidence : float, default=0.95
            That the bands hold the mean score of all possible runs, by Student's t.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self : ActiveLearningDisplay
            The display itself.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1; got {confidence!r}.")
        self.ax_ = new_axes("ActiveLearningDisplay", ax)
        self.figure_ = self.ax_.figure
        self.lines_, self.bands_ = {}, {}
        styles = zip(cycle(COLORS), cycle(["-", "--", ":"]), strict=False)
        for (name, values), (color, style) in zip(self.scores.items(), styles, strict=False):
            mean, margin = band(values, confidence)
            (self.lines_[name],) = self.ax_.plot(self.n_labels, mean, style, color=color, label=name)
            if len(values) > 1:
                self.bands_[name] = self.ax_.fill_between(
                    self.n_labels, mean - margin, mean + margin, color=color, alpha=0.15, linewidth=0
                )
        self.ax_.set_xlabel("labels")
        self.ax_.set_ylabel(self.score_name)
        self.ax_.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
        return self


def band(values: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean over runs (n_runs, n), and half the width of its confidence interval; both (n,)."""
    mean = values.mean(axis=0)
    if len(values) < 2:
        return mean, np.zeros_like(mean)
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return mean, error * stats.t.ppf((1 + confidence) / 2, len(values) - 1)
