"""A checkerboard of two classes, as histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp.storage import Array


def make_checkerboard(n_per_sector: int, n_fields: int = 2, *, random_state: Any = None) -> tuple[Array, Array]:
    """Points on a board of ``n_fields`` times ``n_fields`` sectors of alternating classes.

    The features are the position, and a third one that makes rows sum to one (gp-hik-uncertainty-accv2012, section
    6.5): a sum of functions of the first two alone cannot tell the classes apart.

    Returns
    -------
    X : array of shape (n_per_sector * n_fields**2, 3)
    y : array of shape (n_per_sector * n_fields**2,)
    """
    rng = np.random.default_rng(random_state)
    sectors = np.array([(a, b) for a in range(n_fields) for b in range(n_fields)])
    corners = np.repeat(sectors, n_per_sector, axis=0)
    positions = (corners + rng.uniform(size=corners.shape)) / (2 * n_fields)
    return np.column_stack([positions, 1 - positions.sum(axis=1)]), corners.sum(axis=1) % 2
