"""``histogp update``: teach a model further rows."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from time import perf_counter
from typing import Any

from sklearn.base import is_classifier, is_outlier_detector

from histogp.cli.arguments import add_command as new_command
from histogp.cli.arguments import (
    add_data,
    has_posterior,
    needs_one_output,
    needs_posterior,
    output_shape,
    read_data,
    read_model,
    read_rows,
)
from histogp.cli.console import progress, say
from histogp.cli.labels import typed
from histogp.errors import DataError
from histogp.io.atomic import replaceable

EXAMPLES = """
histogp update model.histogp more.csv --label species
histogp update model.histogp more.npy --labels more_labels.npy -o newer.histogp
"""


def add_command(commands: Any) -> None:
    """The options of ``histogp update``."""
    parser = new_command(commands, "update", "teach a model further rows, also of new classes", EXAMPLES)
    parser.add_argument("model", metavar="MODEL", help="a file that histogp fit wrote, with its training rows")
    add_data(parser, labels=True)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to write the model; default: in place of the one that was read"
    )
    parser.add_argument("--jobs", type=int, help="threads; default: all")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Learn and write the model; nothing is written if anything fails."""
    output = options.output or options.model
    before = _version(options.model)
    model = read_model(options.model)
    n_jobs = getattr(model, "n_jobs", None)
    if options.jobs is not None:
        needs_posterior(model, "--jobs")
        model.set_params(n_jobs=options.jobs)
    replaceable(Path(output))
    with progress(f"reading {options.data}") as advance:
        X, y = _read(options, model)
        n_before, classes = _n_samples(model), getattr(model, "classes_", None)
        advance(title=f"learning from {X.shape[0]:,} more rows")
        start = perf_counter()
        model.partial_fit(X, y)
        seconds = perf_counter() - start
        if options.jobs is not None:
            model.set_params(n_jobs=n_jobs)
        advance(title=f"writing {output}")
        if os.path.exists(output) and os.path.samefile(output, options.model) and _version(output) != before:
            raise DataError(f"{output} has changed while it was being updated; nothing was written.")
        model.save(output)
    new = [] if classes is None else [str(label) for label in model.classes_ if label not in classes]
    say(
        f"{output}: {_n_samples(model) - n_before:,} rows more, {_n_samples(model):,} in all"
        + (f"; new: {', '.join(new)}" if new else "")
        + f"; learned in {seconds:.2f} s"
        + (f" ({model.n_iter_} iterations)" if has_posterior(model) else "")
    )


def _read(options: argparse.Namespace, model: Any) -> tuple[Any, Any]:
    if is_outlier_detector(model):
        return read_rows(options, model)[0], None
    if is_classifier(model):
        X, y, _ = read_data(options, "classification", model)
        return X, typed(y) if model.classes_.dtype.kind in "biu" else y
    needs_one_output(model)
    X, y, _ = read_data(options, "regression", model)
    return X, y.reshape(-1, *output_shape(model))


def _n_samples(model: Any) -> int:
    return model.n_samples_ if has_posterior(model) else model.n_samples_seen_


def _version(path: str) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns
