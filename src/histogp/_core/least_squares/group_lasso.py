"""Least squares with a penalty on the norms of groups of weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp._core.data import Array
from histogp._core.least_squares.statistics import Quadratic


def group_lasso(
    problem: Quadratic, groups: Array, alpha: float, max_iter: int, tol: float
) -> tuple[Array, Array, Array]:
    """Weights (m, k), iterations (k,), and whether the gap is at most ``tol |y|^2 / n``, (k,).

    groups : (m,), the number of the group of each column

    By accelerated proximal gradients, whose momentum starts again when it points uphill (O'Donoghue and Candes, 2015).
    """
    order = np.argsort(groups, kind="stable")
    _, begins, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    # Rounding makes H indefinite where means are large, and steps would run away.
    R, q = problem.square_root()
    R = R[:, order]
    hessian, cross = R.T @ R, R.T @ q
    squares = np.maximum(problem.squares, np.sum(q**2, axis=0))
    lasso = GroupLasso(cross, squares, begins, alpha * np.sqrt(sizes) * problem.weight)
    n_features, n_targets = cross.shape
    # A little above the largest eigenvalue of H, against rounding.
    curvature = (1 + 1e-9) * max(float(np.sum(R**2, axis=1).max(initial=0.0)), np.finfo(float).tiny)

    found = np.zeros((n_features, n_targets))
    n_iter, converged = np.zeros(n_targets, np.int64), np.zeros(n_targets, bool)
    active = np.flatnonzero(lasso.gaps(found, cross, np.arange(n_targets)) > tol * squares)
    converged[np.setdiff1d(np.arange(n_targets), active)] = True
    # Weights and H times them, where they are and ahead in the direction of the momentum.
    weights, products = found[:, active], np.zeros((n_features, len(active)))
    ahead, ahead_products, momentum = weights, products, np.ones(len(active))
    for step in range(1, max_iter + 1):
        if len(active) == 0:
            break
        before, before_products = weights, products
        weights = lasso.shrunk(ahead + (cross[:, active] - ahead_products) / curvature, curvature)
        products = hessian @ weights
        found[:, active], n_iter[active] = weights, step
        done = lasso.gaps(weights, cross[:, active] - products, active) <= tol * squares[active]
        converged[active] = done
        uphill = np.sum((ahead - weights) * (weights - before), axis=0) > 0
        momentum = np.where(uphill, 1.0, momentum)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        factor = np.where(uphill, 0.0, (momentum - 1) / following)
        ahead = weights + factor * (weights - before)
        ahead_products = products + factor * (products - before_products)
        momentum = following
        if done.any():
            left = ~done
            active, momentum = active[left], momentum[left]
            weights, products = weights[:, left], products[:, left]
            ahead, ahead_products = ahead[:, left], ahead_products[:, left]
    out = np.empty_like(found)
    out[order] = found
    return out, n_iter, converged


@dataclass(frozen=True, eq=False)
class GroupLasso:
    """``|y - Z w|^2 / (2 n) + alpha sum_g sqrt(|g|) |w_g|`` for every target by itself.

    cross : (m, k), ``Z^T y``, in which columns of a group are next to each other; squares : (k,), ``y^T y``
    begins : (G,), the first column of each group; limits : (G,), ``alpha sqrt(|g|) n``
    """

    cross: Array
    squares: Array
    begins: Array
    limits: Array

    def norms(self, weights: Array) -> Array:
        """The norm of the weights (m, k) of each group, (G, k)."""
        return np.sqrt(np.add.reduceat(weights**2, self.begins, axis=0))

    def shrunk(self, weights: Array, curvature: float) -> Array:
        """The proximal step: every group is moved towards zero, up to which it goes exactly."""
        norms, limits = self.norms(weights), self.limits[:, None] / curvature
        factors = np.where(norms > limits, 1 - limits / np.where(norms > limits, norms, 1), 0.0)
        return weights * np.repeat(factors, np.diff(self.begins, append=len(weights)), axis=0)

    def gaps(self, weights: Array, gradients: Array, targets: Array) -> Array:
        """How far the objective, times n, may be from its minimum, (k,): what is above the best dual point in sight.

        weights : (m, k); gradients : (m, k), ``Z^T (y - Z w)``; targets : (k,), which ones
        """
        squares, cross = self.squares[targets], self.cross[:, targets]
        explained = np.sum(weights * cross, axis=0)
        # The residual r: y^T r and r^T r.
        along = squares - explained
        left = np.maximum(along - np.sum(weights * gradients, axis=0), 0.0)
        primal = left / 2 + self.limits @ self.norms(weights)
        norms = self.norms(gradients)
        room = np.min(
            np.divide(self.limits[:, None], norms, where=norms > 0, out=np.full_like(norms, np.inf)),
            axis=0,
            initial=np.inf,
        )
        # The best multiple of the residual that is feasible.
        scale = np.minimum(np.divide(along, left, where=left > 0, out=np.ones_like(left)), room)
        return primal - (scale * along - scale**2 * left / 2)
