"""Errors that users may want to catch, for code that knows no scikit-learn; `histogp.exceptions` has them, too."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A file that is no intact model of this package; the text says what is wrong with it.

    Examples
    --------
    >>> import os, tempfile
    >>> import histogp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.histogp")
    ...     with open(path, "w") as file:
    ...         _ = file.write("no model")
    ...     try:
    ...         histogp.load(path)
    ...     except histogp.ModelFileError:
    ...         print("fit it again")
    fit it again
    """


class DataError(ValueError):
    """A data file or an option that cannot be used; the text is one sentence for the user.

    Examples
    --------
    >>> from histogp import DataError
    >>> from histogp.streaming import read_chunks
    >>> try:
    ...     X, y = next(read_chunks("missing.csv"))
    ... except DataError as error:
    ...     print(error)
    There is no file 'missing.csv'.
    """
