"""What of a streaming estimator goes into a model file, and how it comes back."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator

from histogp._core.data import Array
from histogp._core.least_squares.statistics import StreamingStatistics
from histogp._encoding import Reader, Writer, integer
from histogp.exceptions import ModelFileError
from histogp.feature_maps.expansions import FeatureMap
from histogp.io import container
from histogp.streaming._stream import Learned, Sample

FORMAT = 1
# Parameters that older files do not have.
_LATER = {"blocks", "block_components", "block_weights", "equal_rank"}
_KEYS = {
    "format",
    "version",
    "class",
    "parameters",
    "n_features",
    "has_feature_names",
    "n_seen",
    "n_parts",
    "has_map",
    "classes",
    "is_vector",
    "sample",
    "sample_seed",
    "progress",
    "sha256",
}


def save(estimator: Any, path: Any, progress: Sequence[str] = ()) -> None:
    """Write what was learnt; ``progress`` are lines for whoever wants to go on."""
    if not type(estimator).__module__.startswith("histogp."):
        raise ValueError(
            f"A {type(estimator).__name__} would need its code, which a model file cannot hold; use joblib."
        )
    estimator._validate_params()
    learned: Learned = estimator._learned
    writer = Writer()
    parameters = estimator.get_params(deep=False)
    if learned.feature_map is not None:
        if not isinstance(learned.feature_map, FeatureMap):
            raise ValueError(
                f"A {type(learned.feature_map).__name__} needs its code, which a model file cannot hold; use joblib."
            )
        if isinstance(estimator.feature_map, FrozenEstimator):
            parameters["feature_map"] = learned.feature_map
        writer.arrays |= {f"map.{name}": array for name, array in learned.feature_map._state().items()}
    document = {
        "format": FORMAT,
        "version": importlib.metadata.version("histogp"),
        "class": type(estimator).__name__,
        "parameters": {name: writer.value(f"parameter.{name}", parameters[name]) for name in parameters},
        "n_features": estimator.n_features_in_,
        "has_feature_names": hasattr(estimator, "feature_names_in_"),
        "n_seen": learned.n_seen,
        "n_parts": len(learned.parts),
        "has_map": learned.feature_map is not None,
        "classes": writer.labels("classes", estimator.classes_) if hasattr(estimator, "classes_") else None,
        "is_vector": getattr(estimator, "_is_vector", None),
        "sample": _pack_sample(learned.sample, writer),
        "sample_seed": getattr(estimator, "_sample_seed", None),
        "progress": list(progress),
    }
    if document["has_feature_names"]:
        writer.texts("feature_names", estimator.feature_names_in_.tolist())
    for k, part in enumerate(learned.parts):
        writer.arrays |= part.arrays(f"part.{k}.")
    if learned.unlabelled is not None:
        writer.arrays |= learned.unlabelled.arrays("unlabelled.")
    container.write(path, document, writer.arrays)


def restore(document: dict[str, Any], arrays: dict[str, Any], classes: Mapping[str, Any]) -> Any:
    """The estimator in a file's contents, of one of ``classes`` (by their names)."""
    if document.get("format") != FORMAT:
        raise ModelFileError("its format is that of another histogp.")
    try:
        return _restore(classes[document["class"]], document, dict(arrays))
    except ModelFileError:
        raise
    # Contents that were written with a valid checksum but never by `save`.
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelFileError(f"{reason.rstrip('.')}.") from None


def _restore(cls: Any, document: dict[str, Any], arrays: dict[str, Array]) -> Any:
    if document.keys() != _KEYS:
        raise ModelFileError("its description is damaged.")
    parts = tuple(
        StreamingStatistics.from_arrays(arrays, f"part.{k}.")
        for k in range(min(integer(document, "n_parts", 1), 2**16))
    )
    unlabelled = StreamingStatistics.from_arrays(arrays, "unlabelled.") if "unlabelled.gram" in arrays else None
    reader = Reader(arrays)
    given = document["parameters"]
    known = cls().get_params(deep=False).keys()
    if not known - _LATER <= given.keys() <= known:
        raise ModelFileError("its parameters are not those of its class.")
    estimator = cls(**{name: reader.value(given[name]) for name in given})
    estimator._validate_params()
    estimator.n_features_in_ = n_features = integer(document, "n_features", 1)
    if document["has_feature_names"] is True:
        names = reader.texts("feature_names")
        if len(names) != n_features:
            raise ModelFileError("it does not have one name for each feature.")
        estimator.feature_names_in_ = np.array(names, object)
    feature_map = None
    if document["has_map"] is True:
        given = estimator._given_map()
        if not isinstance(given, FeatureMap):
            raise ModelFileError("its feature map is damaged.")
        feature_map = clone(given)
        feature_map._validate_params()
        feature_map._restore(n_features, reader)
    learned = Learned(feature_map, parts, unlabelled, None, integer(document, "n_seen", 1))
    width = n_features if feature_map is None else feature_map._n_features_out
    n_targets = parts[0].cross.shape[1]
    everything = [*parts, *([] if unlabelled is None else [unlabelled])]
    if any(len(one.sums) != width for one in everything) or any(one.cross.shape[1] != n_targets for one in parts):
        raise ModelFileError("its statistics do not fit together.")
    _restore_targets(estimator, document, reader, parts)
    sample = _unpack_sample(document["sample"], reader, n_features, n_targets)
    if document["sample_seed"] is not None or sample is not None:
        estimator._sample_seed = integer(document, "sample_seed")
    estimator._adopt(learned.changed(sample=sample))
    reader.finish()
    return estimator


def _restore_targets(
    estimator: Any, document: dict[str, Any], reader: Reader, parts: tuple[StreamingStatistics, ...]
) -> None:
    """What the targets mean: classes, one number or several, or nothing."""
    n_targets, n_parts = parts[0].cross.shape[1], len(parts)
    if is_classifier(estimator):
        estimator.classes_ = reader.labels("classes", document["classes"])
        n_classes = len(estimator.classes_)
        if n_classes < 1 or not np.array_equal(np.unique(estimator.classes_), estimator.classes_):
            raise ModelFileError("its classes are damaged.")
        fits = n_targets == n_classes and (
            n_parts == n_classes or (n_parts == 1 and estimator.class_weight != "balanced")
        )
    elif is_regressor(estimator):
        estimator._is_vector = document["is_vector"]
        is_vector = document["is_vector"]
        fits = n_parts == 1 and (n_targets == 1 or (n_targets > 1 and is_vector is False)) and type(is_vector) is bool
    else:
        fits = n_parts == 1 and n_targets == 0
    if not fits or (document["classes"] is not None and not is_classifier(estimator)):
        raise ModelFileError("its statistics are not those of its targets.")


def _pack_sample(sample: Sample | None, writer: Writer) -> Any:
    if sample is None:
        return None
    X = sample.X
    writer.arrays |= {f"sample.{name}": getattr(sample, name) for name in ("priorities", "targets", "weights")}
    if not sparse.issparse(X):
        writer.arrays["sample.X"] = X.astype(np.float64)
        return "dense"
    writer.arrays |= {
        "sample.data": X.data.astype(np.float64),
        "sample.indices": X.indices.astype(np.int64),
        "sample.indptr": X.indptr.astype(np.int64),
    }
    return "sparse"


def _unpack_sample(kind: Any, reader: Reader, n_features: int, n_targets: int) -> Sample | None:
    if kind is None:
        return None
    priorities = reader.array("sample.priorities", np.float64, (None,))
    n_rows = len(priorities)
    targets = reader.array("sample.targets", np.float64, (n_rows, n_targets))
    weights = reader.array("sample.weights", np.float64, (n_rows,), lowest=0)
    if kind == "dense":
        return Sample(priorities, reader.array("sample.X", np.float64, (n_rows, n_features)), targets, weights)
    entries = (
        reader.array("sample.data", np.float64, (None,)),
        reader.array("sample.indices", np.int64, (None,), lowest=0),
        reader.array("sample.indptr", np.int64, (n_rows + 1,), lowest=0),
    )
    X = sparse.csr_array(entries, shape=(n_rows, n_features))
    X.check_format(full_check=True)
    return Sample(priorities, X, targets, weights)
