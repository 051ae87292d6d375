"""The schema of model files: what can be saved, by which names, and how parameters, labels and texts are written.

A file that was ever released loads forever: see "Changing the format of model files" in CONTRIBUTING. This module lies
below all others and knows them by the names of their modules alone, which are imported when a file needs them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import math
from collections.abc import Collection, Sequence
from numbers import Integral, Real
from typing import Any, Protocol, Self

import numpy as np

from histogp.errors import ModelFileError
from histogp.io import container
from histogp.io.container import Array

FORMAT = 2
# What can be saved by itself, and where it is.
CLASSES = {
    "HistogramGPClassifier": "histogp.gp",
    "HistogramGPOneClass": "histogp.gp",
    "HistogramGPRegressor": "histogp.gp",
    "StreamingElasticNet": "histogp.streaming",
    "StreamingGroupLasso": "histogp.streaming",
    "StreamingPCA": "histogp.streaming",
    "StreamingRidge": "histogp.streaming",
    "StreamingRidgeClassifier": "histogp.streaming",
    "StreamingStatistics": "histogp.streaming",
}
# What parameters may be. Objects of other classes would need their code.
OBJECTS = {
    "AdditiveChi2Map": "histogp.feature_maps",
    "BlockMap": "histogp.feature_maps",
    "Chi2": "histogp.kernels",
    "Constant": "histogp.kernels",
    "ExpChi2": "histogp.kernels",
    "ExpChi2Sampler": "histogp.feature_maps",
    "Gaussian": "histogp.kernels",
    "HistogramIntersection": "histogp.kernels",
    "HomogeneousMap": "histogp.feature_maps",
    "Laplacian": "histogp.kernels",
    "Optimizer": "histogp.gp",
    "SkewedChi2Map": "histogp.feature_maps",
    "Sum": "histogp.kernels",
}
# All transforms of this module are known, too, but not their base class.
TRANSFORMS, TRANSFORM = "histogp.kernels.transforms", "Transform"
# Parameters that came after files were released, by class and name, with the value by which these files behave.
ABSENT: dict[tuple[str, str], Any] = {
    ("Chi2", "columns"): None,
    ("Chi2", "scale"): 1.0,
    ("ExpChi2", "approximation"): "fourier",
    ("ExpChi2", "columns"): None,
    ("HistogramIntersection", "columns"): None,
    ("HistogramIntersection", "scale"): 1.0,
    ("Optimizer", "criterion"): "evidence",
    ("Sum", "normalize"): None,
    ("Sum", "shift"): None,
}
# Parameters that were called otherwise in released files, by class and old name.
RENAMED: dict[tuple[str, str], str] = {("ExpChi2", "weights"): "scale"}

_REQUIRED: Any = object()


class Saved(Protocol):
    """What can be saved. Its parameters, arrays and numbers go to the writer."""

    def _to_state(self, writer: Writer) -> None:
        """Write all that `_from_state` needs."""

    @classmethod
    def _from_state(cls, reader: Reader) -> Self:
        """The object that `_to_state` has written; believes nothing that a file says."""


def save(thing: Any, path: Any, notes: Sequence[str] = (), **options: Any) -> None:
    """Write an object of one of `CLASSES`; ``notes`` are texts for whoever reads it, ``options`` those of its class."""
    name = type(thing).__name__
    if name not in CLASSES or _class_in(CLASSES[name], name) is not type(thing):
        raise ValueError(f"A {name} would need its code, which a model file cannot hold; use joblib.")
    writer = Writer()
    thing._to_state(writer, **options)
    described = {"format": FORMAT, "version": importlib.metadata.version("histogp"), "class": name}
    container.write(path, {**writer.document(), **described, "notes": list(notes)}, writer.arrays)


def load(path: Any) -> Any:
    """The estimator in a file that `save` wrote; it predicts exactly as the one that was saved.

    A model file holds no code. Its checksum finds damage, but it is not a signature: it does not tell
    who wrote the file.

    Parameters
    ----------
    path : str or path-like
        A file that `save` wrote.

    Returns
    -------
    estimator : estimator instance or StreamingStatistics
        A HistogramGPClassifier, HistogramGPRegressor, HistogramGPOneClass, or what `histogp.streaming` has saved.

    Raises
    ------
    ModelFileError
        If the file is no intact model. It is a ValueError.

    Examples
    --------
    >>> import histogp, numpy as np, os, tempfile
    >>> clf = histogp.HistogramGPClassifier().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.histogp")
    ...     clf.save(path)
    ...     histogp.load(path).predict([[0.2, 0.8]])
    array(['a'], dtype='<U1')
    """
    return load_one_of(CLASSES, path)


def load_one_of(names: Collection[str], path: Any) -> Any:
    """The object in a file, if its class is one of these names."""
    document, arrays = container.read(path)
    try:
        return _restore(names, document, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r} is not an intact histogp model: {error}") from None


def _restore(names: Collection[str], document: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """The object in the contents of a file."""
    reader = Reader(document, arrays)
    reader.entry("sha256")  # which the container has checked
    _check_format(reader.entry("format"))
    name = reader.entry("class")
    if not isinstance(name, str) or name not in CLASSES:
        raise ModelFileError(f"it holds a {str(name)[:50]!r}, which this version does not know.")
    if name not in names:
        raise ModelFileError(f"it holds a {name}, not a {' or '.join(names)}.")
    reader.text("version")
    _check_notes(reader.entry("notes", []))
    try:
        found = _class_in(CLASSES[name], name)._from_state(reader)
        reader.finish()
    except ModelFileError:
        raise
    # Contents that were written with a valid checksum but never by `save`.
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelFileError(f"{reason.rstrip('.')}.") from None
    return found


def _check_format(version: Any) -> None:
    """Refuse formats that this version cannot read."""
    if type(version) is not int or version < 1:
        raise ModelFileError("its format version is damaged.")
    if version > FORMAT:
        raise ModelFileError(f"its format is {version}, that of a newer histogp; this one reads up to {FORMAT}.")
    if version < FORMAT:
        raise ModelFileError(f"it was written by a development version of histogp, in format {version}: save it anew.")


def _check_notes(notes: Any) -> None:
    """Refuse notes that are no texts."""
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ModelFileError("its notes are damaged.")


def _class_in(module: str, name: str) -> Any:
    """The class of this name, from its module."""
    return getattr(importlib.import_module(module), name)


def _class_of_object(name: Any) -> Any:
    """The class of a parameter, or None."""
    if not isinstance(name, str):
        return None
    if name in OBJECTS:
        return _class_in(OBJECTS[name], name)
    transforms = importlib.import_module(TRANSFORMS)
    return getattr(transforms, name) if name in transforms.__all__ and name != TRANSFORM else None


def describe(path: Any) -> dict[str, Any]:
    """What a model file says about itself, without making the estimator.

    Its contents are compared with its checksum, and not looked at further; `load` does that.

    Parameters
    ----------
    path : str or path-like
        A file that `save` wrote.

    Returns
    -------
    facts : dict
        - "class": the name of the estimator's class
        - "format", "version": of the file, and of the histogp that wrote it
        - "includes_training": whether the training samples are in it
        - "notes": texts that were given to `save`
        - "sha256": the checksum

    Raises
    ------
    ModelFileError
        If the file is no intact model. It is a ValueError.

    Examples
    --------
    >>> import histogp, os, tempfile
    >>> clf = histogp.HistogramGPClassifier().fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.histogp")
    ...     clf.save(path)
    ...     histogp.describe(path)["class"]
    'HistogramGPClassifier'
    """
    document, _ = container.read(path)
    notes = document.get("notes", [])
    if not isinstance(notes, list) or not {"class", "format", "version"} <= document.keys():
        raise ModelFileError(f"{str(path)!r} is not an intact histogp model: its description is damaged.")
    return {
        **{name: document[name] for name in ("class", "format", "version")},
        "includes_training": document.get("includes_training") is True,
        "notes": notes,
        "sha256": document["sha256"],
    }


def _is_part(value: Any) -> bool:
    """Whether it is a kernel, or a pair of a name and a kernel."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        value = value[1]
    name = type(value).__name__
    return OBJECTS.get(name) == "histogp.kernels" and _class_of_object(name) is type(value)


def _is_block(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 3 and isinstance(value[0], str)


class Writer:
    """Collects arrays and the entries of a document, both by name.

    A part of an object has a child: the names of its arrays begin with its name, its entries are nested.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._prefix = ""
        self._entries: dict[str, Any] = {}
        self._children: dict[str, Writer] = {}

    def child(self, name: str) -> Writer:
        """The writer of a part."""
        if name not in self._children:
            other = self._children[name] = Writer()
            other.arrays, other._prefix = self.arrays, f"{self._prefix}{name}."
        return self._children[name]

    def document(self) -> dict[str, Any]:
        """The entries so far, with those of the parts that have some."""
        parts = {name: child.document() for name, child in self._children.items()}
        return {**self._entries, **{name: entries for name, entries in parts.items() if entries}}

    def put(self, name: str, array: Any) -> None:
        """Keep an array under a name."""
        self.arrays[self._prefix + name] = np.asarray(array)

    def set(self, name: str, value: Any) -> None:
        """Keep an entry of the document: a number, a text, or a list of them."""
        self._entries[name] = value

    def parameters(self, parameters: dict[str, Any]) -> None:
        """Keep the parameters of an estimator."""
        self.set("parameters", {name: self.value(f"parameter.{name}", parameters[name]) for name in parameters})

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
        if _class_of_object(type(value).__name__) is type(value):
            parameters = value.get_params(deep=False)
            encoded = {key: self.value(f"{name}.{key}", parameters[key]) for key in parameters}
            return {"object": type(value).__name__, "parameters": encoded}
        if isinstance(value, dict):
            return {"pairs": [[self.value(name, key), self.value(name, value[key])] for key in value]}
        if isinstance(value, range):
            value = np.array(value)
        if isinstance(value, slice):
            return {"slice": [self.value(name, bound) for bound in (value.start, value.stop, value.step)]}
        if isinstance(value, (list, tuple)) and value and all(_is_part(one) for one in value):
            return {"parts": [self._part(f"{name}.{k}", one) for k, one in enumerate(value)]}
        if isinstance(value, (list, tuple)) and value and all(_is_block(one) for one in value):
            return {"blocks": [self._block(f"{name}.{k}", *block) for k, block in enumerate(value)]}
        if isinstance(value, (list, tuple, np.ndarray)) and np.asarray(value).dtype.kind in "fiub":
            kind, dtype = {"b": ("mask", np.uint8), "f": ("array", np.float64)}.get(
                np.asarray(value).dtype.kind, ("integers", np.int64)
            )
            self.put(name, np.array(value, dtype))
            return {kind: name}
        if isinstance(value, (list, tuple, np.ndarray)) and all(isinstance(one, str) for one in value):
            self.texts(name, [str(one) for one in value])
            return {"texts": name}
        raise ValueError(
            f"{name} cannot be saved: a model file holds numbers, texts, arrays of numbers and the kernels of this "
            f"package, not {value!r}; joblib.dump can save it."
        )

    def _part(self, prefix: str, part: Any) -> list[Any]:
        """A kernel of a sum, with its name or None."""
        name, kernel = part if isinstance(part, tuple) else (None, part)
        return [self.value(prefix, name), self.value(prefix, kernel)]

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

    def labels(self, name: str, labels: Array) -> None:
        """Keep labels, (n,), with their type."""
        if labels.dtype.kind in "biuf" and labels.dtype.itemsize <= 8:
            self.put(name, labels)
            self.set(name, "number")
        elif labels.dtype.kind == "U" or (labels.dtype == object and all(type(label) is str for label in labels)):
            self.texts(name, labels.tolist())
            self.set(name, "object" if labels.dtype == object else "text")
        else:
            raise ValueError(
                f"Labels of type {labels.dtype} cannot be saved in a model file, only numbers, booleans and texts: "
                "translate them, for instance with LabelEncoder, or use joblib.dump."
            )

    def texts(self, name: str, texts: list[str]) -> None:
        """Keep texts as UTF-8 and where each of them ends."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self.put(name, np.frombuffer(b"".join(encoded), np.uint8))
        self.put(f"{name}.ends", np.cumsum([len(text) for text in encoded], dtype=np.int64))


class Reader:
    """Reads what a `Writer` has written and believes nothing: ModelFileError for what no writer writes.

    Entries and arrays are taken one by one. An optional one has a default: how files behave that lack it. What nobody
    has taken in the end is refused.
    """

    def __init__(self, document: dict[str, Any], arrays: dict[str, Array]):
        self._entries = dict(document)
        self._arrays = dict(arrays)
        self._prefix = ""
        self._children: dict[str, Reader] = {}

    def child(self, name: str) -> Reader:
        """The reader of a part, which may have arrays, entries or neither."""
        if name not in self._children:
            entries = self._entries.pop(name, {})
            if not isinstance(entries, dict):
                raise ModelFileError(f"{self._prefix + name!r} is damaged.")
            other = self._children[name] = Reader(entries, {})
            other._arrays, other._prefix = self._arrays, f"{self._prefix}{name}."
        return self._children[name]

    def names(self) -> list[str]:
        """The names of entries and parts that are there."""
        own = [name.removeprefix(self._prefix) for name in self._arrays if name.startswith(self._prefix)]
        return sorted({*self._entries, *(name.split(".")[0] for name in own)})

    def entry(self, name: str, default: Any = _REQUIRED) -> Any:
        """Take an entry of the document, of any type."""
        value = self._entries.pop(name, default)
        if value is _REQUIRED:
            raise ModelFileError(f"{self._prefix + name!r} is missing.")
        return value

    def integer(self, name: str, lowest: int = 0, default: Any = _REQUIRED) -> int:
        """Take a whole number."""
        value = self.entry(name, default)
        if type(value) is not int or not lowest <= value < 2**53:
            raise ModelFileError(f"{self._prefix + name!r} is damaged.")
        return value

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        """Take a truth value."""
        value = self.entry(name, default)
        if type(value) is not bool:
            raise ModelFileError(f"{self._prefix + name!r} is damaged.")
        return value

    def text(self, name: str, choices: Sequence[str] | None = None, default: Any = _REQUIRED) -> str:
        """Take a text, perhaps one of some choices."""
        value = self.entry(name, default)
        if not isinstance(value, str) or (choices is not None and value not in choices):
            raise ModelFileError(f"{self._prefix + name!r} is damaged.")
        return value

    def parameters(self, cls: Any) -> dict[str, Any]:
        """Take the parameters of an estimator of a class."""
        return self._parameters(cls, self.entry("parameters"))

    def _parameters(self, cls: Any, given: Any) -> dict[str, Any]:
        """Values by name; those that a file lacks are as `ABSENT` says."""
        signature = inspect.signature(cls).parameters
        known = {name: one for name, one in signature.items() if one.kind is not one.VAR_KEYWORD}
        if not isinstance(given, dict):
            raise ModelFileError(f"the parameters of its {cls.__name__} are damaged.")
        renamed = {RENAMED.get((cls.__name__, name), name): value for name, value in given.items()}
        if len(renamed) < len(given):
            raise ModelFileError(f"a parameter of its {cls.__name__} is there twice.")
        given = renamed
        if cls.__name__ == "ExpChi2" and given.get("scale", 1.0) is None:
            given["scale"] = 1.0
        for name in sorted(given.keys() - known.keys()):
            raise ModelFileError(f"its {cls.__name__} has a parameter {name[:50]!r} that this version does not know.")
        absent = {name: ABSENT.get((cls.__name__, name), _REQUIRED) for name in known.keys() - given.keys()}
        for name in sorted(name for name in absent if absent[name] is _REQUIRED):
            raise ModelFileError(f"the parameter {name!r} of its {cls.__name__} is missing.")
        return {**absent, **{name: self.value(given[name]) for name in given}}

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

    def has(self, name: str) -> bool:
        return self._prefix + name in self._arrays

    def finish(self) -> None:
        """Refuse a file with arrays or entries that nobody has taken."""
        if self._entries:
            raise ModelFileError(f"it holds an unknown entry {self._prefix + min(self._entries)[:50]!r}.")
        for child in self._children.values():
            child.finish()
        if self._arrays:
            raise ModelFileError(f"it holds an unknown array {min(self._arrays)!r}.")

    def value(self, value: Any) -> Any:
        """A parameter that `Writer.value` has described: a plain value, an array, a dict, texts, an object, blocks."""
        if value is None or isinstance(value, (bool, str, int, float)):
            return value
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("array"), str):
            return self.array(value["array"], np.float64, None)
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("integers"), str):
            return self.array(value["integers"], np.int64, None)
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("mask"), str):
            return self.array(value["mask"], np.uint8, None).astype(bool)
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("slice"), list):
            return self._slice(value["slice"])
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("parts"), list):
            return [self._part(part) for part in value["parts"]]
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("pairs"), list):
            pairs = value["pairs"]
            if all(
                isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int, float)) for pair in pairs
            ):
                return {key: self.value(entry) for key, entry in pairs}
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("texts"), str):
            return self.texts(value["texts"])
        if isinstance(value, dict) and value.keys() == {"object", "parameters"}:
            return self.object(value)
        if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("blocks"), list):
            return [self._block(block) for block in value["blocks"]]
        raise ModelFileError("a parameter is damaged.")

    def _slice(self, bounds: Any) -> slice:
        """A slice of columns."""
        is_slice = isinstance(bounds, list) and len(bounds) == 3
        if not is_slice or not all(type(bound) in (int, str, type(None)) for bound in bounds):
            raise ModelFileError("the columns of a block are damaged.")
        return slice(*bounds)

    def _part(self, part: Any) -> Any:
        """A kernel of a sum, or a pair of its name and the kernel."""
        if not (isinstance(part, list) and len(part) == 2 and isinstance(part[0], str | None)):
            raise ModelFileError("a part of its kernel is damaged.")
        kernel = self.value(part[1])
        return kernel if part[0] is None else (part[0], kernel)

    def _block(self, block: Any) -> tuple[str, Any, Any]:
        """A block of features: its name, its feature map and its columns."""
        if not (isinstance(block, list) and len(block) == 3 and isinstance(block[0], str)):
            raise ModelFileError("a block is damaged.")
        name, feature_map, columns = block
        if isinstance(columns, dict) and columns.keys() == {"slice"}:
            return name, self.value(feature_map), self._slice(columns["slice"])
        columns = self.value(columns)
        if isinstance(columns, np.ndarray):
            if not np.all(np.abs(columns) < 2**53):
                raise ModelFileError("the columns of a block are damaged.")
            columns = columns.astype(np.int64)
        return name, self.value(feature_map), columns

    def object(self, value: Any) -> Any:
        """A kernel, a transform, an optimizer or a feature map."""
        cls = _class_of_object(value.get("object")) if isinstance(value, dict) else None
        if cls is None or value.keys() != {"object", "parameters"}:
            raise ModelFileError("it has a kernel that this version does not know.")
        return cls(**self._parameters(cls, value["parameters"]))

    def labels(self, name: str) -> Array:
        """Take labels, (n,)."""
        kind = self.entry(name)
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
            starts = [0, *ends][:-1]
            return [content[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]
        except UnicodeDecodeError:
            raise ModelFileError(f"the texts {name!r} are damaged.") from None
