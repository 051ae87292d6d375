"""Which features a model relies on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from histogp.plotting._axes import new_axes

_LABELED = 30


class RelevanceDisplay:
    """Relevance of features as bars, the most relevant first.

    Use `from_estimator`, or give the values yourself.

    Parameters
    ----------
    relevance : array-like of shape (n_features,)
        How much each feature counts, such as its share of the prior variance.
    names : array-like of shape (n_features,) or None, default=None
        None stands for the numbers of the features.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    bars_ : matplotlib BarContainer
        The bars, the most relevant feature first.

    Examples
    --------
    >>> from histogp.plotting import RelevanceDisplay
    >>> display = RelevanceDisplay([0.2, 0.7, 0.1], ["red", "green", "blue"]).plot(top=2)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['green', 'red']
    """

    def __init__(self, relevance: Any, names: Any = None):
        self.relevance = np.asarray(relevance, float)
        self.names = np.arange(len(self.relevance)) if names is None else np.asarray(names)

    @classmethod
    def from_estimator(cls, estimator: Any, *, top: int | None = 20, ax: Any = None, **bars: Any) -> RelevanceDisplay:
        """Plot ``feature_relevance_`` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted HistogramGPClassifier, HistogramGPRegressor or HistogramGPOneClass
            With or without its training samples.
        top : int or None, default=20
            The number of features shown; None shows all.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        **bars : dict
            For Matplotlib's ``barh``.

        Returns
        -------
        display : RelevanceDisplay
            A display that has been drawn.
        """
        check_is_fitted(estimator)
        names = getattr(estimator, "feature_names_in_", None)
        return cls(estimator.feature_relevance_, names).plot(top=top, ax=ax, **bars)

    def plot(self, *, top: int | None = 20, ax: Any = None, **bars: Any) -> RelevanceDisplay:
        """Draw the bars; see `from_estimator`.

        Parameters
        ----------
        top : int or None, default=20
            The number of features shown; None shows all.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        **bars : dict
            For Matplotlib's ``barh``.

        Returns
        -------
        self : RelevanceDisplay
            The display itself.
        """
        if top is not None and top < 1:
            raise ValueError(f"top must be a number of features above 0, or None; got {top!r}.")
        order: np.ndarray = np.argsort(-self.relevance, kind="stable")[:top]
        height = 1.2 + 0.24 * min(len(order), _LABELED)
        self.ax_ = new_axes("RelevanceDisplay", ax, (6.4, height))
        self.figure_ = self.ax_.figure
        self.bars_ = self.ax_.barh(np.arange(len(order)), self.relevance[order], **{"color": "#2f6fb0", **bars})
        self.ax_.set_ylim(len(order) - 0.4, -0.6)
        self.ax_.set_xlabel("share of the prior variance")
        if len(order) <= _LABELED:
            self.ax_.set_yticks(np.arange(len(order)), [str(self.names[k]) for k in order])
        self.ax_.set_ylabel("feature" if len(order) <= _LABELED else "rank of the feature")
        for side in ("top", "right"):
            self.ax_.spines[side].set_visible(False)
        return self
