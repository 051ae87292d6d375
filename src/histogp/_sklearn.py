"""What depends on the version of scikit-learn (1.6 or newer), and warnings at the line of the user."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from inspect import signature
from typing import Any

import joblib
import numpy as np
import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import _check_sample_weight


class NoCallbacks:
    """Stands for the context of callbacks where there are none."""

    def subcontext(self, **options: Any) -> NoCallbacks:
        """The context of a part of the fit."""
        return self

    def call_on_fit_task_begin(self, **arguments: Any) -> None:
        """Before it."""

    def call_on_fit_task_end(self, **arguments: Any) -> bool:
        """After it; it is not to stop."""
        return False


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ModuleNotFoundError:  # before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands for scikit-learn's mixin where there is none: an estimator that takes no callbacks."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Refuse callbacks, which this version of scikit-learn does not have; none are fine."""
            if callbacks:
                raise NotImplementedError(f"Callbacks need scikit-learn 1.9 or newer; this is {sklearn.__version__}.")
            return self

        def _init_callback_context(self, **options: Any) -> NoCallbacks:
            """The context of a fit without callbacks."""
            return NoCallbacks()

    def with_callbacks(method: Any) -> Any:
        """Stands for scikit-learn's decorator where there is none."""
        return method


__all__ = [
    "HAS_CALLBACKS",
    "CallbackSupportMixin",
    "CaptionMixin",
    "NoCallbacks",
    "check_sample_weight",
    "warn",
    "warning_once",
    "with_callbacks",
]

HAS_CALLBACKS = CallbackSupportMixin.__module__ != __name__
# Older versions let all weights be zero, and have no argument for it.
_REFUSES_ALL_ZERO = "allow_all_zero_weights" in signature(_check_sample_weight).parameters
# Frames of these are not the user's: we call each other through them.
_NOT_THE_USERS = (
    *(os.path.join(os.path.dirname(str(package)), "") for package in (__file__, sklearn.__file__, joblib.__file__)),
    contextlib.__file__,
)

_collected: ContextVar[dict[type[Warning], str] | None] = ContextVar("warnings", default=None)


def check_sample_weight(sample_weight: Any, X: Any, *, allow_all_zero: bool = False) -> np.ndarray:
    """One non-negative float64 weight for each row of X; None is one for all."""
    options = {"allow_all_zero_weights": True} if _REFUSES_ALL_ZERO else {}
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True, **options)
    if not allow_all_zero and not np.any(weights):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


class CaptionMixin:
    """Has notebooks show what an estimator tells `in_words`, below its name."""

    def _sk_visual_block_(self) -> Any:
        """The box that scikit-learn draws of an estimator, alone or in a pipeline.

        Without the private class, which has moved between versions, this fails, and scikit-learn draws its usual box.
        """
        block: Any = vars(sys.modules[estimator_html_repr.__module__])["_VisualBlock"]
        estimator: Any = self
        try:
            caption = estimator.in_words()
        except NotFittedError:
            caption = None
        return block("single", self, names=type(self).__name__, name_details=str(self), name_caption=caption)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """The table of fitted attributes of scikit-learn 1.9, without those that would be computed for it."""
        shown = BaseEstimator()
        shown.__dict__.update(vars(self))
        return shown._get_fitted_attr_html(doc_link)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user: the innermost one outside of this package and of what it is called through."""
    collected = _collected.get()
    if collected is not None:
        collected.setdefault(category, message)
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def warning_once() -> Iterator[None]:
    """Within this block a kind of warning comes once, at its end: for calls that go over many blocks of samples."""
    found: dict[type[Warning], str] = {}
    token = _collected.set(found)
    try:
        yield
    finally:
        _collected.reset(token)
    for category, message in found.items():
        warn(message, category)
