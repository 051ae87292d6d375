"""What is left of a posterior without its training examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.layouts import Grid
from histogp._core.predictors import QuantizedMean, Table
from histogp._core.solvers.factors import PrimalFactor
from histogp._core.solvers.problem import SolverOptions
from histogp._core.variance.methods import TABLES, VarianceMethod, VarianceOptions


@dataclass(frozen=True, eq=False)
class PredictOnly:
    """Takes the place of a posterior whose training examples are not there: tables, and nothing else.

    kept : what was prepared when the model was saved: versions and values by name, as `Posterior.tables` has them
    """

    prepared: QuantizedMean | None
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    seed: int = 0

    has_tables = True
    """Whether the mean is read from tables over features."""

    @property
    def kernel(self) -> Any:
        """The frozen value of the kernel."""
        assert self.prepared is not None
        return self.prepared.table.layout.kernel

    @property
    def quick_method(self) -> VarianceMethod:
        """The best way to the variance itself that is left."""
        return "sampled" if "sampled" in self.kept and "calibrated" not in self.kept else "calibrated"

    def tables(self) -> dict[str, tuple[Any, Any]]:
        return self.kept

    def quantized(self, grid: Grid) -> QuantizedMean:
        assert self.prepared is not None
        own = self.prepared.grid
        same_upper = (
            grid.upper is own.upper
            if grid.upper is None or own.upper is None
            else np.array_equal(grid.upper, own.upper)
        )
        if (grid.n_bins, grid.uniform) != (own.n_bins, own.uniform) or not same_upper:
            raise ValueError(
                "This model was saved without its training examples and only predicts as it did then: with "
                f'n_bins={own.n_bins}, interpolation="{"nearest" if own.uniform else "linear"}" and the same '
                "value_range."
            )
        return self.prepared

    def mean(self, rows: Rows, n_threads: int = 1) -> Array:
        raise ValueError(
            "This model was saved without its training examples, which exact prediction needs; "
            'use prediction="quantized".'
        )

    def calibration_error(self, solver: SolverOptions) -> float:
        return self._kept("calibrated").error

    def temperature(self, solver: SolverOptions) -> float:
        return self._kept("temperature")

    def prior_variance(self, rows: Rows) -> Array:
        return rows.row_sums(self.kernel.heights(rows))

    def latent_variance(
        self, rows: Rows, method: VarianceMethod, options: VarianceOptions, solver: SolverOptions
    ) -> Array:
        wanted = {"sampled": options.n_samples, "coarse-quantized": options.n_bins}.get(method)
        return self._kept(method, wanted).variance(rows, solver.n_threads)

    def _kept(self, method: str, wanted: int | None = None) -> Any:
        version, table = self.kept.get(method, (None, None))
        if table is not None and version == wanted:
            return table
        if method not in TABLES:
            raise ValueError(
                f"This model was saved without its training examples, which {method!r} needs; "
                f"{', '.join(map(repr, TABLES))} can do without if they were used before saving."
            )
        raise ValueError(
            f"This model was saved without its training examples and had not prepared {method!r} with these options: "
            "call predict_variance with them before saving ('calibrated' needs 256 training examples)."
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class FeaturesOnly(PredictOnly):
    """The same for a process with features: their weights in the mean, and what the variance needs.

    weights : (rank, M); table : the mean that they give; factor : of an operator without rows
    """

    weights: Array
    table: Table
    factor: PrimalFactor

    has_tables = False

    @property
    def kernel(self) -> Any:
        return self.factor.operator.kernel

    @property
    def quick_method(self) -> VarianceMethod:
        return "precise"

    def quantized(self, grid: Grid) -> NoReturn:
        raise ValueError('The chi-squared kernel does not need prediction="quantized"; use prediction="exact".')

    def mean(self, rows: Rows, n_threads: int = 1) -> Array:
        return self.table.evaluate(rows, n_threads)

    def calibration_error(self, solver: SolverOptions) -> float:
        return 0.0

    def prior_variance(self, rows: Rows) -> Array:
        return self.factor.operator.cross_diagonal(rows)

    def latent_variance(
        self, rows: Rows, method: VarianceMethod, options: VarianceOptions, solver: SolverOptions
    ) -> Array:
        if method in ("precise", "calibrated"):
            return self.factor.variances(rows)
        return super().latent_variance(rows, method, options, solver)
