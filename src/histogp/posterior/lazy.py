"""A value that is made when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Lazy:
    """``Lazy(make).get()`` calls ``make`` once, also when several threads ask at the same time."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make
        self._lock = threading.Lock()
        self._values: list[Any] = []

    def get(self) -> Any:
        with self._lock:
            if not self._values:
                self._values.append(self._make())
            return self._values[0]
