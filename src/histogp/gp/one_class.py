"""Detection of samples unlike those seen."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from sklearn.base import OutlierMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from histogp._core.data import Array
from histogp._core.predictors import Inliers
from histogp._core.variance import METHODS
from histogp._estimator import reading
from histogp._sklearn import warning_once, with_callbacks
from histogp.gp._model import HistogramGP
from histogp.gp._tasks import OneClass


class HistogramGPOneClass(OutlierMixin, HistogramGP):
    """Detects samples that are unlike the training samples (gp-hik-uncertainty-accv2012, section 6.3).

    A Gaussian process learns that all training samples have the label 1; of a row unlike them it knows nothing: its
    variance stays high and its mean near zero.

    Parameters
    ----------
    kernel : "auto", another name or a kernel of `histogp.kernels`, default="auto"
        "auto" is a sum of a `Laplacian` and a `Gaussian` that need no search, with a weight for each feature that is
        inverse to how far its values are apart. Features may have any sign and unit.
        Other names are "hik", "hik-poly" and "hik-exp" for `HistogramIntersection` without a transform, with
        ``Power(eta=0.5)`` and with ``Exponential(eta=1.0)``, "chi2", "exp-chi2", "laplacian", "gaussian", "constant",
        and sums of these, "hik + laplacian".
    noise : "auto" or float, default="auto"
        Variance of the label noise. The smaller, the more a single similar training sample counts. "auto" is 0.3
        of the prior variance, that is 0.3 for the kernel "auto".
    criterion : {"variance", "mean", "ratio"}, default="variance"
        The score: minus the latent variance, the mean, or the mean divided by the standard deviation with noise.
    method : str, default="auto"
        How the variance is computed: "auto", "precise", "fine", "nearest", "coarse", "coarse-quantized", "sampled"
        or "calibrated", see `predict_variance`, which says what "auto" is.
    contamination : "auto" or float in (0, 0.5], default="auto"
        Where ``offset_`` lies. A number is the part of the training samples that count as outliers, as elsewhere in
        scikit-learn: right for finding outliers among them. A training sample is more like the training samples than
        any new one, so that many more of the new ones will count. For new samples take "auto", which judges each
        training sample by all the others, a weight like so many equal samples: one in twenty of new samples of the same
        kind counts as an outlier. It needs a variance that is no mere bound.
    solver : {"auto", "cg", "cholesky"}, default="auto"
        "auto" factorizes up to about 2,000 samples, up to 8,192 with a kernel of features, and with no more features
        than that; it iterates above.
    tol : float, default=1e-2
        The iteration ends when the largest residual is below ``tol``.
    max_iter : int, default=1000
        Iterations at most.
    preconditioner_rank : int or "auto", default="auto"
        "auto" takes the rank, possibly 0, with the lowest estimated cost.
    prediction : {"exact", "quantized"}, default="exact"
        How the mean is computed. "exact" searches the sorted training values, in time logarithmic in their number.
        "quantized" reads a table on a grid, in time independent of it; see `quantization_error_bound`. This and the
        next three parameters count when predicting: `set_params` changes them without another `fit`.
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
        Chooses the columns of the preconditioner, and whatever is drawn at random for variances. None draws anew each
        time.
    verbose : int, default=0
        1 reports stages, 2 also iterations.

    Attributes
    ----------
    offset_ : float
        Rows with a lower score are outliers.
    kernel_ : Kernel
        With the hyperparameters found.
    noise_ : float
        Variance of the label noise, given or found.
    feature_relevance_ : ndarray of shape (n_features,)
        The share of each feature in the prior variance of the training data, where equal samples count once.
    alpha_ : ndarray of shape (n_samples,)
        Weights of the training samples.
    ids_ : ndarray of shape (n_samples,)
        The numbers of the training samples, in the order of ``alpha_``: 0 is the first one that was ever given. They
        stay the same, and are not used again.
    approximation_ : dict
        The approximations of the kernel, each with the relative error of kernel values; empty if it is exact.
    kernel_shares_ : dict
        The share of each part of a `Sum` in the prior variance of the training samples, where equal ones count once;
        empty for one kernel.
    variance_error_ : float
        The relative error of the variance "calibrated", measured when it is first asked for; see `predict_variance`.
    n_iter_ : int
        Iterations; 1 for the dense solver.
    residual_ : ndarray of shape (1,)
        The relative residual reached, computed in float64.
    n_products_ : int
        Products of the kernel matrix with a vector.
    preconditioner_rank_ : int
        Rank of the preconditioner; 0 if there was none.
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
    >>> from histogp import HistogramGPOneClass
    >>> X = np.random.default_rng(0).dirichlet([5, 5, 1, 1], size=100)
    >>> HistogramGPOneClass().fit(X).predict([[0.4, 0.4, 0.1, 0.1], [0.0, 0.0, 0.5, 0.5]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **{name: value for name, value in HistogramGP._parameter_constraints.items() if name != "optimize"},
        "criterion": [StrOptions({"variance", "mean", "ratio"})],
        "method": [StrOptions({"auto", *METHODS})],
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
    }
    _prediction_parameters: ClassVar[tuple[str, ...]] = (*HistogramGP._prediction_parameters, "criterion", "method")

    _codec: Inliers

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        noise: Any = "auto",
        criterion: str = "variance",
        method: str = "auto",
        contamination: Any = "auto",
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
        self.criterion = criterion
        self.method = method
        self.contamination = contamination
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

    def _task(self) -> OneClass:
        return OneClass(self.criterion, self.method, self.contamination)

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> HistogramGPOneClass:
        """Learn what samples look like.

        A failed or interrupted fit changes nothing, and other threads may go on predicting meanwhile. Of two fits of
        one estimator at the same time the one that ends last raises RuntimeError and is left out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of any sign with the kernel "auto"; intersection and chi-squared kernels take no negative ones.
        y : ignored
            Not used; scikit-learn's pipelines pass it.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight counts like so many equal samples: the noise of a sample is divided by it. Weight zero leaves it
            out.
        groups : array-like of shape (n_samples,), default=None
            Numbers or texts. Samples of one group are nearly the same, such as a picture and its copies that are turned
            or noisy: what is found by leaving samples out (the threshold with
            ``contamination="auto"``) leaves out
            whole groups, because a copy that stays would make predictions look too good. Samples that `partial_fit`
            adds are groups of their own.

        Returns
        -------
        self : HistogramGPOneClass
            The estimator itself.
        """
        return self._fit(X, None, sample_weight, groups)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> HistogramGPOneClass:
        """Learn from further samples: the model becomes that of a `fit` on all samples so far.

        What is known is used, so that it takes a fraction of the time, but for ``offset_``, which is computed anew. A
        failed or interrupted update changes nothing, and other threads may go on predicting meanwhile.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of any sign with the kernel "auto"; intersection and chi-squared kernels take no negative ones.
        y : ignored
            Not used; scikit-learn's pipelines pass it.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight counts like so many equal samples: the noise of a sample is divided by it. Weight zero leaves it
            out.

        Returns
        -------
        self : HistogramGPOneClass
            The estimator itself.
        """
        return self._partial_fit(X, None, sample_weight)

    @warning_once()
    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Array:
        """Learn what samples look like, and return 1 for those like the others and -1 for outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of any sign with the kernel "auto"; intersection and chi-squared kernels take no negative ones.
        y : ignored
            Not used; scikit-learn's pipelines pass it.
        **options : dict
            For `fit`: ``sample_weight`` and ``groups``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            1 or -1 for each sample.
        """
        return super().fit_predict(X, y, **options)

    @reading
    def score_samples(self, X: Any) -> Array:
        """How much each row of X is like the training samples: the higher, the more.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            By ``criterion``; those of outliers are below ``offset_``.
        """
        rows = self._test_rows(X)
        return self._without_shortfall(self._task().scores(self._posterior, rows, self.noise_, self._options()))

    @reading
    def decision_function(self, X: Any) -> Array:
        """`score_samples` minus ``offset_``: negative for outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Above the threshold, or below it where they are negative.
        """
        scores = self._checked_scores(X)
        return scores - self.offset_

    @reading
    def predict(self, X: Any) -> Array:
        """1 for rows like the training samples and -1 for others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            1 or -1 for each sample.
        """
        scores = self._checked_scores(X)
        return self._codec.decode(scores)

    def _checked_scores(self, X: Any) -> Array:
        """Scores that the offset belongs to, (n,)."""
        scores = self.score_samples(X)
        if (self.criterion, self.method) != (self._codec.criterion, self._codec.method):
            raise ValueError("offset_ belongs to the criterion and method of the last fit: fit again after a change.")
        return scores
