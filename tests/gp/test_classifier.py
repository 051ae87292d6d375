"""The classifier against dense formulas and other libraries."""

import warnings

import numpy as np
import pytest
from discovery import all_transforms, given
from oracles import Log, histograms, kernel_matrix
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier

from histogp import HistogramGPClassifier
from histogp.kernels import Exponential, HistogramIntersection, Power

X = histograms(150, 8)
Y3 = np.array(["red", "green", "blue"])[np.argmax(X[:, 1:4], axis=1)]
Y2 = np.where(X[:, 1] > 0.1, "yes", "no")
TEST = np.vstack([histograms(30, 8, seed=9), histograms(5, 8, seed=10) * 5])
TEST[:3, 4] = 0
KERNELS = [
    HistogramIntersection(),
    HistogramIntersection(Power(0.5), np.linspace(0, 3, 8)),
    HistogramIntersection(Power(np.linspace(0.3, 2, 8))),
    HistogramIntersection(Exponential(2.0)),
    HistogramIntersection(Log()),
    *(HistogramIntersection(make()) for make in all_transforms()),
]


def dense_scores(X, y, X_test, kernel, noise):
    """``K* (K + diag(noise))^-1 y`` with +-1 targets, one column a class; noise (N,) or a function of the class."""
    K, K_test = kernel_matrix(X, X, kernel), kernel_matrix(X_test, X, kernel)
    classes = np.unique(y)
    columns = []
    for label in classes if len(classes) > 2 else classes[1:]:
        diagonal = noise(label) if callable(noise) else noise * np.ones(len(y))
        columns.append(K_test @ np.linalg.solve(K + np.diag(diagonal), np.where(y == label, 1.0, -1.0)))
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("options", [{}, {"solver": "cg", "tol": 1e-12}])
def test_scores_agree_with_the_dense_formula(kernel, container, options):
    for y in (Y2, Y3):
        clf = HistogramGPClassifier(kernel, noise=0.05, **options).fit(container(X), y)
        expected = dense_scores(X, y, TEST, kernel, 0.05)
        scores = clf.decision_function(container(TEST))
        np.testing.assert_allclose(scores, expected[:, 0] if y is Y2 else expected, atol=1e-8 * np.abs(expected).max())


def test_predictions_are_the_labels_of_the_largest_score():
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X, Y3)
    np.testing.assert_array_equal(clf.predict(TEST), clf.classes_[clf.decision_function(TEST).argmax(axis=1)])
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X, Y2)
    np.testing.assert_array_equal(clf.predict(TEST), np.where(clf.decision_function(TEST) > 0, "yes", "no"))


def test_shapes_of_the_fitted_attributes():
    clf = HistogramGPClassifier("hik", noise=0.1, solver="cg").fit(X, Y3)
    assert clf.alpha_.shape == (150, 3)
    assert clf.residual_.shape == (3,)
    assert clf.n_iter_ >= 1
    assert clf.n_products_ >= 3 * clf.n_iter_
    assert HistogramGPClassifier("hik", noise=0.1).fit(X, Y2).alpha_.shape == (150,)


@pytest.mark.parametrize("class_weight", ["balanced", {"red": 2.0, "green": 0.5, "blue": 1.0}])
@pytest.mark.parametrize("options", [{}, {"solver": "cg", "tol": 1e-12}])
def test_class_weights_divide_the_noise(class_weight, options):
    weights = np.random.default_rng(0).uniform(0.5, 2, len(X))
    clf = given(HistogramGPClassifier, class_weight=class_weight, **options).fit(X, Y3, weights)
    classes = np.unique(Y3)
    if class_weight == "balanced":
        per_class = [weights.sum() / (3 * weights[label == Y3].sum()) for label in classes]
        class_weight = dict(zip(classes, per_class, strict=True))
    noise = 0.1 / weights / np.array([class_weight[label] for label in Y3])
    expected = dense_scores(X, Y3, TEST, HistogramIntersection(), noise)
    np.testing.assert_allclose(clf.decision_function(TEST), expected, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"solver": "cg", "tol": 1e-12}])
@pytest.mark.parametrize("y", [Y2, Y3])
def test_balanced_ovr_is_the_papers_label_dependent_noise(options, y):
    clf = HistogramGPClassifier("hik", noise=0.2, class_weight="balanced-ovr", **options).fit(X, y)

    def noise(label):
        share = np.mean(y == label)
        return 2 * 0.2 * np.where(y == label, share, 1 - share)

    expected = dense_scores(X, y, TEST, HistogramIntersection(), noise)
    np.testing.assert_allclose(clf.decision_function(TEST).reshape(expected.shape), expected, atol=1e-8)


def test_weight_two_is_a_row_twice_and_weight_zero_no_row():
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    for class_weight in (None, "balanced", "balanced-ovr"):
        weighted = HistogramGPClassifier("hik", noise=0.1, class_weight=class_weight).fit(X, Y3, weights)
        repeated = HistogramGPClassifier("hik", noise=0.1, class_weight=class_weight).fit(
            X.repeat(weights, 0), Y3.repeat(weights)
        )
        np.testing.assert_allclose(weighted.decision_function(TEST), repeated.decision_function(TEST), atol=1e-9)


@pytest.mark.parametrize("class_weight", ["balanced-ovr", "balanced"])
def test_a_class_of_zero_weight_does_no_harm(class_weight):
    weights = np.where(Y3 == "red", 0.0, 1.0)
    options = dict(class_weight=class_weight, tol=1e-10)
    scores = [
        given(HistogramGPClassifier, solver=solver, preconditioner_rank=rank, **options)
        .fit(X, Y3, weights)
        .decision_function(X)
        for solver, rank in (("cholesky", 0), ("cg", 0), ("cg", 40))
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-7)
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-7)


def test_classes_that_lose_all_their_rows_stay_known():
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X, Y3, np.where(Y3 == "red", 0.0, 1.0))
    assert list(clf.classes_) == ["blue", "green", "red"]
    assert "red" not in clf.predict(X)


def test_the_residual_is_what_a_dense_recomputation_finds():
    clf = HistogramGPClassifier("hik", noise=0.1, solver="cg", tol=1e-2).fit(X, Y3)
    targets = np.where(Y3[:, None] == clf.classes_, 1.0, -1.0)
    K = kernel_matrix(X, X, HistogramIntersection())
    residual = np.abs(targets - K @ clf.alpha_ - 0.1 * clf.alpha_).max(axis=0)
    assert residual.max() <= 1e-2
    np.testing.assert_allclose(clf.residual_, residual, atol=1e-12)


def test_kernel_ridge_finds_the_same_boundary():
    K, K_test = (kernel_matrix(A, X, HistogramIntersection()) for A in (X, TEST))
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))
    features = np.linalg.solve(root, K_test.T).T
    ridge = RidgeClassifier(alpha=0.1, fit_intercept=False).fit(root, Y3)
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X, Y3)
    np.testing.assert_allclose(clf.decision_function(TEST), ridge.decision_function(features), atol=1e-6)


def test_not_converging_warns_with_residual_target_and_remedy():
    with pytest.warns(ConvergenceWarning, match=r"residual of .*, above the target tol=1e-08; raise max_iter"):
        clf = HistogramGPClassifier("hik", noise=0.1, solver="cg", tol=1e-8, max_iter=2).fit(X, Y3)
    assert clf.n_iter_ == 2
    with pytest.warns(ConvergenceWarning) as caught:
        HistogramGPClassifier("hik", noise=0.1, solver="cg", tol=1e-8, max_iter=2).fit(X, Y3)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HistogramGPClassifier("hik", noise=0.1, solver="cg", tol=1e-8).fit(X, Y3)


def test_a_dense_factor_that_is_not_good_enough_warns():
    twice, opposite = np.vstack([X, X * (1 + 1e-14)]), np.r_[Y2 == "yes", Y2 == "no"]
    with pytest.warns(ConvergenceWarning, match="above the target"):
        HistogramGPClassifier("hik", noise=1e-13).fit(twice, opposite)


def test_raw_counts_with_default_parameters_converge():
    rng = np.random.default_rng(0)
    counts, labels = load_digits(return_X_y=True)
    rows = rng.integers(len(counts), size=3000)
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(rng.poisson(counts[rows]), labels[rows])
    assert clf.residual_.max() <= 1e-2
    assert clf.preconditioner_rank_ > 0


@pytest.mark.slow
def test_real_images(fashion_mnist):
    X_train, y_train, X_test, y_test = fashion_mnist
    clf = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(X_train, y_train)
    assert clf.residual_.max() <= 1e-2
    assert clf.score(X_test, y_test) > 0.84
