"""The options that say where rows and labels are, shared by the commands."""

from __future__ import annotations

import argparse
import math
import os
from itertools import product
from typing import Any

import numpy as np

import histogp
from histogp.cli.labels import like, match, numeric, read_labels, typed
from histogp.errors import DataError
from histogp.sources.source import Source, open_source

# The name of the kernel and of the noise that are found on the rows.
AUTO = "auto"
FORMATS = "csv, csv.gz, parquet, npz, npy, svm, svmlight or libsvm"


def add_command(commands: Any, name: str, text: str, examples: str) -> argparse.ArgumentParser:
    """A sub-parser with examples below its options."""
    return commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_data(parser: argparse.ArgumentParser, *, labels: bool) -> None:
    """``DATA``, ``--ignore`` and, if labels are needed, where they are."""
    parser.add_argument("data", metavar="DATA", help=f"rows of features: {FORMATS}")
    parser.add_argument(
        "--ignore", metavar="COLUMN", action="append", default=[], help="leave a column out; may be given repeatedly"
    )
    if labels:
        parser.add_argument(
            "--label", metavar="COLUMN", help="the column with the labels: its name, or its position from 0 or from -1"
        )
        parser.add_argument(
            "--labels", metavar="FILE", help="a file with one label a row: csv, txt, npy, npz or parquet"
        )


def open_data(options: argparse.Namespace, model: Any = None) -> Source:
    """The rows, in the columns that the model knows."""
    _keep_input(options)
    names = getattr(model, "feature_names_in_", None)
    return open_source(
        options.data,
        label=getattr(options, "label", None),
        ignore=options.ignore,
        features=None if names is None else list(names),
        n_features=getattr(model, "n_features_in_", None),
    )


def read_data(options: argparse.Namespace, task: str, model: Any = None) -> tuple[Any, np.ndarray, list[str] | None]:
    """All rows, their labels ("classification") or targets ("regression"), and the names of the features."""
    if options.label is not None and options.labels is not None:
        raise DataError(
            "--label and --labels exclude each other: the labels are in a column or in a file of their own."
        )
    source = open_data(options, model)
    chunk = source.read()
    labels = chunk.labels
    if options.labels is not None:
        labels = match(read_labels(options.labels), chunk.X.shape[0], options.labels)
    if labels is None:
        raise DataError(
            f"{options.data} has no labels of its own: name their column with --label or their file with --labels."
        )
    if task == "regression":
        return chunk.X, numeric(labels), source.feature_names
    return chunk.X, typed(labels) if model is None else like(labels, model.classes_), source.feature_names


def read_model(path: str) -> Any:
    """The model in a file; statistics, which can be saved too, are none."""
    model = histogp.load(path)
    if not hasattr(model, "get_params"):
        raise DataError(f"{path!r} holds a {type(model).__name__}, which is no model: fit one and save that.")
    return model


def has_posterior(model: Any) -> bool:
    """Whether it is a Gaussian process; models of --stream are not."""
    return hasattr(model, "posterior_")


def needs_posterior(model: Any, what: str) -> None:
    """Refuse a model of --stream for what only a Gaussian process can do."""
    if not has_posterior(model):
        raise DataError(f"{what} needs a Gaussian process; this model was learned with --stream and has only scores.")


def output_shape(model: Any) -> tuple[int, ...]:
    """What a regressor predicts for one row: () or (n_outputs,)."""
    return model.posterior_.output_shape if has_posterior(model) else np.shape(model.intercept_)


def needs_one_output(model: Any) -> None:
    """Refuse a regressor with several outputs where rows can have one target only."""
    n_outputs = math.prod(output_shape(model))
    if n_outputs > 1:
        raise DataError(f"The model has {n_outputs} outputs, but rows can have one target only here.")


def read_rows(options: argparse.Namespace, model: Any = None) -> tuple[Any, None, list[str] | None]:
    """All rows, no labels, and the names of the features; a column of labels is left out."""
    source = open_data(options, model)
    return source.read().X, None, source.feature_names


def _keep_input(options: argparse.Namespace) -> None:
    """Refuse an output that would take the place of an input."""
    outputs = [getattr(options, name, None) for name in ("output", "report")]
    inputs = [getattr(options, name, None) for name in ("data", "labels", "model")]
    for output, given in product(filter(None, outputs), filter(None, inputs)):
        if os.path.exists(output) and os.path.exists(given) and os.path.samefile(output, given):
            raise DataError(f"{output} is an input of this command; write to another file.")
