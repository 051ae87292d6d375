"""What the classifier and the regressor share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from histogp._core.data import Array, Rows
from histogp._core.layouts import Grid
from histogp._core.operators.contract import updates_of
from histogp._core.posterior import Posterior
from histogp._core.solvers.problem import Solution
from histogp._core.threads import announce_compilation
from histogp._encoding import Reader, Writer
from histogp._estimator import number_of_threads, reading, validate_features
from histogp._sklearn import warn
from histogp.exceptions import NotConvergedWarning
from histogp.gp import _model_file
from histogp.gp._learning import LearningMixin
from histogp.gp._uncertainty import UncertaintyMixin
from histogp.gp.optimizer import Optimizer
from histogp.gp.posterior_view import PosteriorView
from histogp.kernels import Kernel
from histogp.kernels._base import as_kernel, per_dimension

PREDICTION_PARAMETERS = (
    "prediction",
    "n_bins",
    "interpolation",
    "value_range",
    "probability",
    "criterion",
    "method",
    "solver",
    "tol",
    "max_iter",
)


class HistogramGP(UncertaintyMixin, LearningMixin, BaseEstimator):
    """Base of the estimators; see `HistogramGPClassifier` and `HistogramGPRegressor`."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "kernel": [str, Kernel],
        "noise": [Interval(Real, 0, None, closed="neither")],
        "optimize": [None, StrOptions({"bound", "gradient", "exact"}), Optimizer],
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

    _scale: Any = 1.0  # unit of the outputs

    kernel: Any
    noise: float
    optimize: Any
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

    def set_params(self, **params: Any) -> HistogramGP:
        """Set parameters, also nested ones; a short name gives way to the object that it stands for."""
        for name, make in (("kernel", as_kernel), ("optimize", Optimizer)):
            nested = name not in params and any(key.startswith(f"{name}__") for key in params)
            if nested and isinstance(getattr(self, name), str):
                setattr(self, name, make(getattr(self, name)))
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    @property
    def posterior_(self) -> PosteriorView:
        """A `PosteriorView` of what was learned: for code that builds on means, variances and training samples."""
        check_is_fitted(self)
        return PosteriorView(self)

    @reading
    def quantization_error_bound(self, kind: Any = "auto") -> Any:
        """How far quantised scores, or predictions of a regressor, can be from exact ones, whatever the example.

        Let a height be ``w_d g(x_d)``, e_d the largest distance between a height in dimension d and its
        nearest node, and alpha the weights of one problem.

        Parameters
        ----------
        kind : {"auto", "worst-case", "linear", "assumption-free", "theorem", "a-priori"}, default="auto"
            - "worst-case": the largest error of all possible examples, found exactly when the table is made.
              Assumes linear interpolation.
            - "linear": ``sum_d max_bins width / 4 sum_(i in bin) |alpha_i|``. Assumes linear interpolation.
            - "assumption-free": ``sum_d e_d ||alpha||_1``. Assumes nothing; holds for both interpolations.
            - "theorem": ``D max(e) / 2 ||alpha||_1``, theorem 1 of gp-hik-ijcv2016. Assumes the nearest
              node, and that a row's heights have the same sum after rounding to the nodes, which
              L1-normalised rows have on average only.
            - "a-priori": theorem 1 with ``N / noise`` in place of ``||alpha||_1`` (eq. 13; here
              ``sqrt(N) ||y|| / noise``, the same for labels -1 and +1). Assumes the same.
            - "auto": "worst-case" for linear interpolation, "assumption-free" for the nearest node.

        Returns
        -------
        bound : float, or ndarray with one bound a class or output if there are several
        """
        check_is_fitted(self)
        self._check_prediction()
        if kind == "auto":
            kind = "worst-case" if self.interpolation == "linear" else "assumption-free"
        bounds = self._posterior.quantized(self._grid()).error_bound(kind) * self._scale
        return float(bounds[0]) if self._has_one_output() else bounds

    @reading
    def save(self, path: Any, include_training: bool = True) -> None:
        """Write the fitted model to a file without code, which `histogp.load` reads.

        The file takes the place of an older one as a whole or not at all.

        Parameters
        ----------
        path : str or path-like
            By custom with the ending ``.histogp``.
        include_training : bool, default=True
            Whether the training examples go into the file. Without them it is small and the model only
            predicts, with ``prediction="quantized"`` or a kernel "chi2" or "exp-chi2".
        """
        check_is_fitted(self)
        _model_file.save(self, path, include_training)

    def _install(self, posterior: Posterior) -> None:
        self._posterior = posterior
        alpha = posterior.alpha.view()
        alpha.flags.writeable = False  # the posterior goes on using it
        self.alpha_ = alpha[:, 0] if self._has_one_output() else alpha

    def _training_examples(self) -> tuple[Any, Array, Array]:
        """X as CSR, y and the weights of the examples that the model keeps."""
        posterior = self._posterior_with_training()
        rows = updates_of(posterior.operator).training_rows()
        entries = (rows.values, rows.column_of.astype(np.int64), rows.indptr)
        X = sparse.csr_array(entries, shape=(rows.n_rows, rows.n_columns))
        return X, self._labels(posterior.targets), self.noise_ / posterior.noise.sample

    def _labels(self, targets: Array) -> Array:
        """What users know of targets (N, M)."""
        raise NotImplementedError

    def _has_one_output(self) -> bool:
        """Whether scores have one dimension."""
        raise NotImplementedError

    def _pack(self, writer: Writer) -> dict[str, Any]:
        """What prediction needs beside the posterior, for a model file."""
        raise NotImplementedError

    def _unpack(self, reader: Reader, description: dict[str, Any]) -> int:
        """The inverse; returns the number of problems."""
        raise NotImplementedError

    def _prepare_to_predict_only(self) -> None:
        """Prepare what the training examples are needed for, before they are left behind."""

    def _pack_labels(self, writer: Writer) -> None:
        """What the examples were said to be, for a model file."""
        raise NotImplementedError

    def _unpack_labels(self, reader: Reader, n_examples: int) -> tuple[Array, Array]:
        """The inverse: ``y`` of the examples, and the targets of the problems, (N, M)."""
        raise NotImplementedError

    def _mean(self, X: Any) -> tuple[Array, Any]:
        """Posterior means (n, M) in float64, and the precision of X."""
        check_is_fitted(self)
        self._check_prediction()
        announce_compilation()
        X = validate_features(self, X, reset=False)
        return self._mean_of(Rows.from_array(X, number_of_threads(self.n_jobs))), X.dtype

    def _mean_of(self, rows: Rows) -> Array:
        n_threads = number_of_threads(self.n_jobs)
        if self.prediction == "exact":
            return self._posterior.mean(rows, n_threads)
        return self._posterior.quantized(self._grid()).mean(rows, self.interpolation, n_threads)

    def _check_prediction(self) -> None:
        """The parameters of prediction may change after `fit`, which has checked them as they were then."""
        names = [name for name in PREDICTION_PARAMETERS if name in self._parameter_constraints]
        constraints = {name: self._parameter_constraints[name] for name in names}
        parameters = {name: getattr(self, name) for name in names}
        validate_parameter_constraints(constraints, parameters, caller_name=type(self).__name__)

    def _grid(self) -> Grid:
        uniform = self.interpolation == "nearest"  # the papers' quantisation, to which theorem 1 applies
        if self.value_range is None:
            return Grid(self.n_bins, uniform=uniform)
        upper = per_dimension("value_range", self.value_range, self.n_features_in_)
        if upper.min() <= 0:
            raise ValueError(f"value_range must be positive; got {upper.min():g}.")
        return Grid(self.n_bins, np.broadcast_to(upper, self.n_features_in_), uniform)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo every change of the estimator if the block fails or is interrupted."""
        before = vars(self).copy()
        try:
            yield
        except BaseException:
            # The callbacks' bookkeeping belongs to scikit-learn, which clears it itself.
            running = {name: value for name, value in vars(self).items() if name.startswith(("_callback", "_skl"))}
            self.__dict__ = {**before, **running}
            raise

    def _warn_unless_converged(self, solution: Solution) -> None:
        if solution.converged or solution.stopped_by_callback:
            return
        warn(
            f"The solver stopped after {solution.n_iterations} iterations with a relative residual of "
            f"{solution.residuals.max():.1e}, above the target tol={self.tol:g}; raise max_iter, tol or noise, or "
            "give a larger preconditioner_rank.",
            NotConvergedWarning,
        )

    def _say(self, message: str, level: int = 1) -> None:
        if self.verbose >= level:
            print(f"[{type(self).__name__}] {message}", flush=True)
