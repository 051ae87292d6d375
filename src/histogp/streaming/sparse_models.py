"""Regression with few weights or few features, on data of any size."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval

from histogp._core.data import Array
from histogp._core.least_squares.group_lasso import group_lasso
from histogp._core.least_squares.ridge import Ridge
from histogp._core.least_squares.statistics import Quadratic
from histogp._estimator import reading
from histogp._sklearn import warn
from histogp.exceptions import NotConvergedWarning
from histogp.streaming._stream import Learned, Rule, StreamingModel, Weights, solved
from histogp.streaming._targets import RealTargets

_CONSTRAINTS: dict[str, list] = {
    **StreamingModel._parameter_constraints,
    "alpha": [Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
}


class StreamingElasticNet(RegressorMixin, StreamingModel):
    """Regression with the penalty of the elastic net or the LASSO, from sums over chunks.

    Minimizes ``|y - Z w|^2 / (2 n) + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio) |w|^2 / 2``, as
    `sklearn.linear_model.ElasticNet` does, for every target by itself; exact, whatever the number of samples.

    Parameters
    ----------
    feature_map : transformer or None, default=None
        Maps samples to features, for instance `histogp.feature_maps.AdditiveChi2Map`; adapted to the samples of `fit`,
        or to the first ones of `partial_fit`. None takes the features as they are.
    alpha : float, default=1.0
        Penalty, positive.
    l1_ratio : float, default=1.0
        Part of the penalty that is on the absolute values: 1 is the LASSO.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalized.
    max_iter : int, default=1000
        Iterations at most.
    tol : float, default=1e-4
        Duality gap at which iterations end, in parts of the squares that the features could explain.
    chunk_bytes : int, default=2**27
        Memory for features at a time.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of the features that the map gives; after `partial_fit` they are computed when first needed.
    intercept_ : float or ndarray of shape (n_targets,)
        Predictions where all features are zero.
    n_iter_ : int or ndarray of shape (n_targets,)
        Iterations that the solution took.
    n_samples_seen_ : int
        Samples so far.
    n_features_in_ : int
        Features of a sample before the map.
    feature_names_in_ : ndarray of shape (n_features_in,)
        Names of these, if the data have names.

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
        **_CONSTRAINTS,
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    }
    _targets = RealTargets()

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
        """Keep the parameters as they are given; `fit` checks them."""
        self.feature_map = feature_map
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.chunk_bytes = chunk_bytes

    coef_ = solved(
        lambda learned, found: learned.targets.each(found.coefficients.T),
        "Weights of the features, (n_features,) or (n_targets, n_features).",
    )
    intercept_ = solved(
        lambda learned, found: learned.targets.each(found.intercepts),
        "Predictions where all features are zero, a float or (n_targets,).",
    )
    n_iter_ = solved(
        lambda learned, found: learned.targets.each(found.extra["n_iter"]),
        "Iterations that the solution took, an int or (n_targets,).",
    )

    @reading
    def predict(self, X: Any) -> Array:
        """Predict the targets of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In several columns if there were several targets.
        """
        scores = self._score(X)
        return self._learned.targets.decode(scores)

    def _rule(self) -> ElasticNetRule:
        return ElasticNetRule(self.alpha, bool(self.fit_intercept), int(self.max_iter), self.tol, self.l1_ratio)


class StreamingGroupLasso(RegressorMixin, StreamingModel):
    """Regression that chooses input features, or groups of them, as a whole, from sums over chunks.

    Minimizes ``|y - Z w|^2 / (2 n) + alpha sum_g sqrt(|g|) |w_g|`` for every target by itself, where a group g has all
    features that the map makes of some input features, or all those of a block: those without use have exact zeros
    throughout.

    Parameters
    ----------
    feature_map : transformer or None, default=None
        Maps each input feature to one or several, for instance `histogp.feature_maps.AdditiveChi2Map`, with the first
        of all input features before the second of all; adapted to the samples of `fit`, or to the first ones of
        `partial_fit`. None takes the features as they are.
    alpha : float, default=1.0
        Penalty, positive.
    groups : array-like of shape (n_features_in,) or None, default=None
        The label of the group of each input feature; None makes each a group of its own. Blocks are groups already.
    blocks : list of (name, map, columns) or None, default=None
        In place of ``feature_map``: several maps, each of some columns, as in `histogp.feature_maps.BlockMap`.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalized.
    max_iter : int, default=1000
        Iterations at most.
    tol : float, default=1e-4
        Duality gap at which iterations end, in parts of the squares of the targets.
    chunk_bytes : int, default=2**27
        Memory for features at a time.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of the features that the map gives; after `partial_fit` they are computed when first needed.
    intercept_ : float or ndarray of shape (n_targets,)
        Predictions where all features are zero.
    n_iter_ : int or ndarray of shape (n_targets,)
        Iterations that the solution took.
    n_samples_seen_ : int
        Samples so far.
    n_features_in_ : int
        Features of a sample before the map.
    feature_names_in_ : ndarray of shape (n_features_in,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.feature_maps import AdditiveChi2Map
    >>> from histogp.streaming import StreamingGroupLasso
    >>> X = np.random.default_rng(0).random((1000, 4))
    >>> model = StreamingGroupLasso(AdditiveChi2Map(n_terms=3), alpha=0.005)
    >>> for rows in np.split(np.arange(1000), 10):
    ...     model = model.partial_fit(X[rows], np.sin(3 * X[rows, 1]) + X[rows, 2])
    >>> np.any(model.coef_.reshape(3, 4) != 0, axis=0)
    array([False,  True,  True, False])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_CONSTRAINTS,
        "groups": ["array-like", None],
        "blocks": [list, tuple, None],
    }
    _targets = RealTargets()

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
        """Keep the parameters as they are given; `fit` checks them."""
        self.feature_map = feature_map
        self.alpha = alpha
        self.groups = groups
        self.blocks = blocks
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.chunk_bytes = chunk_bytes

    coef_ = solved(
        lambda learned, found: learned.targets.each(found.coefficients.T),
        "Weights of the features, (n_features,) or (n_targets, n_features).",
    )
    intercept_ = solved(
        lambda learned, found: learned.targets.each(found.intercepts),
        "Predictions where all features are zero, a float or (n_targets,).",
    )
    n_iter_ = solved(
        lambda learned, found: learned.targets.each(found.extra["n_iter"]),
        "Iterations that the solution took, an int or (n_targets,).",
    )

    @reading
    def predict(self, X: Any) -> Array:
        """Predict the targets of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In several columns if there were several targets.
        """
        scores = self._score(X)
        return self._learned.targets.decode(scores)

    def _rule(self) -> GroupLassoRule:
        groups = None
        if self.groups is not None:
            try:
                groups = tuple(np.unique(column_or_1d(self.groups), return_inverse=True)[1].tolist())
            except TypeError:
                raise ValueError("groups must be numbers, or texts, but not both.") from None
        return GroupLassoRule(self.alpha, bool(self.fit_intercept), int(self.max_iter), self.tol, groups)


@dataclass(frozen=True)
class SparseRule(Rule):
    """Least squares with a penalty that makes weights zero, by iterations up to ``max_iter`` or a gap of ``tol``."""

    alpha: float
    fit_intercept: bool
    max_iter: int
    tol: float

    def solve(self, learned: Learned) -> Weights:
        """The minimum, of every target by itself; warns if iterations have ended before it."""
        problem = Quadratic.of(learned.statistics(), intercept=self.fit_intercept, precision=learned.dtype)
        coefficients, n_iter, converged = self._minimize(learned, problem)
        if not converged:
            warn(
                f"The duality gap is not below tol={self.tol} after {self.max_iter} iterations: raise max_iter, tol or "
                "alpha, or bring the features to similar scales.",
                NotConvergedWarning,
            )
        # To see that zeros are the solution counts as an iteration.
        return learned.weights(coefficients, problem.intercepts(coefficients), n_iter=np.maximum(n_iter, 1))

    def _minimize(self, learned: Learned, problem: Quadratic) -> tuple[Array, Array, bool]:
        """Weights (m, k), iterations (k,), and whether all have converged."""
        raise NotImplementedError


@dataclass(frozen=True)
class ElasticNetRule(SparseRule):
    """The penalty of the elastic net, by scikit-learn's solver."""

    l1_ratio: float

    def _minimize(self, learned: Learned, problem: Quadratic) -> tuple[Array, Array, bool]:
        """Weights (m, k), iterations (k,), and whether all have converged; without absolute values it is ridge."""
        n_targets = problem.cross.shape[1]
        if self.l1_ratio == 0:
            ridge = Ridge.of(learned.parts[0], intercept=self.fit_intercept, precision=learned.dtype)
            return ridge.coefficients(self.alpha * problem.weight)[0], np.zeros(n_targets, np.int64), True
        R, q = problem.square_root()
        weights, n_iter = np.zeros_like(problem.cross), np.zeros(n_targets, np.int64)
        varies = q.any(axis=0)  # older versions of scikit-learn warn of targets that do not
        if not varies.any():
            return weights, n_iter, True
        # Its squares are divided by twice the rows that it is given, not by twice the samples that there are.
        model = ElasticNet(
            alpha=self.alpha * problem.weight / len(R),
            l1_ratio=self.l1_ratio,
            fit_intercept=False,
            precompute=True,
            max_iter=self.max_iter,
            tol=self.tol,
        )
        with warnings.catch_warnings():  # one for each target, at a line of scikit-learn
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(R, q[:, varies])
        weights[:, varies] = model.coef_.reshape(varies.sum(), -1).T
        n_iter[varies] = model.n_iter_
        return weights, n_iter, bool(n_iter.max() < self.max_iter)


@dataclass(frozen=True)
class GroupLassoRule(SparseRule):
    """A penalty on the norms of groups of weights.

    groups : the number of the group of each input feature; None makes each a group of its own, or each block
    """

    groups: tuple[int, ...] | None

    def check(self, learned: Learned, n_samples: int) -> None:
        """Refuse groups that do not go with the features, and maps that mix features."""
        if learned.feature_map._block_of is not None:
            if self.groups is not None:
                raise ValueError("Give either groups or blocks, which are groups already.")
            return
        if learned.width % learned.n_inputs:
            raise ValueError(
                f"The feature map makes {learned.width} features of {learned.n_inputs}, which is not the same number "
                "of each; use one that maps every feature by itself, such as AdditiveChi2Map."
            )
        if self.groups is not None and len(self.groups) != learned.n_inputs:
            raise ValueError(f"groups has {len(self.groups)} labels, but there are {learned.n_inputs} features.")

    def _minimize(self, learned: Learned, problem: Quadratic) -> tuple[Array, Array, bool]:
        group_of: Any = learned.feature_map._block_of
        if group_of is None:
            group_of = np.arange(learned.n_inputs) if self.groups is None else self.groups
        groups = np.resize(group_of, learned.width)
        weights, n_iter, converged = group_lasso(problem, groups, self.alpha, self.max_iter, self.tol)
        return weights, n_iter, bool(converged.all())
