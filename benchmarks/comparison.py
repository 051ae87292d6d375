"""Times of the same cases with two checkouts of histogp, interleaved, so that both see the same moods of a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.registry import Bar, Case
from benchmarks.running import ROOT, fetch_data, run_alone

BAR = Bar("<=", 1.1)
ROUNDS = 5
TIME = "seconds"


@dataclass(frozen=True)
class Comparison:
    """Seconds of one case, round by round, with the old and the new checkout."""

    case: str
    old: tuple[float, ...]
    new: tuple[float, ...]

    @property
    def ratios(self) -> np.ndarray:
        """New divided by old, for each round."""
        return np.divide(self.new, self.old)

    @property
    def ratio(self) -> float:
        """The median over the rounds."""
        return float(np.median(self.ratios))

    @property
    def is_met(self) -> bool:
        """Whether the ratio is below the bar."""
        return BAR.is_met(self.ratio)

    def cells(self) -> tuple[str, ...]:
        """The line of a table."""
        return (
            self.case,
            f"{np.median(self.old):.3g} s",
            f"{np.median(self.new):.3g} s",
            f"{self.ratio:.3f}",
            " ".join(f"{ratio:.2f}" for ratio in self.ratios),
            str(BAR),
            "met" if self.is_met else "MISSED",
        )


HEADER = ("case", "old", "new", "new / old", "each round", "bar", "")


def compare(
    old: Path,
    new: Path,
    cases: Sequence[Case],
    rounds: int = ROUNDS,
    smoke: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> list[Comparison]:
    """Run cases that return "seconds" against both checkouts, in turn, each in a process of its own."""
    environments = [_environment(checkout) for checkout in (old, new)]
    found = []
    for case in cases:
        fetch_data(case)
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            # Each goes first every other time.
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                values = run_alone(case, smoke, environments[side]).values
                if TIME not in values:
                    raise ValueError(f"The case {case.name} has no value {TIME!r} to compare.")
                times[side].append(values[TIME])
            say(f"{case.name}, round {number + 1} of {rounds}: {times[0][-1]:.3g} s, {times[1][-1]:.3g} s")
        found.append(Comparison(case.name, tuple(times[0]), tuple(times[1])))
    return found


def _environment(checkout: Path) -> dict[str, str]:
    """Variables with which Python imports histogp from a checkout."""
    source = checkout.resolve() / "src"
    if not (source / "histogp" / "__init__.py").is_file():
        raise ValueError(f"There is no src/histogp in {str(checkout)!r}; give the folder of a checkout of histogp.")
    variables = {"PYTHONPATH": os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])}
    command = [sys.executable, "-c", "import histogp; print(histogp.__file__)"]
    imported = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    if Path(imported.stdout.strip()).resolve().parents[1] != source:
        raise ValueError(f"Python imports histogp from {imported.stdout.strip()}, not from {str(source)!r}.")
    return variables
