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
    """An iteration was stopped before it reached its target: of the solver, of a search, of an estimate."""


class VarianceWarning(NotConvergedWarning):
    """A variance may be too large because the solver was stopped."""


class ApproximationWarning(UserWarning):
    """An update has made an approximation of an exact kernel, or the other way round."""


class PrecisionWarning(UserWarning):
    """Data are such that a result has a few correct digits only."""
