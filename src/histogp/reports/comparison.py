"""Which kernel to use: all learn from one set of samples, and are compared on another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import log_loss

from histogp.gp import HistogramGPClassifier, HistogramGPRegressor
from histogp.reports import charts
from histogp.reports.curves import MOST_SAMPLES
from histogp.reports.evaluation import best_microseconds, evaluate
from histogp.reports.page import Section

AUTO = "auto"
KERNELS = (AUTO, "hik", "hik-exp", "chi2", "exp-chi2")


@dataclass(frozen=True, eq=False)
class Compared:
    """What one kernel came to.

    score : accuracy, or R2; loss : the logarithmic loss, or the root of the mean squared error
    hits : (n,), whether each test sample was right, or minus its squared error
    failure : why there is nothing of this
    """

    kernel: str
    score: float = np.nan
    loss: float = np.nan
    likelihood: float = np.nan
    seconds: float = np.nan
    microseconds: float = np.nan
    hits: np.ndarray | None = None
    failure: str | None = None


def compare(
    X: Any,
    y: np.ndarray,
    X_test: Any,
    y_test: np.ndarray,
    *,
    task: str = "classification",
    kernels: Sequence[str] = KERNELS,
    optimize: str | None = "gradient",
    n_jobs: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda stage: None,
) -> list[Compared]:
    """Learn with each kernel, and predict the test samples.

    "auto" finds kernel and noise by itself; scale and noise of the others are found as ``optimize`` says.
    """
    found = []
    for kernel in kernels:
        say(f"learning with {kernel}")
        make: Any = HistogramGPRegressor if task == "regression" else HistogramGPClassifier
        model = make(kernel, optimize=None if kernel == AUTO else optimize, n_jobs=n_jobs, random_state=seed)
        try:
            found.append(_measured(kernel, model, X, y, X_test, y_test))
        except ValueError as error:
            found.append(Compared(kernel, failure=" ".join(str(error).split())))
    return found


def _measured(kernel: str, model: Any, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Compared:
    """Fit a model, and measure it on the test samples."""
    start = perf_counter()
    model.fit(X, y)
    seconds = perf_counter() - start
    evaluation = evaluate(model, X_test, y_test)
    if is_classifier(model):
        known = np.isin(y_test, model.classes_)
        probabilities = model.predict_proba(X_test[known])
        loss = log_loss(y_test[known], probabilities, labels=model.classes_) if known.any() else np.nan
        hits = (evaluation.predictions == y_test).astype(float)
    else:
        loss = evaluation.scores["root mean squared error"]
        hits = -((evaluation.predictions - y_test) ** 2)
    score = next(iter(evaluation.scores.values()))
    likelihood = getattr(model, "log_marginal_likelihood_", np.nan)
    microseconds = best_microseconds(model.predict, X_test[:MOST_SAMPLES])
    return Compared(kernel, score, loss, likelihood, seconds, microseconds, hits)


def advice(results: Sequence[Compared]) -> str:
    """A sentence or two on which one to take."""
    done = [one for one in results if one.hits is not None]
    if not done:
        return "None of the kernels could learn from these samples."
    best = max(done, key=lambda one: (one.score, -one.loss))
    close = [one for one in done if one is not best and not _is_worse(one, best)]
    text = f"Take {best.kernel}: it predicts these samples best."
    if close:
        *first, last = [one.kernel for one in close]
        names = f"{', '.join(first)} and {last}" if first else last
        text = f"{best.kernel} predicts these samples best, but {names} {_verb(close)} no worse than chance explains."
        quick = min([best, *close], key=lambda one: one.microseconds)
        if quick is not best:
            text += f" {quick.kernel} predicts {best.microseconds / quick.microseconds:.1f} times as fast."
    return text


def _verb(ones: Sequence[Any]) -> str:
    return "are" if len(ones) > 1 else "is"


def _is_worse(one: Compared, best: Compared) -> bool:
    """By more than two standard errors of the difference over samples."""
    assert one.hits is not None
    assert best.hits is not None
    difference = best.hits - one.hits
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.inf
    return bool(difference.mean() > 2 * error)


def table(results: Sequence[Compared], task: str = "classification") -> tuple[list[str], list[list[str]]]:
    """A header and rows of texts, one for each kernel that could learn; see `remarks` for the others."""
    names = ["accuracy", "log loss"] if task == "classification" else ["R2", "RMS error"]
    header = ["kernel", *names, "log likelihood", "learned in", "a prediction"]
    rows = [
        [
            one.kernel,
            f"{one.score:.4f}",
            f"{one.loss:.4f}" if task == "classification" else f"{one.loss:.4g}",
            "" if np.isnan(one.likelihood) else f"{one.likelihood:.0f}",
            f"{one.seconds:.2f} s",
            f"{one.microseconds:.1f} µs",
        ]
        for one in results
        if one.failure is None
    ]
    return header, rows


def remarks(results: Sequence[Compared]) -> list[str]:
    """A sentence for each reason why kernels could not learn."""
    kernels: dict[str, list[str]] = {}
    for one in results:
        if one.failure is not None:
            kernels.setdefault(one.failure, []).append(one.kernel)
    return [f"Without {', '.join(names)}: {failure}" for failure, names in kernels.items()]


def section(results: Sequence[Compared], task: str) -> Section:
    """The comparison as a section of a report."""
    text = (
        f"{advice(results)} All learned from the same samples. The default, {AUTO}, finds a sum of kernels and the "
        "noise by what predicts samples best when they are left out; the others find scale and noise, and hik-exp its "
        "growth, by likelihood."
    )
    left_out = "".join(f'<p class="note">{escape(remark)}</p>' for remark in remarks(results))
    return Section("Which kernel to use", text, charts.data_table(*table(results, task)) + left_out)
