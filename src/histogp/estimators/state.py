"""One state of an estimator at a time: readers see the old or the new one, never a mixture."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from sklearn.utils._param_validation import validate_parameter_constraints

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
