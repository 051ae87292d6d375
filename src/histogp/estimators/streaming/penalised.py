"""Regression with few weights or few features, on data of any size."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from histogp._sklearn import warn
from histogp.estimators.blocks import BlockMap
from histogp.estimators.state import reading
from histogp.estimators.streaming.base import Learned, Streaming
from histogp.estimators.streaming.blocks import BLOCKS, WithBlocks
from histogp.estimators.streaming.regression import Regression, labelled
from histogp.exceptions import NotConvergedWarning
from histogp.primal.group_lasso import group_lasso
from histogp.primal.quadratic import Quadratic
from histogp.primal.ridge import Ridge
from histogp.storage import Array

_ATTRIBUTES = """coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of the features that the map gives; computed when they are first needed.
    intercept_ : float or ndarray of shape (n_targets,)
    n_iter_ : int or ndarray of shape (n_targets,)
    n_samples_seen_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)"""


class _Penalised(Regression):
    """What the two share."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **Streaming._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    alpha: float
    fit_intercept: bool
    max_iter: int
    tol: float

    def _solved(self) -> tuple[Array, Array, Array]:
        """Weights (m, k), intercepts (k,), and iterations (k,)."""
        self._validate_params()
        key = (self.alpha, self.fit_intercept, self.max_iter, self.tol, self._key())
        return self._learned.solution.get("weights", self._solve, key)

    def _solve(self) -> tuple[Array, Array, Array]:
        problem = Quadratic.of(labelled(self._statistics()), intercept=bool(self.fit_intercept))
        weights, n_iter = self._minimum(problem)
        # To see that zeros are the solution counts as an iteration.
        return weights, problem.intercepts(weights), np.maximum(n_iter, 1)

    def _key(self) -> Hashable:
        """What else the solution depends on."""
        raise NotImplementedError

    def _minimum(self, problem: Quadratic) -> tuple[Array, Array]:
        """Weights (m, k) and iterations (k,)."""
        raise NotImplementedError

    def _warn_of_gap(self) -> None:
        warn(
            f"The duality gap is not below tol={self.tol} after {self.max_iter} iterations: raise max_iter, tol or "
            "alpha, or bring the features to similar scales.",
            NotConvergedWarning,
        )

    @property
    @reading
    def n_iter_(self) -> Any:
        """Iterations that the solution took."""
        check_is_fitted(self)
        n_iter = self._solved()[2]
        return int(n_iter[0]) if self._is_vector else n_iter


class StreamingElasticNet(_Penalised):
    __doc__ = f"""Regression with the penalty of the elastic net or the LASSO, from sums over chunks.

    Minimises ``|y - Z w|^2 / (2 n) + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio) |w|^2 / 2``, as
    `sklearn.linear_model.ElasticNet` does, for every target by itself; exact, whatever the number of rows.

    Parameters
    ----------
    feature_map : transformer or None, default=None
        Maps rows to features, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the rows of `fit`, or to
        the first ones of `partial_fit`. None takes the features as they are.
    alpha : float, default=1.0
        Penalty, positive.
    l1_ratio : float, default=1.0
        Part of the penalty that is on the absolute values: 1 is the LASSO.
    fit_intercept : bool, default=True
    max_iter : int, default=1000
    tol : float, default=1e-4
        Duality gap at which iterations end, in parts of the squares that the features could explain.
    chunk_bytes : int, default=2**27
        Memory for features at a time.

    Attributes
    ----------
    {_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.streaming import StreamingElasticNet
    >>> X = np.random.default_rng(0).random((1000, 4))
    >>> model = StreamingElasticNet(alpha=0.01)
    >>> for rows in np.split(np.arange(1000), 10):
    ...     model = model.partial_fit(X[rows], X[rows] @ [1.0, 0.0, 3.0, 0.0])
    >>> abs(model.coef_).round(1)
    array([0.9, 0. , 2.9, 0. ])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_Penalised._parameter_constraints,
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        feature_map: Any = None,
        *,
        alpha: float = 1.0,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        chunk_bytes: int = 2**27,
    ):
        self.feature_map = feature_map
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.chunk_bytes = chunk_bytes

    def _key(self) -> Hashable:
        return self.l1_ratio

    def _minimum(self, problem: Quadratic) -> tuple[Array, Array]:
        n_targets = problem.cross.shape[1]
        if self.l1_ratio == 0:
            ridge = Ridge.of(self._statistics(), intercept=bool(self.fit_intercept))
            return ridge.coefficients(self.alpha * problem.weight)[0], np.zeros(n_targets, np.int64)
        R, q = problem.square_root()
        weights, n_iter = np.zeros_like(problem.cross), np.zeros(n_targets, np.int64)
        varies = q.any(axis=0)  # older versions of scikit-learn warn of targets that do not
        if not varies.any():
            return weights, n_iter
        # Its squares are divided by twice the rows that it is given, not by twice those that there are.
        model = ElasticNet(
            alpha=self.alpha * problem.weight / len(R),
            l1_ratio=self.l1_ratio,
            fit_intercept=False,
            precompute=True,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        with warnings.catch_warnings(record=True) as caught:  # one for each target, at a line of scikit-learn
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(R, q[:, varies])
        if any(issubclass(each.category, ConvergenceWarning) for each in caught):
            self._warn_of_gap()
        weights[:, varies] = model.coef_.reshape(varies.sum(), -1).T
        n_iter[varies] = model.n_iter_
        return weights, n_iter


class StreamingGroupLasso(WithBlocks, _Penalised):
    __doc__ = f"""Regression that chooses input features, or groups of them, as a whole, from sums over chunks.

    Minimises ``|y - Z w|^2 / (2 n) + alpha sum_g sqrt(|g|) |w_g|`` for every target by itself, where a group g has all
    features that the map makes of some input features, or all those of a block: those without use have exact zeros
    throughout.

    Parameters
    ----------
    feature_map : transformer or None, default=None
        Maps each input feature to one or several, for instance `histogp.feature_maps.AdditiveChi2Map`, with the first
        of all input features before the second of all; adapted to the rows of `fit`, or to the first ones of
        `partial_fit`. None takes the features as they are.
    alpha : float, default=1.0
        Penalty, positive.
    groups : array-like of shape (n_features_in_,) or None, default=None
        The label of the group of each input feature; None makes each a group of its own. Blocks are groups already.
    {BLOCKS}
    fit_intercept : bool, default=True
    max_iter : int, default=1000
    tol : float, default=1e-4
        Duality gap at which iterations end, in parts of the squares of the targets.
    chunk_bytes : int, default=2**27
        Memory for features at a time.

    Attributes
    ----------
    {_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.feature_maps import AdditiveChi2Map
    >>> from histogp.streaming import StreamingGroupLasso
    >>> X = np.random.default_rng(0).random((1000, 4))
    >>> model = StreamingGroupLasso(AdditiveChi2Map(n_components=3), alpha=0.005)
    >>> for rows in np.split(np.arange(1000), 10):
    ...     model = model.partial_fit(X[rows], np.sin(3 * X[rows, 1]) + X[rows, 2])
    >>> np.any(model.coef_.reshape(3, 4) != 0, axis=0)
    array([False,  True,  True, False])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_Penalised._parameter_constraints,
        "groups": ["array-like", None],
        "blocks": [list, tuple, None],
    }

    def __init__(
        self,
        feature_map: Any = None,
        *,
        alpha: float = 1.0,
        groups: Any = None,
        blocks: Any = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        chunk_bytes: int = 2**27,
    ):
        self.feature_map = feature_map
        self.alpha = alpha
        self.groups = groups
        self.blocks = blocks
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.chunk_bytes = chunk_bytes

    def _add(self, learned: Learned, X: Any, y: Array, weights: Array) -> None:
        width, n_inputs = len(learned.parts[0].sums), self.n_features_in_
        if not isinstance(learned.feature_map, BlockMap) and width % n_inputs:
            raise ValueError(
                f"The feature map makes {width} features of {n_inputs}, which is not the same number of each; use one "
                "that maps every feature by itself, such as AdditiveChi2Map."
            )
        if isinstance(learned.feature_map, BlockMap) and self.groups is not None:
            raise ValueError("Give either groups or blocks.")
        self._groups()
        super()._add(learned, X, y, weights)

    def _key(self) -> tuple[int, ...]:
        """The number of the group of each input feature, or of each feature."""
        block_of = self._block_of()
        return self._groups() if block_of is None else tuple(block_of.tolist())

    def _groups(self) -> tuple[int, ...]:
        if self.groups is None:
            return tuple(range(self.n_features_in_))
        labels = column_or_1d(self.groups)
        if len(labels) != self.n_features_in_:
            raise ValueError(f"groups has {len(labels)} labels, but there are {self.n_features_in_} features.")
        try:
            return tuple(np.unique(labels, return_inverse=True)[1].tolist())
        except TypeError:
            raise ValueError("groups must be numbers, or texts, but not both.") from None

    def _minimum(self, problem: Quadratic) -> tuple[Array, Array]:
        groups = np.resize(self._key(), len(problem.means))
        weights, n_iter, converged = group_lasso(problem, groups, self.alpha, int(self.max_iter), self.tol)
        if not converged.all():
            self._warn_of_gap()
        return weights, n_iter
