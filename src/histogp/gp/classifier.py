"""Classification by label regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from histogp._classes import declared
from histogp._core.data import Array
from histogp._core.posterior import Posterior
from histogp._core.predictors import Classes
from histogp._core.probability import log_probabilities
from histogp._core.variance import VarianceOptions
from histogp._estimator import reading
from histogp._sklearn import with_callbacks
from histogp.gp._model import HistogramGP
from histogp.gp._tasks import Classification


class HistogramGPClassifier(ClassifierMixin, HistogramGP):
    """Exact Gaussian process classifier for histogram-like data, by label regression.

    A two-class problem is regression on labels -1 and +1; more classes are one such problem each,
    one against the rest, all solved together (gp-hik-ijcv2016, sections 3 to 5). Every training
    sample is used, memory is linear in the non-zeros. Samples with equal features are one row of the kernel matrix, so
    that limits on the number of samples are limits on the number of distinct ones.

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
        Variance of the label noise. "auto" is found together with the kernel, or alone for a kernel that is given; a
        search of ``optimize`` starts at 0.1.
    optimize : {"gradient", "bound", "exact", "loo"}, Optimizer or None, default=None
        Whether and how `fit` searches for hyperparameters of the kernel and noise that make the training data most
        likely, starting from those given, or from where "auto" starts; see `Optimizer`. None takes them as they are,
        and "auto" as said there.
    class_weight : dict, "balanced", "balanced-ovr" or None, default=None
        A dict or "balanced" as in scikit-learn: the noise of a sample is divided by the weight of
        its class. "balanced-ovr" is the papers' label-dependent noise: in each one-vs-rest output
        ``2 noise n_pos / n`` for the positive and ``2 noise n_neg / n`` for the negative samples,
        counted with their sample weights. A search for hyperparameters decides with one noise for all labels, to which
        these factors are applied afterwards.
    probability : {"link", "temperature", "dirichlet"}, default="link"
        How `predict_proba` comes to probabilities; counts when predicting. "link" is a softmax of
        ``t f + u log((1 + f) / 2)`` of the scores f, with t and u fitted to leave-one-out predictions of training
        samples; "temperature" has t alone. Equal samples are left out one by one if most samples of every class have
        no equal, or if labels differ about as often as is predicted, and otherwise, as copies, together. "dirichlet" is
        regression on the logarithms of Dirichlet variables (Milios et al., 2018), a second model with its own noise, so
        that its most probable class may be another one than that of `predict`.
    solver : {"auto", "cg", "cholesky"}, default="auto"
        "auto" factorizes up to about 2,000 samples, up to 8,192 with a kernel of features or with hundreds of classes,
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
    classes_ : ndarray of shape (n_classes,)
        Classes so far, sorted.
    kernel_ : Kernel
        With the hyperparameters found.
    noise_ : float
        Variance of the label noise, given or found.
    log_marginal_likelihood_, log_marginal_likelihood_error_ : float
        Of the training data at these hyperparameters, and its standard error: exact, estimated or a lower bound, as
        ``optimize`` says; NaN if the search saw some of the samples only (of kernels that are evaluated pair by pair
        2,000), another criterion or another noise ("balanced-ovr"), or if samples have changed since. Only after a
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
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Weights of the training samples; one column for two classes.
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
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from histogp import HistogramGPClassifier
    >>> X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    >>> clf = HistogramGPClassifier().fit(X_train, y_train)
    >>> clf.score(X_test, y_test) > 0.98
    True
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **HistogramGP._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced", "balanced-ovr"}), None],
        "probability": [StrOptions({"link", "temperature", "dirichlet"})],
    }
    _prediction_parameters: ClassVar[tuple[str, ...]] = (*HistogramGP._prediction_parameters, "probability")

    _codec: Classes

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        noise: Any = "auto",
        optimize: Any = None,
        class_weight: Any = None,
        probability: str = "link",
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
        self.class_weight = class_weight
        self.probability = probability
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

    def _task(self) -> Classification:
        return Classification(self.class_weight, self.probability)

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> HistogramGPClassifier:
        """Learn from samples and their labels.

        A failed or interrupted fit changes nothing, and other threads may go on predicting meanwhile. Of two fits of
        one estimator at the same time the one that ends last raises RuntimeError and is left out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of any sign with the kernel "auto"; intersection and chi-squared kernels take no negative ones.
        y : array-like of shape (n_samples,)
            Labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight counts like so many equal samples: the noise of a sample is divided by it. Weight zero leaves it
            out.
        groups : array-like of shape (n_samples,), default=None
            Numbers or texts. Samples of one group are nearly the same, such as a picture and its copies that are turned
            or noisy: what is found by leaving samples out (kernel and noise if they are
            "auto", `Optimizer` with ``criterion="loo"``, probabilities) leaves out
            whole groups, because a copy that stays would make predictions look too good. Samples that `partial_fit`
            adds are groups of their own.

        Returns
        -------
        self : HistogramGPClassifier
            The estimator itself.
        """
        return self._fit(X, y, sample_weight, groups)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> HistogramGPClassifier:
        """Learn from further samples: the model becomes that of a `fit` on all samples so far.

        What is known is used, so that it takes a fraction of the time. The kernel and the noise are ``kernel_`` and
        ``noise_``; with ``optimize``, or where "auto" leaves them to data, they are found anew every so often, see
        ``reoptimize_every`` of `Optimizer`. A failed or interrupted update changes nothing, and other threads may go on
        predicting meanwhile.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features of any sign with the kernel "auto"; intersection and chi-squared kernels take no negative ones.
        y : array-like of shape (n_samples,)
            Labels, also of classes not seen before; the first samples may all have one label.
        classes : array-like of shape (n_classes,), default=None
            Classes to know of, whether or not there are samples yet. They need not be given.
        sample_weight : array-like of shape (n_samples,), default=None
            A weight counts like so many equal samples: the noise of a sample is divided by it. Weight zero leaves it
            out.

        Returns
        -------
        self : HistogramGPClassifier
            The estimator itself.
        """
        return self._partial_fit(X, y, sample_weight, np.empty(0) if classes is None else declared(classes))

    def relabel(self, ids: Any, y: Any) -> HistogramGPClassifier:
        """Correct labels: the model becomes that of a `fit` with the new ones, with ``kernel_`` and ``noise_``.

        These are found anew when they are by `partial_fit`. A class whose last sample goes, goes too.

        Parameters
        ----------
        ids : int or array-like of int
            Which samples, by their numbers in ``ids_``.
        y : array-like of shape (len(ids),), or a label if there is one sample
            Their labels.

        Returns
        -------
        self : HistogramGPClassifier
            The estimator itself.
        """
        return self._relabel(ids, y)

    @reading
    def decision_function(self, X: Any) -> Array:
        """Posterior means of the latent functions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            A column for each class; for two classes the score of the second one alone, positive where it is predicted.
        """
        means, dtype = self._mean(X)
        return (means[:, 0] if self._codec.is_vector else means).astype(dtype, copy=False)

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities of the classes; each row sums to one.

        Unless ``probability="dirichlet"`` the most probable class is that of `predict`. What is needed is prepared
        when it is first asked for.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            With columns in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    @reading
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
            With columns in the order of ``classes_``.
        """
        rows = self._test_rows(X)
        options = self._variance_options()
        if len(self.classes_) == 1:
            return np.zeros((rows.n_rows, 1))
        if self.probability == "dirichlet":
            dirichlet = self._posterior.with_training().dirichlet(options)
            return np.log(self._without_shortfall(dirichlet.probabilities(rows, options)))
        found = self._without_shortfall(self._of_scores(self._posterior, options))
        means = self._mean_of(rows)
        return found.log_probabilities(means) if self.probability == "link" else log_probabilities(means, found)

    def _of_scores(self, posterior: Any, options: VarianceOptions) -> tuple[Any, str | None]:
        """What makes probabilities of scores: a link or a temperature; and a shortfall, or None."""
        return posterior.link(options) if self.probability == "link" else posterior.temperature(options)

    def _prepare(self, posterior: Posterior, codec: Any) -> None:
        if len(codec.classes) > 1 and self.probability != "dirichlet":
            self._say("solved again, without some samples that probabilities come from")
            self._without_shortfall(self._of_scores(posterior, self._variance_options()))

    @reading
    def novelty(self, X: Any, method: str = "auto") -> Array:
        """How little the training samples tell about each row of X: 0 all of it, 1 nothing.

        That is the variance of the latent function, as a share of what it would be without training samples, a
        constant part of the kernel aside. The labels do not matter.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.
        method : str, default="auto"
            One of `predict_variance`, which says what "auto" is.

        Returns
        -------
        novelty : ndarray of shape (n_samples,)
            The share of the prior variance that is left.
        """
        check_is_fitted(self)
        method = self._posterior.quick_method() if method == "auto" else method
        options = self._variance_options(method)
        rows = self._test_rows(X)
        prior = self._posterior.prior_variance(rows) - self._posterior.kernel.constant
        return np.minimum(self._latent_variance(rows, method, options) / np.where(prior > 0, prior, 1.0), 1.0)
