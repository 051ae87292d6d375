"""Which samples of a pool to label: the question, and the pool, read in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples

from histogp.active.strategies import STRATEGIES, choose
from histogp.gp import VARIANCE_METHODS, warning_once

# Candidates that are read together: their means and variances are a few megabytes.
BLOCK_SAMPLES = 8192
# Above so many candidates means are read from the table of quantized prediction, which is then made in no time ...
MANY_CANDIDATES = 10_000
# ... unless there are so few training samples that their kernel values are quicker than any table.
FEW_TRAINING_SAMPLES = 256
# Training samples, squared, times candidates up to which precise variances take a second or two.
PRECISE_WORK = 5e9


@warning_once()
def query(
    estimator: Any,
    X_pool: Any,
    strategy: str = "uncertainty",
    batch_size: int = 1,
    *,
    candidates: Any = None,
    variance: str = "auto",
    random_state: Any = 0,
    return_utilities: bool = False,
) -> Any:
    """Choose samples of a pool to label next.

    The pool is read in blocks; memory does not grow with the number of training samples times that of the pool. The
    means of more than 10,000 candidates are those of ``prediction="quantized"``, unless the kernel has no tables or
    there are no more than 256 training samples.

    Parameters
    ----------
    estimator : fitted HistogramGPClassifier, HistogramGPRegressor or HistogramGPOneClass
        The latter two for "random", "variance" and "batch-variance" only.
    X_pool : {array-like, sparse matrix} of shape (n_samples, n_features)
        The samples to choose from.
    strategy : str, default="uncertainty"
        ``|mean|`` is, with more than two classes, the gap between the two largest means; the variance is that of the
        latent function.

        - "random".
        - "mean": ``argmin |mean|``, close to the decision boundary.
        - "variance": ``argmax variance``, far from all training samples.
        - "uncertainty": ``argmin |mean| / sqrt(noise + variance)`` (Kapoor et al., 2010).
        - "uncertainty+": ``argmin |mean| + sqrt(noise + variance)`` (gp-hik-uncertainty-accv2012, eq. 17).
        - "expected-change": ``argmax sum_y P(y) mean_x |change of the mean at x by the label y|``, the expected change
          of the model's output (Freytag et al., 2014), where x are 200 random candidates.
        - "batch-variance": ``argmax variance``, where each sample of a batch counts as observed before the next one is
          chosen. Needs no labels.
        - "batch-uncertainty": ``argmin |mean| / sqrt(noise + variance)``, with that variance.
    batch_size : int, default=1
        Samples that are chosen together.
    candidates : array-like of int or bool, default=None
        The samples in question, by their positions in the pool or as a mask; None is all of them.
    variance : str, default="auto"
        How variances are computed: "auto", "precise", "fine", "nearest", "coarse", "coarse-quantized", "sampled" or
        "calibrated", see `predict_variance`. "auto" is "precise" where that takes a second or two, otherwise
        "calibrated", or "nearest" for a kernel matrix in single precision.
    random_state : int, RandomState instance or None, default=0
        None draws other candidates each time, where a strategy draws some.
    return_utilities : bool, default=False
        Whether to return also what the strategy thinks of the chosen samples: the higher, the better.

    Returns
    -------
    index : ndarray of shape (batch_size,)
        Positions in ``X_pool``, best first; fewer if there are no more.
    utilities : ndarray of shape (batch_size,)
        What the strategy thinks of them; only if ``return_utilities``.

    Examples
    --------
    >>> from histogp import HistogramGPClassifier
    >>> from histogp.active import query
    >>> clf = HistogramGPClassifier("hik", noise=0.1).fit([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> query(clf, [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]], "uncertainty")
    array([1])
    """
    strategy, batch_size = checked_strategy(strategy), checked_batch_size(batch_size)
    pool = Pool(estimator, X_pool, candidates, variance, random_state)
    if len(pool.candidates) == 0:
        raise ValueError("There are no candidates left to choose from; give others, or None for the whole pool.")
    chosen, utilities = choose(STRATEGIES[strategy], pool, batch_size)
    index = pool.candidates[chosen]
    return (index, utilities) if return_utilities else index


class Pool:
    """Candidates among the samples of X, and what one state of an estimator says of them.

    candidates : (n,), their positions in X
    posterior : the view of the estimator's state
    """

    def __init__(self, estimator: Any, X: Any, candidates: Any, variance: str, random_state: Any):
        """Take a view of the estimator's state; refuses other estimators and unknown variances."""
        if not hasattr(type(estimator), "posterior_"):
            raise ValueError(
                f"A {type(estimator).__name__} cannot be asked; give a HistogramGPClassifier, HistogramGPRegressor or "
                "HistogramGPOneClass."
            )
        known = ("auto", *VARIANCE_METHODS)
        if variance not in known:
            raise ValueError(f"Unknown variance {variance!r}; known are {', '.join(map(repr, known))}.")
        posterior = estimator.posterior_
        self._X = X.tocsr() if sparse.issparse(X) else X
        self.candidates = positions(X, candidates)
        is_large = len(self.candidates) > MANY_CANDIDATES and posterior.n_samples > FEW_TRAINING_SAMPLES
        if is_large and posterior.offers("tables"):
            posterior = posterior.using(prediction="quantized")
        self.posterior = posterior
        self.has_classes = is_classifier(estimator)
        self.random = check_random_state(random_state)
        self.variance_method = self._quick_method() if variance == "auto" else variance

    def __len__(self) -> int:
        return len(self.candidates)

    def take(self, index: np.ndarray) -> Any:
        """Some candidates, by their numbers among the candidates."""
        return _safe_indexing(self._X, self.candidates[index])

    def blocks(self) -> Iterator[Any]:
        """All candidates, some thousand at a time."""
        for begin in range(0, len(self), BLOCK_SAMPLES):
            yield self.take(np.arange(begin, min(begin + BLOCK_SAMPLES, len(self))))

    def collect(self, function: Callable[[Any], np.ndarray]) -> np.ndarray:
        """A function of samples, (n, ...), evaluated block by block for all candidates."""
        return np.concatenate([function(X) for X in self.blocks()])

    def means(self) -> np.ndarray:
        """Means of all candidates, (n, M)."""
        return self.collect(self.posterior.mean)

    def variances(self) -> np.ndarray:
        """Latent variances of all candidates, (n,)."""
        return self.collect(lambda X: self.posterior.variance(X, self.variance_method))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, M) and latent variances (n,) of all candidates."""
        found = [self.posterior.mean_and_variance(X, self.variance_method) for X in self.blocks()]
        means, variances = zip(*found, strict=True)
        return np.concatenate(means), np.concatenate(variances)

    def _quick_method(self) -> str:
        """ "calibrated" in place of "precise" where that would take long for so many candidates."""
        quick = self.posterior.quick_method
        work = float(self.posterior.n_samples) ** 2 * len(self)
        return "calibrated" if quick == "precise" and work > PRECISE_WORK else quick


def positions(X: Any, given: Any, name: str = "candidates") -> np.ndarray:
    """Positions of samples in X, (n,), from positions or a mask; None is all of them. ``name`` is for errors."""
    n_samples = _num_samples(X)
    if given is None:
        return np.arange(n_samples)
    index = np.asarray(given)
    if index.dtype == bool and index.shape == (n_samples,):
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be positions of samples in the pool, or a mask of them; got {given!r}.")
    if index.size and not 0 <= index.min() <= index.max() < n_samples:
        raise ValueError(f"{name} must be positions of samples in the pool, from 0 to {n_samples - 1}; got {given!r}.")
    if len(np.unique(index)) < len(index):
        raise ValueError(f"A sample of the pool occurs twice in {name}; give each once.")
    return index.astype(int)


def checked_strategy(strategy: Any) -> str:
    """The name of a strategy; refuses others."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(f"Unknown strategy {strategy!r}; known are {', '.join(map(repr, STRATEGIES))}.")
    return strategy


def checked_batch_size(batch_size: Any) -> int:
    """A whole number above 0; refuses others."""
    if not isinstance(batch_size, Integral) or batch_size < 1:
        raise ValueError(f"batch_size must be a whole number above 0; got {batch_size!r}.")
    return int(batch_size)
