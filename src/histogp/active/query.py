"""One question: which rows of a pool to label."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from histogp._estimator import warning_once
from histogp.active.pool import Pool
from histogp.active.strategies import STRATEGIES, choose


@warning_once()
def query(
    estimator: Any,
    X_pool: Any,
    strategy: str = "uncertainty",
    batch_size: int = 1,
    *,
    candidates: Any = None,
    variance: str = "auto",
    random_state: Any = None,
    return_utilities: bool = False,
) -> Any:
    """Choose rows of a pool to label next.

    The pool is read in blocks; memory does not grow with the number of training rows times that of the pool. The means
    of more than 10,000 candidates are those of ``prediction="quantized"``.

    Parameters
    ----------
    estimator : fitted HistogramGPClassifier, HistogramGPRegressor or HistogramGPOneClass
        The latter two for "random", "variance" and "batch-variance" only.
    X_pool : {array-like, sparse matrix} of shape (n_rows, n_features)
    strategy : str, default="uncertainty"
        ``|mean|`` is, with more than two classes, the gap between the two largest means; the variance is that of the
        latent function.

        - "random".
        - "mean": ``argmin |mean|``, close to the decision boundary.
        - "variance": ``argmax variance``, far from all training examples.
        - "uncertainty": ``argmin |mean| / sqrt(noise + variance)`` (Kapoor et al., 2010).
        - "uncertainty+": ``argmin |mean| + sqrt(noise + variance)`` (gp-hik-uncertainty-accv2012, eq. 17).
        - "expected-change": ``argmax sum_y P(y) mean_x |change of the mean at x by the label y|``, the expected change
          of the model's output (Freytag et al., 2014), where x are 200 random candidates.
        - "batch-variance": ``argmax variance``, where each row of a batch counts as observed before the next one is
          chosen. Needs no labels.
        - "batch-uncertainty": ``argmin |mean| / sqrt(noise + variance)``, with the same variance.
    batch_size : int, default=1
    candidates : array-like of int or bool, default=None
        The rows in question, by their numbers or as a mask; None is all of them.
    variance : {"auto", "precise", "fine", "coarse", "coarse-quantized", "sampled", "calibrated"}, default="auto"
        How variances are computed, see `predict_variance`. "auto" is "precise" where that takes a second or two and
        "calibrated" otherwise.
    random_state : int, RandomState instance or None, default=None
    return_utilities : bool, default=False
        Whether to return also what the strategy thinks of the chosen rows: the higher, the better.

    Returns
    -------
    index : ndarray of shape (batch_size,)
        Numbers of rows of ``X_pool``, best first; fewer if there are no more.
    utilities : ndarray of shape (batch_size,), if ``return_utilities``
    """
    strategy, batch_size = known_strategy(strategy), whole_number(batch_size)
    pool = Pool(estimator, X_pool, candidates, variance, random_state)
    if len(pool.candidates) == 0:
        raise ValueError("There are no candidates left to choose from.")
    chosen, utilities = choose(STRATEGIES[strategy], pool, batch_size)
    index = pool.candidates[chosen]
    return (index, utilities) if return_utilities else index


def known_strategy(strategy: Any) -> str:
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"Unknown strategy {strategy!r}; known are {', '.join(map(repr, STRATEGIES))}.")
    return strategy


def whole_number(batch_size: Any) -> int:
    if not isinstance(batch_size, Integral) or batch_size < 1:
        raise ValueError(f"batch_size must be a whole number above 0; got {batch_size!r}.")
    return int(batch_size)
