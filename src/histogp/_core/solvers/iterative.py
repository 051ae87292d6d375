"""Preconditioned conjugate gradients for all right-hand sides together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import Approximate, KernelOperator, Precision
from histogp._core.solvers.preconditioner import Preconditioner, make_preconditioner
from histogp._core.solvers.problem import SINGLE_PRECISION_TOL, Callback, Noise, Solution, SolverOptions, relative
from histogp._core.solvers.system import FEWEST_OUTPUTS, MOST_OUTPUTS, System
from histogp._core.threads import single_threaded_blas

# A preconditioner serves until there are so many times more samples than when it was made.
MOST_SAMPLE_GROWTH = 1.5
# Products in single precision need a noise that is so many times larger than what rounding makes of the matrix: below
# one the iteration diverges, and up to ten it takes longer than in double precision.
LEAST_NOISE_IN_ROUNDINGS = 20
# A preconditioner serves as long as the unit of its factor, that of the kernel, is not so many times larger.
MOST_SCALE_GROWTH = 16


@dataclass(frozen=True, eq=False)
class IterativeSystem(System):
    """Conjugate gradients, mostly with a preconditioner.

    made_for : the number of samples for which the rank of the preconditioner was chosen
    """

    operator: KernelOperator
    noise: Noise
    options: SolverOptions
    preconditioner: Preconditioner | None
    made_for: int

    serves_any: ClassVar[bool] = False
    is_light: ClassVar[bool] = False
    _unit_tol: ClassVar[float] = 1e-4

    @classmethod
    def size_for(cls, n_outputs: int) -> int:
        """A power of four: a larger preconditioner pays for more outputs, and is made anew for many more of them."""
        return int(np.clip(4 ** np.ceil(np.log2(max(n_outputs, 1)) / 2), FEWEST_OUTPUTS, MOST_OUTPUTS))

    @classmethod
    def build(
        cls, operator: KernelOperator, noise: Noise, n_outputs: int, options: SolverOptions, rng: np.random.Generator
    ) -> IterativeSystem:
        """A system with a preconditioner that pays for ``n_outputs`` right-hand sides."""
        preconditioner = make_preconditioner(operator, noise, n_outputs, options, rng)
        return cls(operator, noise, options, preconditioner, operator.n_samples)

    def solve(
        self,
        sides: Array,
        tol: float,
        *,
        outputs: Array | None = None,
        start: Array | None = None,
        callback: Callback | None = None,
        verify: bool = False,
    ) -> Solution:
        """Solutions for each column of the right-hand sides (N, M), by conjugate gradients until ``tol`` is met."""
        return solve_cg(
            self.operator,
            self.noise,
            sides,
            tol=tol,
            max_iter=self.options.max_iter,
            preconditioner=self.preconditioner,
            outputs=outputs,
            start=start,
            callback=callback,
        )

    def mean_weights(self, targets: Array) -> None:
        return None

    def updated(self, operator: KernelOperator, rows: Rows, noise: Noise) -> IterativeSystem | None:
        """The system with its preconditioner extended to ``rows``; None if that has become too old."""
        n_old = self.operator.n_samples
        if (
            operator.n_samples > MOST_SAMPLE_GROWTH * self.made_for
            or operator.scale > MOST_SCALE_GROWTH * self.operator.scale
        ):
            return None
        preconditioner = self.preconditioner
        if preconditioner is not None:
            same_noise = np.array_equal(noise.subset(np.arange(n_old)).diagonals(), self.noise.diagonals())
            preconditioner = preconditioner.updated(operator, rows, noise, same_noise)
        return replace(self, operator=operator, noise=noise, preconditioner=preconditioner)

    def with_options(self, options: SolverOptions) -> IterativeSystem:
        preconditioner = self.preconditioner and self.preconditioner.with_threads(options.n_threads)
        return replace(self, options=options, preconditioner=preconditioner)


def solve_cg(
    operator: KernelOperator,
    noise: Noise,
    sides: Array,
    *,
    tol: float,
    max_iter: int,
    preconditioner: Preconditioner | None = None,
    start: Array | None = None,
    callback: Callback | None = None,
    outputs: Array | None = None,
    left_out: Array | None = None,
) -> Solution:
    """Solve ``(K + diag(noise)) x = b`` for each column until ``max|r| <= tol max|b|``.

    The columns run independent recurrences but share every product with K. The products may be in
    single precision; a column counts as solved only when its residual, recomputed in float64, meets
    the target. Otherwise the iteration goes on from that residual in double precision. Residuals of a
    recurrence in double precision count as they are while its rounding is far below the target.

    Parameters
    ----------
    sides : (N, M)
    start : (N, M) or None
        A guess of the solution.
    outputs : (M,) or None
        The number of the output, where each has its noise, that a column belongs to; None: its own.
    left_out : numbers of rows, or None
        The system is that without these rows and columns, for which the preconditioner is; the solution is zero there.
    """
    with single_threaded_blas():
        iteration = _Iteration(operator, noise, sides, tol, preconditioner, callback, outputs, left_out)
        return iteration.run(max_iter, start)


class _Iteration:
    """One run of `solve_cg`: right-hand sides in their own units, their solutions and residuals so far."""

    def __init__(
        self,
        operator: KernelOperator,
        noise: Noise,
        sides: Array,
        tol: float,
        preconditioner: Preconditioner | None,
        callback: Callback | None,
        outputs: Array | None,
        left_out: Array | None,
    ):
        """Scale each right-hand side to a largest entry of one, and choose the precision of the products."""
        self.operator = operator
        self.diagonals = noise.diagonals()
        self.outputs = np.arange(sides.shape[1]) if outputs is None else outputs
        self.steps: list[Array] = []
        self.ratios: list[Array] = []
        self.preconditioner = preconditioner
        self.callback = callback
        self.left_out = np.empty(0, int) if left_out is None else left_out
        self.tol = tol
        largest = np.abs(sides).max(axis=0)
        self.scale = np.where(largest > 0, largest, 1.0)
        self.b = self.without(sides / self.scale)
        # A single vector gains little from single precision, less than the iterations that it costs.
        rounding = np.sqrt(operator.n_samples) * np.finfo(np.float32).eps * operator.scale
        is_noisy = self.diagonals.min() > LEAST_NOISE_IN_ROUNDINGS * rounding
        single = tol >= SINGLE_PRECISION_TOL and sides.shape[1] > 1 and is_noisy
        self.precision: Precision = "single" if single else "double"
        self.n_iterations = 0
        self.n_products = 0
        self.stopped = False
        self.largest = 0.0

    def run(self, max_iter: int, start: Array | None) -> Solution:
        """Descend, look at the true residuals, and go on in double precision until all columns are solved."""
        self.x = np.zeros_like(self.b) if start is None else start / self.scale
        r = self.b.copy() if start is None else self.true_residuals(slice(None))
        residuals = relative(r, np.ones(r.shape[1]))
        cold = start is None
        while True:
            todo = np.flatnonzero(residuals > self.tol)
            if len(todo) == 0 or self.stopped or self.n_iterations >= max_iter:
                break
            n_before = self.n_iterations
            self.largest = residuals.max()
            r[:, todo] = self.descend(todo, r[:, todo], max_iter, record=cold)
            cold = False
            if not self.is_exact(self.n_iterations - n_before):
                r[:, todo] = self.true_residuals(todo)
            residuals[todo] = relative(r[:, todo], np.ones(len(todo)))
            self.precision = "double"
        return Solution(
            self.x * self.scale,
            r * self.scale,
            residuals,
            n_iterations=self.n_iterations,
            n_products=self.n_products,
            converged=bool(np.all(residuals <= self.tol)),
            stopped_by_callback=self.stopped,
            rank=self.preconditioner.rank if self.preconditioner else 0,
            steps=np.reshape(self.steps, (-1, self.b.shape[1])),
            ratios=np.reshape(self.ratios, (-1, self.b.shape[1])),
        )

    def is_exact(self, n_steps: int) -> bool:
        """Whether the residuals of the recurrence are as good as true ones: each step adds rounding of the largest."""
        drift = 100 * np.finfo(np.float64).eps * n_steps * max(self.largest, 1.0)
        return self.precision == "double" and bool(drift <= 1e-6 * self.tol)

    def descend(self, active: Array, r: Array, max_iter: int, record: bool) -> Array:
        """Iterate on the columns ``active`` until the recurrence says that they have converged; returns its residuals.

        ``record`` keeps the coefficients of the recurrence.
        """
        everything, given = r, np.arange(len(active))
        x = self.x[:, active]
        z = self.precondition(r, active)
        p = z.copy()
        rz = _dots(r, z)
        try:
            while self.n_iterations < max_iter:
                q = self.multiply(p, active)
                curvature = _dots(p, q)
                if self.operator.has_large_matrix and np.any((curvature <= 0) & (rz > 0)):
                    if self.precision == "single":
                        break  # in double precision it goes on
                    raise ValueError(self.too_little_noise())
                step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
                x += step * p
                r -= step * q
                self.n_iterations += 1
                if record:
                    self.steps.append(self.of_all_columns(active, step))
                residuals = np.abs(r).max(axis=0)
                self.largest = max(self.largest, residuals.max())
                if self.callback is not None and self.report(active, x, residuals):
                    self.stopped = True
                    break
                unsolved = np.flatnonzero(residuals > self.tol)
                if len(unsolved) == 0:
                    break
                if self.n_blocks(len(unsolved)) < self.n_blocks(len(active)):
                    self.x[:, active], everything[:, given] = x, r
                    active, given, rz = active[unsolved], given[unsolved], rz[unsolved]
                    x, r, p = x[:, unsolved], r[:, unsolved], p[:, unsolved]
                z = self.precondition(r, active)
                old, rz = rz, _dots(r, z)
                ratio = np.divide(rz, old, out=np.zeros_like(rz), where=old > 0)
                if record:
                    self.ratios.append(self.of_all_columns(active, ratio))
                p *= ratio
                p += z
        finally:
            self.x[:, active] = x
        everything[:, given] = r
        return everything

    def too_little_noise(self) -> str:
        """What to say where rounding of the matrix is more than the noise."""
        offered = self.operator.offer(Approximate)
        error = 0.0 if offered is None else offered.approximation_error()
        rounding = 4 * np.sqrt(self.operator.n_samples) * error * self.operator.diagonal().mean()
        return (
            f"The kernel matrix with noise {self.diagonals.min():g} is not positive definite in float32; use a larger "
            f"noise, at least about {rounding:.0e} here."
        )

    def n_blocks(self, n_columns: int) -> int:
        return -(-n_columns // self.operator.block_width)

    def of_all_columns(self, active: Array, values: Array) -> Array:
        full = np.full(self.b.shape[1], np.nan)
        full[active] = values
        return full

    def report(self, active: Array, x: Array, residuals: Array) -> bool:
        def present() -> Array:
            values = self.x.copy()
            values[:, active] = x
            return values * self.scale

        assert self.callback is not None
        return self.callback(self.n_iterations, residuals, present)

    def precondition(self, r: Array, active: Array) -> Array:
        if self.preconditioner is None:
            return r if is_uniform(self.diagonals) else r / self.diagonal_of(active)
        return self.without(self.preconditioner.apply(r, self.outputs[active]))

    def multiply(self, p: Array, active: Array) -> Array:
        self.n_products += p.shape[1]
        q = self.operator.matmat(p, self.precision)
        q += self.diagonal_of(active) * p
        return self.without(q)

    def without(self, vectors: Array) -> Array:
        """Vectors that are zero in the rows that are left out."""
        vectors[self.left_out] = 0.0
        return vectors

    def diagonal_of(self, active: Array | slice) -> Array:
        return self.diagonals if self.diagonals.shape[1] == 1 else self.diagonals[:, self.outputs[active]]

    def true_residuals(self, active: Array | slice) -> Array:
        x = self.x[:, active]
        self.n_products += x.shape[1]
        return self.without(self.b[:, active] - self.operator.matmat(x) - self.diagonal_of(active) * x)


def is_uniform(diagonals: Array) -> bool:
    """Whether the noise is one number; otherwise it serves as preconditioner where there is no other."""
    return diagonals.shape[1] == 1 and np.ptp(diagonals) == 0


def _dots(a: Array, b: Array) -> Array:
    return np.einsum("ij,ij->j", a, b)
