"""How much memory there is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

# What is taken for it where the system does not say.
TYPICAL_MEMORY = 8 * 2**30
# Where Linux says to which groups a process belongs, and what all in a group may have together, in two versions.
GROUPS = "/proc/self/cgroup"
LIMITS = ("/sys/fs/cgroup{}/memory.max", "/sys/fs/cgroup/memory{}/memory.limit_in_bytes")


def memory_of_machine(groups: str = GROUPS, limits: tuple[str, ...] = LIMITS) -> int:
    """The memory of the machine, or what the process may have of it, in bytes."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):  # on Windows
        found = [TYPICAL_MEMORY]
    with suppress(ImportError):  # on Windows
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [allowed] if allowed != resource.RLIM_INFINITY else []
    paths = {"/"}
    with suppress(OSError):
        paths |= {line.split(":", 2)[2] for line in Path(groups).read_text().splitlines()}
    nested = {str(outer) for path in paths for outer in (Path(path), *Path(path).parents)}
    for path in nested:
        for name in limits:
            with suppress(OSError, ValueError):  # there is none
                found.append(int(Path(name.format(path.rstrip("/"))).read_text()))
    return min(found)
