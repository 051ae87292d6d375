"""Kernels on sorted columns, as a strategy."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from oracles import Log, dense

from histogp.kernels import Exponential, HistogramIntersection, Power

KERNELS = [
    HistogramIntersection(),
    HistogramIntersection(transform=Power(0.5)),
    HistogramIntersection(transform=Exponential(1e-4)),  # small: the data reach 1e9
    HistogramIntersection(transform=Log(3.0)),
]


def kernels(X):
    """The kernels above, with and without weights and with one hyperparameter a dimension."""
    d = X.shape[1]
    small = dense(X).max(initial=0) * 1e-4 < 500
    usable = [k for k in KERNELS if small or not isinstance(k.transform, Exponential)]
    weighted = [HistogramIntersection(k.transform, np.linspace(0, 2, d)) for k in usable]
    per_dimension = [HistogramIntersection(Power(np.linspace(0.3, 1.5, d)), np.linspace(3, 1, d))]
    return st.sampled_from(usable + weighted + per_dimension)
