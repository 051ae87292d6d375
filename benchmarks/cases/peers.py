"""Other classifiers on the same features: Fashion-MNIST as orientation histograms, 15,000 training images.

Each runs in a process of its own, whose peak memory above that of the data and imports is reported.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC, LinearSVC

from benchmarks.data import fashion_mnist
from benchmarks.measure import peak_megabytes, timed, warm_up
from benchmarks.registry import case
from histogp import HistogramGPClassifier

N_TRAIN = 15_000
_peer = partial(case, group="peers", data="fashion-mnist", smoke={"n": 600})


@_peer("histogp_exact")
def histogp_exact(n: int = N_TRAIN) -> dict[str, float]:
    """histogp, exact prediction."""
    return _measured(n, HistogramGPClassifier("hik", noise=0.1, random_state=0))


@_peer("histogp_quantized")
def histogp_quantized(n: int = N_TRAIN) -> dict[str, float]:
    """histogp, quantized prediction."""
    return _measured(n, HistogramGPClassifier("hik", noise=0.1, random_state=0, prediction="quantized"))


@_peer("histogp_poly")
def histogp_poly(n: int = N_TRAIN) -> dict[str, float]:
    """histogp, square roots, the noise that suits best, quantized prediction."""
    # The parameters that suit these features best, for what kernel and noise can do.
    return _measured(n, HistogramGPClassifier("hik-poly", noise=3.0, random_state=0, prediction="quantized"))


@_peer("svc_rbf")
def svc_rbf(n: int = N_TRAIN) -> dict[str, float]:
    """SVC, RBF kernel on square roots, which suit histograms better than counts."""
    return _measured(n, make_pipeline(FunctionTransformer(np.sqrt), SVC(C=10.0, gamma="scale", cache_size=2000)))


@_peer("linear_svc_chi2")
def linear_svc_chi2(n: int = N_TRAIN) -> dict[str, float]:
    """LinearSVC on AdditiveChi2Sampler."""
    return _measured(n, make_pipeline(AdditiveChi2Sampler(sample_steps=2), LinearSVC(C=10.0, random_state=0)))


@_peer("ridge")
def ridge(n: int = N_TRAIN) -> dict[str, float]:
    """RidgeClassifier."""
    return _measured(n, RidgeClassifier(alpha=1e-3))


@_peer("gradient_boosting", smoke={"n": 600, "max_iter": 2})
def gradient_boosting(n: int = N_TRAIN, max_iter: int = 100) -> dict[str, float]:
    """HistGradientBoostingClassifier."""
    return _measured(n, HistGradientBoostingClassifier(max_iter=max_iter, random_state=0))


@_peer("gpytorch_exact", needs="gpytorch")
def gpytorch_exact(n: int = N_TRAIN) -> dict[str, float]:
    """GPyTorch, exact label regression by its conjugate gradients, RBF kernel on square roots, noise 0.1."""
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

    return _measured(n, Classifier())


def _measured(n: int, model: Any) -> dict[str, float]:
    X_train, y_train, X_test, y_test = fashion_mnist()
    warm_up(X_train, y_train)
    before = peak_megabytes()
    _, fitting = timed(lambda: model.fit(X_train[:n], y_train[:n]))
    model.predict(X_test[:10])
    predictions, predicting = timed(lambda: model.predict(X_test))
    return {
        "seconds": fitting,
        "prediction_us": 1e6 * predicting / len(X_test),
        "megabytes": max(1.0, peak_megabytes() - before),
        "accuracy": float(np.mean(predictions == y_test)),
    }
