"""Functions drawn from the posterior, in tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.layouts import Layout, NodeLayout
from histogp._core.operators.contract import Tables, require
from histogp._core.solvers.system import System
from histogp._core.variance import Shape, VarianceMethod, VarianceOptions
from histogp.io.schema import Reader, Writer

# Nodes in each dimension; what interpolation loses is added.
NODES_PER_FEATURE = 64
# Draws that are made together, to bound memory.
DRAWS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class PosteriorSamples:
    """Deviations of posterior draws from the posterior mean (pathwise conditioning).

    A draw f from the prior and noise e give ``f(x) - k(x)^T A^-1 (f(X) + e)``, which has the posterior's covariance.

    table : (layout.n_nodes, S), single precision
    spreads : (layout.n_nodes,), the mean squares of the differences between neighboring nodes
    """

    layout: Layout
    table: Array
    spreads: Array

    @classmethod
    def build(cls, system: System, n_samples: int, tol: float, seed: int) -> PosteriorSamples:
        """One block of right-hand sides; the noise of the system must be one diagonal."""
        tables = require(system.operator, Tables, 'The variance "sampled"')
        roots = np.sqrt(system.noise.diagonals())
        layout = tables.layout(NODES_PER_FEATURE)
        table = np.empty((layout.n_nodes, n_samples), np.float32)
        # The interpolated draws vary too little between two nodes. If the variance itself is linear there, what is
        # missing is s (1 - s) times the variance of the difference.
        spreads = np.zeros(layout.n_nodes)
        rng = np.random.default_rng(seed)
        for begin in range(0, n_samples, DRAWS_AT_ONCE):
            some = slice(begin, min(begin + DRAWS_AT_ONCE, n_samples))
            at_rows, at_nodes = tables.prior_draws(layout, rng, some.stop - begin)
            at_rows += roots * rng.standard_normal(at_rows.shape)
            values = system.solve(at_rows, tol).values
            at_nodes -= tables.tabulate(layout, values)
            table[:, some] = at_nodes
            differences = np.diff(at_nodes, axis=0)
            spreads[:-1] += np.einsum("ij,ij->i", differences, differences) / n_samples
        spreads[layout.gaps > 0] = 0.0  # of bins without training values all is known
        return cls(layout, table, spreads)

    def to_state(self, writer: Writer, version: int) -> None:
        """Write the tables into a model file."""
        writer.set("n_samples", version)
        self.layout.to_state(writer)
        writer.put("table", self.table)
        writer.put("spreads", self.spreads)

    @classmethod
    def from_state(cls, reader: Reader, shape: Shape) -> tuple[int, PosteriorSamples]:
        """The number of draws and the tables in a model file; believes nothing."""
        layout = NodeLayout.from_state(reader, shape.kernel, shape.kernel.n_columns)
        n_samples = reader.integer("n_samples", 1)
        table = reader.array("table", np.float32, (layout.n_nodes, n_samples))
        return n_samples, cls(layout, table, reader.array("spreads", np.float64, (layout.n_nodes,), lowest=0))

    def deviations(self, rows: Rows, n_threads: int = 1) -> Array:
        """Jointly drawn ``f(x) - mean(x)``, (n, S), without what the bins hide."""
        return self.layout.read(self.table, self.layout.locate(rows, n_threads), n_threads)

    def variance(self, rows: Rows, n_threads: int = 1) -> Array:
        located = self.layout.locate(rows, n_threads)
        deviations = self.layout.read(self.table, located, n_threads)
        squares = np.einsum("ij,ij->i", deviations, deviations, dtype=np.float64) / deviations.shape[1]
        return squares + located.gaps(self.spreads, n_threads) + located.beyond


class Sampled(VarianceMethod):
    """The mean square of posterior draws: unbiased up to tables with 64 nodes, with a relative error of sqrt(2 / S)."""

    name = "sampled"
    kind = "estimate"
    needs_tables = True
    option = "n_samples"
    needs_training = False
    keeps: ClassVar = {"sampled": PosteriorSamples}

    def prepare(self, posterior: Any, options: VarianceOptions) -> PosteriorSamples:
        system = posterior.system(options.n_samples, options.solver)
        return PosteriorSamples.build(system, options.n_samples, min(options.solver.tol, 1e-2), posterior.seed)


SAMPLED = Sampled()
