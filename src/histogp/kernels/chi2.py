"""The additive chi-squared kernel by its direct expansion."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from histogp.kernels.base import Kernel, check_pair, resolve, resolved_weights
from histogp.kernels.features import ResolvedChi2
from histogp.maps.additive import Direct
from histogp.maps.expand import chi2_matrix
from histogp.maps.points import direct_map, typical_rows
from histogp.storage import Array

# Terms for each dimension; a fraction of that reaches rounding.
MOST = 1000


class Chi2(Kernel):
    """Additive chi-squared kernel, ``K(x, x') = sum_d w_d 2 x_d x'_d / (x_d + x'_d)``.

    An estimator works with a few features for each dimension whose products approximate the kernel
    (chi2-linear-approximation), so that it takes time and memory linear in the number of examples; called, the kernel
    itself is exact.

    Parameters
    ----------
    n_components : int or "auto", default=3
        Features for each dimension. The error falls by a factor of about three with each; "auto" takes as many as
        meet ``tol``.
    tol : float, default=1e-3
        For ``n_components="auto"``: the sum of the absolute errors of all features over pairs of training rows, up to
        256 of them, in proportion to the sum of the kernel.
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        As those of `HistogramIntersection`.
    groups : array-like of shape (n_features,) or None, default=None
        As those of `HistogramIntersection`.
    points : array-like of shape (n_components, n_features) or None, default=None
        Values at which the approximation is exact; None has an estimator choose them for its training data, again
        when it learns further as long as it has fewer than 512 examples.

    Examples
    --------
    >>> from histogp.kernels import Chi2
    >>> Chi2()([[1.0, 2.0]], [[3.0, 2.0]])
    array([[3.5]])
    """

    _has_features = True
    _from_data = ("points",)

    def __init__(
        self, n_components: Any = 3, *, tol: float = 1e-3, weights: Any = None, groups: Any = None, points: Any = None
    ):
        self.n_components = n_components
        self.tol = tol
        self.weights = weights
        self.groups = groups
        self.points = points

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely, without approximation: ``K(X, Y)``, or ``K(X, X)`` without Y."""
        X, Y = check_pair(X, Y)
        return chi2_matrix(X, Y, weights=resolve(self, X.shape[1]).weights)

    def _adapt(self, X: Any, targets: Array | None = None) -> Chi2:
        if not self._adapts:
            return self
        check_components(self.n_components, self.tol)
        n_terms = None if self.n_components == "auto" else int(self.n_components)
        adapted = clone(self)
        adapted.points = direct_map(typical_rows(X), n_terms, self.tol).points
        return adapted

    def _resolve(self, n_features: int) -> ResolvedChi2:
        check_components(self.n_components, self.tol)
        weights = resolved_weights(self, n_features)
        if self.points is None:
            return ResolvedChi2(None, {}, weights, None)
        try:
            points = np.atleast_1d(np.asarray(self.points, np.float64))
        except (TypeError, ValueError):
            raise ValueError(
                f"points must be positive numbers, a row for each component; got {self.points!r}."
            ) from None
        n_terms = len(points) if self.n_components == "auto" else self.n_components
        if points.shape != (n_terms, n_features) or not (np.all(np.isfinite(points)) and np.all(points > 0)):
            raise ValueError(
                f"points must be {n_terms} x {n_features} positive numbers, a row for each component; got an array of "
                f"shape {points.shape}."
            )
        return ResolvedChi2(None, {}, weights, Direct(points))


def check_components(n_components: Any, tol: Any) -> None:
    """Refuse what is neither a number of terms nor "auto", or no tolerance."""
    if n_components != "auto" and not (isinstance(n_components, Integral) and 1 <= int(n_components) <= MOST):
        raise ValueError(f'n_components must be a whole number from 1 to {MOST} or "auto"; got {n_components!r}.')
    if not (isinstance(tol, Real) and 0 < float(tol) < np.inf):
        raise ValueError(f"tol must be a number above 0; got {tol!r}.")
