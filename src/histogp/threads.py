"""The package's own thread pool, on which all compiled leaves run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

_lock = threading.Lock()
_queue: SimpleQueue | None = None


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
            futures.append(Future())  # before it is handed over: an interrupt in between must find it
            if not _hand_over(futures[-1], run_part, part):
                futures.pop()
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


def _hand_over(future: Future, work: Callable[..., Any], part: Iterable[tuple]) -> bool:
    """Have a worker do it; false if there is none, because the interpreter is shutting down."""
    if sys.is_finalizing():
        return False
    try:
        _get_queue().put((future, work, part))
    except RuntimeError:  # no new threads any more
        return False
    return True


def _get_queue() -> SimpleQueue:
    global _queue
    with _lock:
        if _queue is None:
            queue: SimpleQueue = SimpleQueue()
            # Daemons, and not concurrent.futures: an interrupt while that starts a thread makes the exit wait for ever.
            for number in range(os.cpu_count() or 1):
                threading.Thread(target=_serve, args=(queue,), name=f"histogp-{number}", daemon=True).start()
            _queue = queue
        return _queue


def _serve(queue: SimpleQueue) -> None:
    while True:
        future, work, part = queue.get()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work(part))
            except BaseException as error:
                future.set_exception(error)
        del future, work, part  # the thread waits now, and must not keep arrays alive


def _forget_workers() -> None:
    # The threads do not survive a fork, and the lock may have been held by one of them.
    global _lock, _queue
    _queue = None
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_forget_workers)
