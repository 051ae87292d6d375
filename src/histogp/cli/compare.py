"""``histogp compare``: which kernel should I use?"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from histogp.cli.arguments import add_command as new_command
from histogp.cli.arguments import add_data, read_data
from histogp.cli.console import progress, say
from histogp.cli.evaluate import write_page
from histogp.cli.labels import REAL_LABELS
from histogp.errors import DataError
from histogp.io.atomic import replaceable
from histogp.reports.comparison import KERNELS, advice, compare, remarks, section, table
from histogp.reports.page import render

EXAMPLES = """
histogp compare train.csv --label species
histogp compare X.npy --labels y.npy --report kernels.html
histogp compare counts.svmlight --kernels hik chi2 --rows 20000
"""
MOST_ROWS = 5_000


def add_command(commands: Any) -> None:
    """The options of ``histogp compare``."""
    parser = new_command(commands, "compare", "learn with each kernel, and say which one to use", EXAMPLES)
    add_data(parser, labels=True)
    parser.add_argument(
        "--task", choices=["classification", "regression"], default="classification", help="default: classification"
    )
    parser.add_argument(
        "--kernels",
        nargs="+",
        choices=[*KERNELS, "hik-poly", "laplacian", "gaussian"],
        default=list(KERNELS),
        help="default: " + " ".join(KERNELS),
    )
    parser.add_argument(
        "--rows", type=int, default=MOST_ROWS, help=f"rows to work with at most, by chance; default: {MOST_ROWS:,}"
    )
    parser.add_argument("--report", metavar="HTML", help="also write a page, which needs no network")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--jobs", type=int, help="threads; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of rows; default: 0")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Hold a third of the rows back, learn from the others with each kernel, and print a table."""
    if options.report is not None:
        replaceable(Path(options.report))
    if options.rows < 10:
        raise DataError("--rows must be 10 or more.")
    with progress(f"reading {options.data}") as advance:
        X, y, _ = read_data(options, options.task)
        if options.task == "classification" and y.dtype.kind == "f":
            raise DataError(REAL_LABELS)
        if X.shape[0] < 10:
            raise DataError(f"{options.data} has {X.shape[0]} rows, of which too few could be held back.")
        chosen = np.random.default_rng(options.seed).permutation(X.shape[0])[: options.rows]
        learned, held_back = train_test_split(chosen, test_size=1 / 3, random_state=options.seed)
        results = compare(
            X[learned],
            y[learned],
            X[held_back],
            y[held_back],
            task=options.task,
            kernels=list(dict.fromkeys(options.kernels)),
            n_jobs=options.jobs,
            seed=options.seed,
            say=lambda stage: advance(title=stage),
        )
        note = f"{len(learned):,} rows were learned, {len(held_back):,} others predicted."
        if options.report is not None:
            name = Path(options.data).name
            sections = [section(results, options.task)]
            write_page(options.report, render(title=f"Kernels for {name}", subtitle=note, sections=sections))
    if all(one.failure is not None for one in results):
        raise DataError(str(results[0].failure))
    if options.json:
        kept = [{name: value for name, value in asdict(one).items() if name != "hits"} for one in results]
        say(json.dumps([{name: _plain(value) for name, value in one.items()} for one in kept]))
        return
    header, rows = table(results, options.task)
    widths = [max(len(row[k]) for row in [header, *rows]) for k in range(len(header) - 1)] + [0]
    for row in [header, *rows]:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for remark in remarks(results):
        say(remark)
    say(f"{note} {advice(results)}")


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
