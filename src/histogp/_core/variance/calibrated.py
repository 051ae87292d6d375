"""The variance from tables, weighed so that it fits exact leave-one-out variances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.layouts import Layout, NodeLayout
from histogp._core.operators.contract import KernelOperator, Tables, updates_of
from histogp._core.solvers.iterative import solve_cg
from histogp._core.solvers.preconditioner import Preconditioner, make_preconditioner
from histogp._core.solvers.problem import Noise, SolverOptions
from histogp._core.solvers.subspace import Subspace, leading_subspace
from histogp._core.threads import single_threaded_blas
from histogp._core.variance import Shape, Variance, VarianceMethod, VarianceOptions
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

# With fewer samples there is nothing to weigh, and exact variances are quick.
FEWEST_SAMPLES = 256
# Dimension of the subspace for what the dimensions of the data share.
SUBSPACE_DIMENSION = 64
# Samples left out of the tables: one in so many, and at most.
LEFT_OUT_PART = 8
MOST_CALIBRATED = 1024
# Exact leave-one-out variances are computed for blocks of so many of them, a second block only if the first one shows
# a larger error than this.
LEFT_OUT_AT_ONCE = 16
GOOD_RELATIVE_ERROR = 0.03
# Residual from which a leave-one-out variance is extrapolated, and iterations until then.
LEFT_OUT_TOL = 0.01
LEFT_OUT_MAX_ITER = 500
# Samples that it takes to fit, and variances, in units of those of the prior, that are rounding.
FEWEST_TO_FIT = 6
SMALLEST_VARIANCE_SHARE = 1e-9
# Nodes of the table in each dimension.
NODES_PER_FEATURE = 64
# Weights of dimensions that do not interact; fitted ones differ from these only as far as the data say.
START_WEIGHTS = np.array([1.0, 0.0, 0.0])
# Singular values below this part of the largest say nothing about the weights.
NEGLIGIBLE_SINGULAR_VALUE = 1e-6


@dataclass(frozen=True, eq=False)
class CalibratedTables:
    """``w_1 s(x) + w_2 K(x, x) + w_3 (K(x, x) - q(x))``, between 0 and ``K(x, x) - q(x)``.

    s adds up the variances that the dimensions have if each is observed alone: close to the variance where the
    dimensions hardly interact, as in bags of words. ``q = k^T V (V^T A V)^-1 V^T k`` for a subspace V is a part of
    what the data explain, so that ``K(x, x) - q(x)`` bounds the variance; it knows what the dimensions share. The
    weights fit exact leave-one-out variances of a few training samples, which neither s nor V have seen. Heights beyond
    those of training add to the variance as they are, and do not count in the formula.

    table : (n_nodes, 1 + r), of s and ``(V^T A V)^(-1/2) V^T k``, single precision
    weights : (3,)
    error : the root mean square of the relative error, by leave-one-out of the fit
    left_out, left_out_variances : (n,), training samples that the tables have not seen, and their variances
    differences : (layout.n_nodes,), of functions over gaps, see `variances_of_differences`
    shortfall : a sentence if the solver stopped early, or None
    """

    layout: Layout
    table: Array
    weights: Array
    error: float
    left_out: Array
    left_out_variances: Array
    differences: Array
    shortfall: str | None = None

    def to_state(self, writer: Writer, version: None) -> None:
        """Write the tables into a model file."""
        self.layout.to_state(writer)
        for name in ("table", "weights", "left_out", "left_out_variances", "differences"):
            writer.put(name, getattr(self, name))
        writer.put("error", [self.error])
        if self.shortfall is not None:
            writer.set("shortfall", self.shortfall)

    @classmethod
    def from_state(cls, reader: Reader, shape: Shape) -> tuple[None, CalibratedTables]:
        """The tables in a model file; believes nothing."""
        layout = NodeLayout.from_state(reader, shape.kernel, shape.kernel.n_columns)
        left_out = reader.array("left_out", np.int64, (None,), lowest=0)
        if left_out.size and left_out.max() >= shape.n_samples:
            raise ModelFileError("its left-out samples do not exist.")
        if np.any(left_out[1:] <= left_out[:-1]):
            raise ModelFileError("its left-out samples are not in order.")
        table = reader.array("table", np.float32, (layout.n_nodes, None))
        if table.shape[1] < 1:
            raise ModelFileError("its table is damaged.")
        weights = reader.array("weights", np.float64, (3,))
        error = float(reader.array("error", np.float64, (1,), lowest=0)[0])
        variances = reader.array("left_out_variances", np.float64, left_out.shape, lowest=0)
        shortfall = reader.text("shortfall", default="") or None
        differences = np.zeros(layout.n_nodes)  # files from before gaps were known have none
        if reader.has("differences"):
            differences = reader.array("differences", np.float64, differences.shape, lowest=0)
        return None, cls(layout, table, weights, error, left_out, variances, differences, shortfall)

    def variance(self, rows: Rows, n_threads: int = 1) -> Array:
        features, beyond = self.features(rows, n_threads)
        return self.weigh(features) + beyond

    def weigh(self, features: Array) -> Array:
        return np.clip(features @ self.weights, 0.0, np.maximum(features[:, 2], 0.0))

    def features(self, rows: Rows, n_threads: int = 1) -> tuple[Array, Array]:
        """s, ``K(x, x)`` and ``K(x, x) - q`` for each test row, (n, 3), and what lies beyond the nodes, (n,)."""
        located = self.layout.locate(rows, n_threads)
        prior = self.layout.kernel.own(rows) - located.beyond
        found = self.layout.read(self.table, located, n_threads)
        explained = np.einsum("ij,ij->i", found[:, 1:], found[:, 1:], dtype=np.float64)
        # What is interpolated is the variance; that of an interpolated function is smaller.
        smoothed = found[:, 0] - located.gaps(self.differences, n_threads)
        return np.stack([smoothed, prior, prior - explained], axis=1), located.beyond


def calibrate(operator: KernelOperator, noise: Array, n_threads: int, seed: int) -> CalibratedTables:
    """Make the tables and fit the weights; noise (N,)."""
    rng = np.random.default_rng(seed)
    n = operator.n_samples
    index = np.sort(rng.choice(n, min(n // LEFT_OUT_PART, MOST_CALIBRATED), replace=False))
    kept = np.setdiff1d(np.arange(n), index)
    updates = updates_of(operator)
    rest, left_out = updates.remove(index), updates.remove(kept).training_rows()
    with single_threaded_blas():
        subspace = leading_subspace(rest, SUBSPACE_DIMENSION, rng)
        projector = _whiten(subspace, noise[kept])
    layout = rest.layout(NODES_PER_FEATURE)
    smoothed = rest.tabulate_smoothed(layout, noise[kept])
    table = np.hstack([smoothed, rest.tabulate(layout, projector)]).astype(np.float32)
    differences = variances_of_differences(layout.gaps, smoothed[:, 0])
    tables = CalibratedTables(layout, table, START_WEIGHTS, np.inf, index, np.empty(0), differences)
    features, beyond = tables.features(left_out, n_threads)
    options = SolverOptions("cg", LEFT_OUT_TOL, LEFT_OUT_MAX_ITER, "auto", n_threads)
    preconditioner = make_preconditioner(operator, Noise(noise), LEFT_OUT_AT_ONCE, options, rng)
    chosen = rng.permutation(len(index))[: 2 * LEFT_OUT_AT_ONCE]
    exact = np.empty(0)
    while len(exact) < len(chosen) and tables.error > GOOD_RELATIVE_ERROR:
        more = index[chosen[len(exact) : len(exact) + LEFT_OUT_AT_ONCE]]
        found, shortfall = _leave_one_out(operator, noise, more, preconditioner)
        exact = np.append(exact, found)
        known = chosen[: len(exact)]
        weights, error = _fit(features[known], exact, beyond[known])
        tables = replace(tables, weights=weights, error=error, shortfall=shortfall or tables.shortfall)
    return replace(tables, left_out_variances=tables.weigh(features) + beyond)


def variances_of_differences(gaps: Array, variances: Array) -> Array:
    """The posterior variance of ``f(b) - f(a)`` over gaps from a to b, (n_nodes,), given those of f at the nodes.

    f is Brownian motion. With the variances u of f(a) from data on the left alone, v of f(b) from those on the right,
    and ``t = u + w + v`` for a gap of the width w, f(a) has the variance ``u (w + v) / t``, f(b) ``v (w + u) / t``, and
    their difference has ``w - w^2 / t``; the first two say what t is.
    """
    is_gap = gaps > 0
    width = gaps[is_gap]
    before, after = variances[is_gap], np.roll(variances, -1)[is_gap]
    slope = np.clip((after - before) / width, -1 + 1e-9, 1 - 1e-9)
    total, rest = before + after, 1 - slope**2
    t = (total + np.sqrt(total**2 + rest * width**2)) / rest
    out = np.zeros(len(gaps))
    out[is_gap] = np.maximum(width - width**2 / t, 0.0)
    return out


def _whiten(subspace: Subspace, noise: Array) -> Array:
    """``V (V^T A V)^(-1/2)``, (N, r)."""
    basis = subspace.basis
    projected = basis.T @ (subspace.image + noise[:, None] * basis)
    values, vectors = np.linalg.eigh((projected + projected.T) / 2)
    return basis @ (vectors / np.sqrt(values))


def _leave_one_out(
    operator: KernelOperator, noise: Array, index: Array, preconditioner: Preconditioner | None
) -> tuple[Array, str | None]:
    """``1 / [A^-1]_ii - noise_i`` for the samples ``index``, (n,), and a sentence if the solver stopped early.

    Conjugate gradients add up ``[A^-1]_ii`` from positive terms that soon fall geometrically: the rest of the series
    is extrapolated from the last ones.
    """
    columns = np.arange(len(index))
    sides = np.zeros((operator.n_samples, len(index)))
    sides[index, columns] = 1.0
    solution = solve_cg(
        operator, Noise(noise), sides, tol=LEFT_OUT_TOL, max_iter=LEFT_OUT_MAX_ITER, preconditioner=preconditioner
    )
    shortfall = None
    if not solution.converged:
        shortfall = (
            f"The solver stopped after {LEFT_OUT_MAX_ITER} iterations, so that the variance 'calibrated' may be "
            "too large: the noise is very small against the kernel; give a larger noise."
        )
    found = solution.values[index, columns]
    diagonal = found + np.einsum("ij,ij->j", solution.residual, solution.values)
    n_terms = len(solution.steps)
    if 4 <= n_terms == solution.n_iterations:
        terms = solution.steps * np.cumprod(np.vstack([np.ones(len(index)), solution.ratios[: n_terms - 1]]), axis=0)
        terms *= found / terms.sum(axis=0)
        last, before = terms[-2:].sum(axis=0), terms[-4:-2].sum(axis=0)
        shrink = np.clip(np.divide(last, before, out=np.zeros_like(last), where=before > 0) ** 0.5, 0.0, 0.9)
        diagonal += terms[-1] * shrink / (1 - shrink)
    return np.maximum(1 / diagonal - noise[index], SMALLEST_VARIANCE_SHARE * operator.diagonal()[index]), shortfall


def _fit(features: Array, exact: Array, beyond: Array) -> tuple[Array, float]:
    """Weights with the smallest squared error relative to exact variances, and its root mean square by leave-one-out.

    beyond : (n,), what is added to the weighed features
    """
    usable = exact > 0
    if usable.sum() < FEWEST_TO_FIT:  # rows of zeros, of which nothing can be learned
        return START_WEIGHTS, 1.0
    scaled = features[usable] / exact[usable, None]
    left, values, right = np.linalg.svd(scaled, full_matrices=False)
    good = values > NEGLIGIBLE_SINGULAR_VALUE * values[0]
    left, values, right = left[:, good], values[good], right[good]
    # Only what the data can tell is changed.
    missing = 1 - beyond[usable] / exact[usable] - scaled @ START_WEIGHTS
    change = left.T @ missing
    residuals = missing - left @ change
    leverage = np.minimum((left**2).sum(axis=1), 0.99)
    weights = START_WEIGHTS + right.T @ (change / values)
    return weights, float(np.sqrt(np.mean((residuals / (1 - leverage)) ** 2)))


class Calibrated(VarianceMethod):
    """Tables weighed to fit exact leave-one-out variances of a few training samples."""

    name = "calibrated"
    kind = "estimate"
    needs_tables = True
    needs_training = False
    keeps: ClassVar = {"calibrated": CalibratedTables}

    def instead(self, operator: KernelOperator) -> str | None:
        few = operator.n_samples < FEWEST_SAMPLES
        return "precise" if few or operator.offer(Tables) is None else None

    def prepare(self, posterior: Any, options: VarianceOptions) -> CalibratedTables:
        return calibrate(posterior.operator, posterior.largest_noise, options.solver.n_threads, posterior.seed)

    def variance(self, posterior: Any, rows: Rows, options: VarianceOptions) -> Variance:
        return self.read(posterior.prepared(self, options), rows, options)

    def read(self, prepared: CalibratedTables, rows: Rows, options: VarianceOptions) -> Variance:
        return Variance(prepared.variance(rows, options.solver.n_threads), prepared.shortfall)


CALIBRATED = Calibrated()
