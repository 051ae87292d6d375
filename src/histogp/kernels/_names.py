"""Kernels by their short names."""

from __future__ import annotations

from collections.abc import Callable

from sklearn.base import clone

from histogp.kernels._base import Kernel
from histogp.kernels.chi_squared import Chi2, ExpChi2
from histogp.kernels.intersection import HistogramIntersection
from histogp.kernels.transforms import Exponential, Power

_KERNELS: dict[str, Callable[[], Kernel]] = {
    "hik": HistogramIntersection,
    "hik-poly": lambda: HistogramIntersection(transform=Power()),
    "hik-exp": lambda: HistogramIntersection(transform=Exponential()),
    "chi2": Chi2,
    "exp-chi2": ExpChi2,
}
SHORT_NAMES = list(_KERNELS)


def as_kernel(kernel: str | Kernel) -> Kernel:
    """A fresh copy of the kernel object, or the one that a short name stands for."""
    if not isinstance(kernel, str):
        return clone(kernel)
    if kernel not in _KERNELS:
        raise ValueError(f"Unknown kernel {kernel!r}; known names are {', '.join(map(repr, _KERNELS))}.")
    return _KERNELS[kernel]()
