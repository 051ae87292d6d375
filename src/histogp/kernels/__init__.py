"""Kernels: parameter objects for users, and the frozen values that operators see."""

from histogp.kernels.base import Kernel, groups_of, is_ard, per_dimension, resolve
from histogp.kernels.chi2 import Chi2, ResolvedChi2
from histogp.kernels.intersection import HistogramIntersection, ResolvedKernel
from histogp.kernels.names import as_kernel
from histogp.kernels.transforms import Exponential, Power, Transform

__all__ = [
    "Chi2",
    "Exponential",
    "HistogramIntersection",
    "Kernel",
    "Power",
    "ResolvedChi2",
    "ResolvedKernel",
    "Transform",
    "as_kernel",
    "groups_of",
    "is_ard",
    "per_dimension",
    "resolve",
]
