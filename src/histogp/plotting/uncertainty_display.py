"""The posterior mean and how sure it is, along one feature (gp-hik-ijcv2016, figures 1 and 3)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain, cycle
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted, validate_data

from histogp.gp import warning_once
from histogp.plotting._axes import new_axes

# One a method; blue is the mean.
COLORS = ("#1b1b1b", "#d07a1e", "#3a9a6a", "#8a4a9e", "#4aa3b8", "#c23b5a", "#a08a1f")
# How far the line goes, in units of the largest training value, and of the smallest if that is negative.
_BEYOND = 1.25


class UncertaintyDisplay:
    """The posterior mean along one feature, a band of some standard deviations around it, and the training samples.

    Use `from_estimator`, or give the values yourself.

    Parameters
    ----------
    values : array-like of shape (n,)
        Of the feature, ascending.
    mean : array-like of shape (n,)
        Posterior means at these values.
    deviation : array-like of shape (n,) or dict of array-like of shape (n,)
        Standard deviations; a dict has those of several methods by name.
    points, targets : array-like of shape (n_points,) or None, default=None
        Values of the feature and targets of training samples.
    feature_name : str, default="feature"
        What the feature is called in the plot.
    target_name : str, default="target"
        What the targets are called in the plot.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of these axes.
    line_ : matplotlib Line
        The mean.
    band_ : matplotlib PolyCollection
        The band of the first method.
    outlines_ : dict of pairs of matplotlib Lines
        By method: the lower and the upper edge of each band; empty for one method.
    points_ : matplotlib Line or None
        Markers of the training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp import HistogramGPRegressor
    >>> from histogp.plotting import UncertaintyDisplay
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> reg = HistogramGPRegressor("hik", noise=0.1).fit(X, np.sqrt(X[:, 0]))
    >>> display = UncertaintyDisplay.from_estimator(reg, grid_resolution=50)
    >>> display.mean.shape
    (50,)
    """

    def __init__(
        self,
        values: Any,
        mean: Any,
        deviation: Any,
        points: Any = None,
        targets: Any = None,
        feature_name: str = "feature",
        target_name: str = "target",
    ):
        """Keep the values as arrays, and deviations by method."""
        self.values = np.asarray(values, float)
        self.mean = np.asarray(mean, float)
        deviations = deviation if isinstance(deviation, dict) else {"precise": deviation}
        self.deviations = {name: np.asarray(curve, float) for name, curve in deviations.items()}
        self.points = None if points is None else np.asarray(points, float)
        self.targets = None if targets is None else np.asarray(targets, float)
        self.feature_name = feature_name
        self.target_name = target_name

    @classmethod
    @warning_once()
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature: int = 0,
        X: Any = None,
        reference: Any = None,
        method: str | Sequence[str] = "precise",
        include_noise: bool = False,
        n_eigenvectors: Any = 8,
        class_: int | None = None,
        output: int = 0,
        n_std: float = 2.0,
        grid_resolution: int = 200,
        ax: Any = None,
    ) -> UncertaintyDisplay:
        """Predict with a fitted estimator along one feature, and plot.

        The line goes from 0 to 1.25 times the largest training value of the feature, and if some are negative from 1.25
        times the smallest. Training samples are shown at their value of that feature, whatever their other features
        are. With ``class_weight="balanced-ovr"`` the band is
        the one that `predict_variance` has for all classes.

        Parameters
        ----------
        estimator : fitted HistogramGPClassifier or HistogramGPRegressor
            With its training samples.
        feature : int, default=0
            The number of the feature.
        X : {array-like, sparse matrix} of shape (n, n_features) or None, default=None
            Samples to predict in place of the line, for instance some that sum to one.
        reference : array-like of shape (n_features,) or None, default=None
            Where the line holds the other features; None is the mean of the training samples.
        method : str or list of str, default="precise"
            One or several of `predict_variance`. Several give an outline each, and the first the shaded band.
        include_noise : bool, default=False
            Whether the band is that of an observation rather than of the latent function.
        n_eigenvectors : int or sequence of int, default=8
            For "fine"; several numbers give an outline each.
        class_ : int or None, default=None
            For classifiers: the class that is told from the rest, as an index into ``classes_``; its samples have
            the target 1, others -1. None is the second of two classes, the first of more.
        output : int, default=0
            For regressors with several outputs.
        n_std : float, default=2.0
            The half width of the band in standard deviations.
        grid_resolution : int, default=200
            Points on the line.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        display : UncertaintyDisplay
            A display that has been drawn.
        """
        check_is_fitted(estimator)
        if not (is_classifier(estimator) or is_regressor(estimator)):
            raise ValueError(f"UncertaintyDisplay needs a classifier or a regressor; got {estimator!r}.")
        _check_index("feature", feature, estimator.n_features_in_)
        training, labels, _ = estimator.posterior_.training_data()
        points = training[:, [feature]].toarray().ravel()
        rows: Any
        if X is None:
            rows = _line(training, feature, (points.min(), points.max()), reference, grid_resolution)
        else:
            # What is not finite or negative the estimator refuses, by the name of its column.
            options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
            rows = validate_data(estimator, X, reset=False, ensure_all_finite=False, **options)
        values = rows[:, [feature]]
        values = np.ravel(values.toarray() if sparse.issparse(values) else values)
        order = np.argsort(values, kind="stable")
        rows = rows[order]
        plain = _without_names(estimator)
        if is_classifier(estimator):
            mean, targets, target_name = _of_class(plain, rows, labels, class_)
        else:
            mean, targets, target_name = _of_output(plain, rows, labels, output)
        found = variances(plain, rows, method, n_eigenvectors, include_noise, output)
        deviations = {name: np.sqrt(variance) for name, variance in found.items()}
        names = getattr(estimator, "feature_names_in_", None)
        feature_name = f"feature {feature}" if names is None else str(names[feature])
        display = cls(values[order], mean, deviations, points, targets, feature_name, target_name)
        return display.plot(n_std=n_std, ax=ax)

    def plot(self, *, n_std: float = 2.0, ax: Any = None) -> UncertaintyDisplay:
        """Draw the mean, the bands and the points; see `from_estimator`.

        Parameters
        ----------
        n_std : float, default=2.0
            The half width of the band in standard deviations.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self : UncertaintyDisplay
            The display itself.
        """
        self.ax_ = new_axes("UncertaintyDisplay", ax)
        self.figure_ = self.ax_.figure
        edges = {name: (self.mean - n_std * s, self.mean + n_std * s) for name, s in self.deviations.items()}
        label = f"± {n_std:g} standard deviation{'' if n_std == 1 else 's'}"
        self.band_ = self.ax_.fill_between(
            self.values, *next(iter(edges.values())), color="#2f6fb0", alpha=0.22, linewidth=0, label=label
        )
        self.outlines_ = {}
        styles = zip(cycle(COLORS), chain("-", cycle(("--", ":", "-."))), strict=False)
        for (name, pair), (color, style) in zip(edges.items() if len(edges) > 1 else (), styles, strict=False):
            lower, upper = (self.ax_.plot(self.values, e, style, color=color, linewidth=1.3)[0] for e in pair)
            upper.set_label(name)
            self.outlines_[name] = (lower, upper)
        (self.line_,) = self.ax_.plot(self.values, self.mean, color="#2f6fb0", linewidth=2, label="posterior mean")
        self.points_ = None
        if self.points is not None:
            (self.points_,) = self.ax_.plot(
                self.points, self.targets, "x", color="#1b1b1b", markersize=5, alpha=0.7, label="training samples"
            )
        self.ax_.set_xlabel(self.feature_name)
        self.ax_.set_ylabel(self.target_name)
        self.ax_.margins(x=0.02)
        handles = [self.line_, self.band_, *([] if self.points_ is None else [self.points_])]
        handles += [upper for _, upper in self.outlines_.values()]
        self.ax_.legend(handles=handles, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)
        return self


def variances(
    estimator: Any, X: Any, methods: str | Sequence[str], n_eigenvectors: Any, include_noise: bool, output: int = 0
) -> dict[str, np.ndarray]:
    """The variances (n,) of one output by the name of their method; "fine" once for each number of eigenvectors."""
    numbers = np.atleast_1d(n_eigenvectors).tolist()
    found = {}
    for method in [methods] if isinstance(methods, str) else methods:
        for number in numbers if method == "fine" else numbers[:1]:
            variance = estimator.predict_variance(X, method, include_noise, n_eigenvectors=number)
            name = f"fine, k={number}" if method == "fine" and len(numbers) > 1 else method
            found[name] = variance if variance.ndim == 1 else variance[:, output]
    if not found:
        raise ValueError("Give at least one method to compute the variance.")
    return found


def _line(
    training: Any, feature: int, extremes: tuple[float, float], reference: Any, grid_resolution: int
) -> np.ndarray:
    """Samples that differ in one feature, (grid_resolution, n_features); extremes are its training values."""
    if not isinstance(grid_resolution, Integral) or grid_resolution < 2:
        raise ValueError(f"grid_resolution must be a whole number above 1; got {grid_resolution!r}.")
    row = np.asarray(training.mean(axis=0) if reference is None else reference, float)
    if row.shape != training.shape[1:]:
        raise ValueError(f"reference must be one sample of {training.shape[1]} features; got the shape {row.shape}.")
    rows = np.tile(row, (grid_resolution, 1))
    low, high = _BEYOND * np.clip(extremes, (-np.inf, 0.0), (0.0, np.inf))
    rows[:, feature] = np.linspace(low, high if high > low else 1.0, grid_resolution)
    return rows


def _of_class(classifier: Any, rows: Any, labels: np.ndarray, class_: int | None) -> tuple[np.ndarray, np.ndarray, str]:
    """Mean, targets of the training samples and what they are, for one class."""
    classes = classifier.classes_
    two = len(classes) == 2
    number = int(two) if class_ is None else class_
    _check_index("class_", number, len(classes))
    scores = classifier.decision_function(rows)
    mean = scores * (1 if number == 1 else -1) if two else scores[:, number]
    return mean, np.where(labels == classes[number], 1.0, -1.0), f"score of class {classes[number]}"


def _of_output(regressor: Any, rows: Any, labels: np.ndarray, output: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Mean, targets of the training samples and what they are, for one output."""
    targets = labels.reshape(len(labels), -1)
    _check_index("output", output, targets.shape[1])
    mean = regressor.predict(rows).reshape(rows.shape[0], -1)
    return mean[:, output], targets[:, output], "target" if labels.ndim == 1 else f"output {output}"


def _without_names(estimator: Any) -> Any:
    """A copy that takes arrays, which have no names of features, without a warning."""
    plain = copy.copy(estimator)
    if hasattr(plain, "feature_names_in_"):
        del plain.feature_names_in_
    return plain


def _check_index(name: str, value: int, size: int) -> None:
    if not isinstance(value, Integral) or not 0 <= value < size:
        raise ValueError(f"{name} must be a whole number from 0 to {size - 1}; got {value!r}.")
