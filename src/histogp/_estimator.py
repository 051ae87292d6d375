"""What estimators share: validation of what users pass, and one state at a time for readers and updates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import numba
import numpy as np
from joblib import cpu_count, effective_n_jobs
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_non_negative, validate_data


def validate_features(
    estimator: Any, X: Any, *, reset: bool, y: Any = "no_validation", any_sign: bool = False, **y_options: Any
) -> Any:
    """X, or X and y if y is given, by ``validate_data``: dense or CSR, float32 or float64.

    Features must not be negative unless any sign will do.
    """
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": reset, "order": "C"}
    try:
        validated = validate_data(estimator, X, y, **options, **y_options)
        if y is None:
            validated = validated, None
        if not any_sign:
            check_non_negative(validated[0] if isinstance(validated, tuple) else validated, type(estimator).__name__)
        return validated
    except ValueError as error:
        complaint = str(error).splitlines()[0].rstrip(".")
        if complaint.startswith("Input X contains"):
            column, _ = _first_column(X, lambda values: ~np.isfinite(values))
            remedy = "fill such values in (SimpleImputer) or leave the rows out."
            raise ValueError(f"{complaint} in column {column}: {remedy}") from None
        if complaint.startswith("Negative values"):
            column, values = _first_column(X, lambda values: values < 0)
            raise ValueError(
                f"{complaint}: column {column} goes down to {values.min():g}, but histogram kernels need features >= 0;"
                " scale them (MinMaxScaler), or split each into a positive and a negative part."
            ) from None
        raise


def _first_column(X: Any, is_wrong: Callable[[Any], Any]) -> tuple[Any, Any]:
    """The first column with a value that is wrong, by its name or number, and its values."""
    names = getattr(X, "columns", None)
    X = sparse.csc_array(check_array(X, accept_sparse="csc", dtype=np.float64, ensure_all_finite=False))
    column = int(np.searchsorted(X.indptr, np.flatnonzero(is_wrong(X.data))[0], side="right")) - 1
    return (column if names is None else repr(names[column])), X.data[X.indptr[column] : X.indptr[column + 1]]


def number_of_threads(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``: None is Numba's setting (one inside joblib's workers), -1 all cores."""
    if n_jobs is None:
        return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of threads, -1 for all cores, or None; got 0.")
    return min(effective_n_jobs(n_jobs), cpu_count())


Method = TypeVar("Method", bound=Callable[..., Any])
_swap = threading.Lock()


def snapshot(estimator: Any) -> Any:
    """A shallow copy, which a change of the estimator's attributes does not reach."""
    other = object.__new__(type(estimator))
    other.__dict__.update(vars(estimator))
    return other


def reading(method: Method) -> Method:
    """Let a method see one state from beginning to end, also while another thread updates the estimator."""

    @wraps(method)
    def on_snapshot(self: Any, *arguments: Any, **options: Any) -> Any:
        return method(snapshot(self), *arguments, **options)

    return on_snapshot  # type: ignore[return-value]


@contextmanager
def updating(estimator: Any) -> Iterator[Any]:
    """A copy to change, which takes the place of the estimator's state at once, and only if all went well."""
    before = vars(estimator)
    changed = snapshot(estimator)
    parameters = estimator.get_params(deep=False)
    validate_parameter_constraints(estimator._parameter_constraints, parameters, caller_name=type(estimator).__name__)
    yield changed
    with _swap:
        if vars(estimator) is not before:
            raise RuntimeError("Another thread has updated this estimator meanwhile; this update is left out.")
        # What `set_params` has changed meanwhile.
        changed.__dict__.update({name: before[name] for name in parameters if before[name] is not parameters[name]})
        estimator.__dict__ = changed.__dict__
