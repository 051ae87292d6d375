"""How many of our files and functions does a call pass? `python tools/walk.py [-v]` where histogp can be imported.

Counts with `sys.setprofile`, first calls included; `-v` lists files and functions in the order of entry. Functions are
named ones, without lambdas and comprehensions. "glue" leaves out what is numerics: data, threads, compiled leaves, the
operator of sorted columns, preconditioner and conjugate gradients. At the end come the classes of ours that each
estimator inherits from.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor

ROOT = str(Path(histogp.__file__).parent) + "/"
# Parts of the paths of files that are numerics; to adapt when files move.
NUMERICS = (
    *("storage", "data", "threads", "blas", "_numba", "sorted", "levels"),
    *("preconditioner", "iterative"),
)


class Walk(NamedTuple):
    """Files, and pairs of a file and a function, in the order of entry."""

    files: list[str]
    functions: list[tuple[str, str]]
    glue: list[tuple[str, str]]


def walk(call: Callable[[], Any]) -> Walk:
    """What a call passes."""
    seen: dict[tuple[str, str], None] = {}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT):
            seen[code.co_filename.removeprefix(ROOT), code.co_qualname] = None

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    functions = [key for key in seen if "<" not in key[1].rsplit(".", 1)[-1]]
    glue = [key for key in functions if not any(part in key[0] for part in NUMERICS)]
    return Walk(list(dict.fromkeys(file for file, _ in seen)), functions, glue)


def show(name: str, found: Walk, *, verbose: bool) -> None:
    print(f"{name:28s} {len(found.files):3d} files {len(found.functions):4d} functions {len(found.glue):3d} glue")
    if verbose:
        for file in found.files:
            names = (function.rsplit(".", 1)[-1] for where, function in found.functions if where == file)
            print("   ", file, "; ".join(names)[:200])


def own_bases(cls: type) -> list[str]:
    """Classes of ours that a class inherits from; those that stand in for an older scikit-learn do not count."""
    names = [(base.__module__, base.__name__) for base in cls.__mro__[1:]]
    return [name for module, name in names if module.startswith("histogp") and "_sklearn" not in module]


def classifier(kernel: str = "hik", **options: Any) -> HistogramGPClassifier:
    return HistogramGPClassifier(kernel, noise=0.1, random_state=0, **options)


def calls(path: Path) -> dict[str, Callable[[], Any]]:
    """Calls in the order of a model's life, by their names."""
    X = np.random.default_rng(0).random((2900, 40))
    y = X[:, :4].argmax(axis=1)
    clf = classifier()
    return {
        "fit, iterative": lambda: clf.fit(X, y),
        "first predict": lambda: clf.predict(X[:20]),
        'variance "calibrated"': lambda: clf.predict_variance(X[:20], "calibrated"),
        "predict_proba": lambda: clf.predict_proba(X[:20]),
        "partial_fit": lambda: clf.partial_fit(X[:3], y[:3]),
        "save": lambda: clf.save(path),
        "load": lambda: histogp.load(path),
        "fit, dense": lambda: classifier().fit(X[:300], y[:300]),
        "fit by default": lambda: HistogramGPClassifier().fit(X[:1500], y[:1500]),
        "fit with optimize": lambda: classifier("hik-poly", optimize="gradient").fit(X[:300], y[:300]),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.histogp"
        for call in calls(path).values():  # compiles, which passes files, too
            call()
        for name, call in calls(path).items():
            show(name, walk(call), verbose="-v" in sys.argv)
    for estimator in (HistogramGPClassifier, HistogramGPRegressor, HistogramGPOneClass):
        own = own_bases(estimator)
        print(f"{estimator.__name__}: {len(own)} classes of ours in its MRO: {', '.join(own)}")


if __name__ == "__main__":
    main()
