"""The variance by solving one system for each test row (PUP in gp-hik-ijcv2016, section 7.1)."""

from __future__ import annotations

from typing import Any

from histogp._core.data import Rows
from histogp._core.solvers.system import System
from histogp._core.variance import Variance, VarianceMethod, VarianceOptions


class Precise(VarianceMethod):
    """Exact up to the tolerance of the solver, and never too small."""

    name = "precise"
    kind = "exact"

    def variance(self, posterior: Any, rows: Rows, options: VarianceOptions) -> Variance:
        system = posterior.system(rows.n_rows, options.solver)
        values, excess = system.latent_variance(rows, options.tol)
        return Variance(values[:, 0], shortfall_of(system, excess))


def shortfall_of(system: System, excess: float) -> str | None:
    """A sentence about variances that may be too large by ``excess``."""
    if excess == 0:
        return None
    return (
        f"The solver stopped before the variance was clear (max_iter={system.options.max_iter}); it may be too large "
        f"by up to {excess:.1e}: raise max_iter or noise."
    )


PRECISE = Precise()
