"""Streaming ridge regression with so many features that penalties are searched with factors."""

import numpy as np
import pytest
from oracles import alike, close, histograms
from scipy import sparse
from scipy.special import log_softmax
from sklearn import datasets
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import minmax_scale

import histogp
from histogp._core.least_squares.ridge import FactoredRidge
from histogp.feature_maps import AdditiveChi2Map, ExpChi2Sampler
from histogp.streaming import StreamingRidge, StreamingRidgeClassifier
from histogp.streaming import ridge_models as module

X = histograms(150, 12)
TEST = histograms(40, 12, seed=3)
CODES = X[:, 1:4].argmax(axis=1)
LABELS = np.array(["ash", "birch", "elm"])[CODES]
TARGETS = X[:, 1:3] * 3 + np.random.default_rng(0).normal(0, 0.05, (150, 2))
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2, 150)
MAPS = {"none": None, "additive": AdditiveChi2Map(n_terms=3), "waves": ExpChi2Sampler(40, random_state=0)}
by_map = pytest.mark.parametrize("feature_map", MAPS.values(), ids=MAPS)
by_alpha = pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence"])


@pytest.fixture
def factored(monkeypatch):
    """Makes a fitted model that searches with factors, unless that does not pay, and counts how often it was done."""
    used, factor = [], FactoredRidge._factor

    def counted(self, alpha):
        used.append(alpha)
        return factor(self, alpha)

    def work(model, *arguments, pays=True, **options):
        n_before = len(used)
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_DECOMPOSED_FEATURES", 5)
            patch.setattr(FactoredRidge, "_factor", counted)
            model.fit(*arguments, **options)
            _ = model.coef_
        assert (len(used) > n_before) == pays
        return model

    work.used = used
    return work


@pytest.mark.slow
@by_map
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_with_a_given_penalty_the_solution_is_the_same(alpha, fit_intercept, feature_map, factored):
    def make(cls):
        return cls(feature_map, alpha=alpha, fit_intercept=fit_intercept)

    for cls, y in (
        (StreamingRidgeClassifier, LABELS),
        (StreamingRidgeClassifier, CODES == 1),
        (StreamingRidge, TARGETS),
    ):
        expected, found = make(cls).fit(X, y, sample_weight=WEIGHTS), factored(make(cls), X, y, sample_weight=WEIGHTS)
        assert found.alpha_ == alpha
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(found.predict(TEST).shape, expected.predict(TEST).shape)
    assert len(factored.used) == 3


@by_map
@by_alpha
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_classifier_predicts_alike(class_weight, alpha, feature_map, factored):
    def make():
        return StreamingRidgeClassifier(feature_map, alpha=alpha, class_weight=class_weight, random_state=0)

    expected, found = make().fit(X, LABELS, sample_weight=WEIGHTS), factored(make(), X, LABELS, sample_weight=WEIGHTS)
    assert 3 < len(factored.used) < 40
    np.testing.assert_allclose(found.decision_function(TEST), expected.decision_function(TEST), atol=0.15)
    assert np.mean(found.predict(TEST) == expected.predict(TEST)) > 0.9
    fixed = StreamingRidgeClassifier(feature_map, alpha=found.alpha_, class_weight=class_weight)
    fixed.fit(X, LABELS, sample_weight=WEIGHTS)
    np.testing.assert_allclose(found.decision_function(TEST), fixed.decision_function(TEST), atol=1e-4)


@by_map
@by_alpha
def test_a_regression_predicts_alike(alpha, feature_map, factored):
    make = lambda: StreamingRidge(feature_map, alpha=alpha, random_state=0)  # noqa: E731
    expected, found = make().fit(X, TARGETS), factored(make(), X, TARGETS)
    assert 3 < len(factored.used) < 40
    np.testing.assert_allclose(found.predict(TEST), expected.predict(TEST), atol=0.05)


@by_alpha
@pytest.mark.parametrize("feature_map", [None, AdditiveChi2Map(n_terms=3)], ids=["none", "additive"])
@pytest.mark.parametrize("made", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows(alpha, feature_map, made, factored):
    make = lambda: StreamingRidgeClassifier(feature_map, alpha=alpha, random_state=0)  # noqa: E731
    dense, found = factored(make(), X, LABELS), factored(make(), made(X), LABELS)
    np.testing.assert_allclose(found.decision_function(made(TEST)), dense.decision_function(TEST), atol=1e-6)


@by_alpha
@pytest.mark.parametrize("unit", [0.01, 0.1, 1.0, 100.0])
def test_small_weights_of_all_rows_are_no_worse_than_without_factors(alpha, unit, factored):
    weights = unit * WEIGHTS
    make = lambda: StreamingRidge(MAPS["additive"], alpha=alpha, random_state=0)  # noqa: E731
    expected, found = make().fit(X, TARGETS, sample_weight=weights), factored(make(), X, TARGETS, sample_weight=weights)
    assert len(factored.used) > 3
    np.testing.assert_allclose(found.predict(TEST), expected.predict(TEST), atol=0.1)


def test_no_penalty_and_columns_that_occur_twice(factored):
    twice, test = np.hstack([X, X]), np.hstack([TEST, TEST])
    expected = StreamingRidge(alpha=0).fit(twice, TARGETS)
    found = factored(StreamingRidge(alpha=0), twice, TARGETS)
    np.testing.assert_allclose(found.predict(test), expected.predict(test), atol=1e-3)


def test_fewer_rows_than_features_or_components_do_without_factors(factored):
    factored(StreamingRidge(alpha="gcv"), X[:10], TARGETS[:10], pays=False)
    factored(StreamingRidge(alpha="gcv", pca_components=3), X, TARGETS, pays=False)
    assert factored.used == []


@pytest.mark.portable
def test_files_and_further_rows(factored, tmp_path):
    model = factored(StreamingRidgeClassifier(MAPS["waves"], random_state=0), X[:100], LABELS[:100])
    model.save(tmp_path / "m")
    loaded = histogp.load(tmp_path / "m")
    for one in (model, loaded):
        one.partial_fit(X[100:], LABELS[100:])
    alike(loaded.decision_function(TEST), model.decision_function(TEST))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_penalty_of_the_smallest_left_out_logarithmic_loss(n_classes):
    rng = np.random.default_rng(0)
    X = rng.random((80, 6))
    y = np.argmax(X[:, :n_classes] + 0.3 * rng.random((80, n_classes)), axis=1)
    model = StreamingRidgeClassifier(alpha="loo-log", n_left_out=80, random_state=0).fit(X, y)
    targets = 2.0 * np.eye(n_classes)[y] - 1
    Z = np.hstack([X - X.mean(axis=0), np.ones((80, 1))])

    def loss(alpha):
        hat = Z @ np.linalg.solve(Z.T @ Z + alpha * np.diag([1.0] * 6 + [0.0]), Z.T)
        scores = targets - (targets - hat @ targets) / (1 - hat.diagonal())[:, None]
        factors = np.logspace(-2, 3, 2000)
        shares = log_softmax(factors[:, None, None] * scores, axis=2)[:, np.arange(80), y]
        return -shares.mean(axis=1).max()

    best = min(loss(alpha) for alpha in np.logspace(-6, 3, 100))
    assert loss(model.alpha_) < best + 0.01
    with pytest.raises(ValueError, match="alpha"):
        StreamingRidge(alpha="loo-log").fit(X, y)


# The default criterion.


@pytest.mark.parametrize(("make", "y"), [(StreamingRidge, TARGETS), (StreamingRidgeClassifier, LABELS)])
def test_with_as_many_features_as_samples_the_default_is_evidence(make, y):
    for n_samples, options, criterion in (
        (6, {}, "evidence"),
        (12, {}, "evidence"),
        (13, {}, "loo"),
        (12, {"pca_components": 11}, "loo"),
        (36, {"feature_map": MAPS["additive"]}, "evidence"),
        (37, {"feature_map": MAPS["additive"]}, "loo"),
        (40, {"feature_map": MAPS["waves"]}, "evidence"),
        (41, {"feature_map": MAPS["waves"]}, "loo"),
        (40, {"feature_map": MAPS["waves"], "pca_components": 40}, "evidence"),
        (40, {"feature_map": MAPS["waves"], "pca_components": 39}, "loo"),
    ):
        default, named = (
            make(alpha=alpha, **options).fit(X[:n_samples], y[:n_samples]) for alpha in ("auto", criterion)
        )
        assert default.criterion_ == named.criterion_ == criterion
        assert default.alpha_ == named.alpha_
        np.testing.assert_array_equal(default.predict(TEST), named.predict(TEST))
    assert make().alpha == "auto"
    assert make(alpha=0.5).fit(X, y).criterion_ is None
    assert make(alpha="gcv").fit(X, y).criterion_ == "gcv"


def test_the_default_criterion_follows_the_samples_so_far():
    model = StreamingRidge()
    for begin, end, criterion in ((0, 5, "evidence"), (5, 12, "evidence"), (12, 13, "loo"), (13, 150, "loo")):
        model.partial_fit(X[begin:end], TARGETS[begin:end])
        assert model.criterion_ == criterion
        assert model.alpha_ == pytest.approx(StreamingRidge().fit(X[:end], TARGETS[:end]).alpha_, rel=1e-6)


def test_weights_count_like_repeated_samples_for_the_default_criterion():
    for times, criterion in ((np.full(7, 1), "evidence"), (np.full(7, 2), "loo"), (np.arange(7) % 2, "evidence")):
        weighted = StreamingRidge().fit(X[:7], TARGETS[:7], times)
        repeated = StreamingRidge().fit(X[:7].repeat(times, axis=0), TARGETS[:7].repeat(times, axis=0))
        assert weighted.criterion_ == repeated.criterion_ == criterion
        close(weighted.predict(TEST), repeated.predict(TEST), rtol=1e-6)


@pytest.mark.parametrize("n_samples", [10, 60])
def test_weights_that_sum_to_one_leave_the_default_as_it_is(n_samples):
    rows, targets = X[:n_samples], TARGETS[:n_samples]
    expected = StreamingRidge().fit(rows, targets)
    found = StreamingRidge().fit(rows, targets, np.full(n_samples, 1 / n_samples))
    assert found.criterion_ == expected.criterion_
    close(found.predict(TEST), expected.predict(TEST), rtol=1e-6)


def test_samples_to_leave_out_are_needed_only_where_they_are_left_out():
    model = StreamingRidge(alpha=1.0).fit(X[:12], TARGETS[:12]).set_params(alpha="auto")
    assert model.criterion_ == "evidence"
    model = StreamingRidge(alpha=1.0).fit(X, TARGETS).set_params(alpha="auto")
    with pytest.raises(ValueError, match="need some of the samples, which were not asked for"):
        model.predict(TEST)


def split(load, n_train):
    """Some training samples of a data set of scikit-learn, with features between 0 and 1, and the others."""
    X, y = load(return_X_y=True)
    return train_test_split(minmax_scale(X), y, train_size=n_train, random_state=0)


@pytest.mark.parametrize(
    "load", [datasets.load_digits, datasets.load_wine, datasets.load_breast_cancer, datasets.load_diabetes]
)
def test_penalties_for_more_random_features_than_samples_are_sensible(load):
    """By whatever criterion: about as good for other samples as the best penalty for these."""
    rows, test, y, y_test = split(load, 100)
    make = StreamingRidge if load is datasets.load_diabetes else StreamingRidgeClassifier
    waves = ExpChi2Sampler(300)
    best = max(make(waves, alpha=alpha).fit(rows, y).score(test, y_test) for alpha in np.logspace(-5, 2, 15))
    for alpha in ("auto", "loo", "gcv", "evidence"):
        model = make(waves, alpha=alpha).fit(rows, y)
        assert model.score(test, y_test) > best - 0.02
        assert model.alpha_ > 1e-3
