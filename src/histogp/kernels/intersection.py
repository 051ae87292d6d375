"""Generalized histogram intersection kernels, as parameter objects for users.

    K(x, x') = sum_d  w_d * min(g_d(x_d), g_d(x'_d))

(gp-hik-ijcv2016, eq. 14 to 17). What users build stores parameters and does nothing else, so that
``clone``, ``get_params`` and ``GridSearchCV`` reach down to ``kernel__transform__eta``; operators see the
frozen value `Intersection`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator
from histogp._core.operators.pair_kernels import Child, Linear
from histogp._core.operators.sorted_columns import Intersection, SortedOperator, intersections
from histogp._core.operators.stacked import StackedIntersection
from histogp.io.schema import Reader
from histogp.kernels._base import Adapted, AdditiveKernel, Kernel, check_pair, heights_of, selected
from histogp.kernels.transforms import Transform


class HistogramIntersection(AdditiveKernel):
    """Generalized histogram intersection kernel.

    Parameters
    ----------
    transform : Transform or None, default=None
        `Power`, `Exponential` or your own; None is the identity, the plain kernel (HIK).
    weights : float, array-like of shape (n_features,) or (n_groups,), "ard" or None, default=None
        Non-negative weight of each dimension, or of all; None is one. "ard" (automatic relevance
        determination) has an estimator learn one weight a dimension or group, see its parameter
        ``optimize``; until then they are one.
    groups : array-like of shape (n_features,) or None, default=None
        The group of each dimension, for instance the number of the descriptor that it belongs to. With groups,
        weights and the transform's hyperparameters have one value a group, in the order of
        ``np.unique(groups)``: a weighted combination of kernels.
    scale : float, default=1.0
        A factor of the kernel.
    columns : slice, array-like of int or bool, or None, default=None
        The features that it sees; None is all of them.

    Examples
    --------
    >>> from histogp.kernels import HistogramIntersection, Power
    >>> HistogramIntersection()([[1.0, 2.0]], [[3.0, 1.0]])
    array([[2.]])
    >>> HistogramIntersection(transform=Power(2), weights=[1, 10])([[1.0, 2.0]], [[3.0, 1.0]])
    array([[11.]])
    """

    _stacks = True
    _word = "intersection"

    def __init__(
        self,
        transform: Transform | None = None,
        weights: Any = None,
        groups: Any = None,
        *,
        scale: float = 1.0,
        columns: Any = None,
    ):
        """Keep the parameters as they are given; the `fit` of an estimator checks them."""
        self.transform = transform
        self.weights = weights
        self.groups = groups
        self.scale = scale
        self.columns = columns

    def __call__(self, X: Any, Y: Any = None) -> Array:
        """Evaluate the kernel densely: ``K(X, Y)``, or ``K(X, X)`` without Y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            The first samples of the pairs.
        Y : {array-like, sparse matrix} of shape (m, n_features), default=None
            The second samples of the pairs; None is X.

        Returns
        -------
        K : ndarray of shape (n, m)
            The kernel of all pairs of rows.
        """
        X, Y = check_pair(X, Y)
        kernel = self._value(X.shape[1])
        left, right = (kernel.transform_rows(Rows.from_array(A)) for A in (X, Y))
        out = np.empty((left.n_rows, right.n_rows))
        for columns, block in intersections(left, right):
            out[:, columns] = block
        return out

    def _part(self, prefix: str = "") -> Linear:
        self._check()
        return Linear(float(self.scale), prefix, "minima")

    def _adapt(self, X: Any, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        n_features = X.shape[1]
        if self.columns is None:
            return Adapted(self, Intersection(**heights_of(self, n_features, self.scale)), noise)
        return Adapted(self, StackedIntersection.of((self._child("", n_features),), n_features), noise)

    def _adapt_to(self, operator: KernelOperator, targets: Array | None = None, noise: float = 1.0) -> Adapted:
        return Adapted(self, self._value(operator.n_features), noise)

    def _operator(self, value: Intersection, X: Any, n_threads: int = 1) -> SortedOperator:
        return SortedOperator(value.sorted(X, n_threads), value, n_threads)

    def _restored_operator(
        self, reader: Reader, value: Any, n_samples: int, n_features: int, n_threads: int
    ) -> SortedOperator:
        return SortedOperator.from_state(reader, value, n_samples, n_features, n_threads)

    def _restore(self, reader: Reader, n_features: int) -> Intersection:
        return self._value(n_features)

    def _value(self, n_features: int) -> Any:
        return self._adapt(np.empty((0, n_features))).value

    def _to_search(self, given: Kernel, value: Any) -> tuple[Kernel, Any]:
        kernel = self._with_open_weights(given)
        return (self, value) if kernel is self else (kernel, kernel._value(value.n_features))

    def _child(self, prefix: str, n_features: int) -> Child:
        """What it is in a sum of intersection kernels."""
        self._check()
        columns = selected(slice(None) if self.columns is None else self.columns, n_features)
        assert columns is not None
        return Child(prefix, columns, Intersection(**heights_of(self, len(columns), self.scale)))
