"""An entrant on the splits of a data set, in a process of its own with a limit of processor time.

``python -m benchmarks.contest.trials SET ENTRANT LIMIT SPLIT ...`` is that process. It prints a line of JSON for each
stage of a split: what is known of the split so far, and whether it is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    log_loss,
    r2_score,
    root_mean_squared_error,
)
from sklearn.model_selection import StratifiedKFold

from benchmarks.contest.entrants import BALANCED, KERNELS, OURS, entrant
from benchmarks.contest.sets import IMBALANCE, VALUES, DataSet, Split, set_named
from benchmarks.results import rounded
from benchmarks.running import ROOT
from benchmarks.scores import calibration_error, calibration_error_by_chance

LIMIT = 300  # seconds of one core, for each fit of a split and the predictions that follow
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
STARTING, PATIENCE = 120, 6  # on a busy machine a process may take so many seconds to start and times its limit
FAILED = "failed"  # why scores of a split are missing

Scores = dict[str, Any]


@dataclass(frozen=True)
class _Timed:
    value: Any
    seconds: float
    cpu_seconds: float

    @classmethod
    def of(cls, work: Any) -> _Timed:
        """What a call returns, its duration, and the time of all processors together."""
        start, cpu_start = perf_counter(), process_time()
        value = work()
        return cls(value, perf_counter() - start, process_time() - cpu_start)


def run_trials(
    data: DataSet, name: str, numbers: Sequence[int], n_threads: int | None = 1, limit: float = LIMIT
) -> list[Scores]:
    """Scores of an entrant on some splits; what failed or took too long says so in "failed".

    Parameters
    ----------
    n_threads : int or None
        1 holds everything to one thread, None leaves threads as they are and gives a limit for each of the cores.
    """
    cores = 1 if n_threads == 1 else len(os.sched_getaffinity(0))
    environment = ONE_THREAD if n_threads == 1 else {}
    found: dict[int, Scores] = {number: {} for number in numbers}
    waiting = list(numbers)
    while waiting:
        lines, end = _child(data.name, name, limit * cores, waiting, environment)
        for line in lines:
            found[line["split"]] = line["scores"]
            if line["is_complete"]:
                waiting.remove(line["split"])
        if waiting:
            found[waiting.pop(0)][FAILED] = end
    return list(found.values())


def _child(
    data: str, name: str, limit: float, numbers: Sequence[int], environment: Mapping[str, str]
) -> tuple[list[dict[str, Any]], str]:
    """The lines that a process prints, and how it ended."""
    arguments = [data, name, str(limit), *map(str, numbers)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.contest.trials", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=STARTING + PATIENCE * limit * len(numbers),
        )
        printed, status, said = done.stdout, done.returncode, done.stderr.strip().splitlines()
    except subprocess.TimeoutExpired as error:
        printed, status, said = (error.stdout or b"").decode(), -signal.SIGXCPU, []
    lines = [json.loads(line) for line in printed.splitlines() if line.endswith("}")]
    if status == -signal.SIGXCPU:
        return lines, "did not finish"
    return lines, said[-1] if said and status > 0 else f"ended with status {status}"


def _measured(data: DataSet, name: str, number: int, limit: float) -> Iterator[tuple[Scores, bool]]:
    """Scores of a split as they become known, and whether these are all."""
    split, model = data.split(number), entrant(name, data.kind)
    _grant(limit)
    fitted = _Timed.of(lambda: model.fit(split.X, split.y))
    predicted = _Timed.of(lambda: model.predict(split.X_test))
    scores: Scores = {
        **_errors(data, split, predicted.value),
        "fit_seconds": fitted.seconds,
        "fit_cpu_seconds": fitted.cpu_seconds,
        "predict_seconds": predicted.seconds,
        "n_test": len(split.y_test),
    }
    if data.kind == VALUES or (name.endswith(BALANCED) and name != OURS + BALANCED):
        yield scores, True
        return
    yield scores, False
    if not hasattr(model, "predict_proba"):
        # Classes of fewer than five samples do not keep the others from being calibrated.
        folds = list(StratifiedKFold(5).split(split.X, split.y))
        model = CalibratedClassifierCV(clone(model), cv=folds, ensemble=False)
        _grant(limit)
        scores["calibration_seconds"] = _Timed.of(lambda: model.fit(split.X, split.y)).seconds
    yield scores | _probability_scores(data, split, model), True


def _errors(data: DataSet, split: Split, predictions: np.ndarray) -> Scores:
    y = split.y_test
    if data.kind == VALUES:
        return {"r2": r2_score(y, predictions), "rmse": root_mean_squared_error(y, predictions)}
    scores = {"accuracy": accuracy_score(y, predictions)}
    if data.kind == IMBALANCE:
        scores["balanced_accuracy"] = balanced_accuracy_score(y, predictions)
    return scores


def _probability_scores(data: DataSet, split: Split, model: Any) -> Scores:
    n_classes = 1 + int(max(split.y.max(), split.y_test.max()))
    probabilities = np.zeros((len(split.y_test), n_classes))
    probabilities[:, model.classes_] = model.predict_proba(split.X_test)
    scores = {
        "log_loss": log_loss(split.y_test, probabilities, labels=np.arange(n_classes)),
        "calibration_error": calibration_error(probabilities, split.y_test),
        "calibration_error_by_chance": calibration_error_by_chance(probabilities),
    }
    if data.kind == IMBALANCE:
        scores |= {
            "average_precision": average_precision_score(split.y_test, probabilities[:, 1]),
            "rare_probability": probabilities[:, 1].mean(),
            "rare_share": split.y_test.mean(),
        }
    return scores


def _grant(limit: float) -> None:
    """Have this process end when it has used so many further seconds of processor time."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(process_time() + limit) + 1, hard))


def _warm_up(name: str, kind: str) -> None:
    """Load compiled code, which is not to count as a part of the first fit."""
    X = np.random.default_rng(0).random((60, 5))
    if name.startswith(OURS) or name in KERNELS:
        with contextlib.suppress(Exception):  # the fits that count will tell
            if kind == VALUES:
                entrant(name, kind).fit(X, X[:, 0]).predict(X)
            else:
                entrant(name, kind).fit(X, (3 * X[:, 0]).astype(int)).predict_proba(X)


def _main(data: str, name: str, limit: str, *numbers: str) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    chosen = set_named(data)
    _warm_up(name, chosen.kind)
    for number in map(int, numbers):
        scores: Scores = {}
        try:
            for scores, is_complete in _measured(chosen, name, number, float(limit)):
                _print(number, scores, is_complete)
        except Exception as error:
            reason = str(error).strip().splitlines() or [""]
            _print(number, {**scores, FAILED: f"{type(error).__name__}: {reason[0]}"}, True)


def _print(number: int, scores: Scores, is_complete: bool) -> None:
    values = {key: value if key == FAILED else rounded(value) for key, value in scores.items()}
    print(json.dumps({"split": number, "scores": values, "is_complete": is_complete}), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
