"""A random sample of rows that pass by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from histogp.storage import Array


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows with the smallest of random numbers, each of which a row draws when it comes. Immutable.

    priorities : (s,), ascending; X : (s, D), dense or CSR; targets : (s, k); weights : (s,)
    """

    priorities: Array
    X: Any
    targets: Array
    weights: Array

    def __add__(self, other: Sample) -> Sample:
        both = [self.X, other.X]
        if any(sparse.issparse(X) for X in both):
            X = sparse.vstack([sparse.csr_array(X) for X in both], format="csr")
        else:
            X = np.concatenate(both)
        return Sample(
            np.concatenate([self.priorities, other.priorities]),
            X,
            np.concatenate([self.targets, other.targets]),
            np.concatenate([self.weights, other.weights]),
        )

    def smallest(self, size: int) -> Sample:
        order = np.argsort(self.priorities, kind="stable")[:size]
        return Sample(self.priorities[order], self.X[order], self.targets[order], self.weights[order])

    def with_targets(self, positions: Array, n_targets: int) -> Sample:
        targets = np.zeros((len(self.targets), n_targets))
        targets[:, positions] = self.targets
        return Sample(self.priorities, self.X, targets, self.weights)
