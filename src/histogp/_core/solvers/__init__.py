"""Linear systems with ``K + diag(noise)``; here is the one place that chooses how to solve them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from histogp._core.data import Rows
from histogp._core.operators.contract import Features, KernelOperator, Matrix
from histogp._core.solvers.factors import DenseSystem, FeatureSystem
from histogp._core.solvers.iterative import IterativeSystem
from histogp._core.solvers.problem import LARGEST_FACTOR, Noise, SolverOptions, factors_pay
from histogp._core.solvers.system import System


def build_system(
    operator: KernelOperator, noise: Noise, n_outputs: int, options: SolverOptions, rng: np.random.Generator
) -> System:
    """A system that is prepared for ``n_outputs`` right-hand sides."""
    with np.errstate(over="ignore"):
        overflows = not np.all(np.isfinite(operator.diagonal()))
    if overflows:
        raise ValueError("The kernel overflows on these features; scale them to moderate values.")
    return system_kind(operator, noise, options, n_outputs).build(operator, noise, n_outputs, options, rng)


def system_kind(
    operator: KernelOperator, noise: Noise, options: SolverOptions, n_outputs: int = 1
) -> type[DenseSystem | FeatureSystem | IterativeSystem]:
    """The kind of system for ``n_outputs`` right-hand sides, or more, unless the options say otherwise.

    Factors where they are small, in the smaller space of features and samples, or pay for many right-hand sides.
    """
    n_samples, n_matrices = operator.n_samples, noise.n_matrices
    features = operator.offer(Features)
    few_features = features is not None and features.n_components <= min(n_samples, LARGEST_FACTOR)
    is_wide = features is not None and n_matrices * n_samples**2 <= LARGEST_FACTOR**2
    has_matrix = operator.offer(Matrix) is not None and n_matrices == 1
    is_direct = few_features or is_wide or has_matrix or factors_pay(n_samples, n_matrices, n_outputs, operator.cost)
    if options.solver == "cg" or (options.solver == "auto" and not is_direct):
        return IterativeSystem
    return FeatureSystem if few_features else DenseSystem


def update_system(
    system: System, operator: KernelOperator, rows: Rows, noise: Noise, n_outputs: int = 1
) -> System | None:
    """The system for the operator with further ``rows`` after the present ones, perhaps none; None: build anew."""
    with np.errstate(over="ignore"):
        overflows = not np.all(np.isfinite(operator.diagonal(rows)))
    if overflows or system_kind(operator, noise, system.options, n_outputs) is not type(system):
        return None
    return system.updated(operator, rows, noise)


def direct_options(operator: KernelOperator, noise: Noise, options: SolverOptions) -> SolverOptions | None:
    """Options for a system of factors, if "auto" would take one: those given, or else others; None if it would not."""
    if not system_kind(operator, noise, replace(options, solver="auto")).serves_any:
        return None
    return options if system_kind(operator, noise, options).serves_any else replace(options, solver="cholesky")
