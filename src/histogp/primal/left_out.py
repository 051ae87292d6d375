"""Training rows, each of which all others predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp.storage import Array


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Some training rows.

    coordinates : (s, r), of `Ridge.transform`; targets : (s, k)
    weights, units : (s,), those of the rows, and how much of each is left out, which is less where a weight stands for
        repeated rows
    """

    coordinates: Array
    targets: Array
    weights: Array
    units: Array

    def mean_square(self, errors: Array) -> float:
        """Of errors (s, k), summed over targets."""
        return float(np.average(np.sum(errors**2, axis=1), weights=self.weights))
