"""``histogp inspect``: what is in a model file."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

import histogp
from histogp.cli.arguments import add_command as new_command
from histogp.cli.arguments import has_posterior, read_model
from histogp.cli.console import in_words, likelihood, say
from histogp.feature_maps import BlockMap
from histogp.reports.report import kernel_text

EXAMPLES = """
histogp inspect model.histogp
histogp inspect model.histogp --json
"""
MOST_LABELS = 20
MOST_FEATURES = 10
MOST_EVALUATIONS = 20


def add_command(commands: Any) -> None:
    """The options of ``histogp inspect``."""
    parser = new_command(commands, "inspect", "say what is in a model file", EXAMPLES)
    parser.add_argument("model", metavar="MODEL", help="a file that histogp fit wrote")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Check the file and print what it says."""
    facts = describe(options.model)
    if options.json:
        say(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    path = facts.pop("optimization path", {})
    width = max(map(len, facts))
    for name, value in facts.items():
        say(f"{name:<{width}}  {_text(value)}")
    if path:
        say("\noptimization path")
        for line in _table(path):
            say(line)


def describe(path: str) -> dict[str, Any]:
    """The facts about a model file, by name."""
    model, document = read_model(path), histogp.describe(path)
    if not has_posterior(model):
        return _streamed(path, model, document)
    facts: dict[str, Any] = {
        "file": path,
        "bytes": os.path.getsize(path),
        "class": type(model).__name__,
        "in words": model.in_words(),
        "kernel": kernel_text(model.kernel_),
        "noise": model.noise_,
        "samples": model.n_samples_,
        "features": model.n_features_in_,
        "non-zeros": model.n_nonzeros_,
    }
    if document["includes_training"] and model.kernel_shares_:
        facts["parts"] = ", ".join(f"{in_words(name, ())} {share:.0%}" for name, share in model.kernel_shares_.items())
    if document["includes_training"]:
        facts["approximation"] = (
            ", ".join(f"{name}, relative error {error:.1e}" for name, error in model.approximation_.items()) or "none"
        )
    if hasattr(model, "optimization_path_"):
        is_loss = "loss" in model.optimization_path_
        facts["optimized by"] = "leave-one-out" if is_loss else getattr(model.optimize, "method", model.optimize)
        if not is_loss:
            facts["log likelihood"] = likelihood(model)
        facts["optimization path"] = {name: _finite(values) for name, values in model.optimization_path_.items()}
        facts["most relevant"] = _most_relevant(model)
    if hasattr(model, "feature_names_in_"):
        facts["feature names"] = _some(model.feature_names_in_.tolist())
    facts |= _learned(model)
    if model.posterior_.prepared:
        facts["prepared variances"] = list(model.posterior_.prepared)
    facts |= {
        "solver": model.solver,
        "iterations": model.n_iter_,
        "products": model.n_products_,
        "preconditioner rank": model.preconditioner_rank_,
        "residual": float(model.residual_.max()),
        "tolerance": model.tol,
        "prediction": model.prediction,
        "bins": model.n_bins,
        "interpolation": model.interpolation,
        "training samples": "in the file" if document["includes_training"] else "not in the file: it only predicts",
        "written by": f"histogp {document['version']}, format {document['format']}",
        "sha256": document["sha256"],
    }
    return facts


def _streamed(path: str, model: Any, document: dict[str, Any]) -> dict[str, Any]:
    """The facts about a model that was learned piece by piece."""
    facts: dict[str, Any] = {
        "file": path,
        "bytes": os.path.getsize(path),
        "class": type(model).__name__,
        "feature map": kernel_text(_feature_map(model)),
        "samples": model.n_samples_seen_,
        "features": model.n_features_in_,
    }
    if hasattr(model, "feature_names_in_"):
        facts["feature names"] = _some(model.feature_names_in_.tolist())
    if is_classifier(model):
        labels = _some(model.classes_.tolist())
        facts |= {"classes": len(model.classes_), "labels": labels, "class weight": model.class_weight}
    if hasattr(model, "alpha"):
        facts |= {"penalty": model.alpha, "principal components": getattr(model, "pca_components", None)}
    if getattr(model, "block_weights", None) is not None:
        facts["weights of blocks"] = [f"{one:.3g}" for one in model.block_weights_.tolist()]
    facts["written by"] = f"histogp {document['version']}, format {document['format']}"
    facts["sha256"] = document["sha256"]
    return facts


def _feature_map(model: Any) -> Any:
    """The map that the parameters of a model describe, or None."""
    given = model.get_params(deep=False)
    if given.get("blocks") is None:
        return given["feature_map"]
    return BlockMap(given["blocks"], pca_components=given.get("block_components"))


def _learned(model: Any) -> dict[str, Any]:
    """What is particular to this kind of model."""
    if is_classifier(model):
        labels = _some(model.classes_.tolist())
        return {"classes": len(model.classes_), "labels": labels, "class weight": model.class_weight}
    if is_outlier_detector(model):
        return {
            "detects": "rows unlike the training samples",
            "criterion": model.criterion,
            "variance": model.method,
            "contamination": model.contamination,
            "offset": model.offset_,
        }
    return {"outputs": math.prod(model.posterior_.output_shape)}


def _most_relevant(model: Any) -> list[str]:
    shares = model.feature_relevance_
    names = getattr(model, "feature_names_in_", np.arange(len(shares)))
    return [f"{names[k]} {shares[k]:.1%}" for k in np.argsort(-shares)[:MOST_FEATURES] if shares[k] > 0]


def _finite(values: Any) -> list[Any]:
    """For JSON, which has no NaN."""
    return [value if np.all(np.isfinite(value)) else None for value in values.tolist()]


def _table(path: dict[str, list[Any]]) -> Iterator[str]:
    """The columns of a path as lines; where it is long, some of them."""
    rows = list(zip(*path.values(), strict=True))
    shown = np.unique(np.linspace(0, len(rows) - 1, MOST_EVALUATIONS).astype(int))
    cells = [["evaluation", *(in_words(name, path) for name in path)]]
    cells += [[str(k + 1), *("" if value is None else _number(value) for value in rows[k])] for k in shown]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))


def _number(value: Any) -> str:
    return " ".join(f"{one:.6g}" for one in np.atleast_1d(value))


def _some(values: list[Any]) -> list[Any]:
    return values if len(values) <= MOST_LABELS else [*values[:MOST_LABELS], f"and {len(values) - MOST_LABELS:,} more"]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if type(value) is int else " ".join(str(value).split())
