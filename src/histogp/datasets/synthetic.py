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

    Parameters
    ----------
    n_samples : int
        Number of samples.
    n_words : int, default=1000
        Number of features.
    n_classes : int, default=2
        Number of classes.
    length : int, default=130
        Words in each sample.
    class_share : float, default=0.3
        How much of a class's distribution is its own.
    random_state : int, numpy Generator or None, default=0
        Seed of the draws; None draws anew each time.

    Returns
    -------
    X : csr_array of shape (n_samples, n_words)
        Samples, whose rows sum to one.
    y : ndarray of shape (n_samples,)
        Classes, numbers from 0 on.

    Examples
    --------
    >>> from histogp.datasets import make_bags_of_words
    >>> X, y = make_bags_of_words(50, n_words=200, n_classes=3)
    >>> X.shape, sorted(set(y.tolist()))
    ((50, 200), [0, 1, 2])
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
    """Draw points on a board of ``n_fields`` times ``n_fields`` sectors of alternating classes.

    The features are the position, and a third one that makes rows sum to one (gp-hik-uncertainty-accv2012, section
    6.5): a sum of functions of the first two alone cannot tell the classes apart.

    Parameters
    ----------
    n_per_sector : int
        Samples in each sector.
    n_fields : int, default=2
        Sectors along each side of the board.
    random_state : int, numpy Generator or None, default=0
        Seed of the draws; None draws anew each time.

    Returns
    -------
    X : ndarray of shape (n_samples, 3)
        Samples, ``n_per_sector`` for each of the ``n_fields**2`` sectors.
    y : ndarray of shape (n_samples,)
        Classes, 0 or 1.

    Examples
    --------
    >>> from histogp.datasets import make_checkerboard
    >>> X, y = make_checkerboard(10, n_fields=4)
    >>> X.shape, int(y.sum())
    ((160, 3), 80)
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

    Parameters
    ----------
    n_per_class : int
        Samples of each class.
    random_state : int, numpy Generator or None, default=0
        Seed of the draws; None draws anew each time.

    Returns
    -------
    X : ndarray of shape (2 * n_per_class, 8)
        Samples, those of the first class first.
    y : ndarray of shape (2 * n_per_class,)
        Classes, 0 or 1.

    Examples
    --------
    >>> from histogp.datasets import make_relevance_test
    >>> X, y = make_relevance_test(20)
    >>> X.shape, int(y.sum())
    ((40, 8), 20)
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

    Parameters
    ----------
    n_samples : int
        Number of samples.
    n_words : int, default=1000
        Number of features.
    n_relevant : int, default=20
        Features that matter.
    density : float, default=0.12
        Part of the entries that are not zero.
    noise : float, default=0.5
        What else decides about classes, see above.
    random_state : int, numpy Generator or None, default=0
        Seed of the draws; None draws anew each time.

    Returns
    -------
    X : csr_array of shape (n_samples, n_words)
        Samples, whose rows sum to one.
    y : ndarray of shape (n_samples,)
        Classes, 0 or 1.
    relevant : ndarray of shape (n_relevant,)
        The columns that matter.

    Examples
    --------
    >>> from histogp.datasets import make_planted_words
    >>> X, y, relevant = make_planted_words(50, n_words=200, n_relevant=5)
    >>> X.shape, relevant.shape
    ((50, 200), (5,))
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
