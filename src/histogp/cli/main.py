"""``histogp``: the command line."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence

from sklearn.exceptions import ConvergenceWarning

import histogp
from histogp.cli import compare, demo, evaluate, fit, inspect, novelty, predict, query, update

EXAMPLES = """examples:
  histogp demo
  histogp compare train.csv --label species
  histogp fit train.csv --label species -o model.histogp
  histogp predict model.histogp new.parquet -o predictions.csv
  histogp novelty model.histogp new.parquet -o novelty.csv
  histogp evaluate model.histogp test.csv --label species --report report.html
  histogp query model.histogp pool.csv -n 20
  histogp update model.histogp labeled.csv --label species
  histogp inspect model.histogp
"""
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 2 for bad input, with one sentence on standard error."""
    options = parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", ConvergenceWarning)
            warnings.showwarning = _first_of_each()
            options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        kept = "; --resume goes on from the last checkpoint" if getattr(options, "stream", False) else ""
        print(f"histogp: interrupted; nothing was written{kept}.", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError, MemoryError) as error:
        print(f"histogp: {_sentence(error)}", file=sys.stderr)
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="histogp",
        description="Gaussian processes on histogram-like data.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"histogp {histogp.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (demo, compare, fit, predict, novelty, evaluate, update, query, inspect):
        module.add_command(commands)
    return top


def _first_of_each() -> Callable[..., None]:
    """Prints a warning unless one of its kind was printed before: variances are warned of in every block of rows."""
    shown: set[type[Warning]] = set()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if category not in shown:
            shown.add(category)
            print(f"histogp: {message}", file=sys.stderr)

    return show


def _sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {text}".strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}." if error.filename else f"{error.strerror.lower()}."
    return text or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
