"""What of a fitted estimator goes into a model file, and how it comes back."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import numpy as np

from histogp._core.codecs import Codec
from histogp._core.data import Array, Rows
from histogp._core.layouts import GridLayout
from histogp._core.operators.contract import Features
from histogp._core.posterior import Posterior
from histogp._core.predict_only import Predictor
from histogp._core.predictors import QuantizedMean, QuantizedTable
from histogp._core.solvers.factors import MOST_COMPONENTS, FeatureFactor, features_of
from histogp._core.solvers.problem import Noise
from histogp._core.threads import Versions
from histogp._encoding import Reader, Writer, integer
from histogp._estimator import number_of_threads
from histogp.exceptions import ModelFileError
from histogp.gp import _table_file
from histogp.gp._tasks import Samples
from histogp.io import container
from histogp.kernels import Kernel

FORMAT = 1
_LAYOUT = ("upper", "starts")
_TABLE = ("nodes", "errors", "linear_bounds", "linear_worst")
_NORMS = ("weight_norms", "weight_bounds")
_SMALLEST = float(np.nextafter(0, 1))
_KEYS = {
    "format",
    "version",
    "class",
    "parameters",
    "kernel",
    "optimization_path",
    "n_features",
    "has_feature_names",
    "n_iterations",
    "n_products",
    "preconditioner_rank",
    "n_examples",
    "n_nonzeros",
    "includes_training",
    "outputs",
    "prepared",
    "seed",
    "examples",
    "sha256",
}


def save(estimator: Any, path: Any, include_training: bool) -> None:
    """Write a fitted estimator; see `HistogramGP.save`."""
    if not type(estimator).__module__.startswith("histogp."):
        raise ValueError(
            f"A {type(estimator).__name__} would need its code, which a model file cannot hold; use joblib."
        )
    estimator._validate_params()
    include_training = bool(include_training)
    has_features = estimator._posterior.operator.offer(Features) is not None
    if not include_training:
        if not has_features:
            _quantized(estimator)  # refuses what cannot be done
        no_rows = Rows.from_array(np.empty((0, estimator.n_features_in_)))
        estimator._task().prepare(estimator._posterior, no_rows, estimator._options())
    writer = Writer()
    parameters = estimator.get_params(deep=False)
    document = {
        "format": FORMAT,
        "version": importlib.metadata.version("histogp"),
        "class": type(estimator).__name__,
        "parameters": {name: writer.value(f"parameter.{name}", parameters[name]) for name in parameters},
        "kernel": writer.value("kernel", estimator.kernel_),
        "optimization_path": list(getattr(estimator, "optimization_path_", {})),
        "n_features": estimator.n_features_in_,
        "has_feature_names": hasattr(estimator, "feature_names_in_"),
        "n_iterations": int(estimator.n_iter_),
        "n_products": int(estimator.n_products_),
        "preconditioner_rank": int(estimator.preconditioner_rank_),
        "n_examples": estimator.n_examples_,
        "n_nonzeros": estimator.n_nonzeros_,
        "includes_training": include_training,
        "outputs": estimator._codec.to_state(writer),
        "prepared": _table_file.pack(estimator._posterior.tables(), writer, include_training),
        "seed": estimator._posterior.seed,
        "examples": _samples_to_state(estimator, writer) if include_training else None,
    }
    writer.arrays |= {f"value.{name}": array for name, array in estimator._posterior.kernel.to_state().items()}
    writer.arrays["residual"] = estimator.residual_
    writer.arrays["noise_found"] = np.array([estimator.noise_])
    writer.arrays["relevance"] = estimator.feature_relevance_
    if document["optimization_path"]:
        likelihood = (estimator.log_marginal_likelihood_, estimator.log_marginal_likelihood_error_)
        writer.arrays["likelihood"] = np.array(likelihood, np.float64)
        writer.arrays |= {f"path.{name}": estimator.optimization_path_[name] for name in document["optimization_path"]}
    if document["has_feature_names"]:
        writer.texts("feature_names", estimator.feature_names_in_.tolist())
    if include_training:
        _write_training(estimator._posterior_with_training(), writer)
    elif has_features:
        _write_features(estimator._posterior, writer)
    else:
        writer.arrays |= _table_arrays(_quantized(estimator))
    container.write(path, document, writer.arrays)


def restore(document: dict[str, Any], arrays: dict[str, Any], classes: Mapping[str, Any]) -> Any:
    """The estimator in a file's contents, of one of ``classes`` (by their names)."""
    version = document.get("format")
    if type(version) is not int or version < 1:
        raise ModelFileError("its format version is damaged.")
    if version > FORMAT:
        raise ModelFileError(f"its format is {version}, that of a newer histogp; this one reads up to {FORMAT}.")
    name = document.get("class")
    cls = classes.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ModelFileError(f"it holds a {str(name)[:50]!r}, which this version does not know.")
    try:
        return _restore(cls, document, Reader(arrays))
    except ModelFileError:
        raise
    # Contents that were written with a valid checksum but never by `save`.
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelFileError(f"{reason.rstrip('.')}.") from None


def _restore(cls: Any, document: dict[str, Any], reader: Reader) -> Any:
    if document.keys() != _KEYS or not isinstance(document["version"], str):
        raise ModelFileError("its description is damaged.")
    given = document["parameters"]
    if given.keys() != cls().get_params(deep=False).keys():
        raise ModelFileError("its parameters are not those of its class.")
    estimator = cls(**{name: reader.value(given[name]) for name in given})
    estimator._validate_params()
    includes_training = document["includes_training"]
    if type(includes_training) is not bool:
        raise ModelFileError("its description is damaged.")
    n_features = integer(document, "n_features", 1)
    kernel = reader.object(document["kernel"])
    if not isinstance(kernel, Kernel):
        raise ModelFileError("its kernel is damaged.")
    has_features = not includes_training and reader.has("features.weights")
    # Before anything of that length is made, it must be in the file.
    if includes_training:
        reader.expect("data.indptr", (n_features + 1,))
    elif not has_features:
        reader.expect("table.starts", (n_features + 1,))
    estimator.kernel_ = kernel
    estimator.n_features_in_ = n_features
    if document["has_feature_names"] is True:
        names = reader.texts("feature_names")
        if len(names) != n_features:
            raise ModelFileError("it does not have one name for each feature.")
        estimator.feature_names_in_ = np.array(names, object)
    for attribute, key in (
        ("n_iter_", "n_iterations"),
        ("n_products_", "n_products"),
        ("preconditioner_rank_", "preconditioner_rank"),
        ("n_examples_", "n_examples"),
        ("n_nonzeros_", "n_nonzeros"),
    ):
        setattr(estimator, attribute, integer(document, key))
    estimator.residual_ = reader.array("residual", np.float64, (None,), lowest=0)
    estimator.noise_ = float(reader.array("noise_found", np.float64, (1,), lowest=_SMALLEST)[0])
    estimator.feature_relevance_ = reader.array("relevance", np.float64, (n_features,), lowest=0)
    _read_path(estimator, document["optimization_path"], reader)
    codec = estimator._task().codec.from_state(reader, document["outputs"])
    n_problems = codec.n_outputs
    if len(estimator.residual_) != n_problems or n_problems < 1:
        raise ModelFileError("its number of problems is damaged.")
    value = kernel._restore(reader, "value.", n_features)
    tables = _table_file.unpack(document["prepared"], reader, value, n_features, estimator.n_examples_)
    seed = integer(document, "seed")
    if includes_training:
        samples = _read_samples(estimator, codec, reader, document["examples"])
        targets = codec.encode(samples.y)
        estimator._install(_read_training(estimator, value, reader, targets, tables, seed), codec, samples)
    elif has_features:
        estimator._install(_read_features(kernel, value, reader, n_features, n_problems, tables, seed), codec)
    else:
        quantized = _read_table(estimator, value, reader, n_problems)
        operator = kernel._operator(value, np.empty((0, n_features)))
        estimator._install(Predictor(operator, None, quantized, tables, seed), codec)
    reader.finish()
    return estimator


def _read_path(estimator: Any, names: Any, reader: Reader) -> None:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelFileError("its description is damaged.")
    if not names:
        return
    value, error = reader.array("likelihood", np.float64, (2,), finite=False)
    estimator.log_marginal_likelihood_, estimator.log_marginal_likelihood_error_ = float(value), float(error)
    path = {name: reader.array(f"path.{name}", np.float64, None, finite=False) for name in names}
    if len({column.shape[:1] for column in path.values()}) != 1:
        raise ModelFileError("the path of its optimisation is damaged.")
    estimator.optimization_path_ = path


def _quantized(estimator: Any) -> QuantizedMean:
    if estimator.prediction == "exact":
        raise ValueError(
            "Exact prediction needs the training examples: save them too (include_training=True), or call "
            'set_params(prediction="quantized") first.'
        )
    return estimator._posterior.quantized(estimator._grid())


def _write_training(posterior: Posterior, writer: Writer) -> None:
    """Put the training samples and the solution into a file."""
    posterior.operator.to_state(writer.child("data"))
    noise = posterior.noise
    writer.put("alpha", posterior.alpha)
    writer.put("noise", noise.sample)
    if noise.positive is not None and noise.negative is not None:
        writer.put("noise.positive", noise.positive)
        writer.put("noise.negative", noise.negative)


def _read_training(
    estimator: Any, kernel: Any, reader: Reader, targets: Array, tables: Versions, seed: int
) -> Posterior:
    n_samples, n_problems = targets.shape
    alpha = reader.array("alpha", np.float64, (n_samples, n_problems))
    noise = Noise(reader.array("noise", np.float64, (n_samples,), lowest=_SMALLEST))
    if n_problems > 1 and reader.has("noise.positive"):
        positive, negative = (
            reader.array(f"noise.{side}", np.float64, (n_problems,), lowest=_SMALLEST)
            for side in ("positive", "negative")
        )
        noise = Noise(noise.sample, targets.argmax(axis=1), positive, negative)
    if tables.get("feature-weights", (None, alpha))[1].shape[1] != n_problems:
        raise ModelFileError("its weights are not those of its problems.")
    n_features, n_threads = estimator.n_features_in_, number_of_threads(estimator.n_jobs)
    operator = estimator.kernel_._operator_type.from_state(
        reader.child("data"), kernel, n_samples, n_features, n_threads
    )
    return Posterior(operator, noise, alpha, targets, float(estimator.residual_.max()), seed, tables)


def _write_features(posterior: Any, writer: Writer) -> None:
    """Put the weights of the features in the mean, and the factor of their posterior precision, into a file."""
    if posterior.includes_training:
        features = features_of(posterior.operator)
        if features.n_components > MOST_COMPONENTS:
            raise ValueError(
                f"A model of {features.n_components:,} features needs its training samples: save them too."
            )
        factor = FeatureFactor.of(posterior.operator, posterior.largest_noise)
        weights = posterior.tables().get("feature-weights", (None, None))[1]
        weights = features.project(posterior.alpha) if weights is None else weights
    else:
        weights, factor = posterior.table.weights, posterior.tables()["precise"][1]
    writer.put("features.weights", weights)
    writer.put("features.factor", factor.factor)


def _read_features(
    kernel: Kernel, value: Any, reader: Reader, n_features: int, n_problems: int, tables: Versions, seed: int
) -> Predictor:
    operator = kernel._operator(value, np.empty((0, n_features)))
    features = features_of(operator)
    n_components = features.n_components
    weights = reader.array("features.weights", np.float64, (n_components, n_problems))
    factor = reader.array("features.factor", np.float64, (n_components, n_components))
    if not np.all(factor.diagonal() >= 1 - 1e-9):
        raise ModelFileError("the factor of its features is damaged.")
    nothing = np.empty(0)
    precise = FeatureFactor(operator, nothing, nothing, np.asfortranarray(np.tril(factor)))
    return Predictor(operator, features.from_weights(weights), None, {**tables, "precise": (None, precise)}, seed)


def _samples_to_state(estimator: Any, writer: Writer) -> dict[str, int]:
    estimator._posterior_with_training()
    samples: Samples = estimator._samples
    writer.arrays |= {"ids": samples.ids, "weights": samples.weights}
    estimator._codec.labels_to_state(writer, samples.y)
    n_changed, n_searched = estimator._since_search
    return {"n_given": samples.n_given, "n_changed": n_changed, "n_searched": n_searched}


def _read_samples(estimator: Any, codec: Codec, reader: Reader, description: Any) -> Samples:
    n_rows = estimator.n_examples_
    # First, again, what is as long as it says.
    ids = reader.array("ids", np.int64, (n_rows,), lowest=0)
    weights = reader.array("weights", np.float64, (n_rows,), lowest=_SMALLEST)
    if not 1 <= n_rows < 2**32:
        raise ModelFileError("its number of examples is damaged.")
    n_given = integer(description, "n_given", n_rows)
    if np.any(ids[1:] <= ids[:-1]) or ids[-1] >= n_given:
        raise ModelFileError("the numbers of its examples are damaged.")
    y = codec.labels_from_state(reader, n_rows)
    estimator._since_search = (integer(description, "n_changed"), integer(description, "n_searched"))
    return Samples(ids, y, weights, n_given)


def _table_arrays(quantized: QuantizedMean) -> dict[str, Any]:
    table = quantized.table
    sources = ((table.layout, _LAYOUT), (table, _TABLE), (quantized, _NORMS))
    return {f"table.{name}": getattr(source, name) for source, names in sources for name in names}


def _read_table(estimator: Any, kernel: Any, reader: Reader, n_problems: int) -> QuantizedMean:
    n_features, grid = estimator.n_features_in_, estimator._grid()
    starts = reader.array("table.starts", np.int64, (n_features + 1,))
    upper = reader.array("table.upper", np.float64, (n_features,), lowest=0)
    layout = GridLayout.checked(kernel, int(grid.n_bins), upper, starts)
    shapes = {
        "nodes": (layout.n_nodes, n_problems),
        "errors": (n_features,),
        **dict.fromkeys(("linear_bounds", "linear_worst", *_NORMS), (n_problems,)),
    }
    arrays = {
        name: reader.array(f"table.{name}", np.float64, shape, lowest=-np.inf if name == "nodes" else 0)
        for name, shape in shapes.items()
    }
    norms = {name: arrays.pop(name) for name in _NORMS}
    return QuantizedMean(QuantizedTable(layout, **arrays), grid, **norms)
