"""Variances as users see them."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from histogp._core.data import Array, Rows
from histogp._core.threads import announce_compilation
from histogp._core.variance import METHODS, Variance, VarianceOptions
from histogp._estimator import number_of_threads, reading, validate_features
from histogp._sklearn import warn
from histogp.exceptions import VarianceWarning
from histogp.gp._evidence import EvidenceMixin


class UncertaintyMixin(EvidenceMixin):
    """For estimators with a posterior."""

    _scale: Any
    n_examples_: int
    n_bins: int
    _check_prediction: Any

    @reading
    def predict_variance(
        self,
        X: Any,
        method: str = "precise",
        include_noise: bool = True,
        *,
        n_eigenvectors: Any = 8,
        n_samples: int = 256,
        tol: float | None = None,
        per_class: bool = False,
    ) -> Array:
        """The posterior variance at each row of X: how far a new observation may be from the predicted mean.

        It depends on where the training examples are, not on their labels, and is the same for all classes and
        outputs, up to the scale of the latter. With ``class_weight="balanced-ovr"`` each class has its own noise; the
        result is then the variance for the largest noise of every example, which bounds those of all classes, unless
        ``per_class`` asks for them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        method : {"precise", "fine", "coarse", "coarse-quantized", "sampled", "calibrated"}, default="precise"
            Times are for 10,000 training rows with 1,000 sparse features; what a method needs is prepared once, when
            it is first used, and goes into a file that is saved after that.

            - "precise" (PUP in gp-hik-ijcv2016): solves one system for each row, in blocks; milliseconds. Never too
              small; too large by at most the squared norm of the residual over the smallest noise.
            - "fine" (FAPU): a bound from above by ``n_eigenvectors`` leading eigenvectors; a tenth of a millisecond,
              in proportion to the number of training examples.
            - "coarse" (CAPU, or RAPU in the paper of 2012): a bound from the largest eigenvalue and sorted columns;
              microseconds. Far above the variance for most data; its order is what counts.
            - "coarse-quantized" (q-CAPU): the same from a table; less than a microsecond.
            - "sampled": the mean square of ``n_samples`` posterior draws in tables; microseconds, whatever the number
              of training examples. With a relative error of ``sqrt(2 / n_samples)``, and no bias but that of tables
              with 64 nodes a feature: none for counts, one in a hundred where the noise is not tiny.
            - "calibrated": tables combined by weights that fit exact leave-one-out variances of a few training rows;
              microseconds, whatever the number of training examples. ``variance_error_`` is its relative error for new
              rows like those of training; a training row itself has less variance than that. Below 256 training
              examples it is "precise".
        include_noise : bool, default=True
            Whether to add ``noise_``: the variance of an observation rather than of the latent function.
        n_eigenvectors : int or sequence of int, default=8
            For "fine". Several numbers give a column each, from one decomposition.
        n_samples : int, default=256
            For "sampled".
        tol : float or None, default=None
            For "precise": the residual of each system, relative to its right-hand side. The error of the variance
            is of the order of its square. None is 1e-4, or the estimator's own ``tol`` if that is smaller.
        per_class : bool, default=False
            For "precise": a column for each class or output, one for two classes.

        Returns
        -------
        variance : ndarray of shape (n_samples,), or with several columns, see above; a regressor with several outputs
            has one for each
        """
        check_is_fitted(self)
        rows = self._test_rows(X)
        options = self._variance_options(method, n_eigenvectors, n_samples, tol)
        if per_class:
            if method != "precise":
                raise ValueError('per_class=True needs method="precise"; the other methods have one variance for all.')
            latent = self._clear(self._posterior_with_training().variance_per_output(rows, options))
        else:
            latent = self._latent_variance(rows, method, options)
        return self._in_units(latent + (self.noise_ if include_noise else 0.0), per_class)

    @property
    @reading
    def variance_error_(self) -> float:
        """The relative error of the variance "calibrated": the root mean square over left-out training rows.

        Computed when it is first asked for; zero below 256 training examples, where this variance is precise.
        """
        check_is_fitted(self)
        error, shortfall = self._posterior.calibration_error(self._variance_options())
        self._warn_of(shortfall)
        return error

    def _latent_variance(self, rows: Rows, method: str, options: VarianceOptions) -> Array:
        return self._clear(self._posterior.variance(rows, method, options))

    def _clear(self, found: Variance) -> Array:
        """The variance alone; warns where it may be too large."""
        self._warn_of(found.shortfall)
        return found.values

    def _warn_of(self, shortfall: str | None) -> None:
        if shortfall is not None:
            warn(shortfall, VarianceWarning)

    def _quick_method(self) -> str:
        """The best quick way to the variance itself."""
        return self._posterior.quick_method()

    def _test_rows(self, X: Any) -> Rows:
        self._check_prediction()
        announce_compilation()
        return Rows.from_array(validate_features(self, X, reset=False), number_of_threads(self.n_jobs))

    def _variance_options(
        self, method: str = "precise", n_eigenvectors: Any = 8, n_samples: int = 256, tol: float | None = None
    ) -> VarianceOptions:
        if method not in METHODS:
            raise ValueError(f"Unknown method {method!r}; known are {', '.join(map(repr, METHODS))}.")
        try:
            numbers = np.atleast_1d(np.asarray(n_eigenvectors))
        except ValueError:
            numbers = np.empty(0)
        if numbers.dtype.kind not in "iu" or numbers.ndim > 1 or numbers.size == 0 or numbers.min() < 0:
            raise ValueError(f"n_eigenvectors must be one or several whole numbers >= 0; got {n_eigenvectors!r}.")
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number above 0; got {n_samples!r}.")
        tol = min(VarianceOptions.tol, self.tol) if tol is None else tol
        if not isinstance(tol, Real) or not 0 < tol < np.inf:
            raise ValueError(f"tol must be a number above 0; got {tol!r}.")
        several = numbers.tolist() if np.ndim(n_eigenvectors) else int(numbers[0])
        return VarianceOptions(several, int(n_samples), int(self.n_bins), float(tol), self._solver_options())

    def _in_units(self, variance: Array, per_output: bool) -> Array:
        """Variances (n,), or (n, k), of the targets in units of the outputs."""
        unit = np.asarray(self._scale) ** 2
        if unit.ndim == 0 or per_output:
            return variance * unit
        if variance.ndim > 1:
            raise ValueError("With several outputs give one number of eigenvectors.")
        return variance[:, None] * unit
