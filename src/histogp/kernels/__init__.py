"""Kernels: parameter objects for users."""

from histogp.kernels import transforms
from histogp.kernels._base import SHORT_NAMES, Kernel, as_kernel
from histogp.kernels.chi_squared import Chi2, ExpChi2
from histogp.kernels.intersection import HistogramIntersection
from histogp.kernels.pairwise import Gaussian, Laplacian
from histogp.kernels.sums import Constant, Sum
from histogp.kernels.transforms import *  # noqa: F403

__all__ = [
    "SHORT_NAMES",
    "Chi2",
    "Constant",
    "ExpChi2",
    "Gaussian",
    "HistogramIntersection",
    "Kernel",
    "Laplacian",
    "Sum",
    "as_kernel",
    *transforms.__all__,
]
