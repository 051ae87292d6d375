"""Threads: our own pool for compiled loops, limits of BLAS, the one way to compile a loop, values made once."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from numba import njit
from threadpoolctl import ThreadpoolController

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


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


# Operations from which on threads of BLAS save more than they cost.
THREADED_OPERATIONS = 1e9
_blas_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Within this context every BLAS call runs on the thread that makes it.

    The limit holds for the whole process, so the last of several threads to leave takes it back.
    """
    global _limit, _users
    entered = False
    try:
        with _blas_lock:
            if _users == 0:
                _limit = _controller().limit(limits=1, user_api="blas")
            _users += 1
            entered = True
        yield
    finally:
        with _blas_lock:
            _users -= entered
            if _users == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


def suited_blas(n_operations: float) -> AbstractContextManager[None]:
    """One thread of BLAS for work that is not worth more."""
    return single_threaded_blas() if n_operations < THREADED_OPERATIONS else nullcontext()


def over_rows(work: Callable[[slice], Any], n_rows: int, n_threads: int, rows_per_slice: int = 8192) -> None:
    """Call ``work(rows)`` for slices that cover all rows, ``n_threads`` of them side by side."""
    bounds = [n_rows * part // n_threads for part in range(n_threads + 1)]
    parts = [
        [(slice(begin, min(begin + rows_per_slice, last)),) for begin in range(first, last, rows_per_slice)]
        for first, last in pairwise(bounds)
    ]
    run(work, [part for part in parts if part])


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


Versions = dict[str, tuple[Any, Any]]  # versions and values by name


class Lazy:
    """``Lazy().get(name, make)`` calls ``make`` once, also when several threads ask at the same time.

    With a ``version`` the value of another version is made anew and takes its place, so that memory stays bounded.
    Values of other names can be asked for meanwhile, also by ``make``. What somebody has asked to ``keep`` goes into
    copies and files.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._values: Versions = {}
        self._kept: set[str] = set()

    def get(self, name: str, make: Callable[[], Any], version: Hashable = None, *, keep: bool = False) -> Any:
        """The value of this version, made now if it is not there."""
        return self._get(name, make, version, lambda present: present == version, keep)

    def get_at_least(self, name: str, size: int, make: Callable[[], Any], *, keep: bool = False) -> Any:
        """A value that serves up to some size: it is made anew for a larger one only."""
        return self._get(name, make, size, lambda present: present >= size, keep)

    def put(self, name: str, value: Any, version: Hashable = None, *, keep: bool = False) -> None:
        """Have a value that was made elsewhere."""
        with self._lock:
            self._values[name] = (version, value)
            self._kept |= {name} if keep else set()

    def present(self, name: str) -> Any:
        """The value, or None if it was not made."""
        return self._values.get(name, (None, None))[1]

    def kept(self) -> Versions:
        """All values that somebody has asked to keep."""
        with self._lock:
            return {name: self._values[name] for name in sorted(self._kept) if name in self._values}

    def _get(
        self, name: str, make: Callable[[], Any], version: Hashable, serves: Callable[[Any], bool], keep: bool
    ) -> Any:
        """The value of a name, made now unless there is one whose version ``serves``."""
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
            self._kept |= {name} if keep else set()
        with lock:
            found = self._values.get(name)
            if found is None or not serves(found[0]):
                found = (version, make())
                self._values[name] = found
            return found[1]
