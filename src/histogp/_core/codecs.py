"""What targets mean: labels and values as users know them, encoded as targets of a Gaussian process, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from histogp._core.data import Array
from histogp.exceptions import ModelFileError
from histogp.io.schema import Reader, Writer

DOUBLE = np.dtype(np.float64)


class Codec(Protocol):
    """Frozen; made when a model learns, used when it predicts.

    The ``y`` of a training sample is what is kept of its label: the number of a class, or a value.
    """

    @property
    def unit(self) -> Any:
        """The unit of the targets in units of the values: a number, or (n_outputs,)."""

    @property
    def n_outputs(self) -> int:
        """The number M of targets of a sample."""

    @property
    def is_vector(self) -> bool:
        """Whether users see one output without a second dimension."""

    def encode(self, y: Array) -> Array:
        """Targets, (N, M), of samples with these ``y``."""

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        """Labels or values for posterior means, (n, M), of data in this precision."""

    def labels_of(self, y: Array) -> Array:
        """Labels or values of training samples, as they were given, (N,) or (N, M)."""

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes of an estimator."""

    def to_state(self, writer: Writer) -> None:
        """Write it into a model file."""

    @classmethod
    def from_state(cls, reader: Reader) -> Codec:
        """The codec that `to_state` has written; refuses what it never writes."""

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        """Put the ``y`` of the training samples into the writer of a model file."""

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        """The ``y`` of the training samples in a model file; refuses those that have no meaning here."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes as one-against-rest outputs with targets +1 and -1; ``y`` is the number of a class.

    classes : (n_classes,), sorted. Up to two of them make one output, whose positive side is the second.
    """

    classes: Array
    unit: float = 1.0

    @property
    def n_outputs(self) -> int:
        return len(self.classes) if len(self.classes) > 2 else 1

    @property
    def is_vector(self) -> bool:
        return len(self.classes) <= 2

    def encode(self, y: Array) -> Array:
        positive = np.arange(len(self.classes)) if len(self.classes) > 2 else np.array([1])
        return np.where(y[:, None] == positive, 1.0, -1.0)

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        codes = codes_of(means.astype(dtype, copy=False))
        return self.classes[codes if len(self.classes) > 1 else np.zeros_like(codes)]

    def labels_of(self, y: Array) -> Array:
        return self.classes[y]

    def attributes(self) -> dict[str, Any]:
        return {"classes_": self.classes}

    def to_state(self, writer: Writer) -> None:
        writer.labels("classes", self.classes)

    @classmethod
    def from_state(cls, reader: Reader) -> Classes:
        classes = reader.labels("classes")
        if len(classes) < 1 or not np.array_equal(np.unique(classes), classes):
            raise ModelFileError("its classes are damaged.")
        return cls(classes)

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        writer.put("codes", y.astype(np.uint32))

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        codes = reader.array("codes", np.uint32, (n_samples,))
        if codes.max() >= len(self.classes):
            raise ModelFileError("a sample has a class that does not exist.")
        return codes.astype(int)


@dataclass(frozen=True, eq=False)
class Reals:
    """Values as targets, after a shift and in a unit; ``y`` is the value itself, (N,) or (N, M).

    shift, unit : () for one output without a second dimension, else (M,)
    dtype : precision of the values; only single precision here and of the data gives predictions in it
    """

    shift: Array
    unit: Array
    dtype: np.dtype

    @property
    def n_outputs(self) -> int:
        return int(np.size(self.unit))

    @property
    def is_vector(self) -> bool:
        return np.ndim(self.unit) == 0

    def encode(self, y: Array) -> Array:
        return ((y - self.shift) / self.unit).reshape(len(y), -1)

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        values = (means[:, 0] if self.is_vector else means) * self.unit + self.shift
        return values.astype(np.result_type(dtype, self.dtype), copy=False)

    def labels_of(self, y: Array) -> Array:
        return y

    def attributes(self) -> dict[str, Any]:
        return {}

    def to_state(self, writer: Writer) -> None:
        writer.put("shift", np.reshape(self.shift, -1))
        writer.put("unit", np.reshape(self.unit, -1))
        writer.set("is_vector", self.is_vector)
        writer.set("dtype", self.dtype.name)

    @classmethod
    def from_state(cls, reader: Reader) -> Reals:
        shift = reader.array("shift", np.float64, (None,))
        unit = reader.array("unit", np.float64, shift.shape, lowest=float(np.nextafter(0, 1)))
        is_vector = reader.flag("is_vector")
        if is_vector and len(shift) != 1:
            raise ModelFileError("the description of its targets is damaged.")
        shape = () if is_vector else shift.shape
        return cls(shift.reshape(shape), unit.reshape(shape), np.dtype(reader.text("dtype", ("float32", "float64"))))

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        writer.put("targets", y)

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        return reader.array("targets", np.float64, (n_samples, *self.unit.shape))


@dataclass(frozen=True, eq=False)
class Inliers:
    """One class, whose samples all have the target 1.

    offset : test samples with a lower score are outliers; NaN as long as it is not known
    criterion, method : of the scores that the offset belongs to
    """

    offset: float
    criterion: str
    method: str
    unit: float = 1.0
    n_outputs: int = 1
    is_vector: bool = True

    def encode(self, y: Array) -> Array:
        return y[:, None]

    def decode(self, means: Array, dtype: np.dtype = DOUBLE) -> Array:
        """1 for inliers and -1 for outliers, (n,), from their scores."""
        return np.where(means < self.offset, -1, 1)

    def labels_of(self, y: Array) -> Array:
        return np.ones(len(y), int)

    def attributes(self) -> dict[str, Any]:
        return {"offset_": self.offset}

    def to_state(self, writer: Writer) -> None:
        writer.put("offset", [self.offset])
        writer.set("criterion", self.criterion)
        writer.set("method", self.method)

    @classmethod
    def from_state(cls, reader: Reader) -> Inliers:
        offset = float(reader.array("offset", np.float64, (1,))[0])
        return cls(offset, reader.text("criterion"), reader.text("method"))

    def labels_to_state(self, writer: Writer, y: Array) -> None:
        """There is nothing to tell."""

    def labels_from_state(self, reader: Reader, n_samples: int) -> Array:
        return np.ones(n_samples)


def codes_of(scores: Array) -> Array:
    """The number of the winning class, (n,), for scores or targets (n,) or (n, M); one score is that of the second."""
    single = scores.ndim == 1 or scores.shape[1] == 1
    return (scores.reshape(-1) > 0).astype(int) if single else scores.argmax(axis=1)
