"""A loop that asks for labels and learns from them."""

from __future__ import annotations

from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples

from histogp.active.pool import checked_batch_size, checked_strategy, positions, query


class ActiveLearner:
    """Chooses samples of a pool to label, and teaches an estimator their labels by `partial_fit`.

    Parameters
    ----------
    estimator : HistogramGPClassifier, HistogramGPRegressor or HistogramGPOneClass
        Goes on learning in place. If it has not been fitted, the first samples are chosen at random.
    X_pool : {array-like, sparse matrix} of shape (n_samples, n_features)
        The samples to choose from.
    strategy : str, default="uncertainty"
        See `query`.
    batch_size : int, default=1
        Samples that are chosen together.
    variance : str, default="auto"
        See `query`.
    random_state : int, RandomState instance or None, default=0
        None makes other random choices each time.

    Attributes
    ----------
    queried_ : ndarray of int
        Positions in the pool of the samples that have been labeled, in the order of the questions.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from histogp import HistogramGPClassifier
    >>> from histogp.active import ActiveLearner
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = HistogramGPClassifier().fit(X[:20], y[:20])
    >>> learner = ActiveLearner(clf, X_pool=X[20:1000], strategy="uncertainty", batch_size=10)
    >>> curve = learner.run(y[20:1000], budget=50, scoring=lambda model: model.score(X[1000:], y[1000:]))
    >>> curve["n_samples"]
    array([20, 30, 40, 50, 60, 70])
    """

    def __init__(
        self,
        estimator: Any,
        X_pool: Any,
        strategy: str = "uncertainty",
        *,
        batch_size: int = 1,
        variance: str = "auto",
        random_state: Any = 0,
    ):
        """Check what does not depend on the estimator's state."""
        self.estimator = estimator
        self.X_pool = X_pool.tocsr() if sparse.issparse(X_pool) else X_pool
        self.strategy = checked_strategy(strategy)
        self.batch_size = checked_batch_size(batch_size)
        self.variance = variance
        self.random_state = random_state
        self._random = check_random_state(random_state)
        self._open = np.ones(_num_samples(X_pool), bool)
        self.queried_ = np.empty(0, int)

    def query(self, batch_size: int | None = None) -> np.ndarray:
        """Choose the samples to label next, of those not labeled yet.

        Parameters
        ----------
        batch_size : int or None, default=None
            Samples that are chosen together; None is the ``batch_size`` of the learner.

        Returns
        -------
        index : ndarray of shape (batch_size,)
            Positions in ``X_pool``, best first; fewer if there are no more.
        """
        batch_size = self.batch_size if batch_size is None else batch_size
        if not self._open.any():
            raise ValueError("All samples of the pool are labeled; make an ActiveLearner with another X_pool.")
        if not self._is_fitted():
            candidates = np.flatnonzero(self._open)
            return self._random.choice(candidates, min(batch_size, len(candidates)), replace=False)
        return query(
            self.estimator,
            self.X_pool,
            self.strategy,
            batch_size,
            candidates=self._open,
            variance=self.variance,
            random_state=self._random,
        )

    def teach(self, index: Any, y: Any) -> ActiveLearner:
        """Learn the labels of samples of the pool, by their positions.

        Parameters
        ----------
        index : int or array-like of int or bool
            Positions in ``X_pool``, or a mask.
        y : array-like of shape (n_labeled,)
            Labels of these samples, or targets.

        Returns
        -------
        self : ActiveLearner
            The learner itself.
        """
        index = positions(self.X_pool, np.atleast_1d(index), "index")
        self.estimator.partial_fit(_safe_indexing(self.X_pool, index), y)
        self._open[index] = False
        self.queried_ = np.append(self.queried_, index)
        return self

    def run(self, oracle: Any, budget: int, *, scoring: Any = None) -> dict[str, np.ndarray]:
        """Ask, learn, and ask again, until ``budget`` labels were asked for or the pool is empty.

        Parameters
        ----------
        oracle : callable or array-like of shape (n_samples,)
            A function from positions in the pool to labels; or the labels of the whole pool.
        budget : int
            Labels to ask for.
        scoring : callable, default=None
            A function of the estimator that returns a number, or a dict of numbers, after each batch.

        Returns
        -------
        curve : dict of ndarrays
            One entry for the estimator at the beginning, if it was fitted, and one after each batch: n_labels asked for
            in this run, n_samples learned so far, query_seconds, update_seconds, and score, or what ``scoring`` calls
            its numbers. ``pandas.DataFrame(curve)`` makes a table of it.
        """
        if not isinstance(budget, Integral) or budget < 0:
            raise ValueError(f"budget must be a whole number from 0 on; got {budget!r}.")
        if scoring is not None and not callable(scoring):
            raise TypeError(f"scoring must be a function of the estimator, or None; got {scoring!r}.")
        if not callable(oracle) and _num_samples(oracle) != len(self._open):
            raise ValueError(f"There are {_num_samples(oracle)} labels for a pool of {len(self._open)} samples.")
        answer = oracle if callable(oracle) else lambda index: _safe_indexing(oracle, index)
        lines = [self._line(0, 0.0, 0.0, scoring)] if self._is_fitted() else []
        n_labels = 0
        while n_labels < budget and self._open.any():
            start = perf_counter()
            index = self.query(min(self.batch_size, budget - n_labels))
            asked = perf_counter()
            labels = answer(index)
            answered = perf_counter()
            self.teach(index, labels)
            n_labels += len(index)
            lines.append(self._line(n_labels, asked - start, perf_counter() - answered, scoring))
            if lines[-1].keys() != lines[0].keys():
                raise ValueError("scoring must return the same names after each batch.")
        return {name: np.array([line[name] for line in lines]) for name in (lines[0] if lines else [])}

    def _line(self, n_labels: int, query_seconds: float, update_seconds: float, scoring: Any) -> dict[str, Any]:
        scores = {} if scoring is None else scoring(self.estimator)
        return {
            "n_labels": n_labels,
            "n_samples": self.estimator.n_samples_,
            "query_seconds": query_seconds,
            "update_seconds": update_seconds,
            **(scores if isinstance(scores, dict) else {"score": scores}),
        }

    def _is_fitted(self) -> bool:
        return hasattr(self.estimator, "n_samples_")
