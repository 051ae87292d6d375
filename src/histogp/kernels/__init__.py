"""Kernels: parameter objects for users."""

from histogp.kernels._base import Kernel
from histogp.kernels._names import SHORT_NAMES, as_kernel
from histogp.kernels.chi_squared import Chi2, ExpChi2
from histogp.kernels.intersection import HistogramIntersection
from histogp.kernels.transforms import Exponential, Power, Transform

__all__ = [
    "SHORT_NAMES",
    "Chi2",
    "ExpChi2",
    "Exponential",
    "HistogramIntersection",
    "Kernel",
    "Power",
    "Transform",
    "as_kernel",
]
