"""``histogp fit --stream``: learn from files of any size, piece by piece, and go on after an interrupt."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from histogp import container
from histogp.atomic import replaceable
from histogp.cli.console import progress, say
from histogp.cli.labels import like, numeric, typed
from histogp.estimators.feature_maps import AdditiveChi2Map
from histogp.estimators.load import load
from histogp.estimators.streaming import model_file
from histogp.estimators.streaming.ridge import StreamingRidge, StreamingRidgeClassifier
from histogp.sources.chunks import CHUNK_BYTES, matching
from histogp.sources.errors import DataError
from histogp.sources.open import Source, open_source

# Seconds between two files of what was learnt so far.
CHECKPOINT_SECONDS = 10.0
# Options of `histogp fit` that mean something only for a Gaussian process, and what they are if nobody gives them.
OTHERS = {
    "one_class": False,
    "eta": None,
    "optimize": None,
    "ard": False,
    "labels": None,
    "predict_only": False,
    "variance": None,
    "criterion": None,
    "contamination": None,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stream",
        action="store_true",
        help="learn by ridge regression on the features of --kernel chi2, piece by piece, with bounded memory; DATA "
        "may be a pattern in quotes, such as 'data/*.parquet'",
    )
    parser.add_argument(
        "--resume", action="store_true", help="with --stream, go on where an interrupted command has stopped"
    )
    parser.add_argument(
        "--components", type=int, default=3, help="with --kernel chi2, features for each feature; default: 3"
    )
    parser.add_argument("--pca", type=int, help="with --stream, principal components to learn from; default: all")
    parser.add_argument(
        "--alpha", type=_alpha, default="loo", help="with --stream, the penalty: a number, loo, gcv or evidence"
    )


def run(options: argparse.Namespace) -> None:
    """Learn and write the model. Until that is there, a file beside it holds what was learnt so far."""
    _refuse_others(options)
    output = Path(options.output)
    checkpoint = output.with_name(f"{output.name}.part")
    for path in (output, checkpoint):
        replaceable(path)
    sources = _open(options)
    identity = [f"{source.path.name} {os.path.getsize(source.path)}" for source in sources]
    model = _begin(options)
    if options.resume and checkpoint.exists():
        model = _restored(checkpoint, identity, model)
    names = sources[0].feature_names
    n_rows = [source.n_rows for source in sources]
    total = None if None in n_rows else sum(n_rows)  # type: ignore[arg-type]
    start = saved = perf_counter()
    n_before = _seen(model)
    with progress(f"learning from {len(sources)} file{'s' * (len(sources) > 1)}", total) as advance:
        advance(n_before)
        for X, y in _chunks(sources, n_before, options.components):
            model.partial_fit(X, _labels(y, model, options))
            advance(X.shape[0])
            if perf_counter() - saved > CHECKPOINT_SECONDS:
                model_file.save(model, checkpoint, identity)
                saved = perf_counter()
        model_file.save(model, checkpoint, identity)
        advance(title="solving")
        alpha = model.alpha_
        if names is not None:
            model.feature_names_in_ = np.array(names, object)
        model.save(output)
    with suppress(FileNotFoundError):
        checkpoint.unlink()
    kind = f"{len(model.classes_)} classes" if hasattr(model, "classes_") else "regression"
    say(
        f"{output}: {model.n_samples_seen_:,} rows, {model.n_features_in_:,} features, {kind}; "
        + (f"{n_before:,} rows were learnt before; " if n_before else "")
        + f"learnt in {perf_counter() - start:.2f} s, alpha {alpha:.3g}, {output.stat().st_size / 1e6:.1f} MB"
    )


def _open(options: argparse.Namespace) -> list[Source]:
    """The files, with the same columns in the same order."""
    paths = matching(options.data)
    first = open_source(paths[0], label=options.label, ignore=options.ignore)
    names, width = first.feature_names, first.n_features
    others = [
        open_source(path, label=options.label, ignore=options.ignore, features=names, n_features=width)
        for path in paths[1:]
    ]
    return [first, *others]


def _begin(options: argparse.Namespace) -> Any:
    feature_map = AdditiveChi2Map(n_components=options.components, n_jobs=options.jobs)
    common = {"alpha": options.alpha, "pca_components": options.pca, "random_state": options.seed}
    if options.task == "regression":
        return StreamingRidge(feature_map, **common)
    if options.class_weight == "balanced-ovr":
        raise DataError("--class-weight balanced-ovr is not for --stream; balanced is.")
    return StreamingRidgeClassifier(feature_map, class_weight=options.class_weight, **common)


def _restored(checkpoint: Path, identity: list[str], like_this: Any) -> Any:
    model = load(checkpoint)
    document, _ = container.read(checkpoint)
    if model_file.progress_of(document) != identity:
        raise DataError(
            f"{checkpoint} is of other files than these; without --resume they are learnt from the beginning."
        )
    if type(model) is not type(like_this) or repr(model) != repr(like_this):
        raise DataError(f"{checkpoint} was begun with other options; without --resume it begins anew.")
    return model


def _seen(model: Any) -> int:
    return getattr(model, "n_samples_seen_", 0)


def _chunks(sources: list[Source], n_skipped: int, n_components: int) -> Iterator[tuple[Any, Any]]:
    """All rows, in pieces that do not depend on where to begin, without the first ``n_skipped`` of them."""
    position = 0
    for source in sources:
        if source.n_rows is not None and position + source.n_rows <= n_skipped:
            position += source.n_rows
            continue
        for chunk in source.chunks(max(1, CHUNK_BYTES // (8 * n_components * (source.n_features or 1024)))):
            position += chunk.X.shape[0]
            if position > n_skipped:
                if chunk.labels is None:
                    raise DataError(f"{source.path} has no labels of its own: name their column with --label.")
                yield chunk.X, chunk.labels


def _labels(labels: Any, model: Any, options: argparse.Namespace) -> Any:
    if options.task == "regression":
        return numeric(labels)
    if not hasattr(model, "classes_"):
        found = typed(labels)
    else:
        found = like(labels, model.classes_)
        found = typed(found) if model.classes_.dtype.kind in "biu" else found
    if found.dtype.kind == "f":
        raise DataError("The labels are real numbers; if they are targets of a regression, use --task regression.")
    return found


def _refuse_others(options: argparse.Namespace) -> None:
    if options.kernel != "chi2":
        raise DataError("--stream needs --kernel chi2.")
    for name, unset in OTHERS.items():
        if getattr(options, name) != unset:
            raise DataError(f"--{name.replace('_', '-')} is not for --stream.")
    if options.prediction != "exact":
        raise DataError("--prediction is not for --stream.")


def _alpha(text: str) -> Any:
    if text in ("loo", "gcv", "evidence"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor loo, gcv or evidence") from None
