"""Parameters, labels and names of an estimator as JSON and arrays, and back."""

from __future__ import annotations

import copy
import inspect
import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from histogp._core.data import Array
from histogp.exceptions import ModelFileError
from histogp.feature_maps.block_map import BlockMap
from histogp.feature_maps.expansions import AdditiveChi2Map, HomogeneousMap
from histogp.feature_maps.samplers import ExpChi2Sampler, SkewedChi2Map
from histogp.gp.optimizer import Optimizer
from histogp.kernels import Chi2, ExpChi2, HistogramIntersection, transforms

# What a file may name. Objects of other classes would need their code.
_CLASSES: tuple[Any, ...] = (
    *(getattr(transforms, name) for name in transforms.__all__ if name != "Transform"),
    *(HistogramIntersection, Chi2, ExpChi2, Optimizer),
    *(AdditiveChi2Map, BlockMap, ExpChi2Sampler, HomogeneousMap, SkewedChi2Map),
)
_OBJECTS = {cls.__name__: cls for cls in _CLASSES}


def _is_block(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 3 and isinstance(value[0], str)


class Writer:
    """Collects arrays by name while values are turned into JSON."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._prefix = ""

    def child(self, prefix: str) -> Writer:
        """A writer of arrays whose names begin with ``prefix``, into this one."""
        other = copy.copy(self)
        other._prefix = f"{self._prefix}{prefix}."
        return other

    def put(self, name: str, array: Any) -> None:
        """Keep an array under a name."""
        self.arrays[self._prefix + name] = np.asarray(array)

    def value(self, name: str, value: Any) -> Any:
        """A parameter; ``name`` says where it belongs, for arrays and for complaints."""
        if hasattr(value, "to_numpy"):
            value = value.to_numpy()
        if isinstance(value, (np.bool_, np.ndarray)) and np.ndim(value) == 0:
            value = value.item()
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
        if type(value) in _OBJECTS.values():
            parameters = value.get_params(deep=False)
            encoded = {key: self.value(f"{name}.{key}", parameters[key]) for key in parameters}
            return {"object": type(value).__name__, "parameters": encoded}
        if isinstance(value, dict):
            return {"pairs": [[self.value(name, key), self.value(name, value[key])] for key in value]}
        if isinstance(value, (list, tuple)) and value and all(_is_block(one) for one in value):
            return {"blocks": [self._block(f"{name}.{k}", *block) for k, block in enumerate(value)]}
        if isinstance(value, (list, tuple, np.ndarray)) and np.asarray(value).dtype.kind in "fiub":
            self.arrays[name] = np.array(value, np.float64)
            return {"array": name}
        if isinstance(value, (list, tuple, np.ndarray)) and all(isinstance(one, str) for one in value):
            return {"texts": [str(one) for one in value]}
        raise ValueError(
            f"{name} cannot be saved: a model file holds numbers, texts, arrays of numbers and the kernels of this "
            f"package, not {value!r}; joblib.dump can save it."
        )

    def _block(self, prefix: str, name: Any, feature_map: Any, columns: Any) -> list[Any]:
        """A name, a feature map, and the columns that it takes."""
        if isinstance(columns, slice):
            encoded: Any = {
                "slice": [self.value(prefix, bound) for bound in (columns.start, columns.stop, columns.step)]
            }
        else:
            is_mask = not isinstance(columns, str) and np.asarray(columns).dtype == bool
            encoded = self.value(f"{prefix}.columns", np.flatnonzero(columns) if is_mask else columns)
        return [self.value(prefix, name), self.value(f"{prefix}.map", feature_map), encoded]

    def labels(self, name: str, labels: Array) -> dict[str, Any]:
        """Labels, (n,), with their type."""
        if labels.dtype.kind in "biuf" and labels.dtype.itemsize <= 8:
            self.arrays[name] = labels
            return {"type": "number"}
        if labels.dtype.kind == "U" or (labels.dtype == object and all(type(label) is str for label in labels)):
            self.texts(name, labels.tolist())
            return {"type": "object" if labels.dtype == object else "text"}
        raise ValueError(
            f"Labels of type {labels.dtype} cannot be saved in a model file, only numbers, booleans and texts: "
            "translate them, for instance with LabelEncoder, or use joblib.dump."
        )

    def texts(self, name: str, texts: list[str]) -> None:
        """Texts as UTF-8 and where each of them ends."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self.arrays[name] = np.frombuffer(b"".join(encoded), np.uint8)
        self.arrays[f"{name}.ends"] = np.cumsum([len(text) for text in encoded], dtype=np.int64)


class Reader:
    """The inverse, which believes nothing: each method raises ModelFileError for what `Writer` never writes."""

    def __init__(self, arrays: dict[str, Array]):
        self._arrays = dict(arrays)
        self._prefix = ""

    def child(self, prefix: str) -> Reader:
        """A reader of the arrays whose names begin with ``prefix``, from this one."""
        other = copy.copy(self)
        other._prefix = f"{self._prefix}{prefix}."
        return other

    def array(
        self,
        name: str,
        dtype: Any,
        shape: tuple[int | None, ...] | None,
        *,
        lowest: float = -np.inf,
        finite: bool = True,
    ) -> Array:
        """Take an array; None stands for any shape, or length in a shape. Numbers are finite and >= ``lowest``."""
        name = self._prefix + name
        array = self._arrays.pop(name, None)
        if array is None:
            raise ModelFileError(f"the array {name!r} is missing.")
        fits = shape is None or (
            len(array.shape) == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
        )
        if not fits or (dtype is not None and array.dtype != dtype):
            raise ModelFileError(f"the array {name!r} has an unexpected shape or type: {array.shape}, {array.dtype}.")
        if finite and array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise ModelFileError(f"the array {name!r} has values that are not finite.")
        if array.size and array.dtype.kind in "iuf" and array.min() < lowest:
            raise ModelFileError(f"the array {name!r} has values below {lowest:g}.")
        return array

    def expect(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse a file without an array of this shape, before anything of that size is made."""
        array = self._arrays.get(self._prefix + name)
        if array is None:
            raise ModelFileError(f"the array {name!r} is missing.")
        if array.shape != shape:
            raise ModelFileError(f"the array {name!r} has an unexpected shape or type: {array.shape}, {array.dtype}.")

    def has(self, name: str) -> bool:
        return self._prefix + name in self._arrays

    def pop(self, name: str, default: Any = None) -> Any:
        """Take an array as it is, or the default if there is none."""
        return self._arrays.pop(name, default)

    def finish(self) -> None:
        if self._arrays:
            raise ModelFileError(f"it holds an unknown array {min(self._arrays)!r}.")

    def value(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str, int, float)):
            return value
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("array"), str):
            return self.array(value["array"], np.float64, None)
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("pairs"), list):
            pairs = value["pairs"]
            if all(
                isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int, float)) for pair in pairs
            ):
                return {key: self.value(entry) for key, entry in pairs}
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("texts"), list):
            texts = value["texts"]
            if all(isinstance(text, str) for text in texts):
                return texts
        if isinstance(value, dict) and value.keys() == {"object", "parameters"}:
            return self.object(value)
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("blocks"), list):
            return [self._block(block) for block in value["blocks"]]
        raise ModelFileError("a parameter is damaged.")

    def _block(self, block: Any) -> tuple[str, Any, Any]:
        if not (isinstance(block, list) and len(block) == 3 and isinstance(block[0], str)):
            raise ModelFileError("a block is damaged.")
        name, feature_map, columns = block
        if isinstance(columns, dict) and columns.keys() == {"slice"}:
            bounds = columns["slice"]
            if not (
                isinstance(bounds, list) and len(bounds) == 3 and all(type(b) in (int, str, type(None)) for b in bounds)
            ):
                raise ModelFileError("the columns of a block are damaged.")
            return name, self.value(feature_map), slice(*bounds)
        columns = self.value(columns)
        if isinstance(columns, np.ndarray):
            if not np.all(np.abs(columns) < 2**53):
                raise ModelFileError("the columns of a block are damaged.")
            columns = columns.astype(np.int64)
        return name, self.value(feature_map), columns

    def object(self, value: Any) -> Any:
        """A kernel, a transform, an optimizer or a feature map."""
        cls = _OBJECTS.get(value.get("object")) if isinstance(value.get("object"), str) else None
        if cls is None or not isinstance(value.get("parameters"), dict):
            raise ModelFileError("it has a kernel that this version does not know.")
        parameters = {name: self.value(entry) for name, entry in value["parameters"].items()}
        if parameters.keys() != set(inspect.signature(cls).parameters):
            raise ModelFileError("the parameters of its kernel are damaged.")
        return cls(**parameters)

    def labels(self, name: str, description: Any) -> Array:
        kind = description.get("type") if isinstance(description, dict) and len(description) == 1 else None
        if kind == "number":
            return self.array(name, None, (None,))
        if kind in ("object", "text"):
            return np.array(self.texts(name), object if kind == "object" else str)
        raise ModelFileError("its labels are damaged.")

    def texts(self, name: str) -> list[str]:
        content = self.array(name, np.uint8, (None,)).tobytes()
        ends = self.array(f"{name}.ends", np.int64, (None,), lowest=0).tolist()
        if ends != sorted(ends) or (ends[-1] if ends else 0) != len(content):
            raise ModelFileError(f"the texts {name!r} are damaged.")
        try:
            starts = [0, *ends[:-1]]
            return [content[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]
        except UnicodeDecodeError:
            raise ModelFileError(f"the texts {name!r} are damaged.") from None


def integer(document: Any, name: str, lowest: int = 0) -> int:
    """A whole number in a document."""
    value = document.get(name)
    if type(value) is not int or not lowest <= value < 2**53:
        raise ModelFileError(f"{name!r} is damaged.")
    return value
