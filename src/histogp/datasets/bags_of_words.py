"""Synthetic bags of words."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from histogp.storage import Array

_BAGS_AT_ONCE = 5_000


def make_bags_of_words(
    n_samples: int,
    n_words: int = 1_000,
    *,
    n_classes: int = 2,
    length: int = 130,
    class_share: float = 0.3,
    random_state: Any = None,
) -> tuple[Any, Array]:
    """L1-normalised word histograms, drawn from one multinomial distribution a class.

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
