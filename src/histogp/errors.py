"""Errors that users may want to catch, for code that knows no scikit-learn; `histogp.exceptions` has them, too."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A file that is no intact model of this package; the text says what is wrong with it."""


class DataError(ValueError):
    """A data file or an option that cannot be used; the text is one sentence for the user."""
