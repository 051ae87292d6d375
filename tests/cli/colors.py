"""Rows of three colors, in files."""

import csv
import io

import numpy as np
from oracles import alike, histograms

X = histograms(80, 6)
CODES = np.argmax(X[:, 1:4], axis=1)
NAMES = np.array(["red", "green, or so", "blue"])[CODES]
FEATURES = [f"f{k}" for k in range(6)]


def write_csv(path, X, labels=None, names=FEATURES):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, *(["color"] if labels is not None else [])])
        writer.writerows(
            X.tolist() if labels is None else [[*row, y] for row, y in zip(X.tolist(), labels, strict=True)]
        )
    return path


def assert_same_table(text, expected):
    """CSV with the same labels, and the same numbers up to rounding."""
    found, wanted = (list(csv.reader(io.StringIO(table))) for table in (text, expected))
    assert found[0] == wanted[0]
    for name, *cells in zip(found[0], zip(*found[1:], strict=True), zip(*wanted[1:], strict=True), strict=True):
        alike(*(np.array(column, str if name == "prediction" else float) for column in cells))
