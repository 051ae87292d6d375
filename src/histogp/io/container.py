"""The container of model files: a JSON document and named arrays, without code, in safetensors format.

The document is canonical JSON (sorted keys, no NaN) under a single metadata key, and holds a SHA-256 over
itself and the arrays. That finds damage; it is no signature and says nothing about who wrote the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from histogp.errors import ModelFileError
from histogp.io.atomic import replacing

Array = np.ndarray
KEY = "histogp"
# Feature names, labels and numbers are arrays, so that a document is short. Nothing longer is parsed.
LARGEST_HEADER = 1_000_000
_DTYPES = {
    **{
        f"{kind}{bits}": np.dtype(f"<{letter}{bits // 8}")
        for kind, letter in (("I", "i"), ("U", "u"))
        for bits in (8, 16, 32, 64)
    },
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "BOOL": np.dtype(bool),
}


def write(path: Any, document: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write the file as a whole, in place of an older one; equal contents give equal bytes."""
    # safetensors saves the memory of an array as it is, whatever its order.
    arrays = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    signed = {**document, "sha256": _digest(document, arrays)}
    with replacing(Path(path)) as temporary:
        try:
            safetensors.numpy.save_file(arrays, temporary, metadata={KEY: _canonical(signed)})
            with open(temporary, "rb") as file:
                n_bytes = int.from_bytes(file.read(8), "little")
            if n_bytes > LARGEST_HEADER:
                raise ValueError(f"{str(path)!r} would not be read back: its parameters are too many or too long.")
        except safetensors.SafetensorError as error:
            raise OSError(f"{str(path)!r} cannot be written: {error}.") from None


def read(path: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """The document, still with its "sha256", and the arrays: writable, and as they were written."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {str(path)!r}.") from None
    except IsADirectoryError:
        raise ModelFileError(f"{str(path)!r} is a folder, not a model file.") from None
    try:
        return parse(content)
    except ModelFileError as error:
        raise ModelFileError(f"{str(path)!r} is not an intact histogp model: {error}") from None


def parse(content: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """`read` for the bytes of a file."""
    header = _header(content)
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or list(metadata) != [KEY] or not isinstance(metadata[KEY], str):
        raise ModelFileError("it was not written by histogp.")
    document = _parse_json(metadata[KEY])
    if not isinstance(document, dict) or not isinstance(document.get("sha256"), str):
        raise ModelFileError("its description is incomplete.")
    try:
        entries = safetensors.deserialize(content)
    except safetensors.SafetensorError as error:
        raise ModelFileError(f"{error}.") from None
    arrays = {name: _array(entry) for name, entry in entries}
    if document["sha256"] != _digest({key: document[key] for key in document if key != "sha256"}, arrays):
        raise ModelFileError("its contents do not match its checksum.")
    return document, arrays


def _header(content: bytes) -> dict[str, Any]:
    """The description of the arrays. The library parses it again, but takes the last of two equal names."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 10 or content[8:9] != b"{":
        raise ModelFileError("it does not begin like one.")
    if length > min(len(content) - 8, LARGEST_HEADER):
        raise ModelFileError("it is cut off, or its header is damaged.")
    header = _parse_json(content[8 : 8 + length])
    if not isinstance(header, dict):
        raise ModelFileError("its header is damaged.")
    return header


def _parse_json(text: str | bytes) -> Any:
    """JSON without names that occur twice, NaN and infinities; ModelFileError for all else."""

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ModelFileError("a name occurs twice in it.")
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise ModelFileError(f"{constant} is not a number that it may hold.")

    try:
        return json.loads(text, object_pairs_hook=without_duplicates, parse_constant=refuse)
    except ModelFileError:
        raise
    except (ValueError, RecursionError):  # a UnicodeDecodeError is a ValueError too
        raise ModelFileError("its header is damaged.") from None


def _array(entry: Mapping[str, Any]) -> Array:
    dtype, shape = _DTYPES.get(entry["dtype"]), entry["shape"]
    if dtype is None:
        raise ModelFileError(f"it holds an array of type {entry['dtype']}.")
    if math.prod(shape) * dtype.itemsize != len(entry["data"]) or len(shape) > 4:
        raise ModelFileError("an array has another size than its shape says.")
    return np.frombuffer(entry["data"], dtype).reshape(shape)


def _canonical(document: Mapping[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, allow_nan=False, separators=(",", ":"))


def _digest(document: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """SHA-256 of a document and of the names, types, shapes and contents of arrays, in hexadecimal digits."""
    try:
        described = [
            _canonical(document),
            *((name, arrays[name].dtype.str, arrays[name].shape) for name in sorted(arrays)),
        ]
        digest = hashlib.sha256(json.dumps(described).encode())
    except (ValueError, RecursionError):
        raise ModelFileError("its description is damaged.") from None
    for name in sorted(arrays):
        digest.update(arrays[name].data if arrays[name].size else b"")
    return digest.hexdigest()
