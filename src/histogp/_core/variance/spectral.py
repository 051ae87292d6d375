"""Bounds of the variance from the largest eigenvalues (FAPU and CAPU in gp-hik-ijcv2016, sections 7.2 and 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator, Tables, cross_blocks, require
from histogp._core.predictors import FloorTable, Table
from histogp._core.solvers.subspace import largest_eigenvalue_bound
from histogp._core.threads import single_threaded_blas
from histogp._core.variance import Shape, Variance, VarianceMethod, VarianceOptions
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

# Eigenvectors are iterated until their residuals are below this part of the largest eigenvalue.
EIGENVECTOR_TOL = 1e-8
# Samples up to which all eigenvectors are found at once.
MOST_FULL_SAMPLES = 500


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Leading eigenvectors of ``A = K + diag(noise)`` as columns, (N, m), and their eigenvalues, (m,).

    ceilings : (m + 1,); the k-th is a bound of all eigenvalues from the k-th on, counted from 0. Ritz values lie below
        the eigenvalues, so the norms of the residuals are added; a ceiling of zero says that nothing is left.
    """

    vectors: Array
    values: Array
    ceilings: Array

    @classmethod
    def build(cls, operator: KernelOperator, noise: Array, n_vectors: int, rng: np.random.Generator) -> Spectrum:
        """At least ``n_vectors`` eigenvectors and a ceiling of the rest."""
        n = operator.n_samples
        top = largest_eigenvalue_bound(operator, noise, rng)
        if n_vectors == 0:
            return cls(np.empty((n, 0)), np.empty(0), np.array([top]))
        wanted = n_vectors + 1
        if n <= max(MOST_FULL_SAMPLES, 2 * wanted):
            values, vectors = np.linalg.eigh(operator.matrix() + np.diag(noise))
            # In the order that files have: products with another one may differ in the last bits.
            values, vectors = np.ascontiguousarray(values[::-1]), np.ascontiguousarray(vectors[:, ::-1])
            ceilings = np.append(values, 0.0)
            ceilings[0] = max(top, values[0])
            return cls(vectors, values, ceilings)

        def multiply(vector: Array) -> Array:
            return operator.matmat(vector.reshape(n, -1)).reshape(vector.shape) + noise * vector

        with single_threaded_blas():
            values, vectors = _leading(multiply, n, wanted, rng)
            residuals = operator.matmat(vectors) + noise[:, None] * vectors - vectors * values
        ceilings = values + np.linalg.norm(residuals, axis=0)
        ceilings[0] = max(top, ceilings[0])
        vectors = np.ascontiguousarray(vectors[:, :-1])
        return cls(vectors, values[:-1], np.maximum.accumulate(ceilings[::-1])[::-1])

    def to_state(self, writer: Writer, version: int) -> None:
        """Write the eigenvectors into a model file."""
        writer.set("n_vectors", version)
        for name in ("vectors", "values", "ceilings"):
            writer.put(name, getattr(self, name))

    @classmethod
    def from_state(cls, reader: Reader, shape: Shape) -> tuple[int, Spectrum]:
        """The number of eigenvectors that were asked for, and those in a model file; believes nothing."""
        n_vectors = reader.integer("n_vectors")
        vectors = reader.array("vectors", np.float64, (shape.n_samples, None))
        count = vectors.shape[1]
        values = reader.array("values", np.float64, (count,), lowest=0)
        ceilings = reader.array("ceilings", np.float64, (count + 1,), lowest=0)
        if count < min(n_vectors, shape.n_samples) or (count and values.min() <= 0) or ceilings[0] <= 0:
            raise ModelFileError("its eigenvectors are damaged.")
        return n_vectors, cls(vectors, values, ceilings)

    def fine_variance(self, operator: KernelOperator, rows: Rows, n_vectors: Array) -> Array:
        """Upper bounds of the variance with these numbers of eigenvectors, (n, len(n_vectors)): eq. 29."""
        out = np.empty((rows.n_rows, len(n_vectors)))
        prior = operator.diagonal(rows)
        most = min(int(max(n_vectors)), len(self.values))
        for some, block in cross_blocks(operator, rows):
            norms = np.einsum("ij,ij->i", block, block)
            projections = (block @ self.vectors[:, :most]) ** 2
            explained = np.concatenate([np.zeros((len(block), 1)), np.cumsum(projections, axis=1)], axis=1)
            known = np.concatenate(
                [np.zeros((len(block), 1)), np.cumsum(projections / self.values[:most], axis=1)], axis=1
            )
            for column, wanted in enumerate(n_vectors):
                k = min(int(wanted), most)
                ceiling = self.ceilings[k]
                rest = np.maximum(norms - explained[:, k], 0.0) / ceiling if ceiling > 0 else 0.0
                out[some, column] = prior[some] - known[:, k] - rest
        return np.clip(out, 0.0, prior[:, None])


def _leading(multiply: Callable[[Array], Array], n: int, wanted: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The largest eigenvalues, descending, and their vectors.

    From one start a Krylov space holds one vector of each eigenspace, so that repeated eigenvalues can be missed. What
    is found is taken out and the rest is searched until nothing larger comes.
    """
    system = LinearOperator((n, n), multiply, dtype=np.float64)
    values, vectors = eigsh(system, wanted, v0=rng.standard_normal(n), tol=EIGENVECTOR_TOL)
    while True:
        found = vectors

        def deflated(vector: Array, found: Array = found) -> Array:
            inside = vector - found @ (found.T @ vector)
            image = multiply(inside)
            return image - found @ (found.T @ image)

        rest = LinearOperator((n, n), deflated, dtype=np.float64)
        value, vector = eigsh(rest, 1, v0=rng.standard_normal(n), tol=EIGENVECTOR_TOL)
        if value[0] <= values.min() + EIGENVECTOR_TOL * values.max():
            break
        values, vectors = np.append(values, value), np.hstack([vectors, vector])
        keep = np.argsort(-values)[:wanted]
        values, vectors = values[keep], np.linalg.qr(vectors[:, keep])[0]
    order = np.argsort(-values)
    return values[order].copy(), vectors[:, order].copy()


class Fine(VarianceMethod):
    """A bound by leading eigenvectors, and the next eigenvalue for what they leave (FAPU)."""

    name = "fine"
    kind = "bound"
    keeps: ClassVar = {"spectrum": Spectrum}

    def variance(self, posterior: Any, rows: Rows, options: VarianceOptions) -> Variance:
        numbers = np.atleast_1d(options.n_eigenvectors)
        found = spectrum_of(posterior, int(numbers.max())).fine_variance(posterior.operator, rows, numbers)
        return Variance(found if np.ndim(options.n_eigenvectors) else found[:, 0])


class Coarse(VarianceMethod):
    """A bound by the largest eigenvalue, and the norm of k(x) bounded by its parts in single dimensions (CAPU)."""

    name = "coarse"
    kind = "bound"
    needs_tables = True

    def prepare(self, posterior: Any, options: VarianceOptions) -> CoarseTable:
        operator = posterior.operator
        norms = require(operator, Tables, 'The variance "coarse"').norm_table()
        return CoarseTable(operator, norms, _ceiling(posterior))


def spectrum_of(posterior: Any, n_vectors: int) -> Spectrum:
    """At least ``n_vectors`` eigenvectors of a posterior's matrix, made once."""
    rng = np.random.default_rng(posterior.seed)
    return posterior.lazy.get_at_least(
        "spectrum",
        n_vectors,
        lambda: Spectrum.build(posterior.operator, posterior.largest_noise, n_vectors, rng),
        keep=True,
    )


def _ceiling(posterior: Any) -> float:
    """A bound of all eigenvalues."""
    return float(spectrum_of(posterior, 0).ceilings[0])


@dataclass(frozen=True, eq=False)
class CoarseTable:
    """``K(x, x) - sum_d |k_d(x)|^2 / ceiling``: eq. 30 with eq. 32 as a bound of the norm."""

    operator: KernelOperator
    norms: Table
    ceiling: float

    def variance(self, rows: Rows, n_threads: int = 1) -> Array:
        prior = self.operator.diagonal(rows)
        return np.clip(prior - self.norms.evaluate(rows, n_threads)[:, 0] / self.ceiling, 0.0, prior)


@dataclass(frozen=True, eq=False)
class FloorVariance:
    """``K(x, x)`` minus a table that is read at the next node below."""

    table: Table

    def to_state(self, writer: Writer, version: int) -> None:
        """Write the table into a model file."""
        table: Any = self.table
        writer.set("n_bins", version)
        writer.put("per_bin", table.per_bin)
        writer.put("values", table.values)

    @classmethod
    def from_state(cls, reader: Reader, shape: Shape) -> tuple[int, FloorVariance]:
        """The number of bins and the table in a model file; believes nothing."""
        n_bins = reader.integer("n_bins", 1)
        per_bin = reader.array("per_bin", np.float64, (shape.kernel.n_columns,), lowest=0)
        values = reader.array("values", np.float32, (shape.kernel.n_columns, n_bins + 1), lowest=0)
        return n_bins, cls(FloorTable(shape.kernel, per_bin, values))

    def variance(self, rows: Rows, n_threads: int = 1) -> Array:
        return np.maximum(self.table.evaluate(rows, n_threads), 0.0)


class CoarseQuantized(VarianceMethod):
    """The bound of "coarse" from a table, read at the next node below, so that it stays a bound (q-CAPU)."""

    name = "coarse-quantized"
    kind = "bound"
    needs_tables = True
    option = "n_bins"
    needs_training = False
    keeps: ClassVar = {"coarse-quantized": FloorVariance}

    def prepare(self, posterior: Any, options: VarianceOptions) -> FloorVariance:
        tables = require(posterior.operator, Tables, 'The variance "coarse-quantized"')
        return FloorVariance(tables.floor_table(options.n_bins, _ceiling(posterior)))


FINE, COARSE, COARSE_QUANTIZED = Fine(), Coarse(), CoarseQuantized()
