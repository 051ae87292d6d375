"""Quasi-Newton minimization for few, expensive and slightly noisy evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from histogp._core.data import Array

# The largest change of a coordinate, a logarithm, in one step.
LONGEST_STEP = 1.0
# A step may worsen the value by as much: probes leave value and derivative a little inconsistent.
VALUE_SLACK = 0.1
# Step of the differences that measure the Hessian.
DIFFERENCE_STEP = 0.05


@dataclass(frozen=True, eq=False)
class Minimum:
    """A point, its value, the Hessian as far as it is known there, and whether nothing more was to be gained."""

    x: Array
    value: float
    hessian: Array
    converged: bool


def minimize(
    function: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Array,
    hessian: Array,
    *,
    max_evaluations: int,
    gain: float,
    confirm: bool,
) -> Minimum:
    """Minimize from ``start`` with a first guess of the Hessian until a step promises less than ``gain``.

    SciPy's BFGS has no bounds and its L-BFGS-B takes no Hessian; a good one saves most of the evaluations.

    Parameters
    ----------
    function : x (p,) to value and derivative (p,); infinite where there is none
    bounds : (p, 2)
    hessian : (p, p), positive definite
    confirm : whether to measure the Hessian before stopping, by p more evaluations: that of the path can be much too
        large, where the function was steep far from the minimum
    """
    x = np.clip(start, *bounds.T)
    value, slope = function(x)
    length, confirmed_value = LONGEST_STEP, np.inf
    for _ in range(max_evaluations - 1):
        step = _newton_step(x, slope, bounds, hessian, length)
        if -slope @ step / 2 < gain:
            if not confirm or value > confirmed_value - gain or not np.isfinite(value):
                return Minimum(x, value, hessian, bool(np.isfinite(value)))
            hessian, confirmed_value = _measured_hessian(function, x, slope, bounds, hessian), value
            step = _newton_step(x, slope, bounds, hessian, LONGEST_STEP)
            if -slope @ step / 2 < gain:
                return Minimum(x, value, hessian, True)
        new_value, new_slope = function(x + step)
        bend = new_slope - slope
        if np.isfinite(new_value) and step @ bend > 1e-8 * np.linalg.norm(step) * np.linalg.norm(bend):
            image = hessian @ step
            hessian = hessian + np.outer(bend, bend) / (bend @ step) - np.outer(image, image) / (step @ image)
        if new_value <= value + VALUE_SLACK:
            x, value, slope = x + step, new_value, new_slope
            length = min(2 * length, LONGEST_STEP)
        else:
            length = np.abs(step).max() / 3
    return Minimum(x, value, hessian, False)


def _measured_hessian(
    function: Callable[[Array], tuple[float, Array]], x: Array, slope: Array, bounds: Array, known: Array
) -> Array:
    """The Hessian from derivatives at p points nearby, made positive definite; ``known`` rows where there are none."""
    columns = known.copy()
    for k, unit in enumerate(np.eye(len(x))):
        step = DIFFERENCE_STEP if x[k] + DIFFERENCE_STEP <= bounds[k, 1] else -DIFFERENCE_STEP
        value, there = function(x + step * unit)
        if np.isfinite(value):
            columns[k] = (there - slope) / step
    values, vectors = np.linalg.eigh((columns + columns.T) / 2)
    values = np.maximum(np.abs(values), 1e-4 * np.abs(values).max() + np.finfo(float).tiny)
    return (vectors * values) @ vectors.T


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
