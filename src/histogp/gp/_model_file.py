"""What of a fitted estimator goes into a model file, and how it comes back; `io/schema.py` has the format."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp._core.data import Rows
from histogp._core.operators.contract import Features, Pairwise, Tables, require
from histogp._core.posterior import Posterior
from histogp._core.predict_only import Predictor
from histogp._core.predictors import Codec
from histogp._core.solvers.problem import SMALLEST
from histogp._estimator import number_of_threads
from histogp.errors import ModelFileError
from histogp.gp._decisions import AUTO, left_open
from histogp.gp._tasks import Samples
from histogp.io.schema import Reader, Writer
from histogp.kernels import Kernel, as_kernel

# Fitted attributes that are whole numbers, by their names in files.
_COUNTS = {
    "n_iterations": "n_iter_",
    "n_products": "n_products_",
    "preconditioner_rank": "preconditioner_rank_",
    "n_samples": "n_samples_",
    "n_nonzeros": "n_nonzeros_",
}


def to_state(estimator: Any, writer: Writer, include_training: bool) -> None:
    """Write a fitted estimator; see `HistogramGP.save`."""
    estimator._validate_params()
    posterior = estimator._posterior.with_training() if include_training else estimator._posterior
    writer.parameters(estimator.get_params(deep=False))
    writer.set("kernel", writer.value("kernel", estimator.kernel_))
    writer.set("n_features", estimator.n_features_in_)
    writer.set("includes_training", include_training)
    for name, attribute in _COUNTS.items():
        writer.set(name, int(getattr(estimator, attribute)))
    writer.put("residual", estimator.residual_)
    writer.put("noise_found", [estimator.noise_])
    writer.put("relevance", estimator.feature_relevance_)
    if hasattr(estimator, "feature_names_in_"):
        writer.texts("feature_names", estimator.feature_names_in_.tolist())
    if hasattr(estimator, "optimization_path_"):
        _write_path(estimator, writer)
    posterior.kernel.to_state(writer.child("value"))
    estimator._codec.to_state(writer.child("outputs"))
    if include_training:
        _write_samples(estimator, writer.child("samples"))
        posterior.to_state(writer)
        return
    grid = None
    if posterior.operator.offer(Features) is None:
        if posterior.operator.offer(Pairwise) is None:
            require(posterior.operator, Tables, "A model without its training samples")
        if estimator.prediction == "exact":
            raise ValueError(
                "Exact prediction needs the training samples: save them too (include_training=True), or call "
                'set_params(prediction="quantized") first.'
            )
        grid = estimator._grid()
    # What predictions need of the training samples, while these are there.
    no_rows = Rows.from_array(np.empty((0, estimator.n_features_in_)))
    estimator._without_shortfall((None, estimator._task().prepare(posterior, no_rows, estimator._options())))
    posterior.predictor_to_state(writer, grid)


def from_state(cls: Any, reader: Reader) -> Any:
    """The estimator of a class in a model file; believes nothing."""
    estimator = cls(**reader.parameters(cls))
    estimator._validate_params()
    includes_training = reader.flag("includes_training")
    n_features = reader.integer("n_features", 1)
    kernel = reader.object(reader.entry("kernel"))
    if not isinstance(kernel, Kernel):
        raise ModelFileError("its kernel is damaged.")
    # First of all: before anything else of that length is made, something must be in the file.
    estimator.feature_relevance_ = reader.array("relevance", np.float64, (n_features,), lowest=0)
    estimator.kernel_ = kernel
    estimator._left_open = left_open(estimator.kernel, estimator.noise)
    estimator._fit_kernel = kernel if estimator.kernel == AUTO else as_kernel(estimator.kernel)
    estimator._fit_noise = estimator.noise
    estimator.n_features_in_ = n_features
    if reader.has("feature_names"):
        names = reader.texts("feature_names")
        if len(names) != n_features:
            raise ModelFileError("it does not have one name for each feature.")
        estimator.feature_names_in_ = np.array(names, object)
    for name, attribute in _COUNTS.items():
        setattr(estimator, attribute, reader.integer(name))
    estimator.residual_ = reader.array("residual", np.float64, (None,), lowest=0)
    estimator.noise_ = float(reader.array("noise_found", np.float64, (1,), lowest=SMALLEST)[0])
    _read_path(estimator, reader)
    codec = estimator._task().codec.from_state(reader.child("outputs"))
    n_outputs, n_samples = codec.n_outputs, estimator.n_samples_
    if len(estimator.residual_) != n_outputs or n_outputs < 1:
        raise ModelFileError("its number of outputs is damaged.")
    value = kernel._restore(reader.child("value"), n_features)
    if includes_training:
        samples = _read_samples(estimator, codec, reader.child("samples"))
        residual, n_threads = float(estimator.residual_.max()), number_of_threads(estimator.n_jobs)
        targets = codec.encode(samples.y)
        n_rows = int(samples.row_of.max()) + 1
        operator = kernel._restored_operator(reader.child("data"), value, n_rows, n_features, n_threads)
        posterior = Posterior.from_state(
            reader,
            operator,
            targets,
            residual,
            samples.shared_rows,
            estimator.noise_,
            samples.group_of,
            samples.weights,
            estimator._task().is_classification,
        )
        estimator._install(posterior, codec, samples)
    else:
        operator = kernel._operator(value, np.empty((0, n_features)), number_of_threads(estimator.n_jobs))
        grid = estimator._grid() if operator.offer(Features) is None else None
        estimator._install(Predictor.from_state(reader, operator, grid, n_outputs, n_samples), codec)
    return estimator


def _write_path(estimator: Any, writer: Writer) -> None:
    """Write the likelihood, and what the search for hyperparameters went through."""
    writer.set("optimization_path", list(estimator.optimization_path_))
    writer.put("likelihood", [estimator.log_marginal_likelihood_, estimator.log_marginal_likelihood_error_])
    for name, column in estimator.optimization_path_.items():
        writer.child("path").put(name, column)


def _read_path(estimator: Any, reader: Reader) -> None:
    """Set the likelihood and the path, if there was a search."""
    names = reader.entry("optimization_path", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelFileError("the path of its optimization is damaged.")
    if not names:
        return
    value, error = reader.array("likelihood", np.float64, (2,), finite=False)
    estimator.log_marginal_likelihood_, estimator.log_marginal_likelihood_error_ = float(value), float(error)
    path = {name: reader.child("path").array(name, np.float64, None, finite=False) for name in names}
    if len({column.shape[:1] for column in path.values()}) != 1:
        raise ModelFileError("the path of its optimization is damaged.")
    estimator.optimization_path_ = path


def _write_samples(estimator: Any, writer: Writer) -> None:
    """Write the numbers, labels and weights of the training samples."""
    samples: Samples = estimator._samples
    n_changed, n_searched = estimator._since_search
    writer.put("ids", samples.ids)
    writer.put("weights", samples.weights)
    if samples.shared_rows is not None:
        writer.put("row_of", samples.row_of)
    if samples.group_of is not None:
        writer.put("group_of", samples.group_of)
    estimator._codec.labels_to_state(writer, samples.y)
    writer.set("n_given", samples.n_given)
    writer.set("n_changed", n_changed)
    writer.set("n_searched", n_searched)


def _read_samples(estimator: Any, codec: Codec, reader: Reader) -> Samples:
    """The numbers, labels and weights of the training samples; believes nothing."""
    n_samples = estimator.n_samples_
    # First, again, what is as long as it says.
    ids = reader.array("ids", np.int64, (n_samples,), lowest=0)
    weights = reader.array("weights", np.float64, (n_samples,), lowest=SMALLEST)
    if not 1 <= n_samples < 2**32:
        raise ModelFileError("its number of samples is damaged.")
    n_given = reader.integer("n_given", n_samples)
    if np.any(ids[1:] <= ids[:-1]) or ids[-1] >= n_given:
        raise ModelFileError("the numbers of its samples are damaged.")
    row_of = np.arange(n_samples)
    if reader.has("row_of"):
        row_of = reader.array("row_of", np.int64, (n_samples,), lowest=0)
        if row_of.max() >= n_samples or np.bincount(row_of).min() == 0:
            raise ModelFileError("the rows of its samples are damaged.")
    group_of = None
    if reader.has("group_of"):
        group_of = reader.array("group_of", np.int64, (n_samples,), lowest=0)
        if group_of.max() >= n_given:
            raise ModelFileError("the groups of its samples are damaged.")
    y = codec.labels_from_state(reader, n_samples)
    estimator._since_search = (reader.integer("n_changed"), reader.integer("n_searched"))
    return Samples(ids, y, weights, n_given, row_of, group_of=group_of)
