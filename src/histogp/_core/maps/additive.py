"""Maps of one value to a few terms whose products add up to a kernel of one dimension.

Each is frozen and has ``n_terms``, ``fill(values, out)`` from (n, D) to (n, n_terms, D), and ``at(column_of)``, the map
for a list of values from these columns. Zero maps to zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from histogp._core._numba import chi2_loops
from histogp._core.data import Array, plain
from histogp._core.threads import over_rows

# Terms of the expansion of a feature that may be asked for; a fraction of that reaches rounding.
MOST_TERMS = 1000


class AdditiveMap(Protocol):
    """What `expand` needs to know of a map."""

    @property
    def n_terms(self) -> int: ...

    def at(self, column_of: Array) -> AdditiveMap: ...

    def fill(self, values: Array, out: Array) -> None: ...


@dataclass(frozen=True, eq=False)
class Direct:
    """The expansion of ``2 x y / (x + y)`` with geometric convergence (chi2-linear-approximation, eq. 5 to 7).

    points : (n_terms, D), where the error vanishes; in units of the features, positive
    """

    points: Array

    @property
    def n_terms(self) -> int:
        return len(self.points)

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


@dataclass(frozen=True, eq=False)
class Sampled:
    """A homogeneous kernel by its spectrum, sampled at multiples of an interval (Vedaldi and Zisserman).

    density : (n_steps,), the spectrum at 0, L, 2 L, ...
    """

    density: Array
    interval: float

    @property
    def n_terms(self) -> int:
        return 2 * len(self.density) - 1

    def at(self, column_of: Array) -> Sampled:
        return self

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
class Root:
    """``sqrt(x y)``, exactly."""

    n_terms = 1

    def at(self, column_of: Array) -> Root:
        return self

    def fill(self, values: Array, out: Array) -> None:
        np.sqrt(values, out=out[:, 0])


@dataclass(frozen=True, eq=False)
class Chebyshev:
    """``2 x y / (x + y)`` in a Fourier series of ``exp(i a log tan(z / 2))``; good around x = ``scale``."""

    n_terms: int
    scale: float

    def at(self, column_of: Array) -> Chebyshev:
        return self

    def fill(self, values: Array, out: Array) -> None:
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


# The arrays that maps are made of, all positive.
STATES = ("points", "density", "interval", "scale", "n_terms")


def to_arrays(additive: AdditiveMap) -> dict[str, Array]:
    """A map as arrays, for files."""
    if isinstance(additive, Direct):
        return {"points": additive.points}
    if isinstance(additive, Sampled):
        return {"density": additive.density, "interval": np.array([additive.interval])}
    if isinstance(additive, Chebyshev):
        return {"n_terms": np.array([float(additive.n_terms)]), "scale": np.array([additive.scale])}
    return {}


def from_arrays(arrays: dict[str, Array], n_columns: int) -> AdditiveMap:
    """The inverse, for arrays of unknown origin."""
    names = sorted(arrays)
    if names == ["points"] and arrays["points"].ndim == 2 and arrays["points"].shape[1:] == (n_columns,):
        if len(arrays["points"]) and arrays["points"].min() > 0:
            return Direct(arrays["points"])
    elif names == ["density", "interval"] and arrays["density"].ndim == 1 and arrays["interval"].shape == (1,):
        if len(arrays["density"]):
            return Sampled(arrays["density"], float(arrays["interval"][0]))
    elif names == ["n_terms", "scale"] and arrays["n_terms"].shape == arrays["scale"].shape == (1,):
        if 1 <= arrays["n_terms"][0] <= 2**16 and arrays["scale"][0] > 0:
            return Chebyshev(int(arrays["n_terms"][0]), float(arrays["scale"][0]))
    elif not names:
        return Root()
    raise ValueError("its feature map is damaged")


# Values that are expanded between two looks for an interrupt, and stay in a cache meanwhile.
BLOCK = 2**15


def expand(additive: AdditiveMap, X: Any, n_threads: int = 1) -> Any:
    """The features of the rows of X (N, D), dense or CSR: column ``t D + d`` is term t of dimension d."""
    if sparse.issparse(X):
        return _expand_sparse(additive, X, n_threads)
    X = plain(X)
    n_rows, width = X.shape
    out = np.empty((n_rows, additive.n_terms, width), X.dtype)
    over_rows(lambda some: additive.fill(X[some], out[some]), n_rows, n_threads, max(1, BLOCK // width))
    return out.reshape(n_rows, additive.n_terms * width)


def _expand_sparse(additive: AdditiveMap, X: Any, n_threads: int) -> Any:
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    data = plain(X.data)
    terms = np.empty((additive.n_terms, len(data)), data.dtype)

    def work(some: slice) -> None:
        block = np.empty((1, additive.n_terms, some.stop - some.start), data.dtype)
        additive.at(X.indices[some]).fill(data[None, some], block)
        terms[:, some] = block[0]

    over_rows(work, len(data), n_threads, BLOCK)
    return sparse.hstack([_like(X, values) for values in terms], format="csr")


def _like(X: Any, data: Array) -> Any:
    return type(X)((data, X.indices, X.indptr), shape=X.shape)
