"""The marginal likelihood as users see it."""

from __future__ import annotations

import copy
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from histogp._core.operators.contract import tuning_of, updates_of
from histogp._core.posterior import Posterior, condition
from histogp._core.search.optimization import Row
from histogp._core.solvers.problem import SolverOptions
from histogp._core.threads import announce_compilation
from histogp._estimator import number_of_threads, reading
from histogp._sklearn import warn
from histogp.exceptions import NotConvergedWarning
from histogp.kernels import Kernel
from histogp.kernels._base import as_kernel


class EvidenceMixin:
    """For estimators with a posterior."""

    solver: Any
    tol: float
    max_iter: int
    preconditioner_rank: Any
    n_jobs: int | None
    random_state: Any
    kernel_: Kernel
    noise_: float
    n_features_in_: int
    _posterior: Any

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

        For a regressor with ``normalize_y`` that of the normalised targets.

        Parameters
        ----------
        kernel : {"hik", "hik-poly", "hik-exp", "chi2", "exp-chi2"}, Kernel or None, default=None
            None is the fitted ``kernel_``.
        noise : float or None, default=None
            None is the fitted ``noise_``.
        method : {"auto", "exact", "bound", "quadrature"}, default="auto"
            - "exact": by a dense factor, in time cubic in the number of examples.
            - "bound": a value that the likelihood does not fall below, in time linear in the non-zeros.
            - "quadrature": an estimate with a standard error, in a few times the time of a fit.
            - "auto": "exact" up to 2,000 examples, then "quadrature".
        bound : {"tightest", "fischer", "papers"}, default="tightest"
        n_probes : int or None, default=None
            Random probes of the quadrature; None takes as many as fill the blocks of a product.
        max_error : float or None, default=None
            Take more probes until the standard error of the quadrature is no larger.
        return_error : bool, default=False
            Whether to return the standard error as well; zero for the other methods.

        Returns
        -------
        value : float
        error : float, if ``return_error``
        """
        check_is_fitted(self)
        announce_compilation()
        posterior = self._posterior_with_training()
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

    def _posterior_with_training(self) -> Posterior:
        if not self._posterior.includes_training:
            raise ValueError(
                "This model was saved without its training examples: it predicts, but learns no more, and can be saved "
                "again only with include_training=False."
            )
        return self._posterior

    def _refitted(self, kernel: Kernel, noise: float) -> Any:
        """A copy with another kernel and noise, solved for the same examples."""
        before = self._posterior_with_training()
        adapted = kernel._adapt(updates_of(before.operator).training_rows(), before.targets, noise)
        operator = tuning_of(before.operator).with_kernel(adapted.value)
        seed = int(check_random_state(self.random_state).randint(2**31))
        rng = np.random.default_rng(seed)
        scaled = before.noise.scaled(noise / self.noise_)
        posterior, _ = condition(operator, scaled, before.targets, self._solver_options(), rng, seed=seed)
        other = copy.copy(self)
        other.kernel_, other.noise_ = adapted.kernel, noise
        other._install(posterior)  # type: ignore[attr-defined]
        return other

    def _solver_options(self) -> SolverOptions:
        n_threads = number_of_threads(self.n_jobs)
        return SolverOptions(self.solver, self.tol, self.max_iter, self.preconditioner_rank, n_threads)


def described(row: Row) -> str:
    """An evaluation of the likelihood in a line."""
    numbers = {name: value for name, value in row.items() if name not in ("log_marginal_likelihood", "standard_error")}
    error = row["standard_error"]
    return (
        f"log likelihood {row['log_marginal_likelihood']:.1f}"
        + (f" +- {error:.1f}" if np.isfinite(error) and error > 0 else "")
        + "".join(f", {name} {np.array2string(np.asarray(value), precision=4)}" for name, value in numbers.items())
    )
