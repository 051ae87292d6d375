"""``histogp inspect``: what is in a model file."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from sklearn.base import is_classifier

from histogp import container
from histogp.cli.console import say
from histogp.cli.data import add_command as new_command
from histogp.estimators.load import load

EXAMPLES = """
histogp inspect model.histogp
histogp inspect model.histogp --json
"""
MOST_LABELS = 20


def add_command(commands: Any) -> None:
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
    width = max(map(len, facts))
    for name, value in facts.items():
        say(f"{name:<{width}}  {_text(value)}")


def describe(path: str) -> dict[str, Any]:
    """The facts about a model file, by name."""
    model = load(path)
    document, _ = container.read(path)
    facts: dict[str, Any] = {
        "file": path,
        "bytes": os.path.getsize(path),
        "class": type(model).__name__,
        "kernel": repr(model.kernel_),
        "noise": model.noise,
        "examples": model.n_examples_,
        "features": model.n_features_in_,
        "non-zeros": model.n_nonzeros_,
    }
    if hasattr(model, "feature_names_in_"):
        facts["feature names"] = _some(model.feature_names_in_.tolist())
    if is_classifier(model):
        facts["classes"] = len(model.classes_)
        facts["labels"] = _some(model.classes_.tolist())
        facts["class weight"] = model.class_weight
    else:
        facts["outputs"] = int(model._scale.size)
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
        "training examples": "in the file" if document["includes_training"] else "not in the file: it only predicts",
        "written by": f"histogp {document['version']}, format {document['format']}",
        "sha256": document["sha256"],
    }
    return facts


def _some(values: list[Any]) -> list[Any]:
    return values if len(values) <= MOST_LABELS else [*values[:MOST_LABELS], f"and {len(values) - MOST_LABELS:,} more"]


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if type(value) is int else " ".join(str(value).split())
