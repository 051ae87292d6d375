"""The models whose files are in ``tests/golden``: data of a formula, so that they can be made again anywhere."""

import numpy as np

from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.feature_maps import HomogeneousMap
from histogp.kernels import Chi2, Constant, ExpChi2, Gaussian, HistogramIntersection, Laplacian, Power, Sum
from histogp.streaming import StreamingPCA, StreamingRidge, StreamingRidgeClassifier, StreamingStatistics


def rows(n, first=0):
    """Histograms over three bins with a few different values, (n, 3)."""
    number = np.arange(first, first + n)
    heights = np.stack([number * 7 % 11, number * 3 % 8, (number * number + 1) % 10], axis=1)
    return heights / 10


X, TEST, MANY = rows(30), rows(9, 100), rows(300)
VALUES = X[:, 0] - 2 * X[:, 1] + np.sin(5 * X[:, 2])
NAMES = np.array(["ä", "bee", "sea, or c"])[X.argmax(axis=1)]
NOISE = 0.1
PREPARED = {"fine": {"n_eigenvectors": 3}, "coarse-quantized": {}, "sampled": {"n_samples": 4}}


# Rows that occur up to three times, with labels of their own.
REPEATED, COPIES = X[[*range(12), *range(8), *range(4)]], 1.0 + np.arange(24) % 3
REPEATED_NAMES = np.array(["ä", "bee", "sea, or c"])[np.arange(24) * 7 % 5 % 3]


def with_variances():
    model = HistogramGPRegressor(HistogramIntersection(Power(0.5)), noise=NOISE, normalize_y=True, random_state=0)
    model.fit(X, VALUES)
    for method, options in PREPARED.items():
        model.predict_variance(TEST, method, **options)
    return model


def with_probabilities():
    model = HistogramGPClassifier("hik", noise=NOISE, prediction="quantized", n_bins=8, random_state=0)
    model.fit(MANY, MANY[:, 0] > MANY[:, 1])
    model.predict_variance(TEST, "calibrated")
    model.predict_proba(TEST)
    return model


WEIGHTS = [1.0, 2.0, 0.5]


def four_parts():
    parts = [HistogramIntersection(scale=0.5), Laplacian(2.0, unit=0.7), Gaussian(unit=0.5), ("offset", Constant(0.3))]
    return Sum(parts, weights=WEIGHTS, transform=Power(0.5))


def blocks():
    """Two kernels on columns of their own, and a constant: no matrix is needed."""
    return HistogramIntersection(columns=[0, 2]) + 2.0 * HistogramIntersection(Power(0.5), columns=[1]) + Constant(0.3)


def regressor(kernel, **options):
    return HistogramGPRegressor(kernel, noise=NOISE, random_state=0, **options)


# By the name of the file: how the model is made, and options of `save`.
GOLDEN = {
    "classifier": (lambda: HistogramGPClassifier("hik", noise=NOISE, random_state=0).fit(X, NAMES), {}),
    "classifier-predicts": (with_probabilities, {"include_training": False}),
    "regressor": (with_variances, {}),
    "regressor-optimized": (
        lambda: HistogramGPRegressor(
            HistogramIntersection(weights="ard"), normalize_y=False, optimize="exact", max_iter=50, random_state=0
        ).fit(X, VALUES),
        {},
    ),
    "equal-samples": (
        lambda: (
            HistogramGPClassifier("hik", noise=NOISE, class_weight="balanced-ovr", random_state=0)
            .fit(REPEATED, REPEATED_NAMES, sample_weight=COPIES)
            .forget([1])
        ),
        {},
    ),
    "one-class": (
        lambda: HistogramGPOneClass("hik", contamination=0.1, noise=NOISE, criterion="mean", random_state=0).fit(X),
        {},
    ),
    "chi2": (lambda: HistogramGPRegressor(Chi2(), normalize_y=False, noise=NOISE, random_state=0).fit(X, VALUES), {}),
    "chi2-predicts": (
        lambda: HistogramGPRegressor(Chi2(), normalize_y=False, noise=NOISE, random_state=0).fit(X, VALUES),
        {"include_training": False},
    ),
    "exp-chi2": (
        lambda: HistogramGPRegressor(
            ExpChi2(256, beta=2.0, approximation="fourier"), normalize_y=False, noise=NOISE, random_state=0
        ).fit(X, VALUES),
        {},
    ),
    "exp-chi2-exact": (lambda: regressor(ExpChi2(beta=2.0)).fit(X, VALUES), {}),
    "sum": (lambda: regressor(four_parts()).fit(X, VALUES), {}),
    "sum-predicts": (
        lambda: regressor(four_parts(), prediction="quantized").fit(X, VALUES),
        {"include_training": False},
    ),
    "sum-of-blocks": (lambda: regressor(blocks()).fit(X, VALUES), {}),
    "sum-of-operators": (
        lambda: regressor(
            Sum([HistogramIntersection(), Laplacian(unit=0.7), Constant(0.3)], approximation="parts")
        ).fit(X, VALUES),
        {},
    ),
    "landmarks": (
        lambda: regressor(Laplacian(unit=0.7, approximation="nystroem", n_components=20)).fit(X, VALUES),
        {},
    ),
    "landmarks-predict": (
        lambda: regressor(Laplacian(unit=0.7, approximation="nystroem", n_components=20)).fit(X, VALUES),
        {"include_training": False},
    ),
    "sum-found": (
        lambda: HistogramGPClassifier(
            HistogramIntersection() + Laplacian(), noise=NOISE, optimize="loo", random_state=0
        ).fit(X, NAMES),
        {},
    ),
    "ridge": (lambda: StreamingRidge(HomogeneousMap("hellinger"), alpha=0.5).fit(X, VALUES), {"notes": ["a note"]}),
    "ridge-classifier": (
        lambda: StreamingRidgeClassifier(alpha=0.5, n_left_out=5, random_state=0).fit(X, NAMES),
        {},
    ),
    "components": (lambda: StreamingPCA(2).fit(X), {}),
    "statistics": (lambda: StreamingStatistics.of(X, VALUES), {}),
}
