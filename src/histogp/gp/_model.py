"""The model behind the estimators: how it learns, goes on learning, and predicts; what it learns is a task."""

from __future__ import annotations

import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from histogp._core.data import Array, Rows, content_hash, number_added, number_rows
from histogp._core.layouts import Grid
from histogp._core.operators.contract import (
    Approximate,
    KernelOperator,
    Pairwise,
    Tables,
    approximation_of,
    require,
    tuning_of,
    updates_of,
)
from histogp._core.posterior import Posterior, PredictionOptions, condition
from histogp._core.predict_only import Predictor
from histogp._core.predictors import Codec
from histogp._core.search.leave_one_out import left_out_loss, promising_factor
from histogp._core.search.optimization import Row
from histogp._core.search.space import variance_of
from histogp._core.solvers.problem import Solution, SolverOptions
from histogp._core.threads import announce_compilation
from histogp._core.variance import METHODS, VarianceOptions
from histogp._estimator import number_of_threads, reading, updating, validate_features
from histogp._sklearn import CallbackSupportMixin, CaptionMixin, NoCallbacks, check_sample_weight, warn
from histogp.exceptions import ApproximationWarning, NotConvergedWarning, VarianceWarning
from histogp.gp import _model_file
from histogp.gp._decisions import (
    AUTO,
    LIKENESS_NOISE,
    START_NOISE,
    UNIT_SAMPLES,
    Decision,
    decide,
    left_open,
    likeness,
    number_of_nonzeros,
    search_keys,
    starting_kernels,
    suited_approximation,
    unusual_samples,
    with_unit,
)
from histogp.gp._tasks import Encoded, Samples, Task, numbered_groups
from histogp.gp._words import told_by
from histogp.gp.optimizer import (
    SEARCH_ATTRIBUTES,
    Optimizer,
    Tuned,
    as_optimizer,
    describe_evaluation,
    search_is_due,
    searches_left_out,
    searches_noise,
    tune,
)
from histogp.gp.posterior_view import PosteriorView
from histogp.io import schema
from histogp.kernels import Kernel
from histogp.kernels._base import ANY_SIGN_NAMES, Adapted, as_kernel, per_dimension


class HistogramGP(CaptionMixin, CallbackSupportMixin, BaseEstimator):
    """Base of the estimators: a Gaussian process on histogram-like data, for the task that `_task` makes."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "kernel": [str, Kernel],
        "noise": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "optimize": [None, StrOptions({"bound", "gradient", "exact", "loo"}), Optimizer],
        "solver": [StrOptions({"auto", "cg", "cholesky"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "preconditioner_rank": [StrOptions({"auto"}), Interval(Integral, 0, None, closed="left")],
        "prediction": [StrOptions({"exact", "quantized"})],
        "n_bins": [Interval(Integral, 1, 2**16, closed="both")],
        "interpolation": [StrOptions({"linear", "nearest"})],
        "value_range": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }
    # Those that count when predicting: they may change after `fit`, which has checked them as they were then.
    _prediction_parameters: ClassVar[tuple[str, ...]] = (
        *("prediction", "n_bins", "interpolation", "value_range"),
        *("solver", "tol", "max_iter"),
    )

    # Parameters
    kernel: str | Kernel
    noise: float | str
    optimize: str | Optimizer | None = None
    solver: Any
    tol: float
    max_iter: int
    preconditioner_rank: Any
    prediction: str
    n_bins: int
    interpolation: Any
    value_range: Any
    n_jobs: int | None
    random_state: Any
    verbose: int

    # What `fit` sets
    n_features_in_: int
    kernel_: Kernel
    noise_: float
    _codec: Codec
    _samples: Samples
    _fit_kernel: Kernel
    _fit_noise: float | str
    _left_open: str  # what was left to data: "all", "kernel", "noise" or nothing
    _posterior: Posterior | Predictor
    _since_search: tuple[int, int]  # samples changed since the last search, and samples that it saw

    def _task(self) -> Task[Any]:
        """What is learned, as the parameters say."""
        raise NotImplementedError

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones; a short name gives way to the object that it stands for.

        Parameters
        ----------
        **params : dict
            Values by the names of parameters; ``name__parameter`` reaches a parameter of a nested object.

        Returns
        -------
        self : estimator instance
            The estimator itself.
        """
        for name, make in (("kernel", as_kernel), ("optimize", as_optimizer)):
            if not any(key.startswith(f"{name}__") for key in params):
                continue
            given = params.get(name, getattr(self, name))
            if given is None or (isinstance(given, str) and given == AUTO):
                what = "None" if given is None else '"auto" is found by fit and'
                raise ValueError(f"{name}={what} has no parameters: set {name} to an object or a name first.")
            if isinstance(given, str):
                params = {**params, name: make(given)}
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        kernel = self.kernel
        names = {name.strip() for name in kernel.split("+")} if isinstance(kernel, str) else None
        any_sign = getattr(kernel, "_any_sign", False) if names is None else names <= {AUTO, *ANY_SIGN_NAMES}
        tags.input_tags.positive_only = not any_sign
        return tags

    @property
    def posterior_(self) -> PosteriorView:
        """A `PosteriorView` of what was learned: for code that builds on means, variances and training samples.

        Returns
        -------
        posterior : PosteriorView
            A view of the present state.
        """
        check_is_fitted(self)
        return PosteriorView(self)

    @reading
    def in_words(self) -> str:
        """What was found, in words: what the kernel sees, the noise, which features count, what is approximated.

        What a model that was saved without its training samples does not know is left out.

        Returns
        -------
        sentence : str
            For instance "mostly interactions (Laplacian .6, Gaussian .3), noise .08, 14 of 64 features carry half the
            weight". Numbers in parentheses are ``kernel_shares_``, the weight of features is ``feature_relevance_``.
        """
        check_is_fitted(self)
        return told_by(self)

    def forget(self, ids: Any, keep_decisions: bool = False) -> Self:
        """Take training samples back: the model becomes that of a `fit` without them, with kernel and noise as below.

        A class whose last sample goes, goes too. A kernel and a noise that were left to data, as "auto", are found
        again, so that nothing of the samples is left in them. What ``optimize`` has found, and units, points or
        landmarks of a kernel that is given, are found anew now and then only, as by `partial_fit`: fit again to have
        nothing of the samples in them.

        Parameters
        ----------
        ids : int or array-like of int
            Which, by their numbers in ``ids_``.
        keep_decisions : bool, default=False
            Whether ``kernel_`` and ``noise_`` stay as they are, which takes less time; they may still tell something
            of the samples.

        Returns
        -------
        self : estimator instance
            The estimator itself.
        """
        check_is_fitted(self)
        with updating(self) as changed:
            index = changed._index_of(ids)
            kept = np.ones(len(changed._samples.ids), bool)
            kept[index] = False
            encoded = changed._task().forget(changed._codec, changed._samples, kept)
            if keep_decisions:
                self._say("kernel and noise are kept")
            changed._change(encoded, len(index), "keep" if keep_decisions else "again")
        return self

    @reading
    def predict(self, X: Any) -> Array:
        """What the posterior means at each row of X say: labels of classes, or values.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels of a classifier; values of a regressor, in several columns if there were several targets.
        """
        means, dtype = self._mean(X)
        return self._codec.decode(means, dtype)

    @reading
    def predict_variance(
        self,
        X: Any,
        method: str | None = None,
        include_noise: bool = True,
        *,
        n_eigenvectors: Any = 8,
        n_samples: int = 256,
        tol: float | None = None,
        per_class: bool = False,
    ) -> Array:
        """The posterior variance at each row of X: how far a new observation may be from the predicted mean.

        It depends on where the training samples are, not on their labels, and is the same for all classes and
        outputs, up to the scale of the latter. With ``class_weight="balanced-ovr"`` each class has its own noise; the
        result is then the variance for the largest noise of every sample, which bounds those of all classes, unless
        ``per_class`` asks for them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples to predict.
        method : str or None, default=None
            None is "precise", or "nearest" for a kernel matrix in single precision. For "precise" that is made again,
            half a minute or more, and stays in memory until the next fit or update.
            Times are for 10,000 training samples with 1,000 sparse features. What a method needs is prepared once, when
            it is first used; that of "coarse-quantized", "sampled" and "calibrated" goes into all files saved after
            that, of "fine" into those with training samples. "coarse", "coarse-quantized" and "sampled" need an
            intersection kernel.

            - "auto": "calibrated" where there are tables and more than 2,000 training samples, "nearest" for a kernel
              matrix in single precision, otherwise "precise".
            - "precise" (PUP in gp-hik-ijcv2016): solves one system for each row, in blocks; milliseconds. Never too
              small; too large by at most the squared norm of the residual over the smallest noise.
            - "fine" (FAPU): a bound from above by ``n_eigenvectors`` leading eigenvectors; a tenth of a millisecond,
              in proportion to the number of training samples.
            - "nearest": a bound from above, the variance given no others than the 512 training samples that explain
              most of a row each. With noise it is mostly a few percent too large; without noise it can be several times
              as large where many samples say a little each, with smooth kernels on few features and little noise. Some
              milliseconds.
            - "coarse" (CAPU, or RAPU in the paper of 2012): a bound from the largest eigenvalue and sorted columns;
              microseconds. Far above the variance for most data; its order is what counts.
            - "coarse-quantized" (q-CAPU): the same from a table; less than a microsecond.
            - "sampled": the mean square of ``n_samples`` posterior draws in tables; microseconds, whatever the number
              of training samples. With a relative error of ``sqrt(2 / n_samples)``, and no bias but that of tables
              with 64 nodes a feature: none for counts, one in a hundred where the noise is not tiny.
            - "calibrated": tables combined by weights that fit exact leave-one-out variances of a few training samples;
              microseconds, whatever the number of training samples. ``variance_error_`` is its relative error for new
              rows like those of training; a training row itself has less variance than that. Below 256 training
              samples it is "precise".
        include_noise : bool, default=True
            Whether to add ``noise_``: the variance of an observation rather than of the latent function.
        n_eigenvectors : int or sequence of int, default=8
            For "fine". Several numbers give a column each, from one decomposition.
        n_samples : int, default=256
            For "sampled".
        tol : float or None, default=None
            For "precise": the residual of each system, relative to its right-hand side. The error of the variance
            is of the order of its square. None is 1e-4, or the estimator's own ``tol`` if that is smaller.
        per_class : bool, default=False
            For "precise": a column for each class or output, one for two classes.

        Returns
        -------
        variance : ndarray of shape (n_samples,) or (n_samples, n_columns)
            With a column for each output of a regressor that has several, for each number in ``n_eigenvectors`` if
            there are several, or for each class or output with ``per_class``.
        """
        rows = self._test_rows(X)
        if method is None or (per_class and method == "auto"):
            method = "precise" if per_class else self._usual_method()
        elif method == "auto":
            method = self._posterior.quick_method()
        options = self._variance_options(method, n_eigenvectors, n_samples, tol)
        if per_class:
            if method != "precise":
                raise ValueError('per_class=True needs method="precise"; the other methods have one variance for all.')
            latent = self._without_shortfall(self._posterior.with_training().variance_per_output(rows, options))
        else:
            latent = self._latent_variance(rows, method, options)
        return self._in_units(latent + (self.noise_ if include_noise else 0.0), per_class)

    @property
    @reading
    def kernel_shares_(self) -> dict[str, float]:
        """The share of each part of a `Sum` in the prior variance of distinct samples; empty for one kernel.

        Returns
        -------
        shares : dict of float
            By the names of the parts; they sum to one.
        """
        check_is_fitted(self)
        operator = self._posterior.with_training().operator
        found = operator.kernel.variance_by_part(updates_of(operator).training_rows())
        total = sum(found.values()) or 1.0  # zero if all samples are
        return {name: value / total for name, value in found.items()}

    @property
    @reading
    def approximation_(self) -> dict[str, float]:
        """The approximations of the kernel, each with the relative error of kernel values; empty if it is exact.

        "nystroem" and "fourier" are those of a kernel's ``approximation``, "float32" a matrix in single precision,
        "expansion" the features of `Chi2`.

        Returns
        -------
        approximations : dict of float
            Relative errors by the names of approximations.
        """
        check_is_fitted(self)
        operator = self._posterior.with_training().operator
        name = approximation_of(operator)
        return {} if name is None else {name: require(operator, Approximate, "An error").approximation_error()}

    @property
    @reading
    def variance_error_(self) -> float:
        """The relative error of the variance "calibrated": the root mean square over left-out training samples.

        Computed when it is first asked for; zero below 256 training samples, where this variance is precise.

        Returns
        -------
        error : float
            In proportion to the variance.
        """
        check_is_fitted(self)
        return self._without_shortfall(self._posterior.calibration_error(self._variance_options()))

    @reading
    def log_marginal_likelihood(
        self,
        kernel: Any = None,
        noise: float | None = None,
        method: str = "auto",
        *,
        bound: Any = "tightest",
        n_probes: int | None = None,
        max_error: float | None = None,
        return_error: bool = False,
    ) -> Any:
        """The logarithm of the marginal likelihood of the training data, summed over classes or outputs.

        For a regressor with ``normalize_y`` that of the normalized targets.

        Parameters
        ----------
        kernel : str, Kernel or None, default=None
            None is the fitted ``kernel_``.
        noise : float or None, default=None
            None is the fitted ``noise_``.
        method : {"auto", "exact", "bound", "quadrature"}, default="auto"
            - "exact": by a dense factor, in time cubic in the number of samples.
            - "bound": a value that the likelihood does not fall below, in time linear in the non-zeros.
            - "quadrature": an estimate with a standard error, in a few times the time of a fit.
            - "auto": "exact" up to 2,000 distinct samples, then "quadrature".

            A weight divides the noise of its sample; what copies would add beyond that is not in the value.
        bound : {"tightest", "fischer", "papers"}, default="tightest"
            For the method "bound": that of the papers, Fischer's, or the better of the two.
        n_probes : int or None, default=None
            Random probes of the quadrature; None takes as many as fill the blocks of a product.
        max_error : float or None, default=None
            Take more probes until the standard error of the quadrature is no larger.
        return_error : bool, default=False
            Whether to return the standard error as well; zero for the other methods.

        Returns
        -------
        value : float
            The natural logarithm, summed over classes or outputs.
        error : float
            Its standard error; only if ``return_error``.
        """
        check_is_fitted(self)
        announce_compilation()
        posterior = self._posterior.with_training()
        for name, value, lowest in (("noise", noise, 0), ("max_error", max_error, 0), ("n_probes", n_probes, 1)):
            if value is not None and not (isinstance(value, Real) and lowest < value < np.inf):
                raise ValueError(f"{name} must be a number above {lowest}; got {value!r}.")
        other = None
        if kernel is not None:
            rows = updates_of(posterior.operator).training_rows()
            other = as_kernel(kernel)._adapt(rows, posterior.targets, self.noise_).value
        found = posterior.log_likelihood(
            other,
            1.0 if noise is None else float(noise) / self.noise_,
            method,
            self._solver_options(),
            check_random_state(self.random_state).randint(2**31),
            bound=bound,
            n_probes=None if n_probes is None else int(n_probes),
            max_error=max_error,
        )
        if max_error is not None and found.error > max_error:
            warn(
                f"The standard error is {found.error:.2g} after as many probes as make sense, above {max_error:g}.",
                NotConvergedWarning,
            )
        return (found.value, found.error) if return_error else found.value

    @reading
    def quantization_error_bound(self, kind: Any = "auto") -> Any:
        """How far quantized scores, or predictions of a regressor, can be from exact ones, whatever the sample.

        Let a height be ``w_d g(x_d)``, e_d the largest distance between a height in dimension d and its
        nearest node, and alpha the weights of one output.

        Parameters
        ----------
        kind : {"auto", "worst-case", "linear", "assumption-free", "theorem", "a-priori"}, default="auto"
            - "worst-case": the largest error of all possible samples, found exactly when the table is made.
              Assumes linear interpolation.
            - "linear": ``sum_d max_bins width / 4 sum_(i in bin) |alpha_i|``. Assumes linear interpolation.
            - "assumption-free": ``sum_d e_d ||alpha||_1``. Assumes nothing; holds for both interpolations.
            - "theorem": ``D max(e) / 2 ||alpha||_1``, theorem 1 of gp-hik-ijcv2016. Assumes the nearest
              node, and that a row's heights have the same sum after rounding to the nodes, which
              L1-normalized rows have on average only.
            - "a-priori": theorem 1 with ``N / noise`` in place of ``||alpha||_1`` (eq. 13; here
              ``sqrt(N) ||y|| / noise``, the same for labels -1 and +1). Assumes the same.
            - "auto": "worst-case" for linear interpolation, "assumption-free" for the nearest node.

        Returns
        -------
        bound : float or ndarray of shape (n_outputs,)
            In the unit of scores or predictions; one for each class or output if there are several.
        """
        check_is_fitted(self)
        self._check_prediction()
        if kind == "auto":
            kind = "worst-case" if self.interpolation == "linear" else "assumption-free"
        bounds = self._posterior.quantized(self._grid()).error_bound(kind) * self._codec.unit
        return float(bounds[0]) if self._codec.is_vector else bounds

    @reading
    def save(self, path: Any, include_training: bool = True) -> None:
        """Write the fitted model to a file without code, which `histogp.load` reads.

        The file takes the place of an older one as a whole or not at all.

        Parameters
        ----------
        path : str or path-like
            By custom with the ending ``.histogp``.
        include_training : bool, default=True
            Whether the training samples go into the file. Without them it is small and the model only
            predicts, with ``prediction="quantized"``, the kernel "chi2", or one with an approximation. Of kernels that
            are evaluated pair by pair, such as `Laplacian`, such a file still has those samples that predictions are
            made from, rounded, and these may be all of them.
        """
        check_is_fitted(self)
        schema.save(self, path, include_training=bool(include_training))

    def _to_state(self, writer: schema.Writer, include_training: bool = True) -> None:
        """Write what was learned, with or without the training samples, into a model file."""
        _model_file.to_state(self, writer, include_training)

    @classmethod
    def _from_state(cls, reader: schema.Reader) -> Self:
        """The estimator in a model file; believes nothing."""
        return _model_file.from_state(cls, reader)

    # Learning

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Self:
        """Learn from scratch, all or nothing."""
        # On self, not on its copy: scikit-learn clears up there, also after a failure.
        context = self._init_callback_context(max_subtasks=self.max_iter if self.optimize is None else None)
        with updating(self) as changed:
            changed._learn(X, y, sample_weight, None, context, groups)
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, declared: Array | None = None) -> Self:
        """Learn from further samples, all or nothing; ``declared`` are classes that need no samples."""
        with updating(self) as changed:
            if hasattr(changed, "_posterior"):
                changed._learn_more(X, y, sample_weight, declared)
            else:
                changed._learn(X, y, sample_weight, declared, NoCallbacks())
        return self

    def _relabel(self, ids: Any, y: Any) -> Self:
        """Learn other labels of some samples, all or nothing; the task says what they come to."""
        check_is_fitted(self)
        with updating(self) as changed:
            task: Any = changed._task()
            index = changed._index_of(ids)
            changed._change(task.relabel(changed._codec, changed._samples, index, y), len(index))
        return self

    def _learn(
        self, X: Any, y: Any, sample_weight: Any, declared: Array | None, context: Any, groups: Any = None
    ) -> None:
        """Learn from scratch and set the fitted attributes; ``context`` is that of scikit-learn's callbacks."""
        task = self._task()
        any_sign = self.kernel == AUTO or as_kernel(self.kernel)._any_sign
        X, y = validate_features(self, X, reset=True, y=y, any_sign=any_sign, **task.y_checks)
        encoded = task.encode_first(y, check_sample_weight(sample_weight, X), declared)
        if not encoded.kept.all():
            X, y = X[encoded.kept], None if y is None else y[encoded.kept]
        announce_compilation()
        numbered = number_rows(X, number_of_threads(self.n_jobs))
        group_of = None if groups is None else numbered_groups(groups, encoded.kept, numbered.row_of)
        samples = replace(encoded.samples, row_of=numbered.row_of, hashes=numbered.hashes, group_of=group_of)
        encoded = replace(encoded, samples=samples)
        metadata = {"sample_weight": encoded.samples.weights}
        of_fit = {"estimator": self, "X": X, "y": y, "metadata": metadata}
        context.call_on_fit_task_begin(**of_fit)
        distinct = X if len(numbered.first) == X.shape[0] else X[numbered.first]
        self._left_open = left_open(self.kernel, self.noise) if AUTO in (self.kernel, self.noise) else ""
        self._fit_kernel = as_kernel("hik" if self.kernel == AUTO else self.kernel)
        self._fit_noise = self.noise
        self._learn_rows(encoded, distinct, context, of_fit)

    def _learn_rows(self, encoded: Encoded[Any], X: Any, context: Any, of_fit: dict[str, Any]) -> None:
        """Learn from the distinct rows of encoded samples, an array or CSR, and set the fitted attributes.

        of_fit : what scikit-learn's callbacks are told
        """
        task, n_samples = self._task(), len(encoded.samples.ids)
        decision = (
            self._decide(task, encoded, X) if self._left_open else Decision(self._fit_kernel, float(self._fit_noise))
        )
        problem = task.problem(encoded, decision.noise)
        adapted = clone(decision.kernel)._adapt(X, problem.row_targets, decision.noise)
        operator = adapted.kernel._operator(adapted.value, X, number_of_threads(self.n_jobs))
        if self.prediction == "quantized" and operator.offer(Pairwise) is None:
            require(operator, Tables, 'prediction="quantized"')
        seed = int(check_random_state(self.random_state).randint(2**31))
        rng = np.random.default_rng(seed)
        options = self._solver_options()
        of_them = f" ({operator.n_samples} distinct)" if operator.n_samples < n_samples else ""
        n_outputs = problem.targets.shape[1]
        self._say(f"{n_samples} samples{of_them}, {operator.n_features} features, {n_outputs} outputs sorted")

        def after(step: str, message: str, level: int, **state: Any) -> bool:
            self._say(message, level)
            task_context = context.subcontext(task_name=step)
            task_context.call_on_fit_task_begin(**of_fit)
            return task_context.call_on_fit_task_end(**of_fit, **state)

        if self.optimize is None or not self._searches:
            if adapted.value.learns_weights:
                raise ValueError(
                    'weights="ard" are learned from the data: give optimize="gradient", or numbers as weights.'
                )
            tuned = Tuned(adapted.kernel, float(adapted.noise), operator, problem, path=decision.path)
        else:
            tuned = tune(
                self.optimize,
                adapted.kernel,
                adapted.noise,
                operator,
                problem,
                options,
                rng,
                lambda row: after("evaluation", describe_evaluation(row), 1),
                is_classification=task.is_classification,
            )

        def state(codec: Codec, alpha: Array, residual: float) -> dict[str, Any]:
            posterior = Posterior(tuned.operator, tuned.given, alpha, residual, seed)
            found = {"kernel_": tuned.kernel, "noise_": tuned.noise_value, "_codec": codec, "_posterior": posterior}
            return {**found, **codec.attributes()}

        keeps = decision.left_out is not None or tuned.operator.has_large_matrix
        posterior, solution = condition(
            tuned.operator,
            tuned.given,
            options,
            rng,
            seed=seed,
            start=tuned.alpha,
            callback=lambda iteration, residuals, present: after(
                "iteration",
                f"iteration {iteration}: residual {residuals.max():.2e} (target {self.tol:g})",
                2,
                reconstruction_attributes=lambda: state(encoded.codec, present(), residuals.max()),
            ),
            keep=keeps,
        )
        if decision.left_out is not None:
            tuned, posterior, solution = self._with_tried_noise(task, decision.left_out, tuned, posterior, solution)
        if posterior.operator.has_large_matrix:
            self._prepare(posterior, encoded.codec)
        if keeps:
            posterior = posterior.without_system()
        for name in SEARCH_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self._set_fitted(task, encoded, tuned, posterior, solution, (0, n_samples))
        fitted = lambda: state(self._codec, posterior.alpha, posterior.residual)  # noqa: E731
        context.call_on_fit_task_end(**of_fit, reconstruction_attributes=fitted)

    @property
    def _searches(self) -> bool:
        """Whether `optimize` searches; not where leaving kernel and noise to data means the same."""
        return self.optimize is not None and not (self._left_open == "all" and searches_left_out(self.optimize))

    def _decide(self, task: Task[Any], encoded: Encoded[Any], X: Any) -> Decision:
        """The kernel and the noise that the parameters name; what they leave to data is found on some rows of X."""
        start = START_NOISE if task.has_labels else LIKENESS_NOISE
        noise = start if self._left_open in ("all", "noise") else float(self._fit_noise)
        given = task.problem(encoded, noise).searched
        hashes = content_hash(X) if encoded.samples.hashes is None else encoded.samples.hashes
        keys = search_keys(X, hashes)
        in_order = np.argsort(keys)
        unusual = unusual_samples(X, in_order[:UNIT_SAMPLES])
        kernels: list[Kernel] = [self._fit_kernel]
        if self._left_open != "noise":
            scale, mean_square = 1.0, 1.0
            if not task.is_classification:
                targets, scatter = given.row_targets[in_order], given.row_scatter
                scatter = None if scatter is None else scatter[in_order]
                scale = variance_of(targets, given.row_weights[in_order], scatter)
                mean_square = float(np.mean(targets**2)) or 1.0
            approximation = self._suited_approximation(task, encoded, X.shape[0], number_of_nonzeros(X))
            kernels = list(starting_kernels(X, scale, unusual, mean_square, approximation))
            if self._left_open == "all":
                noise, given = noise * scale, given.scaled(scale)
        if not task.has_labels:
            some = X[in_order[~unusual[in_order]][:UNIT_SAMPLES]]
            noise *= 1.0 if self._left_open == "kernel" else given.mean_weight
            return (with_unit if self._left_open == "noise" else likeness)(kernels[0], noise, some)
        optimize = self.optimize
        if optimize is not None and self._searches and (self._left_open == "kernel" or searches_noise(optimize)):
            return Decision(kernels[0], noise)

        def report(row: Row) -> bool:
            self._say(describe_evaluation(row))
            return False

        return decide(
            kernels,
            noise,
            X,
            given,
            keys,
            unusual,
            finds=self._left_open,
            is_classification=task.is_classification,
            n_threads=number_of_threads(self.n_jobs),
            report=report,
        )

    def _suited_approximation(self, task: Task[Any], encoded: Encoded[Any], n_rows: int, n_nonzeros: int) -> str:
        """How the kernel is approximated that is found for so many distinct rows, if it is."""
        if not task.is_classification or encoded.samples.group_of is not None or self.solver == "cholesky":
            return "auto"
        return suited_approximation(n_rows, n_nonzeros, encoded.codec.n_outputs)

    def _with_tried_noise(
        self, task: Task[Any], left_out: Array, tuned: Tuned, posterior: Posterior, solution: Solution
    ) -> tuple[Tuned, Posterior, Solution]:
        """What was solved, or the same with another noise, if rows that are left out of all say that it is better."""
        options, is_classification = self._solver_options(), task.is_classification
        factor, loss = promising_factor(posterior, left_out, options, is_classification=is_classification)
        if factor != 1.0:
            other = posterior.with_noise_times(factor, options)
            found = left_out_loss(other[0], left_out, options, is_classification=is_classification)
            self._say(f"noise {tuned.noise_value * factor:.4g}: loss {found:.1f} of left-out samples after {loss:.1f}")
            if found < loss:
                tuned = replace(tuned, noise_value=tuned.noise_value * factor, given=other[0].given)
                posterior, solution = other
        return tuned, posterior, solution

    def _is_decided_again(self, n_changed: int, forgets: bool) -> bool:
        """Whether an update decides anew what was left to data: when samples go, and now and then."""
        if not self._left_open or forgets:
            return bool(self._left_open)
        if self._left_open == "noise" and self.optimize is not None:
            return False  # a search starts from the kernel and the noise that it has found
        since, n_searched = self._since_search
        return search_is_due(self.optimize or Optimizer(), since + n_changed, n_searched)

    def _learn_more(self, X: Any, y: Any, sample_weight: Any, declared: Array | None) -> None:
        """Learn from further samples and set the fitted attributes."""
        task = self._task()
        X, y = validate_features(self, X, reset=False, y=y, any_sign=self.kernel_._any_sign, **task.y_checks)
        posterior = self._posterior.with_training()
        encoded = task.extend(self._codec, self._samples, y, check_sample_weight(sample_weight, X), declared)
        rows = Rows.from_array(X if encoded.kept.all() else X[encoded.kept], number_of_threads(self.n_jobs))
        updates, hashes = updates_of(posterior.operator), self._samples.hashes
        hashes = content_hash(updates.training_rows()) if hashes is None else hashes
        numbered = number_added(rows, hashes, updates.training_rows)
        added = rows if len(numbered.first) == rows.n_rows else rows.take(numbered.first)
        encoded = encoded.placed(numbered)
        n_rows = posterior.operator.n_samples + added.n_rows
        is_outgrown = self._left_open in ("all", "kernel") and self.kernel_.approximation != self._suited_approximation(
            task, encoded, n_rows, posterior.operator.n_nonzeros + len(added.values)
        )
        if is_outgrown or self._is_decided_again(rows.n_rows, forgets=False):
            self._learn_again(encoded, updates.training_rows().followed_by(added))
        else:
            operator = updates.extend(added) if added.n_rows else posterior.operator
            alpha = np.concatenate([posterior.alpha, np.zeros((added.n_rows, posterior.alpha.shape[1]))])
            self._resume(encoded, operator, added, alpha, rows.n_rows)

    def _change(self, encoded: Encoded[Any], n_changed: int, decide: str = "due") -> None:
        """Learn from the samples that are kept of the present ones, perhaps with other labels.

        decide : when what was left to data is decided anew: "due" when enough has changed, "again" now, or "keep" for
            not at all, and no search either
        """
        posterior = self._posterior.with_training()
        operator, alpha = posterior.operator, posterior.alpha
        kept = np.isin(np.arange(operator.n_samples), self._samples.row_of[encoded.kept])
        left = operator if kept.all() else updates_of(operator).remove(np.flatnonzero(~kept))
        if decide != "keep" and self._is_decided_again(n_changed, forgets=decide == "again"):
            self._learn_again(encoded, updates_of(left).training_rows())
        elif kept.all():
            none = Rows.from_array(np.empty((0, operator.n_features)))
            self._resume(encoded, operator, none, alpha, n_changed, keep=decide == "keep")
        else:
            self._resume(encoded, left, None, alpha[kept], n_changed, keep=decide == "keep")

    def _learn_again(self, encoded: Encoded[Any], rows: Rows) -> None:
        """Learn from samples with these distinct rows as `fit` does, with all decisions."""
        before = self._posterior.operator
        is_sparse = 2 * len(rows.values) < rows.n_rows * rows.n_columns
        self._learn_rows(encoded, rows.to_csr() if is_sparse else rows.to_dense(), NoCallbacks(), {})
        self._announce_approximation(before, self._posterior.operator)

    def _resume(
        self,
        encoded: Encoded[Any],
        operator: KernelOperator,
        added: Rows | None,
        alpha: Array,
        n_changed: int,
        keep: bool = False,
    ) -> None:
        """Learn from changed samples, starting from what is known.

        operator : of the rows of the changed samples
        added : rows after the old ones; None if rows were removed
        alpha : the present solution at the rows, (n_rows, M) with the present outputs
        keep : whether kernel and noise stay as they are
        """
        announce_compilation()
        task, before = self._task(), self._posterior.with_training()
        options = self._solver_options()
        operator = operator.with_threads(options.n_threads)
        problem = task.problem(encoded, self.noise_)
        start = task.warm_start(alpha, self._codec, encoded.codec, problem.noise.n_matrices == 1)
        kernel = self.kernel_
        adapted = None if keep else self._adapt_again(operator, problem.row_targets, before.operator.n_samples)
        if adapted is not None:
            kernel, operator, added = adapted.kernel, tuning_of(operator).with_kernel(adapted.value), None
        tuned = Tuned(kernel, self.noise_, operator, problem)
        rng = np.random.default_rng(before.seed)
        since_search = (self._since_search[0] + n_changed, self._since_search[1])
        if self.optimize is not None and not keep and search_is_due(self.optimize, *since_search):
            tuned = self._search_again(self.optimize, tuned, rng)
            since_search = (0, len(encoded.samples.ids))
        elif hasattr(self, "log_marginal_likelihood_"):  # of other samples
            self.log_marginal_likelihood_ = self.log_marginal_likelihood_error_ = np.nan
        self._announce_approximation(before.operator, operator)
        if tuned.path is None and added is not None:
            posterior, solution = before.updated(operator, added, problem, options, start)
        else:
            posterior, solution = condition(
                tuned.operator,
                tuned.given,
                options,
                rng,
                seed=before.seed,
                start=start if tuned.alpha is None else tuned.alpha,
                keep=True,
            )
        if posterior.operator.has_large_matrix:
            self._prepare(posterior, encoded.codec)
        self._set_fitted(task, encoded, tuned, posterior, solution, since_search)

    def _announce_approximation(self, before: KernelOperator, after: KernelOperator) -> None:
        """Say so, if an update has made an approximation of an exact kernel, or the other way round."""
        name = approximation_of(after)
        if name != approximation_of(before):
            what = "exact" if name is None else f"approximated ({name})"
            of_them = f"{after.n_samples:,} distinct training samples"
            warn(f"With {of_them} the kernel is {what} from now on.", ApproximationWarning)

    def _adapt_again(self, operator: KernelOperator, targets: Array, n_before: int) -> Adapted | None:
        """The kernel with what it takes from the samples taken again, as long as they were few."""
        given = self._given_kernel()
        if self._left_open in ("all", "kernel") and self.optimize is None:
            return None  # between decisions
        if not given._adapts_again(n_before, operator.n_samples):
            return None
        return self.kernel_._left_open(given, searched=self.optimize is not None)._adapt_to(
            operator, targets, self.noise_
        )

    def _given_kernel(self) -> Kernel:
        """The kernel that `fit` was given: one that was set since then counts from the next fit on.

        A file has the parameters of the day; if these are of another kind, nothing is left open.
        """
        is_alike = self._fit_kernel.get_params().keys() == self.kernel_.get_params().keys()
        return self._fit_kernel if is_alike else as_kernel(self.kernel_)

    def _search_again(self, optimize: str | Optimizer, present: Tuned, rng: np.random.Generator) -> Tuned:
        """Search for hyperparameters from those that were found before."""
        kernel, value = present.kernel._to_search(self._given_kernel(), present.operator.kernel)

        def report(row: Row) -> bool:
            self._say(describe_evaluation(row))
            return False

        return tune(
            optimize,
            kernel,
            present.noise_value,
            tuning_of(present.operator).with_kernel(value),
            present.given,
            self._solver_options(),
            rng,
            report,
            is_classification=self._task().is_classification,
            warm=True,
            atomic=True,
        )

    def _set_fitted(
        self,
        task: Task[Any],
        encoded: Encoded[Any],
        tuned: Tuned,
        posterior: Posterior,
        solution: Solution,
        since_search: tuple[int, int],
    ) -> None:
        """Set the fitted attributes."""
        self._say(f"solved: {solution.n_iterations} iterations, preconditioner rank {solution.rank}")
        if not (solution.converged or solution.stopped_by_callback):
            warn(
                f"The solver stopped after {solution.n_iterations} iterations with a relative residual of "
                f"{solution.relative_residuals.max():.1e}, above the target tol={self.tol:g}; raise max_iter, tol or "
                "noise, or give a larger preconditioner_rank.",
                NotConvergedWarning,
            )
        self.kernel_ = tuned.kernel
        self.noise_ = tuned.noise_value
        codec, shortfall = task.complete_codec(encoded, posterior, self.noise_, self._options)
        posterior.operator.release()
        if shortfall is not None:
            warn(shortfall, VarianceWarning)
        self._install(posterior, codec, encoded.samples)
        self.feature_relevance_ = posterior.operator.relevance()
        self.n_samples_ = len(encoded.samples.ids)
        self.n_nonzeros_ = posterior.operator.n_nonzeros
        self.n_iter_ = solution.n_iterations
        self.residual_ = solution.relative_residuals
        self.n_products_ = solution.n_products
        self.preconditioner_rank_ = solution.rank
        self._since_search = since_search
        if tuned.path is not None:
            self.__dict__.update(tuned.attributes())
        if self.verbose:
            self._say(self.in_words())

    def _prepare(self, posterior: Posterior, codec: Codec) -> None:
        """Make what predictions need of a costly kernel matrix, before that is released."""

    def _install(self, posterior: Any, codec: Codec, samples: Samples | None = None) -> None:
        """Predict with this posterior from now on, and learn further if there are the samples."""
        self._posterior, self._codec = posterior, codec
        self.__dict__.update(codec.attributes())
        if samples is None:
            return
        self._samples = samples
        given = posterior.given
        alpha = posterior.alpha if given.row_of is None else given.sample_alpha(posterior.alpha)
        self.alpha_ = alpha[:, 0] if codec.is_vector else alpha[:]
        self.ids_ = samples.ids[:]
        for view in (self.alpha_, self.ids_):
            view.flags.writeable = False  # the model goes on using them

    def _refitted(self, kernel: Kernel, noise: float) -> Self:
        """A copy with another kernel and noise, solved for the same samples."""
        before = self._posterior.with_training()
        adapted = kernel._adapt_to(before.operator, before.targets, noise)
        operator = tuning_of(before.operator).with_kernel(adapted.value)
        seed = int(check_random_state(self.random_state).randint(2**31))
        rng = np.random.default_rng(seed)
        given = before.given.scaled(noise / self.noise_)
        posterior, _ = condition(operator, given, self._solver_options(), rng, seed=seed)
        other = copy.copy(self)
        other.kernel_, other.noise_ = adapted.kernel, noise
        other._install(posterior, self._codec, self._samples)
        return other

    # What there is to learn from

    def _index_of(self, ids: Any) -> Array:
        """Where the training samples with these numbers are."""
        self._posterior.with_training()  # or there are no samples
        return self._samples.index_of(ids)

    def _training_samples(self) -> tuple[Any, Array, Array]:
        """X as CSR, y and the weights of the samples that the model keeps."""
        posterior = self._posterior.with_training()
        rows, given = updates_of(posterior.operator).training_rows(), posterior.given
        rows = rows if given.row_of is None else rows.take(given.row_of)
        return rows.to_csr(), self._codec.labels_of(self._samples.y), self.noise_ / given.noise.sample

    # Prediction

    def _mean(self, X: Any) -> tuple[Array, np.dtype]:
        """Posterior means (n, M) in float64, and the precision of X."""
        X = self._validated(X)
        return self._mean_of(Rows.from_array(X, number_of_threads(self.n_jobs))), X.dtype

    def _mean_of(self, rows: Rows) -> Array:
        return self._options().mean(self._posterior, rows)

    def _latent_variance(self, rows: Rows, method: Any, options: VarianceOptions) -> Array:
        return self._without_shortfall(self._posterior.variance(rows, method, options))

    def _usual_method(self) -> str:
        return self._posterior.usual_method()

    def _without_shortfall(self, found: tuple[Any, str | None]) -> Any:
        """What was found, alone; warns if a sentence with it says that variances fell short."""
        value, shortfall = found
        if shortfall is not None:
            warn(shortfall, VarianceWarning)
        return value

    def _test_rows(self, X: Any) -> Rows:
        return Rows.from_array(self._validated(X), number_of_threads(self.n_jobs))

    def _validated(self, X: Any) -> Any:
        """Test data, after a look at the parameters that count now."""
        check_is_fitted(self)
        self._check_prediction()
        announce_compilation()
        return validate_features(self, X, reset=False, any_sign=self.kernel_._any_sign)

    def _check_prediction(self) -> None:
        names = self._prediction_parameters
        constraints = {name: self._parameter_constraints[name] for name in names}
        parameters = {name: getattr(self, name) for name in names}
        validate_parameter_constraints(constraints, parameters, caller_name=type(self).__name__)

    def _options(self) -> PredictionOptions:
        tol = float(min(VarianceOptions.tol, self.tol))
        variance = VarianceOptions(n_bins=int(self.n_bins), tol=tol, solver=self._solver_options())
        grid = self._grid() if self.prediction == "quantized" else None
        return PredictionOptions(variance, grid, self.interpolation)

    def _solver_options(self) -> SolverOptions:
        n_threads = number_of_threads(self.n_jobs)
        return SolverOptions(self.solver, self.tol, self.max_iter, self.preconditioner_rank, n_threads)

    def _variance_options(
        self, method: str = "precise", n_eigenvectors: Any = 8, n_samples: int = 256, tol: float | None = None
    ) -> VarianceOptions:
        """What a user asks of a variance, checked; each refusal says what would be accepted."""
        if method not in METHODS:
            raise ValueError(f"Unknown method {method!r}; known are 'auto', {', '.join(map(repr, METHODS))}.")
        try:
            numbers = np.atleast_1d(np.asarray(n_eigenvectors))
        except ValueError:
            numbers = np.empty(0)
        if numbers.dtype.kind not in "iu" or numbers.ndim > 1 or numbers.size == 0 or numbers.min() < 0:
            raise ValueError(f"n_eigenvectors must be one or several whole numbers >= 0; got {n_eigenvectors!r}.")
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number above 0; got {n_samples!r}.")
        tol = min(VarianceOptions.tol, self.tol) if tol is None else tol
        if not isinstance(tol, Real) or not 0 < tol < np.inf:
            raise ValueError(f"tol must be a number above 0; got {tol!r}.")
        several = numbers.tolist() if np.ndim(n_eigenvectors) else int(numbers[0])
        return VarianceOptions(several, int(n_samples), int(self.n_bins), float(tol), self._solver_options())

    def _grid(self) -> Grid:
        uniform = self.interpolation == "nearest"  # the papers' quantization, to which theorem 1 applies
        if self.value_range is None:
            return Grid(self.n_bins, uniform=uniform)
        upper = per_dimension("value_range", self.value_range, self.n_features_in_)
        if upper.min() <= 0:
            raise ValueError(f"value_range must be positive; got {upper.min():g}.")
        return Grid(self.n_bins, np.broadcast_to(upper, self.n_features_in_), uniform)

    def _in_units(self, variance: Array, per_output: bool) -> Array:
        """Variances (n,), or (n, k), of the targets in units of the outputs."""
        unit = np.asarray(self._codec.unit) ** 2
        if unit.ndim == 0 or per_output:
            return variance * unit
        if variance.ndim > 1:
            raise ValueError("With several outputs give one number of eigenvectors.")
        return variance[:, None] * unit

    def _say(self, message: str, level: int = 1) -> None:
        if self.verbose >= level:
            print(f"[{type(self).__name__}] {message}", flush=True)
