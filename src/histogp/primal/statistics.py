"""Sums over examples that say all that least squares needs to know of them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas

from histogp import container
from histogp.blas import suited_blas
from histogp.container import ModelFileError
from histogp.storage import Array, dense

FORMAT = 1
# Numbers of a block of features in double precision.
BLOCK_ELEMENTS = 2**22
# Sparse features above this part of non-zeros are faster multiplied as dense ones.
DENSE = 0.02
_ARRAYS = ("gram", "sums", "cross", "target_sums", "target_gram")


@dataclass(frozen=True, eq=False)
class StreamingStatistics:
    """Sums over the rows of features Z (n, m) and targets Y (n, k), in double precision. Immutable.

    Those of several chunks, processes or machines add up: ``a + b``. Rows may have weights, with which they count.

    Attributes
    ----------
    gram : ndarray of shape (m, m)
        ``Z^T Z``.
    sums : ndarray of shape (m,)
        ``Z^T 1``.
    cross : ndarray of shape (m, k)
        ``Z^T Y``.
    target_sums : ndarray of shape (k,)
        ``1^T Y``.
    target_gram : ndarray of shape (k, k)
        ``Y^T Y``.
    weight : float
        The sum of the weights; without weights the number of rows.
    count : int
        Rows of positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.streaming import StreamingStatistics
    >>> Z, y = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([1.0, 0.0, 1.0])
    >>> both = StreamingStatistics.of(Z[:2], y[:2]) + StreamingStatistics.of(Z[2:], y[2:])
    >>> both.gram
    array([[35., 44.],
           [44., 56.]])
    >>> both.count
    3
    """

    gram: Array
    sums: Array
    cross: Array
    target_sums: Array
    target_gram: Array
    weight: float
    count: int

    @classmethod
    def empty(cls, n_features: int, n_targets: int = 0) -> StreamingStatistics:
        """Of no rows."""
        return cls(
            np.zeros((n_features, n_features)),
            np.zeros(n_features),
            np.zeros((n_features, n_targets)),
            np.zeros(n_targets),
            np.zeros((n_targets, n_targets)),
            0.0,
            0,
        )

    @classmethod
    def of(cls, Z: Any, Y: Any = None, sample_weight: Any = None) -> StreamingStatistics:
        """Of some rows: Z (n, m) dense or sparse, Y (n,) or (n, k)."""
        Z = Z.tocsr() if sparse.issparse(Z) else np.asarray(Z)
        if Z.ndim != 2:
            raise ValueError(f"Features must be a matrix with one row a sample; their shape is {Z.shape}.")
        n_rows, n_features = Z.shape
        Y = np.empty((n_rows, 0)) if Y is None else np.asarray(Y, np.float64)
        Y = Y[:, None] if Y.ndim == 1 else Y
        weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if Y.shape[:1] != (n_rows,) or weights.shape != (n_rows,):
            raise ValueError(f"There must be one target and one weight for each of the {n_rows} rows.")
        if n_rows and not weights.min() >= 0:
            raise ValueError("Weights must not be negative.")
        roots = np.sqrt(weights)[:, None]
        if sparse.issparse(Z) and Z.nnz < DENSE * n_rows * n_features:
            scaled = Z.astype(np.float64).multiply(roots).tocsr()
            gram = (scaled.T @ scaled).toarray()
            sums, cross = scaled.T @ roots[:, 0], scaled.T @ (roots * Y)
        else:
            upper = np.zeros((n_features, n_features), order="F")
            sums, cross = np.zeros(n_features), np.zeros((n_features, Y.shape[1]))
            for rows in blocks(n_rows, n_features):
                block = np.asarray(dense(Z[rows]), np.float64, order="C")
                block = block if sample_weight is None else block * roots[rows]
                with suited_blas(float(len(block)) * n_features**2):
                    upper = blas.dsyrk(1.0, block.T, beta=1.0, c=upper, overwrite_c=True)
                    sums += block.T @ roots[rows, 0]
                    cross += block.T @ (roots[rows] * Y[rows])
            gram = np.triu(upper, 1).T + upper
        if not (np.all(np.isfinite(gram)) and np.all(np.isfinite(cross)) and np.all(np.isfinite(sums))):
            raise ValueError("Features and targets must be finite numbers of moderate size.")
        weighted = weights[:, None] * Y
        count = int(np.count_nonzero(weights))
        return cls(gram, sums, cross, weighted.sum(axis=0), Y.T @ weighted, float(weights.sum()), count)

    def __add__(self, other: StreamingStatistics) -> StreamingStatistics:
        if not isinstance(other, StreamingStatistics):
            return NotImplemented
        if self.cross.shape != other.cross.shape:
            raise ValueError(
                f"Statistics of {self.cross.shape[0]} features and {self.cross.shape[1]} targets and of "
                f"{other.cross.shape[0]} and {other.cross.shape[1]} do not add up."
            )
        arrays = {name: getattr(self, name) + getattr(other, name) for name in _ARRAYS}
        return StreamingStatistics(**arrays, weight=self.weight + other.weight, count=self.count + other.count)

    def __radd__(self, other: Any) -> StreamingStatistics:
        return self if other == 0 else NotImplemented  # as in sum(...)

    def with_targets(self, positions: Array, n_targets: int) -> StreamingStatistics:
        """The same among more targets, where the present ones are at ``positions``; the others have been zero."""
        more = StreamingStatistics.empty(0, n_targets)
        cross = np.zeros((len(self.sums), n_targets))
        cross[:, positions] = self.cross
        more.target_sums[positions] = self.target_sums
        more.target_gram[np.ix_(positions, positions)] = self.target_gram
        return StreamingStatistics(
            self.gram, self.sums, cross, more.target_sums, more.target_gram, self.weight, self.count
        )

    def without_targets(self) -> StreamingStatistics:
        """Those of the features alone."""
        none = StreamingStatistics.empty(0)
        cross = np.empty((len(self.sums), 0))
        return StreamingStatistics(
            self.gram, self.sums, cross, none.target_sums, none.target_gram, self.weight, self.count
        )

    def scaled(self, factor: float) -> StreamingStatistics:
        """With all weights times a factor."""
        arrays = {name: factor * getattr(self, name) for name in _ARRAYS}
        return StreamingStatistics(**arrays, weight=factor * self.weight, count=self.count)

    def save(self, path: Any) -> None:
        """Write a file without code, in place of an older one as a whole or not at all; `load` reads it."""
        document = {"format": FORMAT, "version": importlib.metadata.version("histogp"), "class": type(self).__name__}
        container.write(path, document, self.arrays())

    @classmethod
    def load(cls, path: Any) -> StreamingStatistics:
        """Read a file that `save` wrote: the same numbers to the last bit."""
        document, arrays = container.read(path)
        if document.get("class") != cls.__name__ or document.get("format") != FORMAT:
            raise ModelFileError(f"{str(path)!r} does not hold statistics that this version of histogp knows.")
        try:
            return cls.from_arrays(arrays)
        except ModelFileError as error:
            raise ModelFileError(f"{str(path)!r} is not intact: {error}") from None

    def arrays(self, prefix: str = "") -> dict[str, Array]:
        """All numbers by name, for files."""
        named = {name: getattr(self, name) for name in _ARRAYS}
        named |= {"weight": np.array([self.weight]), "count": np.array([self.count], np.int64)}
        return {f"{prefix}{name}": array for name, array in named.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], prefix: str = "") -> StreamingStatistics:
        """The inverse, which takes them out of ``arrays`` and believes nothing."""
        given: dict[str, Any] = {name: arrays.pop(f"{prefix}{name}", None) for name in (*_ARRAYS, "weight", "count")}
        m, k = np.shape(given["cross"]) if np.ndim(given["cross"]) == 2 else (-1, -1)
        shapes = {"gram": (m, m), "sums": (m,), "cross": (m, k), "target_sums": (k,), "target_gram": (k, k)}
        shapes |= {"weight": (1,), "count": (1,)}
        for name, shape in shapes.items():
            array, dtype = given[name], np.int64 if name == "count" else np.float64
            if array is None or array.shape != shape or array.dtype != dtype or not np.all(np.isfinite(array)):
                raise ModelFileError(f"the array {prefix + name!r} is damaged.")
        weight, count = float(given.pop("weight")[0]), int(given.pop("count")[0])
        if weight < 0 or count < 0:
            raise ModelFileError("its number of rows is damaged.")
        return cls(**given, weight=weight, count=count)


def blocks(n_rows: int, n_features: int) -> Iterator[slice]:
    """Slices of rows with features of bounded size."""
    step = max(1, BLOCK_ELEMENTS // max(1, n_features))
    for begin in range(0, n_rows, step):
        yield slice(begin, min(begin + step, n_rows))
