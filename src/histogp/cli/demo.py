"""``histogp demo``: learn scikit-learn's digits and write a report; nothing is downloaded."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from histogp.cli.arguments import add_command as new_command
from histogp.cli.console import progress, say
from histogp.cli.evaluate import write_page
from histogp.datasets import make_bags_of_words
from histogp.gp.classifier import HistogramGPClassifier
from histogp.io.atomic import replaceable
from histogp.reports.comparison import compare, section
from histogp.reports.curves import Point, learning_curve
from histogp.reports.report import report

EXAMPLES = """
histogp demo
histogp demo -o digits.html
"""
SIZES = (500, 2_000, 8_000, 32_000)
N_TEST = 5_000


def add_command(commands: Any) -> None:
    """The options of ``histogp demo``."""
    parser = new_command(commands, "demo", "learn to read digits, and write a report to look at", EXAMPLES)
    parser.add_argument(
        "-o", "--output", metavar="HTML", default="histogp-demo.html", help="default: histogp-demo.html"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Learn, evaluate, report."""
    replaceable(Path(options.output))
    # Eight by eight counts of ink: each image is a histogram as it is.
    X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    with progress("compiling, once") as advance:
        HistogramGPClassifier().fit(X_train[:50], y_train[:50]).predict(X_test)
        advance(title="learning digits")
        start = perf_counter()
        model = HistogramGPClassifier().fit(X_train, y_train)
        seconds = perf_counter() - start
        results = compare(X_train, y_train, X_test, y_test, say=lambda stage: advance(title=stage))
        advance(title="timing predictions on bags of words")
        page, evaluation = report(
            model,
            X_test,
            y_test,
            title="Reading handwritten digits",
            image_shape=(8, 8),
            speed=list(prediction_times()),
            kernels=section(results, "classification"),
            say=lambda stage: advance(title=stage),
        )
        write_page(options.output, page)
    say(f"{model.n_samples_:,} digits learned in {seconds:.2f} s by HistogramGPClassifier() as it stands")
    say(f"It found: {model.in_words()}")
    say(f"{evaluation.n_samples} others read with an accuracy of {evaluation.scores['accuracy']:.3f}")
    best = max(results, key=lambda one: one.score)
    say(f"Of {len(results)} kernels {best.kernel} reads them best: {best.score:.3f}")
    say(f"The report is in {Path(options.output).resolve()}: open it in a browser.")


def prediction_times() -> Iterator[Point]:
    """Exact and quantized prediction by the intersection kernel for growing numbers of synthetic bags of words."""
    X, y = make_bags_of_words(max(SIZES) + N_TEST, random_state=0)
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[: max(SIZES)], y[: max(SIZES)])
    yield from learning_curve(model, X[-N_TEST:], y[-N_TEST:], SIZES)
