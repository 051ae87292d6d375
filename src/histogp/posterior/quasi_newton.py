"""Quasi-Newton minimisation for few, expensive and slightly noisy evaluations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from histogp.storage import Array

LONGEST_STEP = 1.0
# A step may worsen the value by as much: probes leave value and derivative a little inconsistent.
SLACK = 0.1


def minimize(
    function: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Array,
    hessian: Array,
    *,
    max_evaluations: int,
    gain: float,
) -> tuple[Array, Array, float]:
    """Minimise from ``start`` with a first guess of the Hessian until a step promises less than ``gain``.

    Returns the point, the Hessian as far as it is known by then, and the value.

    SciPy's BFGS has no bounds and its L-BFGS-B takes no Hessian; a good one saves most of the evaluations.

    Parameters
    ----------
    function : x (p,) to value and derivative (p,)
    bounds : (p, 2)
    hessian : (p, p), positive definite
    """
    x = np.clip(start, *bounds.T)
    value, slope = function(x)
    length = LONGEST_STEP
    for _ in range(max_evaluations - 1):
        step = _newton_step(x, slope, bounds, hessian, length)
        if -slope @ step / 2 < gain:
            break
        new_value, new_slope = function(x + step)
        change, bend = step, new_slope - slope
        if np.isfinite(new_value) and change @ bend > 1e-8 * np.linalg.norm(change) * np.linalg.norm(bend):
            image = hessian @ change
            hessian = hessian + np.outer(bend, bend) / (bend @ change) - np.outer(image, image) / (change @ image)
        if new_value <= value + SLACK:
            x, value, slope = x + step, new_value, new_slope
            length = min(2 * length, LONGEST_STEP)
        else:
            length = np.abs(step).max() / 3
    return x, hessian, value


def _newton_step(x: Array, slope: Array, bounds: Array, hessian: Array, length: float) -> Array:
    """The step to the minimum of the quadratic model, without coordinates that push against their bound."""
    step = np.zeros_like(x)
    stuck = ((x <= bounds[:, 0]) & (slope > 0)) | ((x >= bounds[:, 1]) & (slope < 0))
    free = np.flatnonzero(~stuck)
    if len(free) == 0:
        return step
    step[free] = -np.linalg.solve(hessian[np.ix_(free, free)], slope[free])
    step *= min(1.0, length / max(np.abs(step).max(), np.finfo(float).tiny))
    return np.clip(x + step, *bounds.T) - x
