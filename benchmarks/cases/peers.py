"""Other classifiers on the same features: Fashion-MNIST as orientation histograms, 15,000 training images.

Each runs in a process of its own, whose peak memory above that of the data and imports is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from measure import fashion_mnist, peak_megabytes, warm_up
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, LinearSVC

from histogp import HistogramGPClassifier

N_TRAIN = 15_000


def histogp_exact() -> dict[str, float]:
    return measure(HistogramGPClassifier(random_state=0))


def histogp_quantized() -> dict[str, float]:
    return measure(HistogramGPClassifier(random_state=0, prediction="quantized"))


def histogp_poly() -> dict[str, float]:
    # The parameters that suit these features best, for what kernel and noise can do.
    return measure(HistogramGPClassifier("hik-poly", noise=3.0, random_state=0, prediction="quantized"))


def svc_rbf() -> dict[str, float]:
    # On square roots, which suits histograms better than the counts themselves.
    return measure(make_pipeline(FunctionTransformer(np.sqrt), SVC(C=10.0, gamma="scale", cache_size=2000)))


def linear_svc_chi2() -> dict[str, float]:
    return measure(make_pipeline(AdditiveChi2Sampler(sample_steps=2), LinearSVC(C=10.0, random_state=0)))


def ridge() -> dict[str, float]:
    return measure(RidgeClassifier(alpha=1e-3))


def gradient_boosting() -> dict[str, float]:
    return measure(HistGradientBoostingClassifier(random_state=0))


def gpytorch_exact() -> dict[str, float]:
    """Label regression by GPyTorch's own conjugate gradients, one matrix for all classes, noise 0.1."""
    import gpytorch
    import torch

    class Classifier:
        def fit(self, X: Any, y: Any) -> None:
            self.X = torch.as_tensor(np.sqrt(X))
            targets = torch.where(torch.as_tensor(y)[:, None] == torch.arange(10), 1.0, -1.0).to(self.X.dtype)
            self.kernel = gpytorch.kernels.RBFKernel().to(self.X.dtype)
            self.kernel.lengthscale = torch.pdist(self.X[:500]).median()
            with torch.no_grad(), gpytorch.settings.cg_tolerance(0.01):
                noise = torch.full((1,), 0.1, dtype=self.X.dtype)
                self.alpha = self.kernel(self.X).add_diagonal(noise).solve(targets)

        def predict(self, X: Any) -> Any:
            with torch.no_grad():
                return (self.kernel(torch.as_tensor(np.sqrt(X)), self.X) @ self.alpha).argmax(dim=1).numpy()

    return measure(Classifier())


def measure(model: Any) -> dict[str, float]:
    X_train, y_train, X_test, y_test = fashion_mnist()
    warm_up(X_train, y_train)
    before = peak_megabytes()
    fitting = clock(lambda: model.fit(X_train[:N_TRAIN], y_train[:N_TRAIN]))
    model.predict(X_test[:10])
    start = perf_counter()
    predictions = model.predict(X_test)
    predicting = perf_counter() - start
    return {
        "fit_seconds": fitting,
        "prediction_us": 1e6 * predicting / len(X_test),
        "megabytes": max(1.0, peak_megabytes() - before),
        "accuracy": float(np.mean(predictions == y_test)),
    }


def clock(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
