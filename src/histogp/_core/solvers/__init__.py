"""Linear systems with ``K + diag(noise)``; here is the one place that chooses how to solve them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from histogp._core.data import Rows
from histogp._core.operators.contract import Features, KernelOperator, Matrix
from histogp._core.solvers.factors import MOST_COMPONENTS, DenseSystem, FeatureSystem
from histogp._core.solvers.iterative import IterativeSystem
from histogp._core.solvers.problem import Noise, SolverOptions, is_small
from histogp._core.solvers.system import System


def build_system(
    operator: KernelOperator, noise: Noise, n_outputs: int, options: SolverOptions, rng: np.random.Generator
) -> System:
    """A system that is prepared for ``n_outputs`` right-hand sides."""
    with np.errstate(over="ignore"):
        overflows = not np.all(np.isfinite(operator.diagonal()))
    if overflows:
        raise ValueError("The kernel overflows on these features; scale them to moderate values.")
    return system_kind(operator, noise, options).build(operator, noise, n_outputs, options, rng)


def system_kind(
    operator: KernelOperator, noise: Noise, options: SolverOptions
) -> type[DenseSystem | FeatureSystem | IterativeSystem]:
    """The kind of system: factors of features or of few samples, unless the options say otherwise."""
    features = operator.offer(Features)
    few_features = features is not None and features.n_components <= min(operator.n_samples, MOST_COMPONENTS)
    has_matrix = operator.offer(Matrix) is not None and noise.n_matrices == 1
    is_direct = few_features or has_matrix or is_small(operator.n_samples, noise.n_matrices)
    if options.solver == "cg" or (options.solver == "auto" and not is_direct):
        return IterativeSystem
    return FeatureSystem if few_features else DenseSystem


def update_system(system: System, operator: KernelOperator, rows: Rows, noise: Noise) -> System | None:
    """The system for the operator with further ``rows`` after the present ones, perhaps none; None: build anew."""
    with np.errstate(over="ignore"):
        overflows = not np.all(np.isfinite(operator.diagonal(rows)))
    if overflows or system_kind(operator, noise, system.options) is not type(system):
        return None
    return system.updated(operator, rows, noise)


def direct_options(operator: KernelOperator, noise: Noise, options: SolverOptions) -> SolverOptions | None:
    """Options for a system of factors, if "auto" would take one: those given, or else others; None if it would not."""
    if system_kind(operator, noise, replace(options, solver="auto")) is IterativeSystem:
        return None
    is_direct = system_kind(operator, noise, options) is not IterativeSystem
    return options if is_direct else replace(options, solver="cholesky")
