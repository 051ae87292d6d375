"""How the estimators learn: from scratch, and from what comes later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator, Tables, require, tuning_of, updates_of
from histogp._core.posterior import Posterior, condition
from histogp._core.search.objectives import Data
from histogp._core.search.optimization import Row
from histogp._core.solvers.problem import Noise, Solution
from histogp._core.threads import announce_compilation
from histogp._estimator import number_of_threads, updating
from histogp._sklearn import CallbackSupportMixin, FitCallbacks
from histogp.gp._evidence import described
from histogp.gp._examples import Examples
from histogp.gp.optimizer import Tuned, search_is_due, tune
from histogp.kernels import Kernel
from histogp.kernels._base import Adapted, as_kernel

Attributes = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """What examples come to: targets (N, M), their noise, and all attributes that prediction needs."""

    targets: Array
    noise: Noise
    attributes: Attributes


class LearningMixin(CallbackSupportMixin):
    """For estimators with a posterior, of which `_problem` and `_start` say what they learn."""

    kernel: Any
    noise: float
    optimize: Any
    prediction: str
    tol: float
    max_iter: int
    n_jobs: int | None
    random_state: Any
    kernel_: Kernel
    noise_: float
    _posterior: Any
    _examples: Examples
    _since_search: tuple[int, int]  # examples changed since the last search, and examples that it saw
    _solver_options: Any
    _posterior_with_training: Any
    _install: Any
    _say: Any
    _warn_unless_converged: Any

    def forget(self, ids: Any) -> Any:
        """Take training examples back: the model becomes that of a `fit` without them.

        A class whose last example goes, goes too.

        Parameters
        ----------
        ids : int or array-like of int
            Which, by their numbers in ``ids_``.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        with updating(self) as changed:
            index = changed._rows_of(ids)
            changed._change(*changed._outputs(changed._examples.without(index)), index, len(index))
        return self

    def _problem(self, examples: Examples, noise: float, outputs: Attributes) -> Problem:
        """The problem of the examples; ``outputs`` are attributes that say what their ``y`` mean."""
        raise NotImplementedError

    def _outputs(self, examples: Examples) -> tuple[Examples, Attributes]:
        """Examples that are left, with ``y`` in the terms of the attributes that say what they mean; and these."""
        raise NotImplementedError

    def _start(self, alpha: Array, problem: Problem) -> Array:
        """A guess of the solution from one of the present problem for the same rows, (N, M)."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, examples: Examples, outputs: Attributes, with_callbacks: bool) -> None:
        """Learn from scratch and set the fitted attributes. X and y have the rows of the examples alone."""
        announce_compilation()
        problem = self._problem(examples, self.noise, outputs)
        callbacks = FitCallbacks(self, with_callbacks, X=X, y=y, metadata={"sample_weight": examples.weights})
        adapted = as_kernel(self.kernel)._adapt(X, problem.targets, self.noise)
        operator = adapted.kernel._operator(adapted.value, X, number_of_threads(self.n_jobs))
        if self.prediction == "quantized":
            require(operator, Tables, 'prediction="quantized"')
        seed = int(check_random_state(self.random_state).randint(2**31))
        rng = np.random.default_rng(seed)
        options = self._solver_options()
        targets = problem.targets
        self._say(f"{operator.n_samples} rows, {operator.n_features} features, {targets.shape[1]} problems sorted")

        def after_evaluation(row: Row) -> bool:
            self._say(described(row))
            return callbacks.step("evaluation")

        data = Data(operator, problem.noise, targets)
        tuned = tune(self.optimize, adapted.kernel, adapted.noise, data, options, rng, after_evaluation)

        def state(alpha: Array, residual: float) -> Attributes:
            posterior = Posterior(tuned.operator, tuned.noise, alpha, targets, residual, seed)
            return {**problem.attributes, "kernel_": tuned.kernel, "_posterior": posterior}

        def after_iteration(iteration: int, residuals: Array, present: Callable[[], Array]) -> bool:
            self._say(f"iteration {iteration}: residual {residuals.max():.2e} (target {self.tol:g})", level=2)
            return callbacks.step("iteration", lambda: state(present(), residuals.max()))

        posterior, solution = condition(
            tuned.operator,
            tuned.noise,
            targets,
            options,
            rng,
            seed=seed,
            start=tuned.alpha,
            callback=after_iteration,
        )
        self._adopt(examples, problem, posterior, solution, tuned)
        self._keep_search(tuned)
        callbacks.end(lambda: state(posterior.alpha, posterior.residual))

    def _extend(self, X: Any, examples: Examples, outputs: Attributes) -> None:
        """Go on with the rows of X at the end of the examples."""
        posterior = self._posterior_with_training()
        rows = Rows.from_array(X, number_of_threads(self.n_jobs))
        alpha = np.concatenate([posterior.alpha, np.zeros((rows.n_rows, posterior.alpha.shape[1]))])
        self._go_on(examples, outputs, updates_of(posterior.operator).extend(rows), rows, alpha, rows.n_rows)

    def _change(self, examples: Examples, outputs: Attributes, gone: Array, n_changes: int) -> None:
        """Go on without the rows that are gone, perhaps none, and with other labels."""
        if examples.n_rows == 0:
            raise ValueError("These are all training examples; a model without any is one that has not been fitted.")
        posterior = self._posterior_with_training()
        if len(gone):
            alpha = np.delete(posterior.alpha, gone, axis=0)
            self._go_on(examples, outputs, updates_of(posterior.operator).remove(gone), None, alpha, n_changes)
        else:
            none = Rows.from_array(np.empty((0, posterior.operator.n_features)))
            self._go_on(examples, outputs, posterior.operator, none, posterior.alpha, n_changes)

    def _go_on(
        self,
        examples: Examples,
        outputs: Attributes,
        operator: KernelOperator,
        rows: Rows | None,
        alpha: Array,
        n_changes: int,
    ) -> None:
        """Learn from changed examples, starting from what is known.

        rows : those that the operator has more than before, or None if it has lost some
        alpha : the present solution, (N, M) with the rows of the examples and the present problems
        """
        announce_compilation()
        options = self._solver_options()
        operator = operator.with_threads(options.n_threads)
        problem = self._problem(examples, self.noise_, outputs)
        start = self._start(alpha, problem)
        before: Posterior = self._posterior
        n_changed, n_searched = self._since_search
        n_changed += n_changes
        kernel = self.kernel_
        adapted = self._adapted_again(operator, problem.targets, before.operator.n_samples)
        if adapted is not None:
            kernel, operator, rows = adapted.kernel, tuning_of(operator).with_kernel(adapted.value), None
        tuned = Tuned(kernel, self.noise_, operator, problem.noise)
        rng = np.random.default_rng(before.seed)
        if search_is_due(self.optimize, n_changed, n_searched):
            tuned = self._search_again(tuned, problem, rng)
        if tuned.path is not None or rows is None:
            posterior, solution = condition(
                tuned.operator,
                tuned.noise,
                problem.targets,
                options,
                rng,
                seed=before.seed,
                start=start if tuned.alpha is None else tuned.alpha,
                keep=True,
            )
        else:
            posterior, solution = before.updated(operator, rows, problem.noise, problem.targets, options, start)
        self._adopt(examples, problem, posterior, solution, tuned)
        if tuned.path is not None:
            self._keep_search(tuned)
        else:
            self._since_search = (n_changed, n_searched)
            if hasattr(self, "log_marginal_likelihood_"):  # of other examples
                self.log_marginal_likelihood_ = self.log_marginal_likelihood_error_ = np.nan

    def _adapted_again(self, operator: KernelOperator, targets: Array, n_before: int) -> Adapted | None:
        """The kernel with what it takes from the examples taken again, as long as they were few."""
        given = as_kernel(self.kernel)
        if not given._adapts_again(n_before, operator.n_samples):
            return None
        rows = updates_of(operator).training_rows()
        return self.kernel_._left_open(given)._adapt(rows, targets, self.noise_)

    def _search_again(self, given: Tuned, problem: Problem, rng: np.random.Generator) -> Tuned:
        """Search for hyperparameters from those that were found before."""
        kernel, value = given.kernel._to_search(as_kernel(self.kernel), given.operator.kernel)
        data = Data(tuning_of(given.operator).with_kernel(value), given.noise, problem.targets)

        def report(row: Row) -> bool:
            self._say(described(row))
            return False

        solver = self._solver_options()
        return tune(self.optimize, kernel, given.noise_value, data, solver, rng, report, warm=True, atomic=True)

    def _adopt(
        self,
        examples: Examples,
        problem: Problem,
        posterior: Posterior,
        solution: Solution,
        tuned: Tuned,
    ) -> None:
        """Set the fitted attributes."""
        posterior.operator.release()
        self._say(f"solved: {solution.n_iterations} iterations, preconditioner rank {solution.rank}")
        self._warn_unless_converged(solution)
        self.__dict__.update(problem.attributes)
        self._know(examples)
        self.kernel_ = tuned.kernel
        self.noise_ = tuned.noise_value
        self._install(posterior)
        self.feature_relevance_ = posterior.operator.relevance()
        self.n_examples_ = posterior.operator.n_samples
        self.n_nonzeros_ = posterior.operator.cost
        self.n_iter_ = solution.n_iterations
        self.residual_ = solution.residuals
        self.n_products_ = solution.n_products
        self.preconditioner_rank_ = solution.rank

    def _keep_search(self, tuned: Tuned) -> None:
        """Set the attributes that only a search has, and remove those of an earlier one."""
        self._since_search = (0, self._examples.n_rows)
        for name, value in tuned.attributes().items():
            if value is None:
                self.__dict__.pop(name, None)
            else:
                setattr(self, name, value)

    def _know(self, examples: Examples) -> None:
        self._examples = examples
        self.ids_ = examples.ids.view()
        self.ids_.flags.writeable = False

    def _rows_of(self, ids: Any) -> Array:
        self._posterior_with_training()
        return self._examples.rows_of(ids)
