"""Fashion-MNIST as images and as orientation histograms, from the Debian package dataset-fashion-mnist."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.data.packages import cached, debian_archive, fingerprint
from histogp.datasets import load_fashion_mnist, orientation_histograms

PACKAGE = "dataset-fashion-mnist"

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def fashion_mnist() -> Split:
    """Histograms (n, 441), float32, and labels: 60,000 samples to learn from, 10,000 to test.

    The images are Zalando's, under the MIT license.
    """
    arrays = cached(f"fashion-mnist-{fingerprint(orientation_histograms)}", _histograms)
    return arrays["X_train"], arrays["y_train"], arrays["X_test"], arrays["y_test"]


def fashion_mnist_images() -> Split:
    """Images (n, 28, 28), uint8, and labels, in the order of `fashion_mnist`."""
    try:
        return load_fashion_mnist()
    except FileNotFoundError:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder, "package.deb")
            package.write_bytes(debian_archive(PACKAGE))
            subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
            return load_fashion_mnist(next(Path(folder).glob("usr/**/fashion-mnist")))


def _histograms() -> dict[str, np.ndarray]:
    X_train, y_train, X_test, y_test = fashion_mnist_images()
    return {
        "X_train": orientation_histograms(X_train),
        "y_train": y_train,
        "X_test": orientation_histograms(X_test),
        "y_test": y_test,
    }
