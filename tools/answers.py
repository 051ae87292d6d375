"""Answers of one checkout of histogp to many questions, for `compare_answers.py`.

`python tools/answers.py OUTPUT.npz [PATTERN...]` asks every estimator, kernel, method and update through public names
only and writes named arrays; patterns choose sections, such as "gp-*". All parameters and seeds are written out, so
that another default is no other answer, and solvers go down to rounding. A question that is refused by a ValueError
has the answer "refused"; any other exception ends the run.
"""

from __future__ import annotations

import contextlib
import csv
import fnmatch
import inspect
import io
import json
import pickle
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.frozen import FrozenEstimator

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor, active, datasets
from histogp.cli.main import main as histogp_command
from histogp.feature_maps import AdditiveChi2Map, BlockMap, ExpChi2Sampler, HomogeneousMap, SkewedChi2Map
from histogp.kernels import Chi2, ExpChi2, Exponential, HistogramIntersection, Power
from histogp.streaming import (
    StreamingElasticNet,
    StreamingGroupLasso,
    StreamingPCA,
    StreamingRidge,
    StreamingRidgeClassifier,
    StreamingStatistics,
    read_chunks,
)

N_FEATURES = 20
N_TEST = 30
# One size for each way to solve: more features than samples, a dense factor, conjugate gradients.
FEW, DENSE, MANY = 40, 300, 2600

# Parameters that were called differently at some time, by their names of today.
OTHER_NAMES = {"n_terms": ("n_components",)}

GP = dict(
    noise=0.1,
    solver="auto",
    tol=1e-10,
    max_iter=2000,
    preconditioner_rank="auto",
    prediction="exact",
    n_bins=100,
    interpolation="linear",
    value_range=None,
    n_jobs=1,
    random_state=0,
    verbose=0,
)
CLASSIFIER = {**GP, "optimize": None, "class_weight": None, "probability": "temperature"}
REGRESSOR = {**GP, "optimize": None, "normalize_y": True}
ONE_CLASS = {**GP, "criterion": "variance", "method": "auto", "contamination": 0.1}
OPTIMIZER = dict(
    parameters="auto",
    bound="tightest",
    n_starts=1,
    sparsity=0.5,
    prior_width=1.0,
    n_probes="auto",
    max_steps=30,
    reoptimize_every=0.5,
)
RIDGE = dict(
    alpha=0.1,
    pca_components=None,
    blocks=None,
    block_components=None,
    block_weights=None,
    fit_intercept=True,
    n_left_out=200,
    chunk_bytes=2**20,
    random_state=0,
)
SPARSE_MODEL = dict(alpha=0.002, fit_intercept=True, max_iter=20_000, tol=1e-10, chunk_bytes=2**20)

VARIANCES: dict[str, dict[str, Any]] = {
    "precise": dict(method="precise", include_noise=True, tol=1e-10),
    "precise-latent": dict(method="precise", include_noise=False, tol=1e-10),
    "precise-per-class": dict(method="precise", include_noise=True, tol=1e-10, per_class=True),
    "fine": dict(method="fine", n_eigenvectors=4),
    "fine-0": dict(method="fine", n_eigenvectors=0),
    "coarse": dict(method="coarse"),
    "coarse-quantized": dict(method="coarse-quantized"),
    "sampled": dict(method="sampled", n_samples=32),
    "calibrated": dict(method="calibrated"),
}
BOUNDS = ("auto", "worst-case", "linear", "assumption-free", "theorem", "a-priori")


class Answers:
    """Named arrays, and the names of questions that were refused."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.refused: dict[str, str] = {}

    def put(self, name: str, value: Any) -> None:
        """Store numbers, texts, sparse matrices, or dicts and sequences of them."""
        if isinstance(value, Mapping):
            for key, one in value.items():
                self.put(f"{name}/{key}", one)
        elif isinstance(value, tuple | list) and any(np.ndim(one) for one in value):
            for number, one in enumerate(value):
                self.put(f"{name}/{number}", one)
        elif value is not None:
            array = np.asarray(value.toarray() if sparse.issparse(value) else value)
            if name in self.arrays:
                raise KeyError(f"Two answers have the name {name!r}.")
            self.arrays[name] = array.astype(str) if array.dtype.kind == "O" else array.copy()

    def ask(self, name: str, question: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Store what a call returns, or that it is refused."""
        try:
            value = question(*arguments, **options)
        except ValueError as error:
            self.refused[name] = str(error)
            self.put(name, "refused")
        else:
            self.put(name, value)


def build(cls: Callable[..., Any], **parameters: Any) -> Any:
    """An object with these parameters, under the names that its constructor has for them."""
    known = inspect.signature(cls).parameters
    chosen = {}
    for name, value in parameters.items():
        names = [one for one in (name, *OTHER_NAMES.get(name, ())) if one in known]
        chosen[names[0] if names else name] = value
    return cls(**chosen)


def classifier(kernel: Any, **parameters: Any) -> Any:
    return build(HistogramGPClassifier, kernel=kernel, **{**CLASSIFIER, **parameters})


def regressor(kernel: Any, **parameters: Any) -> Any:
    return build(HistogramGPRegressor, kernel=kernel, **{**REGRESSOR, **parameters})


def one_class(kernel: Any, **parameters: Any) -> Any:
    return build(HistogramGPOneClass, kernel=kernel, **{**ONE_CLASS, **parameters})


def optimizer(method: str, **parameters: Any) -> Any:
    return build(histogp.Optimizer, method=method, **{**OPTIMIZER, **parameters})


def chi2(**parameters: Any) -> Any:
    return build(Chi2, **{"n_terms": 3, "tol": 1e-3, "weights": None, "groups": None, **parameters})


def exp_chi2(**parameters: Any) -> Any:
    defaults = dict(n_components=80, beta=1.5, n_terms=3, weights=None, sampling="orthogonal", random_state=0)
    given = {**defaults, **parameters}
    if "scale" in inspect.signature(ExpChi2).parameters:
        weights = given.pop("weights")
        given |= {"scale": 1.0 if weights is None else weights, "approximation": "fourier"}
    return build(ExpChi2, **given)


def chi2_map(n_terms: Any = 3, method: str = "direct", **parameters: Any) -> Any:
    defaults = dict(tol=1e-3, points="refined", sample_interval=None, n_jobs=1)
    return build(AdditiveChi2Map, method=method, n_terms=n_terms, **{**defaults, **parameters})


def chi2_sampler(n_terms: int = 3, **parameters: Any) -> Any:
    """A sampler over an additive map of so many terms, which is an object of its own where the constructor takes it."""
    defaults = dict(n_components=60, beta=1.5, sampling="orthogonal", random_state=0)
    takes_map = "additive" in inspect.signature(ExpChi2Sampler).parameters
    terms = {"additive": chi2_map(n_terms)} if takes_map else {"n_terms": n_terms}
    return build(ExpChi2Sampler, **{**defaults, **terms, **parameters})


def block_map(pca_components: int | None = None) -> Any:
    return build(BlockMap, blocks=blocks(), pca_components=pca_components, chunk_bytes=2**20)


def blocks() -> list[tuple[str, Any, Any]]:
    return [
        ("waves", chi2_sampler(n_components=40), slice(0, 10)),
        ("terms", chi2_map(2), list(range(10, 16))),
        ("plain", None, [0, 17, 19]),
    ]


KERNELS: dict[str, Callable[[], Any]] = {
    "hik": lambda: "hik",
    "hik-poly": lambda: "hik-poly",
    "hik-exp": lambda: "hik-exp",
    "power-weights": lambda: HistogramIntersection(Power(eta=0.7), weights=np.linspace(0.0, 2.0, N_FEATURES)),
    "power-etas": lambda: HistogramIntersection(Power(eta=np.linspace(0.3, 1.5, N_FEATURES)), weights=2.0),
    "exponential-groups": lambda: HistogramIntersection(
        Exponential(eta=[0.5, 1.0, 2.0, 3.0]), weights=[1.0, 0.5, 0.0, 2.0], groups=np.arange(N_FEATURES) % 4
    ),
    "chi2": lambda: chi2(),
    "chi2-auto": lambda: chi2(n_terms="auto", tol=1e-2),
    "chi2-weights": lambda: chi2(weights=np.linspace(0.0, 2.0, N_FEATURES)),
    "chi2-groups": lambda: chi2(n_terms=2, weights=[1.0, 0.5, 0.0, 2.0], groups=np.arange(N_FEATURES) % 4),
    "exp-chi2": lambda: exp_chi2(),
    "exp-chi2-median": lambda: exp_chi2(beta="median", weights=2.0),
    "exp-chi2-evidence": lambda: exp_chi2(beta="evidence", sampling="plain", random_state=3),
    "exp-chi2-quasi": lambda: exp_chi2(n_components=400, n_terms=2, sampling="quasi"),
}


@cache
def histograms(n_samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with many zeros, labels of four classes and smooth targets in two columns."""
    rng = np.random.default_rng(n_samples)
    X = rng.gamma(0.7, size=(n_samples, N_FEATURES)) * (rng.random((n_samples, N_FEATURES)) < 0.8)
    X[:, 0] += 0.01
    X /= X.sum(axis=1, keepdims=True)
    hidden = X @ np.random.default_rng(1).normal(size=(N_FEATURES, 4)) + 0.05 * rng.normal(size=(n_samples, 4))
    labels = np.array(["beech", "elm", "oak", "yew"])[hidden.argmax(axis=1)]
    targets = np.column_stack([np.sqrt(X[:, 1]) + 3 * X[:, 2], np.sin(9 * X[:, 3])]) + 0.02 * rng.normal(
        size=(n_samples, 2)
    )
    return X, labels, 5 * targets + 2


@cache
def counts(n_samples: int) -> tuple[Any, np.ndarray]:
    """Sparse rows of small whole numbers, where many samples share a value; labels of two classes."""
    rng = np.random.default_rng(n_samples + 1)
    X = rng.poisson(0.6, size=(n_samples, 12)).astype(float)
    return sparse.csr_array(X), (X[:, 0] + X[:, 1] > X[:, 2] + rng.random(n_samples)).astype(int)


def test_rows() -> np.ndarray:
    X = histograms(N_TEST)[0].copy()
    X[:5] = histograms(DENSE)[0][:5]  # training samples
    X[5] *= 3  # beyond all training values
    X[6] = 0
    return X


def put_gp(answers: Answers, name: str, model: Any, X: Any, *, variances: bool = True) -> None:
    """What a fitted Gaussian process says about rows, and about itself."""
    answers.put(f"{name}/n_samples_", getattr(model, "n_samples_", None) or model.n_examples_)  # the old name
    for attribute in ("alpha_", "ids_", "n_nonzeros_", "n_iter_", "n_products_", "offset_", "noise_"):
        answers.put(f"{name}/{attribute}", getattr(model, attribute, None))
    for attribute in ("preconditioner_rank_", "feature_relevance_", "classes_", "n_features_in_", "feature_names_in_"):
        answers.put(f"{name}/{attribute}", getattr(model, attribute, None))
    put_kernel(answers, f"{name}/kernel_", model.kernel_)
    put_predictions(answers, name, model, X)
    if variances:
        put_variances(answers, name, model, X)


def put_kernel(answers: Answers, name: str, kernel: Any) -> None:
    """The hyperparameters of a fitted kernel that any kernel of its kind shows."""
    for parameter in ("weights", "beta"):
        answers.put(f"{name}/{parameter}", getattr(kernel, parameter, None))
    answers.put(f"{name}/eta", getattr(getattr(kernel, "transform", None), "eta", None))


def put_predictions(answers: Answers, name: str, model: Any, X: Any) -> None:
    for method in ("predict", "decision_function", "score_samples", "predict_proba", "predict_log_proba"):
        if hasattr(model, method):
            answers.ask(f"{name}/{method}", getattr(model, method), X)


def put_variances(answers: Answers, name: str, model: Any, X: Any) -> None:
    for variance, options in VARIANCES.items():
        answers.ask(f"{name}/variance-{variance}", model.predict_variance, X, **options)
    answers.ask(f"{name}/variance_error_", getattr, model, "variance_error_")
    if hasattr(model, "novelty"):
        for method in ("auto", "precise", "sampled"):
            answers.ask(f"{name}/novelty-{method}", model.novelty, X, method)


def put_quantized(answers: Answers, name: str, model: Any, X: Any) -> None:
    """Predictions from tables of several kinds, and their bounds."""
    grids: dict[str, dict[str, Any]] = {
        "linear": dict(interpolation="linear", n_bins=40, value_range=None),
        "nearest": dict(interpolation="nearest", n_bins=40, value_range=None),
        "range": dict(interpolation="linear", n_bins=7, value_range=0.3),
        "ranges": dict(interpolation="nearest", n_bins=7, value_range=np.linspace(0.1, 0.5, X.shape[1])),
    }
    for grid, parameters in grids.items():
        model.set_params(prediction="quantized", **parameters)
        put_predictions(answers, f"{name}/quantized-{grid}", model, X)
        answers.ask(f"{name}/quantized-{grid}/variance", model.predict_variance, X, "coarse-quantized")
        for kind in BOUNDS:
            key = f"{name}/quantized-{grid}/bound-{kind}"
            answers.ask(key, model.quantization_error_bound, kind)
    model.set_params(prediction="exact", **{key: GP[key] for key in ("interpolation", "n_bins", "value_range")})


def put_files(answers: Answers, name: str, model: Any, X: Any) -> None:
    """Predictions after a file, with and without training samples, and after a pickle."""
    put_variances(answers, f"{name}/saved", model, X)  # prepares what a file without training samples needs
    put_predictions(answers, f"{name}/pickled", pickle.loads(pickle.dumps(model)), X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.histogp"
        model.save(path, include_training=True)
        loaded = histogp.load(path)
        put_gp(answers, f"{name}/loaded", loaded, X)
        for prediction in ("exact", "quantized"):
            model.set_params(prediction=prediction)
            key = f"{name}/predict-only-{prediction}"
            answers.ask(key, model.save, path, include_training=False)
            if key in answers.refused:
                continue
            small = histogp.load(path)
            put_predictions(answers, key, small, X)
            put_variances(answers, key, small, X)
        model.set_params(prediction="exact")


def put_likelihoods(answers: Answers, name: str, model: Any) -> None:
    questions: dict[str, dict[str, Any]] = {
        "exact": dict(method="exact"),
        "auto": dict(method="auto", return_error=True),
        "bound-tightest": dict(method="bound", bound="tightest"),
        "bound-fischer": dict(method="bound", bound="fischer"),
        "bound-papers": dict(method="bound", bound="papers"),
        "quadrature": dict(method="quadrature", n_probes=8, return_error=True),
        "quadrature-max-error": dict(method="quadrature", n_probes=4, max_error=20.0, return_error=True),
        "noise": dict(method="exact", noise=0.5),
        "kernel": dict(method="exact", kernel="hik-poly", noise=0.5),
    }
    for question, options in questions.items():
        answers.ask(f"{name}/likelihood-{question}", model.log_marginal_likelihood, **options)


def renamed(columns: dict[str, Any]) -> dict[str, Any]:
    """Columns by their present names, also those of checkouts that had others."""
    return {name.replace("n_examples", "n_samples"): values for name, values in columns.items()}


def put_search(answers: Answers, name: str, model: Any, X: Any) -> None:
    """What a search has found, and the way it went."""
    for attribute in ("log_marginal_likelihood_", "log_marginal_likelihood_error_"):
        answers.put(f"{name}/{attribute}", getattr(model, attribute))
    answers.put(f"{name}/optimization_path_", renamed(model.optimization_path_))
    answers.put(f"{name}/noise_", model.noise_)
    put_kernel(answers, f"{name}/kernel_", model.kernel_)
    answers.put(f"{name}/feature_relevance_", model.feature_relevance_)
    put_predictions(answers, name, model, X)


def kernel_matrices(answers: Answers) -> None:
    X, T = histograms(FEW)[0], test_rows()
    for name, make in KERNELS.items():
        kernel = make()
        if isinstance(kernel, str):
            continue
        answers.ask(f"kernel/{name}", kernel, X, T)
        answers.ask(f"kernel/{name}/sparse", kernel, sparse.csr_array(X))


def gp_classifier(answers: Answers) -> None:
    T = test_rows()
    for size in (FEW, DENSE):
        X, labels, _ = histograms(size)
        for name, make in KERNELS.items():
            model = classifier(make()).fit(X, labels)
            put_gp(answers, f"classifier/{name}/{size}", model, T)
            answers.ask(f"classifier/{name}/{size}/dirichlet", proba, model, T, "dirichlet")


def proba(model: Any, X: Any, probability: str) -> np.ndarray:
    """Probabilities of the other kind, of a model that is then as before."""
    before = model.probability
    probabilities = model.set_params(probability=probability).predict_proba(X)
    model.set_params(probability=before)
    return probabilities


def gp_classifier_many(answers: Answers) -> None:
    T = test_rows()
    X, labels, _ = histograms(MANY)
    for name in ("hik", "power-weights", "chi2", "exp-chi2", "exp-chi2-quasi"):
        y = labels if name != "power-weights" else labels == "oak"
        model = classifier(KERNELS[name]()).fit(X, y)
        put_gp(answers, f"classifier/{name}/{MANY}", model, T)
    model = classifier("hik", noise=0.5).fit(X, labels)
    answers.ask("classifier/hik/many/dirichlet", proba, model, T, "dirichlet")
    put_quantized(answers, "classifier/hik/many", model, T)
    put_likelihoods(answers, "classifier/hik/many", classifier("hik-poly", noise=0.5).fit(X, labels == "elm"))
    for rank in (0, 30):
        model = classifier("hik", noise=0.5, preconditioner_rank=rank, solver="cg").fit(X, labels == "elm")
        put_gp(answers, f"classifier/hik/rank-{rank}", model, T, variances=False)
    model = classifier("hik", tol=1e-3).fit(X, labels)
    put_gp(answers, "classifier/hik/single-precision", model, T)


def gp_classifier_inputs(answers: Answers) -> None:
    """Binary labels, weights of classes and samples, sparse and single-precision rows, counts."""
    X, labels, _ = histograms(DENSE)
    T = test_rows()
    weights = np.random.default_rng(5).integers(0, 4, size=len(X)) / 2
    put_gp(answers, "classifier/binary", classifier("hik").fit(X, labels == "elm"), T)
    for name, kernel in (("hik", "hik-poly"), ("chi2", chi2())):
        chosen = {"balanced": "balanced", "ovr": "balanced-ovr", "dict": {"beech": 1, "elm": 2, "oak": 0.5, "yew": 3}}
        for variant, class_weight in chosen.items():
            model = classifier(kernel, class_weight=class_weight).fit(X, labels)
            put_gp(answers, f"classifier/class-weight-{variant}/{name}", model, T)
            model.fit(X, labels, sample_weight=weights)
            put_gp(answers, f"classifier/class-weight-{variant}/{name}/weighted", model, T, variances=False)
        model = classifier(kernel, class_weight="balanced-ovr").fit(X, labels == "elm")
        put_gp(answers, f"classifier/class-weight-ovr/{name}/binary", model, T)
        model = classifier(kernel).fit(X, labels, sample_weight=weights)
        put_gp(answers, f"classifier/weighted/{name}", model, T)
        model = classifier(kernel).fit(sparse.csr_array(X), labels)
        put_gp(answers, f"classifier/sparse/{name}", model, sparse.csr_array(T))
        model = classifier(kernel).fit(X.astype(np.float32), labels)
        put_gp(answers, f"classifier/float32/{name}", model, T.astype(np.float32))
        for solver in ("cg", "cholesky"):
            model = classifier(kernel, solver=solver).fit(X, labels)
            put_gp(answers, f"classifier/solver-{solver}/{name}", model, T)
    Xc, yc = counts(MANY)
    model = classifier("hik").fit(Xc, yc)
    put_gp(answers, "classifier/counts", model, counts(N_TEST)[0])
    model = classifier("hik-poly", class_weight="balanced-ovr").fit(*(a[:DENSE] for a in (Xc, yc)))
    put_gp(answers, "classifier/counts-dense", model, counts(N_TEST)[0])


def gp_classifier_tables(answers: Answers) -> None:
    X, labels, _ = histograms(DENSE)
    T = test_rows()
    for name in ("hik", "power-weights", "exponential-groups", "chi2", "exp-chi2"):
        model = classifier(KERNELS[name]()).fit(X, labels)
        put_quantized(answers, f"classifier/{name}", model, T)
        put_likelihoods(answers, f"classifier/{name}", model)
        put_files(answers, f"classifier/{name}", model, T)
    model = classifier("hik").fit(X, labels == "elm")
    put_quantized(answers, "classifier/binary", model, T)
    put_files(answers, "classifier/binary", model, T)


def gp_regressor(answers: Answers) -> None:
    T = test_rows()
    for size in (FEW, DENSE):
        X, _, targets = histograms(size)
        for name, make in KERNELS.items():
            y = targets if name in ("hik", "hik-exp", "chi2", "exp-chi2-quasi") else targets[:, 0]
            model = regressor(make()).fit(X, y)
            put_gp(answers, f"regressor/{name}/{size}", model, T, variances=size == DENSE)
            put_draws(answers, f"regressor/{name}/{size}", model, T)
    X, _, targets = histograms(DENSE)
    weights = np.random.default_rng(5).integers(0, 4, size=len(X)) / 2
    for name, kernel in (("hik", "hik-poly"), ("chi2", chi2())):
        model = regressor(kernel, normalize_y=False).fit(X, targets)
        put_gp(answers, f"regressor/as-it-is/{name}", model, T)
        model = regressor(kernel).fit(X, targets, sample_weight=weights)
        put_gp(answers, f"regressor/weighted/{name}", model, T)
        model = regressor(kernel).fit(sparse.csr_array(X), targets[:, 0])
        put_gp(answers, f"regressor/sparse/{name}", model, sparse.csr_array(T))
        model = regressor(kernel).fit(X.astype(np.float32), targets[:, 0].astype(np.float32))
        put_gp(answers, f"regressor/float32/{name}", model, T.astype(np.float32))
        for outputs in (1, 2):
            model = regressor(kernel).fit(X, targets[:, 0] if outputs == 1 else targets)
            put_quantized(answers, f"regressor/{name}/outputs-{outputs}", model, T)
            put_likelihoods(answers, f"regressor/{name}/outputs-{outputs}", model)
            put_files(answers, f"regressor/{name}/outputs-{outputs}", model, T)
        several = regressor(kernel).fit(X, targets[:, 0])
        answers.ask(
            f"regressor/{name}/several-eigenvectors",
            several.predict_variance,
            T,
            "fine",
            n_eigenvectors=[0, 2, 8],
        )


def gp_regressor_many(answers: Answers) -> None:
    T = test_rows()
    X, _, targets = histograms(MANY)
    for name in ("hik", "hik-poly", "chi2", "exp-chi2"):
        model = regressor(KERNELS[name]()).fit(X, targets if name == "hik" else targets[:, 0])
        put_gp(answers, f"regressor/{name}/{MANY}", model, T)
        put_draws(answers, f"regressor/{name}/{MANY}", model, T)


def put_draws(answers: Answers, name: str, model: Any, X: Any) -> None:
    answers.ask(f"{name}/std", model.predict, X, return_std=True)
    answers.ask(f"{name}/cov", model.predict, X, return_cov=True)
    # Rows of a covariance that no rounding makes singular: signs of eigenvectors are free there.
    few = X[7:12]
    answers.ask(f"{name}/sample_y", model.sample_y, few, n_samples=3, random_state=0, include_noise=True)


def gp_one_class(answers: Answers) -> None:
    T = test_rows()
    X = histograms(DENSE)[0]
    for name, make in KERNELS.items():
        for criterion in ("variance", "mean", "ratio"):
            model = one_class(make(), criterion=criterion).fit(X)
            put_gp(answers, f"one-class/{name}/{criterion}", model, T, variances=criterion == "ratio")
    for method in ("precise", "fine", "coarse", "coarse-quantized", "sampled", "calibrated"):
        for contamination in (0.2, "auto"):

            def fitted(method: str = method, contamination: Any = contamination) -> dict[str, Any]:
                model = one_class("hik", criterion="ratio", method=method, contamination=contamination).fit(X)
                return {"offset_": model.offset_, "scores": model.score_samples(T), "predict": model.predict(T)}

            answers.ask(f"one-class/method-{method}/{contamination}", fitted)
    for name, kernel in (("hik", "hik-poly"), ("chi2", chi2())):
        model = one_class(kernel, contamination="auto", method="sampled" if name == "hik" else "auto").fit(X)
        put_files(answers, f"one-class/{name}", model, T)
        put_quantized(answers, f"one-class/{name}", model, T)
        put_likelihoods(answers, f"one-class/{name}", model)
        weights = np.random.default_rng(5).integers(0, 4, size=len(X)) / 2
        model = one_class(kernel).fit(sparse.csr_array(X), sample_weight=weights)
        put_gp(answers, f"one-class/{name}/weighted", model, sparse.csr_array(T))
    X = histograms(MANY)[0]
    for criterion in ("variance", "ratio"):
        model = one_class("hik", criterion=criterion, contamination="auto").fit(X)
        put_gp(answers, f"one-class/hik/{MANY}/{criterion}", model, T, variances=False)
    put_gp(answers, f"one-class/chi2/{MANY}", one_class(chi2(), contamination="auto").fit(X), T)


def gp_updates(answers: Answers) -> None:
    """Samples that come, go and change, in small and large models, before and after a file."""
    T = test_rows()
    for size, kernels in ((FEW, list(KERNELS)), (DENSE, list(KERNELS)), (MANY, ["hik", "chi2", "exp-chi2"])):
        X, labels, targets = histograms(size)
        part = size * 3 // 4
        known = np.flatnonzero((labels != "yew") & (np.arange(size) < part))
        for kernel in kernels:
            name = f"updates/{kernel}/{size}"
            variances = size == DENSE and kernel in ("hik", "chi2")
            model = classifier(KERNELS[kernel]()).fit(X[known], labels[known])
            model.partial_fit(X[part : part + 1], ["elm"])
            put_gp(answers, f"{name}/one-more", model, T, variances=variances)
            model.partial_fit(X[part:], labels[part:], classes=["acacia"])
            put_gp(answers, f"{name}/more", model, T, variances=variances)
            model.relabel(model.ids_[[3, 5]], ["oak", "yew"])
            put_gp(answers, f"{name}/relabel", model, T, variances=False)
            model.forget(model.ids_[[0, 7, 11]])
            put_gp(answers, f"{name}/forget", model, T, variances=variances)
            if size == MANY:
                continue
            reg = regressor(KERNELS[kernel]()).fit(X[:part], targets[:part])
            reg.partial_fit(X[part:], targets[part:], sample_weight=np.linspace(0.0, 2.0, size - part))
            reg.relabel(reg.ids_[:2], targets[2:4])
            put_gp(answers, f"{name}/regressor-relabel", reg, T, variances=False)
            reg.forget(reg.ids_[5])
            put_gp(answers, f"{name}/regressor-forget", reg, T, variances=False)
            detector = one_class(KERNELS[kernel]()).fit(X[:part])
            detector.partial_fit(X[part:])
            put_gp(answers, f"{name}/one-class-more", detector, T, variances=False)
            detector.forget(detector.ids_[:9])
            put_gp(answers, f"{name}/one-class-forget", detector, T, variances=False)
    X, labels, _ = histograms(DENSE)
    for kernel in ("hik", "power-weights", "chi2", "exp-chi2"):
        name = f"updates/{kernel}/first"
        model = classifier(KERNELS[kernel](), class_weight="balanced-ovr")
        only = np.flatnonzero(labels == "oak")[:5]
        model.partial_fit(X[only], labels[only])
        put_gp(answers, f"{name}/one-label", model, T, variances=False)
        model.partial_fit(X[:50], labels[:50], sample_weight=np.linspace(0.0, 1.0, 50))
        put_gp(answers, f"{name}/all-labels", model, T)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.histogp"
            model.save(path, include_training=True)
            loaded = histogp.load(path)
        loaded.partial_fit(X[50:80], labels[50:80]).forget(loaded.ids_[:3])
        put_gp(answers, f"{name}/after-a-file", loaded, T)
    counted, labels = counts(MANY)
    model = classifier("hik-poly").fit(counted[:-50], labels[:-50])
    model.partial_fit(counted[-50:], labels[-50:]).forget(model.ids_[:20])
    put_gp(answers, "updates/counts", model, counts(N_TEST)[0])


def gp_searches(answers: Answers) -> None:
    X, labels, targets = histograms(DENSE)
    T = test_rows()
    poly = HistogramIntersection(Power(eta=0.8), weights=None)
    ard = HistogramIntersection(Power(eta=0.8), weights="ard")
    ard_groups = HistogramIntersection(Power(eta=0.8), weights="ard", groups=np.arange(N_FEATURES) % 5)
    few, some = slice(0, 120), slice(None)
    cases: dict[str, tuple[Any, Any, slice]] = {
        "gradient": (poly, optimizer("gradient"), some),
        "gradient-noise": (poly, optimizer("gradient", parameters=["noise"]), some),
        "gradient-eta": (poly, optimizer("gradient", parameters=["eta", "scale"]), few),
        "gradient-starts": (poly, optimizer("gradient", n_starts=2, prior_width=None), few),
        "gradient-ard": (ard, optimizer("gradient", sparsity=0.0), few),
        "gradient-ard-sparse": (ard, optimizer("gradient", sparsity=1.0), few),
        "gradient-ard-groups": (ard_groups, optimizer("gradient"), few),
        "exact": (poly, optimizer("exact"), few),
        "exact-ard": (ard_groups, optimizer("exact"), few),
        "exact-exponential": (HistogramIntersection(Exponential(eta=1.0)), optimizer("exact"), few),
        "bound": (poly, optimizer("bound"), few),
        "bound-fischer": (poly, optimizer("bound", bound="fischer", parameters=["scale", "eta"]), few),
        "bound-papers": (poly, optimizer("bound", bound="papers"), few),
        "chi2": (chi2(), optimizer("gradient"), some),
        "chi2-exact": (chi2(), optimizer("exact"), few),
        "chi2-bound": (chi2(), optimizer("bound"), few),
        "chi2-ard": (chi2(weights="ard"), optimizer("gradient"), some),
        "chi2-ard-groups": (chi2(weights="ard", groups=np.arange(N_FEATURES) % 5), optimizer("exact"), few),
        "exp-chi2": (exp_chi2(), optimizer("gradient"), some),
        "exp-chi2-evidence": (exp_chi2(beta="evidence"), optimizer("exact"), few),
    }
    for name, (kernel, search, rows) in cases.items():
        model = classifier(kernel, optimize=search)
        put_search(answers, f"search/classifier/{name}", model.fit(X[rows], labels[rows]), T)
    for name in ("gradient", "exact", "bound", "gradient-ard-groups", "chi2", "exp-chi2"):
        kernel, search, _ = cases[name]
        model = regressor(kernel, optimize=search).fit(X[few], targets[few])
        put_search(answers, f"search/regressor/{name}", model, T)
        if name != "bound":
            model.partial_fit(X[120:190], targets[120:190])
            put_search(answers, f"search/regressor/{name}/again", model, T)
            model.forget(model.ids_[:3])
            put_gp(answers, f"search/regressor/{name}/forget", model, T, variances=False)


def gp_searches_many(answers: Answers) -> None:
    """Searches by quadrature, on samples first."""
    X, labels, targets = (a[:1200] for a in histograms(MANY))
    T = test_rows()
    poly = HistogramIntersection(Power(eta=0.8), weights=None)
    ard = HistogramIntersection(None, weights="ard")
    search = optimizer("gradient", n_probes=8, max_steps=6)
    put_search(answers, "search/many/hik", classifier(poly, tol=1e-6, optimize=search).fit(X, labels == "oak"), T)
    put_search(answers, "search/many/ard", regressor(ard, tol=1e-6, optimize=search).fit(X, targets[:, 0]), T)
    put_search(answers, "search/many/chi2", classifier(chi2(), tol=1e-6, optimize=search).fit(X, labels), T)
    words, y, _ = datasets.make_planted_words(700, 400, random_state=0)
    search = optimizer("gradient", n_probes=8, max_steps=4)
    model = classifier(ard, tol=1e-6, optimize=search).fit(words, y)
    put_search(answers, "search/many/words", model, words[:N_TEST])


def feature_maps(answers: Answers) -> None:
    X, labels, targets = histograms(DENSE)
    T = test_rows()
    maps = {
        "direct-1": chi2_map(1),
        "direct-5": chi2_map(5),
        "direct-auto": chi2_map("auto", tol=1e-2),
        "direct-greedy": chi2_map(4, points="greedy"),
        "vz-3": chi2_map(3, "vz"),
        "vz-7": chi2_map(7, "vz"),
        "vz-interval": chi2_map(5, "vz", sample_interval=0.6),
        "chebyshev": chi2_map(4, "chebyshev"),
        "intersection": build(HomogeneousMap, kernel="intersection", n_terms=5, sample_interval=None, n_jobs=1),
        "jensen-shannon": build(HomogeneousMap, kernel="jensen-shannon", n_terms=3, sample_interval=0.5, n_jobs=1),
        "hellinger": build(HomogeneousMap, kernel="hellinger", n_terms=1, sample_interval=None, n_jobs=1),
        "skewed-even": build(SkewedChi2Map, n_components=30, skewedness=0.1, random_state=0),
        "skewed-odd": build(SkewedChi2Map, n_components=31, skewedness=1.0, random_state=0),
        "waves": chi2_sampler(),
        "waves-odd": chi2_sampler(n_components=61, sampling="plain"),
        "waves-quasi": chi2_sampler(n_terms=2, sampling="quasi", beta="median"),
        "waves-evidence": chi2_sampler(n_terms=5, beta="evidence"),
        "blocks": block_map(),
        "blocks-pca": block_map(pca_components=5),
    }
    for name, feature_map in maps.items():
        feature_map.fit(X, labels)
        for kind, rows in (("dense", T), ("sparse", sparse.csr_array(T)), ("float32", T.astype(np.float32))):
            answers.ask(f"map/{name}/{kind}", feature_map.transform, rows)
        answers.ask(f"map/{name}/names", feature_map.get_feature_names_out)
        for attribute in ("points_", "sample_interval_", "beta_", "block_of_", "columns_"):
            answers.put(f"map/{name}/{attribute}", getattr(feature_map, attribute, None))
        if hasattr(feature_map, "approximation_error"):
            answers.put(f"map/{name}/error", feature_map.approximation_error(X[:20], T))
        answers.put(f"map/{name}/pickled", pickle.loads(pickle.dumps(feature_map)).transform(T))
        feature_map.fit(sparse.csr_array(X), targets)
        answers.ask(f"map/{name}/fitted-sparse", feature_map.transform, T)
    both = block_map(pca_components=5).partial_fit(X[:100], labels[:100]).partial_fit(X[100:], labels[100:])
    answers.put("map/blocks-pca/parts", both.transform(T))


def streaming_regression(answers: Answers) -> None:
    X, _, targets = histograms(DENSE)
    T = test_rows()
    weights = np.random.default_rng(5).integers(0, 4, size=len(X)) / 2
    ridges: dict[str, tuple[Any, dict[str, Any]]] = {
        "plain": (None, {}),
        "no-intercept": (chi2_map(), dict(fit_intercept=False)),
        "pca": (chi2_map(), dict(pca_components=10, alpha="gcv")),
        "sampler": (chi2_sampler(), dict(alpha="evidence")),
        "blocks": (None, dict(blocks=blocks())),
        "block-components": (None, dict(blocks=blocks(), block_components=4, alpha="loo")),
        "block-weights": (None, dict(blocks=blocks(), block_weights="evidence", alpha="evidence")),
        "given-weights": (None, dict(blocks=blocks(), block_weights=[1.0, 0.0, 2.0])),
        "frozen": (FrozenEstimator(block_map(3).fit(X)), {}),
        **{alpha: (chi2_map(), dict(alpha=alpha)) for alpha in ("loo", "gcv", "evidence")},
        "many-features": (chi2_sampler(n_components=1600), dict(alpha="gcv")),
    }
    for name, (feature_map, options) in ridges.items():
        rows, y = (X, targets) if name != "many-features" else histograms(MANY)[::2]
        model = build(StreamingRidge, feature_map=feature_map, **{**RIDGE, **options})
        put_stream(answers, f"ridge/{name}", model, rows, y, T)
    put_stream(answers, "ridge/single", build(StreamingRidge, feature_map=chi2_map(), **RIDGE), X, targets[:, 0], T)
    model = build(StreamingRidge, feature_map=chi2_map(), **{**RIDGE, "alpha": "loo"})
    model.fit(X, targets, sample_weight=weights)
    put_linear(answers, "ridge/weighted", model, T)
    model = build(StreamingRidge, feature_map=chi2_map(), **{**RIDGE, "pca_components": 8})
    add = "add_unlabeled" if hasattr(model, "add_unlabeled") else "add_unlabelled"  # the name in older commits
    getattr(model, add)(X[100:]).partial_fit(X[:100], targets[:100])
    getattr(model, add)(T)
    put_linear(answers, "ridge/unlabeled", model, T)
    groups = np.arange(N_FEATURES) % 6
    sparse_models = {
        "lasso": build(StreamingElasticNet, feature_map=chi2_map(), l1_ratio=1.0, **SPARSE_MODEL),
        "elastic-net": build(StreamingElasticNet, feature_map=chi2_map(), l1_ratio=0.5, **SPARSE_MODEL),
        "elastic-net-ridge": build(StreamingElasticNet, feature_map=None, l1_ratio=0.0, **SPARSE_MODEL),
        "group-lasso": build(StreamingGroupLasso, feature_map=chi2_map(), groups=None, blocks=None, **SPARSE_MODEL),
        "group-lasso-groups": build(
            StreamingGroupLasso, feature_map=chi2_map(), groups=groups, blocks=None, **SPARSE_MODEL
        ),
        "group-lasso-blocks": build(
            StreamingGroupLasso, feature_map=None, groups=None, blocks=blocks(), **{**SPARSE_MODEL, "tol": 1e-6}
        ),
    }
    for name, model in sparse_models.items():
        put_stream(answers, name, model, X, targets, T)


def streaming_classification(answers: Answers) -> None:
    X, labels, _ = histograms(DENSE)
    T = test_rows()
    classes = dict(class_weight=None, equal_rank=None)
    variants: dict[str, tuple[Any, dict[str, Any]]] = {
        **{f"alpha-{a}": (chi2_map(), dict(alpha=a)) for a in ("loo", "loo-log", "gcv", "evidence")},
        "pca": (chi2_map(), dict(alpha="loo", pca_components=10)),
        "balanced": (chi2_map(), dict(class_weight="balanced", alpha="loo-log")),
        "weights": (chi2_map(), dict(class_weight={"beech": 1, "elm": 2, "oak": 0.5, "yew": 3})),
        "equal-rank": (chi2_map(), dict(equal_rank=40)),
        "blocks": (None, dict(blocks=blocks(), block_weights="evidence", alpha="loo")),
        "block-components": (None, dict(blocks=blocks(), block_components=4)),
        "sampler": (chi2_sampler(), dict(alpha="loo")),
    }
    for name, (feature_map, options) in variants.items():
        model = build(StreamingRidgeClassifier, feature_map=feature_map, **{**RIDGE, **classes, **options})
        put_stream(answers, f"ridge-classifier/{name}", model, X, labels, T)
    model = build(StreamingRidgeClassifier, feature_map=chi2_map(), **{**RIDGE, **classes, "alpha": "loo"})
    put_stream(answers, "ridge-classifier/binary", model, X, labels == "elm", T)
    known = labels != "yew"
    model = build(StreamingRidgeClassifier, feature_map=chi2_map(), **{**RIDGE, **classes, "class_weight": "balanced"})
    model.partial_fit(X[known], labels[known]).partial_fit(X[~known], labels[~known], classes=["acacia"])
    put_linear(answers, "ridge-classifier/new-class", model, T)


def put_stream(answers: Answers, name: str, model: Any, X: Any, y: Any, T: Any) -> None:
    """A model of all rows, of parts one after the other, of sparse rows, and after a file."""
    model.fit(X, y)
    put_linear(answers, name, model, T)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.histogp"
        model.save(path)
        loaded = histogp.load(path)
    put_linear(answers, f"{name}/loaded", loaded, T)
    loaded.partial_fit(X[:50], y[:50])
    put_linear(answers, f"{name}/loaded-further", loaded, T)
    model.fit(sparse.csr_array(X[:150]), y[:150])
    model.partial_fit(X[150:].astype(np.float32), y[150:])
    put_linear(answers, f"{name}/parts", model, T)


def put_linear(answers: Answers, name: str, model: Any, X: Any) -> None:
    for attribute in ("coef_", "intercept_", "alpha_", "block_weights_", "n_iter_", "classes_", "n_samples_seen_"):
        answers.ask(f"{name}/{attribute}", getattr, model, attribute, None)
    put_predictions(answers, name, model, X)
    answers.ask(f"{name}/sparse", model.predict, sparse.csr_array(X))


def streaming_components(answers: Answers) -> None:
    X, _, targets = histograms(DENSE)
    T = test_rows()
    for name, feature_map, n_components in (("plain", None, None), ("chi2", chi2_map(), 7), ("blocks", block_map(), 4)):
        model = build(StreamingPCA, n_components=n_components, feature_map=feature_map, chunk_bytes=2**20)
        model.fit(X[:200]).partial_fit(X[200:])
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model.histogp")
            loaded = histogp.load(Path(folder) / "model.histogp")
        for kind, one in (("fitted", model), ("loaded", loaded)):
            # Components beyond the rank of the features have no direction.
            kept = one.explained_variance_ > 1e-9 * one.explained_variance_[0]
            for attribute in ("explained_variance_", "explained_variance_ratio_", "n_components_", "mean_"):
                answers.put(f"pca/{name}/{kind}/{attribute}", getattr(one, attribute))
            answers.put(f"pca/{name}/{kind}/components_", one.components_[kept])
            answers.put(f"pca/{name}/{kind}/transform", one.transform(T)[:, kept])
            answers.put(f"pca/{name}/{kind}/inverse", one.inverse_transform(one.transform(T)))
    weights = np.random.default_rng(5).integers(0, 4, size=len(X)) / 2
    parts = [
        StreamingStatistics.of(X[:100], targets[:100]),
        StreamingStatistics.of(sparse.csr_array(X[100:]), targets[100:], sample_weight=weights[100:]),
    ]
    total = sum(parts[1:], parts[0])
    with tempfile.TemporaryDirectory() as folder:
        total.save(Path(folder) / "sums")
        loaded = StreamingStatistics.load(Path(folder) / "sums")
    for kind, one in (("sum", total), ("loaded", loaded)):
        for attribute in ("gram", "sums", "cross", "target_sums", "target_gram", "weight", "count"):
            answers.put(f"statistics/{kind}/{attribute}", getattr(one, attribute))
    answers.put("chunks", [rows.sum(axis=0) for rows, _ in read_chunks((X, targets), chunk_bytes=5000)])


def active_learning(answers: Answers) -> None:
    X, labels, targets = histograms(DENSE)
    pool = histograms(MANY)[0][:400]
    for kernel in ("hik", "power-weights", "chi2", "exp-chi2"):
        models = {
            "classifier": classifier(KERNELS[kernel]()).fit(X, labels),
            "binary": classifier(KERNELS[kernel]()).fit(X, labels == "elm"),
            "regressor": regressor(KERNELS[kernel]()).fit(X, targets[:, 0]),
            "one-class": one_class(KERNELS[kernel]()).fit(X),
        }
        for name, model in models.items():
            for strategy in sorted(active.STRATEGIES):
                answers.ask(
                    f"query/{kernel}/{name}/{strategy}",
                    active.query,
                    model,
                    pool,
                    strategy,
                    6,
                    variance="precise",
                    random_state=0,
                    return_utilities=True,
                )
        for variance in ("auto", "fine", "coarse", "coarse-quantized", "sampled", "calibrated"):
            answers.ask(
                f"query/{kernel}/variance-{variance}",
                active.query,
                models["classifier"],
                sparse.csr_array(pool),
                "uncertainty",
                6,
                candidates=np.arange(10, 300),
                variance=variance,
                random_state=0,
                return_utilities=True,
            )
    big_X, big_labels, _ = histograms(MANY)
    model = classifier("hik").fit(big_X, big_labels)
    for strategy in ("expected-change", "batch-variance", "batch-uncertainty"):
        answers.ask(
            f"query/many/{strategy}",
            active.query,
            model,
            X,
            strategy,
            4,
            variance="precise",
            random_state=0,
            return_utilities=True,
        )
    for strategy in ("random", "uncertainty", "batch-variance"):
        for kernel in ("hik", "chi2"):
            learner = active.ActiveLearner(
                classifier(KERNELS[kernel]()), X, strategy, batch_size=10, variance="auto", random_state=0
            )
            curve = learner.run(labels, 50, scoring=lambda model: model.score(pool[:100], model.predict(pool[:100])))
            answers.put(f"learner/{kernel}/{strategy}/queried", learner.queried_)
            counted = {name: values for name, values in renamed(curve).items() if not name.endswith("_seconds")}
            answers.put(f"learner/{kernel}/{strategy}/curve", counted)
            put_predictions(answers, f"learner/{kernel}/{strategy}", learner.estimator, test_rows())


def made_data(answers: Answers) -> None:
    answers.put("data/bags", datasets.make_bags_of_words(30, 50, n_classes=3, random_state=0))
    answers.put("data/board", datasets.make_checkerboard(5, 3, random_state=0))
    answers.put("data/relevance", datasets.make_relevance_test(10, random_state=0))
    answers.put("data/planted", datasets.make_planted_words(30, 100, random_state=0))
    images = np.random.default_rng(0).integers(256, size=(4, 12, 12)).astype(np.uint8)
    answers.put("data/orientation", datasets.orientation_histograms(images, cell=4, n_orientations=9))


def command_line(answers: Answers) -> None:
    """Every command that computes, on files in a folder of its own."""
    X, labels, targets = histograms(DENSE)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_csv("train.csv", X[:200], label=labels[:200])
        write_csv("more.csv", X[200:250], label=labels[200:250])
        write_csv("test.csv", X[250:], label=labels[250:])
        write_csv("rows.csv", X[250:])
        write_csv("numbers.csv", X[:200], label=targets[:200, 0])
        write_csv("numbers_test.csv", X[250:], label=targets[250:, 0])
        exact = ("--noise", "0.1", "--tol", "1e-10", "--seed", "0", "--jobs", "1")
        fits = {
            "hik": ("train.csv", "--kernel", "hik", *exact),
            "poly": ("train.csv", "--kernel", "hik-poly", "--eta", "0.7", "--class-weight", "balanced-ovr", *exact),
            "search": ("train.csv", "--kernel", "hik-exp", "--eta", "2", "--optimize", "exact", *exact),
            "ard": ("train.csv", "--kernel", "hik", "--optimize", "gradient", "--ard", *exact),
            "chi2": ("train.csv", "--kernel", "chi2", "--predict-only", *exact),
            "exp-chi2": ("train.csv", "--kernel", "exp-chi2", "--components", "80", "--beta", "1.5", *exact),
            "small": ("train.csv", "--kernel", "hik", "--prediction", "quantized", "--predict-only", *exact),
            "regression": ("numbers.csv", "--task", "regression", "--kernel", "hik", *exact),
            "one-class": ("train.csv", "--one-class", "--criterion", "ratio", "--contamination", "auto", *exact),
            "stream": (
                "train.csv",
                "--stream",
                "--kernel",
                "chi2",
                "--alpha",
                "loo",
                "--seed",
                "0",
            ),
            "stream-blocks": (
                *("train.csv", "--stream", "--kernel", "exp-chi2", "--components", "40", "--beta", "1.5"),
                *(
                    "--block",
                    "0:10",
                    "--block",
                    "10:20",
                    "--block-weights",
                    "evidence",
                    "--alpha",
                    "gcv",
                    "--seed",
                    "0",
                ),
            ),
        }
        for name, arguments in fits.items():
            run("fit", *arguments, "--label", "label", "-o", f"{name}.histogp")
            numbers = name == "regression"
            stream = name.startswith("stream")
            scores = () if numbers else ("--scores",)
            probabilities = () if numbers or stream or name == "one-class" else ("--proba",)
            run("predict", f"{name}.histogp", "rows.csv", *scores, *probabilities, "-o", "out.csv")
            answers.put(f"command/{name}/predict", read_csv("out.csv"))
            if not stream and name != "small":
                run("predict", f"{name}.histogp", "rows.csv", "--variance", "precise", "-o", "out.csv")
                answers.put(f"command/{name}/variance", read_csv("out.csv"))
            if name != "one-class":
                test = "numbers_test.csv" if numbers else "test.csv"
                said = json.loads(run("evaluate", f"{name}.histogp", test, "--label", "label", "--json"))
                answers.put(f"command/{name}/evaluate", dict(measured(said)))
        run("novelty", "hik.histogp", "rows.csv", "--method", "precise", "-o", "out.csv")
        answers.put("command/novelty", read_csv("out.csv"))
        for strategy in ("uncertainty", "batch-variance", "random"):
            run("query", "hik.histogp", "rows.csv", "-n", "5", "--strategy", strategy, "--seed", "0", "-o", "out.csv")
            answers.put(f"command/query/{strategy}", read_csv("out.csv"))
        for name in ("hik", "exp-chi2", "stream"):
            run("update", f"{name}.histogp", "more.csv", "--label", "label", "-o", "updated.histogp")
            run("predict", "updated.histogp", "rows.csv", "--scores", "-o", "out.csv")
            answers.put(f"command/{name}/update", read_csv("out.csv"))


def run(*arguments: str) -> str:
    """What a command prints; a failure ends everything."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = histogp_command(list(arguments))
    if code:
        raise RuntimeError(f"histogp {' '.join(arguments)} ended with {code}: {printed.getvalue()}")
    return printed.getvalue()


def measured(said: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and texts in a JSON document, but for times and paths."""
    if isinstance(said, dict):
        for key, value in said.items():
            if not any(word in key for word in ("second", "time", "path", "model", "data", "version")):
                yield from measured(value, f"{name}/{key}" if name else key)
    elif said is not None:
        yield name, np.asarray(said)


def write_csv(path: str, X: np.ndarray, **columns: Any) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"f{d}" for d in range(X.shape[1])), *columns])
        writer.writerows([*map(repr, map(float, x)), *more] for x, *more in zip(X, *columns.values(), strict=True))


def read_csv(path: str) -> dict[str, np.ndarray]:
    """Columns by their names: numbers where all are, else texts."""
    with open(path, newline="") as file:
        names, *rows = csv.reader(file)
    found = {}
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        try:
            found[name] = np.array(column, float)
        except ValueError:
            found[name] = np.array(column)
    return found


SECTIONS: dict[str, Callable[[Answers], None]] = {
    "kernels": kernel_matrices,
    "gp-classifier": gp_classifier,
    "gp-classifier-many": gp_classifier_many,
    "gp-classifier-inputs": gp_classifier_inputs,
    "gp-classifier-tables": gp_classifier_tables,
    "gp-regressor": gp_regressor,
    "gp-regressor-many": gp_regressor_many,
    "gp-one-class": gp_one_class,
    "gp-updates": gp_updates,
    "gp-searches": gp_searches,
    "gp-searches-many": gp_searches_many,
    "maps": feature_maps,
    "streaming-regression": streaming_regression,
    "streaming-classification": streaming_classification,
    "streaming-components": streaming_components,
    "active": active_learning,
    "data": made_data,
    "commands": command_line,
}


def main(output: str, *patterns: str) -> None:
    warnings.simplefilter("ignore")
    answers = Answers()
    for name, section in SECTIONS.items():
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns or ("*",)):
            start, before = time.perf_counter(), len(answers.arrays)
            section(answers)
            seconds = time.perf_counter() - start
            print(f"{name:28s} {len(answers.arrays) - before:6d} answers {seconds:6.1f} s", flush=True)
    print(f"{len(answers.arrays)} answers, {len(answers.refused)} of them refusals; from {histogp.__file__}")
    with open(output, "wb") as file:
        named: dict[str, Any] = {name.replace("/", "|"): array for name, array in answers.arrays.items()}
        np.savez(file, **named)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
