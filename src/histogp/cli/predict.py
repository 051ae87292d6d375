"""``histogp predict``: labels or values for new rows, piece by piece."""

from __future__ import annotations

import argparse
from typing import Any

from sklearn.base import is_classifier

from histogp.cli.console import progress
from histogp.cli.data import add_command as new_command
from histogp.cli.data import add_data, open_data
from histogp.cli.sinks import open_sink
from histogp.estimators.load import load

EXAMPLES = """
histogp predict model.histogp new.csv
histogp predict model.histogp new.parquet --scores -o predictions.parquet
histogp predict model.histogp new.npy --prediction quantized -o predictions.jsonl
"""
CHUNK_ROWS = 8192


def add_command(commands: Any) -> None:
    parser = new_command(commands, "predict", "predict rows of a file of any size, with bounded memory", EXAMPLES)
    parser.add_argument("model", metavar="MODEL", help="a file that histogp fit wrote")
    add_data(parser, labels=False)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="csv, parquet, jsonl or ndjson; default: csv on standard output"
    )
    parser.add_argument("--scores", action="store_true", help="also write the score of each class")
    add_prediction(parser)
    parser.set_defaults(run=run)


def add_prediction(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prediction", choices=["exact", "quantized"], help="default: as the model was saved")
    parser.add_argument("--n-bins", type=int, help="bins of quantised prediction; default: as the model was saved")
    parser.add_argument("--jobs", type=int, help="threads; default: all")


def load_model(options: argparse.Namespace) -> Any:
    """The model, with the options of `add_prediction`."""
    model = load(options.model)
    given = {"prediction": options.prediction, "n_bins": options.n_bins, "n_jobs": options.jobs}
    return model.set_params(**{name: value for name, value in given.items() if value is not None})


def run(options: argparse.Namespace) -> None:
    """Write one line for each row, in their order."""
    model = load_model(options)
    source = open_data(options, model)
    names = _columns(model, options.scores)
    # Names were matched when the columns were chosen.
    vars(model).pop("feature_names_in_", None)
    with open_sink(options.output, names) as sink, progress("predicting", source.n_rows) as advance:
        for chunk in source.chunks(CHUNK_ROWS):
            sink.write(dict(zip(names, _predict(model, chunk.X, options.scores), strict=True)))
            advance(chunk.X.shape[0])


def _columns(model: Any, with_scores: bool) -> list[str]:
    if is_classifier(model):
        classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
        return ["prediction", *(f"score_{label}" for label in classes if with_scores)]
    if model._single_output:
        return ["prediction"]
    return [f"prediction_{k}" for k in range(model._scale.size)]


def _predict(model: Any, X: Any, with_scores: bool) -> list[Any]:
    if not is_classifier(model):
        values = model.predict(X)
        return [values] if values.ndim == 1 else list(values.T)
    scores = model.decision_function(X)
    labels = model._labels(scores)
    if not with_scores:
        return [labels]
    return [labels, *([scores] if scores.ndim == 1 else scores.T)]
