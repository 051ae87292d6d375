"""A case runs in a process of its own, so that its memory and its compiled code are its own.

``python -m benchmarks.running MODULE NAME [--smoke]`` is that process: it imports one module and prints a result.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

from benchmarks.registry import Case, case_in
from benchmarks.results import Result, from_json, to_json

ROOT = Path(__file__).parents[1]


class CaseError(Exception):
    """A case, or the preparation of its data, did not come to an end; the message has its last words."""


def run_alone(case: Case, smoke: bool = False, environment: Mapping[str, str] | None = None) -> Result:
    """Run a case in a new process with additional environment variables."""
    return from_json(_python(["-m", "benchmarks.running", case.module, case.name, *["--smoke"] * smoke], environment))


def fetch_data(case: Case) -> None:
    """Have the data of a case in the cache, so that fetching them counts for nothing."""
    if case.data:
        _python(["-m", "benchmarks.data", *case.data], None)


def _python(arguments: list[str], environment: Mapping[str, str] | None) -> str:
    """What a Python process prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise CaseError(said[-1] if said else f"exit status {done.returncode}")
    return done.stdout


def _main(module: str, name: str, *options: str) -> None:
    case = case_in(module, name)
    start = perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        values = case.run("--smoke" in options)
    print(to_json(Result.now(name, values, perf_counter() - start, case.needs)), end="")


if __name__ == "__main__":
    _main(*sys.argv[1:])
