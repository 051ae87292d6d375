"""The logarithm of the marginal likelihood, summed over all outputs: exact, bounded, estimated.

    log p(y) = -1/2 y^T A^-1 y - 1/2 log det A - N/2 log 2 pi,        A = K + diag(noise)

(gp-hik-ijcv2016, eq. 4). Its derivative for a hyperparameter is half of ``alpha^T A' alpha - tr(A^-1 A')``: what
the data call for, minus what the matrix has already.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from scipy.linalg import cholesky, lapack

from histogp._core.data import Array
from histogp._core.operators.contract import KernelOperator, Matrix, new_matrix, tuning_of
from histogp._core.solvers.factors import symmetric_inverse
from histogp._core.solvers.iterative import solve_cg
from histogp._core.solvers.preconditioner import Preconditioner
from histogp._core.solvers.problem import Noise, Solution
from histogp._core.solvers.quadrature import Probes, draw_probes, log_forms
from histogp._core.solvers.subspace import Subspace, determinant_bounds

BoundName = Literal["tightest", "papers", "fischer"]
Derivatives = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The logarithm of the density of the targets, or a bound or an estimate of it, and how it changes.

    value : log p(y); NaN where only derivatives were asked for
    error : standard error of an estimate
    data_term : ``y^T A^-1 y``, of all outputs
    alpha : (N, M), solves ``A alpha = y``, or None if it was not needed
    probe_solutions : (N, S), solves ``A Z = probes``, or None if there were no probes
    data_fit_gradient, complexity_gradient : ``alpha^T A' alpha`` and ``tr(A^-1 A')``, whose difference is twice the
        gradient, for the kernel's values, and for the logarithm of the noise under "noise"
    """

    value: float
    alpha: Array | None
    error: float = 0.0
    data_fit_gradient: Derivatives = field(default_factory=dict)
    complexity_gradient: Derivatives = field(default_factory=dict)
    data_term: float = np.nan
    probe_solutions: Array | None = None
    n_products: int = 0
    n_iterations: int = 0

    @property
    def derivatives(self) -> Derivatives:
        """The derivatives of the value by the kernel's values and, under "noise", by the logarithm of the noise."""
        return {
            name: (self.data_fit_gradient[name] - self.complexity_gradient[name]) / 2 for name in self.data_fit_gradient
        }


def exact_likelihood(
    operator: KernelOperator,
    noise: Noise,
    targets: Array,
    *,
    derivatives: bool = False,
    names: Collection[str] | None = None,
) -> Likelihood:
    """The likelihood by a dense factor of each matrix, in time cubic in N; derivatives for all names or these."""
    matrix_of, matrix = operator.offer(Matrix), new_matrix(operator).astype(np.float64, copy=False)
    diagonals = noise.diagonals()
    n, n_outputs = targets.shape
    n_matrices = diagonals.shape[1]
    share = n_outputs // n_matrices  # outputs of one matrix
    alpha = np.empty_like(targets)
    inverses = np.empty((0, 0))
    log_determinant = complexity_of_noise = 0.0
    for output, diagonal in enumerate(diagonals.T):
        some = slice(output * share, (output + 1) * share)
        system = matrix if output == n_matrices - 1 else matrix.copy()
        system[np.diag_indices(n)] += diagonal
        # As a system is factorized afterwards: what has a factor here has one there.
        factor = cholesky(system.T, lower=True, overwrite_a=True, check_finite=False)
        log_determinant += 2 * share * np.log(factor.diagonal()).sum()
        alpha[:, some] = lapack.dpotrs(factor, targets[:, some], lower=1)[0]
        if derivatives:
            inverse = symmetric_inverse(np.ascontiguousarray(factor), operator.n_threads)
            inverse *= share
            complexity_of_noise += inverse.diagonal() @ diagonal
            inverses = np.add(inverses, inverse, out=inverse) if output else inverse
    data_term = float(np.sum(targets * alpha))
    value = float(-(data_term + log_determinant + targets.size * np.log(2 * np.pi)) / 2)
    if not derivatives:
        return Likelihood(value, alpha, data_term=data_term)
    if matrix_of is not None:
        # Both terms at once.
        upstream = alpha @ alpha.T
        upstream -= inverses
        data_fit_gradient = matrix_of.matrix_gradient(upstream, names)
        complexity_gradient = {name: np.zeros_like(value) for name, value in data_fit_gradient.items()}
    else:
        tuning = tuning_of(operator)
        data_fit_gradient = tuning.gradient(alpha, alpha)
        complexity_gradient = tuning.gradient(inverses, np.eye(n))
    data_fit_gradient["noise"] = np.sum(alpha**2 * diagonals)
    complexity_gradient["noise"] = np.asarray(complexity_of_noise)
    return Likelihood(
        value, alpha, data_fit_gradient=data_fit_gradient, complexity_gradient=complexity_gradient, data_term=data_term
    )


def bounded_likelihood(
    operator: KernelOperator, noise: Noise, targets: Array, solution: Solution, subspace: Subspace, bound: BoundName
) -> Likelihood:
    """A lower bound of the likelihood, from an upper bound of the determinant and one of the data term.

    With ``r = y - A alpha``, ``y^T A^-1 y = y^T alpha + alpha^T r + r^T A^-1 r``, and ``A^-1 <= diag(noise)^-1``.
    """
    if bound not in get_args(BoundName):
        raise ValueError(f"Unknown bound {bound!r}; known are {', '.join(map(repr, get_args(BoundName)))}.")
    determinants = getattr(determinant_bounds(operator, noise, subspace), bound)
    alpha, r = solution.values, solution.residual
    data_term = float(np.sum((targets + r) * alpha) + np.sum(r**2 / noise.diagonals()))
    log_determinant = float(np.sum(np.broadcast_to(determinants, targets.shape[1])))
    value = -(data_term + log_determinant + targets.size * np.log(2 * np.pi)) / 2
    return Likelihood(float(value), alpha, data_term=data_term, n_products=solution.n_products)


def estimated_likelihood(
    operator: KernelOperator,
    noise: Noise,
    targets: Array,
    rng: np.random.Generator,
    *,
    n_probes: int,
    tol: float,
    max_iter: int,
    preconditioner: Preconditioner | None = None,
    start: tuple[Array, Array] | None = None,
    derivatives: bool = False,
) -> Likelihood:
    """The likelihood by stochastic Lanczos quadrature, with ``n_probes`` for each matrix.

    From a ``start``, solutions for targets and probes at hyperparameters nearby, there are derivatives but no value.
    The same state of ``rng`` gives the same probes.
    """
    probes = draw_probes(noise, preconditioner, n_probes, rng)
    n_outputs = targets.shape[1]
    n_matrices = len(probes.log_determinants)
    share = n_outputs // n_matrices
    outputs = np.concatenate([np.arange(n_outputs) // share, probes.outputs])
    solution = solve_cg(
        operator,
        noise,
        np.hstack([targets, probes.vectors]),
        tol=tol,
        max_iter=max_iter,
        preconditioner=preconditioner,
        start=None if start is None else np.hstack(start),
        outputs=outputs,
    )
    alpha, solved = solution.values[:, :n_outputs], solution.values[:, n_outputs:]
    data_term = float(np.sum((targets + solution.residual[:, :n_outputs]) * alpha))
    value, error = np.nan, np.nan
    if start is None:
        forms = log_forms(solution.steps[:, n_outputs:], solution.ratios[:, n_outputs:])
        means, variances = _per_matrix(len(targets) * forms, n_matrices)
        log_determinant = share * float(np.sum(probes.log_determinants + means))
        value = -(data_term + log_determinant + targets.size * np.log(2 * np.pi)) / 2
        error = share * float(np.sqrt(variances.sum())) / 2
    data_fit_gradient, complexity_gradient = (
        _derivatives(operator, noise, alpha, solved, probes, outputs, share) if derivatives else ({}, {})
    )
    return Likelihood(
        value,
        alpha,
        error,
        data_fit_gradient,
        complexity_gradient,
        data_term,
        solved,
        solution.n_products,
        solution.n_iterations,
    )


def _per_matrix(forms: Array, n_matrices: int) -> tuple[Array, Array]:
    """Mean and its variance over the probes of each matrix."""
    forms = forms.reshape(n_matrices, -1)
    count = forms.shape[1]
    variances = forms.var(axis=1, ddof=1) / count if count > 1 else np.full(n_matrices, np.inf)
    return forms.mean(axis=1), variances


def _derivatives(
    operator: KernelOperator, noise: Noise, alpha: Array, solved: Array, probes: Probes, outputs: Array, share: int
) -> tuple[Derivatives, Derivatives]:
    """Both terms for all hyperparameters, in one pass over the data."""
    n_outputs = alpha.shape[1]
    left, right = np.hstack([alpha, solved]), np.hstack([alpha, probes.duals])
    n_probes = solved.shape[1] // len(probes.log_determinants)
    sums = np.zeros((left.shape[1], 2))
    sums[:n_outputs, 0] = 1
    sums[n_outputs:, 1] = share / n_probes
    both = tuning_of(operator).gradient(left, right, sums)
    diagonals = noise.diagonals()
    diagonals = diagonals if diagonals.shape[1] == 1 else diagonals[:, outputs]
    both["noise"] = np.sum(left * diagonals * right, axis=0) @ sums
    return {name: pair[..., 0] for name, pair in both.items()}, {name: pair[..., 1] for name, pair in both.items()}
