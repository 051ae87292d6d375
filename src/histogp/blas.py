"""Dense products on our own threads.

BLAS threads go on spinning for a while after a call and then take the cores away from our leaves. So
inside the iterative solver BLAS runs on one thread, and rows are spread over our pool instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import pairwise
from typing import Any

from threadpoolctl import ThreadpoolController

from histogp import threads


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


# Operations from which on threads of BLAS save more than they cost.
WORTH_THREADS = 1e9
_lock = threading.Lock()
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
        with _lock:
            if _users == 0:
                _limit = _controller().limit(limits=1, user_api="blas")
            _users += 1
            entered = True
        yield
    finally:
        with _lock:
            _users -= entered
            if _users == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


def suited_blas(n_operations: float) -> AbstractContextManager[None]:
    """One thread of BLAS for work that is not worth more."""
    return single_threaded_blas() if n_operations < WORTH_THREADS else nullcontext()


def over_rows(work: Callable[[slice], Any], n_rows: int, n_threads: int, rows_per_slice: int = 8192) -> None:
    """Call ``work(rows)`` for slices that cover all rows, ``n_threads`` of them side by side."""
    bounds = [n_rows * part // n_threads for part in range(n_threads + 1)]
    parts = [
        [(slice(begin, min(begin + rows_per_slice, last)),) for begin in range(first, last, rows_per_slice)]
        for first, last in pairwise(bounds)
    ]
    threads.run(work, [part for part in parts if part])
