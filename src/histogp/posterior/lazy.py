"""Values that are made when they are first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


class Lazy:
    """``Lazy().get(name, make)`` calls ``make`` once, also when several threads ask at the same time.

    With a ``version`` the value of another version is made anew and takes its place, so that memory stays bounded.
    Values of other names can be asked for meanwhile, also by ``make``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._values: dict[str, tuple[Hashable, Any]] = {}

    def get(self, name: str, make: Callable[[], Any], version: Hashable = None) -> Any:
        return self._get(name, make, version, lambda present: present == version)

    def get_at_least(self, name: str, size: int, make: Callable[[], Any]) -> Any:
        """The same for a value that serves up to some size: it is made anew for a larger one only."""
        return self._get(name, make, size, lambda present: present >= size)

    def put(self, name: str, value: Any, version: Hashable = None) -> None:
        with self._lock:
            self._values[name] = (version, value)

    def present(self, name: str) -> tuple[Hashable, Any] | None:
        """The version and the value, if it was made."""
        return self._values.get(name)

    def _get(self, name: str, make: Callable[[], Any], version: Hashable, serves: Callable[[Any], bool]) -> Any:
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            found = self._values.get(name)
            if found is None or not serves(found[0]):
                found = (version, make())
                self._values[name] = found
            return found[1]
