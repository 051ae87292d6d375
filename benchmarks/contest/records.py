"""What peers, and our kernels by name, achieved: one JSON file a data set, in git, so that only ours runs again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import sklearn

from benchmarks.contest.entrants import named, peers, weighted_peers
from benchmarks.contest.sets import DataSet
from benchmarks.contest.trials import LIMIT, Scores, run_trials
from benchmarks.results import FOLDER, Result

RECORDS = FOLDER / "peers"
PEERS, NAMED = "peers", "named"
GROUPS: dict[str, Callable[[str], list[str]]] = {
    PEERS: lambda kind: [*peers(kind), *weighted_peers(kind)],
    NAMED: lambda kind: [*named(kind)],
}


@dataclass(frozen=True)
class Entry:
    """The scores of one entrant, split by split, and where they come from.

    date : UTC
    versions : of Python and packages
    machine : processor, cores, gigabytes of memory
    commit : of histogp, which matters to our kernels by name only
    """

    splits: list[Scores]
    date: str
    versions: dict[str, str]
    machine: dict[str, Any]
    commit: str | None


@dataclass
class Record:
    """All stored entries of one data set, by entrant."""

    set: str
    kind: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def lacks(self, name: str, n_splits: int) -> bool:
        """Whether an entrant has no entry, too few splits, or one of another version of scikit-learn."""
        entry = self.entries.get(name)
        return entry is None or len(entry.splits) < n_splits or entry.versions["scikit-learn"] != sklearn.__version__


def load_record(data: DataSet, folder: Path = RECORDS) -> Record:
    """The record of a data set; one without entries if nothing is stored."""
    path = folder / f"{data.name}.json"
    if not path.exists():
        return Record(data.name, data.kind)
    stored = json.loads(path.read_text())
    return Record(data.name, data.kind, {name: Entry(**entry) for name, entry in stored["entries"].items()})


def store_record(record: Record, folder: Path = RECORDS) -> Path:
    """Write a record in place of an earlier one of the same set, and return where."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.set}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(_text(record))
    os.replace(temporary, path)
    return path


def _text(record: Record) -> str:
    """JSON with a line for each split."""
    entries = []
    for name, entry in record.entries.items():
        origin = {key: value for key, value in asdict(entry).items() if key != "splits"}
        splits = ",\n    ".join(json.dumps(split, allow_nan=False) for split in entry.splits)
        entries.append(f'{json.dumps(name)}: {{{json.dumps(origin)[1:-1]}, "splits": [\n    {splits}\n  ]}}')
    head = json.dumps({"set": record.set, "kind": record.kind})[:-1]
    return f'{head}, "entries": {{\n  {f",{chr(10)}  ".join(entries)}\n}}}}\n'


def complete(
    data: DataSet,
    groups: Iterable[str] = (PEERS, NAMED),
    *,
    again: Iterable[str] = (),
    folder: Path = RECORDS,
    n_splits: int | None = None,
    limit: float = LIMIT,
    say: Callable[[str], None] = lambda text: None,
) -> Record:
    """Run what a record lacks, and the entrants of ``again``, each with one thread, and store it after each of them."""
    n_splits = data.n_splits if n_splits is None else n_splits
    record = load_record(data, folder)
    again = set(again)
    for name in [name for group in groups for name in GROUPS[group](data.kind)]:
        if name in again or record.lacks(name, n_splits):
            splits = run_trials(data, name, range(n_splits), limit=limit)
            record.entries[name] = _entry(splits)
            store_record(record, folder)
            say(f"{data.name}: {name}: {summary(splits)}")
    return record


def _entry(splits: list[Scores]) -> Entry:
    now = Result.now("", {}, 0.0)
    return Entry(splits, now.date, now.versions, now.machine, now.commit)


def summary(splits: list[Scores]) -> str:
    """Means of the scores that matter most over splits, and what failed."""
    shown = []
    for key in ("accuracy", "log_loss", "r2", "fit_seconds"):
        values = [one[key] for one in splits if key in one]
        if values:
            shown.append(f"{key} {sum(values) / len(values):.4g}")
    return ", ".join([*shown, *sorted({one["failed"] for one in splits if "failed" in one})])
