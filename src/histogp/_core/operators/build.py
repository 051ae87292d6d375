"""From training data to an operator."""

from __future__ import annotations

from typing import Any

from histogp._core.data import Rows, SortedColumns
from histogp._core.operators.contract import KernelOperator
from histogp._core.operators.feature_kernels import LowRankOperator, ResolvedFeatures
from histogp._core.operators.sorted_columns import ResolvedKernel, SortedOperator


def build_operator(X: Any, kernel: ResolvedKernel, n_threads: int = 1) -> KernelOperator:
    """The kernel matrix of the non-negative rows of ``X``, dense or scipy.sparse, (N, D)."""
    if isinstance(kernel, ResolvedFeatures):
        return LowRankOperator(Rows.from_array(X, n_threads), kernel, n_threads)
    return SortedOperator(SortedColumns.from_array(X, n_threads), kernel, n_threads)


def restore_operator(data: SortedColumns, kernel: ResolvedKernel, n_threads: int = 1) -> KernelOperator:
    """The same from data that are sorted already."""
    if isinstance(kernel, ResolvedFeatures):
        return LowRankOperator(data.to_rows(data.values, n_threads), kernel, n_threads)
    return SortedOperator(data, kernel, n_threads)
