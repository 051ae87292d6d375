"""Sums over samples that say all that least squares needs to know of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import blas

from histogp._core.data import Array, dense
from histogp._core.threads import suited_blas
from histogp.io import schema

_ARRAYS = ("gram", "sums", "cross", "target_sums", "target_gram")


@dataclass(frozen=True, eq=False)
class StreamingStatistics:
    """Sums over samples with features Z (n, m) and targets Y (n, k), in double precision. Immutable.

    Those of several chunks, processes or machines add up: ``a + b``. Samples may have weights, with which they count.
    `of` makes statistics of samples; all parameters are attributes.

    Parameters
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
        The sum of the weights; without weights the number of samples.
    count : int
        Samples of positive weight.

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
        """The statistics of no samples.

        Parameters
        ----------
        n_features : int
            Features of a sample.
        n_targets : int, default=0
            Targets of a sample.

        Returns
        -------
        statistics : StreamingStatistics
            Sums that are zero.
        """
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
        """The statistics of samples with features Z and targets Y.

        Parameters
        ----------
        Z : {array-like, sparse matrix} of shape (n, m)
            Features of the samples.
        Y : array-like of shape (n,) or (n, k), default=None
            Targets of the samples; None is no targets.
        sample_weight : array-like of shape (n,), default=None
            Weights, which count like repeated samples.

        Returns
        -------
        statistics : StreamingStatistics
            Sums over these samples.
        """
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

    def with_targets(self, places: Array, n_targets: int) -> StreamingStatistics:
        """Make room for more targets, which have been zero so far.

        Parameters
        ----------
        places : array-like of int of shape (k,)
            Columns of the present targets among all of them.
        n_targets : int
            Number of all targets.

        Returns
        -------
        statistics : StreamingStatistics
            Those of the same samples with all targets.
        """
        cross, sums, gram = np.zeros((len(self.sums), n_targets)), np.zeros(n_targets), np.zeros((n_targets, n_targets))
        cross[:, places] = self.cross
        sums[places] = self.target_sums
        gram[np.ix_(places, places)] = self.target_gram
        return replace(self, cross=cross, target_sums=sums, target_gram=gram)

    def without_targets(self) -> StreamingStatistics:
        """Leave out the targets.

        Returns
        -------
        statistics : StreamingStatistics
            Those of the features alone.
        """
        return replace(self, cross=self.cross[:, :0], target_sums=np.empty(0), target_gram=np.empty((0, 0)))

    def scaled(self, factor: float) -> StreamingStatistics:
        """Multiply the weights of all samples by a factor.

        Parameters
        ----------
        factor : float
            What weights are multiplied by.

        Returns
        -------
        statistics : StreamingStatistics
            Those of the same samples with other weights; the count stays.
        """
        arrays = {name: factor * getattr(self, name) for name in _ARRAYS}
        return StreamingStatistics(**arrays, weight=factor * self.weight, count=self.count)

    def stretched(self, factors: Array) -> StreamingStatistics:
        """Multiply each feature by a factor of its own.

        Parameters
        ----------
        factors : ndarray of shape (m,)
            What features are multiplied by.

        Returns
        -------
        statistics : StreamingStatistics
            Those of the same samples with other features.
        """
        gram, cross = factors[:, None] * self.gram * factors, factors[:, None] * self.cross
        return replace(self, gram=gram, sums=factors * self.sums, cross=cross)

    def save(self, path: Any) -> None:
        """Write a file without code, in place of an older one as a whole or not at all; `load` reads it.

        Parameters
        ----------
        path : str or path-like
            By custom with the ending ``.histogp``.
        """
        schema.save(self, path)

    @classmethod
    def load(cls, path: Any) -> StreamingStatistics:
        """Read a file that `save` wrote; the numbers are the same to the last bit.

        Parameters
        ----------
        path : str or path-like
            A file that `save` wrote.

        Returns
        -------
        statistics : StreamingStatistics
            Those in the file.
        """
        return schema.load_one_of([cls.__name__], path)

    def arrays(self) -> dict[str, Array]:
        """All numbers by name, for files.

        Returns
        -------
        arrays : dict of ndarray
            Arrays by the names of parameters; ``weight`` and ``count`` have the shape (1,).
        """
        named = {name: getattr(self, name) for name in _ARRAYS}
        return named | {"weight": np.array([self.weight]), "count": np.array([self.count], np.int64)}

    def _to_state(self, writer: schema.Writer) -> None:
        """Write all numbers into a model file."""
        for name, array in self.arrays().items():
            writer.put(name, array)

    @classmethod
    def _from_state(cls, reader: schema.Reader) -> StreamingStatistics:
        """The statistics in a model file; believes nothing."""
        cross = reader.array("cross", np.float64, (None, None))
        m, k = cross.shape
        shapes = {"gram": (m, m), "sums": (m,), "target_sums": (k,), "target_gram": (k, k)}
        given = {name: reader.array(name, np.float64, shape) for name, shape in shapes.items()}
        weight = float(reader.array("weight", np.float64, (1,), lowest=0)[0])
        count = int(reader.array("count", np.int64, (1,), lowest=0)[0])
        return cls(**given, cross=cross, weight=weight, count=count)


# Sparse features with a larger part of non-zeros are multiplied as dense ones. Of 4,000 x 1,000 with 2% the sparse
# product takes 0.03 s and the dense one 0.1 s of one core (equal at 9%), but BLAS has all cores for the dense one.
LARGEST_SPARSE_DENSITY = 0.02
# Numbers of the features of a block: 32 MB. Products of 20,000 x 1,000 take 0.57 s with 2^16, 0.46 s with 2^22.
BLOCK_ELEMENTS = 2**22


class Sums:
    """Statistics to which samples are added in place; ``total`` makes immutable ones of them, and ends it.

    With ``single``, products within a block of samples are in single precision, and only their sums in double: for
    features that know no better, such as random ones.
    """

    def __init__(self, n_features: int, n_targets: int = 0, *, single: bool = False):
        self._upper = np.zeros((n_features, n_features), order="F")
        self._sums, self._cross = np.zeros(n_features), np.zeros((n_features, n_targets))
        self._target_sums, self._target_gram = np.zeros(n_targets), np.zeros((n_targets, n_targets))
        self._weight, self._count = 0.0, 0
        self._single = single

    def add(self, Z: Any, Y: Any = None, sample_weight: Any = None) -> None:
        """Add samples with features Z (n, m), dense or sparse, and targets Y (n,) or (n, k)."""
        Z = Z.tocsr() if sparse.issparse(Z) else np.asarray(Z)
        n_samples, n_features = Z.shape
        Y = np.empty((n_samples, 0)) if Y is None else np.asarray(Y, np.float64)
        Y = Y[:, None] if Y.ndim == 1 else Y
        weights = np.ones(n_samples) if sample_weight is None else np.asarray(sample_weight, np.float64)
        if Y.shape[:1] != (n_samples,) or weights.shape != (n_samples,):
            raise ValueError(f"There must be one target and one weight for each of the {n_samples} samples.")
        if (n_features, Y.shape[1]) != self._cross.shape:
            m, k = self._cross.shape
            raise ValueError(
                f"Statistics of {m} features and {k} targets cannot take samples of {n_features} and {Y.shape[1]}."
            )
        if n_samples and not weights.min() >= 0:
            raise ValueError(f"Weights must not be negative; got {weights.min():g}.")
        roots = np.sqrt(weights)[:, None]
        if sparse.issparse(Z) and Z.nnz < LARGEST_SPARSE_DENSITY * n_samples * n_features:
            scaled = Z.astype(np.float64).multiply(roots).tocsr()
            self._upper += (scaled.T @ scaled).toarray()
            self._sums += scaled.T @ roots[:, 0]
            self._cross += scaled.T @ (roots * Y)
        else:
            dtype = np.float32 if self._single else np.float64
            for some in blocks(n_samples, n_features, self._single):
                block = np.asarray(dense(Z[some]), dtype, order="C")
                scaled = block if np.all(weights == 1) else block * roots[some].astype(dtype)
                self._add_block(scaled, Y[some], roots[some])
        weighted = weights[:, None] * Y
        self._target_sums += weighted.sum(axis=0)
        self._target_gram += Y.T @ weighted
        self._weight += float(weights.sum())
        self._count += int(np.count_nonzero(weights))

    def _add_block(self, block: Array, Y: Array, roots: Array) -> None:
        """Add samples whose features (n, m) are times the roots (n, 1) of their weights."""
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
        """The statistics of all samples that were added."""
        # Below the diagonal there is nothing, or, from sparse samples, what is above.
        gram = np.triu(self._upper)
        gram += np.triu(gram, 1).T
        arrays = gram, self._sums, self._cross, self._target_sums, self._target_gram
        if not all(np.all(np.isfinite(array)) for array in arrays):
            raise ValueError("Features and targets must be finite numbers of moderate size.")
        return StreamingStatistics(*arrays, self._weight, self._count)


def blocks(n_samples: int, n_features: int, single: bool = False) -> Iterator[slice]:
    """Slices of samples with features of bounded size; larger ones where products are added up afterwards."""
    step = max(1, (8 if single else 1) * BLOCK_ELEMENTS // max(1, n_features))
    for begin in range(0, n_samples, step):
        yield slice(begin, min(begin + step, n_samples))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``|y - Z w|^2 = y^T y - 2 w^T c + w^T H w`` of features and targets without their means.

    hessian : (m, m), H; cross : (m, k), c of each target; squares : (k,), ``y^T y``
    means : (m,), target_means : (k,), zero without an intercept
    weight : the sum of all weights, which count like repeated samples
    size : the number of samples: this sum, and at least one for each of them, so that weights may have any unit
    rounding : what is not known of an entry of H
    """

    hessian: Array
    cross: Array
    squares: Array
    means: Array
    target_means: Array
    weight: float
    size: float
    rounding: float

    @classmethod
    def of(cls, statistics: StreamingStatistics, *, intercept: bool = True, precision: type = np.float64) -> Quadratic:
        """The problem of samples with these statistics; without an ``intercept`` means stay where they are.

        precision : in which products of features were computed before they were added up
        """
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
            max(statistics.weight, float(statistics.count)),
            float(np.finfo(precision).eps * statistics.gram.diagonal().max(initial=0.0)),
        )

    def intercepts(self, weights: Array) -> Array:
        """The intercepts (k,) that go with weights (m, k)."""
        return self.target_means - self.means @ weights

    def square_root(self) -> tuple[Array, Array]:
        """R (r, m) and q (r, k) with ``R^T R = H`` and ``R^T q = c``, without directions that are rounding.

        To least squares they are as good as the samples, of which there may be any number.
        """
        values, vectors = linalg.eigh(self.hessian)
        alive = values > len(values) * max(self.rounding, np.finfo(float).eps * values.max(initial=0.0))
        roots, vectors = np.sqrt(values[alive]), vectors[:, alive]
        return roots[:, None] * vectors.T, vectors.T @ self.cross / roots[:, None]
