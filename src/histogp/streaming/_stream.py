"""Models that learn from sums over chunks: the base of the estimators, and what they have learned.

A model is targets (`NoTargets`, `RealTargets` or `ClassTargets`), which say what y means, and a rule (`Rule`), which
makes weights of the features (`Weights`) of what was learned (`Learned`). All are frozen: an update makes others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from histogp._core.data import Array
from histogp._core.least_squares.statistics import StreamingStatistics, Sums
from histogp._core.threads import Lazy, announce_compilation
from histogp._estimator import reading, updating
from histogp._sklearn import check_sample_weight, warn
from histogp.errors import ModelFileError
from histogp.exceptions import PrecisionWarning
from histogp.feature_maps._adapters import as_map, fit_map, thawed
from histogp.feature_maps.block_map import BlockMap, numbered_blocks
from histogp.feature_maps.expansions import FeatureMap
from histogp.io import schema
from histogp.streaming._targets import NoTargets, check_split

# Those of 23,000 features; solving with them takes as much memory again.
MOST_STATISTICS_BYTES = 2**32
# Part of the squares of a feature that varies about its mean; of a smaller one sums over samples keep a few digits.
SMALLEST_VARYING_PART = 1e-8


class StreamingModel(BaseEstimator):
    """Base of the estimators, which have targets (``_targets``) and a rule that finds weights (``_rule``)."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "feature_map": [None, HasMethods(["fit", "transform"])],
        "chunk_bytes": [Interval(Integral, 1, None, closed="left")],
    }
    _targets: ClassVar[NoTargets]

    feature_map: Any
    chunk_bytes: int
    # Parameters that some of the estimators have.
    blocks: Any = None
    block_components: int | None = None
    class_weight: Any = None
    random_state: Any = None

    feature_names_in_: Array
    n_features_in_: int
    n_samples_seen_: int
    _learned: Any = None

    def _rule(self) -> Rule:
        """How weights follow from what was learned, with the present parameters."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from these samples alone, and find the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Labels of any type for a classifier; real targets for a regressor, of which there may be several columns.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, which count like repeated samples.

        Returns
        -------
        self : estimator instance
            The estimator itself.
        """
        return self._learn(X, y, sample_weight, anew=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from further samples: the model becomes that of a `fit` on all so far, with the same feature map.

        The samples are added up, no more: the weights are found when a prediction or an attribute first needs them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to learn from.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Labels of any type for a classifier; real targets for a regressor, of which there may be several columns.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, which count like repeated samples; they may all be zero.

        Returns
        -------
        self : estimator instance
            The estimator itself.
        """
        return self._learn(X, y, sample_weight)

    @reading
    def save(self, path: Any, notes: Sequence[str] = ()) -> None:
        """Write what was learned to a file without code, which `histogp.load` reads; it can go on learning.

        The file takes the place of an older one as a whole or not at all. It holds sums over samples; the weights are
        found again when the model that was read first needs them.

        Parameters
        ----------
        path : str or path-like
            By custom with the ending ``.histogp``.
        notes : list of str, default=()
            Texts for whoever reads it, which `histogp.describe` gives back.
        """
        check_is_fitted(self)
        schema.save(self, path, notes)

    def _to_state(self, writer: schema.Writer) -> None:
        """Write the parameters and what was learned into a model file."""
        self._validate_params()
        parameters = self.get_params(deep=False)
        parameters["feature_map"] = thawed(parameters["feature_map"])
        self._learned.to_state(writer)
        writer.parameters(parameters)
        names = vars(self).get("feature_names_in_")
        if names is not None:
            writer.texts("feature_names", names.tolist())

    @classmethod
    def _from_state(cls, reader: schema.Reader) -> Self:
        """The model in a file; believes nothing."""
        model = cls(**reader.parameters(cls))
        model._validate_params()
        names = reader.texts("feature_names") if reader.has("feature_names") else None
        if names is not None:
            model.feature_names_in_ = np.array(names, object)
        balanced = model.class_weight == "balanced"
        learned = Learned.from_state(reader, model._given_map(), model._targets, balanced)
        model.n_features_in_ = learned.n_inputs
        if names is not None and len(names) != learned.n_inputs:
            raise ModelFileError("it does not have one name for each feature.")
        model._install(learned)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self._targets.is_multioutput
        try:
            of_map = as_map(self._given_map()).__sklearn_tags__()
            tags.input_tags.positive_only = of_map.input_tags.positive_only
        except ValueError:  # of parameters that `fit` will refuse
            pass
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # Samples without labels are not enough.
        return self._learned is not None and self._learned.n_seen > 0

    def _learn(self, X: Any, y: Any, sample_weight: Any = None, *, anew: bool = False, classes: Any = None) -> Self:
        """Learn from samples, further ones or, ``anew``, these alone; ``classes`` are known beforehand."""
        with updating(self) as changed:
            learned = None if anew else changed._learned
            known = changed._targets if learned is None else learned.targets
            X, y = known.validate(partial(changed._validate, X, reset=learned is None), y)
            weights = check_sample_weight(sample_weight, X, allow_all_zero=not anew)
            targets = known.extended(y, classes)
            if anew:
                targets.check_enough()
            values, weights = targets.encode(y, weights, changed.class_weight)
            learned = changed._begin(X, y) if learned is None else learned
            n_seen, rule = learned.n_seen + X.shape[0], changed._rule()
            rule.check(learned, n_seen)
            arranged = learned.arranged(targets, changed.class_weight == "balanced")
            sample = arranged.sampled(X, values, weights, rule.n_left_out, changed.random_state)
            parts = arranged.sum_parts(X, values, weights, changed.chunk_bytes)
            changed._install(arranged.changed(parts=parts, sample=sample, n_seen=n_seen))
            if anew:
                changed._solve()
        return self

    def _validate(self, X: Any, y: Any = "no_validation", *, reset: bool, **options: Any) -> Any:
        """X, and y if there is one, as arrays or CSR in single or double precision."""
        announce_compilation()
        return validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset, order="C", **options
        )

    def _begin(self, X: Any, y: Any = None) -> Learned:
        """Nothing learned yet, with a feature map that is adapted to these samples."""
        feature_map = fit_map(self._given_map(), X, y, vars(self).get("feature_names_in_"))
        learned = Learned(feature_map, X.shape[1], self._targets, ())
        width = learned.features(X[:1]).shape[1]
        if 8 * width**2 > MOST_STATISTICS_BYTES:
            raise ValueError(
                f"The statistics of {width:,} features would take {8e-9 * width**2:.0f} GB; use fewer features, for "
                "instance by feature selection or a feature map with fewer components."
            )
        return learned.changed(parts=(StreamingStatistics.empty(width),))

    def _given_map(self) -> Any:
        """The feature map or blocks of the parameters; None for the features as they are."""
        if self.blocks is None:
            if self.block_components is not None:
                raise ValueError(f"block_components={self.block_components!r} needs blocks=...; got blocks=None.")
            return self.feature_map
        if self.feature_map is not None:
            raise ValueError("Give either a feature_map or blocks, not both.")
        blocks = numbered_blocks(self.blocks, vars(self).get("feature_names_in_"))
        return BlockMap(blocks, pca_components=self.block_components, chunk_bytes=self.chunk_bytes)

    def _install(self, learned: Learned) -> None:
        """Set the fitted attributes."""
        self.__dict__.update(learned.targets.attributes(), n_samples_seen_=learned.n_seen, _learned=learned)

    def _solve(self) -> Weights:
        """The weights by the present parameters: as `fit` found them, or computed when they are first needed."""
        check_is_fitted(self)
        self._validate_params()
        learned, rule = self._learned, self._rule()

        def solve() -> Weights:
            rule.check(learned, learned.n_seen)
            return rule.solve(learned)

        return learned.solution.get("weights", solve, rule, keep=True)

    def _score(self, X: Any) -> Array:
        """Scores (n, k) of samples X, linear in their features."""
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        return self._learned.score(X, self._solve(), self.chunk_bytes)


def solved(read: Callable[[Learned, Weights], Any], doc: str) -> Any:
    """A fitted attribute that is read off what was learned and the weights, once these are there."""

    @reading
    def get(self: StreamingModel) -> Any:
        weights = self._solve()
        return read(self._learned, weights)

    return property(get, doc=doc)


@dataclass(frozen=True, eq=False)
class Weights:
    """A linear function of features.

    coefficients : (m, k); intercepts : (k,)
    folded : what gives the same from features before they are projected; None if nothing is projected
    extra : what else a solution tells, by name
    """

    coefficients: Array
    intercepts: Array
    folded: Weights | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class Rule:
    """How weights follow from what was learned. Subclasses are frozen; equal ones have the same solution."""

    n_left_out: int = 0
    """Samples to keep, which the solution leaves out in turn."""

    def check(self, learned: Learned, n_samples: int) -> None:
        """Refuse parameters that do not go with the features, or with so many samples."""

    def solve(self, learned: Learned) -> Weights:
        """The weights."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Learned:
    """All that was learned so far; an update makes another one.

    n_inputs : features before the map
    parts : statistics of the labeled samples: one, or one a class where these are weighted later
    unlabeled : those of samples without labels
    sample : some of the labeled samples, or None if no rule needs them
    n_seen : labeled samples so far, of any weight
    solution : what was computed from them
    """

    feature_map: FeatureMap
    n_inputs: int
    targets: NoTargets
    parts: tuple[StreamingStatistics, ...]
    unlabeled: StreamingStatistics | None = None
    sample: Sample | None = None
    n_seen: int = 0
    solution: Lazy = field(default_factory=Lazy)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "solution": self.solution.kept()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, solution=Lazy())
        for name, (version, value) in state["solution"].items():
            self.solution.put(name, value, version, keep=True)

    def changed(self, **values: Any) -> Learned:
        """What was learned, with other values, and nothing computed from them yet."""
        return replace(self, **values, solution=Lazy())

    @property
    def width(self) -> int:
        """Features after the map."""
        return len(self.parts[0].sums)

    @property
    def dtype(self) -> type:
        """The precision of features."""
        return self.feature_map._precision

    def features(self, X: Any, *, projected: bool = True) -> Any:
        """The features of samples, (n, m), dense or CSR."""
        transform = self.feature_map.transform if projected else self.feature_map._unprojected
        Z = transform(X.astype(self.dtype, copy=False))
        return Z.tocsr() if sparse.issparse(Z) else np.asarray(Z)

    def chunks(self, n_samples: int, chunk_bytes: int) -> Iterator[slice]:
        """Samples whose features have about ``chunk_bytes``, also before they are projected."""
        width = max(self.width, self.feature_map._n_unprojected)
        step = max(1, chunk_bytes // (np.dtype(self.dtype).itemsize * width))
        for begin in range(0, n_samples, step):
            yield slice(begin, min(begin + step, n_samples))

    def sum_up(self, X: Any, values: Array | None, weights: Array | None, chunk_bytes: int) -> StreamingStatistics:
        """Statistics of the features of samples, with encoded targets (n, k) and weights (n,) if there are any."""
        sums = Sums(self.width, 0 if values is None else values.shape[1], single=self.dtype == np.float32)
        for some in self.chunks(X.shape[0], chunk_bytes):
            own = [None if array is None else array[some] for array in (values, weights)]
            sums.add(self.features(X[some]), *own)
        return sums.total()

    def arranged(self, targets: NoTargets, balanced: bool) -> Learned:
        """What these targets would have given from the beginning; if ``balanced``, with statistics of each class."""
        if targets is self.targets and not balanced:  # of real numbers, which are split into no parts
            return self
        places, n_targets = targets.places_of(self.targets), targets.n_targets
        parts = [part.with_targets(places, n_targets) for part in self.parts]
        if balanced:
            check_split(parts, max(len(places), 1))
            given = parts if len(places) else []
            parts = [StreamingStatistics.empty(self.width, n_targets) for _ in range(n_targets)]
            for place, part in zip(places, given, strict=True):
                parts[place] = part
        else:
            parts = [sum(parts[1:], parts[0])]
        sample = None if self.sample is None else self.sample.with_targets(places, n_targets)
        return self.changed(targets=targets, parts=tuple(parts), sample=sample)

    def sum_parts(self, X: Any, values: Array, weights: Array, chunk_bytes: int) -> tuple[StreamingStatistics, ...]:
        """The statistics with further samples, each in those of its class if there are several."""
        parts = list(self.parts)
        part_of = values.argmax(axis=1) if len(parts) > 1 else np.zeros(X.shape[0], np.int64)
        for k in np.unique(part_of):
            own = part_of == k if len(parts) > 1 else slice(None)
            parts[k] += self.sum_up(X[own], values[own], weights[own], chunk_bytes)
        return tuple(parts)

    def sampled(self, X: Any, values: Array, weights: Array, size: int, random_state: Any) -> Sample | None:
        """The sample to keep after further samples."""
        if not size:
            return None
        sample = self.sample
        seed = int(check_random_state(random_state).randint(2**31)) if sample is None else sample.seed
        drawn = Sample.draw(seed, self.n_seen, size, X, values, weights)
        return (drawn if sample is None else sample + drawn).smallest(size)

    def weights(self, coefficients: Array, intercepts: Array, **extra: Any) -> Weights:
        """Weights of the features, also folded into those of unprojected ones.

        Products with unprojected features are cheaper than to project these.
        """
        folded = self.feature_map._folded(coefficients, intercepts)
        return Weights(coefficients, intercepts, None if folded is None else Weights(*folded), extra)

    def score(self, X: Any, weights: Weights, chunk_bytes: int) -> Array:
        """``features @ coefficients + intercepts`` in chunks, (n, k), in the precision of X."""
        used = weights.folded or weights
        coefficients: Array = used.coefficients.astype(self.dtype, copy=False)
        out = np.empty((X.shape[0], len(used.intercepts)), X.dtype)
        for some in self.chunks(X.shape[0], chunk_bytes):
            out[some] = self.features(X[some], projected=used is weights) @ coefficients + used.intercepts
        return out

    def statistics(self, balanced: bool = False) -> StreamingStatistics:
        """Statistics of features and targets; refuses those of no samples, and warns of those with few digits."""
        found = self.targets.statistics(self.parts, balanced)
        if found.count == 0:
            raise ValueError("There are no labeled samples with a positive weight to learn from yet.")
        squares = found.gram.diagonal()
        varying = squares - found.sums**2 / found.weight
        rounding = 4 * found.count * np.finfo(float).eps
        if np.any((varying < SMALLEST_VARYING_PART * squares) & (varying > rounding * squares)):
            warn(
                "Some features vary little against their mean, so that sums over samples know them to a few digits "
                "only: subtract their means first, for instance by StandardScaler.",
                PrecisionWarning,
            )
        return found

    def to_state(self, writer: schema.Writer) -> None:
        """Write all of it into a model file."""
        self.feature_map._to_state(writer.child("map"))
        for k, part in enumerate(self.parts):
            part._to_state(writer.child(f"part.{k}"))
        if self.unlabeled is not None:
            self.unlabeled._to_state(writer.child("unlabeled"))
        writer.set("n_features", self.n_inputs)
        writer.set("n_seen", self.n_seen)
        writer.set("n_parts", len(self.parts))
        self.targets.to_state(writer)
        if self.sample is not None:
            self.sample.to_state(writer.child("sample"))

    @classmethod
    def from_state(cls, reader: schema.Reader, given_map: Any, targets: Any, balanced: bool) -> Learned:
        """What was learned, in a model file; believes nothing.

        given_map : as the parameters of the model say
        targets : those of a model that has learned nothing
        """
        n_parts = min(reader.integer("n_parts", 1), 2**16)
        parts = tuple(StreamingStatistics._from_state(reader.child(f"part.{k}")) for k in range(n_parts))
        unlabeled = None
        if reader.has("unlabeled.gram"):
            unlabeled = StreamingStatistics._from_state(reader.child("unlabeled"))
        n_inputs = reader.integer("n_features", 1)
        feature_map = clone(as_map(given_map))
        feature_map._validate_params()
        feature_map._restore(reader.child("map"), n_inputs)
        n_targets = parts[0].cross.shape[1]
        everything = [*parts, *([] if unlabeled is None else [unlabeled])]
        if any(len(one.sums) != feature_map._n_features_out for one in everything) or any(
            one.cross.shape[1] != n_targets for one in parts
        ):
            raise ModelFileError("its statistics do not fit together.")
        known = targets.from_state(reader, parts, balanced)
        sample = None
        if reader.has("sample.priorities"):
            sample = Sample.from_state(reader.child("sample"), n_inputs, n_targets)
        return cls(feature_map, n_inputs, known, parts, unlabeled, sample, reader.integer("n_seen", 1))


@dataclass(frozen=True, eq=False)
class Sample:
    """The samples with the smallest of random numbers, each of which a sample draws when it comes.

    seed : of the random numbers
    priorities : (s,), these, ascending; X : (s, D), dense or CSR; targets : (s, k), encoded; weights : (s,)
    """

    seed: int
    priorities: Array
    X: Any
    targets: Array
    weights: Array

    @classmethod
    def draw(cls, seed: int, n_before: int, size: int, X: Any, targets: Array, weights: Array) -> Sample:
        """A draw of up to ``size`` of samples that come after ``n_before`` others; none of those without weight."""
        random_numbers = np.random.default_rng([seed, n_before]).random(X.shape[0])
        priorities = np.where(weights > 0, random_numbers, np.inf)
        chosen = np.argsort(priorities, kind="stable")[:size]
        chosen = np.sort(chosen[np.isfinite(priorities[chosen])])
        own = X[chosen] if sparse.issparse(X) else np.array(X[chosen])
        return cls(seed, priorities[chosen], own, targets[chosen], weights[chosen])

    def __add__(self, other: Sample) -> Sample:
        both = [self.X, other.X]
        if any(sparse.issparse(X) for X in both):
            X = sparse.vstack([sparse.csr_array(X) for X in both], format="csr")
        else:
            X = np.concatenate(both)
        names = ("priorities", "targets", "weights")
        joined = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return Sample(self.seed, X=X, **joined)

    def smallest(self, size: int) -> Sample:
        """The ``size`` samples with the smallest random numbers."""
        order = np.argsort(self.priorities, kind="stable")[:size]
        return Sample(self.seed, self.priorities[order], self.X[order], self.targets[order], self.weights[order])

    def with_targets(self, places: Array, n_targets: int) -> Sample:
        """The samples with more targets, among which the present ones are at ``places``; the others are zero."""
        targets = np.zeros((len(self.targets), n_targets))
        targets[:, places] = self.targets
        return replace(self, targets=targets)

    def to_state(self, writer: schema.Writer) -> None:
        """Write the samples and their random numbers into a model file."""
        for name in ("priorities", "targets", "weights"):
            writer.put(name, getattr(self, name))
        writer.set("seed", self.seed)
        writer.set("layout", "sparse" if sparse.issparse(self.X) else "dense")
        if sparse.issparse(self.X):
            writer.put("data", self.X.data.astype(np.float64))
            for name in ("indices", "indptr"):
                writer.put(name, getattr(self.X, name).astype(np.int64))
        else:
            writer.put("X", self.X.astype(np.float64))

    @classmethod
    def from_state(cls, reader: schema.Reader, n_features: int, n_targets: int) -> Sample:
        """The sample in a model file; believes nothing."""
        seed = reader.integer("seed")
        priorities = reader.array("priorities", np.float64, (None,))
        n_samples = len(priorities)
        targets = reader.array("targets", np.float64, (n_samples, n_targets))
        weights = reader.array("weights", np.float64, (n_samples,), lowest=0)
        if reader.text("layout", ("dense", "sparse")) == "dense":
            X = reader.array("X", np.float64, (n_samples, n_features))
            return cls(seed, priorities, X, targets, weights)
        entries = (
            reader.array("data", np.float64, (None,)),
            reader.array("indices", np.int64, (None,), lowest=0),
            reader.array("indptr", np.int64, (n_samples + 1,), lowest=0),
        )
        X = sparse.csr_array(entries, shape=(n_samples, n_features))
        X.check_format(full_check=True)
        return cls(seed, priorities, X, targets, weights)
