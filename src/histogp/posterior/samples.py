"""Functions drawn from the posterior, in tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from histogp.operators.base import Grid, Layout
from histogp.posterior.system import System
from histogp.storage import Array, Rows

# What interpolation loses is added analytically, so that a coarse grid will do.
GRID = Grid(16)
# Draws that are made together, to bound memory.
DRAWS = 64
NODES = 2**14


@dataclass(frozen=True, eq=False)
class PosteriorSamples:
    """Deviations of posterior draws from the posterior mean (pathwise conditioning).

    A draw f from the prior and noise e give ``f(x) - k(x)^T A^-1 (f(X) + e)``, which has the posterior's covariance.

    nodes : (layout.n_nodes, S), single precision
    spreads : (layout.n_nodes,), the mean squares of the differences between neighbouring nodes
    """

    layout: Layout
    nodes: Array
    spreads: Array

    @classmethod
    def build(cls, system: System, n_samples: int, tol: float, seed: int) -> PosteriorSamples:
        """One block of right-hand sides; the noise of the system must be one diagonal."""
        operator = system.operator
        roots = np.sqrt(system.noise.diagonals())
        layout = operator.layout(GRID)
        nodes = np.empty((layout.n_nodes, n_samples), np.float32)
        rng = np.random.default_rng(seed)
        for begin in range(0, n_samples, DRAWS):
            some = slice(begin, min(begin + DRAWS, n_samples))
            at_rows, at_nodes = operator.tabulate_draws(layout, rng, some.stop - begin)
            at_rows += roots * rng.standard_normal(at_rows.shape)
            values, _, _ = system.solve(at_rows, tol)
            nodes[:, some] = at_nodes - operator.tabulate(layout, values)
        # The interpolated draws vary too little between two nodes. If the variance itself is linear there, what is
        # missing is s (1 - s) times the variance of the difference.
        spreads = np.zeros(layout.n_nodes)
        for begin in range(0, layout.n_nodes - 1, NODES):
            differences = np.diff(nodes[begin : begin + NODES + 1], axis=0)
            spreads[begin : begin + len(differences)] = np.einsum("ij,ij->i", differences, differences) / n_samples
        return cls(layout, nodes, spreads)

    def deviations(self, rows: Rows, n_threads: int = 1) -> Array:
        """Jointly drawn ``f(x) - mean(x)``, (n, S), without what the bins hide."""
        return self.layout.read(self.nodes, rows, n_threads)

    def variance(self, rows: Rows, n_threads: int = 1) -> Array:
        deviations = self.deviations(rows, n_threads)
        squares = np.einsum("ij,ij->i", deviations, deviations, dtype=np.float64) / deviations.shape[1]
        return squares + self.layout.gaps(self.spreads, rows, n_threads)
