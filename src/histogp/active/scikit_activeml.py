"""Our strategies in the terms of scikit-activeml: ``pip install histogp[activeml]``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from histogp.active.pool import Pool, checked_strategy
from histogp.active.strategies import STRATEGIES, choose, one_after_the_other
from histogp.gp import HistogramGPClassifier, warning_once

try:
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy
    from skactiveml.utils import MISSING_LABEL, is_labeled
except ImportError as error:
    raise ImportError('This module needs scikit-activeml: pip install "histogp[activeml]".') from error


class HistogramGPSampling(SingleAnnotatorPoolQueryStrategy):
    """A query strategy of scikit-activeml by a Gaussian process on histograms.

    Parameters
    ----------
    estimator : HistogramGPClassifier or None, default=None
        A copy of it learns the labeled samples at each query. None is one with the default parameters.
    strategy : str, default="uncertainty"
        See `histogp.active.query`.
    variance : str, default="auto"
        See `histogp.active.query`.
    missing_label : scalar, str, None or np.nan, default=np.nan
        What stands for the label of a sample that has none.
    random_state : int, RandomState instance or None, default=0
        None makes other random choices each time.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp import HistogramGPClassifier
    >>> from histogp.active.scikit_activeml import HistogramGPSampling
    >>> X, y = np.array([[0.0, 1.0], [0.1, 0.9], [0.5, 0.5], [1.0, 0.0]]), np.array([0, np.nan, np.nan, 1])
    >>> HistogramGPSampling(HistogramGPClassifier("hik", noise=0.1)).query(X, y)
    array([2])
    """

    def __init__(
        self,
        estimator: Any = None,
        strategy: str = "uncertainty",
        variance: str = "auto",
        missing_label: Any = MISSING_LABEL,
        random_state: Any = 0,
    ):
        """Keep the parameters, as scikit-learn wants it."""
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.estimator = estimator
        self.strategy = strategy
        self.variance = variance

    @warning_once()
    def query(self, X: Any, y: Any, candidates: Any = None, batch_size: int = 1, return_utilities: bool = False) -> Any:
        """Choose samples to label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense: scikit-activeml has no sparse data.
        y : array-like of shape (n_samples,)
            Labels, ``missing_label`` where there is none.
        candidates : array-like of shape (n_candidates,) or (n_candidates, n_features), default=None
            Numbers of samples, or samples; None is all that have no label.
        batch_size : int, default=1
            Samples that are chosen together.
        return_utilities : bool, default=False
            Whether to return also what the strategy thinks of all samples: the higher, the better.

        Returns
        -------
        query_indices : ndarray of shape (batch_size,)
            Numbers of samples of ``X``, or of ``candidates`` if these are samples.
        utilities : ndarray of shape (batch_size, n_samples) or (batch_size, n_candidates)
            At each choice; NaN for samples that cannot be chosen. Only if ``return_utilities``.
        """
        strategy = STRATEGIES[checked_strategy(self.strategy)]
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        X_candidates, numbers = self._transform_candidates(candidates, X, y)
        places = np.arange(X_candidates.shape[0]) if numbers is None else np.asarray(numbers)
        labeled = is_labeled(y, missing_label=self.missing_label_)
        if labeled.any():
            model = clone(HistogramGPClassifier() if self.estimator is None else self.estimator)
            model.partial_fit(X[labeled], np.array(y[labeled].tolist()))  # not as objects
            history: list[np.ndarray] = []
            pool = Pool(model, X_candidates, None, self.variance, self.random_state_)
            chosen, _ = choose(strategy, pool, batch_size, history if return_utilities else None)
        else:  # nothing to tell candidates apart by
            chosen = self.random_state_.permutation(len(places))[:batch_size]
            history = one_after_the_other(np.zeros(len(places)), chosen)
        if not return_utilities:
            return places[chosen]
        utilities = np.full((len(chosen), len(places) if numbers is None else X.shape[0]), np.nan)
        utilities[:, places] = np.where(np.isneginf(history), np.nan, history)
        return places[chosen], utilities
