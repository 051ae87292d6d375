"""What can be measured: a case is a function with a decorator.

>>> from benchmarks.registry import case
>>> @case("sum", group="examples", bar={"seconds": "<= 1"}, smoke={"n": 10})
... def sum_of_numbers(n: int = 1_000_000) -> dict[str, float]:
...     return {"seconds": seconds(lambda: sum(range(n)))}
"""

from __future__ import annotations

import importlib
import importlib.util
import operator
import pkgutil
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CASES = "benchmarks.cases"
RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
Function = Callable[..., Mapping[str, float]]


@dataclass(frozen=True)
class Bar:
    """What a measured value has to be: a relation and a number, such as ``<= 1.1``."""

    relation: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Bar:
        """The bar that a text such as ``">= 0.9"`` stands for."""
        found = re.fullmatch(r"(<=|>=|==|<|>)\s*(\S+)", text.strip())
        try:
            if found is None:
                raise ValueError
            return cls(found[1], float(found[2]))
        except ValueError:
            relations = ", ".join(RELATIONS)
            raise ValueError(f"A bar is one of {relations} and a number, such as '<= 1.1'; got {text!r}.") from None

    def is_met(self, value: float) -> bool:
        """Whether the value is on the right side."""
        return RELATIONS[self.relation](value, self.limit)

    def __str__(self) -> str:
        return f"{self.relation} {self.limit:g}"


@dataclass(frozen=True)
class Case:
    """A measurement: a function that returns numbers by name, and what it needs.

    data : names of data sets in `benchmarks.data.LOADERS`, fetched before the function runs
    bars : by the names of the values that they are for
    needs : Python modules or commands without which the case is left out
    smoke : arguments of the function for a run of seconds, whose numbers mean nothing
    """

    name: str
    group: str
    function: Function
    data: tuple[str, ...]
    bars: Mapping[str, Bar]
    needs: tuple[str, ...]
    smoke: Mapping[str, Any]

    @property
    def module(self) -> str:
        """Name of the module that defines the function."""
        return self.function.__module__

    @property
    def title(self) -> str:
        """First line of the docstring of the function."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    def missing(self) -> list[str]:
        """Needed modules and commands that are not here."""
        return [name for name in self.needs if not (importlib.util.find_spec(name) or shutil.which(name))]

    def run(self, smoke: bool = False) -> dict[str, float]:
        """The values, measured in this process. Each value with a bar must be among them."""
        values = {name: float(value) for name, value in self.function(**(self.smoke if smoke else {})).items()}
        if unknown := self.bars.keys() - values.keys():
            raise ValueError(f"The case {self.name} has bars for {sorted(unknown)}, which it does not return.")
        return values


_registered: dict[str, Case] = {}


def case(
    name: str,
    *,
    group: str,
    data: str | Iterable[str] = (),
    bar: Mapping[str, str] | None = None,
    needs: str | Iterable[str] = (),
    smoke: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]:
    """Register a function as a case, and return it as it is.

    Parameters
    ----------
    name : str
        Unique; letters, digits and underscores.
    group : str
        For ``list`` and for running all cases of a kind.
    data : str or iterable of str
        Names of data sets, see `benchmarks.data`.
    bar : mapping from names of values to str, optional
        Such as ``{"seconds": "<= 1.5", "accuracy": ">= 0.89"}``.
    needs : str or iterable of str
        Modules or commands that are no dependencies of the tests.
    smoke : mapping, optional
        Arguments that make the function fast and its numbers meaningless.
    """
    if not re.fullmatch(r"\w+", name):
        raise ValueError(f"The name of a case has letters, digits and underscores only; got {name!r}.")

    def register(function: Function) -> Function:
        known = _registered.get(name)
        if known is not None and (known.module, known.function.__qualname__) != (
            function.__module__,
            function.__qualname__,
        ):
            raise ValueError(f"Two cases have the name {name!r}: in {known.module} and in {function.__module__}.")
        bars = {value: Bar.parse(text) for value, text in (bar or {}).items()}
        _registered[name] = Case(name, group, function, _names(data), bars, _names(needs), dict(smoke or {}))
        return function

    return register


def discover(package: str = CASES) -> dict[str, Case]:
    """All cases in the modules of a package, by name, in the order of modules and definitions."""
    found = importlib.import_module(package)
    modules = [f"{package}.{module.name}" for module in pkgutil.iter_modules(found.__path__)]
    for module in modules:
        importlib.import_module(module)
    cases = [one for one in _registered.values() if one.module in modules]
    return {one.name: one for one in sorted(cases, key=lambda one: modules.index(one.module))}


def case_in(module: str, name: str) -> Case:
    """The case of that name, in a module that is imported alone."""
    importlib.import_module(module)
    return _registered[name]


def select(cases: Mapping[str, Case], names: Iterable[str]) -> list[Case]:
    """Cases by their names or by the names of groups; all of them without names."""
    names = list(names)
    if not names:
        return list(cases.values())
    groups = {one.group for one in cases.values()}
    if unknown := [name for name in names if name not in cases and name not in groups]:
        raise ValueError(f"There is no case or group {unknown[0]!r}; `python -m benchmarks list` shows them.")
    return [one for one in cases.values() if one.name in names or one.group in names]


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
