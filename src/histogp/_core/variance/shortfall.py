"""What a computation could not reach: noted here by numerics, which do not warn, and collected by estimators, which do.

The notes of a call are those of its thread; nothing is kept where nobody collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Shortfall:
    """message : one sentence for the user; error : how bad it is, to compare with others of its kind"""

    message: str
    error: float = 0.0


Shortfalls = dict[str, Shortfall]  # the worst of each kind
_collected: ContextVar[Shortfalls | None] = ContextVar("shortfalls", default=None)


def note(kind: str, shortfall: Shortfall) -> None:
    """Keep a shortfall for whoever collects, unless a worse one of its kind was noted."""
    found = _collected.get()
    if found is not None and (kind not in found or found[kind].error < shortfall.error):
        found[kind] = shortfall


def is_collecting() -> bool:
    """Whether a caller further out collects what is noted now."""
    return _collected.get() is not None


@contextmanager
def collecting() -> Iterator[Shortfalls]:
    """Collect what is noted in the block, by kind; whoever collects further out does not see it."""
    found: Shortfalls = {}
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)
