"""Priors of hyperparameters: what keeps a search sensible when the data say little."""

from __future__ import annotations

import numpy as np

from histogp._core.data import Array
from histogp._core.search.space import Coordinates, Data, is_scale, is_weights

# The middle of the noise's prior, in units of the mean square of the targets.
NOISE_SHARE = 0.1
# A search starts at most this far, in logarithms, from the middle of the priors of variance and noise.
FARTHEST_START = 4.0


class Priors:
    """Variance and noise are log-normal around the mean square of the targets and a tenth of it.

    That hardly counts for hundreds of samples; a handful would often be most likely as noise alone. Weights are
    exponentially distributed.

    width : standard deviation of the logarithms, or None for no such priors
    rates : (k,), of the weights; zero until a search sets them
    """

    def __init__(self, data: Data, width: float | None, noise: float):
        self.width = width
        self.rates: Array | float = 0.0
        self.mean_square = data.mean_square
        # The noise of a sample is ``noise`` times something that does not change.
        self._noise_middle = np.log(NOISE_SHARE * self.mean_square * noise) - np.log(data.noise.diagonals()).mean()

    def penalty(self, coordinates: Coordinates, theta: Array) -> tuple[float, Array]:
        """Minus the logarithm of the density, and its derivative for theta."""
        names = coordinates.names
        of_weights = np.array([is_weights(name) for name in names], bool)
        slope = np.where(of_weights, np.exp(theta), 0.0)
        slope[of_weights] *= self.rates
        value = slope.sum()
        if self.width is None:
            return value, slope
        away = []
        if "noise" in names:
            away.append((theta[names == "noise"][0] - self._noise_middle, 1.0 * (names == "noise")))
        if of_weights.any() or any(map(is_scale, names)):
            variance, its_slope = coordinates.log_variance(theta)
            away.append((variance - np.log(self.mean_square), its_slope))
        for distance, its_slope in away:
            value += (distance / self.width) ** 2 / 2
            slope = slope + distance / self.width**2 * its_slope
        return value, slope

    def sensible_start(self, coordinates: Coordinates, x: Array) -> Array:
        """A place to start from: x, unless noise or variance have nothing to do with the targets."""
        x = x.copy()
        for name, middle in (("noise", self._noise_middle), ("scale", np.log(self.mean_square))):
            here = coordinates.names == name
            x[here] = np.clip(x[here], middle - FARTHEST_START, middle + FARTHEST_START)
        return x
