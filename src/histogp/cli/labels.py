"""Labels: their types, and files of their own."""

from __future__ import annotations

import csv
import os
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from histogp.errors import DataError
from histogp.sources.numpy_files import load_npy, one_column, opened_npz
from histogp.sources.parquet import decoding, open_parquet, plain_labels
from histogp.sources.source import ending, readable, text_lines
from histogp.sources.wanted import listed

TEXT = (".csv", ".txt")
# Floats beyond that do not hold every integer.
LARGEST_EXACT = 2**53

REAL_LABELS = "The labels are real numbers; if they are targets of a regression, use --task regression."


def typed(labels: np.ndarray) -> np.ndarray:
    """Labels of a classifier: whole numbers as integers, whatever they were in the file; all else as it is.

    Types depend on all labels, so that they must not be given piece by piece.
    """
    labels = _complete(labels)
    if labels.dtype.kind == "U":
        return _numbers_of_text(np.char.strip(labels))
    if labels.dtype.kind == "f" and np.all((labels == np.rint(labels)) & (np.abs(labels) <= LARGEST_EXACT)):
        return labels.astype(np.int64)
    return labels


def like(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels as those of a model that they stand for, by their text or by their number; others as they are."""
    labels = _complete(labels)
    known: dict[Any, Any] = {str(label): label for label in classes.tolist()}
    if classes.dtype.kind in "biuf":
        known |= {float(label): label for label in classes.tolist()}
    distinct, inverse = np.unique(labels, return_inverse=True)
    found = []
    for label in distinct.tolist():
        text = str(label).strip()
        number = _number(label)
        if text in known or number in known:
            found.append(known.get(text, known.get(number)))
        elif classes.dtype.kind in "biuf" and np.isnan(number):
            row = int(np.argmax(inverse == len(found))) + 1
            raise DataError(f"The label {label!r} of row {row} is none of the model's classes, which are numbers.")
        else:
            found.append(str(label) if classes.dtype.kind in "OU" else number)
    return np.array(found)[inverse]


def numeric(labels: np.ndarray) -> np.ndarray:
    """Targets of a regression: finite numbers, float64."""
    labels = _plain(labels)
    try:
        values = labels.astype(np.float64)
    except (ValueError, TypeError):
        values = np.array([_number(label) for label in labels.tolist()])
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        found = labels[wrong[:1]].tolist()[0]
        raise DataError(f"The target of row {wrong[0] + 1} is {found!r}, but finite numbers are needed.")
    return values


def read_labels(path: str | os.PathLike[str]) -> np.ndarray:
    """Labels from a file of their own, one a row; `match` takes care of a header."""
    path = readable(path)
    kind = ending(path, [*TEXT, ".npy", ".npz", ".parquet"])
    if kind in TEXT:
        return _text_labels(path, kind)
    if kind == ".npy":
        return one_column(path, load_npy(path))
    if kind == ".npz":
        with opened_npz(path) as arrays:
            keys = ["y"] if "y" in arrays else list(arrays)
            if len(keys) != 1:
                raise DataError(f"{path} has neither a key 'y' nor a single array; its keys are {listed(keys)}.")
            return one_column(path, arrays[keys[0]])
    file = open_parquet(path)
    with decoding(path):
        table = file.read()
    if table.num_columns != 1:
        raise DataError(f"{path} must have one column, the labels, but it has {table.num_columns}.")
    return plain_labels(table.column(0))


def match(labels: np.ndarray, n_rows: int, path: str | os.PathLike[str]) -> np.ndarray:
    """The labels from ``path`` for as many rows of data; the first line of a text file may be a header."""
    if len(labels) == n_rows:
        return labels
    if len(labels) == n_rows + 1 and Path(path).suffix.lower() in TEXT:
        return labels[1:]
    raise DataError(f"{path} has {len(labels)} labels, but the data have {n_rows} rows.")


def _complete(labels: np.ndarray) -> np.ndarray:
    labels = _plain(labels)
    missing = np.flatnonzero(_missing(labels))
    if len(missing):
        raise DataError(f"The label of row {missing[0] + 1} is missing.")
    return labels


def _plain(labels: np.ndarray) -> np.ndarray:
    """The labels as an array of text, numbers or truth values, or of objects among which some are missing."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "O":
        if np.any(_missing(labels)):
            return labels
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8", "replace")
    if labels.dtype.kind not in "biufU":
        raise DataError(f"Labels must be numbers or text, but they are of type {labels.dtype}.")
    return labels


def _missing(labels: np.ndarray) -> Any:
    """Which labels are None, NaN or empty."""
    if labels.dtype.kind == "O":
        return [label is None or label == "" or label != label for label in labels]
    return labels == "" if labels.dtype.kind == "U" else labels != labels


def _numbers_of_text(labels: np.ndarray) -> np.ndarray:
    """Integers if each is written as Python would ('007' may be a name), real numbers if some have a fraction."""
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        return labels
    if np.all(np.isfinite(numbers)) and np.any(numbers != np.rint(numbers)):
        return numbers
    try:
        integers = labels.astype(np.int64)
    except (ValueError, OverflowError):
        return labels
    return integers if np.array_equal(integers.astype(str), labels) else labels


def _number(label: Any) -> float:
    try:
        return float(label)
    except (ValueError, TypeError):
        return np.nan


def _text_labels(path: Path, kind: str) -> np.ndarray:
    """The lines of a text file, or the cells of a CSV file with one column, without blank ones at the end."""
    if kind == ".txt":
        labels = [line.rstrip("\r\n") for line in text_lines(path)]
    else:
        labels = []
        reader = csv.reader(text_lines(path))
        for row in reader:
            if len(row) > 1:
                raise DataError(
                    f"{path}, line {reader.line_num}: one label a line is needed, but {len(row)} cells found."
                )
            labels.append("".join(row))
    n_blank = sum(1 for _ in takewhile(lambda label: not label, reversed(labels)))
    return np.array(labels[: len(labels) - n_blank], dtype=str)
