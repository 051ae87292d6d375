"""Who is ahead: ranks, paired differences and calibration, from stored scores of the plain line and of peers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, t

from benchmarks.contest.entrants import BALANCED, OURS, named, peers, weighted_peers
from benchmarks.contest.records import RECORDS, load_record
from benchmarks.contest.sets import IMBALANCE, SETS, VALUES, DataSet, of_kind
from benchmarks.contest.trials import FAILED, Scores
from benchmarks.results import FOLDER, load

CASE = "defaults_{}"  # the case that has the scores of the plain line, by the kind of sets
LOWER_IS_BETTER = {"log_loss", "rmse"}
MUST_LEAD = ("letter", "optdigits", "satimage", "spambase")
LEVEL_WITH_NAMED = 0.005


def flat(scores: Mapping[str, Mapping[str, Sequence[Scores]]]) -> dict[str, float]:
    """Values of a case, "set/split/score" or "set/split/balanced/score", from scores by set and entrant of ours."""
    values = {}
    for name, entrants in scores.items():
        for entrant, splits in entrants.items():
            weighted = "balanced/" if entrant.endswith(BALANCED) else ""
            for number, one in enumerate(splits):
                for key, value in one.items():
                    values[f"{name}/{number}/{weighted}{key}"] = 1.0 if key == FAILED else value
    return values


def nested(values: Mapping[str, float]) -> dict[str, dict[str, list[Scores]]]:
    """Scores by set and entrant of ours, split by split: the inverse of `flat`, without reasons of failures."""
    found: dict[str, dict[str, dict[int, Scores]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for path, value in values.items():
        if "/" in path:
            name, number, *weighted, key = path.split("/")
            found[name][OURS + BALANCED if weighted else OURS][int(number)][key] = value
    return {
        name: {entrant: [splits[k] for k in sorted(splits)] for entrant, splits in entrants.items()}
        for name, entrants in found.items()
    }


@dataclass(frozen=True)
class Board:
    """Scores by set and entrant, split by split. An entrant with an unfinished split has no mean."""

    scores: Mapping[str, Mapping[str, Sequence[Scores]]]

    def splits(self, name: str, entrant: str, key: str) -> np.ndarray:
        """The score of each split, NaN where there is none; a lower one is better only where it is an error."""
        return np.array([one.get(key, np.nan) for one in self.scores[name][entrant]])

    def mean(self, name: str, entrant: str, key: str) -> float:
        """The mean over splits, NaN if one is missing."""
        return float(self.splits(name, entrant, key).mean())

    def has(self, name: str, *entrants: str) -> bool:
        """Whether entrants have run on a set."""
        return set(entrants) <= self.scores.get(name, {}).keys()

    def sets(self, *kinds: str) -> list[DataSet]:
        """The sets of some kinds on which ours and all peers have run."""
        return [one for one in of_kind(*kinds) if self.has(one.name, OURS, *peers(one.kind))]


def stored(results: Path = FOLDER, records: Path = RECORDS) -> Board:
    """What is stored of ours and of all others."""
    scores: dict[str, dict[str, Sequence[Scores]]] = {
        one.name: {name: entry.splits for name, entry in load_record(one, records).entries.items()}
        for one in SETS.values()
    }
    cases = load(results)
    for kind in {one.kind for one in SETS.values()}:
        if CASE.format(kind) in cases:
            for name, entrants in nested(cases[CASE.format(kind)].values).items():
                scores.setdefault(name, {}).update(entrants)
    return Board(scores)


def ranks(board: Board, sets: Iterable[DataSet], key: str) -> dict[str, np.ndarray]:
    """The ranks of ours and of each peer on the sets where it takes part; who did not finish shares the last ones."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in sets:
        entrants = [OURS, *peers(one.kind)]
        means = np.array([board.mean(one.name, entrant, key) for entrant in entrants])
        errors = np.where(np.isnan(means), np.inf, means if key in LOWER_IS_BETTER else -means)
        for entrant, rank in zip(entrants, rankdata(errors), strict=True):
            found[entrant].append(float(rank))
    return {entrant: np.array(values) for entrant, values in found.items()}


def lead(found: Mapping[str, np.ndarray]) -> float:
    """By how much the mean rank of ours is before that of the best peer that takes part in all sets."""
    n_sets = len(found[OURS])
    others = [values.mean() for name, values in found.items() if name != OURS and len(values) == n_sets]
    return float(min(others) - found[OURS].mean())


@dataclass(frozen=True)
class Gap:
    """By how much ours is behind another entrant on a set (negative: ahead), in units of the score.

    standard_error : of the paired difference over splits; of the accuracy on the test samples if there is one split
    """

    other: str
    behind: float
    standard_error: float

    @property
    def is_level(self) -> bool:
        """Whether ours is ahead, or behind by no more than a standard error."""
        return self.behind <= self.standard_error


def gap(board: Board, one: DataSet, others: Iterable[str], key: str) -> Gap:
    """Ours against the best of other entrants; infinite if ours did not finish."""
    sign = -1 if key in LOWER_IS_BETTER else 1
    finished = [name for name in others if not np.isnan(board.mean(one.name, name, key))]
    mine = board.splits(one.name, OURS, key)
    if not finished:
        return Gap("nobody", -np.inf, 0.0)
    best = max(finished, key=lambda name: sign * board.mean(one.name, name, key))
    if np.isnan(mine).any():
        return Gap(best, np.inf, 0.0)
    differences = sign * (board.splits(one.name, best, key) - mine)
    return Gap(best, float(differences.mean()), _standard_error(board, one, differences, key))


def _standard_error(board: Board, one: DataSet, differences: np.ndarray, key: str) -> float:
    if len(differences) > 1:
        return float(differences.std(ddof=1) / np.sqrt(len(differences)))
    if key != "accuracy":
        return 0.0
    accuracy, n = (board.splits(one.name, OURS, name)[0] for name in ("accuracy", "n_test"))
    return float(np.sqrt(accuracy * (1 - accuracy) / n))


@dataclass(frozen=True)
class Interval:
    """A mean over sets and its confidence interval of 95%, by Student's t."""

    mean: float
    half_width: float
    n: int

    @classmethod
    def of(cls, values: np.ndarray) -> Interval:
        """The interval of some differences; infinitely wide for one of them."""
        n = len(values)
        if n < 2:
            return cls(float(values.mean()) if n else np.nan, np.inf, n)
        return cls(float(values.mean()), float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)), n)


def paired(board: Board, sets: Iterable[DataSet], other: str, key: str) -> Interval:
    """Ours minus another entrant, set by set, where both finished; of log losses the difference of logarithms."""
    mine, others = (
        np.array([board.mean(one.name, name, key) for one in sets if other in peers(one.kind)])
        for name in (OURS, other)
    )
    if key == "log_loss":
        mine, others = np.log(np.maximum(mine, 1e-6)), np.log(np.maximum(others, 1e-6))
    differences = mine - others
    return Interval.of(differences[np.isfinite(differences)])


def excess_calibration_errors(board: Board, sets: Iterable[DataSet], entrant: str) -> np.ndarray:
    """The calibration error above that of labels drawn from the probabilities, set by set, where there is one."""
    found = [
        board.splits(one.name, entrant, "calibration_error")
        - board.splits(one.name, entrant, "calibration_error_by_chance")
        for one in sets
        if board.has(one.name, entrant)
    ]
    means = np.array([values.mean() for values in found])
    return means[~np.isnan(means)]


def behind_named(board: Board, one: DataSet) -> Gap | None:
    """Ours against the best of our kernels by name, by accuracy or R2; None if they have not run."""
    kernels = list(named(one.kind))
    if not board.has(one.name, *kernels):
        return None
    return gap(board, one, kernels, "r2" if one.kind == VALUES else "accuracy")


def is_level_with_named(found: Gap) -> bool:
    """Whether ours is behind by no more than half a point or two standard errors."""
    return found.behind <= max(LEVEL_WITH_NAMED, 2 * found.standard_error)


@dataclass(frozen=True)
class Rare:
    """Means over imbalanced sets of ours and of the best peer by that mean.

    probability_ratio : mean probability of the rare class over its share, all test samples together
    """

    average_precision: float
    best_average_precision: float
    balanced_accuracy: float
    best_balanced_accuracy: float
    probability_ratio: float

    @classmethod
    def of(cls, board: Board) -> Rare:
        """From all imbalanced sets that have been run; NaN where ours did not finish."""
        sets = [one for one in board.sets(IMBALANCE) if board.has(one.name, *weighted_peers(IMBALANCE))]

        def means(names: Iterable[str], key: str) -> list[float]:
            return [float(np.mean([board.mean(one.name, name, key) for one in sets])) for name in names]

        def pooled(key: str) -> float:
            return sum(
                float((board.splits(one.name, OURS, key) * board.splits(one.name, OURS, "n_test")).sum())
                for one in sets
            )

        return cls(
            means([OURS], "average_precision")[0],
            float(np.nanmax(means(peers(IMBALANCE), "average_precision"))),
            means([OURS + BALANCED], "balanced_accuracy")[0],
            float(np.nanmax(means(weighted_peers(IMBALANCE), "balanced_accuracy"))),
            pooled("rare_probability") / pooled("rare_share"),
        )


def summary(board: Board) -> dict[str, float]:
    """The numbers that have bars, and those beside them. All kinds of sets must have been run."""
    kinds = {one.kind for one in SETS.values()}
    classes = board.sets(*kinds - {VALUES})
    values = board.sets(VALUES)
    if lacking := sorted(kind for kind in kinds if not board.sets(kind)):
        raise ValueError(
            f"Nothing is stored of {', '.join(lacking)} sets: run `python -m benchmarks peers`, and the cases "
            f"{', '.join(CASE.format(kind) for kind in lacking)}."
        )
    by_accuracy, by_loss = ranks(board, classes, "accuracy"), ranks(board, classes, "log_loss")
    gaps = [gap(board, one, peers(one.kind), "accuracy") for one in classes]
    kernels = [found for one in [*classes, *values] if (found := behind_named(board, one)) is not None]
    rare = Rare.of(board)
    found = {
        "sets": len(classes),
        "failed_sets": sum(np.isnan(board.mean(one.name, OURS, "accuracy")) for one in classes),
        "accuracy_rank": by_accuracy[OURS].mean(),
        "accuracy_rank_lead": lead(by_accuracy),
        "accuracy_first": sum(one.behind <= 0 for one in gaps),
        "accuracy_level_share": np.mean([one.is_level for one in gaps]),
        "log_loss_rank": by_loss[OURS].mean(),
        "log_loss_rank_lead": lead(by_loss),
        "excess_calibration_error": _median(excess_calibration_errors(board, classes, OURS)),
        "named_sets": len(kernels),
        "sets_behind_named": sum(not is_level_with_named(one) for one in kernels),
        "average_precision": rare.average_precision,
        "average_precision_behind": rare.best_average_precision - rare.average_precision,
        "balanced_accuracy": rare.balanced_accuracy,
        "balanced_accuracy_behind": rare.best_balanced_accuracy - rare.balanced_accuracy,
        "rare_probability_off": abs(rare.probability_ratio - 1),
        "median_fit_seconds": _median(
            np.array([board.mean(one.name, OURS, "fit_seconds") for one in [*classes, *values]])
        ),
        "r2_rank": ranks(board, values, "r2")[OURS].mean(),
        "r2_level_share": np.mean([gap(board, one, peers(one.kind), "r2").is_level for one in values]),
    }
    for one in classes:
        if one.name in MUST_LEAD:
            against = gap(board, one, peers(one.kind), "accuracy")
            found[f"{one.name}_behind"] = max(0.0, against.behind - against.standard_error)
    for other in peers("small"):
        for key in ("accuracy", "log_loss"):
            interval = paired(board, classes, other, key)
            found[f"{key}_against_{other}"] = interval.mean
            found[f"{key}_against_{other}_half_width"] = interval.half_width
    # What did not finish has no number; bars are missed by any large one.
    return {key: float(np.nan_to_num(value, nan=1e6, posinf=1e6, neginf=-1e6)) for key, value in found.items()}


def _median(values: np.ndarray) -> float:
    values = values[~np.isnan(values)]
    return float(np.median(values)) if len(values) else np.nan


Lines = list[tuple[str, ...]]


def entrant_lines(board: Board) -> Lines:
    """A table of ours and all peers over the classification sets."""
    sets = [one for one in board.sets() if one.kind != VALUES]
    by_rank = ("rank by accuracy", "by log loss", "first", "first")
    by_score = ("accuracy", "log loss", "excess ECE", "fit", "unfinished")
    lines: Lines = [("", *by_rank, *by_score, "ours minus it: accuracy", "log loss ratio")]
    if not sets:
        return lines
    by_accuracy, by_loss = ranks(board, sets, "accuracy"), ranks(board, sets, "log_loss")
    for name in sorted(by_accuracy, key=lambda name: by_accuracy[name].mean()):
        mine = [one for one in sets if name in (OURS, *peers(one.kind))]
        means = {
            key: np.array([board.mean(one.name, name, key) for one in mine])
            for key in ("accuracy", "log_loss", "fit_seconds")
        }
        lines.append(
            (
                name,
                f"{by_accuracy[name].mean():.2f}",
                f"{by_loss[name].mean():.2f}",
                str(int((by_accuracy[name] == 1).sum())),
                str(int((by_loss[name] == 1).sum())),
                f"{_mean(means['accuracy']):.4f}",
                f"{_mean(means['log_loss']):.4f}",
                f"{_median(excess_calibration_errors(board, mine, name)):+.4f}",
                f"{_median(means['fit_seconds']):.3g} s",
                str(int(np.isnan(means["log_loss"]).sum())),
                *_against(board, sets, name),
            )
        )
    return lines


def _mean(values: np.ndarray) -> float:
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else np.nan


def _against(board: Board, sets: Sequence[DataSet], other: str) -> tuple[str, str]:
    if other == OURS:
        return "", ""
    accuracy, loss = (paired(board, sets, other, key) for key in ("accuracy", "log_loss"))
    with np.errstate(over="ignore"):
        low, middle, high = np.exp([loss.mean - loss.half_width, loss.mean, loss.mean + loss.half_width])
    return (
        f"{100 * accuracy.mean:+.2f} +- {100 * accuracy.half_width:.2f} points on {accuracy.n}",
        f"{middle:.2f} ({low:.2f} to {high:.2f})",
    )


def set_lines(board: Board, names: Iterable[str] = ()) -> Lines:
    """A table of all sets, or of some: ours beside the best peer and the best of our kernels by name."""
    chosen = set(names)
    by_score = ("score", "ours", "best peer", "", "behind", "s.e.", "level")
    others = ("error", "best peer", "", "excess ECE", "behind named", "", "level", "fit", "SVC fit")
    lines: Lines = [("set", "rows", *by_score, *others)]
    for one in board.sets():
        if chosen and one.name not in chosen:
            continue
        key, error = ("r2", "rmse") if one.kind == VALUES else ("accuracy", "log_loss")
        first, loss = (gap(board, one, peers(one.kind), score) for score in (key, error))
        kernel = behind_named(board, one)
        svc = "svr" if one.kind == VALUES else "svc_rbf_10"
        excess = excess_calibration_errors(board, [one], OURS)
        lines.append(
            (
                one.name,
                f"{one.n_rows:,}",
                key,
                f"{board.mean(one.name, OURS, key):.4f}",
                first.other,
                f"{_of(board, one, first, key):.4f}",
                f"{first.behind:+.4f}",
                f"{first.standard_error:.4f}",
                "yes" if first.is_level else "NO",
                f"{board.mean(one.name, OURS, error):.4g}",
                loss.other,
                f"{_of(board, one, loss, error):.4g}",
                f"{excess[0]:+.4f}" if len(excess) else "-",
                "-" if kernel is None else f"{kernel.behind:+.4f}",
                "-" if kernel is None else kernel.other,
                "-" if kernel is None else "yes" if is_level_with_named(kernel) else "NO",
                f"{board.mean(one.name, OURS, 'fit_seconds'):.3g} s",
                f"{board.mean(one.name, svc, 'fit_seconds'):.3g} s",
            )
        )
    return lines


def _of(board: Board, one: DataSet, found: Gap, key: str) -> float:
    return board.mean(one.name, found.other, key) if board.has(one.name, found.other) else np.nan


def value_lines(board: Board) -> Lines:
    """A table of R2 and root mean squared error on the regression sets."""
    names = [OURS, *peers(VALUES)]
    lines: Lines = [("set", *names)]
    for one in board.sets(VALUES):
        cells = (f"{board.mean(one.name, name, 'r2'):.4f}, {board.mean(one.name, name, 'rmse'):.4g}" for name in names)
        lines.append((one.name, *cells))
    return lines


def rare_lines(board: Board) -> Lines:
    """A table of the imbalanced sets: average precision, and balanced accuracy with weights of classes."""
    lines: Lines = [
        ("set", "rare", "average precision", "best peer", "", "balanced accuracy", "best weighted peer", "")
    ]
    for one in board.sets(IMBALANCE):
        cells: list[str] = [one.name, f"{board.mean(one.name, OURS, 'rare_share'):.4f}"]
        for key, mine, others in (
            ("average_precision", OURS, peers(IMBALANCE)),
            ("balanced_accuracy", OURS + BALANCED, weighted_peers(IMBALANCE)),
        ):
            means = {name: board.mean(one.name, name, key) for name in others if board.has(one.name, name)}
            best = max(means, key=lambda name: np.nan_to_num(means[name], nan=-1), default="-")
            ours = board.mean(one.name, mine, key) if board.has(one.name, mine) else np.nan
            cells += [f"{ours:.4f}", best, f"{means.get(best, np.nan):.4f}"]
        lines.append(tuple(cells))
    return lines
