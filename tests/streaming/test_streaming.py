"""Streaming estimators: scikit-learn's contract, and models of chunks against models of all rows at once."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from oracles import alike, close, histograms
from scipy import sparse
from scipy.linalg import null_space
from sklearn import linear_model
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from histogp._core.least_squares.ridge import RELATIVE_PENALTIES
from histogp.feature_maps import AdditiveChi2Map, SkewedChi2Map
from histogp.streaming import (
    StreamingElasticNet,
    StreamingGroupLasso,
    StreamingPCA,
    StreamingRidge,
    StreamingRidgeClassifier,
)

RNG = np.random.default_rng(0)
X = histograms(90, 6)
Y = X @ RNG.standard_normal((6, 2)) + 0.02 * RNG.standard_normal((90, 2)) + 1
y = Y[:, 0]
LABELS = np.array(["b", "a", "c"])[np.argsort(np.argsort(X @ RNG.standard_normal(6))) // 40]
BINARY = np.where(LABELS == "a", 3, 7)
WEIGHTS = RNG.random(90) * (RNG.random(90) < 0.8)
MAP = AdditiveChi2Map(n_terms=3, points="greedy")
MORE = histograms(50, 6, seed=1)
MIXED = RNG.standard_normal((90, 6)) @ RNG.standard_normal((6, 6)) + RNG.standard_normal(6)
RESPONSE = MIXED @ [3.0, 0, 0, -2, 0, 0.1] + RNG.standard_normal(90)
ALPHAS = ["loo", "gcv", "evidence"]
LABELED = [
    (StreamingRidge(alpha=1e-3), Y),
    *((StreamingRidge(alpha=alpha), y) for alpha in ("auto", *ALPHAS)),
    (StreamingRidge(alpha=1e-3, pca_components=4), y),
    *((StreamingRidgeClassifier(alpha=alpha), LABELS) for alpha in (1e-3, "auto", *ALPHAS)),
    (StreamingRidgeClassifier(alpha="loo", class_weight="balanced"), LABELS),
    (StreamingRidgeClassifier(alpha=1e-3, class_weight={"a": 3}), LABELS),
    (StreamingElasticNet(alpha=1e-2, l1_ratio=0.7, tol=1e-11, max_iter=10**5), Y),
    (StreamingGroupLasso(alpha=3e-2, tol=1e-11, max_iter=10**5), Y),
]
every_model = pytest.mark.parametrize(
    ("model", "targets"), LABELED, ids=lambda value: "" if isinstance(value, np.ndarray) else str(value)
)
by_map = pytest.mark.parametrize("feature_map", [None, MAP], ids=["plain", "chi2"])


def expected_to_fail(estimator):
    """The points of the feature map are chosen from rows without their weights."""
    if estimator.feature_map is None:
        return {}
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(names, expected_to_fail.__doc__)


CHECKED = [
    StreamingPCA(),
    *(StreamingRidge(alpha=alpha) for alpha in (1.0, "auto", *ALPHAS)),
    *(StreamingRidgeClassifier(alpha=alpha) for alpha in (1.0, "auto", *ALPHAS)),
    StreamingRidgeClassifier(class_weight="balanced"),
    StreamingElasticNet(),
    StreamingElasticNet(alpha=0.1, l1_ratio=0.5),
    StreamingGroupLasso(),
]


@pytest.mark.slow
@pytest.mark.usefixtures("non_negative_blobs")
@parametrize_with_checks(
    [*CHECKED, StreamingRidge(MAP), StreamingRidgeClassifier(MAP), StreamingGroupLasso(MAP, alpha=0.02)],
    expected_failed_checks=expected_to_fail,
)
def test_common_checks(estimator, check):
    check(estimator)


# Chunks.


def scores(model, rows):
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


def same(actual, expected, model):
    """Equal up to rounding, or up to where iterations end."""
    close(actual, expected, rtol=1e-5 if hasattr(model, "n_iter_") else 1e-9)


def in_chunks(model, targets, chunks, **options):
    model = clone(model)
    for rows in chunks:
        model.partial_fit(X[rows], targets[rows], **{name: value[rows] for name, value in options.items()})
    return model


@pytest.mark.slow
@by_map
@every_model
def test_any_split_and_any_order_of_chunks_gives_the_model_of_one_fit(model, targets, feature_map):
    first, others = np.arange(30), RNG.permutation(np.arange(30, 90))
    model = clone(model).set_params(feature_map=feature_map)
    # The map is adapted to the first chunk, so that is the same.
    once = in_chunks(model, targets, [first, np.arange(30, 90)], sample_weight=WEIGHTS)
    if feature_map is None:
        first = RNG.permutation(first)
        once = clone(model).fit(X, targets, sample_weight=WEIGHTS)
    for cuts in ([1], [7, 9, 41], range(1, 60, 3)):
        chunks = [first, *(rows for rows in np.split(others, cuts) if len(rows))]
        many = in_chunks(model, targets, chunks, sample_weight=WEIGHTS)
        same(scores(many, X), scores(once, X), once)
        assert many.n_samples_seen_ == once.n_samples_seen_ == 90
        if hasattr(once, "alpha_"):
            assert many.alpha_ == pytest.approx(once.alpha_, rel=1e-9)


@every_model
def test_every_container_gives_the_same_model(model, targets):
    expected = scores(clone(model).set_params(feature_map=MAP).fit(X, targets), X)
    single = X.astype(np.float32)
    for made in (sparse.csr_array, sparse.csc_matrix, np.asfortranarray):
        found = clone(model).set_params(feature_map=MAP).fit(made(X), targets)
        same(scores(found, made(X)), expected, found)
    assert scores(clone(model).fit(single, targets), single).dtype == np.float32


def test_pca_is_that_of_scikit_learn_in_any_split():
    for n_components in (None, 2):
        theirs = PCA(n_components, svd_solver="full").fit(MIXED)
        ours = StreamingPCA(n_components)
        for rows in np.split(RNG.permutation(90), [9, 30]):
            ours.partial_fit(MIXED[rows])
        signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
        close(ours.transform(MIXED) * signs, theirs.transform(MIXED), rtol=1e-9)
        close(ours.components_ * signs[:, None], theirs.components_, rtol=1e-9)
        for name in ("mean_", "explained_variance_", "explained_variance_ratio_"):
            close(getattr(ours, name), getattr(theirs, name), rtol=1e-9)
        close(ours.inverse_transform(ours.transform(MIXED)), theirs.inverse_transform(theirs.transform(MIXED)))
    assert StreamingPCA().fit(MIXED[:4]).n_components_ == 4
    assert list(ours.get_feature_names_out()) == ["streamingpca0", "streamingpca1"]


def test_pca_of_features_is_that_of_scikit_learn():
    Z = clone(MAP).fit_transform(X)
    ours, theirs = StreamingPCA(5, feature_map=MAP).fit(X).transform(X), PCA(5).fit_transform(Z)
    close(ours * np.sign(np.sum(ours * theirs, axis=0)), theirs, rtol=1e-7)


class Recording(TransformerMixin, BaseEstimator):
    seen = []  # noqa: RUF012

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        self.seen.append(X.shape[0])
        return np.hstack([X, X**2])


@every_model
def test_memory_for_features_is_bounded(model, targets):
    model = clone(model).set_params(feature_map=Recording(), chunk_bytes=8 * 12 * 7)
    leaves_out = model.get_params()["alpha"] in ("auto", "loo")
    if leaves_out:
        model.set_params(n_left_out=5)
    Recording.seen.clear()
    model.fit(X, targets)
    assert max(Recording.seen) == 7
    assert sum(Recording.seen) == 90 + 1 + 5 * leaves_out
    model.predict(X)
    assert max(Recording.seen) == 7
    one_row = clone(model).set_params(chunk_bytes=1)
    if not leaves_out:
        same(scores(one_row.fit(X, targets), X), scores(model, X), model)


# Ridge against scikit-learn.


def ridge(Z, targets, alpha, weights=None, intercept=True):
    return linear_model.Ridge(alpha=alpha, fit_intercept=intercept, solver="svd").fit(Z, targets, weights)


@by_map
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_that_of_scikit_learn(feature_map, weights, intercept):
    Z = X if feature_map is None else clone(feature_map).fit_transform(X)
    for targets in (y, Y):
        model = StreamingRidge(feature_map, alpha=0.01, fit_intercept=intercept).fit(X, targets, weights)
        theirs = ridge(Z, targets, 0.01, weights, intercept)
        close(model.predict(X), theirs.predict(Z), rtol=1e-9)
        close(model.coef_, theirs.coef_, rtol=1e-9)
        close(
            np.broadcast_to(model.intercept_, targets.shape[1:]), np.broadcast_to(theirs.intercept_, targets.shape[1:])
        )
        assert model.alpha_ == 0.01


@by_map
@pytest.mark.parametrize("class_weight", [None, "balanced", "dict"])
@pytest.mark.parametrize("labels", [LABELS, BINARY], ids=["many", "two"])
def test_classifier_is_that_of_scikit_learn(feature_map, class_weight, labels):
    Z = X if feature_map is None else clone(feature_map).fit_transform(X)
    if class_weight == "dict":
        class_weight = {labels[0]: 0.3, labels[-1]: 2.0}
    weights = None if class_weight == "balanced" else WEIGHTS
    model = StreamingRidgeClassifier(feature_map, alpha=0.01, class_weight=class_weight).fit(X, labels, weights)
    factors = np.ones(90) if weights is None else weights
    if isinstance(class_weight, dict):
        factors = factors * [class_weight.get(label, 1.0) for label in labels]
        class_weight = None
    theirs = linear_model.RidgeClassifier(alpha=0.01, class_weight=class_weight, solver="svd").fit(Z, labels, factors)
    close(model.decision_function(X), theirs.decision_function(Z), 1.0, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), theirs.predict(Z))
    np.testing.assert_array_equal(model.classes_, theirs.classes_)
    close(model.coef_, np.atleast_2d(theirs.coef_), rtol=1e-8)


@pytest.mark.parametrize("alpha", [0.01, *ALPHAS])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"c": 5.0}])
def test_late_classes_are_as_good_as_classes_from_the_beginning(alpha, class_weight):
    options = dict(alpha=alpha, class_weight=class_weight)
    expected = StreamingRidgeClassifier(**options).fit(X, LABELS)
    order = np.argsort(LABELS, kind="stable")
    for direction in (order, order[::-1]):
        late = in_chunks(StreamingRidgeClassifier(**options), LABELS, np.array_split(direction, 9))
        close(late.decision_function(X), expected.decision_function(X), rtol=1e-9)
        np.testing.assert_array_equal(late.classes_, expected.classes_)
    declared = StreamingRidgeClassifier(**options).partial_fit(X[order[:5]], LABELS[order[:5]], classes=["c", "a", "b"])
    assert list(declared.classes_) == ["a", "b", "c"]
    declared.partial_fit(X[order[5:]], LABELS[order[5:]])
    close(declared.decision_function(X), expected.decision_function(X), rtol=1e-9)


def test_classes_without_rows_do_not_matter_to_the_balance():
    options = dict(alpha=0.01, class_weight="balanced")
    two = StreamingRidgeClassifier(**options).fit(X, BINARY)
    three = StreamingRidgeClassifier(**options).partial_fit(X, BINARY, classes=[1, 3, 7])
    close(three.decision_function(X)[:, 2], two.decision_function(X), rtol=1e-9)
    close(three.decision_function(X)[:, 0], -np.ones(90), rtol=1e-9)


def test_balance_counts_weights_like_repetitions():
    repeats = RNG.integers(0, 3, 90)
    options = dict(alpha=0.01, class_weight="balanced")
    weighted = StreamingRidgeClassifier(**options).fit(X, LABELS, repeats)
    repeated = StreamingRidgeClassifier(**options).fit(np.repeat(X, repeats, axis=0), np.repeat(LABELS, repeats))
    close(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-9)


def test_balance_may_be_given_up_but_not_asked_for_later():
    model = StreamingRidgeClassifier(alpha=0.01, class_weight="balanced").fit(X[:60], LABELS[:60])
    assert not np.allclose(model.decision_function(X), model.set_params(class_weight=None).decision_function(X))
    model.partial_fit(X[60:], LABELS[60:])
    close(
        model.decision_function(X), StreamingRidgeClassifier(alpha=0.01).fit(X, LABELS).decision_function(X), rtol=1e-9
    )
    model.set_params(class_weight="balanced")
    for act in (lambda: model.predict(X), lambda: model.partial_fit(X, LABELS)):
        with pytest.raises(ValueError, match="needs statistics of each class, which were not asked for"):
            act()


# The choice of the penalty.


def left_out_errors(Z, T, alpha, intercept):
    errors = []
    for i in range(len(Z)):
        others = np.arange(len(Z)) != i
        z, t = (intercept * A[others].mean(axis=0) for A in (Z, T))
        C = Z[others] - z
        errors.append(
            T[i] - t - (Z[i] - z) @ np.linalg.solve(C.T @ C + alpha * np.eye(Z.shape[1]), C.T @ (T[others] - t))
        )
    return np.sum(np.square(errors))


def generalized(Z, T, alpha, intercept):
    ones = np.full((len(Z), len(Z)), intercept / len(Z))
    C = Z - ones @ Z
    rest = np.eye(len(Z)) - ones - C @ np.linalg.solve(C.T @ C + alpha * np.eye(Z.shape[1]), C.T)
    return np.sum((rest @ T) ** 2) / np.trace(rest) ** 2


def negative_likelihood(Z, T, alpha, intercept):
    basis = null_space(np.ones((1, len(Z)))) if intercept else np.eye(len(Z))
    Z, T = basis.T @ Z, basis.T @ T
    C = np.eye(len(Z)) + Z @ Z.T / alpha
    noise = np.sum(T * np.linalg.solve(C, T)) / T.size
    return T.size * np.log(noise) + T.shape[1] * np.linalg.slogdet(C)[1]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("alpha", "formula"), [("loo", left_out_errors), ("gcv", generalized), ("evidence", negative_likelihood)]
)
def test_the_penalty_is_the_best_by_a_dense_formula(alpha, formula, intercept):
    Z, noisy = MIXED[:40], Y[:40] + RNG.standard_normal((40, 2))
    C = Z - intercept * Z.mean(axis=0)
    grid = RELATIVE_PENALTIES * np.linalg.eigvalsh(C.T @ C)[-1]
    picked = []
    for targets in (noisy, RESPONSE[:40, None], 20 * Y[:40, :1] + RESPONSE[:40, None]):
        model = StreamingRidge(alpha=alpha, fit_intercept=intercept, n_left_out=40).fit(Z, targets)
        best = grid[np.argmin([formula(Z, targets, candidate, intercept) for candidate in grid])]
        assert model.alpha_ == pytest.approx(best, rel=1e-9)
        picked.append(best)
    assert len(set(picked)) > 1
    labels = RESPONSE[:40] > 0
    clf = StreamingRidgeClassifier(alpha=alpha, fit_intercept=intercept).fit(Z, labels)
    signs = np.where(labels, 1.0, -1.0)[:, None]
    best = grid[np.argmin([formula(Z, signs, candidate, intercept) for candidate in grid])]
    assert clf.alpha_ == pytest.approx(best, rel=1e-9)


def test_left_out_penalty_is_that_of_ridge_cv():
    grid = RELATIVE_PENALTIES * np.linalg.eigvalsh(np.cov(MIXED.T) * 89)[-1]
    for targets in (RESPONSE, RNG.standard_normal(90)):
        theirs = linear_model.RidgeCV(alphas=grid).fit(MIXED, targets)
        ours = StreamingRidge().fit(MIXED, targets)
        assert ours.alpha_ == pytest.approx(theirs.alpha_, rel=1e-9)
        close(ours.coef_, theirs.coef_, rtol=1e-7)


def test_the_sample_is_one_of_all_rows_and_fixed_by_random_state():
    model, again = (StreamingRidge(n_left_out=20) for _ in range(2))
    for rows in np.array_split(np.arange(90), 6):
        model.partial_fit(MIXED[rows], RESPONSE[rows])
        again.partial_fit(MIXED[rows], RESPONSE[rows])
    sample = model._learned.sample
    np.testing.assert_array_equal(sample.X, again._learned.sample.X)
    positions = np.argmin(np.abs(MIXED[None] - sample.X[:, None]).sum(axis=2), axis=1)
    np.testing.assert_array_equal(sample.X, MIXED[positions])
    np.testing.assert_array_equal(sample.targets[:, 0], RESPONSE[positions])
    assert len(set(positions)) == 20
    assert len({position // 15 for position in positions}) > 3
    other, another = (StreamingRidge(n_left_out=20, random_state=seed).fit(MIXED, RESPONSE) for seed in (1, None))
    drawn = [one._learned.sample.X for one in (model, other, another)]
    assert len({sample.tobytes() for sample in drawn}) == 3
    weighted = StreamingRidge(n_left_out=90).fit(X, y, WEIGHTS)
    assert len(weighted._learned.sample.X) == np.count_nonzero(WEIGHTS)


# Principal components.


@by_map
@pytest.mark.parametrize("n_components", [1, 4])
def test_principal_components_are_pca_and_ridge(n_components, feature_map):
    Z = X if feature_map is None else clone(feature_map).fit_transform(X)
    model = StreamingRidge(feature_map, alpha=1e-3, pca_components=n_components).fit(X, y)
    projected = PCA(n_components, svd_solver="full").fit_transform(Z)
    close(model.predict(X), ridge(projected, y, 1e-3).predict(projected), rtol=1e-9)


@pytest.mark.parametrize("before", [True, False])
def test_unlabeled_rows_change_the_components_as_pca_on_all_rows_would(before):
    pca = PCA(3, svd_solver="full").fit(np.vstack([X, MORE]))
    projected = pca.transform(X)
    model, clf = StreamingRidge(alpha=1e-3, pca_components=3), StreamingRidgeClassifier(alpha=1e-3, pca_components=3)
    for rows in (MORE[:20], MORE[20:]) if before else ():
        clf.add_unlabeled(rows)
        model.add_unlabeled(rows)
    model.partial_fit(X, y)
    clf.partial_fit(X, LABELS)
    if not before:
        alone = model.predict(X)
        model.add_unlabeled(sparse.csr_array(MORE))
        clf.add_unlabeled(MORE)
        assert not np.allclose(model.predict(X), alone)
    close(model.predict(X), ridge(projected, y, 1e-3).predict(projected), rtol=1e-9)
    theirs = linear_model.RidgeClassifier(alpha=1e-3, solver="svd").fit(projected, LABELS)
    close(clf.decision_function(X), theirs.decision_function(projected), rtol=1e-9)
    assert model.n_samples_seen_ == 90
    close(model.set_params(pca_components=None).predict(X), ridge(X, y, 1e-3).predict(X), rtol=1e-9)


def test_unlabeled_rows_alone_are_not_a_model():
    for model in (StreamingRidge(), StreamingRidgeClassifier()):
        model.add_unlabeled(X)
        for ask in (
            lambda model=model: model.predict(X),
            lambda model=model: model.coef_,
            lambda model=model: model.alpha_,
        ):
            with pytest.raises(NotFittedError):
                ask()


# Penalties that choose.


@by_map
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("intercept", [True, False])
def test_elastic_net_is_that_of_scikit_learn(feature_map, l1_ratio, weights, intercept):
    Z = X if feature_map is None else clone(feature_map).fit_transform(X)
    alpha = 0.1 if feature_map is None else 2e-3
    options = dict(alpha=alpha, l1_ratio=l1_ratio, fit_intercept=intercept, tol=1e-12, max_iter=10**6)
    for targets in (y, Y):
        ours = StreamingElasticNet(feature_map, **options).fit(X, targets, weights)
        theirs = linear_model.ElasticNet(**options).fit(Z, targets, weights)
        close(ours.predict(X), theirs.predict(Z), rtol=1e-6)
        close(ours.coef_, theirs.coef_, rtol=1e-4 if feature_map else 1e-5)
        assert np.shape(ours.intercept_) == np.shape(ours.n_iter_) == targets.shape[1:]
        if feature_map is None and l1_ratio == 1:
            assert not ours.coef_.all()
            np.testing.assert_array_equal(ours.coef_ != 0, theirs.coef_ != 0)


def test_elastic_net_without_absolute_values_is_ridge():
    model = StreamingElasticNet(alpha=0.1, l1_ratio=0.0).fit(MIXED, RESPONSE, WEIGHTS)
    close(model.predict(MIXED), ridge(MIXED, RESPONSE, 0.1 * WEIGHTS.sum(), WEIGHTS).predict(MIXED), rtol=1e-9)


def test_lasso_of_more_features_than_rows_and_of_repeated_ones():
    wide = np.hstack([MIXED[:10], MIXED[:10] ** 2, np.ones((10, 1)), MIXED[:10]])
    options = dict(alpha=0.05, tol=1e-12, max_iter=10**6)
    ours, theirs = StreamingElasticNet(**options), linear_model.Lasso(**options)
    close(ours.fit(wide, RESPONSE[:10]).predict(wide), theirs.fit(wide, RESPONSE[:10]).predict(wide), rtol=1e-6)
    assert ours.coef_[12] == 0
    groups = StreamingGroupLasso(**options).fit(wide, RESPONSE[:10])
    close(groups.predict(wide), theirs.predict(wide), rtol=1e-5)


def objective(Z, targets, alpha, groups, w, b):
    norms = [np.sqrt(np.sum(groups == g)) * np.linalg.norm(w[groups == g]) for g in np.unique(groups)]
    return np.mean((targets - Z @ w - b) ** 2) / 2 + alpha * sum(norms)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_groups_of_single_features_are_the_lasso(weights):
    options = dict(alpha=0.2, tol=1e-13, max_iter=10**5)
    for targets in (RESPONSE, np.stack([RESPONSE, -MIXED[:, 1], np.ones(90)], axis=1)):
        ours = StreamingGroupLasso(**options).fit(MIXED, targets, weights)
        with warnings.catch_warnings():  # of constant targets, before scikit-learn 1.8
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = linear_model.Lasso(**options).fit(MIXED, targets, weights)
        close(ours.coef_, theirs.coef_, rtol=1e-6)
        close(ours.predict(MIXED), theirs.predict(MIXED), rtol=1e-6)
        assert not ours.coef_.all()


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("labels", [None, ["b", "a", "a", "b", "c", "c"], [7] * 6])
@by_map
def test_group_lasso_meets_the_conditions_of_a_minimum(alpha, labels, feature_map):
    rows = np.abs(MIXED)
    Z = rows if feature_map is None else clone(feature_map).fit_transform(rows)
    columns = np.tile(np.arange(6) if labels is None else labels, Z.shape[1] // 6)
    model = StreamingGroupLasso(feature_map, alpha=alpha, groups=labels, tol=1e-13, max_iter=10**6)
    w = model.fit(rows, RESPONSE).coef_
    residual = RESPONSE - Z @ w - model.intercept_
    assert abs(residual.mean()) < 1e-12
    gradient = Z.T @ residual / 90
    for g in np.unique(columns):
        own = columns == g
        limit = alpha * np.sqrt(own.sum())
        if w[own].any():
            assert w[own].all()
            close(gradient[own], limit * w[own] / np.linalg.norm(w[own]), limit, rtol=1e-4)
        else:
            assert np.linalg.norm(gradient[own]) <= limit
    # The objective is convex: a minimum among neighbors is one of all.
    best = objective(Z, RESPONSE, alpha, columns, w, model.intercept_)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(100):
            other = w + size * RNG.standard_normal(len(w)) * (RNG.random(len(w)) < 0.5)
            assert objective(Z, RESPONSE, alpha, columns, other, np.mean(RESPONSE - Z @ other)) >= best - 1e-12


def test_group_lasso_of_orthogonal_features_shrinks_the_norms():
    Z = np.sqrt(90) * np.linalg.qr(MIXED - MIXED.mean(axis=0))[0]
    labels = np.array([0, 0, 1, 1, 1, 2])
    alpha, c = 0.6, Z.T @ RESPONSE / 90
    expected = np.concatenate(
        [
            c[labels == g] * max(0, 1 - alpha * np.sqrt(np.sum(labels == g)) / np.linalg.norm(c[labels == g]))
            for g in range(3)
        ]
    )
    model = StreamingGroupLasso(alpha=alpha, groups=labels, tol=1e-14).fit(Z, RESPONSE)
    close(model.coef_, expected, rtol=1e-6)
    assert 0 < np.count_nonzero(model.coef_) < 6


def test_group_lasso_of_two_weights_by_trying_all():
    Z, targets = MIXED[:20, :2] - MIXED[:20, :2].mean(axis=0), MIXED[:20, 0] - 0.2 * MIXED[:20, 1]
    axis = np.linspace(-1.5, 1.5, 601)
    w0, w1 = np.meshgrid(axis, axis, indexing="ij")
    residuals = (targets - targets.mean())[:, None, None] - Z[:, 0, None, None] * w0 - Z[:, 1, None, None] * w1
    values = np.mean(residuals**2, axis=0) / 2 + 0.3 * np.sqrt(2) * np.hypot(w0, w1)
    i, j = np.unravel_index(values.argmin(), values.shape)
    w = StreamingGroupLasso(alpha=0.3, groups=["x", "x"], tol=1e-10).fit(Z, targets).coef_
    close(w, np.array([axis[i], axis[j]]), 1.0, rtol=0.006)


def test_terms_of_an_input_feature_are_chosen_together():
    targets = np.sin(4 * X[:, 1]) + X[:, 3]
    model = StreamingGroupLasso(MAP, alpha=5e-3, tol=1e-8, max_iter=10**5).fit(X, targets)
    used = model.coef_.reshape(3, 6) != 0
    assert np.all(used == used[0])
    assert used[0, [1, 3]].all()
    assert not used.all()


def test_too_few_iterations_are_told_with_a_remedy():
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert StreamingGroupLasso(alpha=1e-3, max_iter=2, tol=1e-10).fit(MIXED, RESPONSE).n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert StreamingElasticNet(alpha=1e-3, max_iter=2, tol=1e-10).fit(MIXED, RESPONSE).n_iter_ == 2


@pytest.mark.parametrize("make", [StreamingElasticNet, StreamingGroupLasso])
def test_penalties_of_hardly_any_data(make):
    for rows in (MIXED[:1], np.ones((5, 6)), 1e8 + np.zeros((5, 6))):
        model = make(alpha=0.1).fit(rows, RESPONSE[: len(rows)])
        close(model.predict(rows), np.full(len(rows), RESPONSE[: len(rows)].mean()))
        assert not model.coef_.any()
    assert not make(alpha=0.1).fit(MIXED, np.full(90, 3.0)).coef_.any()


@pytest.mark.parametrize("make", [StreamingElasticNet, StreamingGroupLasso])
def test_penalties_take_no_rounding_for_data(make):
    exact = make(alpha=0.1, tol=1e-10).fit(MIXED, RESPONSE).predict(MIXED)
    close(make(alpha=0.1, tol=1e-10).fit(MIXED + 1e4, RESPONSE).predict(MIXED + 1e4), exact, rtol=1e-5)
    assert not make(alpha=0.1).fit(MIXED + 1e9, RESPONSE).coef_.any()


# State.


@every_model
def test_a_failed_update_leaves_the_model_as_it_was(model, targets):
    model = clone(model).set_params(feature_map=MAP).fit(X[:60], targets[:60])
    expected, before = scores(model, X), dict(vars(model))
    broken = X[60:].copy()
    broken[3, 3] = np.nan
    narrow = X[60:, :5]
    for rows, labels in (
        (broken, targets[60:]),
        (narrow, targets[60:]),
        (X[60:].astype(str) + "x", targets[60:]),
        (-X[60:], targets[60:]),
        (X[60:], targets[61:]),
        (X[60:], np.full(30, np.nan)),
        (X[60:], np.full((30, 3), np.inf)),
    ):
        for attempt in (model.partial_fit, model.fit) if rows is not narrow else (model.partial_fit,):
            with pytest.raises(ValueError, match=r"\w"):
                attempt(rows, labels)
            assert vars(model).keys() == before.keys()
            assert all(vars(model)[name] is before[name] for name in before)
    np.testing.assert_array_equal(scores(model, X), expected)


@every_model
def test_predictions_leave_the_model_alone_and_copies_predict_alike(model, targets):
    model = clone(model).set_params(feature_map=MAP).fit(X, targets)
    before = dict(vars(model))
    expected = scores(model, X)
    assert vars(model) == before
    twin = pickle.loads(pickle.dumps(model))
    alike(scores(twin, X), expected)
    for one in (model, twin):
        one.partial_fit(X[::2], targets[::2])
    alike(scores(twin, X), scores(model, X))
    assert not np.array_equal(scores(twin, X), expected)


def test_parameters_may_change_after_fit():
    model = StreamingRidge(alpha=0.1).fit(MIXED, RESPONSE)
    for options in (dict(alpha=3.0), dict(fit_intercept=False), dict(pca_components=2), dict(alpha="gcv")):
        model.set_params(**options)
        fresh = StreamingRidge(**model.get_params()).fit(MIXED, RESPONSE)
        alike(model.coef_, fresh.coef_)
    for make, others in (
        (StreamingElasticNet, dict(l1_ratio=0.4)),
        (StreamingGroupLasso, dict(groups=[1, 1, 2, 2, 3, 3])),
    ):
        model = make(alpha=0.3).fit(MIXED, RESPONSE)
        model.predict(MIXED)
        for options in (dict(alpha=0.1), dict(tol=1e-8), dict(fit_intercept=False), others):
            old = model.coef_
            model.set_params(**options)
            alike(model.coef_, make(**model.get_params()).fit(MIXED, RESPONSE).coef_)
            assert not np.array_equal(model.coef_, old)


def test_grid_search_reaches_the_feature_map():
    search = GridSearchCV(StreamingRidge(MAP), {"feature_map__n_terms": [1, 3], "alpha": [1e-3, 1.0]}, cv=3)
    assert search.fit(X, y).best_estimator_.coef_.size == 6 * search.best_params_["feature_map__n_terms"]


@every_model
def test_frames_keep_their_names(model, targets):
    frame = pd.DataFrame(X, columns=list("uvwxyz"))
    fitted = clone(model).set_params(feature_map=MAP).partial_fit(frame[:50], targets[:50])
    fitted.partial_fit(frame[50:], targets[50:])
    assert list(fitted.feature_names_in_) == list("uvwxyz")
    close(scores(fitted, frame), scores(in_chunks(fitted, targets, [slice(50), slice(50, None)]), X), rtol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        fitted.partial_fit(frame.rename(columns={"u": "other"}), targets)


@pytest.mark.parametrize(
    ("message", "act"),
    [
        ("only one class so far, 1.0; at least two", lambda: StreamingRidgeClassifier().fit(X, np.ones(90))),
        (
            "only one class so far, 'a'; at least two",
            lambda: StreamingRidgeClassifier().partial_fit(X, ["a"] * 90).predict(X),
        ),
        (
            "only one class so far, 3; at least two",
            lambda: StreamingRidgeClassifier().partial_fit(X, [3] * 90).predict(X),
        ),
        ("Unknown label type", lambda: StreamingRidgeClassifier().fit(X, y)),
        ("Unknown label type", lambda: StreamingRidgeClassifier().partial_fit(X, y)),
        ("labels are numbers", lambda: StreamingRidgeClassifier().fit(X, LABELS).partial_fit(X, BINARY)),
        ("finite weights >= 0", lambda: StreamingRidgeClassifier(class_weight={3: -1.0}).fit(X, BINARY)),
        ("pca_components=7 is more than the 6", lambda: StreamingRidge(pca_components=7).fit(X, y)),
        ("pca_components=19 is more than the 18", lambda: StreamingRidge(MAP, pca_components=19).fit(X, y)),
        (
            "pca_components=7 is more than the 6",
            lambda: StreamingRidgeClassifier().fit(X, LABELS).set_params(pca_components=7).predict(X),
        ),
        ("n_components=7 is more than the 6", lambda: StreamingPCA(7).fit(X)),
        ("n_components=5 is more than the 4", lambda: StreamingPCA(5).fit(X[:4])),
        ("There were 1 targets so far, now 2", lambda: StreamingRidge().fit(X, y).partial_fit(X, Y)),
        ("at least one non-zero number", lambda: StreamingRidge().fit(X, y, np.zeros(90))),
        ("no labeled samples", lambda: StreamingRidge().partial_fit(X, y, np.zeros(90)).predict(X)),
        ("no labeled samples", lambda: StreamingElasticNet().partial_fit(X, y, np.zeros(90)).predict(X)),
        ("not asked for", lambda: StreamingRidge(alpha=1.0).fit(X, y).set_params(alpha="loo").predict(X)),
        ("'alpha' parameter", lambda: StreamingRidge(alpha=-1.0).fit(X, y)),
        ("'alpha' parameter", lambda: StreamingElasticNet(alpha=0.0).fit(X, y)),
        ("makes 20 features of 6", lambda: StreamingGroupLasso(SkewedChi2Map(20)).fit(X, y)),
        ("groups has 5 labels, but there are 6", lambda: StreamingGroupLasso(groups=[1] * 5).fit(X, y)),
        ("Negative values", lambda: StreamingRidge(MAP).fit(-X, y)),
    ],
)
def test_refusals_are_one_clear_sentence(message, act):
    with pytest.raises(ValueError, match=message) as refusal:
        act()
    assert message.startswith("Unknown") or "\n" not in str(refusal.value)


def test_features_that_need_too_much_memory_are_refused(monkeypatch):
    monkeypatch.setattr("histogp.streaming._stream.MOST_STATISTICS_BYTES", 8 * 18**2 - 1)
    with pytest.raises(ValueError, match="statistics of 18 features would take"):
        StreamingRidge(MAP).fit(X, y)


def test_data_frames_as_features_and_parameters_that_change_after_fit():
    model = StreamingRidgeClassifier(clone(MAP).set_output(transform="pandas"), alpha=1e-3).fit(X, LABELS)
    expected = StreamingRidgeClassifier(MAP, alpha=1e-3).fit(X, LABELS).decision_function(X)
    np.testing.assert_allclose(model.decision_function(X), expected)
    for changed in ({"alpha": -1.0}, {"alpha": "best"}, {"pca_components": 0}):
        with pytest.raises(ValueError, match=next(iter(changed))):
            StreamingRidgeClassifier(alpha=1.0).fit(X, LABELS).set_params(**changed).predict(X)


def test_means_that_leave_few_digits_are_told():
    with pytest.warns(UserWarning, match="subtract their means"):
        StreamingRidge(alpha=1.0).fit(X + 1e6, y).predict(X)
