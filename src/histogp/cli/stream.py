"""``histogp fit --stream``: learn from files of any size, piece by piece, and go on after an interrupt."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier

import histogp
from histogp.cli.arguments import AUTO
from histogp.cli.console import progress, say
from histogp.cli.labels import REAL_LABELS, like, numeric, typed
from histogp.errors import DataError
from histogp.feature_maps import AdditiveChi2Map, ExpChi2Sampler
from histogp.io.atomic import replaceable
from histogp.kernels import SHORT_NAMES, as_kernel
from histogp.sources.chunks import CHUNK_BYTES, Files
from histogp.streaming import StreamingRidge, StreamingRidgeClassifier

# Numbers for each value of a chunk while it is learned from: the terms of its expansion, by default.
VALUES_PER_FEATURE = 3
# Seconds between two files of what was learned so far.
CHECKPOINT_SECONDS = 10.0
# Options of `histogp fit` that mean something only for a Gaussian process, and what they are if nobody gives them.
OTHERS = {
    "one_class": False,
    "eta": None,
    "approximation": None,
    "optimize": None,
    "ard": False,
    "labels": None,
    "predict_only": False,
    "variance": None,
    "criterion": None,
    "contamination": None,
    "noise": AUTO,
    "solver": "auto",
    "tol": 1e-2,
    "max_iter": 1000,
    "preconditioner_rank": None,
    "prediction": "exact",
    "n_bins": 100,
}
# Those that mean something only with --stream.
OWN = {
    "resume": False,
    "pca": None,
    "alpha": "auto",
    "checkpoint_seconds": CHECKPOINT_SECONDS,
    "block": None,
    "block_weights": None,
}
# Kernels with features, which --stream needs.
KERNELS = ("chi2", "exp-chi2")
# Options that set a parameter of the kernel, for those kernels that have it.
OF_KERNELS = {
    "eta": "transform__eta",
    "terms": "n_terms",
    "approximation": "approximation",
    "components": "n_components",
    "beta": "beta",
}
_UNTOLD = ("n_jobs", "feature_map", "additive", "map")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``histogp fit`` for --stream."""
    parser.add_argument(
        "--stream",
        action="store_true",
        help="learn by ridge regression on the features of --kernel chi2 or exp-chi2, piece by piece, with bounded "
        "memory; DATA may be a pattern in quotes, such as 'data/*.parquet'",
    )
    parser.add_argument(
        "--resume", action="store_true", help="with --stream, go on where an interrupted command has stopped"
    )
    parser.add_argument(
        "--terms", type=int, help="with --kernel chi2 or exp-chi2, terms of the expansion of each feature; default: 3"
    )
    parser.add_argument(
        "--components",
        type=int,
        help="with --stream, random features of --kernel exp-chi2 in all; otherwise landmarks or waves, see "
        "--approximation; default: 2000",
    )
    parser.add_argument(
        "--beta",
        type=_beta,
        help="with --kernel exp-chi2, the inverse width: a number, evidence, or median, which is one over the median "
        "distance of rows; default: median",
    )
    parser.add_argument(
        "--block",
        metavar="FIRST:LAST",
        type=_slice,
        action="append",
        help="with --stream, features that have a kernel of their own, numbered from 0 and without the last; may be "
        "given repeatedly, and the kernels add up",
    )
    parser.add_argument(
        "--block-weights", choices=["evidence"], help="with --block, find how much each of the blocks counts"
    )
    parser.add_argument(
        "--checkpoint-seconds",
        metavar="SECONDS",
        type=float,
        default=CHECKPOINT_SECONDS,
        help=f"with --stream, write what was learned so far every so often; default: {CHECKPOINT_SECONDS:g}",
    )
    parser.add_argument("--pca", type=int, help="with --stream, principal components to learn from; default: all")
    parser.add_argument(
        "--alpha",
        type=_alpha,
        default="auto",
        help="with --stream, the penalty: a number, loo, loo-log, gcv, evidence, or auto, which is evidence if there "
        "are at least as many features as rows, else loo; default: auto",
    )


def run(options: argparse.Namespace) -> None:
    """Learn and write the model. Until that is there, a file beside it holds what was learned so far."""
    _refuse_others(options)
    output = Path(options.output)
    checkpoint = output.with_name(f"{output.name}.part")
    for path in (output, checkpoint):
        replaceable(path)
    files = Files.matching(options.data, options.label, options.ignore)
    _keep_input(output, files)
    identity = [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files.paths]
    identity.append(f"label {options.label!r}, without {options.ignore!r}")
    model = _new_model(options)
    if options.resume and checkpoint.exists():
        model = _restored(checkpoint, identity, model)
    n_rows = [source.n_rows for source in files]
    total = None if None in n_rows else sum(n_rows)  # type: ignore[arg-type]
    start = saved = perf_counter()
    n_before = _seen(model)
    with progress(f"learning from {len(n_rows)} file{'s' * (len(n_rows) > 1)}", total) as advance:
        advance(n_before)
        for where, X, y in _chunks(files, n_before):
            try:
                model.partial_fit(X, _labels(y, model, options))
            except ValueError as error:
                raise DataError(f"{where}: {error}") from None
            advance(X.shape[0])
            if perf_counter() - saved >= options.checkpoint_seconds:
                model.save(checkpoint, notes=identity)
                saved = perf_counter()
        if not _seen(model):
            raise DataError(f"{options.data} has no rows.")
        model.save(checkpoint, notes=identity)
        advance(title="solving")
        alpha, criterion, weights = model.alpha_, model.criterion_, model.block_weights_
        if files.feature_names is not None:
            model.feature_names_in_ = np.array(files.feature_names, object)
        model.save(output)
    with suppress(FileNotFoundError):
        checkpoint.unlink()
    kind = f"{len(model.classes_)} classes" if is_classifier(model) else "regression"
    if weights is not None:
        counts = ", ".join(f"{name} {one:.3g}" for (name, _, _), one in zip(model.blocks, weights, strict=True))
        say(f"weights of blocks: {counts}")
    say(
        f"{output}: {model.n_samples_seen_:,} rows, {model.n_features_in_:,} features, {kind}; "
        + (f"{n_before:,} rows were learned before; " if n_before else "")
        + f"learned in {perf_counter() - start:.2f} s, alpha {alpha:.3g}{f' by {criterion}' if criterion else ''}, "
        + f"{output.stat().st_size / 1e6:.1f} MB"
    )


def _keep_input(output: Path, files: Files) -> None:
    """Refuse an output that would take the place of an input."""
    if output.exists() and any(output.samefile(path) for path in files.paths):
        raise DataError(f"{output} is an input of this command; write to another file.")


def _new_model(options: argparse.Namespace) -> Any:
    """A model that has learned nothing yet."""
    common = {"alpha": options.alpha, "pca_components": options.pca, "random_state": options.seed}
    feature_map = None if options.block else _feature_map(options)
    if options.block:
        names = [f"{one.start}:{'' if one.stop is None else one.stop}" for one in options.block]
        blocks = [(name, _feature_map(options), one) for name, one in zip(names, options.block, strict=True)]
        common |= {"blocks": blocks, "block_weights": options.block_weights}
    elif options.block_weights:
        raise DataError("--block-weights needs --block.")
    if options.task == "regression":
        if options.class_weight:
            raise DataError("--class-weight needs --task classification.")
        return StreamingRidge(feature_map, **common)
    if options.class_weight == "balanced-ovr":
        raise DataError("--class-weight balanced-ovr is not for --stream; balanced is.")
    return StreamingRidgeClassifier(feature_map, class_weight=options.class_weight, **common)


def _feature_map(options: argparse.Namespace) -> AdditiveChi2Map | ExpChi2Sampler:
    additive = AdditiveChi2Map(n_jobs=options.jobs)
    if options.terms is not None:
        additive.set_params(n_terms=options.terms)
    if options.kernel == "chi2":
        return additive
    given = {"n_components": options.components, "beta": options.beta}
    given = {name: value for name, value in given.items() if value is not None}
    return ExpChi2Sampler(additive=additive, random_state=options.seed, **given)


def _restored(checkpoint: Path, identity: list[str], like_this: Any) -> Any:
    """The model of a checkpoint, if it is of these files and parameters."""
    model = histogp.load(checkpoint)
    if histogp.describe(checkpoint)["notes"] != identity:
        raise DataError(f"{checkpoint} was written for other files or columns; begin anew without --resume.")
    if type(model) is not type(like_this) or _settings(model) != _settings(like_this):
        raise DataError(f"{checkpoint} was written with other options; give those, or begin anew without --resume.")
    return model


def _settings(model: Any) -> dict[str, Any]:
    """The parameters on which results depend."""
    found = {name: value for name, value in model.get_params().items() if name.split("__")[-1] not in _UNTOLD}
    for name, map_, columns in found.pop("blocks", None) or []:
        own = map_.get_params().items()
        found[name] = str(columns), {key: value for key, value in own if key.split("__")[-1] not in _UNTOLD}
    return found


def _seen(model: Any) -> int:
    """The number of rows that the model has learned from."""
    return getattr(model, "n_samples_seen_", 0)


def _chunks(files: Files, n_skipped: int) -> Iterator[tuple[str, Any, Any]]:
    """All rows, in pieces that do not depend on where to begin, without the first ``n_skipped`` of them.

    Each with a name for where it is.
    """
    position = 0
    for source in files:
        if source.n_rows is not None and position + source.n_rows <= n_skipped:
            position += source.n_rows
            continue
        first = position
        for chunk in source.chunks(max(1, CHUNK_BYTES // (8 * VALUES_PER_FEATURE * (source.n_features or 1)))):
            begin = max(0, n_skipped - position)
            where = f"{source.path}, rows from {position + begin - first + 1:,} on"
            position += chunk.X.shape[0]
            if position > n_skipped:
                if chunk.labels is None:
                    raise DataError(f"{source.path} has no labels of its own: name their column with --label.")
                yield where, chunk.X[begin:], chunk.labels[begin:]


def _labels(labels: Any, model: Any, options: argparse.Namespace) -> Any:
    """Labels of a chunk, of the type that those of the first chunk had."""
    if options.task == "regression":
        return numeric(labels)
    if not hasattr(model, "classes_"):
        found = typed(labels)
    else:
        found = like(labels, model.classes_)
        found = typed(found) if model.classes_.dtype.kind in "biu" else found
    if found.dtype.kind == "f":
        raise DataError(REAL_LABELS)
    return found


def _refuse_others(options: argparse.Namespace) -> None:
    """Refuse what has no meaning with --stream, or with another kernel."""
    if options.kernel not in KERNELS:
        raise DataError(f"--stream needs --kernel {' or '.join(KERNELS)}.")
    for name in ("terms", "components", "pca"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise DataError(f"--{name} must be 1 or more.")
    for name, unset in OTHERS.items():
        if getattr(options, name) != unset:
            raise DataError(f"--{name.replace('_', '-')} is not for --stream.")
    _refuse_for_kernel(options)
    if not 0 <= options.checkpoint_seconds < float("inf"):
        raise DataError("--checkpoint-seconds must be a number from 0 on.")


def refuse_options(options: argparse.Namespace) -> None:
    """Refuse what has no meaning without --stream, or with another kernel."""
    for name, unset in OWN.items():
        if getattr(options, name) != unset:
            raise DataError(f"--{name.replace('_', '-')} needs --stream.")
    _refuse_for_kernel(options)


def _refuse_for_kernel(options: argparse.Namespace) -> None:
    """Refuse options for parameters that the kernel does not have."""
    parameters = {name: as_kernel(name).get_params() for name in SHORT_NAMES}
    own = {} if options.kernel == AUTO else as_kernel(options.kernel).get_params()
    for option, name in OF_KERNELS.items():
        if getattr(options, option) is not None and name not in own:
            kernels = [kernel for kernel, known in parameters.items() if name in known]
            alone = " alone, not for a sum" if "+" in options.kernel else ""
            raise DataError(f"--{option} is for --kernel {' or '.join(kernels)}{alone}.")


def _beta(text: str) -> Any:
    if text in ("median", "evidence"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor median or evidence") from None


def _slice(text: str) -> slice:
    first, colon, last = text.partition(":")
    if not colon or not all(bound.isdecimal() or not bound for bound in (first, last)):
        raise argparse.ArgumentTypeError(f"{text!r} is not two numbers such as 0:441, of which one may be left out")
    return slice(int(first or 0), int(last) if last else None)


def _alpha(text: str) -> Any:
    if text in ("auto", "loo", "loo-log", "gcv", "evidence"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor auto, loo, loo-log, gcv or evidence"
        ) from None
