"""The likelihood as a function of the hyperparameters, for optimizers: one class a way to compute it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from histogp._core.data import Array
from histogp._core.likelihood import BoundName, Likelihood, bounded_likelihood, estimated_likelihood, exact_likelihood
from histogp._core.search.space import Data, Space
from histogp._core.solvers import build_system
from histogp._core.solvers.preconditioner import Preconditioner, make_preconditioner
from histogp._core.solvers.problem import SolverOptions
from histogp._core.solvers.subspace import Subspace, leading_subspace

# Dimension of the subspace from which the determinant is bounded, at least.
FEWEST_EIGENVALUES = 48
# Good enough for derivatives: their error is then far below that of the probes.
ESTIMATE_TOL = 0.05
# Probes of an estimate, over all matrices, and batches of them until an error is small enough.
FEWEST_PROBES = 8
MOST_BATCHES = 256
# A preconditioner made at other hyperparameters serves until it needs this many times the iterations.
MOST_ITERATION_GROWTH = 1.5


class Objective(Protocol):
    """A likelihood to maximize.

    is_exact : whether steps may be small, because values have no noise
    """

    data: Data
    is_exact: bool

    @property
    def nearby(self) -> Any:
        """Derivatives from the solutions of the last call, with few iterations and without a value; or None."""
        ...

    def __call__(self, space: Space, theta: Array) -> Likelihood: ...


class Exact:
    """The likelihood by Cholesky factors, with derivatives."""

    is_exact = True
    nearby = None

    def __init__(self, data: Data):
        self.data = data

    def __call__(self, space: Space, theta: Array) -> Likelihood:
        names = [one.name for one in space.free]
        return exact_likelihood(*self.data.at(space, theta), self.data.targets, derivatives=True, names=names)


class Bounded:
    """A lower bound of the likelihood, without derivatives. The random start of the subspace is always the same."""

    is_exact = False
    nearby = None

    def __init__(self, data: Data, bound: BoundName, options: SolverOptions, seed: int):
        self.data = data
        self._bound: BoundName = bound
        self._options = options
        self._seed = seed
        self._alpha: Array | None = None
        self._subspace: tuple[dict[str, bytes], Subspace] | None = None

    def __call__(self, space: Space, theta: Array) -> Likelihood:
        operator, noise = self.data.at(space, theta)
        data = Data(operator, noise, self.data.targets)
        # The noise alone does not change it.
        key = {one.name: values.tobytes() for one, values in space.parts(theta) if one.name != "noise"}
        if self._subspace is None or self._subspace[0] != key:
            self._subspace = key, _subspace(data, self._seed)
        result = _bounded(data, self._subspace[1], self._bound, self._options, self._seed, self._alpha)
        self._alpha = result.alpha
        return result


class Estimated:
    """The likelihood by quadrature, with derivatives, always from the same random numbers, so that values compare."""

    is_exact = False

    def __init__(self, data: Data, n_probes: int | None, options: SolverOptions, seed: int):
        self.data = data
        self.n_probes = number_of_probes(data) if n_probes is None else n_probes
        self._options = replace(options, tol=ESTIMATE_TOL)
        self._seed = seed
        self._preconditioner: Preconditioner | None = None
        self._iterations = 0
        self._start: tuple[Array, Array] | None = None

    def __call__(self, space: Space, theta: Array) -> Likelihood:
        """A value and derivatives."""
        return self._evaluate(space, theta, None)

    def nearby(self, space: Space, theta: Array) -> Likelihood:
        """Derivatives from the solutions of the last call, with few iterations; no value."""
        return self._evaluate(space, theta, self._start)

    def _evaluate(self, space: Space, theta: Array, start: tuple[Array, Array] | None) -> Likelihood:
        """The estimate at theta; solutions begin at ``start``, and only those from zero have a value."""
        operator, noise = self.data.at(space, theta)
        if self._iterations == 0 and start is None:
            here = Data(operator, noise, self.data.targets)
            rng = np.random.default_rng(self._seed)
            self._preconditioner = _preconditioner(here, self.n_probes, self._options, rng)
        result = estimated_likelihood(
            operator,
            noise,
            self.data.targets,
            np.random.default_rng(self._seed),
            n_probes=self.n_probes,
            tol=self._options.tol,
            max_iter=self._options.max_iter,
            preconditioner=self._preconditioner,
            start=start,
            derivatives=True,
        )
        operator.release()
        assert result.alpha is not None
        assert result.probe_solutions is not None
        self._start = result.alpha, result.probe_solutions
        if start is None:
            self._iterations = self._iterations or result.n_iterations
            if result.n_iterations > MOST_ITERATION_GROWTH * self._iterations:
                self._iterations = 0  # the next evaluation makes a new preconditioner
        return result


def bound_of(data: Data, bound: BoundName, options: SolverOptions, seed: int, start: Array | None) -> Likelihood:
    """A lower bound; ``start`` (N, M) is a guess of alpha."""
    return _bounded(data, _subspace(data, seed), bound, options, seed, start)


def quadrature_of(
    data: Data, n_probes: int | None, options: SolverOptions, seed: int, max_error: float | None
) -> Likelihood:
    """An estimate, with more probes until its standard error is at most ``max_error``."""
    rng = np.random.default_rng(seed)
    n_probes = number_of_probes(data) if n_probes is None else n_probes
    preconditioner = _preconditioner(data, n_probes, options, rng)
    batches: list[Likelihood] = []
    while True:
        batch = estimated_likelihood(
            data.operator,
            data.noise,
            data.targets,
            rng,
            n_probes=n_probes,
            tol=options.tol,
            max_iter=options.max_iter,
            preconditioner=preconditioner,
        )
        batches.append(batch)
        error = float(np.sqrt(np.mean([batch.error**2 for batch in batches]) / len(batches)))
        if max_error is None or error <= max_error or len(batches) == MOST_BATCHES:
            value = float(np.mean([batch.value for batch in batches]))
            return replace(batch, value=value, error=error)


def _preconditioner(
    data: Data, n_probes: int, options: SolverOptions, rng: np.random.Generator
) -> Preconditioner | None:
    """A preconditioner for targets and probes together."""
    n_sides = data.targets.shape[1] + n_probes * data.noise.n_matrices
    return make_preconditioner(data.operator, data.noise, n_sides, options, rng)


def _subspace(data: Data, seed: int) -> Subspace:
    dimension = max(FEWEST_EIGENVALUES, data.targets.shape[1])
    return leading_subspace(data.operator, dimension, np.random.default_rng(seed))


def _bounded(
    data: Data, subspace: Subspace, bound: BoundName, options: SolverOptions, seed: int, start: Array | None
) -> Likelihood:
    rng = np.random.default_rng(seed)
    system = build_system(data.operator, data.noise, data.targets.shape[1], options, rng)
    solution = system.solve(data.targets, options.tol, start=start, verify=True)
    return bounded_likelihood(data.operator, data.noise, data.targets, solution, subspace, bound)


def number_of_probes(data: Data) -> int:
    """Probes for each matrix that fill blocks of vectors up; more would cost another block."""
    width, n_outputs = data.operator.block_width, data.targets.shape[1]
    if data.noise.n_matrices > 1:
        return max(2, -(-FEWEST_PROBES // n_outputs))
    probes = -n_outputs % width
    return probes if probes >= FEWEST_PROBES else probes + width
