"""Thousands of weights at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from histogp._core.data import Array
from histogp._core.likelihood import Likelihood
from histogp._core.search.objectives import Objective
from histogp._core.search.space import Space

# The largest change of a logarithm in one step, and the first one of those that follow the sign of their derivative.
LONGEST_STEP = 2.0
FIRST_RPROP_STEP = 0.05
_TINY = np.finfo(float).tiny


def search_weights(
    objective: Objective,
    space: Space,
    x: Array,
    rates: Array,
    *,
    gain: float,
    max_steps: int,
    record: Callable[[Array, Likelihood, float], None],
) -> bool:
    """A fixed point: every weight is multiplied by what the data call for, divided by what there is.

    Noise and weights are variance components, for which the square root of that ratio never lowers the likelihood
    (Zhou, Hu, Zhou and Lange, 2019). The ratio itself is about twice as fast; the root takes over if the likelihood
    falls. Hyperparameters of the transform follow the sign of their derivative (Rprop).

    Only the first evaluation has a likelihood of its own; along the path the determinant is integrated from its
    derivative, so that solutions can start from the last ones.

    Parameters
    ----------
    x : (p,), where to start
    rates : of the exponential prior of the weights, (k,)
    record : is called with every point, its likelihood and that with the prior

    Returns
    -------
    converged : whether the last step promised less than ``gain``
    """
    names = np.concatenate([np.full(len(one.start), one.name) for one in space.free])
    is_component = np.isin(names, ["noise", "weights"])
    is_weight = names == "weights"
    power, pace = 1.0, np.full(len(x), FIRST_RPROP_STEP)
    old_x, old_complexity, old_slope, old_value = x, np.zeros(len(x)), np.zeros(len(x)), -np.inf
    result = objective(space, x)
    determinant = -2 * result.value - result.data_term  # and constants
    for _ in range(max_steps):
        data_fit_gradient = space.gradient(x, result.data_fit_gradient)
        complexity_gradient = space.gradient(x, result.complexity_gradient)
        determinant += (complexity_gradient + old_complexity) / 2 @ (x - old_x)
        result = replace(result, value=-(result.data_term + determinant) / 2)
        prior = np.zeros(len(x))
        prior[is_weight] = rates * np.exp(x[is_weight])
        value = result.value - prior.sum()
        record(x, result, value)
        if value < old_value - gain:
            power = 0.5
        slope = (data_fit_gradient - complexity_gradient) / 2 - prior
        ratio = np.maximum(data_fit_gradient, _TINY) / (np.maximum(complexity_gradient, _TINY) + 2 * prior)
        pace *= np.where(slope * old_slope >= 0, 1.2, 0.5)
        step = np.where(is_component, power * np.log(ratio), pace * np.sign(slope))
        step = np.clip(x + np.clip(step, -LONGEST_STEP, LONGEST_STEP), *space.bounds.T) - x
        if step @ slope < gain:
            return True
        old_x, old_complexity, old_slope, old_value = x, complexity_gradient, slope, value
        x = x + step
        result = objective.nearby(space, x)
    return False
