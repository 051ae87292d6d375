"""``make bench``: measure the engine, one case a process, and print one table.

``python benchmarks/run.py CASE`` runs a single case.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator

import cases

Results = dict[str, dict[str, float]]
SPARSE = [
    "startup",
    "fit_10090",
    "fit_10090_tight",
    "fit_50050",
    "fit_1500",
    "memory_10090",
    "cholesky",
    "svc",
    "prediction",
]
FASHION = ["prepare", "fit_fashion", "growth", "product"]


def main() -> None:
    results: Results = {}
    for name in SPARSE + FASHION:
        print(f"... {name}", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
        if done.returncode:
            print(f"{name} failed: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            if name == "prepare":
                break
        else:
            results[name] = json.loads(done.stdout)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n")
    lines = [("what", "measured", "bar", ""), *report(results)]
    widths = [max(len(line[k]) for line in lines) for k in range(3)]
    for what, measured, bar, verdict in lines:
        print(f"{what:<{widths[0]}}  {measured:<{widths[1]}}  {bar:<{widths[2]}}  {verdict}")


def report(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """Lines of the table: what, measured, bar, verdict; cases without a result are left out."""

    def line(what: str, measured: str, bar: str, met: Callable[[], bool]) -> tuple[str, str, str, str]:
        return what, measured, bar, "met" if met() else "MISSED"

    for what, case, bar in (
        ("fit, 10,090 x 1,000 sparse, binary, tol 1e-2", "fit_10090", 0.35),
        ("fit, 10,090 x 1,000 sparse, binary, tol 1e-7", "fit_10090_tight", 0.8),
        ("fit, 50,050 x 1,000 sparse, binary", "fit_50050", 2.0),
        ("fit, 1,500 x 1,000 sparse, 15 classes", "fit_1500", 0.15),
    ):
        if case in results:
            got = results[case]
            detail = f"{got['seconds']:.3f} s ({got['iterations']:.0f} iterations, rank {got['rank']:.0f})"
            yield line(what, detail, f"< {bar} s", lambda got=got, bar=bar: got["seconds"] < bar)
    if results.keys() >= {"cholesky", "fit_10090", "memory_10090"}:
        dense, ours, memory = results["cholesky"], results["fit_10090"], results["memory_10090"]
        faster, leaner = dense["seconds"] / ours["seconds"], dense["megabytes"] / memory["megabytes"]
        yield line(
            "dense Cholesky at 10,090, matrix given, against our fit",
            f"{faster:.0f} times the time ({dense['seconds']:.1f} s; {dense['best_case_seconds']:.1f} s in place), "
            f"{leaner:.0f} times the memory ({dense['megabytes']:.0f} MB against {memory['megabytes']:.0f} MB)",
            ">= 25, >= 8",
            lambda: faster >= 25 and leaner >= 8,
        )
    if results.keys() >= {"svc", "fit_10090"}:
        peer, ours = results["svc"], results["fit_10090"]["seconds"]
        slower, with_our_matrix = (
            (peer["fit_seconds"] + peer[name]) / ours for name in ("matrix_seconds", "our_matrix_seconds")
        )
        yield line(
            "SVC with precomputed HIK at 10,090, against our fit",
            f"{slower:.0f} times the time (matrix by scikit-learn {peer['matrix_seconds']:.0f} s); "
            f"{with_our_matrix:.0f} times with the matrix by histogp.kernels ({peer['our_matrix_seconds']:.1f} s)",
            ">= 20",
            lambda: slower >= 20,
        )
    if "fit_fashion" in results:
        got = results["fit_fashion"]
        yield line(
            "fit, Fashion-MNIST 60,000 x 441, 10 classes",
            f"{got['seconds']:.1f} s ({got['iterations']:.0f} iterations, rank {got['rank']:.0f}), "
            f"{got['megabytes'] / 1024:.2f} GB, test accuracy {got['accuracy']:.4f}",
            "< 15 s, < 2 GB, >= 0.89",
            lambda: got["seconds"] < 15 and got["megabytes"] < 2048 and got["accuracy"] >= 0.89,
        )
    if "growth" in results:
        got = results["growth"]
        times = ", ".join(f"{got[f'n_{n}']:.2f}" for n in cases.GROWTH_SIZES)
        yield line(
            "growth of the fit, Fashion-MNIST 7,500 to 60,000",
            f"exponent {got['exponent']:.2f} ({times} s)",
            "<= 1.45",
            lambda: got["exponent"] <= 1.45,
        )
    if "product" in results:
        got = results["product"]
        for what, kind, bar in (("block of 16, per vector", "block", 1.6), ("one vector", "vector", 5.0)):
            yield line(
                f"product, Fashion-MNIST 60,000 x 441, {what}",
                f"{got[f'{kind}_ratio']:.2f} times reading 8 bytes a non-zero at {got['bandwidth_gb']:.0f} GB/s "
                f"({1e3 * got[f'{kind}_seconds']:.0f} ms in all)",
                f"<= {bar}",
                lambda kind=kind, bar=bar: got[f"{kind}_ratio"] <= bar,
            )
    if "prediction" in results:
        got = results["prediction"]
        times = ", ".join(f"{got[f'n_{n}']:.1f} us at N = {n:,}" for n in cases.PREDICTION_SIZES)
        yield line("exact prediction, sparse, binary", times, "<= 8 us at 10,090", lambda: got["n_10090"] <= 8)
    if "startup" in results:
        got = results["startup"]
        yield line(
            "import histogp after import sklearn",
            f"{got['import_seconds']:.2f} s, {got['import_added_seconds']:.2f} s more than sklearn.gaussian_process",
            "<= 0.5 s more",
            lambda: got["import_added_seconds"] <= 0.5,
        )
        yield line(
            "first fit of digits, cold cache; warm",
            f"{got['cold_fit_seconds']:.1f} s, {'announced' if got['announced'] else 'silent'}; "
            f"{got['warm_fit_seconds']:.2f} s",
            "< 30 s and says so; < 1 s",
            lambda: got["cold_fit_seconds"] < 30 and got["warm_fit_seconds"] < 1 and bool(got["announced"]),
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(getattr(cases, sys.argv[1])()))
    else:
        main()
