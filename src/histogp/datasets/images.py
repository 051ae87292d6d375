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
    """The array in an IDX file, plain or gzipped.

    Parameters
    ----------
    path : str or path-like
        The file; it is gzipped if its name ends in ``.gz``.

    Returns
    -------
    array : ndarray
        Of the shape and the type that the file declares.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from histogp.datasets import read_idx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
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

    The folder holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and
    ``t10k-labels-idx1-ubyte``, gzipped or not.

    Parameters
    ----------
    folder : str or path-like
        The folder that holds the four files.

    Returns
    -------
    X_train : ndarray of shape (n_train, height, width)
        Images to learn from.
    y_train : ndarray of shape (n_train,)
        Labels of these.
    X_test : ndarray of shape (n_test, height, width)
        Images to test with.
    y_test : ndarray of shape (n_test,)
        Labels of these.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from histogp.datasets import load_idx_folder
    >>> images = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 50, 60, 70, 80])
    >>> labels = bytes([0, 0, 8, 1, 0, 0, 0, 1, 9])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "t10k"):
    ...         _ = Path(folder, f"{part}-images-idx3-ubyte").write_bytes(images)
    ...         _ = Path(folder, f"{part}-labels-idx1-ubyte").write_bytes(labels)
    ...     X_train, y_train, X_test, y_test = load_idx_folder(folder)
    >>> X_train.shape, y_train.tolist()
    ((1, 2, 2), [9])
    """
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return tuple(read_idx(_find(Path(folder), name)) for name in names)  # type: ignore[return-value]


def load_fashion_mnist(folder: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fashion-MNIST as ``(X_train, y_train, X_test, y_test)``; images (n, 28, 28) uint8.

    Without ``folder`` the files of the Debian package are used.

    Parameters
    ----------
    folder : str, path-like or None, default=None
        The folder that holds the four files, as in `load_idx_folder`.

    Returns
    -------
    X_train : ndarray of shape (60000, 28, 28)
        Images to learn from.
    y_train : ndarray of shape (60000,)
        Labels of these, from 0 to 9.
    X_test : ndarray of shape (10000, 28, 28)
        Images to test with.
    y_test : ndarray of shape (10000,)
        Labels of these, from 0 to 9.

    Examples
    --------
    >>> from histogp.datasets import load_fashion_mnist
    >>> X_train, y_train, X_test, y_test = load_fashion_mnist()  # doctest: +SKIP
    >>> try:
    ...     X_train, y_train, X_test, y_test = load_fashion_mnist("no-such-folder")
    ... except FileNotFoundError:
    ...     print("the files are missing")
    the files are missing
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
    images : ndarray of shape (n, height, width)
        Intensities from 0 to 255; height and width are multiples of ``cell``.
    cell : int, default=4
        Pixels along each side of a cell.
    n_orientations : int, default=9
        Bins of the histogram of each cell.

    Returns
    -------
    ndarray of shape (n, height / cell * width / cell * n_orientations)
        In single precision; 28 x 28 images give 441 features by default.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp.datasets import orientation_histograms
    >>> images = np.random.default_rng(0).integers(0, 256, (5, 28, 28))
    >>> orientation_histograms(images).shape
    (5, 441)
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
