"""How long does `import histogp` take beyond NumPy, SciPy and scikit-learn? `python tools/import_time.py [RUNS]`

Each run is a fresh interpreter, which first imports everything of these packages that histogp uses. Prints the median
of the processor's time, and the modules that cost most of it. The bar is 0.5 s; `tests/test_imports.py` keeps large
modules out.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys

BASE = ("numpy", "scipy", "sklearn", "joblib", "threadpoolctl")
N_SHOWN = 12
MEASURE = """
import importlib, sys, time
for name in {base!r}:
    importlib.import_module(name)
print("now histogp", file=sys.stderr)
start = time.process_time()
import histogp.gp
print(time.process_time() - start)
"""
LIST = "import histogp.gp, sys; print(*sys.modules)"


def run(code: str, *options: str) -> tuple[str, str]:
    """What a fresh interpreter prints, on standard output and standard error."""
    done = subprocess.run([sys.executable, *options, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout, done.stderr


def main(n_runs: int = 5) -> None:
    loaded = run(LIST)[0].split()
    base = sorted(name for name in loaded if name.partition(".")[0] in BASE and "._" not in name)
    code = MEASURE.format(base=base)
    seconds = [float(run(code)[0]) for _ in range(n_runs)]
    print(f"import histogp: {statistics.median(seconds):.2f} s beyond its base, {min(seconds):.2f} s at best")
    told = run(code, "-X", "importtime")[1].partition("now histogp")[2]
    costs = [(int(own), name) for own, name in re.findall(r"import time: +(\d+) \| +\d+ \| *(\S+)", told)]
    packages: dict[str, int] = {}
    for cost, name in costs:
        package = name.partition(".")[0]
        packages[package] = packages.get(package, 0) + cost
    ours = [(cost, name) for cost, name in costs if name.startswith("histogp")]
    for title, rows in (("package", [(cost, name) for name, cost in packages.items()]), ("module of ours", ours)):
        print(f"\nms of one run by {title}, its own code alone")
        for cost, name in sorted(rows, reverse=True)[:N_SHOWN]:
            print(f"{cost / 1000:8.1f} {name}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
