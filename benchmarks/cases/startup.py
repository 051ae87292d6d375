"""What a new user waits for: imports, the first fit, the demo."""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks.measure import timed
from benchmarks.registry import case
from benchmarks.running import ROOT

IMPORT = "from time import perf_counter as t; import sklearn; a = t(); import {}; print(t() - a)"
FIT = """
from time import perf_counter
from sklearn.datasets import load_digits
from histogp import HistogramGPClassifier
X, y = load_digits(return_X_y=True)
start = perf_counter()
HistogramGPClassifier({}).fit(X, y)
print(perf_counter() - start)
"""


@case(
    "startup",
    group="startup",
    bar={"import_added_seconds": "<= 0.5", "cold_fit_seconds": "< 30", "warm_fit_seconds": "< 1", "announced": "== 1"},
    smoke={"repeats": 1},
)
def startup(repeats: int = 5) -> dict[str, float]:
    """Import after that of scikit-learn, and the first fit of digits, with a cold and with a warm cache."""
    imports = float(np.median([_run(IMPORT.format("histogp.gp"))[0] for _ in range(repeats)]))
    # What scikit-learn itself costs when its estimators are used, for comparison.
    used = [name for name in ("sklearn.gaussian_process", "sklearn.callback") if importlib.util.find_spec(name)]
    peers = float(np.median([_run(IMPORT.format(", ".join(used)))[0] for _ in range(repeats)]))
    with tempfile.TemporaryDirectory() as cache:
        # Cold: the iterative solver, which compiles most.
        cold, said = _run(FIT.format("solver='cg'"), NUMBA_CACHE_DIR=cache)
        _run(FIT.format(""), NUMBA_CACHE_DIR=cache)
        warm, _ = _run(FIT.format(""), NUMBA_CACHE_DIR=cache)
    return {
        "import_seconds": imports,
        "import_sklearn_seconds": peers,
        "import_added_seconds": imports - peers,
        "cold_fit_seconds": cold,
        "warm_fit_seconds": warm,
        "announced": float("compiles" in said),
    }


def _run(code: str, **environment: str) -> tuple[float, str]:
    """The number that a program prints, and what it says on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return float(done.stdout), done.stderr


@case("demo", group="startup", bar={"seconds": "< 180"}, needs=("git", "make"), smoke={"target": "--version"})
def demo(target: str = "demo") -> dict[str, float]:
    """``make demo`` in a fresh clone, with a new environment."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "--quiet", ROOT, f"{folder}/clone"], check=True)
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache"}
        make = ["make", "-C", f"{folder}/clone", target]
        _, duration = timed(lambda: subprocess.run(make, check=True, stdout=sys.stderr, env=environment))
        return {
            "seconds": duration,
            "megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        }
