"""Images in IDX files, and histograms of their orientations."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

FASHION_MNIST_FOLDERS = (Path("/usr/share/datasets/fashion-mnist"), Path("/usr/local/share/datasets/fashion-mnist"))
_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Any) -> np.ndarray:
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


def load_idx_folder(folder: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images and labels, as ``(X_train, y_train, X_test, y_test)``, from a folder.

    The folder holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` ``t10k-images-idx3-ubyte`` and
    ``t10k-labels-idx1-ubyte``, gzipped or not.
    """
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return tuple(read_idx(_find(Path(folder), name)) for name in names)  # type: ignore[return-value]


def load_fashion_mnist(folder: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
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


_IMAGES_AT_ONCE = 2_000


def orientation_histograms(images: np.ndarray, *, cell: int = 4, n_orientations: int = 9) -> np.ndarray:
    """HOG-like features: one orientation histogram a cell, the whole L1-normalized.

    Gradients of the square-rooted intensities vote with their length for the two nearest of
    ``n_orientations`` unsigned orientations, in every cell that they touch: cells overlap their
    neighbors by one pixel, which counts half there.

    Parameters
    ----------
    images : array of shape (n, height, width)
        Intensities from 0 to 255; height and width are multiples of ``cell``.

    Returns
    -------
    array of shape (n, height / cell * width / cell * n_orientations), float32
        28 x 28 images give 441 features.
    """
    if images.shape[1] % cell or images.shape[2] % cell:
        raise ValueError(f"The image size {images.shape[1:]} is not a multiple of the cell size {cell}.")
    batches = gen_batches(max(1, len(images)), _IMAGES_AT_ONCE)
    return np.concatenate([_histograms(images[batch], cell, n_orientations) for batch in batches])


def _histograms(images: np.ndarray, cell: int, n_orientations: int) -> np.ndarray:
    """`orientation_histograms` of images that fit into memory several times."""
    intensity = np.pad(np.sqrt(images.astype(np.float32) / 255), ((0, 0), (1, 1), (1, 1)))
    horizontal = intensity[:, 1:-1, 2:] - intensity[:, 1:-1, :-2]
    vertical = intensity[:, 2:, 1:-1] - intensity[:, :-2, 1:-1]
    length = np.hypot(horizontal, vertical)
    orientation = np.arctan2(vertical, horizontal) % np.pi * (n_orientations / np.pi)
    lower = np.floor(orientation)
    upper_share = orientation - lower
    channels = []
    for bin_ in range(n_orientations):
        votes = np.where(lower % n_orientations == bin_, length * (1 - upper_share), 0)
        votes += np.where((lower + 1) % n_orientations == bin_, length * upper_share, 0)
        channels.append(_pool(_pool(votes, cell).swapaxes(1, 2), cell).swapaxes(1, 2))
    features = np.stack(channels, axis=-1).reshape(len(images), -1)
    total = features.sum(axis=1, keepdims=True)
    return features / np.where(total > 0, total, 1)


def _pool(votes: np.ndarray, cell: int) -> np.ndarray:
    """Sum over cells along axis 1, plus half of the pixel on either side."""
    n, length, width = votes.shape
    cells = votes.reshape(n, length // cell, cell, width)
    pooled = cells.sum(axis=2)
    pooled[:, 1:] += 0.5 * cells[:, :-1, -1]
    pooled[:, :-1] += 0.5 * cells[:, 1:, 0]
    return pooled
