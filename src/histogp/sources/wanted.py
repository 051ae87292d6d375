"""Which columns of a file are features, and which one holds the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from histogp.errors import DataError

SHOWN = 5


@dataclass(frozen=True)
class Wanted:
    """What the user asks for, in terms of names or positions of columns.

    ``features`` and ``n_features`` are the columns and the width a model was trained with.
    """

    label: str | None = None
    ignore: Sequence[str] = ()
    features: Sequence[str] | None = None
    n_features: int | None = None

    @property
    def width(self) -> int | None:
        """How many features there have to be, if that is known."""
        return len(self.features) if self.n_features is None and self.features is not None else self.n_features

    def choose(self, path: Path, names: list[str] | None, n_columns: int) -> tuple[list[int], int | None]:
        """Positions of the features, in order, and of the label.

        Columns without names are taken as they stand, whatever names the model knows.
        """
        if names is not None:
            _refuse_duplicates(path, names)
        label = None if self.label is None else _position(path, self.label, names, n_columns)
        left_out = {label, *(_position(path, name, names, n_columns) for name in self.ignore)}
        if self.features is not None and names is not None:
            needed = [name for name in self.ignore if name in self.features]
            if needed:
                raise DataError(f"The model needs the column {needed[0]!r} and cannot leave it out.")
            return _named(path, self.features, names), label
        chosen = [k for k in range(n_columns) if k not in left_out]
        for k in chosen:
            if names is not None and not names[k]:
                raise DataError(f"{path}: column {k + 1} has no name; give it one, or leave it out with --ignore {k}.")
        return chosen, label

    def check_width(self, path: Path, n_features: int) -> None:
        """Refuse data of another width than the model's, and data without features."""
        if n_features == 0:
            raise DataError(f"{path} has no feature column.")
        if self.width not in (None, n_features):
            raise DataError(f"{path} has {n_features} features, but the model was trained with {self.width}.")


def listed(names: Sequence[str]) -> str:
    """The first few names, for a sentence."""
    return ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")


def _refuse_duplicates(path: Path, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{path} has more than one column {name!r}; names of columns must differ.")
        seen.add(name)


def _position(path: Path, name: str, names: list[str] | None, n_columns: int) -> int:
    """Where a column is that is given by its name or its position, from 0 or from -1."""
    if names is not None and name in names:
        return names.index(name)
    try:
        position = int(name)
    except ValueError:
        known = "its columns have no names, only positions from 0" if names is None else f"it has {listed(names)}"
        raise DataError(f"{path} has no column {name!r}; {known}.") from None
    if not -n_columns <= position < n_columns:
        raise DataError(f"{path} has no column {position}; it has {n_columns} columns, counted from 0.")
    return position % n_columns


def _named(path: Path, features: Sequence[str], names: list[str]) -> list[int]:
    position = {name: k for k, name in enumerate(names)}
    missing = [name for name in features if name not in position]
    if missing:
        raise DataError(
            f"{path} lacks {len(missing)} of the {len(features)} columns the model was trained with: {listed(missing)}."
        )
    return [position[name] for name in features]
