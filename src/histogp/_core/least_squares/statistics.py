"""Sums over examples that say all that least squares needs to know of them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import blas

from histogp._core.data import Array, dense
from histogp._core.threads import suited_blas
from histogp.exceptions import ModelFileError
from histogp.io import container

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
        if np.ndim(Z) != 2:
            raise ValueError(f"Features must be a matrix with one row a sample; their shape is {np.shape(Z)}.")
        sums = Sums(np.shape(Z)[1], 0 if Y is None else 1 if np.ndim(Y) == 1 else np.shape(Y)[1])
        sums.add(Z, Y, sample_weight)
        return sums.total()

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

    def stretched(self, factors: Array) -> StreamingStatistics:
        """Of features times factors (m,)."""
        return StreamingStatistics(
            factors[:, None] * self.gram * factors,
            factors * self.sums,
            factors[:, None] * self.cross,
            self.target_sums,
            self.target_gram,
            self.weight,
            self.count,
        )

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
    def from_arrays(cls, arrays: Any, prefix: str = "") -> StreamingStatistics:
        """The inverse of `arrays`, which takes them out of ``arrays`` by its method ``pop`` and believes nothing."""
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


class Sums:
    """Statistics to which rows are added in place; ``total`` makes immutable ones of them, and ends it.

    With ``single``, products within a block of rows are in single precision, and only their sums in double: for
    features that know no better, such as random ones.
    """

    def __init__(self, n_features: int, n_targets: int = 0, *, single: bool = False):
        self._upper = np.zeros((n_features, n_features), order="F")
        self._rest = StreamingStatistics.empty(0, n_targets)
        self._sums, self._cross = np.zeros(n_features), np.zeros((n_features, n_targets))
        self._single = single

    def add(self, Z: Any, Y: Any = None, sample_weight: Any = None) -> None:
        """Rows Z (n, m), dense or sparse; Y (n,) or (n, k)."""
        Z = Z.tocsr() if sparse.issparse(Z) else np.asarray(Z)
        n_rows, n_features = Z.shape
        Y = np.empty((n_rows, 0)) if Y is None else np.asarray(Y, np.float64)
        Y = Y[:, None] if Y.ndim == 1 else Y
        weights = np.ones(n_rows) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if Y.shape[:1] != (n_rows,) or weights.shape != (n_rows,):
            raise ValueError(f"There must be one target and one weight for each of the {n_rows} rows.")
        if (n_features, Y.shape[1]) != self._cross.shape:
            m, k = self._cross.shape
            raise ValueError(
                f"Statistics of {m} features and {k} targets cannot take rows of {n_features} and {Y.shape[1]}."
            )
        if n_rows and not weights.min() >= 0:
            raise ValueError("Weights must not be negative.")
        roots = np.sqrt(weights)[:, None]
        if sparse.issparse(Z) and Z.nnz < DENSE * n_rows * n_features:
            scaled = Z.astype(np.float64).multiply(roots).tocsr()
            self._upper += (scaled.T @ scaled).toarray()
            self._sums += scaled.T @ roots[:, 0]
            self._cross += scaled.T @ (roots * Y)
        else:
            dtype = np.float32 if self._single else np.float64
            for rows in blocks(n_rows, n_features, self._single):
                block = np.asarray(dense(Z[rows]), dtype, order="C")
                self._add_block(
                    block if np.all(weights == 1) else block * roots[rows].astype(dtype), Y[rows], roots[rows]
                )
        weighted = weights[:, None] * Y
        rest = self._rest
        self._rest = StreamingStatistics(
            rest.gram,
            rest.sums,
            rest.cross,
            rest.target_sums + weighted.sum(axis=0),
            rest.target_gram + Y.T @ weighted,
            rest.weight + float(weights.sum()),
            rest.count + int(np.count_nonzero(weights)),
        )

    def _add_block(self, block: Array, Y: Array, roots: Array) -> None:
        # Without a mean in double precision: in single precision it would drown what targets differ by.
        means = np.zeros(Y.shape[1])
        if self._single:
            squares = roots[:, 0] ** 2
            means = squares @ Y / max(float(squares.sum()), np.finfo(float).tiny)
        sides = np.hstack([roots, roots * (Y - means)]).astype(block.dtype)
        with suited_blas(float(len(block)) * block.shape[1] ** 2):
            if self._single:
                self._upper += blas.ssyrk(1.0, block.T)
            else:
                self._upper = blas.dsyrk(1.0, block.T, beta=1.0, c=self._upper, overwrite_c=True)
            products = block.T @ sides
        sums = products[:, 0].astype(np.float64)
        self._sums += sums
        self._cross += products[:, 1:] + sums[:, None] * means

    def total(self) -> StreamingStatistics:
        """What was added."""
        # Below the diagonal there is nothing, or, from sparse rows, the same as above.
        gram = np.triu(self._upper)
        gram += np.triu(gram, 1).T
        if not all(np.all(np.isfinite(one)) for one in (gram, self._cross, self._sums, self._rest.target_gram)):
            raise ValueError("Features and targets must be finite numbers of moderate size.")
        rest = self._rest
        return StreamingStatistics(
            gram, self._sums, self._cross, rest.target_sums, rest.target_gram, rest.weight, rest.count
        )


def blocks(n_rows: int, n_features: int, single: bool = False) -> Iterator[slice]:
    """Slices of rows with features of bounded size; larger ones where products are added up afterwards."""
    step = max(1, (8 if single else 1) * BLOCK_ELEMENTS // max(1, n_features))
    for begin in range(0, n_rows, step):
        yield slice(begin, min(begin + step, n_rows))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``|y - Z w|^2 = y^T y - 2 w^T c + w^T H w`` of features and targets without their means.

    hessian : (m, m), H; cross : (m, k), c of each target; squares : (k,), ``y^T y``
    means : (m,), target_means : (k,), zero without an intercept
    weight : the sum of all weights, which count like repeated rows
    rounding : what is not known of an entry of H
    """

    hessian: Array
    cross: Array
    squares: Array
    means: Array
    target_means: Array
    weight: float
    rounding: float

    @classmethod
    def of(cls, statistics: StreamingStatistics, *, intercept: bool = True) -> Quadratic:
        total = max(statistics.weight, np.finfo(float).tiny) if intercept else np.inf
        means, target_means = statistics.sums / total, statistics.target_sums / total
        squares = statistics.target_gram.diagonal() - statistics.target_sums * target_means
        return cls(
            statistics.gram - np.outer(statistics.sums, means),
            statistics.cross - np.outer(statistics.sums, target_means),
            np.maximum(squares, 0.0),
            means,
            target_means,
            statistics.weight,
            float(np.finfo(float).eps * statistics.gram.diagonal().max(initial=0.0)),
        )

    def intercepts(self, weights: Array) -> Array:
        """(k,), for weights (m, k)."""
        return self.target_means - self.means @ weights

    def square_root(self) -> tuple[Array, Array]:
        """R (r, m) and q (r, k) with ``R^T R = H`` and ``R^T q = c``, without directions that are rounding.

        To least squares they are as good as the rows, of which there may be any number.
        """
        values, vectors = linalg.eigh(self.hessian)
        alive = values > len(values) * max(self.rounding, np.finfo(float).eps * values.max(initial=0.0))
        roots, vectors = np.sqrt(values[alive]), vectors[:, alive]
        return roots[:, None] * vectors.T, vectors.T @ self.cross / roots[:, None]
