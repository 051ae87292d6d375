"""What is left of a posterior without its training samples: tables that predict, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.kernel_values import KernelValue
from histogp._core.layouts import Grid
from histogp._core.operators.contract import Features, KernelOperator, Pairwise
from histogp._core.predictors import QuantizedMean, Table
from histogp._core.probability import Link
from histogp._core.solvers.factors import FeatureFactor, features_of
from histogp._core.support import SupportMean, quantized_mean
from histogp._core.threads import Versions
from histogp._core.variance import METHODS, Shape, Variance, VarianceOptions, read_kept, write_kept
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predicts like the posterior that it was made from, as far as that is prepared. Immutable.

    operator : of the kernel, without training samples
    table : of the exact mean, where that needs no training samples
    grid_mean : the mean on a grid, or None
    kept : what was prepared: versions and values by name, as `Posterior.tables` has them
    """

    operator: KernelOperator
    table: Table | None = None
    grid_mean: QuantizedMean | SupportMean | None = None
    kept: Versions = field(default_factory=dict)
    seed: int = 0

    includes_training = False

    def with_training(self) -> NoReturn:
        """Refuse what needs training samples."""
        raise ValueError(
            "This model was saved without its training samples, which this needs (include_training=True): it predicts, "
            "but learns no more, and can be saved again only without them."
        )

    @property
    def kernel(self) -> KernelValue:
        """The frozen value of the kernel."""
        return self.operator.kernel

    def tables(self) -> Versions:
        """What was prepared: versions and values by name."""
        return self.kept

    def predictor_to_state(self, writer: Writer, grid: Grid | None) -> None:
        """Write all of it into a model file; a ``grid`` must be that which was prepared."""
        if self.operator.offer(Features) is None:
            assert grid is not None
            self.quantized(grid).to_state(writer.child("table"))
        else:
            table: Any = self.table
            write_features(writer.child("features"), table.weights, self.kept["precise"][1])
        write_tables(self, writer, include_training=False)

    @classmethod
    def from_state(
        cls, reader: Reader, operator: KernelOperator, grid: Grid | None, n_outputs: int, n_samples: int
    ) -> Predictor:
        """The predictor in a model file, of so many training samples; believes nothing.

        operator : of the kernel, without training samples
        grid : of quantized prediction, for operators without features
        """
        seed, kept = read_tables(reader, Shape(operator.kernel, n_samples))
        features = operator.offer(Features)
        if features is None:
            assert grid is not None
            table, kernel = reader.child("table"), operator.kernel
            mean = quantized_mean(operator).from_state(table, kernel, grid, kernel.n_columns, n_outputs)
            return cls(operator, None, mean, kept, seed)
        weights, factor = read_features(reader.child("features"), operator, n_outputs)
        return cls(operator, features.from_weights(weights), None, {**kept, "precise": (None, factor)}, seed)

    def mean(self, rows: Rows, n_threads: int = 1) -> Any:
        """The mean of each test row, (n, M)."""
        if self.table is None:
            raise ValueError(
                "This model was saved without its training samples, which exact prediction needs; "
                'use prediction="quantized".'
            )
        return self.table.evaluate(rows, n_threads)

    def quantized(self, grid: Grid) -> QuantizedMean | SupportMean:
        """The mean on the grid that was prepared; another one is refused."""
        if self.grid_mean is None:
            raise ValueError('This model was saved for exact prediction and needs no grid; use prediction="exact".')
        own = self.grid_mean.grid
        if self.grid_mean.version(grid) != self.grid_mean.version(own):
            raise ValueError(
                "This model was saved without its training samples and only predicts as it did then: with "
                f'n_bins={own.n_bins}, interpolation="{"nearest" if own.uniform else "linear"}" and the same '
                "value_range."
            )
        return self.grid_mean

    def prior_variance(self, rows: Rows) -> Any:
        """``K(x, x)`` for each test row, (n,)."""
        return self.operator.diagonal(rows)

    def variance(self, rows: Rows, method: str, options: VarianceOptions) -> Variance:
        """The latent variance of test rows by what was prepared, (n,)."""
        chosen = METHODS[method]
        other = chosen.instead(self.operator)
        if method not in self.kept and other in self.kept:
            chosen = METHODS[other]
        version, prepared = self.kept.get(chosen.name, (None, None))
        wanted = None if chosen.option is None else getattr(options, chosen.option)
        if prepared is None or version != wanted:
            self._refuse(method)
        return chosen.read(prepared, rows, options)

    def quick_method(self) -> str:
        """The best way to the variance itself that is left."""
        return next((name for name in ("precise", "calibrated", "sampled") if name in self.kept), "calibrated")

    def usual_method(self) -> str:
        """The variance itself, or the refusal of it."""
        return "precise"

    def calibration_error(self, options: VarianceOptions) -> tuple[float, str | None]:
        """The relative error of the variance "calibrated", zero where that is precise; and a shortfall, or None."""
        if "precise" in self.kept:
            return 0.0, None
        tables = self.kept["calibrated"][1] if "calibrated" in self.kept else self._refuse("calibrated")
        return tables.error, tables.shortfall

    def temperature(self, options: VarianceOptions) -> tuple[float, None]:
        """The factor that makes scores the logarithms of probabilities, up to a constant."""
        return self.kept["temperature"][1] if "temperature" in self.kept else self._refuse("temperature"), None

    def link(self, options: VarianceOptions) -> tuple[Any, None]:
        """What makes probabilities of scores."""
        return self.kept["link"][1] if "link" in self.kept else self._refuse("link"), None

    def _refuse(self, method: str) -> NoReturn:
        """Refuse a method that needs the training samples or what the file does not have; say what would do."""
        if method in METHODS and self.operator.offer(Pairwise) is not None:
            raise ValueError(
                "This model was saved without its training samples, which the variance of this kernel needs; with "
                'approximation="nystroem" it does not.'
            )
        known = [name for name, one in METHODS.items() if not one.needs_training]
        if method in METHODS and METHODS[method].needs_training:
            raise ValueError(
                f"This model was saved without its training samples, which {method!r} needs; "
                f"{', '.join(map(repr, known))} can do without if they were used before saving."
            )
        raise ValueError(
            f"This model was saved without its training samples and had not prepared {method!r} with these options: "
            "call predict_variance with them before saving ('calibrated' needs 256 training samples)."
        )


def write_tables(posterior: Any, writer: Writer, *, include_training: bool) -> None:
    """Write what a posterior or predictor has prepared for variances and probabilities."""
    writer.set("seed", posterior.seed)
    kept = posterior.tables()
    write_kept(kept, writer.child("prepared"), include_training=include_training)
    if "temperature" in kept:
        writer.put("temperature", [kept["temperature"][1]])
    if "link" in kept:
        writer.put("link", [kept["link"][1].temperature, kept["link"][1].bend])


def read_tables(reader: Reader, shape: Shape) -> tuple[int, Versions]:
    """The seed, and what was prepared; believes nothing."""
    kept = read_kept(reader.child("prepared"), shape)
    if reader.has("temperature"):
        kept["temperature"] = (None, float(reader.array("temperature", np.float64, (1,), lowest=0)[0]))
    if reader.has("link"):
        kept["link"] = (None, Link(*reader.array("link", np.float64, (2,), lowest=0).tolist()))
    return reader.integer("seed"), kept


def write_features(writer: Writer, weights: Array, factor: FeatureFactor) -> None:
    """Write the weights of features in the mean, and the factor of their posterior precision."""
    writer.put("weights", weights)
    writer.put("factor", factor.factor)


def read_features(reader: Reader, operator: KernelOperator, n_outputs: int) -> tuple[Array, FeatureFactor]:
    """What `write_features` has written, for an operator without samples; believes nothing."""
    n_components = features_of(operator).n_components
    weights = reader.array("weights", np.float64, (n_components, n_outputs))
    factor = reader.array("factor", np.float64, (n_components, n_components))
    if not np.all(factor.diagonal() >= 1 - 1e-9):
        raise ModelFileError("the factor of its features is damaged.")
    nothing = np.empty(0)
    return weights, FeatureFactor(operator, nothing, nothing, np.asfortranarray(np.tril(factor)))
