"""Kernels: parameter objects for users, and the frozen values that operators see."""

from histogp.kernels.base import Kernel, groups_of, is_ard, per_dimension, resolve
from histogp.kernels.chi2 import Chi2
from histogp.kernels.exp_chi2 import ExpChi2
from histogp.kernels.features import ResolvedFeatures
from histogp.kernels.intersection import HistogramIntersection, ResolvedKernel
from histogp.kernels.names import SHORT_NAMES, as_kernel
from histogp.kernels.transforms import Exponential, Power, Transform

__all__ = [
    "SHORT_NAMES",
    "Chi2",
    "ExpChi2",
    "Exponential",
    "HistogramIntersection",
    "Kernel",
    "Power",
    "ResolvedFeatures",
    "ResolvedKernel",
    "Transform",
    "as_kernel",
    "groups_of",
    "is_ard",
    "per_dimension",
    "resolve",
]
