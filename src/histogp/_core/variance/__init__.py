"""Variances of test rows, one way to compute them a file.

Every `VarianceMethod` in a module of this package is found by itself: a further way is one file more. Numerics do not
warn; a variance comes with a sentence if the solver fell short.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator
from histogp._core.solvers.problem import SolverOptions
from histogp._core.threads import Versions
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer


@dataclass(frozen=True)
class VarianceOptions:
    """n_eigenvectors : one or several; n_bins : of the coarse quantized table; tol : of the precise solver."""

    n_eigenvectors: int | Sequence[int] = 8
    n_samples: int = 256
    n_bins: int = 100
    tol: float = 1e-4
    solver: SolverOptions = field(default_factory=SolverOptions)


class Variance(NamedTuple):
    """Latent variances, (n,) or several columns, and a sentence if they may be too large, or None."""

    values: Array
    shortfall: str | None = None


class Shape(NamedTuple):
    """The model that something was prepared for."""

    kernel: Any
    n_samples: int


class Kept(Protocol):
    """Something prepared that writes and restores itself. Its version is what `VarianceMethod.option` was then."""

    def to_state(self, writer: Writer, version: Any) -> None:
        """Write it into a model file."""

    @classmethod
    def from_state(cls, reader: Reader, shape: Shape) -> tuple[Any, Self]:
        """The version and the object in a model file; believes nothing."""


class VarianceMethod:
    """A way to compute the latent variance of test rows, that is without noise.

    With one noise for each output the matrix has the largest noise of each sample: the variance for that bounds those
    of all outputs. A subclass gives the attributes, `variance`, and what else differs; one object of it, at the top of
    its module, is found by `METHODS`.

    name : how users ask for it
    kind : whether it gives the variance itself, exactly or as an estimate, or a bound from above
    option : the name of the option that what it prepares depends on, or None
    needs_tables : whether it needs an operator that offers `Tables`; without it is refused, or gives way to `instead`
    needs_training : whether it cannot do without the training samples; otherwise what it prepares goes into all files
    keeps : the classes of what it prepares for files, by the names under which a posterior keeps that: `Kept`
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["exact", "estimate", "bound"]]
    option: ClassVar[str | None] = None
    needs_tables: ClassVar[bool] = False
    needs_training: ClassVar[bool] = True
    keeps: ClassVar[dict[str, type[Kept]]] = {}

    def instead(self, operator: KernelOperator) -> str | None:
        """The name of a method that takes its place for this operator, or None."""
        return None

    def prepare(self, posterior: Any, options: VarianceOptions) -> Any:
        """What is made once from a posterior: an object with ``variance(rows, n_threads)``."""
        raise NotImplementedError

    def variance(self, posterior: Any, rows: Rows, options: VarianceOptions) -> Variance:
        """The variance of test rows."""
        return self.read(posterior.prepared(self, options), rows, options)

    def read(self, prepared: Any, rows: Rows, options: VarianceOptions) -> Variance:
        """The variance of test rows, from what was prepared."""
        return Variance(prepared.variance(rows, options.solver.n_threads))


def _found() -> dict[str, VarianceMethod]:
    """The methods of all modules of this package, by name: exact ones, estimates, bounds."""
    found: list[VarianceMethod] = []
    for module in pkgutil.iter_modules(__path__):
        values = vars(importlib.import_module(f"{__name__}.{module.name}")).values()
        found += [value for value in values if isinstance(value, VarianceMethod) and value not in found]
    kinds = ("exact", "estimate", "bound")
    return {one.name: one for one in sorted(found, key=lambda one: (kinds.index(one.kind), one.name))}


METHODS = _found()


def write_kept(kept: Versions, writer: Writer, *, include_training: bool) -> None:
    """Write what variance methods have prepared; without training samples what these alone make use of stays out."""
    for method in METHODS.values():
        if include_training or not method.needs_training:
            for name in method.keeps.keys() & kept.keys():
                version, value = kept[name]
                value.to_state(writer.child(name), version)


def read_kept(reader: Reader, shape: Shape) -> Versions:
    """What `write_kept` has written; believes nothing."""
    known = {name: cls for method in METHODS.values() for name, cls in method.keeps.items()}
    if not set(reader.names()) <= known.keys():
        raise ModelFileError("what it has prepared is damaged.")
    return {name: known[name].from_state(reader.child(name), shape) for name in reader.names()}
