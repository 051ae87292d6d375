"""How close approximate variances are to precise ones (gp-hik-ijcv2016, section 11.2 and figure 15)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from histogp.gp import warning_once
from histogp.plotting._axes import new_axes
from histogp.plotting.uncertainty_display import COLORS, variances


class TightnessDisplay:
    """Variances by several methods, for samples in the order of their precise variance.

    Use `from_estimator`, or give the values yourself.

    Parameters
    ----------
    precise : array-like of shape (n,)
        Gives the order.
    variances : dict of array-like of shape (n,)
        By method.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : dict of matplotlib Lines
        By method.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp import HistogramGPRegressor
    >>> from histogp.plotting import TightnessDisplay
    >>> X = np.random.default_rng(0).random((30, 3))
    >>> reg = HistogramGPRegressor("hik", noise=0.1).fit(X, X[:, 0])
    >>> display = TightnessDisplay.from_estimator(reg, X, methods=["precise", "fine", "coarse"])
    >>> bool((display.variances["coarse"] >= display.precise).all())
    True
    """

    def __init__(self, precise: Any, variances: dict[str, Any]):
        self.precise = np.asarray(precise, float)
        self.variances = {name: np.asarray(variance, float) for name, variance in variances.items()}

    @classmethod
    @warning_once()
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        methods: str | Sequence[str] | None = None,
        normalize: bool = False,
        n_eigenvectors: Any = 8,
        ax: Any = None,
    ) -> TightnessDisplay:
        """Compute the variances of the latent function at each sample of X, and plot.

        With several outputs they are those of the first; the others differ by their unit only.

        Parameters
        ----------
        estimator : fitted HistogramGPClassifier, HistogramGPRegressor or HistogramGPOneClass
            With its training samples.
        X : {array-like, sparse matrix} of shape (n, n_features)
            Samples to predict.
        methods : str, list of str or None, default=None
            Those of `predict_variance` to show; None is all that the kernel has. The precise variance is computed for
            the order in any case.
        normalize : bool, default=False
            Whether to scale the variances of each method to [0, 1], to compare their order only. Otherwise the
            vertical axis is logarithmic, because bounds can be many times larger.
        n_eigenvectors : int or sequence of int, default=8
            For "fine"; several numbers are shown each.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        display : TightnessDisplay
            A display that has been drawn.
        """
        check_is_fitted(estimator)
        if methods is None:
            methods = estimator.posterior_.variance_methods
        found = variances(estimator, X, methods, n_eigenvectors, include_noise=False)
        precise = found.get("precise")
        if precise is None:
            precise = variances(estimator, X, "precise", n_eigenvectors, include_noise=False)["precise"]
        return cls(precise, found).plot(normalize=normalize, ax=ax)

    def plot(self, *, normalize: bool = False, ax: Any = None) -> TightnessDisplay:
        """Draw the variances; see `from_estimator`.

        Parameters
        ----------
        normalize : bool, default=False
            Whether to scale the variances of each method to [0, 1], to compare their order only. Otherwise the
            vertical axis is logarithmic, because bounds can be many times larger.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self : TightnessDisplay
            The display itself.
        """
        self.ax_ = new_axes("TightnessDisplay", ax)
        self.figure_ = self.ax_.figure
        order = np.argsort(self.precise, kind="stable")
        self.lines_ = {}
        # Dots on crosses, so that both show where two methods agree.
        styles = zip(cycle(COLORS), cycle("x."), strict=False)
        for (name, variance), (color, marker) in zip(self.variances.items(), styles, strict=False):
            heights = _to_unit_interval(variance) if normalize else variance
            style = {"linewidth": 2, "zorder": 3} if name == "precise" else {"marker": marker, "linestyle": "none"}
            (self.lines_[name],) = self.ax_.plot(heights[order], color=color, markersize=4, label=name, **style)
        if not normalize:
            self.ax_.set_yscale("log")
        self.ax_.set_xlabel("samples in the order of their precise variance")
        self.ax_.set_ylabel("variance, scaled to [0, 1]" if normalize else "variance of the latent function")
        self.ax_.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, markerscale=2)
        return self


def _to_unit_interval(variance: np.ndarray) -> np.ndarray:
    width = np.ptp(variance)
    return (variance - variance.min()) / (width if width > 0 else 1.0)
