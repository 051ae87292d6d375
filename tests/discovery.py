"""The estimators and transforms that there are, so that no test has to list them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
from sklearn.base import BaseEstimator, is_classifier, is_regressor


def all_estimators(package):
    """The public estimators of a package such as "histogp.gp", by name."""
    modules = [
        importlib.import_module(f"{package}.{found.name}")
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
        if not found.name.startswith("_")
    ]
    found = {
        name: value
        for module in modules
        for name, value in inspect.getmembers(module, inspect.isclass)
        if value.__module__ == module.__name__ and issubclass(value, BaseEstimator) and hasattr(value, "fit")
    }
    assert found
    return [found[name] for name in sorted(found)]


def all_transforms():
    """The transforms of `histogp.kernels`."""
    transforms = importlib.import_module("histogp.kernels.transforms")
    return [getattr(transforms, name) for name in transforms.__all__ if name != "Transform"]


def targets_for(make, X):
    """What an estimator can learn for histograms: labels of two classes, real targets, or nothing."""
    if is_classifier(make()):
        return np.where(X[:, 1] > X[:, 2], 1, 0)
    return X[:, 1] - X[:, 2] if is_regressor(make()) else None


# What an estimator would otherwise find on data, or make of targets.
NOT_LEFT_TO_DATA = {"kernel": "hik", "noise": 0.1, "normalize_y": False, "contamination": 0.1}


def given(make, **options):
    """An estimator that leaves nothing to data unless ``options`` say so: the plain intersection kernel, noise 0.1."""
    known = make().get_params(deep=False)
    return make(**{name: value for name, value in NOT_LEFT_TO_DATA.items() if name in known} | options)
