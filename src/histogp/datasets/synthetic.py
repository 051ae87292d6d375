"""Synthetic data: bags of words, planted relevance, a checkerboard."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

_BAGS_AT_ONCE = 5_000


def make_bags_of_words(
    n_samples: int,
    n_words: int = 1_000,
    *,
    n_classes: int = 2,
    length: int = 130,
    class_share: float = 0.3,
    random_state: Any = 0,
) -> tuple[Any, np.ndarray]:
    """L1-normalized word histograms, drawn from one multinomial distribution a class.

    A class mixes a distribution common to all, with ``1 - class_share``, and one of its own. The
    defaults leave about 12% of the entries non-zero.

    Returns
    -------
    X : csr_array of shape (n_samples, n_words)
    y : array of shape (n_samples,)
    """
    rng = np.random.default_rng(random_state)
    common = rng.dirichlet(np.ones(n_words))
    own = rng.dirichlet(np.ones(n_words), size=n_classes)
    distributions = (1 - class_share) * common + class_share * own
    y = rng.integers(n_classes, size=n_samples)
    blocks = [
        sparse.csr_array(rng.multinomial(length, distributions[y[batch]]) / length)
        for batch in gen_batches(n_samples, _BAGS_AT_ONCE)
    ]
    return sparse.vstack(blocks, format="csr"), y


def make_checkerboard(n_per_sector: int, n_fields: int = 2, *, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
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


def make_relevance_test(n_per_class: int, *, random_state: Any = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eight features of two classes, in the manner of the relevance test of gp-hik-eccv2012 (section 6.5).

    The first two features are beta-distributed with the parameters (3, 6) in the first class and (6, 3) in the second;
    the other six are uniform between 0 and 3 in both.

    Returns
    -------
    X : array of shape (2 n_per_class, 8)
    y : array of shape (2 n_per_class,)
    """
    rng = np.random.default_rng(random_state)
    y = np.repeat([0, 1], n_per_class)
    X = 3 * rng.random((len(y), 8))
    X[:, :2] = rng.beta(np.where(y == 0, 3, 6)[:, None], np.where(y == 0, 6, 3)[:, None], (len(y), 2))
    return X, y


def make_planted_words(
    n_samples: int,
    n_words: int = 1_000,
    *,
    n_relevant: int = 20,
    density: float = 0.12,
    noise: float = 0.5,
    random_state: Any = 0,
) -> tuple[Any, np.ndarray, np.ndarray]:
    """L1-normalized sparse histograms whose class depends on a few words.

    Every relevant word speaks for one of the two classes, the more it occurs, up to a limit. ``noise`` is the standard
    deviation of what else decides, in units of that of the words.

    Returns
    -------
    X : csr_array of shape (n_samples, n_words)
    y : array of shape (n_samples,)
    relevant : array of shape (n_relevant,), the columns that matter
    """
    rng = np.random.default_rng(random_state)
    shape = (n_samples, n_words)
    X = sparse.random_array(
        shape, density=density, random_state=rng, format="csr", data_sampler=lambda size: rng.gamma(2, size=size)
    )
    X = sparse.csr_array(X / np.maximum(X.sum(axis=1), np.finfo(float).tiny)[:, None])
    relevant = rng.choice(n_words, n_relevant, replace=False)
    typical = 1 / (density * n_words)
    votes = np.minimum(X[:, relevant].toarray() / typical, 3) @ rng.choice([-1.0, 1.0], n_relevant)
    votes += noise * votes.std() * rng.standard_normal(n_samples)
    return X, (votes > np.median(votes)).astype(int), relevant
