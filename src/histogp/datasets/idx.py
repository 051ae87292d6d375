"""Images and labels in the IDX format of MNIST and its relatives."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from histogp.storage import Array

FASHION_MNIST_FOLDERS = (Path("/usr/share/datasets/fashion-mnist"), Path("/usr/local/share/datasets/fashion-mnist"))
_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Any) -> Array:
    """The array in an IDX file, plain or gzipped."""
    path = Path(path)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a complete gzip file: {error}.") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _DTYPES:
        raise ValueError(f"{path} is not an IDX file: it does not begin with an IDX header.")
    dtype, n_dimensions = np.dtype(_DTYPES[content[2]]), content[3]
    header = 4 + 4 * n_dimensions
    shape = [int.from_bytes(content[k : k + 4], "big") for k in range(4, header, 4)]
    if len(content) != header + math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{path} is not a complete IDX file: its size does not fit the declared shape {shape}.")
    return np.frombuffer(content, dtype, offset=header).reshape(shape).astype(dtype.newbyteorder("="))


def load_idx_folder(folder: Any) -> tuple[Array, Array, Array, Array]:
    """Training and test images and labels, as ``(X_train, y_train, X_test, y_test)``, from a folder.

    The folder holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same with ``t10k``,
    gzipped or not.
    """
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return tuple(read_idx(_find(Path(folder), name)) for name in names)  # type: ignore[return-value]


def load_fashion_mnist(folder: Any = None) -> tuple[Array, Array, Array, Array]:
    """Fashion-MNIST as ``(X_train, y_train, X_test, y_test)``; images (n, 28, 28) uint8.

    Without ``folder`` the files of the Debian package are used.
    """
    if folder is not None:
        return load_idx_folder(folder)
    for candidate in FASHION_MNIST_FOLDERS:
        if candidate.is_dir():
            return load_idx_folder(candidate)
    raise FileNotFoundError(
        "Fashion-MNIST is not installed: install the Debian package (apt-get install dataset-fashion-mnist), or pass "
        "the folder that holds its four IDX files."
    )


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(f"{folder} holds neither {name} nor {name}.gz.")
