"""Every way to compute the variance, prepared when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator
from histogp._core.solvers.problem import Noise, SolverOptions
from histogp._core.solvers.system import System, is_direct
from histogp._core.threads import Lazy
from histogp._core.variance.calibrated import FEWEST, Calibrated, calibrate
from histogp._core.variance.precise import covariance, precise_variance
from histogp._core.variance.sampled import PosteriorSamples
from histogp._core.variance.spectral import Coarse, CoarseQuantized, Spectrum

VarianceMethod = Literal["precise", "fine", "coarse", "coarse-quantized", "sampled", "calibrated"]
METHODS: tuple[VarianceMethod, ...] = get_args(VarianceMethod)
# These give the variance itself; the others bound it from above, some of them by far.
ESTIMATES: tuple[VarianceMethod, ...] = ("precise", "sampled", "calibrated")
# What is worth keeping when a model is saved or copied; the first three need no training examples.
TABLES = ("coarse-quantized", "sampled", "calibrated")
KEPT_VARIANCES = (*TABLES, "spectrum")


@dataclass(frozen=True)
class VarianceOptions:
    """n_eigenvectors : one or several; n_bins : of the coarse quantised table; tol : of the precise solver."""

    n_eigenvectors: int | Sequence[int] = 8
    n_samples: int = 256
    n_bins: int = 100
    tol: float = 1e-4


FEWEST_SIDES, MOST_SIDES = 16, 4096


class Variances:
    """Latent variances of test rows: without noise. Safe to share between threads.

    With one noise a problem all methods but `per_problem` use the largest noise of each row: the variance for that
    matrix bounds those of all problems.
    """

    def __init__(self, operator: KernelOperator, noise: Noise, seed: int, system: System | None = None):
        self.operator = operator
        self.noise = noise
        self.shared = noise.diagonals().max(axis=1)
        self.seed = seed
        self.prepared = Lazy()
        if system is not None and system.factors and not noise.is_per_problem:
            self.prepared.put(f"system-{system.options.solver}", system, MOST_SIDES)
        self.asked_for_calibrated = False

    def latent(self, rows: Rows, method: VarianceMethod, options: VarianceOptions, solver: SolverOptions) -> Array:
        """(n,), or (n, k) for k numbers of eigenvectors."""
        if method == "precise":
            return precise_variance(self.system(rows.n_rows, solver), rows, options.tol)[:, 0]
        if method == "fine":
            numbers = np.atleast_1d(options.n_eigenvectors)
            found = self._spectrum(int(numbers.max())).fine_variance(self.operator, rows, numbers)
            return found if np.ndim(options.n_eigenvectors) else found[:, 0]
        if method == "calibrated" and (self.operator.n_rows < FEWEST or self.operator.rank is not None):
            return self.latent(rows, "precise", options, solver)
        return self.table(method, options, solver).variance(rows, solver.n_threads)

    def system(self, n_sides: int, solver: SolverOptions) -> System:
        """What solves for ``n_sides`` right-hand sides, with the largest noise of each row."""
        # A larger preconditioner pays for more right-hand sides; it is made anew when there are many more than before.
        noise = Noise(self.shared)
        size = int(np.clip(4 ** np.ceil(np.log2(max(n_sides, 1)) / 2), FEWEST_SIDES, MOST_SIDES))
        if is_direct(self.operator, noise, solver):
            size = MOST_SIDES
        system = self.prepared.get_at_least(f"system-{solver.solver}", size, lambda: self._build(noise, size, solver))
        return system.using(solver)

    def per_problem(self, rows: Rows, options: VarianceOptions, solver: SolverOptions) -> Array:
        """The precise variances of all problems, (n, M), or (n, 1) if they share one noise."""
        if not self.noise.is_per_problem:
            return self.latent(rows, "precise", options, solver)[:, None]
        return precise_variance(self.systems(solver), rows, options.tol)

    def systems(self, solver: SolverOptions) -> System:
        """What solves the problems with the noise that each has."""
        if not self.noise.is_per_problem:
            return self.system(1, solver)
        system = self.prepared.get(
            f"systems-{solver.solver}", lambda: self._build(self.noise, self.noise.n_matrices, solver)
        )
        return system.using(solver)

    def covariance(self, rows: Rows, options: VarianceOptions, solver: SolverOptions) -> Array:
        """Of all pairs of test rows, precisely, (n, n)."""
        return covariance(self.system(rows.n_rows, solver), rows, options.tol)

    def table(self, method: VarianceMethod, options: VarianceOptions, solver: SolverOptions) -> Any:
        """What computes the variance by one of the other methods: an object with ``variance(rows, n_threads)``."""
        get = self.prepared.get
        if method == "coarse":
            return get("coarse", lambda: Coarse(self.operator, self.operator.norm_table(), self._ceiling()))
        if method == "coarse-quantized":
            n_bins = options.n_bins
            make = lambda: CoarseQuantized(self.operator.lower_table(n_bins, self._ceiling()))  # noqa: E731
            return get("coarse-quantized", make, n_bins)
        if method == "sampled":
            return get("sampled", lambda: self._sample(options.n_samples, solver), options.n_samples)
        if method == "calibrated":
            self.asked_for_calibrated = True
            return self.calibrated(solver)
        raise ValueError(f"Unknown method {method!r}; known are {', '.join(map(repr, METHODS))}.")

    def calibrated(self, solver: SolverOptions) -> Calibrated:
        """Tables and weights, also for those who only want to know the variances of rows left out."""
        return self.prepared.get(
            "calibrated", lambda: calibrate(self.operator, self.shared, solver.n_threads, self.seed)
        )

    def _sample(self, n_samples: int, solver: SolverOptions) -> PosteriorSamples:
        return PosteriorSamples.build(self.system(n_samples, solver), n_samples, min(solver.tol, 1e-2), self.seed)

    def _build(self, noise: Noise, n_sides: int, solver: SolverOptions) -> System:
        tight = replace(solver, tol=min(solver.tol, 1e-3))
        return System.build(self.operator, noise, n_sides, tight, np.random.default_rng(self.seed))

    def _spectrum(self, n_vectors: int) -> Spectrum:
        return self.prepared.get_at_least("spectrum", n_vectors, lambda: self._decompose(n_vectors))

    def _ceiling(self) -> float:
        return float(self._spectrum(0).ceilings[0])

    def _decompose(self, n_vectors: int) -> Spectrum:
        return Spectrum.build(self.operator, self.shared, n_vectors, np.random.default_rng(self.seed))
