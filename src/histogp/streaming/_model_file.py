"""What of a streaming estimator goes into a model file, and how it comes back."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from histogp._encoding import Reader, Writer
from histogp.exceptions import ModelFileError
from histogp.feature_maps._adapters import thawed
from histogp.io import container
from histogp.streaming._stream import Learned

FORMAT = 1
# Parameters that older files do not have.
_LATER = {"blocks", "block_components", "block_weights", "equal_rank"}
_OF_LEARNED = {"n_features", "n_seen", "n_parts", "classes", "is_vector", "sample", "sample_seed"}
_KEYS = {"format", "version", "class", "parameters", "has_feature_names", "progress", "sha256"} | _OF_LEARNED


def save(estimator: Any, path: Any, notes: Sequence[str] = ()) -> None:
    """Write what was learned; ``notes`` are texts for whoever reads it."""
    if not type(estimator).__module__.startswith("histogp."):
        raise ValueError(
            f"A {type(estimator).__name__} would need its code, which a model file cannot hold; use joblib."
        )
    estimator._validate_params()
    writer = Writer()
    of_learned = estimator._learned.to_state(writer)
    parameters = estimator.get_params(deep=False)
    parameters["feature_map"] = thawed(parameters["feature_map"])
    names = vars(estimator).get("feature_names_in_")
    if names is not None:
        writer.texts("feature_names", names.tolist())
    document = {
        "format": FORMAT,
        "version": importlib.metadata.version("histogp"),
        "class": type(estimator).__name__,
        "parameters": {name: writer.value(f"parameter.{name}", parameters[name]) for name in parameters},
        "has_feature_names": names is not None,
        "progress": list(notes),
        **of_learned,
    }
    container.write(path, document, writer.arrays)


def restore(document: dict[str, Any], arrays: dict[str, Any], classes: Mapping[str, Any]) -> Any:
    """The estimator in a file's contents, of one of ``classes`` (by their names)."""
    if document.get("format") != FORMAT:
        raise ModelFileError("its format is that of another histogp.")
    try:
        return _restore(classes[document["class"]], document, Reader(arrays))
    except ModelFileError:
        raise
    # Contents that were written with a valid checksum but never by `save`.
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError, MemoryError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelFileError(f"{reason.rstrip('.')}.") from None


def _restore(cls: Any, document: dict[str, Any], reader: Reader) -> Any:
    """The estimator of a class, from a document and arrays that nobody has checked yet."""
    if document.keys() != _KEYS:
        raise ModelFileError("its description is damaged.")
    given = document["parameters"]
    known = cls().get_params(deep=False).keys()
    if not known - _LATER <= given.keys() <= known:
        raise ModelFileError("its parameters are not those of its class.")
    estimator = cls(**{name: reader.value(given[name]) for name in given})
    estimator._validate_params()
    if document["has_feature_names"] is True:
        estimator.feature_names_in_ = np.array(reader.texts("feature_names"), object)
    balanced = estimator.class_weight == "balanced"
    learned = Learned.from_state(document, reader, estimator._given_map(), estimator._targets, balanced)
    estimator.n_features_in_ = learned.n_inputs
    if document["has_feature_names"] is True and len(estimator.feature_names_in_) != learned.n_inputs:
        raise ModelFileError("it does not have one name for each feature.")
    estimator._install(learned)
    reader.finish()
    return estimator
