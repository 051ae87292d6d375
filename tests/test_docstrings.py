"""Docstrings of public classes say what there is: every parameter with its default, every fitted attribute."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from discovery import all_transforms
from oracles import histograms
from sklearn.base import BaseEstimator

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass
from histogp.active import query
from histogp.gp import VARIANCE_METHODS
from histogp.kernels import HistogramIntersection

ROOT = Path(histogp.__file__).parent
X = pd.DataFrame(histograms(60, 4), columns=list("abcd"))
LABELS = np.where(X["b"] > X["c"], "yes", "no")
# What classes need that have no default for everything.
NEEDED = {"BlockMap": {"blocks": [("all", None, slice(None))]}}


def public_classes():
    """Classes that public packages export."""
    packages = [found.name for found in pkgutil.iter_modules([str(ROOT)]) if found.ispkg and found.name[0] != "_"]
    modules = [histogp, *(importlib.import_module(f"histogp.{name}") for name in packages)]
    exported = [getattr(module, name) for module in modules for name in getattr(module, "__all__", [])]
    return list(dict.fromkeys(value for value in exported if inspect.isclass(value)))


CLASSES = public_classes()
by_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def section(cls, title):
    """The entries of a section of a numpydoc docstring: what stands behind the colon, by name."""
    text = inspect.getdoc(cls) or ""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^(\w[\w, ]*?) : ?(.*)$", found[1], re.MULTILINE) if found else []
    return {name.strip(): kind for names, kind in entries for name in names.split(",")}


def test_classes_are_found():
    assert {"HistogramGPClassifier", "StreamingRidge", "BlockMap", "Power"} <= {cls.__name__ for cls in CLASSES}


@by_class
def test_every_parameter_is_documented_with_its_default(cls):
    documented = section(cls, "Parameters")
    if dataclasses.is_dataclass(cls):
        documented = section(cls, "Attributes") | documented
    parameters = {} if issubclass(cls, Exception) else inspect.signature(cls).parameters
    parameters = {name: one for name, one in parameters.items() if one.kind is not one.VAR_KEYWORD}
    assert set(parameters) <= set(documented), "not documented"
    assert dataclasses.is_dataclass(cls) or set(documented) <= set(parameters), "documented, but not there"
    for name, parameter in parameters.items():
        default = re.search(r"default=(.+)$", documented[name])
        if default is not None:
            assert eval(default[1], {"inf": np.inf}) == parameter.default, name
        else:
            assert parameter.default is inspect.Parameter.empty, f"{name} has the default {parameter.default!r}"


@by_class
def test_docstrings_are_literals(cls):
    """Those that are computed are invisible to editors and to numpydoc."""
    tree = ast.parse(Path(inspect.getfile(cls)).read_text())
    node = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
    assert ast.get_docstring(node)


@pytest.mark.parametrize(
    "cls",
    [cls for cls in CLASSES if issubclass(cls, BaseEstimator) and hasattr(cls, "fit")],
    ids=lambda cls: cls.__name__,
)
def test_every_fitted_attribute_is_documented(cls):
    y = LABELS if hasattr(cls, "decision_function") else X["a"]
    model = cls(**NEEDED.get(cls.__name__, {})).fit(X, y)
    attributes = {name for name in dir(model) if re.fullmatch(r"[a-z]\w*[a-z0-9]_", name) and hasattr(model, name)}
    assert "n_features_in_" in attributes
    documented = section(cls, "Attributes")
    assert attributes <= set(documented), "not documented"


@pytest.mark.parametrize(
    "documented", [HistogramGPClassifier.predict_variance, HistogramGPOneClass, query], ids=lambda one: one.__qualname__
)
def test_every_variance_method_is_named(documented):
    text = inspect.getdoc(documented)
    assert [name for name in VARIANCE_METHODS if f'"{name}"' not in text] == []


def test_every_transform_is_named():
    text = inspect.getdoc(HistogramIntersection)
    assert [cls.__name__ for cls in all_transforms() if cls.__name__ not in text] == []
