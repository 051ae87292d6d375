"""``histogp novelty``: how little the training rows tell about new ones, piece by piece."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from histogp.cli.arguments import add_command as new_command
from histogp.cli.arguments import add_data, needs_posterior
from histogp.cli.predict import Part, add_output, add_prediction, load_model, write_parts
from histogp.errors import DataError
from histogp.gp import VARIANCE_ESTIMATES, VARIANCE_METHODS

EXAMPLES = """
histogp novelty model.histogp new.csv
histogp novelty model.histogp new.parquet --method calibrated -o novelty.parquet
"""
COLUMNS = """\
A classifier gives a column novelty: 0 all is known, 1 nothing.
A one-class model gives novelty, which is minus its score, and outlier: 1 or 0."""


def add_command(commands: Any) -> None:
    """The options of ``histogp novelty``."""
    text = "say of each row how little the training rows tell about it"
    parser = new_command(commands, "novelty", text, EXAMPLES)
    parser.description = f"{parser.description}\n\n{COLUMNS}"
    parser.add_argument("model", metavar="MODEL", help="a file that histogp fit wrote")
    add_data(parser, labels=False)
    add_output(parser)
    parser.add_argument(
        "--method",
        metavar="METHOD",
        choices=["auto", *VARIANCE_METHODS],
        default="auto",
        help=f"how the variance is computed: auto, {', '.join(VARIANCE_METHODS)}; default: auto, which is precise up "
        "to 2,000 training rows and calibrated above, or as a one-class model was trained",
    )
    add_prediction(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write one line for each row, in their order."""
    model = load_model(options)
    needs_posterior(model, "Novelty")
    write_parts(options, model, [_part(model, options.method)], "judging")


def _part(model: Any, method: str) -> Part:
    """The columns for a classifier or a one-class model."""
    if is_classifier(model):
        return Part(["novelty"], lambda X: [model.novelty(X, method)])
    if not is_outlier_detector(model):
        raise DataError(
            "histogp novelty needs a classifier or a one-class model; for a regressor there is histogp predict "
            "--variance."
        )
    if method != "auto":
        _set_method(model, method)

    def columns(X: Any) -> Iterable[np.ndarray]:
        scores = model.score_samples(X)
        return [-scores, (scores < model.offset_).astype(np.int64)]

    return Part(["novelty", "outlier"], columns)


def _set_method(model: Any, method: str) -> None:
    """Refuse a method by which the scores would have another meaning than those that the offset comes from."""
    if model.criterion == "mean":
        raise DataError("--method has no meaning here: this one-class model judges by the mean, not by the variance.")
    if method not in (model.method, *VARIANCE_ESTIMATES) or model.method not in ("auto", method, *VARIANCE_ESTIMATES):
        raise DataError(
            f"This one-class model was trained with the variance {model.method!r}, and its limit for outliers does not "
            f"hold for {method!r}."
        )
    model.set_params(method=method)
