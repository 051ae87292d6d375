"""Order-preserving transforms of features, as parameter objects."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from histogp._core.data import Array

__all__ = ["Exponential", "Power", "Transform"]


class Transform(BaseEstimator):
    """Base of an order-preserving transform ``g`` with ``g(0) = 0``.

    A transform of your own subclasses this and provides

    - ``__init__`` that stores its hyperparameters under their names, each one positive number or one
      a dimension (positive, because optimizers work on logarithms),
    - ``bounds``: a class attribute, name to (lowest, highest) sensible value, for optimizers,
    - ``value(x, **hyperparameters)``: ``g(x)`` elementwise, for an array x >= 0,
    - ``derivative(x, **hyperparameters)``: a dict, name to the derivative of ``g(x)`` with respect to
      that hyperparameter.

    Each hyperparameter arrives either as a number or as an array of the shape of ``x``. The functions
    must not depend on ``self`` otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.kernels import HistogramIntersection, Transform
    >>> class Log(Transform):
    ...     bounds = {"scale": (1e-3, 1e3)}
    ...     def __init__(self, scale=1.0):
    ...         self.scale = scale
    ...     def value(self, x, scale):
    ...         return np.log1p(scale * x)
    ...     def derivative(self, x, scale):
    ...         return {"scale": x / (1 + scale * x)}
    >>> HistogramIntersection(transform=Log(2.0))([[1.0]], [[3.0]]).round(4)
    array([[1.0986]])
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {}

    def value(self, x: Array, *arguments: Any, **hyperparameters: Any) -> Array:
        """Compute ``g(x)`` elementwise.

        Parameters
        ----------
        x : ndarray
            Features, none of them negative.
        *arguments : tuple
            Not used; transforms of your own name their hyperparameters instead.
        **hyperparameters : float or ndarray
            Each a number, or an array of the shape of ``x``.

        Returns
        -------
        heights : ndarray
            ``g(x)``, of the shape of ``x``.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method value(x, **hyperparameters); see Transform.")

    def derivative(self, x: Array, *arguments: Any, **hyperparameters: Any) -> dict[str, Array]:
        """Differentiate ``g(x)`` with respect to each hyperparameter.

        Parameters
        ----------
        x : ndarray
            Features, none of them negative.
        *arguments : tuple
            Not used; transforms of your own name their hyperparameters instead.
        **hyperparameters : float or ndarray
            Each a number, or an array of the shape of ``x``.

        Returns
        -------
        derivatives : dict of ndarray
            By the names of hyperparameters, each of the shape of ``x``.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method derivative to be optimized; see Transform.")


class Power(Transform):
    """``g(x) = x ** eta``: "HIK-POLY" in the papers (eq. 15).

    Parameters
    ----------
    eta : float or array-like of shape (n_features,), default=0.5
        Exponent, positive. The default is the square root, which damps large counts; 1 is the
        identity.

    Examples
    --------
    >>> from histogp.kernels import HistogramIntersection, Power
    >>> HistogramIntersection(transform=Power(2.0))([[1.0, 2.0]], [[3.0, 1.0]])
    array([[2.]])
    """

    bounds: ClassVar = {"eta": (1e-2, 1e2)}

    def __init__(self, eta: Any = 0.5):
        self.eta = eta

    def value(self, x: Array, *, eta: Any) -> Array:
        """Compute ``g(x)`` elementwise.

        Parameters
        ----------
        x : ndarray
            Features, none of them negative.
        eta : float or ndarray
            The hyperparameter, a number or an array of the shape of ``x``.

        Returns
        -------
        heights : ndarray
            ``g(x)``, of the shape of ``x``.
        """
        with np.errstate(over="ignore"):  # refused by a sentence
            return x**eta

    def derivative(self, x: Array, *, eta: Any) -> dict[str, Array]:
        """Differentiate ``g(x)`` with respect to ``eta``.

        Parameters
        ----------
        x : ndarray
            Features, none of them negative.
        eta : float or ndarray
            The hyperparameter, a number or an array of the shape of ``x``.

        Returns
        -------
        derivatives : dict of ndarray
            By the names of hyperparameters, each of the shape of ``x``.
        """
        logarithm = np.log(x, where=x > 0, out=np.zeros_like(x))
        return {"eta": x**eta * logarithm}


class Exponential(Transform):
    """``g(x) = (exp(eta x) - 1) / (exp(eta) - 1)``: "HIK-EXP" in the papers (eq. 16).

    Meant for features in [0, 1]: it overflows where ``eta * (x - 1)`` exceeds about 700.

    Parameters
    ----------
    eta : float or array-like of shape (n_features,), default=1.0
        Growth, positive; towards 0 the transform becomes the identity.

    Examples
    --------
    >>> from histogp.kernels import Exponential, HistogramIntersection
    >>> HistogramIntersection(transform=Exponential(1.0))([[0.5, 1.0]], [[1.0, 0.0]]).round(3)
    array([[0.378]])
    """

    bounds: ClassVar = {"eta": (1e-6, 1e2)}

    def __init__(self, eta: Any = 1.0):
        self.eta = eta

    def value(self, x: Array, *, eta: Any) -> Array:
        """Compute ``g(x)`` elementwise.

        Parameters
        ----------
        x : ndarray
            Features, none of them negative.
        eta : float or ndarray
            The hyperparameter, a number or an array of the shape of ``x``.

        Returns
        -------
        heights : ndarray
            ``g(x)``, of the shape of ``x``.
        """
        # exp(eta (x - 1)) (1 - exp(-eta x)) / (1 - exp(-eta)): no overflow while x <= 1.
        with np.errstate(over="ignore"):
            return np.exp(eta * (x - 1)) * np.expm1(-eta * x) / np.expm1(-eta)

    def derivative(self, x: Array, *, eta: Any) -> dict[str, Array]:
        """Differentiate ``g(x)`` with respect to ``eta``.

        Parameters
        ----------
        x : ndarray
            Features, none of them negative.
        eta : float or ndarray
            The hyperparameter, a number or an array of the shape of ``x``.

        Returns
        -------
        derivatives : dict of ndarray
            By the names of hyperparameters, each of the shape of ``x``.
        """
        # The logarithmic derivative is L(x) - L(1) with L(x) = x / (1 - exp(-eta x)).
        slope = np.divide(x, -np.expm1(-eta * x), where=x > 0, out=np.ones_like(x) / eta)
        return {"eta": self.value(x, eta=eta) * (slope + 1 / np.expm1(-eta))}
