"""The posterior of a fitted estimator, for code that builds on it: active learning, reports, plots, commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from histogp._core.conditioning import Covariances, Observed
from histogp._core.data import Array
from histogp._core.operators.contract import Features, Tables
from histogp._core.variance import METHODS
from histogp._estimator import snapshot

# Names that `predict_variance` knows; those that give the variance itself and not a bound; and those that can do
# without the training samples, once their tables are prepared.
VARIANCE_METHODS: tuple[str, ...] = tuple(METHODS)
VARIANCE_ESTIMATES: tuple[str, ...] = tuple(name for name, one in METHODS.items() if one.kind != "bound")
VARIANCE_TABLES: tuple[str, ...] = tuple(name for name, one in METHODS.items() if not one.needs_training)


class PosteriorView:
    """The posterior of a fitted estimator, as its attribute ``posterior_`` gives it.

    A view holds one state: what the estimator learns later, or parameters that are set later, are for the next view.
    Threads may share it. Means and variances are those of the latent functions, without noise and in the unit of
    learning: targets are -1 and 1 for classes, and normalized for a regressor with ``normalize_y``.

    Parameters
    ----------
    estimator : HistogramGPClassifier, HistogramGPRegressor or HistogramGPOneClass
        A fitted one.

    Attributes
    ----------
    n_samples : int
        Training samples.
    noise : float
        The noise variance, ``noise_`` of the estimator.
    output_shape : tuple of int
        What `predict` of a regressor, or `decision_function`, returns for one sample: ``()`` or ``(n_outputs,)``.
    includes_training : bool
        Whether the training samples are there. A model that was saved without them only predicts.
    quick_method : str
        The best quick way to the variance itself: what ``method="auto"`` stands for.
    variance_methods : tuple of str
        Methods of `predict_variance` that the kernel has.
    prepared : tuple of str
        Methods of `predict_variance` whose tables are prepared; they go into a file that is saved now.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp import HistogramGPClassifier
    >>> X = np.array([[0.0, 1.0], [0.2, 0.8], [1.0, 0.0]])
    >>> posterior = HistogramGPClassifier("hik", noise=0.1).fit(X, ["a", "a", "b"]).posterior_
    >>> posterior.mean(X).shape, posterior.variance(X).shape
    ((3, 1), (3,))
    >>> posterior.offers("tables"), posterior.includes_training
    (True, True)
    """

    def __init__(self, estimator: Any):
        self._estimator = snapshot(estimator)

    @property
    def n_samples(self) -> int:
        """Training samples.

        Returns
        -------
        n_samples : int
            Of positive weight.
        """
        return self._estimator.n_samples_

    @property
    def noise(self) -> float:
        """The noise variance, ``noise_`` of the estimator.

        Returns
        -------
        noise : float
            In the unit of learning.
        """
        return self._estimator.noise_

    @property
    def output_shape(self) -> tuple[int, ...]:
        """What `predict` of a regressor, or `decision_function`, returns for one sample.

        Returns
        -------
        output_shape : tuple of int
            ``()`` or ``(n_outputs,)``.
        """
        return () if self._estimator._codec.is_vector else (self._estimator._codec.n_outputs,)

    @property
    def includes_training(self) -> bool:
        """Whether the training samples are there. A model that was saved without them only predicts.

        Returns
        -------
        includes_training : bool
            False after `histogp.load` of such a model.
        """
        return self._estimator._posterior.includes_training

    @property
    def quick_method(self) -> str:
        """The best quick way to the variance itself: what ``method="auto"`` stands for.

        Returns
        -------
        quick_method : str
            A method of `predict_variance`.
        """
        return self._estimator._posterior.quick_method()

    @property
    def variance_methods(self) -> tuple[str, ...]:
        """Methods of `predict_variance` that the kernel has.

        Returns
        -------
        variance_methods : tuple of str
            Names for its parameter ``method``.
        """
        has_tables = self.offers("tables")
        return tuple(name for name, one in METHODS.items() if has_tables or not one.needs_tables)

    @property
    def prepared(self) -> tuple[str, ...]:
        """Methods of `predict_variance` whose tables are prepared; they go into a file that is saved now.

        Returns
        -------
        prepared : tuple of str
            Those that were used so far.
        """
        tables = self._estimator._posterior.tables()
        return tuple(name for name in VARIANCE_METHODS if name in tables)

    def offers(self, what: str) -> bool:
        """Whether the model has something on which other methods depend.

        Parameters
        ----------
        what : {"tables", "features"}
            - "tables": sums over features can be read from tables, as ``prediction="quantized"`` does.
            - "features": the kernel is a product of features, in whose space the model is solved.

        Returns
        -------
        offered : bool
            Whether it is there.
        """
        capabilities: dict[str, type] = {"tables": Tables, "features": Features}
        if what not in capabilities:
            raise ValueError(f"what must be one of {', '.join(map(repr, capabilities))}; got {what!r}.")
        return self._estimator._posterior.operator.offer(capabilities[what]) is not None

    def using(self, **parameters: Any) -> PosteriorView:
        """A view of the same state that predicts with other parameters, for instance ``prediction="quantized"``.

        Parameters
        ----------
        **parameters : dict
            Parameters of the estimator that count when predicting, and ``n_jobs``.

        Returns
        -------
        view : PosteriorView
            Another view; this one stays as it is.
        """
        known = (*self._estimator._prediction_parameters, "n_jobs")
        for name in parameters.keys() - set(known):
            raise ValueError(f"{name!r} does not count when predicting; {', '.join(known)} do.")
        return PosteriorView(snapshot(self._estimator).set_params(**parameters))

    def mean(self, X: Any) -> Array:
        """Posterior means; one output for two classes, that of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Samples to predict.

        Returns
        -------
        mean : ndarray of shape (n, n_outputs)
            Without noise, in the unit of learning.
        """
        return self._estimator._mean_of(self._estimator._test_rows(X))

    def variance(self, X: Any, method: str = "auto") -> Array:
        """Posterior variances.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Samples to predict.
        method : str, default="auto"
            "auto", which is ``quick_method``, or one of `predict_variance`.

        Returns
        -------
        variance : ndarray of shape (n,)
            Without noise, in the unit of learning.
        """
        return self._variance(self._estimator._test_rows(X), method)

    def mean_and_variance(self, X: Any, method: str = "auto") -> tuple[Array, Array]:
        """What `mean` and `variance` return, in less time: X is validated and converted once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Samples to predict.
        method : str, default="auto"
            "auto", which is ``quick_method``, or one of `predict_variance`.

        Returns
        -------
        mean : ndarray of shape (n, n_outputs)
            Without noise, in the unit of learning.
        variance : ndarray of shape (n,)
            Without noise, in the unit of learning.
        """
        rows = self._estimator._test_rows(X)
        return self._estimator._mean_of(rows), self._variance(rows, method)

    def covariances(self, reference: Any) -> Callable[[Any], Array]:
        """Posterior covariances with a few samples of reference.

        Up to 512 training samples they are exact; above that they are read from tables with 64 nodes a feature.

        Parameters
        ----------
        reference : {array-like, sparse matrix} of shape (m, n_features)
            The samples of reference.

        Returns
        -------
        evaluate : callable
            A function from X of shape (n, n_features) to covariances of shape (n, m).
        """
        rows = self._estimator._test_rows(reference)
        covariances = Covariances(self._system(rows.n_rows), rows, self._tol)
        return lambda X: covariances.evaluate(self._estimator._test_rows(X))

    def observations(self, n_samples: int) -> Observations:
        """An empty set of observations, to which about ``n_samples`` will be added.

        Parameters
        ----------
        n_samples : int
            How many observations to expect.

        Returns
        -------
        observations : Observations
            They tell what they take away from the variance of other samples.
        """
        observed = Observed(self._system(n_samples), self.noise, self._tol)
        return Observations(observed, self._estimator._test_rows)

    def training_data(self) -> tuple[Any, Array, Array]:
        """The training samples that the model keeps.

        Returns
        -------
        X : csr_array of shape (n_samples, n_features)
            Their features.
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets, as they were given.
        sample_weight : ndarray of shape (n_samples,)
            Positive, the weights of classes included, but for ``class_weight="balanced-ovr"``.
        """
        return self._estimator._training_samples()

    def refit(self, kernel: Any, noise: float) -> Any:
        """A fitted estimator with another kernel object and noise, solved for the same training samples.

        Parameters
        ----------
        kernel : Kernel
            Nothing is searched for; what it leaves to data is taken from the training samples.
        noise : float
            Variance of the noise, in the unit of learning.

        Returns
        -------
        estimator : estimator instance
            A copy; the estimator of this view stays as it is.
        """
        return self._estimator._refitted(kernel, noise)

    @property
    def _tol(self) -> float:
        return self._estimator._variance_options().tol

    def _variance(self, rows: Any, method: str) -> Array:
        method = self.quick_method if method == "auto" else method
        return self._estimator._latent_variance(rows, method, self._estimator._variance_options(method))

    def _system(self, n_sides: int) -> Any:
        """What solves for about ``n_sides`` right-hand sides; refuses models without training samples."""
        posterior = self._estimator._posterior.with_training()
        return posterior.system(n_sides, self._estimator._solver_options())


class Observations:
    """Observations at further samples, whose values need not be known, and what they take away from the variance.

    `PosteriorView.observations` makes one; ``len`` is the number of observations.
    """

    def __init__(self, observed: Observed, rows_of: Callable[[Any], Any]):
        self._observed = observed
        self._rows_of = rows_of

    def __len__(self) -> int:
        return len(self._observed)

    def add(self, x: Any) -> None:
        """Count one more sample as observed.

        Parameters
        ----------
        x : {array-like, sparse matrix} of shape (1, n_features)
            The sample.
        """
        self._observed.add(self._rows_of(x))

    def explained(self, X: Any, known: Array | None = None) -> Array:
        """Coordinates by which observations explain samples: the sum of squares of a row is what its variance loses.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Samples to explain.
        known : ndarray of shape (n, k) or None, default=None
            The result for the same samples when there were k observations; saves computing it again.

        Returns
        -------
        explained : ndarray of shape (n, len(self))
            One column for each observation.
        """
        rows = self._rows_of(X)
        return self._observed.explained(rows, np.empty((rows.n_rows, 0)) if known is None else known)
