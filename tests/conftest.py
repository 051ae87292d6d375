"""Settings shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from sklearn.utils import estimator_checks

from histogp.datasets.idx import FASHION_MNIST_FOLDERS

# Compiling leaves takes seconds in the first example, hence no deadline.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def non_negative_blobs(monkeypatch):
    """One common check feeds negative blobs whatever the tags say; give it shifted ones."""
    make_blobs = estimator_checks.make_blobs

    def shifted(*args, **kwargs):
        points, labels = make_blobs(*args, **kwargs)
        return points - points.min(), labels

    monkeypatch.setattr(estimator_checks, "make_blobs", shifted)


@pytest.fixture(scope="session")
def fashion_mnist():
    """Training and test features and labels of Fashion-MNIST, a few thousand rows each."""
    from histogp.datasets import load_fashion_mnist, orientation_histograms

    if not any(Path(folder).is_dir() for folder in FASHION_MNIST_FOLDERS):
        pytest.skip("needs Fashion-MNIST: apt-get install dataset-fashion-mnist")
    X_train, y_train, X_test, y_test = load_fashion_mnist()
    return (
        orientation_histograms(X_train[:6000]),
        y_train[:6000],
        orientation_histograms(X_test[:1000]),
        y_test[:1000],
    )
