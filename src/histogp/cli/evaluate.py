"""``histogp evaluate``: how good a model is on labeled rows."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from histogp.cli.arguments import add_command as new_command
from histogp.cli.arguments import add_data, needs_one_output, needs_posterior, read_data
from histogp.cli.console import progress, say
from histogp.cli.predict import add_prediction, load_model
from histogp.errors import DataError
from histogp.io.atomic import replaceable, replacing
from histogp.reports.evaluation import evaluate
from histogp.reports.report import report

EXAMPLES = """
histogp evaluate model.histogp test.csv --label species
histogp evaluate model.histogp test.csv --label species --top-k 5
histogp evaluate model.histogp X_test.npy --labels y_test.npy --report report.html --image-shape 28x28
"""


def add_command(commands: Any) -> None:
    """The options of ``histogp evaluate``."""
    parser = new_command(commands, "evaluate", "measure a model on labeled rows", EXAMPLES)
    parser.add_argument("model", metavar="MODEL", help="a file that histogp fit wrote")
    add_data(parser, labels=True)
    parser.add_argument("--report", metavar="HTML", help="also write a page with charts, which needs no network")
    parser.add_argument("--image-shape", metavar="HxW", type=_shape, help="rows are gray-level images, for the report")
    parser.add_argument(
        "--top-k", metavar="K", type=int, help="also say how often the label is among the K most likely ones"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    add_prediction(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print scores and, if asked, write the report."""
    model = load_model(options)
    if options.report is not None:
        needs_posterior(model, "--report")
        replaceable(Path(options.report))
    if is_outlier_detector(model):
        raise DataError("A one-class model has no classes to compare with labels; histogp novelty says what it finds.")
    if not is_classifier(model):
        needs_one_output(model)
    task = "classification" if is_classifier(model) else "regression"
    if options.top_k is not None:
        if task == "regression":
            raise DataError("--top-k needs a classifier; this model is a regressor.")
        if not 1 <= options.top_k <= len(model.classes_):
            raise DataError(f"--top-k must be from 1 to {len(model.classes_)}, the number of classes.")
    with progress(f"reading {options.data}") as advance:
        X, y, _ = read_data(options, task, model)
        if options.report is None:
            advance(title="evaluating")
            evaluation = evaluate(model, X, y, options.top_k)
        else:
            if (
                options.image_shape is not None
                and options.image_shape[0] * options.image_shape[1] != model.n_features_in_
            ):
                height, width = options.image_shape
                raise DataError(f"Images of {height} x {width} pixels do not have {model.n_features_in_} features.")
            title = f"{Path(options.model).stem} on {Path(options.data).name}"
            page, evaluation = report(
                model,
                X,
                y,
                title=title,
                image_shape=options.image_shape,
                top_k=options.top_k,
                say=lambda stage: advance(title=stage),
            )
            write_page(options.report, page)
    results = {"rows": evaluation.n_samples, **evaluation.scores, "microseconds a row": evaluation.microseconds}
    if task == "classification" and (n_unknown := int(np.sum(~np.isin(y, model.classes_)))):
        results["rows of unknown classes"] = n_unknown
    if options.json:
        say(json.dumps({name: value if np.isfinite(value) else None for name, value in results.items()}))
        return
    for name, value in results.items():
        say(f"{name:<24} {value:,.4f}" if isinstance(value, float) else f"{name:<24} {value:,}")


def write_page(path: str, page: str) -> None:
    """Write a report as a whole or not at all."""
    with replacing(Path(path)) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _shape(text: str) -> tuple[int, int]:
    height, _, width = text.lower().partition("x")
    if not (height.isdecimal() and width.isdecimal() and int(height) and int(width)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a height and a width such as 28x28")
    return int(height), int(width)
