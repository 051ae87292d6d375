"""From training data to an operator."""

from __future__ import annotations

from typing import Any

from histogp.kernels import ResolvedKernel
from histogp.operators.base import KernelOperator
from histogp.operators.sorted import SortedOperator
from histogp.storage import SortedColumns


def build_operator(X: Any, kernel: ResolvedKernel, n_threads: int = 1) -> KernelOperator:
    """The kernel matrix of the non-negative rows of ``X``, dense or scipy.sparse, (N, D)."""
    return SortedOperator(SortedColumns.from_array(X, n_threads), kernel, n_threads)
