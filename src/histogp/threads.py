"""The package's own thread pool, on which all compiled leaves run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def run(work: Callable[..., Any], parts: Sequence[Iterable[tuple]]) -> None:
    """Call ``work(*arguments)`` for every tuple of every part; parts run side by side, each in order.

    The calling thread takes the first part itself. A tuple should stand for less than 0.2 seconds
    of work: between two of them an interrupt or an error stops all parts. ``work`` must not call
    `run` with several parts in turn.
    """
    stop = threading.Event()

    def run_part(part: Iterable[tuple]) -> None:
        for arguments in part:
            if stop.is_set():
                return
            work(*arguments)

    futures: list[Future] = []
    try:
        for part in parts[1:]:
            try:
                futures.append(_get_pool().submit(run_part, part))
            except RuntimeError:  # the interpreter is shutting down and starts no threads any more
                run_part(part)
        for part in parts[:1]:
            run_part(part)
        for future in futures:
            future.result()
    except BaseException:
        stop.set()
        # Nobody may still write to the arrays of a call that has already failed.
        for future in futures:
            if not future.cancel():
                future.exception()
        raise


def _get_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="histogp")
        return _pool


def _forget_pool() -> None:
    # The threads do not survive a fork, and the lock may have been held by one of them.
    global _lock, _pool
    _pool = None
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_forget_pool)
