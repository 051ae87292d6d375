"""Maps of one value to a few terms whose products add up to a kernel of one dimension.

Each is frozen. Zero maps to zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from histogp._core._numba import chi2_loops
from histogp._core.data import Array, plain
from histogp._core.maps.pair_distances import chi2_matrix
from histogp._core.threads import over_rows
from histogp.io.schema import Reader, Writer

# Terms of the expansion of a feature that may be asked for; a fraction of that reaches rounding.
MOST_TERMS = 1000


# Values that are expanded between two looks for an interrupt, and stay in a cache meanwhile.
BLOCK_VALUES = 2**15


class AdditiveMap(ABC):
    """Terms of every feature, whose products add up to a kernel of that feature."""

    is_additive = True
    """Whether the kernel is a sum over features, each of which may have a weight."""
    is_costly = False
    """Whether products average to the kernel over chance, and take long to make."""
    is_normalized = False
    """Whether the features of a row have the norm one, whatever the row."""

    n_terms: int

    def at(self, column_of: Array) -> AdditiveMap:
        """The map for a list of values from these columns."""
        return self

    @abstractmethod
    def fill(self, values: Array, out: Array) -> None:
        """The terms of values (n, D), into (n, n_terms, D)."""

    def attributes(self) -> dict[str, Any]:
        """What a transformer shows of the map when it is fitted."""
        return {}

    @abstractmethod
    def to_state(self, writer: Writer) -> None:
        """Write the map into a model file."""

    @classmethod
    @abstractmethod
    def from_state(cls, reader: Reader, n_features: int) -> AdditiveMap:
        """The map in a model file; believes nothing."""

    def transform(self, X: Any, n_threads: int = 1) -> Any:
        """The features of the rows of X (N, D), dense or CSR: column ``t D + d`` is term t of dimension d."""
        if sparse.issparse(X):
            return self._transform_sparse(X, n_threads)
        X = plain(X)
        n_rows, width = X.shape
        out = np.empty((n_rows, self.n_terms, width), X.dtype)
        over_rows(lambda some: self.fill(X[some], out[some]), n_rows, n_threads, max(1, BLOCK_VALUES // width))
        return out.reshape(n_rows, self.n_terms * width)

    def _transform_sparse(self, X: Any, n_threads: int) -> Any:
        """The features of the rows of a sparse X (N, D), CSR: zero is mapped to zero, so that non-zeros are enough."""
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        data = plain(X.data)
        terms = np.empty((self.n_terms, len(data)), data.dtype)

        def work(some: slice) -> None:
            block = np.empty((1, self.n_terms, some.stop - some.start), data.dtype)
            self.at(X.indices[some]).fill(data[None, some], block)
            terms[:, some] = block[0]

        over_rows(work, len(data), n_threads, BLOCK_VALUES)
        return sparse.hstack([_like(X, values) for values in terms], format="csr")

    def chi2_error(self, left: Array, right: Array, n_threads: int = 1) -> Array:
        """The additive chi-squared kernel minus the products of the features, for all pairs of dense rows, (n, m)."""
        products = self.transform(left, n_threads) @ self.transform(right, n_threads).T
        return chi2_matrix(left, right, n_threads=n_threads) - products


@dataclass(frozen=True, eq=False)
class Direct(AdditiveMap):
    """The expansion of ``2 x y / (x + y)`` with geometric convergence (chi2-linear-approximation, eq. 5 to 7).

    points : (n_terms, D), where the error vanishes; in units of the features, positive
    """

    points: Array

    @property
    def n_terms(self) -> int:  # type: ignore[override]
        return len(self.points)

    @property
    def n_components(self) -> int:
        """Features of all columns together."""
        return self.points.size

    width = n_components

    def attributes(self) -> dict[str, Any]:
        return {"points_": self.points}

    def to_state(self, writer: Writer) -> None:
        writer.put("points", self.points)

    @classmethod
    def from_state(cls, reader: Reader, n_features: int) -> Direct:
        points = reader.array("points", np.float64, (None, n_features))
        if not 1 <= len(points) <= MOST_TERMS or points.min() <= 0:
            raise ValueError("the points of its feature map are damaged")
        return cls(points)

    def at(self, column_of: Array) -> Direct:
        return Direct(self.points[:, column_of])

    def fill(self, values: Array, out: Array) -> None:
        # A point that the precision of the values cannot hold would make zeros of zeros by zeros.
        given = np.maximum(self.points, 4 * np.finfo(values.dtype).tiny)
        points, roots = (np.ascontiguousarray(array, values.dtype) for array in (given, 2 * np.sqrt(given)))
        chi2_loops.expand_direct(values, points, roots, 0, len(values), out)

    def remainders(self, values: Array) -> Array:
        """``prod_t (x - k_t) / (x + k_t)``, (n, D): the error of a pair is the kernel times both of theirs (eq. 7)."""
        out = np.ones_like(values)
        for point in self.points:
            out *= (values - point) / (values + point)
        return out

    def chi2_error(self, left: Array, right: Array, n_threads: int = 1) -> Array:
        return chi2_matrix(left, right, factors=(self.remainders(left), self.remainders(right)), n_threads=n_threads)


@dataclass(frozen=True, eq=False)
class Sampled(AdditiveMap):
    """A homogeneous kernel by its spectrum, sampled at multiples of an interval (Vedaldi and Zisserman).

    density : (n_steps,), the spectrum at 0, L, 2 L, ...
    """

    density: Array
    interval: float

    @property
    def n_terms(self) -> int:  # type: ignore[override]
        return 2 * len(self.density) - 1

    def attributes(self) -> dict[str, Any]:
        return {"sample_interval_": self.interval}

    def to_state(self, writer: Writer) -> None:
        writer.put("density", self.density)
        writer.put("interval", [self.interval])

    @classmethod
    def from_state(cls, reader: Reader, n_features: int) -> Sampled:
        density = reader.array("density", np.float64, (None,), lowest=0)
        if not 1 <= len(density) <= MOST_TERMS:
            raise ValueError("the spectrum of its feature map is damaged")
        return cls(density, float(reader.array("interval", np.float64, (1,), lowest=0)[0]))

    def fill(self, values: Array, out: Array) -> None:
        positive = values > 0
        logarithm = np.log(values, where=positive, out=np.zeros_like(values))
        root = np.sqrt(values)
        out[:, 0] = root * np.sqrt(self.interval * self.density[0])
        for step, density in enumerate(self.density[1:], 1):
            factor = root * np.sqrt(2 * self.interval * density)
            angle = step * self.interval * logarithm
            out[:, 2 * step - 1] = factor * np.cos(angle)
            out[:, 2 * step] = factor * np.sin(angle)


@dataclass(frozen=True, eq=False)
class Root(AdditiveMap):
    """``sqrt(x y)``, exactly."""

    n_terms = 1

    def to_state(self, writer: Writer) -> None:
        """Nothing: all of them are the same."""

    @classmethod
    def from_state(cls, reader: Reader, n_features: int) -> Root:
        return cls()

    def fill(self, values: Array, out: Array) -> None:
        np.sqrt(values, out=out[:, 0])


@dataclass(frozen=True, eq=False)
class Chebyshev(AdditiveMap):
    """``2 x y / (x + y)`` in a Fourier series of ``exp(i a log tan(z / 2))``; good around x = ``scale``."""

    n_terms: int
    scale: float

    def to_state(self, writer: Writer) -> None:
        writer.put("n_terms", [float(self.n_terms)])
        writer.put("scale", [self.scale])

    @classmethod
    def from_state(cls, reader: Reader, n_features: int) -> Chebyshev:
        n_terms, scale = (reader.array(name, np.float64, (1,))[0] for name in ("n_terms", "scale"))
        if not (1 <= n_terms <= MOST_TERMS and scale > 0):
            raise ValueError("the scale of its feature map is damaged")
        return cls(int(n_terms), float(scale))

    def fill(self, values: Array, out: Array) -> None:
        """Fill ``out`` (n, n_terms, D) with the terms of ``values`` (n, D), by the recurrence of the coefficients."""
        positive = values > 0
        # A quotient of two single precision numbers may need the range of double precision.
        a = np.log(values / np.float64(self.scale), where=positive, out=np.zeros(values.shape)) / np.pi
        before, present = np.zeros_like(a), 1 / np.cosh(np.pi / 2 * a)
        root = np.sqrt(2 * values)
        out[:, 0] = np.sqrt(values) * present
        for k in range(self.n_terms - 1):
            # (k + 1) r_{k+1} = 2 a r_k - (k - 1) r_{k-1}, but r_1 = a r_0
            following = (2 * a * present - (k - 1) * before) / (k + 1) if k else a * present
            before, present = present, following
            out[:, k + 1] = root * present


SPECTRA: dict[str, Callable[[Array], Array]] = {
    "chi2": lambda w: 1 / np.cosh(np.pi * w),
    "intersection": lambda w: 2 / np.pi / (1 + 4 * w**2),
    "jensen-shannon": lambda w: 2 / np.log(4) / np.cosh(np.pi * w) / (1 + 4 * w**2),
}
# By the logarithm of the ratio of two values, divided by their geometric mean.
SIGNATURES: dict[str, Callable[[Array], Array]] = {
    "chi2": lambda t: 1 / np.cosh(t / 2),
    "intersection": lambda t: np.exp(-np.abs(t) / 2),
    "jensen-shannon": lambda t: (np.exp(t / 2) * np.log2(1 + np.exp(-t)) + np.exp(-t / 2) * np.log2(1 + np.exp(t))) / 2,
}


def sampled(kernel: str, n_terms: int, interval: float) -> Sampled:
    """The map of a homogeneous kernel with an odd number of terms."""
    return Sampled(SPECTRA[kernel](interval * np.arange((n_terms + 1) // 2)), interval)


def _like(X: Any, data: Array) -> Any:
    return type(X)((data, X.indices, X.indptr), shape=X.shape)
