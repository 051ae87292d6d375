"""``histogp fit``: learn from a file, write a model."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from histogp.cli import stream
from histogp.cli.arguments import AUTO, add_data, read_data, read_rows
from histogp.cli.arguments import add_command as new_command
from histogp.cli.console import Iterations, in_words, likelihood, progress, say
from histogp.cli.labels import REAL_LABELS
from histogp.errors import DataError
from histogp.gp import VARIANCE_TABLES, HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.io.atomic import replaceable
from histogp.kernels import SHORT_NAMES, as_kernel

EXAMPLES = """
histogp fit train.csv --label species -o model.histogp
histogp fit counts.svmlight --kernel hik-poly -o model.histogp
histogp fit train.csv --label species --kernel hik-poly --optimize gradient -o model.histogp
histogp fit X.npy --labels y.npy --prediction quantized --predict-only -o small.histogp
histogp fit houses.parquet --label price --task regression --ignore id -o model.histogp
histogp fit usual.csv --one-class -o model.histogp
histogp fit train.csv --label species --kernel exp-chi2 --approximation nystroem --optimize gradient -o model.histogp
histogp fit --kernel chi2 --stream 'data/*.parquet' --label y --resume -o model.histogp
"""


def add_command(commands: Any) -> None:
    """The options of ``histogp fit``."""
    parser = new_command(commands, "fit", "learn from rows and write a model file", EXAMPLES)
    add_data(parser, labels=True)
    parser.add_argument("-o", "--output", metavar="MODEL", required=True, help="the model file to write")
    parser.add_argument(
        "--task", choices=["classification", "regression"], default="classification", help="default: classification"
    )
    parser.add_argument(
        "--one-class",
        action="store_true",
        help="learn what rows look like, without labels, to tell rows that look different; labels are left out",
    )
    parser.add_argument(
        "--criterion",
        choices=["variance", "mean", "ratio"],
        help="with --one-class, what tells them: the variance, the mean, or mean by standard deviation; default: "
        "variance",
    )
    parser.add_argument(
        "--contamination",
        metavar="PART",
        type=_contamination,
        help="with --one-class, the part of the training rows that count as outliers, up to 0.5; default: auto, which "
        "suits new rows: about one in twenty of them counts as an outlier if they are like the training rows",
    )
    parser.add_argument(
        "--kernel",
        type=_kernel_name,
        default=AUTO,
        help="auto, a sum of kernels that is found on the rows by what predicts them best when they are left out, for "
        f"features of any sign; or one of {', '.join(SHORT_NAMES)}, or a sum of these, 'hik + laplacian'; default: "
        "auto",
    )
    parser.add_argument(
        "--approximation",
        choices=["auto", "exact", "single", "nystroem", "fourier", "parts"],
        help="how a kernel works that is evaluated pair by pair, such as exp-chi2: with its matrix, by landmarks, or "
        "by random waves, or each part of a sum as it does alone; single is exact, too, above 12,000 rows by a matrix "
        "in single precision; default: auto, which is exact up to 12,000 rows",
    )
    parser.add_argument("--eta", type=float, help="the kernel's exponent (hik-poly) or growth (hik-exp)")
    parser.add_argument(
        "--noise",
        type=_noise,
        default=AUTO,
        help="noise variance: auto, which is found on the rows, or a number in units of K(x, x), for instance a row's "
        "sum with hik, one with exp-chi2; default: auto",
    )
    parser.add_argument(
        "--optimize",
        choices=["gradient", "bound", "exact", "loo"],
        help="search for kernel hyperparameters and noise that make the rows most likely, starting from those given, "
        "or with loo predict them best when they are left out; default: take them as they are",
    )
    parser.add_argument("--ard", action="store_true", help="learn a weight for each feature; needs --optimize")
    parser.add_argument("--class-weight", choices=["balanced", "balanced-ovr"], help="for unequal classes")
    parser.add_argument("--solver", choices=["auto", "cg", "cholesky"], default="auto", help="default: auto")
    parser.add_argument("--tol", type=float, default=1e-2, help="relative residual of the solver; default: 0.01")
    parser.add_argument("--max-iter", type=int, default=1000, help="iterations of the solver at most; default: 1000")
    parser.add_argument("--preconditioner-rank", type=int, help="default: chosen automatically")
    parser.add_argument(
        "--prediction", choices=["exact", "quantized"], default="exact", help="how the model predicts; default: exact"
    )
    parser.add_argument("--n-bins", type=int, default=100, help="bins of quantized prediction; default: 100")
    parser.add_argument(
        "--predict-only",
        action="store_true",
        help="leave out of the file what only learning needs; needs --prediction quantized, --kernel chi2, or "
        "--approximation nystroem or fourier. With auto and kernels such as laplacian predictions are made from "
        "training rows, which stay in the file",
    )
    parser.add_argument(
        "--variance",
        metavar="METHOD",
        choices=VARIANCE_TABLES,
        help=f"prepare this variance, so that it is in the file: {', '.join(VARIANCE_TABLES)}; with --predict-only the "
        "others are lost. With --one-class it is the one that the scores are made of",
    )
    stream.add_options(parser)
    parser.add_argument("--jobs", type=int, help="threads; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of whatever is drawn at random; default: 0")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Learn and write the model; nothing is written if anything fails."""
    if options.stream:
        stream.run(options)
        return
    stream.refuse_options(options)
    model = _one_class(options) if options.one_class else _supervised(options)
    if options.predict_only and options.prediction != "quantized" and not _has_features(options):
        raise DataError("--predict-only needs --prediction quantized: exact prediction reads the training rows.")
    replaceable(Path(options.output))
    with progress(f"reading {options.data}") as advance:
        X, y, names = read_rows(options) if options.one_class else read_data(options, options.task)
        title = f"learning from {X.shape[0]:,} rows"
        advance(title=title)
        start = perf_counter()
        with suppress(NotImplementedError):  # callbacks need scikit-learn 1.9
            model.set_callbacks(Iterations(advance, title))
        _fit(model, X, y, options.task)
        seconds = perf_counter() - start
        model.set_callbacks()
        if options.variance is not None:
            advance(title=f"preparing the variance {options.variance}")
            _prepare(model, X, options)
        if names is not None:
            model.feature_names_in_ = np.array(names, object)
        advance(title=f"writing {options.output}")
        model.save(options.output, include_training=not options.predict_only)
    if options.optimize:
        say(_found(model))
    say(f"learned: {model.in_words()}")
    say(
        f"{options.output}: {model.n_samples_:,} rows, {model.n_features_in_:,} features, {_kind(model)}; learned in "
        f"{seconds:.2f} s ({model.n_iter_} iterations), {os.path.getsize(options.output) / 1e6:.1f} MB"
    )


def _supervised(options: argparse.Namespace) -> Any:
    """A classifier or a regressor, not fitted yet."""
    for name in ("criterion", "contamination"):
        if getattr(options, name) is not None:
            raise DataError(f"--{name} needs --one-class.")
    parameters = {**_parameters(options), "optimize": options.optimize}
    if options.task == "regression":
        if options.class_weight:
            raise DataError("--class-weight needs --task classification.")
        return HistogramGPRegressor(_kernel(options), **parameters)
    return HistogramGPClassifier(_kernel(options), class_weight=options.class_weight, **parameters)


def _one_class(options: argparse.Namespace) -> Any:
    """A one-class model, not fitted yet."""
    for name, given in (
        ("--task regression", options.task == "regression"),
        ("--optimize", options.optimize),
        ("--ard", options.ard),
        ("--class-weight", options.class_weight),
    ):
        if given:
            raise DataError(f"--one-class and {name} exclude each other: there are no labels to learn from.")
    criterion = options.criterion or "variance"
    reads_training = criterion != "mean" and options.variance is None and not _has_features(options)
    if options.predict_only and reads_training:
        *first, last = VARIANCE_TABLES
        raise DataError(
            f"--predict-only needs --criterion mean or --variance {', '.join(first)} or {last} here: the variance "
            "would read the training rows."
        )
    contamination = "auto" if options.contamination is None else options.contamination
    return HistogramGPOneClass(
        _kernel(options),
        criterion=criterion,
        method=options.variance or "auto",
        contamination=contamination,
        **_parameters(options),
    )


def _has_features(options: argparse.Namespace) -> bool:
    """Whether predictions come from features, without the training rows."""
    return options.kernel == "chi2" or options.approximation in ("nystroem", "fourier")


def _kernel(options: argparse.Namespace) -> Any:
    """The kernel with the parameters that options give; "auto" has none."""
    if options.kernel == AUTO:
        if options.ard:
            raise DataError("--ard is not for --kernel auto, which finds weights of features by itself.")
        return AUTO
    kernel: Any = as_kernel(options.kernel)
    given = {name: getattr(options, option) for option, name in stream.OF_KERNELS.items()}
    kernel.set_params(**{name: value for name, value in given.items() if value is not None})
    if "random_state" in kernel.get_params():
        kernel.set_params(random_state=options.seed)
    if options.ard:
        if not options.optimize:
            raise DataError("--ard needs --optimize, which learns the weights.")
        if "weights" not in kernel.get_params():
            raise DataError(f"--ard is not for --kernel {options.kernel}, which has no weights.")
        kernel.set_params(weights="ard")
    return kernel


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """The parameters that all models have."""
    return {
        "noise": options.noise,
        "solver": options.solver,
        "tol": options.tol,
        "max_iter": options.max_iter,
        "preconditioner_rank": "auto" if options.preconditioner_rank is None else options.preconditioner_rank,
        "prediction": options.prediction,
        "n_bins": options.n_bins,
        "n_jobs": options.jobs,
        "random_state": options.seed,
    }


def _kernel_name(text: str) -> str:
    """The name of a kernel, or of a sum of several, or "auto"."""
    names = [name.strip() for name in text.split("+")]
    if len(names) > 1 and AUTO in names:
        raise argparse.ArgumentTypeError(f"{AUTO!r} is a sum already, and no part of one; got {text!r}")
    if unknown := [name for name in names if name not in (AUTO, *SHORT_NAMES)]:
        known = ", ".join(map(repr, (AUTO, *SHORT_NAMES)))
        raise argparse.ArgumentTypeError(f"Unknown kernel {unknown[0]!r}; known names are {known}")
    return text


def _noise(text: str) -> Any:
    try:
        return AUTO if text == AUTO else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number above 0") from None


def _contamination(text: str) -> Any:
    try:
        return "auto" if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither auto nor a number up to 0.5") from None


def _prepare(model: Any, X: Any, options: argparse.Namespace) -> None:
    """Make the tables of a variance, which go into the file."""
    model.predict_variance(X[:1], options.variance)
    if options.predict_only and not model.posterior_.offers("tables"):
        raise DataError(
            f"--variance {options.variance} needs the training rows with this kernel: leave --predict-only out, or "
            "take --kernel hik, or exp-chi2 with --approximation nystroem, which needs no table."
        )
    if options.predict_only and options.variance not in model.posterior_.prepared:
        raise DataError(
            f"--variance {options.variance} needs 256 training rows to make a table; with fewer take sampled."
        )


def _kind(model: Any) -> str:
    """What it has learned, for a sentence."""
    if is_classifier(model):
        return f"{len(model.classes_)} classes"
    return "one class" if is_outlier_detector(model) else "regression"


def _found(model: Any) -> str:
    """The hyperparameters that the search ended with."""
    kernel = model.kernel_
    found = {"noise": model.noise_}
    of_transform = {name: value for name, value in kernel.get_params().items() if name.startswith("transform__")}
    found |= {in_words(name, ("noise", "scale")): value for name, value in of_transform.items()}
    if np.ndim(kernel.weights):
        found["features with a weight"] = np.count_nonzero(kernel.weights)
    parameters = kernel.get_params()
    wanted = [name for name in parameters if f"__{name}".endswith(("__scale", "__beta")) and name not in of_transform]
    if np.ndim(kernel.weights) and "scale" in wanted:
        wanted.remove("scale")  # the weights have it in them
    found |= {in_words(name, ()): parameters[name] for name in wanted}
    by = "" if "loss" in model.optimization_path_ else f"; log marginal likelihood {likelihood(model)}"
    return (
        f"found in {len(model.optimization_path_['n_samples'])} evaluations: "
        + ", ".join(f"{name} {value:.4g}" for name, value in found.items())
        + by
    )


def _fit(model: Any, X: Any, y: Any, task: str) -> None:
    """Fit, with a hint for real numbers as labels."""
    try:
        model.fit(X, y)
    except ValueError as error:
        if "Unknown label type" in str(error) and task == "classification":
            raise DataError(REAL_LABELS) from None
        raise
