"""Errors and warnings that users may want to catch; their names are exported from `histogp`."""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning

from histogp.errors import DataError, ModelFileError

__all__ = [
    "ApproximationWarning",
    "DataError",
    "ModelFileError",
    "NotConvergedWarning",
    "PrecisionWarning",
    "VarianceWarning",
]


class NotConvergedWarning(ConvergenceWarning):
    """An iteration was stopped before it reached its target: of the solver, of a search, of an estimate.

    Examples
    --------
    >>> import warnings
    >>> from histogp import HistogramGPRegressor, NotConvergedWarning
    >>> reg = HistogramGPRegressor("hik", noise=1e-4, solver="cg", max_iter=1, preconditioner_rank=0)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     reg = reg.fit([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]], [1.0, 5.0, 2.0])
    >>> caught[0].category is NotConvergedWarning
    True
    """


class VarianceWarning(NotConvergedWarning):
    """A variance may be too large because the solver was stopped.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from histogp import HistogramGPRegressor, VarianceWarning
    >>> X = np.random.default_rng(0).random((50, 4))
    >>> reg = HistogramGPRegressor("hik", noise=1e-4).fit(X, X[:, 0]).set_params(solver="cg", max_iter=1)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     variance = reg.predict_variance(X)
    >>> caught[0].category is VarianceWarning
    True
    """


class ApproximationWarning(UserWarning):
    """An update has made an approximation of an exact kernel, or the other way round.

    Examples
    --------
    Make it an error, so that such an update is left out:

    >>> import warnings
    >>> from histogp import ApproximationWarning, HistogramGPClassifier
    >>> clf = HistogramGPClassifier("laplacian", noise=0.1).fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> with warnings.catch_warnings(action="error", category=ApproximationWarning):
    ...     clf = clf.partial_fit([[0.5, 0.5]], ["a"])
    >>> clf.approximation_
    {}
    """


class PrecisionWarning(UserWarning):
    """Data are such that a result has a few correct digits only.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from histogp import PrecisionWarning
    >>> from histogp.streaming import StreamingRidge
    >>> X = 1e5 + np.random.default_rng(0).random((100, 2))
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     model = StreamingRidge(alpha=1.0).fit(X, X[:, 0])
    >>> caught[0].category is PrecisionWarning
    True
    """
