"""Values that are made when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


class Lazy:
    """``Lazy().get(name, make)`` calls ``make`` once, also when several threads ask at the same time.

    With a ``version`` the value of another version is made anew and takes its place, so that memory stays bounded.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, tuple[Hashable, Any]] = {}

    def get(self, name: str, make: Callable[[], Any], version: Hashable = None) -> Any:
        with self._lock:
            if name not in self._values or self._values[name][0] != version:
                self._values[name] = (version, make())
            return self._values[name][1]
