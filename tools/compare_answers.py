"""Do two checkouts of histogp give the same answers? `python tools/compare_answers.py OLD_CHECKOUT NEW_CHECKOUT`

Runs `answers.py` (of this folder) with the sources of each and compares the answers by name: the largest difference
in units of the largest number must be below 1e-12, unless `explained_differences.txt` accepts more. Ends with code 1 if
a difference is left. Options: `--only PATTERN` for some sections of `answers.py`, `--worst N` for how many to print.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

TOLERANCE = 1e-12
HERE = Path(__file__).resolve().parent


class Explained(NamedTuple):
    """Names of answers that may differ, by how much, and why."""

    pattern: str
    tolerance: float
    reason: str


def read_explained(path: Path) -> list[Explained]:
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = re.split(r"\t+|\s{2,}", line.strip(), maxsplit=2)
        if len(fields) != 3:
            raise SystemExit(f"{path.name}, line {number}: a pattern, a tolerance and a reason are needed.")
        pattern, tolerance, reason = fields
        found.append(Explained(pattern, np.inf if tolerance == "any" else float(tolerance), reason))
    return found


def ask(checkout: Path, output: Path, patterns: list[str]) -> dict[str, np.ndarray]:
    """The answers of a checkout, from a process of its own."""
    sources = checkout / "src"
    if not (sources / "histogp").is_dir():
        raise SystemExit(f"{checkout} is no checkout of histogp: it has no src/histogp.")
    environment = {**os.environ, "PYTHONPATH": str(sources), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "answers.py"), str(output), *patterns]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"answers.py failed with the sources of {checkout}.\n{done.stdout}")
    print(done.stdout.rstrip().rsplit("\n", 1)[-1])
    with np.load(output) as file:
        return {name.replace("|", "/"): file[name] for name in file.files}


def difference(old: np.ndarray, new: np.ndarray) -> float:
    """``max |old - new| / max |old|``; infinite for what cannot be compared."""
    if old.shape != new.shape or (old.dtype.kind in "US") != (new.dtype.kind in "US"):
        return np.inf
    if old.dtype.kind in "US":
        return 0.0 if np.array_equal(old, new) else np.inf
    if old.dtype != new.dtype and "f" in (old.dtype.kind, new.dtype.kind):
        return np.inf  # precision, too, is an answer
    if np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
        return 0.0
    old, new = old.astype(np.float64), new.astype(np.float64)
    usual = np.isfinite(old)
    if not np.array_equal(old[~usual], new[~usual], equal_nan=True) or not np.all(np.isfinite(new[usual])):
        return np.inf
    largest = np.max(np.abs(old[usual]), initial=0.0)
    return float(np.max(np.abs(old[usual] - new[usual])) / largest) if largest > 0 else np.inf


def compare(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> dict[str, tuple[float, str]]:
    """By name, the difference and what to say of it; equal answers are left out."""
    found = {}
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new or name not in old:
            found[name] = np.inf, "missing" if name not in new else "new"
            continue
        value = difference(old[name], new[name])
        if value > 0:
            found[name] = value, f"{_shown(old[name])} -> {_shown(new[name])}" if value == np.inf else ""
    return found


def _shown(array: np.ndarray) -> str:
    return str(array) if array.size == 1 else f"{array.dtype} {array.shape}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", metavar="PATTERN", action="append", default=[])
    parser.add_argument("--worst", metavar="N", type=int, default=20)
    options = parser.parse_args()
    explained = read_explained(HERE / "explained_differences.txt")
    with tempfile.TemporaryDirectory() as folder:
        old = ask(options.old, Path(folder) / "old.npz", options.only)
        new = ask(options.new, Path(folder) / "new.npz", options.only)
    found = compare(old, new)
    accepted: dict[Explained, int] = dict.fromkeys(explained, 0)
    unexplained = {}
    for name, (value, remark) in found.items():
        reasons = [one for one in explained if fnmatch.fnmatchcase(name, one.pattern) and value <= one.tolerance]
        if reasons:
            accepted[reasons[0]] += 1
        elif value > TOLERANCE:
            unexplained[name] = value, remark
    print(f"{len(old)} answers: {len(old) - len(found.keys() & old.keys())} equal to the bit, {len(found)} not.")
    for one, number in accepted.items():
        print(f"explained: {number} like {one.pattern}: {one.reason}")
    shown = sorted(unexplained or found, key=lambda name: -found[name][0])
    print(f"{len(unexplained)} differences without an explanation." if unexplained else "All of them are accepted.")
    for name in shown[: options.worst]:
        print(f"  {found[name][0]:8.1e}  {name}  {found[name][1]}".rstrip())
    if len(shown) > options.worst:
        print(f"  and {len(shown) - options.worst} more")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
