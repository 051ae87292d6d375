"""What a model was told, as long as it may go on learning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from histogp._core.data import Array


@dataclass(frozen=True, eq=False)
class Examples:
    """One entry for each training row.

    ids : (N,), ascending: the number of an example among all that were ever given
    y : (N,) or (N, M), numbers of classes, or targets as they were given
    weights : (N,), positive, as they were given
    n_given : how many examples were ever given, also those that are forgotten or had the weight zero
    """

    ids: Array
    y: Array
    weights: Array
    n_given: int

    @classmethod
    def none(cls, y: Array) -> Examples:
        """Before the first examples; ``y`` has the type and the further dimensions of what is to come."""
        return cls(np.empty(0, np.int64), y[:0], np.empty(0), 0)

    @property
    def n_rows(self) -> int:
        return len(self.ids)

    def extended(self, y: Array, weights: Array) -> Examples:
        """With further examples; those of weight zero are not kept, but have numbers, too."""
        kept = weights > 0
        ids = self.n_given + np.flatnonzero(kept)
        return Examples(
            np.concatenate([self.ids, ids]),
            np.concatenate([self.y, y[kept]]),
            np.concatenate([self.weights, weights[kept]]),
            self.n_given + len(weights),
        )

    def without(self, rows: Array) -> Examples:
        keep = np.ones(self.n_rows, bool)
        keep[rows] = False
        return replace(self, ids=self.ids[keep], y=self.y[keep], weights=self.weights[keep])

    def with_labels(self, y: Array) -> Examples:
        """With other numbers of classes or targets for all rows."""
        return replace(self, y=y)

    def rows_of(self, ids: Any) -> Array:
        """The rows of the examples with these numbers, in their order."""
        try:
            ids = np.atleast_1d(np.asarray(ids))
        except ValueError:  # rows of different lengths
            ids = np.empty((0, 0))
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(f"ids must be whole numbers, as ids_ has them; got {ids!r}.")
        rows = np.searchsorted(self.ids, ids)
        known = rows < self.n_rows
        known[known] = self.ids[rows[known]] == ids[known]
        if not known.all():
            raise ValueError(
                f"There is no training example with the number {ids[~known][0]}; ids_ has those there are."
            )
        if len(np.unique(ids)) < len(ids):
            raise ValueError("An example occurs twice in ids.")
        return rows.astype(int)
