"""Settings shared by all tests."""

import os
import sys
from pathlib import Path

# Before anything imports NumPy. On the small matrices of tests, threads of BLAS cost more than they save; the fixture
# `two_blas_threads` is for tests of threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # Numba's cache may mix up two signatures of a loop when two processes write at the same time.
    folder = os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parents[1] / ".pytest_cache" / "numba"
    os.environ["NUMBA_CACHE_DIR"] = str(Path(folder) / worker)

import pytest
from hypothesis import HealthCheck, settings
from sklearn.utils import estimator_checks
from threadpoolctl import threadpool_limits

from histogp.datasets.images import FASHION_MNIST_FOLDERS

# Compiling leaves takes seconds in the first example, hence no deadline. Suites are inherited by several classes, hence
# the second check that is off.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def close_figures():
    """A figure that a test leaves open is not another test's warning."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def two_blas_threads(monkeypatch):
    """BLAS on two threads, here and in new processes."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with threadpool_limits(2, user_api="blas"):
        yield


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
