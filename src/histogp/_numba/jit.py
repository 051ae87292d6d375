"""The one way in which this package compiles a loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_logger = logging.getLogger("histogp")
_leaves: list[Any] = []
_announced = False


def leaf(function: Callable[..., None]) -> Callable[..., None]:
    """Compile ``function`` on its first call, without the GIL and, where possible, with a cache on disk.

    A leaf calls no jitted function of another file: Numba would not notice an edit there and go on
    using the stale code from its cache.
    """
    try:
        compiled = njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError:
        # Numba refuses to decorate when no cache folder can be written, for instance in a
        # read-only installation; then each process compiles for itself.
        compiled = njit(nogil=True, error_model="numpy")(function)
    _leaves.append(compiled)
    return compiled


def announce_compilation() -> None:
    """Say once, before the first long computation, that a cold start compiles the loops."""
    global _announced
    if _announced:
        return
    _announced = True
    if not any(_is_cached(compiled) for compiled in _leaves):
        _logger.warning("histogp compiles its numerical loops now; this happens once and takes some seconds.")


def _is_cached(compiled: Any) -> bool:
    path = getattr(compiled._cache, "cache_path", None)
    if path is None:
        return False
    function = compiled.py_func
    stem = Path(function.__code__.co_filename).stem
    return any(Path(path).glob(f"{stem}.{function.__qualname__}-*.nbi"))
