"""The likelihood, its bounds and the accuracy against a hyperparameter (gp-hik-ijcv2016, figure 12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from histogp.plotting._axes import new_axes

_METHODS = {
    "exact": ({"method": "exact"}, "exact", "#1b1b1b", "-"),
    "quadrature": ({"method": "quadrature"}, "estimate by quadrature", "#2f6fb0", "-"),
    "fischer": ({"method": "bound", "bound": "fischer"}, "Fischer's bound", "#3a9a6a", "--"),
    "papers": ({"method": "bound", "bound": "papers"}, "the papers' bound", "#b8652a", ":"),
}


class LikelihoodDisplay:
    """Negative log marginal likelihood, bounds of it, and test scores, against a hyperparameter.

    Use `from_estimator`.

    Parameters
    ----------
    parameter : str
        The name of the hyperparameter.
    values : array-like of shape (n,)
        Values of the hyperparameter.
    likelihoods : dict of array-like of shape (n,)
        By method: "exact", "quadrature", "fischer" or "papers".
    scores : array-like of shape (n,) or None, default=None
        On held-out data.
    score_name : str, default="score"
        What the scores are called in the plot.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    score_ax_ : matplotlib Axes or None
        With the scores, on the right.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : dict of matplotlib Lines
        By method.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp import HistogramGPRegressor
    >>> from histogp.plotting import LikelihoodDisplay
    >>> X = np.random.default_rng(0).random((30, 3))
    >>> reg = HistogramGPRegressor("hik", noise=0.1).fit(X, X[:, 0])
    >>> display = LikelihoodDisplay.from_estimator(reg, "noise", [0.01, 0.1, 1.0])
    >>> list(display.lines_)
    ['exact', 'fischer', 'papers']
    """

    def __init__(
        self, parameter: str, values: Any, likelihoods: dict[str, Any], scores: Any = None, score_name: str = "score"
    ):
        self.parameter = parameter
        self.values = np.asarray(values, float)
        self.likelihoods = {name: np.asarray(curve, float) for name, curve in likelihoods.items()}
        self.scores = None if scores is None else np.asarray(scores, float)
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        parameter: str = "noise",
        values: Any = None,
        *,
        X: Any = None,
        y: Any = None,
        methods: Sequence[str] | None = None,
        ax: Any = None,
    ) -> LikelihoodDisplay:
        """Evaluate a fitted estimator's training data with other values of one hyperparameter, and plot.

        Parameters
        ----------
        estimator : fitted HistogramGPClassifier or HistogramGPRegressor
            With its training samples.
        parameter : str, default="noise"
            "noise", or a parameter of the kernel, such as "transform__eta" or just "eta".
        values : array-like of shape (n,) or None, default=None
            Positive; None takes 15 from a tenth of the present value to ten times as much.
        X, y : test data or None, default=None
            With them also scores are plotted, of the model solved anew for each value.
        methods : list of {"exact", "quadrature", "fischer", "papers"} or None, default=None
            None is both bounds and, up to 2,000 samples, the exact likelihood, above it the estimate.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        display : LikelihoodDisplay
            A display that has been drawn.
        """
        check_is_fitted(estimator)
        if methods is None:
            methods = ["exact" if estimator.n_samples_ <= 2_000 else "quadrature", "fischer", "papers"]
        unknown = [name for name in methods if name not in _METHODS]
        if unknown:
            raise ValueError(f"Unknown method {unknown[0]!r}; known are {', '.join(map(repr, _METHODS))}.")
        parameter = _full_name(estimator, parameter)
        values = _values(estimator, parameter, values)
        settings = [_setting(estimator, parameter, value) for value in values]
        likelihoods = {
            name: [estimator.log_marginal_likelihood(*setting, **_METHODS[name][0]) for setting in settings]
            for name in methods
        }
        scores = None
        if X is not None and y is not None:
            posterior = estimator.posterior_
            scores = [posterior.refit(*setting).score(X, y) for setting in settings]
        score_name = "test accuracy" if is_classifier(estimator) else "test R²"
        return cls(parameter, values, likelihoods, scores, score_name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> LikelihoodDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self : LikelihoodDisplay
            The display itself.
        """
        self.ax_ = new_axes("LikelihoodDisplay", ax)
        self.figure_ = self.ax_.figure
        self.lines_ = {}
        for name, curve in self.likelihoods.items():
            _, label, color, style = _METHODS[name]
            (self.lines_[name],) = self.ax_.plot(self.values, -curve, style, color=color, label=label)
            best = curve.argmax()
            self.ax_.plot(self.values[best], -curve[best], "o", color=color, markersize=5)
        self.ax_.set_xscale("log")
        self.ax_.set_xlabel(self.parameter.removeprefix("transform__"))
        self.ax_.set_ylabel("negative log marginal likelihood")
        handles = list(self.lines_.values())
        self.score_ax_ = None
        if self.scores is not None:
            self.score_ax_ = self.ax_.twinx()
            handles += self.score_ax_.plot(self.values, self.scores, "-.", color="#8a4a9e", label=self.score_name)
            self.score_ax_.set_ylabel(self.score_name)
        self.ax_.legend(handles=handles, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
        return self


def _full_name(estimator: Any, parameter: str) -> str:
    """A parameter of the kernel as its `get_params` has it: "eta" and "kernel__transform__eta" are short and long."""
    given = parameter.removeprefix("kernel__")
    known = ["noise", *(name for name, value in estimator.kernel_.get_params().items() if np.ndim(value) == 0)]
    found = [name for name in known if name == given] or [name for name in known if name.endswith(f"__{given}")]
    if len(found) != 1:
        raise ValueError(f"{parameter!r} is no parameter of this kernel; there are {', '.join(map(repr, known))}.")
    return found[0]


def _values(estimator: Any, parameter: str, values: Any) -> np.ndarray:
    if values is not None:
        values = np.asarray(values, float)
        if values.ndim != 1 or len(values) == 0 or not np.all(values > 0):
            raise ValueError(f"values must be a list of positive numbers; got {values!r}.")
        return values
    present = estimator.noise_ if parameter == "noise" else estimator.kernel_.get_params()[parameter]
    if np.ndim(present) or present is None:
        raise ValueError(f"{parameter} is not one number now; give the values to try.")
    return present * np.geomspace(0.1, 10, 15)


def _setting(estimator: Any, parameter: str, value: float) -> tuple[Any, float]:
    """Kernel and noise."""
    kernel = clone(estimator.kernel_)
    if parameter == "noise":
        return kernel, float(value)
    return kernel.set_params(**{parameter: float(value)}), estimator.noise_
