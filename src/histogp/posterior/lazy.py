"""Values that are made when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


class Lazy:
    """``Lazy().get(key, make)`` calls ``make`` once a key, also when several threads ask at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
            return self._values[key]
