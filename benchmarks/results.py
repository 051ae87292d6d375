"""What was measured, when, and on what: one small JSON file a case, in git.

No paths and no names of hosts or users are stored.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("results")
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
SIGNIFICANT_DIGITS = 6


@dataclass(frozen=True)
class Result:
    """The values of a case, and where they come from.

    commit : of histogp, None outside of a git checkout
    modified : whether its source differed from the commit
    date : UTC, of the end of the run
    seconds : duration of the whole case
    versions : of Python and packages
    machine : processor, cores, gigabytes of memory
    """

    case: str
    values: dict[str, float]
    commit: str | None
    modified: bool
    date: str
    seconds: float
    versions: dict[str, str]
    machine: dict[str, Any]

    @classmethod
    def now(cls, case: str, values: dict[str, float], seconds: float, needs: Iterable[str] = ()) -> Result:
        """The result of a case that has just run in this process."""
        import histogp

        source = Path(histogp.__file__).parent
        commit = _git(source, "rev-parse", "HEAD")
        return cls(
            case,
            {name: rounded(value) for name, value in values.items()},
            commit,
            commit is not None and bool(_git(source, "status", "--porcelain", "--", ".")),
            datetime.datetime.now(datetime.UTC).date().isoformat(),
            rounded(seconds),
            {"python": platform.python_version(), "histogp": histogp.__version__, **_versions((*PACKAGES, *needs))},
            machine(),
        )


def to_json(result: Result) -> str:
    """The text of a file of results."""
    return json.dumps(asdict(result), indent=2, allow_nan=False) + "\n"


def from_json(text: str) -> Result:
    """The inverse of `to_json`."""
    return Result(**json.loads(text))


def store(result: Result, folder: Path = FOLDER) -> Path:
    """Write a result in place of an earlier one of the same case, and return where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.case}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(to_json(result))
    os.replace(temporary, path)
    return path


def load(folder: Path = FOLDER) -> dict[str, Result]:
    """All stored results, by case."""
    return {path.stem: from_json(path.read_text()) for path in sorted(folder.glob("*.json"))}


def machine() -> dict[str, Any]:
    """Processor, cores that this process may use, and memory in gigabytes."""
    return {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "memory_gb": _memory_gb()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # a command
            continue
    return found


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says about a folder; None if it says nothing, is not there, or knows no such folder."""
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def rounded(value: float) -> float:
    """The value with six significant digits, which are enough to store."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
