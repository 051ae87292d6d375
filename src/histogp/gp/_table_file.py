"""What a posterior has prepared for variances and probabilities, in a model file."""

from __future__ import annotations

from typing import Any

import numpy as np

from histogp._core.layouts import NodeLayout
from histogp._core.operators.feature_kernels import FeatureKernel
from histogp._core.predictors import FloorTable
from histogp._core.threads import Versions
from histogp._core.variance.calibrated import CalibratedTables
from histogp._core.variance.sampled import PosteriorSamples
from histogp._core.variance.spectral import FloorVariance, Spectrum
from histogp._encoding import Reader, Writer, integer
from histogp.exceptions import ModelFileError

_SPECTRUM = ("vectors", "values", "ceilings")
_CALIBRATED = ("table", "weights", "left_out", "left_out_variances")


def pack(tables: Versions, writer: Writer, include_training: bool) -> dict[str, Any]:
    """Put the arrays into ``writer`` and describe them; the eigenvectors only where the training examples go, too."""
    return {
        name: _PACK[name](_Prefixed(name, writer), version, value)
        for name, (version, value) in tables.items()
        if include_training or name not in ("spectrum", "feature-weights", "precise")
    }


def unpack(description: Any, reader: Reader, kernel: Any, n_features: int, n_rows: int) -> Versions:
    """The inverse, which believes nothing."""
    if not isinstance(description, dict) or not description.keys() <= _UNPACK.keys():
        raise ModelFileError("what it has prepared is damaged.")
    return {
        name: _UNPACK[name](_Source(name, reader, kernel, n_features, n_rows), description[name])
        for name in description
    }


class _Prefixed:
    """Arrays of one table."""

    def __init__(self, name: str, writer: Writer):
        self._name, self._writer = name, writer

    def put(self, **arrays: Any) -> None:
        for key, array in arrays.items():
            self._writer.arrays[f"prepared.{self._name}.{key}"] = np.asarray(array)

    def put_layout(self, layout: Any) -> None:
        self.put(starts=layout.starts, heights=layout.heights)


class _Source:
    def __init__(self, name: str, reader: Reader, kernel: Any, n_features: int, n_rows: int):
        self._name, self._reader = name, reader
        self.kernel, self.n_features, self.n_rows = kernel, n_features, n_rows

    def get(self, key: str, dtype: Any, shape: tuple[int | None, ...], lowest: float = -np.inf) -> np.ndarray:
        return self._reader.array(f"prepared.{self._name}.{key}", dtype, shape, lowest=lowest)

    def layout(self) -> NodeLayout:
        starts = self.get("starts", np.int64, (self.n_features + 1,))
        heights = self.get("heights", np.float64, (None,), lowest=0)
        return NodeLayout.checked(self.kernel, starts, heights)


def _pack_coarse(out: _Prefixed, version: int, coarse: FloorVariance) -> Any:
    table: Any = coarse.table
    out.put(per_bin=table.per_bin, values=table.values)
    return {"n_bins": version}


def _unpack_coarse(source: _Source, document: Any) -> tuple[Any, Any]:
    n_bins = integer(document, "n_bins", 1)
    per_bin = source.get("per_bin", np.float64, (source.n_features,), lowest=0)
    values = source.get("values", np.float32, (source.n_features, n_bins + 1), lowest=0)
    return n_bins, FloorVariance(FloorTable(source.kernel, per_bin, values))


def _pack_samples(out: _Prefixed, version: int, samples: PosteriorSamples) -> Any:
    out.put_layout(samples.layout)
    out.put(table=samples.table, spreads=samples.spreads)
    return {"n_samples": version}


def _unpack_samples(source: _Source, document: Any) -> tuple[Any, Any]:
    layout = source.layout()
    n_samples = integer(document, "n_samples", 1)
    table = source.get("table", np.float32, (layout.n_nodes, n_samples))
    return n_samples, PosteriorSamples(layout, table, source.get("spreads", np.float64, (layout.n_nodes,), lowest=0))


def _pack_calibrated(out: _Prefixed, version: None, calibrated: CalibratedTables) -> Any:
    out.put_layout(calibrated.layout)
    out.put(**{name: getattr(calibrated, name) for name in _CALIBRATED}, error=[calibrated.error])
    return {}


def _unpack_calibrated(source: _Source, document: Any) -> tuple[Any, Any]:
    layout = source.layout()
    left_out = source.get("left_out", np.int64, (None,), lowest=0)
    if left_out.size and left_out.max() >= source.n_rows:
        raise ModelFileError("its left-out examples do not exist.")
    calibrated = CalibratedTables(
        layout,
        source.get("table", np.float32, (layout.n_nodes, None)),
        source.get("weights", np.float64, (3,)),
        float(source.get("error", np.float64, (1,), lowest=0)[0]),
        left_out,
        source.get("left_out_variances", np.float64, left_out.shape, lowest=0),
    )
    if calibrated.table.shape[1] < 1:
        raise ModelFileError("its table is damaged.")
    return None, calibrated


def _pack_spectrum(out: _Prefixed, version: int, spectrum: Spectrum) -> Any:
    out.put(**{name: getattr(spectrum, name) for name in _SPECTRUM})
    return {"n_vectors": version}


def _unpack_spectrum(source: _Source, document: Any) -> tuple[Any, Any]:
    n_vectors = integer(document, "n_vectors")
    vectors = source.get("vectors", np.float64, (source.n_rows, None))
    count = vectors.shape[1]
    values = source.get("values", np.float64, (count,), lowest=0)
    ceilings = source.get("ceilings", np.float64, (count + 1,), lowest=0)
    if count < min(n_vectors, source.n_rows) or (count and values.min() <= 0) or ceilings[0] <= 0:
        raise ModelFileError("its eigenvectors are damaged.")
    return n_vectors, Spectrum(vectors, values, ceilings)


def _pack_temperature(out: _Prefixed, version: None, temperature: float) -> Any:
    out.put(value=[temperature])
    return {}


def _unpack_temperature(source: _Source, document: Any) -> tuple[Any, Any]:
    return None, float(source.get("value", np.float64, (1,), lowest=0)[0])


def _pack_weights(out: _Prefixed, version: None, weights: Any) -> Any:
    out.put(values=weights)
    return {}


def _unpack_weights(source: _Source, document: Any) -> tuple[Any, Any]:
    if not isinstance(source.kernel, FeatureKernel):
        raise ModelFileError("its weights are not those of its kernel.")
    return None, source.get("values", np.float64, (source.kernel.n_components, None))


_PACK: dict[str, Any] = {
    "coarse-quantized": _pack_coarse,
    "sampled": _pack_samples,
    "calibrated": _pack_calibrated,
    "spectrum": _pack_spectrum,
    "temperature": _pack_temperature,
    "feature-weights": _pack_weights,
}
_UNPACK: dict[str, Any] = {
    "coarse-quantized": _unpack_coarse,
    "sampled": _unpack_samples,
    "calibrated": _unpack_calibrated,
    "spectrum": _unpack_spectrum,
    "temperature": _unpack_temperature,
    "feature-weights": _unpack_weights,
}
