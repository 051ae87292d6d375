"""``histogp predict``: labels or values for new rows, piece by piece, and how sure they are."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from histogp.cli.arguments import add_command as new_command
from histogp.cli.arguments import add_data, needs_posterior, open_data, output_shape, read_model
from histogp.cli.console import progress
from histogp.cli.sinks import open_sink
from histogp.errors import DataError
from histogp.gp import VARIANCE_METHODS
from histogp.reports.evaluation import best_classes

EXAMPLES = """
histogp predict model.histogp new.csv
histogp predict model.histogp new.parquet --scores -o predictions.parquet
histogp predict model.histogp new.npy --prediction quantized -o predictions.jsonl
histogp predict model.histogp new.csv --proba --variance calibrated -o predictions.csv
"""
CHUNK_ROWS = 8192


class Part(NamedTuple):
    """Some columns of the output: their names, and what computes them for rows X, (n,) each."""

    names: list[str]
    columns: Callable[[Any], Iterable[np.ndarray]]


def add_command(commands: Any) -> None:
    """The options of ``histogp predict``."""
    parser = new_command(commands, "predict", "predict rows of a file of any size, with bounded memory", EXAMPLES)
    parser.add_argument("model", metavar="MODEL", help="a file that histogp fit wrote")
    add_data(parser, labels=False)
    add_output(parser)
    parser.add_argument(
        "--scores", action="store_true", help="also write the score of each class, or how usual a row is (one class)"
    )
    parser.add_argument("--proba", action="store_true", help="also write the probability of each class")
    parser.add_argument(
        "--variance",
        metavar="METHOD",
        choices=VARIANCE_METHODS,
        help=f"also write the variance of an observation, that is with noise: {', '.join(VARIANCE_METHODS)}; precise "
        "takes milliseconds a row, calibrated and sampled estimate it in microseconds, and the others bound it from "
        "above",
    )
    add_prediction(parser)
    parser.set_defaults(run=run)


def add_output(parser: argparse.ArgumentParser) -> None:
    """``-o``, the file to write."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="csv, parquet, jsonl or ndjson; default: csv on standard output"
    )


def add_prediction(parser: argparse.ArgumentParser) -> None:
    """How a model predicts, where that is not to be as it was saved."""
    parser.add_argument("--prediction", choices=["exact", "quantized"], help="default: as the model was saved")
    parser.add_argument("--n-bins", type=int, help="bins of quantized prediction; default: as the model was saved")
    parser.add_argument("--jobs", type=int, help="threads; default: all")


def load_model(options: argparse.Namespace) -> Any:
    """The model, with the options of `add_prediction`."""
    model = read_model(options.model)
    given = {"prediction": options.prediction, "n_bins": options.n_bins, "n_jobs": options.jobs}
    given = {name: value for name, value in given.items() if value is not None}
    if given:
        needs_posterior(model, "--prediction, --n-bins or --jobs")
    return model.set_params(**given)


def run(options: argparse.Namespace) -> None:
    """Write one line for each row, in their order."""
    model = load_model(options)
    parts = [_prediction(model, options.scores)]
    if options.proba:
        needs_posterior(model, "--proba")
        parts.append(_probabilities(model))
    if options.variance is not None:
        needs_posterior(model, "--variance")
        parts.append(_variance(model, options.variance))
    write_parts(options, model, parts, "predicting")


def write_parts(options: argparse.Namespace, model: Any, parts: Sequence[Part], title: str) -> None:
    """Read the data piece by piece and write the columns of all parts."""
    source = open_data(options, model)
    names = [name for part in parts for name in part.names]
    with open_sink(options.output, names) as sink, progress(title, source.n_rows) as advance:
        for chunk in source.chunks(CHUNK_ROWS):
            columns = [column for part in parts for column in part.columns(chunk.X)]
            sink.write(dict(zip(names, columns, strict=True)))
            advance(chunk.X.shape[0])


def _prediction(model: Any, with_scores: bool) -> Part:
    """The columns with predictions and, perhaps, scores."""
    if is_classifier(model):
        return _classes(model, with_scores)
    if is_outlier_detector(model):
        return _inliers(model, with_scores)
    if with_scores:
        raise DataError("--scores is for classifiers and one-class models; what a regressor predicts has no scores.")
    return Part(_outputs(model, "prediction"), lambda X: np.atleast_2d(model.predict(X).T))


def _classes(model: Any, with_scores: bool) -> Part:
    classes = model.classes_[1:] if len(model.classes_) <= 2 else model.classes_
    with_scores = with_scores and len(classes) > 0

    def columns(X: Any) -> Iterable[np.ndarray]:
        scores = model.decision_function(X)
        return [best_classes(model, scores), *(np.atleast_2d(scores.T) if with_scores else [])]

    return Part(["prediction", *(f"score_{label}" for label in classes if with_scores)], columns)


def _inliers(model: Any, with_scores: bool) -> Part:
    def columns(X: Any) -> Iterable[np.ndarray]:
        scores = model.score_samples(X)
        return [np.where(scores < model.offset_, -1, 1), *([scores] if with_scores else [])]

    return Part(["prediction", *(["score"] if with_scores else [])], columns)


def _probabilities(model: Any) -> Part:
    if not is_classifier(model):
        raise DataError("--proba needs a classifier: other models have no classes.")
    return Part([f"proba_{label}" for label in model.classes_], lambda X: model.predict_proba(X).T)


def _variance(model: Any, method: str) -> Part:
    return Part(_outputs(model, "variance"), lambda X: np.atleast_2d(model.predict_variance(X, method).T))


def _outputs(model: Any, name: str) -> list[str]:
    """The columns for a quantity that a regressor has for each of its outputs."""
    shape = () if is_classifier(model) else output_shape(model)
    return [f"{name}_{k}" for k in range(*shape)] if shape else [name]
