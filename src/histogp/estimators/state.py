"""One state of an estimator at a time: readers see the old or the new one, never a mixture."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from sklearn.utils._param_validation import validate_parameter_constraints

from histogp._sklearn import warn
from histogp.exceptions import VarianceWarning
from histogp.posterior.shortfall import collecting, is_collecting, note

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
        with warning_once():
            return method(snapshot(self), *arguments, **options)

    return on_snapshot  # type: ignore[return-value]


@contextmanager
def warning_once() -> Iterator[None]:
    """Warn of what variances fell short of in the block: when it ends well, once for each kind.

    Inside of another such block that one warns, so that a public method may call others.
    """
    is_inside = is_collecting()
    with collecting() as found:
        yield
    for kind, shortfall in found.items():
        if is_inside:
            note(kind, shortfall)
        else:
            warn(shortfall.message, VarianceWarning)


@contextmanager
def updating(estimator: Any) -> Iterator[Any]:
    """A copy to change, which takes the place of the estimator's state at once, and only if all went well."""
    before = vars(estimator)
    changed = snapshot(estimator)
    parameters = estimator.get_params(deep=False)
    validate_parameter_constraints(estimator._parameter_constraints, parameters, caller_name=type(estimator).__name__)
    with warning_once():
        yield changed
    with _swap:
        if vars(estimator) is not before:
            raise RuntimeError("Another thread has updated this estimator meanwhile; this update is left out.")
        # What `set_params` has changed meanwhile.
        changed.__dict__.update({name: before[name] for name in parameters if before[name] is not parameters[name]})
        estimator.__dict__ = changed.__dict__
