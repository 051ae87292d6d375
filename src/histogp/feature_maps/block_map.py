"""Several feature maps side by side, each for some columns: a sum of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context, clone
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from histogp._core.data import Array, dense
from histogp._core.least_squares.ridge import Components
from histogp._core.least_squares.statistics import Quadratic, StreamingStatistics, Sums
from histogp._core.threads import Lazy, announce_compilation
from histogp._estimator import updating
from histogp.feature_maps._adapters import as_map, with_arrays
from histogp.feature_maps.expansions import FeatureMap
from histogp.io.schema import Reader, Writer


class BlockMap(FeatureMap):
    """The features of several maps, each of some columns, one after the other; their kernels add up.

    Parameters
    ----------
    blocks : list of (name, map, columns)
        Much like those of `sklearn.compose.ColumnTransformer`: a text, a transformer such as `ExpChi2Sampler` or None
        for the columns as they are, and a slice, numbers, a mask or, for data with names, names of columns. Columns may
        be in several blocks, and in none.
    pca_components : int or None, default=None
        Replace the features of each block by that many of their principal components, or by all if there are fewer (the
        first stage of algorithm 4 of chi2-linear-approximation).
    chunk_bytes : int, default=2**27
        Memory for features at a time while components are found.

    Attributes
    ----------
    block_of_ : ndarray of shape (n_features_out,)
        The number of the block of each feature.
    columns_ : list of ndarray
        The numbers of the columns of each block.
    maps_ : list
        The fitted map of each block; None for the columns as they are.
    n_features_in_ : int
        Features of a sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.feature_maps import AdditiveChi2Map, BlockMap, ExpChi2Sampler
    >>> X = np.random.default_rng(0).random((20, 5))
    >>> both = BlockMap([("shape", ExpChi2Sampler(100), slice(0, 3)), ("color", AdditiveChi2Map(), [3, 4])])
    >>> both.fit_transform(X).shape
    (20, 106)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "blocks": [list, tuple],
        "pca_components": [None, Interval(Integral, 1, None, closed="left")],
        "chunk_bytes": [Interval(Integral, 1, None, closed="left")],
    }

    columns_: list[Array]
    maps_: list[Any]
    _sums: list[StreamingStatistics] | None

    def __init__(self, blocks: Any, *, pca_components: int | None = None, chunk_bytes: int = 2**27):
        self.blocks = blocks
        self.pca_components = pca_components
        self.chunk_bytes = chunk_bytes

    @property
    def _precision(self) -> type:  # type: ignore[override]
        return np.result_type(*(as_map(map_)._precision for _, map_, _ in checked_blocks(self.blocks))).type

    @property
    def _block_of(self) -> Array:  # type: ignore[override]
        return self.block_of_

    @property
    def _n_unprojected(self) -> int:  # type: ignore[override]
        return sum(self._widths) if self._projects else 0

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_found" in state:  # which has locks
            state["_found"] = self._components() if self._projects else None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: value for name, value in state.items() if name != "_found"})
        if "_found" in state:
            self._found = Lazy()
            self._found.put("components", state["_found"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        maps = [as_map(map_) for _, map_, _ in checked_blocks(self.blocks)]
        tags.input_tags.positive_only = any(map_.__sklearn_tags__().input_tags.positive_only for map_ in maps)
        return tags

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> BlockMap:
        """Adapt all maps to X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            For maps that look at it.

        Returns
        -------
        self : BlockMap
            The estimator itself.
        """
        with updating(self) as changed:
            changed.__dict__.pop("maps_", None)
            changed._add(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any = None) -> BlockMap:
        """Let further rows take part in finding the components; the maps adapt to the first ones alone.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            For maps that look at it.

        Returns
        -------
        self : BlockMap
            The estimator itself.
        """
        with updating(self) as changed:
            changed._add(X, y)
        return self

    def _add(self, X: Any, y: Any) -> None:
        """Adapt the maps if these samples are the first; let them take part in finding components."""
        announce_compilation()
        first = not hasattr(self, "maps_")
        blocks, given = checked_blocks(self.blocks), X
        X = self._validated(X, reset=first)
        if first:
            named = given if hasattr(self, "feature_names_in_") else X
            columns = [_numbers(named, name, own) for name, _, own in blocks]
            maps = [None if map_ is None else clone(map_) for _, map_, _ in blocks]
            for map_, numbers in zip(maps, columns, strict=True):
                if map_ is not None:
                    with_arrays(map_).fit(_part(X, numbers), y)
            self.columns_, self.maps_ = columns, maps
            self._widths = [block.shape[1] for block in self._raw(X[:1])]
            self._sums = None
            self.__dict__.pop("_found", None)
        if self.pca_components is not None:
            self._collect(X)
        self._describe()

    def _collect(self, X: Any) -> None:
        """Sums for the principal components of each block."""
        if hasattr(self, "_found") and self._sums is None:
            raise ValueError("This map came from a file, which has its components alone: fit it again.")
        sums = [Sums(width, single=self._precision == np.float32) for width in self._widths]
        step = max(1, self.chunk_bytes // (8 * max(self._widths)))
        for begin in range(0, X.shape[0], step):
            for own, block in zip(sums, self._raw(X[begin : begin + step]), strict=True):
                own.add(block)
        new = [own.total() for own in sums]
        self._sums = new if self._sums is None else [a + b for a, b in zip(self._sums, new, strict=True)]
        self._found = Lazy()

    def _describe(self) -> None:
        self.block_of_ = np.repeat(np.arange(len(self._widths)), self._output_widths())
        self._n_features_out = len(self.block_of_)

    def _output_widths(self) -> list[int]:
        """The number of features that each block yields."""
        if not self._projects:
            return self._widths
        if self._sums is None:  # from a file
            return [len(found.variances) for found in self._components()]
        return [min(int(self.pca_components or 0), len(own.sums), max(own.count - 1, 1)) for own in self._sums]

    @property
    def _projects(self) -> bool:
        return self.pca_components is not None

    def _components(self) -> list[Components]:
        """The components of each block; found when they are first needed."""

        def find() -> list[Components]:
            pairs = zip(self._sums or [], self._output_widths(), strict=True)
            return [Components.of(Quadratic.of(own), width) for own, width in pairs]

        return self._found.get("components", find)

    def _finish(self) -> None:
        """Find the components and drop the sums that they come from; no further rows can take part."""
        if self._projects:
            self._components()
            self._sums = None

    def _validated(self, X: Any, *, reset: bool) -> Any:
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset, order="C")

    def _raw(self, X: Any) -> Iterator[Any]:
        """The features of each block before any projection."""
        for map_, numbers in zip(self.maps_, self.columns_, strict=True):
            part = _part(X, numbers)
            Z = part if map_ is None else map_.transform(part)
            yield Z if sparse.issparse(Z) else np.asarray(Z)

    def transform(self, X: Any) -> Any:
        """The features: those of the first block, then those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to transform.

        Returns
        -------
        Z : {ndarray, sparse matrix} of shape (n_samples, n_features_out)
            Sparse, CSR, if those of all blocks are and ``pca_components`` is None.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if not self._projects:
            return _beside(list(self._raw(X)))
        pairs = zip(self._components(), self._raw(X), strict=True)
        return np.hstack([found.transform(dense(block)).astype(X.dtype, copy=False) for found, block in pairs])

    def _unprojected(self, X: Any) -> Any:
        """The features of all blocks before they are projected, for weights that `_folded` has made."""
        return _beside(list(self._raw(self._validated(X, reset=False))))

    def _folded(self, weights: Array, intercepts: Array) -> tuple[Array, Array] | None:
        """Weights (n_unprojected, k) and intercepts (k,) of unprojected features; None if nothing is projected.

        They give the same scores as weights (n_features_out, k) and intercepts of the components.
        """
        if not self._projects:
            return None
        begin, folded = 0, []
        for found in self._components():
            own = found.vectors @ weights[begin : begin + len(found.variances)]
            intercepts = intercepts - found.means @ own
            begin += len(found.variances)
            folded.append(own)
        return np.vstack(folded), intercepts

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """``block__0, ...``: the name of the block and the number of the feature in it.

        Parameters
        ----------
        input_features : ignored
            Not used; scikit-learn's pipelines pass it.

        Returns
        -------
        names : ndarray of shape (n_features_out,)
            Names of the features that `transform` gives.
        """
        check_is_fitted(self)
        names = [name for name, _, _ in self.blocks]
        counts = np.bincount(self.block_of_, minlength=len(names))
        return np.array([f"{name}__{k}" for name, n in zip(names, counts, strict=True) for k in range(n)], object)

    def _to_state(self, writer: Writer) -> None:
        writer.put("widths", np.array(self._widths, np.int64))
        for k, (map_, numbers) in enumerate(zip(self.maps_, self.columns_, strict=True)):
            own = writer.child(str(k))
            own.put("columns", numbers.astype(np.int64))
            as_map(map_)._to_state(own.child("map"))
            if self._projects:
                found = self._components()[k]
                for name in ("means", "vectors", "variances"):
                    own.put(name, getattr(found, name))

    def _restore(self, reader: Reader, n_features: int) -> None:
        """Become the map that `_to_state` has written; believes nothing."""
        self.n_features_in_ = n_features
        blocks = checked_blocks(self.blocks)
        self._widths = reader.array("widths", np.int64, (len(blocks),), lowest=1).tolist()
        self.columns_, self.maps_, components = [], [], []
        for k, (_, given, _) in enumerate(blocks):
            own = reader.child(str(k))
            numbers = own.array("columns", np.int64, (None,), lowest=0)
            if not len(numbers) or numbers.max() >= n_features:
                raise ValueError("its columns do not exist.")
            map_ = None if given is None else clone(given)
            width = len(numbers)
            if map_ is not None:
                map_._validate_params()
                map_._restore(own.child("map"), len(numbers))
                width = map_._n_features_out
            if width != self._widths[k]:
                raise ValueError("its blocks are damaged.")
            self.columns_.append(numbers)
            self.maps_.append(map_)
            if self._projects:
                variances = own.array("variances", np.float64, (None,), lowest=0)
                vectors = own.array("vectors", np.float64, (width, len(variances)))
                means = own.array("means", np.float64, (width,))
                components.append(Components(means, vectors, variances, 0.0))
        self._sums, self._found = None, Lazy()
        self._found.put("components", components)
        self._describe()


def checked_blocks(blocks: Any) -> list[tuple[str, Any, Any]]:
    """Blocks as tuples of a name, a map and columns; refuses what is none, names that occur twice, and other maps."""
    names = [block[0] for block in blocks if isinstance(block, (tuple, list)) and len(block) == 3]
    if not blocks or len(names) != len(blocks) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"blocks must be tuples of a name, a feature map and columns; got {_in_a_line(blocks)}.")
    if len(set(names)) < len(names):
        raise ValueError(f"The names of blocks must differ; got {', '.join(names)}.")
    for name, map_, _ in blocks:
        if map_ is not None and (isinstance(map_, type) or not (hasattr(map_, "fit") and hasattr(map_, "transform"))):
            raise ValueError(f"The map of the block {name!r} must be a transformer or None; got {_in_a_line(map_)}.")
    return [tuple(block) for block in blocks]


def numbered_blocks(blocks: Any, names: Array | None) -> list[tuple[str, Any, Any]]:
    """Blocks with the numbers of columns in place of their names; ``names`` are those of all columns, or None."""
    if names is None:
        return checked_blocks(blocks)
    position = {name: k for k, name in enumerate(names)}
    found = []
    for name, map_, columns in checked_blocks(blocks):
        is_slice = isinstance(columns, slice)
        given = (columns.start, columns.stop) if is_slice else np.atleast_1d(np.asarray(columns, object))
        texts = [one for one in given if isinstance(one, str)]
        missing = [one for one in texts if one not in position]
        if missing:
            raise ValueError(f"The block {name!r} wants a column {missing[0]!r}, which the data do not have.")
        if is_slice and texts:  # with its end, as in a ColumnTransformer
            begin, end = (position.get(bound, bound) for bound in given)
            columns = slice(begin, end + 1 if isinstance(given[1], str) else end, columns.step)
        elif len(texts) == len(given) > 0:
            columns = [position[one] for one in texts]
        found.append((name, map_, columns))
    return found


def _in_a_line(value: Any) -> str:
    return " ".join(repr(value).split())


def _numbers(X: Any, name: str, columns: Any) -> Array:
    """The numbers of the columns of a block."""
    try:
        if isinstance(columns, slice) and columns.start is None and columns.stop is None:
            columns = np.arange(X.shape[1])[columns]  # without a bound it would count as one of names
        numbers = np.asarray(_get_column_indices(X, columns), np.int64)
    except (ValueError, LookupError, TypeError, NotImplementedError) as error:
        raise ValueError(f"The columns of the block {name!r} do not fit the data: {error}") from None
    if not len(numbers):
        raise ValueError(f"The block {name!r} has no columns.")
    return numbers


def _part(X: Any, numbers: Array) -> Any:
    begin, end = int(numbers[0]), int(numbers[-1]) + 1
    if len(numbers) == end - begin and np.array_equal(numbers, np.arange(begin, end)):
        return X[:, begin:end]
    return X[:, numbers]


def _beside(blocks: list[Any]) -> Any:
    if all(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr")
    return np.hstack([dense(block) for block in blocks])
