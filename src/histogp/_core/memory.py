"""How much memory there is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# What is taken for it where the system does not say.
TYPICAL_MEMORY = 8 * 2**30
# Where Linux says what a container may have, in two versions.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_of_machine(limits: tuple[str, ...] = LIMITS) -> int:
    """The memory of the machine, or of the container, in bytes."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):  # on Windows
        found = [TYPICAL_MEMORY]
    for name in limits:
        with suppress(OSError, ValueError):  # there is none
            found.append(int(Path(name).read_text()))
    return min(found)
