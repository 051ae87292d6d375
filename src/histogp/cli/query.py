"""``histogp query``: which rows to label next."""

from __future__ import annotations

import argparse
from typing import Any

from sklearn.base import is_classifier

from histogp.active import STRATEGIES, query
from histogp.cli.arguments import add_command as new_command
from histogp.cli.arguments import add_data, needs_posterior, read_rows
from histogp.cli.console import progress
from histogp.cli.predict import add_output, add_prediction, load_model
from histogp.cli.sinks import open_sink
from histogp.gp import VARIANCE_METHODS

EXAMPLES = """
histogp query model.histogp pool.csv -n 20
histogp query model.histogp pool.parquet --strategy batch-uncertainty -n 100 -o next.csv
"""


def add_command(commands: Any) -> None:
    """The options of ``histogp query``."""
    parser = new_command(commands, "query", "say which rows are worth their labels most", EXAMPLES)
    strategies = "\n".join(f"  {name:<18} {strategy.formula}" for name, strategy in STRATEGIES.items())
    parser.description = (
        f"{parser.description}\n\nColumns: row, counted from 0; utility, the higher the better; and what a classifier "
        f"predicts.\n\nstrategies, where |mean| is the gap between the two largest means if there are more classes:\n"
        f"{strategies}"
    )
    parser.add_argument("model", metavar="MODEL", help="a file that histogp fit wrote")
    add_data(parser, labels=False)
    add_output(parser)
    parser.add_argument("-n", "--number", metavar="N", type=int, default=10, help="rows to choose; default: 10")
    parser.add_argument(
        "--strategy", choices=STRATEGIES, default="uncertainty", metavar="NAME", help="see above; default: uncertainty"
    )
    parser.add_argument(
        "--variance",
        metavar="METHOD",
        choices=["auto", *VARIANCE_METHODS],
        default="auto",
        help=f"how the variance is computed: auto, {', '.join(VARIANCE_METHODS)}; default: auto, which is precise "
        "where that is quick, and calibrated otherwise",
    )
    parser.add_argument("--seed", type=int, default=0, help="of random choices; default: 0")
    add_prediction(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write one line for each row chosen, the best first."""
    model = load_model(options)
    needs_posterior(model, "A question what to label next")
    with progress(f"reading {options.data}") as advance:
        X = read_rows(options, model)[0]
        advance(title=f"choosing from {X.shape[0]:,} rows")
        index, utilities = query(
            model,
            X,
            options.strategy,
            options.number,
            variance=options.variance,
            random_state=options.seed,
            return_utilities=True,
        )
    columns = {"row": index, "utility": utilities}
    if is_classifier(model):
        columns["prediction"] = model.predict(X[index])
    with open_sink(options.output, list(columns)) as sink:
        sink.write(columns)
