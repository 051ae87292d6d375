"""What people see while they wait: on a terminal only, so that pipes and logs stay clean."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Yield ``advance(n, title=None)``; a bar if the total is known, a spinner if not, nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:  # a disabled bar of rich 13 still ends its line
        yield lambda n=0, title=None: None
        return
    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        columns += [BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(n: int = 0, title: str | None = None) -> None:
            bar.update(task, advance=n, description=title)

        yield advance


class Iterations:
    """A scikit-learn callback that shows what a fit is doing, by the names of its tasks."""

    def __init__(self, advance: Callable[..., None], title: str):
        self._advance, self._title = advance, title
        self._counts = {"evaluation": 0, "iteration": 0}

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        if context.task_name in self._counts:
            self._counts[context.task_name] += 1
            self._advance(title=f"{self._title}, {context.task_name} {self._counts[context.task_name]}")


def say(text: str) -> None:
    """A result, on standard output."""
    print(text, file=sys.stdout)


def likelihood(model: Any) -> str:
    """The likelihood that the search for hyperparameters ended with."""
    value, error = model.log_marginal_likelihood_, model.log_marginal_likelihood_error_
    if math.isnan(value):
        return (
            "not known: the search saw some of the samples, left-out ones or a kernel that the model approximates, or "
            "samples have changed since"
        )
    return f"{value:,.1f} +- {error:.1f}" if error > 0 else f"{value:,.1f}"


def in_words(name: str, others: Collection[str]) -> str:
    """The name of a hyperparameter for people: "eta" of "transform__eta", unless one of the others has that name."""
    short = name.removeprefix("transform__")
    return (name if short != name and short in others else short).replace("__", " ").replace("_", " ")
