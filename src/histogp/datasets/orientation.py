"""Histograms of gradient orientations on a grid of cells."""

from __future__ import annotations

import numpy as np
from sklearn.utils import gen_batches

from histogp.storage import Array

_IMAGES_AT_ONCE = 2_000


def orientation_histograms(images: Array, *, cell: int = 4, n_orientations: int = 9) -> Array:
    """HOG-like features: one orientation histogram a cell, the whole L1-normalised.

    Gradients of the square-rooted intensities vote with their length for the two nearest of
    ``n_orientations`` unsigned orientations, in every cell that they touch: cells overlap their
    neighbours by one pixel, which counts half there.

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


def _histograms(images: Array, cell: int, n_orientations: int) -> Array:
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


def _pool(votes: Array, cell: int) -> Array:
    """Sum over cells along axis 1, plus half of the pixel on either side."""
    n, length, width = votes.shape
    cells = votes.reshape(n, length // cell, cell, width)
    pooled = cells.sum(axis=2)
    pooled[:, 1:] += 0.5 * cells[:, :-1, -1]
    pooled[:, :-1] += 0.5 * cells[:, 1:, 0]
    return pooled
