"""Lines of the first table about learning that goes on and about what to label next."""

from __future__ import annotations

from collections.abc import Iterator

import active
import learning
from measure import Line, Results, line


def learning_report(results: Results) -> Iterator[Line]:
    yield from _updates(results)
    yield from _incremental(results)
    yield from _safety(results)
    yield from _questions(results)
    yield from _strategies(results)


def _updates(results: Results) -> Iterator[Line]:
    if "update_one" in results:
        got = results["update_one"]
        yield line(
            "one example added to 10,090 x 1,000 sparse, binary, tol 1e-2",
            f"{got['milliseconds']:.0f} ms, {got['warm_iterations']:.0f} iterations; from scratch "
            f"{got['fit_milliseconds']:.0f} ms, {got['cold_iterations']:.0f}",
            "<= 25 ms",
            lambda: got["milliseconds"] <= 25,
        )
    if "update_15" in results:
        got = results["update_15"]
        ratio = got["update_seconds"] / got["fit_seconds"]
        yield line(
            "15 examples, one a class, added to 1,500",
            f"{1e3 * got['update_seconds']:.0f} ms, {ratio:.2f} of a fit",
            "<= 1/3 of a fit",
            lambda: ratio <= 1 / 3,
        )
    if "stream" in results:
        got = results["stream"]
        ratios = {n: got[f"stream_{n}"] / got[f"fit_{n}"] for n in (2, 15)}
        yield line(
            f"{learning.STREAM:,} examples in batches of {learning.BATCH}, a prediction after each, binary",
            f"{got['stream_2']:.1f} s, {ratios[2]:.0f} fits of all; 15 classes {got['stream_15']:.1f} s, "
            f"{ratios[15]:.0f} fits",
            "<= 20 fits",
            lambda: ratios[2] <= 20,
        )


def _incremental(results: Results) -> Iterator[Line]:
    if "incremental" in results:
        got = results["incremental"]
        yield line(
            f"{learning.N_CLASSES} classes of drawings, {learning.FIRST} to {learning.FIRST + learning.STEPS} examples "
            "each, a search at every step",
            f"accuracy {got['first_accuracy']:.3f} to {got['last_accuracy']:.3f}, incremental and from scratch differ "
            f"by {got['mean_difference']:+.4f} on average, {got['largest_difference']:.3f} at most; "
            f"{got['speedup_first']:.1f} times as fast in the first ten steps, {got['speedup_last']:.1f} times in the "
            f"last ({got['update_seconds_last']:.2f} s)",
            "coincide; speed-up grows",
            lambda: got["largest_difference"] <= 0.01 and got["speedup_last"] > max(1, got["speedup_first"]),
        )


def _safety(results: Results) -> Iterator[Line]:
    if "kills" in results:
        got = results["kills"]
        yield line(
            f"kill -9 during histogp update, {got['kills']:.0f} times",
            f"old file {got['old']:.0f}, new file {got['new']:.0f}, anything else {got['neither']:.0f}",
            "old or new",
            lambda: got["neither"] == 0,
        )
    if "readers" in results:
        got = results["readers"]
        yield line(
            f"{learning.READERS} readers during {learning.READING_SECONDS} s of updates",
            f"{got['updates']:,.0f} updates, {got['reads']:,.0f} reads, {got['mixtures']:.0f} mixtures",
            "no mixture",
            lambda: got["mixtures"] == 0,
        )


def _questions(results: Results) -> Iterator[Line]:
    if "query_times" in results:
        got = results["query_times"]
        simple = ("mean", "variance", "uncertainty")
        yield line(
            f"question to a pool of {active.POOL:,} x 441, {active.LABELLED:,} labelled, 10 classes",
            ", ".join(f"{name} {got[name]:.1f} s" for name in (*simple, "uncertainty+", "expected-change")),
            "<= 2 s (first three)",
            lambda: max(got[name] for name in simple) <= 2,
        )
        batches = ("batch-variance", "batch-uncertainty")
        yield line(
            "  batch of 10 that knows what it teaches",
            ", ".join(f"{name} {got[name]:.1f} s" for name in batches),
            "<= 10 s",
            lambda: max(got[name] for name in batches) <= 10,
        )


def _strategies(results: Results) -> Iterator[Line]:
    if "checkerboard" in results:
        got = results["checkerboard"]
        for name in active.STRATEGIES:
            scores = ", ".join(f"{got[f'{name}_{n}']:.3f}" for n in active.BOARD_POINTS)
            yield line(
                f"checkerboard, {active.BOARDS} runs: {name}",
                f"accuracy {scores} with {', '.join(map(str, active.BOARD_POINTS))} labels; area "
                f"{got[f'{name}_gain']:+.4f} +- {got[f'{name}_margin']:.4f} against random",
                "reported",
                lambda: True,
            )
    for case, title, numbers in (
        ("one_vs_few_drawings", "QuickDraw", active.DRAWN),
        ("one_vs_few_fashion", "Fashion-MNIST", active.WORN),
    ):
        for n in numbers if case in results else ():
            got = results[case]
            labels = {name: got[f"{n}_{name}_labels"] for name in active.STRATEGIES}
            needed = min(labels.values()) / active.TASK_BUDGET
            areas = ", ".join(
                f"{name} {got[f'{n}_{name}_area']:.3f} ({got[f'{n}_{name}_gain']:+.3f} +- "
                f"{got[f'{n}_{name}_margin']:.3f}; {labels[name]:.0f})"
                for name in active.STRATEGIES
            )
            yield line(
                f"{title}, one class against {n}, {active.TASKS} tasks: area (gain; labels for random's last AUC)",
                f"{areas}; the best needs {needed:.0%}",
                "<= 60% of the labels",
                lambda needed=needed: needed <= 0.6,
            )
