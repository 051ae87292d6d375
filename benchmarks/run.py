"""``make bench``: measure everything, one case a process, print two tables, write the numbers as JSON.

``python benchmarks/run.py CASE ...`` runs some cases only. The first table has the bars that the project set itself;
the second has other classifiers on the same data, in the same run.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import active
import approximations
import chi2
import engine
import exp_chi2
import learning
import measure
import peers
import search
import tool
import uncertainty
from chi2_report import chi2_report
from exp_chi2_report import exp_chi2_report
from learning_report import learning_report
from measure import Line, Results, line
from uncertainty_report import uncertainty_report

JSON = Path(__file__).with_name("results.json")
ENGINE = [
    "startup",
    "fit_10090",
    "fit_10090_tight",
    "fit_50050",
    "fit_1500",
    "memory_10090",
    "cholesky",
    "svc",
    "prediction",
    "demo",
]
SEARCH = ["relevance", "ard", "search_10090", "search_50050", "search_memory", "helps_newsgroups"]
UNCERTAINTY = ["variance_times", "sampled_times", "sampled_bias", "calibrated_times", "calibrated_error"]
UNCERTAINTY += ["probability_digits", "sample_y"]
LEARNING = ["update_one", "update_15", "stream", "kills", "readers", "checkerboard"]
DRAWINGS = ["incremental", "one_vs_few_drawings", "exp_chi2_drawings"]
FASHION_LEARNING = ["query_times", "one_vs_few_fashion"]
CHI2 = ["chi2_error", "chi2_map_times", "streaming_ridge", "streaming_parquet", "chi2_gp", "chi2_resume"]
EXP_CHI2 = [
    "exp_chi2_fashion",
    "kernel_table",
    "exp_chi2_gp",
    "two_blocks",
    "exp_chi2_rivals",
    "exp_chi2_tables",
    "exp_chi2_terms",
]
TEXTS = ["exp_chi2_newsgroups", "exp_chi2_reuters"]
FASHION = ["prepare", "fit_fashion", "growth", "product", "quantized_fashion", "predict_command"]
FASHION_SEARCH = ["bounds", "quadrature", "helps_fashion"]
FASHION_UNCERTAINTY = [
    "variance_chain",
    "variance_dense",
    "sampled_bias_fashion",
    "calibrated_times_fashion",
    "calibrated_error_fashion",
    "calibrated_far",
    "probability_fashion",
    "one_class",
]
PEERS = {
    "histogp_exact": "histogp, exact prediction",
    "histogp_quantized": "histogp, quantised prediction",
    "histogp_poly": 'histogp, kernel="hik-poly", noise=3, quantised',
    "svc_rbf": "SVC, RBF on square roots",
    "linear_svc_chi2": "LinearSVC on AdditiveChi2Sampler",
    "ridge": "RidgeClassifier",
    "gradient_boosting": "HistGradientBoostingClassifier",
    "gpytorch_exact": "GPyTorch, exact GP, RBF on square roots",
}


def main(chosen: list[str]) -> None:
    results: Results = {}
    fashion = [*FASHION, *FASHION_SEARCH, *FASHION_UNCERTAINTY, *FASHION_LEARNING, *CHI2, *EXP_CHI2, *PEERS]
    for name in chosen or [*ENGINE, *SEARCH, *UNCERTAINTY, *LEARNING, *DRAWINGS, *TEXTS, *fashion]:
        print(f"... {name}", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, __file__, "--case", name], capture_output=True, text=True)
        if done.returncode:
            print(f"{name} left out: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            if name == "prepare":
                break
        else:
            results[name] = json.loads(done.stdout)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    JSON.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")
    print(f"{machine}\n")
    show([("what", "measured", "bar", ""), *report(results)])
    if list(help_report(results)):
        print("\nDoes the search help? Test accuracy, with 95% intervals:\n")
        show([("data", "kernel", "as given", "optimised", "fit"), *help_report(results)])
    if any(name in results for name in PEERS):
        print(f"\nFashion-MNIST, {peers.N_TRAIN:,} training images, 441 features, 10 classes:\n")
        show([("model", "fit", "prediction", "memory", "accuracy", "fit time of ours"), *peer_report(results)])
    print(f"\nThe numbers are in {JSON}.")


def show(lines: list[tuple[str, ...]]) -> None:
    widths = [max(len(cells[k]) for cells in lines) for k in range(len(lines[0]))]
    for cells in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip())


def peer_report(results: Results) -> Iterator[tuple[str, ...]]:
    ours = results.get("histogp_exact", {}).get("fit_seconds")
    for name, title in PEERS.items():
        if name in results:
            got = results[name]
            yield (
                title,
                f"{got['fit_seconds']:.2f} s",
                f"{got['prediction_us']:.1f} us",
                f"{got['megabytes']:.0f} MB",
                f"{got['accuracy']:.4f}",
                f"{got['fit_seconds'] / ours:.1f} times" if ours else "",
            )


def tool_report(results: Results) -> Iterator[Line]:
    """Lines about quantised prediction, model files and the command line."""
    if "quantized_fashion" in results:
        got = results["quantized_fashion"]
        yield line(
            "quantised prediction, Fashion-MNIST 60,000 x 441, 10 classes",
            f"{got['linear_us']:.1f} us",
            "<= 10 us",
            lambda: got["linear_us"] <= 10,
        )
        yield line(
            "  same labels as exact, n_bins = 100",
            f"{got['linear_agreement']:.2%} (accuracy {got['linear_accuracy']:.4f}, {got['bins']:.0f} bins a column); "
            f"nearest node {got['nearest_agreement']:.2%}",
            ">= 99.9%",
            lambda: got["linear_agreement"] >= 0.999,
        )
        ratio = got["nearest_error"] / got["linear_error"]
        yield line(
            "  largest error of a score",
            f"{got['linear_error']:.4f} (worst case of all inputs {got['worst_case']:.2f}); "
            f"nearest node {got['nearest_error']:.4f}, {ratio:.0f} times as much",
            "bounds hold, >= 5 times",
            lambda: ratio >= 5 and bool(got["linear_bounds_hold"]) and bool(got["nearest_bounds_hold"]),
        )
        yield line(
            "model file of 60,000 x 441: loading; predict-only",
            f"{got['load_seconds']:.2f} s ({got['file_mb']:.0f} MB); {got['table_mb']:.1f} MB, "
            f"{got['table_load_seconds']:.3f} s",
            "<= 1 s; <= 30 MB",
            lambda: got["load_seconds"] <= 1 and got["table_mb"] <= 30,
        )
    if "predict_command" in results:
        got = results["predict_command"]
        yield line(
            "histogp predict, 1,000,000 x 441 Parquet, 10 classes, quantised",
            f"{got['seconds']:.0f} s, {got['megabytes']:.0f} MB (the file has {got['file_mb']:.0f} MB)",
            "< 60 s, < 1,000 MB",
            lambda: got["seconds"] < 60 and got["megabytes"] < 1000,
        )
    if "demo" in results:
        got = results["demo"]
        yield line("make demo in a fresh clone", f"{got['seconds']:.0f} s", "< 180 s", lambda: got["seconds"] < 180)


def search_report(results: Results) -> Iterator[Line]:
    """Lines about the search for hyperparameters."""
    if "bounds" in results:
        got = results["bounds"]
        real = "; ".join(
            f"{name}: exact {got[f'{name}_exact']:.0f}, Fischer {got[f'{name}_fischer']:.0f}, "
            f"papers {got[f'{name}_papers']:.0f}"
            for name in ("digits", "fashion")
        )
        yield line(
            f"bounds of the log-determinant, {got['random_cases']:,.0f} random and 12 real matrices",
            f"{'none violated' if got['random_hold'] else 'VIOLATED'}, largest excess "
            f"{got['largest_violation']:.1g} ({real})",
            "no violation",
            lambda: bool(got["random_hold"]) and got["largest_violation"] < 1e-6,
        )
    if "quadrature" in results:
        got = results["quadrature"]
        yield line(
            "log-determinant by quadrature, N = 2,000, 16 probes, worst of 10 seeds",
            f"{got['largest_error']:.2%} off, {got['largest_in_standard_errors']:.1f} standard errors",
            "<= 1%, <= 3",
            lambda: got["largest_error"] <= 0.01 and got["largest_in_standard_errors"] <= 3,
        )
    if "relevance" in results:
        got = results["relevance"]
        for size in search.RELEVANCE_SIZES:
            yield line(
                f"relevance test, {size} examples a class, {search.RELEVANCE_RUNS} runs",
                f"both first in {got[f'first_{size}']:.1%}, accuracy {got[f'accuracy_{size}']:.3f} "
                f"against {got[f'plain_{size}']:.3f} (p = {got[f'p_{size}']:.0e})",
                ">= 90% at 20; p < 1e-7",
                lambda size=size: (size != 20 or got["first_20"] >= 0.9) and got[f"p_{size}"] < 1e-7,
            )
    if "ard" in results:
        got = results["ard"]
        yield line(
            "1,000 weights, 10,090 rows, 20 planted features, 5 seeds",
            f"{got['median_seconds']:.1f} s, slowest {got['slowest_seconds']:.1f} s, precision at 20 at least "
            f"{got['lowest_precision']:.2f}, {got['evaluations']:.0f} evaluations",
            "< 30 s, >= 0.9",
            lambda: got["slowest_seconds"] < 30 and got["lowest_precision"] >= 0.9,
        )
        yield line(
            "  gradient for all weights, solutions given",
            f"{got['gradient_in_products']:.1f} products; with the solution, warm, "
            f"{got['iterations_a_step'] + got['gradient_in_products']:.1f} for each vector and step",
            "<= 3 products",
            lambda: got["gradient_in_products"] <= 3,
        )
    if "search_10090" in results:
        got = results["search_10090"]
        ratio = got["bound_seconds"] / got["gradient_seconds"]
        gain = got["gradient_likelihood"] - got["bound_likelihood"]
        yield line(
            "eta and noise by gradient against bound, 10,090 x 1,000",
            f"log likelihood {gain:+.0f} ({got['gradient_likelihood']:.0f} +- {got['gradient_error']:.0f}), "
            f"{got['bound_seconds']:.1f} s / {got['gradient_seconds']:.1f} s = {ratio:.1f}",
            ">= 0, >= 2 times",
            lambda: gain >= 0 and ratio >= 2,
        )
        yield line(
            "optimised fit (eta, noise), 10,090 x 1,000 sparse, binary",
            f"{got['gradient_seconds']:.1f} s ({got['gradient_evaluations']:.0f} evaluations)",
            "< 8 s",
            lambda: got["gradient_seconds"] < 8,
        )
    if "search_50050" in results:
        got = results["search_50050"]
        yield line(
            "optimised fit (eta, noise), 50,050 x 1,000 sparse, binary",
            f"{got['seconds']:.1f} s ({got['evaluations']:.0f} evaluations)",
            "< 30 s",
            lambda: got["seconds"] < 30,
        )
    if results.keys() >= {"search_50050", "search_memory"}:
        small, large = results["search_memory"], results["search_50050"]
        yield line(
            "  memory above the data and the imports, 10,090 and 50,050 rows",
            f"{small['megabytes']:.0f} and {large['megabytes']:.0f} MB: {small['bytes_a_nonzero']:.0f} and "
            f"{large['bytes_a_nonzero']:.0f} bytes a non-zero",
            "linear",
            lambda: large["bytes_a_nonzero"] < 1.5 * small["bytes_a_nonzero"],
        )


def help_report(results: Results) -> Iterator[tuple[str, ...]]:
    """Accuracy with the parameters as given and after the search."""
    for case, title in (("helps_fashion", "Fashion-MNIST"), ("helps_newsgroups", "20 Newsgroups")):
        for kernel in search.KERNELS if case in results else ():
            got = results[case]
            fixed, found = (
                f"{got[f'{kernel} {kind} accuracy']:.4f} +- {got[f'{kernel} {kind} margin']:.4f}"
                for kind in ("fixed", "optimised")
            )
            duration = f"{got[f'{kernel} fixed seconds']:.1f} s, {got[f'{kernel} optimised seconds']:.1f} s"
            yield f"{title}, {got['examples']:,.0f} examples", kernel, fixed, found, duration


def report(results: Results) -> Iterator[Line]:
    """Lines of the first table: what, measured, bar, verdict; cases without a result are left out."""
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
        times = ", ".join(f"{got[f'n_{n}']:.2f}" for n in engine.GROWTH_SIZES)
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
        for kind, name, bar in (("exact", "exact", 8.0), ("quantized", "quantised", 0.5)):
            times = ", ".join(f"{got[f'{kind}_{n}']:.2f} us at N = {n:,}" for n in engine.PREDICTION_SIZES)
            yield line(
                f"{name} prediction, 1,000 sparse features, binary",
                times,
                f"<= {bar} us at 10,090",
                lambda kind=kind, bar=bar: got[f"{kind}_10090"] <= bar,
            )
    yield from tool_report(results)
    yield from search_report(results)
    yield from uncertainty_report(results)
    yield from learning_report(results)
    yield from chi2_report(results)
    yield from exp_chi2_report(results)
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
    if sys.argv[1:2] == ["--case"]:
        modules = (measure, engine, tool, search, uncertainty, learning, active, chi2, exp_chi2, approximations, peers)
        module = next(module for module in modules if hasattr(module, sys.argv[2]))
        print(json.dumps(getattr(module, sys.argv[2])()))
    else:
        main(sys.argv[1:])
