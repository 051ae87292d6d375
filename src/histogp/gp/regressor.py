"""Regression."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils import check_random_state

from histogp._core.data import Array
from histogp._core.predictors import Reals
from histogp._estimator import reading
from histogp._sklearn import with_callbacks
from histogp.gp._model import HistogramGP
from histogp.gp._tasks import Regression


class HistogramGPRegressor(RegressorMixin, HistogramGP):
    """Exact Gaussian process regressor for histogram-like data.

    Samples with equal features are one row of the kernel matrix, so that limits on the number of samples are limits on
    the number of distinct ones. The noise is Gaussian: a target that is off by many times the range of the others
    spoils the model, so leave it out.

    Parameters
    ----------
    kernel : "auto", another name or a kernel of `histogp.kernels`, default="auto"
        "auto" is found by leave-one-out loss, on up to 1,000 distinct training samples, 2,000 with many classes: a sum
        of an intersection kernel, a `Laplacian`, a `Gaussian` and a constant, as far as each of them helps, with
        features that are shifted by their smallest values and have a weight each, or one for all if that is clearly
        better for 200 or more distinct samples that a first search has not seen. Counts, that is mostly zeros and
        nothing negative, stay as they are and have one weight for all, unless normalized rows or own weights are
        clearly better, of few samples by the loss of all. Where most features begin at zero, a power of them is found,
        too.
        Features may have any sign and unit. Fewer than ten distinct samples are too few to search: then all is where a
        search would start. ``kernel_`` has all of it, and `in_words` tells what it is.
        Other names are "hik", "hik-poly" and "hik-exp" for `HistogramIntersection` without a transform, with
        ``Power(eta=0.5)`` and with ``Exponential(eta=1.0)``, "chi2", "exp-chi2", "laplacian", "gaussian", "constant",
        and sums of these, "hik + laplacian".
    noise : "auto" or float, default="auto"
        Variance of the noise on the targets (on the normalized ones with ``normalize_y``). "auto" is found
        together with the kernel, or alone for a kernel that is given; a search of ``optimize`` starts at 0.1.
    optimize : {"gradient", "bound", "exact", "loo"}, Optimizer or None, default=None
        Whether and how `fit` searches for hyperparameters of the kernel and noise that make the training data most
        likely, starting from those given, or from where "auto" starts; see `Optimizer`. None takes them as they are,
        and "auto" as said there.
    normalize_y : bool, default=True
        Center the targets and scale them to unit variance before learning, as scikit-learn's
        ``GaussianProcessRegressor`` does; with ``sample_weight`` by the weighted mean and variance.
    solver : {"auto", "cg", "cholesky"}, default="auto"
        "auto" factorizes up to about 2,000 samples, up to 8,192 with a kernel of features or with hundreds of outputs,
        and with no more features than that; it iterates above.
    tol : float, default=1e-2
        The iteration ends when the largest residual of each output is below ``tol`` times its
        largest target.
    max_iter : int, default=1000
        Iterations at most.
    preconditioner_rank : int or "auto", default="auto"
        "auto" takes the rank, possibly 0, with the lowest estimated cost.
    prediction : {"exact", "quantized"}, default="exact"
        "exact" searches the sorted training values, in time logarithmic in their number. "quantized" reads
        a table on a grid, in time independent of it; see `quantization_error_bound`. This and the next
        three parameters count when predicting: `set_params` changes them without another `fit`.
    n_bins : int, default=100
        Bins of the grid in each dimension, where the grid is uniform, and in each octave, where it is not.
    interpolation : {"linear", "nearest"}, default="linear"
        "linear" interpolates on a grid in octaves: where the training data crowd near zero it has several,
        each twice as wide as the one before. "nearest" is the papers' quantization: the nearest node of a
        uniform grid. Both grids lie in the transformed features.
    value_range : float, array-like of shape (n_features,) or None, default=None
        Where the grid of each dimension ends, in units of the features; larger values count as this one.
        None takes the largest training value, which loses nothing.
    n_jobs : int or None, default=None
        Threads; None means all that Numba may use, -1 all cores.
    random_state : int, RandomState instance or None, default=0
        Chooses the columns of the preconditioner, and whatever is drawn at random for variances and probabilities. None
        draws anew each time.
    verbose : int, default=0
        1 reports stages, 2 also iterations.

    Attributes
    ----------
    kernel_ : Kernel
        With the hyperparameters found.
    noise_ : float
        Variance of the noise, given or found; that on the normalized targets with ``normalize_y``.
    log_marginal_likelihood_, log_marginal_likelihood_error_ : float
        Of the training data at these hyperparameters, and its standard error: exact, estimated or a lower bound, as
        ``optimize`` says; NaN if the search saw some of the samples only (of kernels that are evaluated pair by pair
        2,000) or another criterion, or if samples have changed since. Only after a
        search, also that of "auto".
    optimization_path_ : dict of ndarrays of shape (n_evaluations,) or (n_evaluations, n_values)
        Every evaluation: log_marginal_likelihood, standard_error (NaN while many weights are learned, where the
        likelihood is integrated from its derivative), n_samples (distinct ones; less than all while the search starts
        on a subset), n_products and the hyperparameters, or n_weights that are not negligible. Of equal samples a
        search sees what they have in common; how they scatter is part of ``log_marginal_likelihood_`` alone. With
        the leave-one-out criterion, also that of "auto", a loss per sample in place of the likelihood. Only after a
        search.
    feature_relevance_ : ndarray of shape (n_features,)
        The share of each feature in the prior variance of the training data, where equal samples count once.
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Weights of the training samples.
    ids_ : ndarray of shape (n_samples,)
        The numbers of the training samples, in the order of ``alpha_``: 0 is the first one that was ever given. They
        stay the same, and are not used again.
    n_iter_ : int
        Iterations; 1 for the dense solver.
    residual_ : ndarray of shape (n_outputs,)
        The relative residual reached, computed in float64.
    n_products_ : int
        Products of the kernel matrix with a vector.
    preconditioner_rank_ : int
        Rank of the preconditioner; 0 if there was none.
    approximation_ : dict
        The approximations of the kernel, each with the relative error of kernel values; empty if it is exact.
    kernel_shares_ : dict
        The share of each part of a `Sum` in the prior variance of the training samples, where equal ones count once;
        empty for one kernel.
    variance_error_ : float
        The relative error of the variance "calibrated", measured when it is first asked for; see `predict_variance`.
    n_samples_ : int
        Training samples of positive weight.
    n_nonzeros_ : int
        Non-zero features among them; those of equal samples are there once.
    posterior_ : PosteriorView
        What was learned, for code that builds on means, variances and training samples.
    n_features_in_ : int
        Features of a sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these, if the data have names.

    Examples
    --------
    >>> import numpy as np
    >>> from histogp import HistogramGPRegressor
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> reg = HistogramGPRegressor().fit(X, np.sqrt(X[:, 0]))
    >>> reg.predict([[0.25]]).round(2)
    array([0.5])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **HistogramGP._parameter_constraints,
        "normalize_y": ["boolean"],
    }

    _codec: Reals

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        noise: Any = "auto",
        optimize: Any = None,
        normalize_y: bool = True,
        solver: str = "auto",
        tol: float = 1e-2,
        max_iter: int = 1000,
        preconditioner_rank: Any = "auto",
        prediction: str = "exact",
        n_bins: int = 100,
        interpolation: str = "linear",
        value_range: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        """Keep the parameters as they are given; `fit` checks them."""
        self.kernel = kernel
        self.noise = noise
        self.optimize = optimize
        self.normalize_y = normalize_y
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.preconditioner_rank = preconditioner_rank
        self.prediction = prediction
        self.n_bins = n_bins
        self.interpolation = interpolation
        self.value_range = value_range
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _task(self) -> Regression:
        return Regression(self.normalize_y)

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> HistogramGPRegressor:
        """Learn from samples and their targets.

        A failed or interrupted fit changes nothing, and other threads may go on predicting meanwhile. Of two fits of
        one estimator at the same time the one that ends last raises RuntimeError and is left out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of any sign with the kernel "auto"; intersection and chi-squared kernels take no negative ones.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Real targets.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight counts like so many equal samples: the noise of a sample is divided by it. Weight zero leaves it
            out.
        groups : array-like of shape (n_samples,), default=None
            Numbers or texts. Samples of one group are nearly the same, such as a picture and its copies that are turned
            or noisy: what is found by leaving samples out (kernel and noise if they are
            "auto", `Optimizer` with ``criterion="loo"``) leaves out
            whole groups, because a copy that stays would make predictions look too good. Samples that `partial_fit`
            adds are groups of their own.

        Returns
        -------
        self : HistogramGPRegressor
            The estimator itself.
        """
        return self._fit(X, y, sample_weight, groups)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> HistogramGPRegressor:
        """Learn from further samples: the model becomes that of a `fit` on all samples so far.

        What is known is used, so that it takes a fraction of the time. The kernel and the noise are ``kernel_`` and
        ``noise_``; with ``optimize``, or where "auto" leaves them to data, they are found anew every so often, see
        ``reoptimize_every`` of `Optimizer`. A failed or interrupted update changes nothing, and other threads may go on
        predicting meanwhile.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of any sign with the kernel "auto"; intersection and chi-squared kernels take no negative ones.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Real targets.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight counts like so many equal samples: the noise of a sample is divided by it. Weight zero leaves it
            out.

        Returns
        -------
        self : HistogramGPRegressor
            The estimator itself.
        """
        return self._partial_fit(X, y, sample_weight)

    def relabel(self, ids: Any, y: Any) -> HistogramGPRegressor:
        """Correct targets: the model becomes that of a `fit` with the new ones, with ``kernel_`` and ``noise_``.

        These are found anew when they are by `partial_fit`.

        Parameters
        ----------
        ids : int or array-like of int
            Which samples, by their numbers in ``ids_``.
        y : float or array-like of shape (len(ids),) or (len(ids), n_outputs)
            Their targets.

        Returns
        -------
        self : HistogramGPRegressor
            The estimator itself.
        """
        return self._relabel(ids, y)

    @reading
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Posterior means for each row of X, and how sure they are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.
        return_std : bool, default=False
            Whether to return standard deviations of an observation at each row, that is with the noise: the square
            root of ``predict_variance(X)``, which is a bound where the kernel matrix is in single precision.
        return_cov : bool, default=False
            Whether to return the covariance of observations at all rows, with the noise on its diagonal.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Posterior means, in the unit of the targets.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations; only if ``return_std``.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_outputs)
            Covariances of all pairs of rows; only if ``return_cov``.
        """
        if return_std and return_cov:
            raise ValueError("Give return_std or return_cov, not both: variances are the diagonal of the covariance.")
        mean = super().predict(X)
        unit = self._codec.unit
        if return_std:
            # In this order the squares of very large targets do not overflow.
            latent = self._latent_variance(self._test_rows(X), self._usual_method(), self._variance_options())
            deviation = np.sqrt(latent + self.noise_)
            deviation = deviation * unit if self._codec.is_vector else deviation[:, None] * unit
            return mean, deviation.astype(mean.dtype, copy=False)
        if return_cov:
            covariance = self._covariance(X, include_noise=True)
            covariance = covariance * unit**2 if self._codec.is_vector else covariance[:, :, None] * unit**2
            return mean, covariance.astype(mean.dtype, copy=False)
        return mean

    @reading
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, include_noise: bool = True) -> Array:
        """Draw targets from the posterior, jointly for all rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Samples to predict.
        n_samples : int, default=1
            How often to draw.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws; None draws anew each time.
        include_noise : bool, default=True
            Whether to draw observations rather than functions.

        Returns
        -------
        y_samples : ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            One draw for each place along the last axis.
        """
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number above 0; got {n_samples!r}.")
        mean = np.asarray(self.predict(X), np.float64)
        values, vectors = np.linalg.eigh(self._covariance(X, include_noise))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        shape = (*mean.shape, int(n_samples))
        normals = check_random_state(random_state).standard_normal((len(mean), int(np.prod(shape[1:]))))
        deviations = (root @ normals).reshape(shape)
        return mean[..., None] + deviations * np.asarray(self._codec.unit)[..., None]

    def _covariance(self, X: Any, include_noise: bool) -> Array:
        """Covariances of all pairs of rows of X, for targets in the unit of learning, (n, n)."""
        posterior = self._posterior.with_training()
        covariance = self._without_shortfall(posterior.covariance(self._test_rows(X), self._variance_options()))
        if include_noise:
            covariance[np.diag_indices_from(covariance)] += self.noise_
        return covariance
