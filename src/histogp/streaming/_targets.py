"""What the targets of streaming models mean: nothing, real numbers, or classes. Frozen values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from histogp._classes import class_weights, declared, merged
from histogp._core.data import Array
from histogp._core.least_squares.statistics import StreamingStatistics
from histogp._core.predictors import codes_in
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer

Parts = Sequence[StreamingStatistics]


@dataclass(frozen=True, eq=False)
class NoTargets:
    """Targets of models that look at samples alone, and the contract of all other kinds.

    Targets know what y means as far as the samples so far tell. They encode y as numbers (n, n_targets).
    """

    is_multioutput: ClassVar[bool] = False
    """Whether y may have several columns."""

    @property
    def n_targets(self) -> int:
        """Columns that encode y; 0 before any y came."""
        return 0

    def validate(self, validate: Callable[..., Any], y: Any) -> tuple[Any, Any]:
        """X and y by ``validate``: scikit-learn's `validate_data` with X and all options but those of y."""
        return validate(), None

    def extended(self, y: Any, classes: Any = None) -> Any:
        """What y means when further values have come; ``classes`` are those that users announce."""
        return self

    def check_enough(self) -> None:
        """Refuse targets of which nothing can be learned."""

    def encode(self, y: Any, weights: Array, class_weight: Any) -> tuple[Array, Array]:
        """Values of y as numbers, (n, n_targets), and weights (n,) of samples times those given for their classes."""
        return np.empty((len(weights), 0)), weights

    def places_of(self, known: Any) -> Array:
        """The columns of targets that were known before, (known.n_targets,)."""
        return np.arange(known.n_targets)

    def statistics(self, parts: Parts, balanced: bool) -> StreamingStatistics:
        """The statistics to learn from; those of classes that are ``balanced`` are weighted by their frequencies."""
        return parts[0]

    def left_out(self, values: Array, parts: Parts, balanced: bool) -> tuple[Array, Array]:
        """Encoded values as they are learned, (n, k), and factors (n,) of the weights of their samples."""
        return values, np.ones(len(values))

    def decode(self, scores: Array) -> Array:
        """Predictions in the form of y, from scores (n, k)."""
        return scores

    def each(self, values: Array) -> Any:
        """What there is for each score, (k, ...); for y that is a vector of numbers that of the only one."""
        return values

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of the estimator."""
        return {}

    def to_state(self, writer: Writer) -> None:
        """Write them into a model file."""

    def from_state(self, reader: Reader, parts: Parts, balanced: bool) -> Any:
        """The targets in a model file with these statistics; believes nothing."""
        _refuse_unless(len(parts) == 1 and parts[0].cross.shape[1] == 0)
        return self


@dataclass(frozen=True, eq=False)
class RealTargets(NoTargets):
    """Real numbers; ``is_vector`` if y is (n,) and not (n, n_targets)."""

    is_multioutput = True

    n_targets: int = 0
    is_vector: bool = True

    def validate(self, validate: Callable[..., Any], y: Any) -> tuple[Any, Any]:
        return validate(y=y, multi_output=True, y_numeric=True)

    def extended(self, y: Any, classes: Any = None) -> RealTargets:
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if self.n_targets and n_targets != self.n_targets:
            raise ValueError(f"There were {self.n_targets} targets so far, now {n_targets}.")
        return self if self.n_targets else RealTargets(n_targets, y.ndim == 1)

    def encode(self, y: Any, weights: Array, class_weight: Any) -> tuple[Array, Array]:
        return np.asarray(y, np.float64).reshape(len(weights), -1), weights

    def decode(self, scores: Array) -> Array:
        return scores[:, 0] if self.is_vector else scores

    def each(self, values: Array) -> Any:
        if not self.is_vector:
            return values
        return values[0] if values.ndim > 1 else values[0].item()

    def to_state(self, writer: Writer) -> None:
        writer.set("is_vector", self.is_vector)

    def from_state(self, reader: Reader, parts: Parts, balanced: bool) -> RealTargets:
        n_targets, is_vector = parts[0].cross.shape[1], reader.flag("is_vector")
        _refuse_unless(len(parts) == 1)
        _refuse_unless(n_targets == 1 or (n_targets > 1 and not is_vector))
        return RealTargets(n_targets, is_vector)


@dataclass(frozen=True, eq=False)
class ClassTargets(NoTargets):
    """Classes (n_classes,), sorted: encoded as 0 and 1, learned as -1 and +1; of two classes the second alone."""

    classes: Array = field(default_factory=lambda: np.empty(0))

    @property
    def n_targets(self) -> int:
        return len(self.classes)

    def validate(self, validate: Callable[..., Any], y: Any) -> tuple[Any, Any]:
        X, y = validate(y=y)
        check_classification_targets(y)
        return X, y

    def extended(self, y: Any, classes: Any = None) -> ClassTargets:
        found = np.unique(y) if classes is None else merged(declared(classes), y)
        return ClassTargets(merged(self.classes, found) if len(self.classes) else found)

    def check_enough(self) -> None:
        if len(self.classes) < 2:
            only = self.classes.tolist()[0]
            raise ValueError(f"There is only one class so far, {only!r}; at least two are needed.")

    def encode(self, y: Any, weights: Array, class_weight: Any) -> tuple[Array, Array]:
        codes = codes_in(self.classes, y)
        if isinstance(class_weight, dict):
            weights = weights * class_weights(class_weight, self.classes, codes, weights)[codes]
        return np.eye(len(self.classes))[codes], weights

    def places_of(self, known: Any) -> Array:
        return codes_in(self.classes, known.classes)

    def statistics(self, parts: Parts, balanced: bool) -> StreamingStatistics:
        """Statistics of targets -1 and +1, all classes together; if ``balanced``, weighted by their frequencies."""
        self.check_enough()
        total = StreamingStatistics.empty(*parts[0].cross.shape)
        # Statistics of each class may be left from when they were to be balanced.
        for part, factor in zip(parts, self._factors(parts, balanced), strict=False):
            total += part if factor == 1 else part.scaled(factor)
        keep = self._learned
        sums, weight = total.target_sums[keep], total.weight
        gram = 4 * total.target_gram[keep, keep] - 2 * sums - 2 * sums[:, None] + weight
        cross = 2 * total.cross[:, keep] - total.sums[:, None]
        return StreamingStatistics(total.gram, total.sums, cross, 2 * sums - weight, gram, weight, total.count)

    def left_out(self, values: Array, parts: Parts, balanced: bool) -> tuple[Array, Array]:
        return (2 * values - 1)[:, self._learned], self._factors(parts, balanced)[values.argmax(axis=1)]

    def decode(self, scores: Array) -> Array:
        return self.classes[(scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)]

    def attributes(self) -> dict[str, Any]:
        return {"classes_": self.classes} if len(self.classes) else {}

    def to_state(self, writer: Writer) -> None:
        writer.labels("classes", self.classes)

    def from_state(self, reader: Reader, parts: Parts, balanced: bool) -> ClassTargets:
        classes = reader.labels("classes")
        if len(classes) < 1 or not np.array_equal(np.unique(classes), classes):
            raise ModelFileError("its classes are damaged.")
        _refuse_unless(parts[0].cross.shape[1] == len(classes))
        _refuse_unless(len(parts) == len(classes) or (len(parts) == 1 and not balanced))
        return ClassTargets(classes)

    @property
    def _learned(self) -> slice:
        """The classes that are learned against the others."""
        return slice(1, None) if len(self.classes) == 2 else slice(None)

    def _factors(self, parts: Parts, balanced: bool) -> Array:
        """What weights of the classes are left to apply, (n_classes,)."""
        if not balanced:
            return np.ones(len(self.classes))
        check_split(parts, len(self.classes))
        sums = np.array([part.weight for part in parts])
        # As in scikit-learn, of the classes that there are samples of.
        return np.divide(sums.sum(), np.count_nonzero(sums) * sums, where=sums > 0, out=np.zeros_like(sums))


def check_split(parts: Parts, n_classes: int) -> None:
    """Refuse to balance classes without statistics of each of them."""
    if len(parts) != n_classes:
        raise ValueError(
            'class_weight="balanced" needs statistics of each class, which were not asked for when the samples came; '
            "fit again."
        )


def _refuse_unless(fits: bool) -> None:
    if not fits:
        raise ModelFileError("its statistics are not those of its targets.")
