"""Streaming estimators with blocks: against the same ones with features made beforehand, and dense formulas."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from oracles import alike, close, histograms
from scipy import sparse
from sklearn import linear_model
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator

from histogp._core.least_squares.ridge import FactoredRidge
from histogp.feature_maps import AdditiveChi2Map, BlockMap, ExpChi2Sampler
from histogp.streaming import StreamingGroupLasso, StreamingRidge, StreamingRidgeClassifier

RNG = np.random.default_rng(0)
X = histograms(90, 6)
TEST = histograms(30, 6, seed=1)
Y = X @ RNG.standard_normal((6, 2)) + 0.02 * RNG.standard_normal((90, 2)) + 1
y = Y[:, 0]
LABELS = np.array(["b", "a", "c"])[np.argsort(np.argsort(X @ RNG.standard_normal(6))) // 40]
ROW_WEIGHTS = RNG.random(90) * (RNG.random(90) < 0.8)
NAMES = list("uvwxyz")
FRAME = pd.DataFrame(X, columns=NAMES)
CHI2 = AdditiveChi2Map(n_terms=3, points="greedy")
WAVES = ExpChi2Sampler(10, random_state=0)
BLOCKS = [("terms", CHI2, slice(0, 3)), ("same", None, [5, 3]), ("waves", WAVES, slice(None))]
BLOCK_OF = np.repeat([0, 1, 2], [9, 2, 10])
RANDOM = [("a", ExpChi2Sampler(20, random_state=0), slice(0, 3)), ("b", ExpChi2Sampler(10, random_state=1), [3, 4, 5])]
SOME = {"n_left_out": 40, "random_state": 0}
MODELS = [
    *((StreamingRidge(alpha=alpha, **SOME), Y) for alpha in (1e-3, "loo", "gcv", "evidence")),
    (StreamingRidge(alpha=1e-3, fit_intercept=False), y),
    (StreamingRidge(alpha="loo", pca_components=6, **SOME), y),
    *((StreamingRidgeClassifier(alpha=alpha, **SOME), LABELS) for alpha in (1e-3, "loo", "gcv", "evidence")),
    (StreamingRidgeClassifier(alpha=1e-3, class_weight="balanced", **SOME), LABELS),
    (StreamingRidgeClassifier(alpha="loo", equal_rank=30, **SOME), LABELS),
    (StreamingRidgeClassifier(alpha="loo", **SOME), LABELS == "a"),
]
every_model = pytest.mark.parametrize(
    ("model", "targets"), MODELS, ids=lambda value: "" if isinstance(value, np.ndarray) else str(value)
)


def by_blocks(rows, fitted_to=X):
    """The features of each block, in double precision."""
    columns = (np.arange(3), np.array([5, 3]), np.arange(6))
    return [
        rows[:, own] if map_ is None else clone(map_).fit(fitted_to[:, own]).transform(rows[:, own])
        for map_, own in zip((CHI2, None, WAVES), columns, strict=True)
    ]


def features(rows, fitted_to=X):
    return np.hstack(by_blocks(rows, fitted_to))


def scores(model, rows):
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, [2.0, 0.5, 0.0]], ids=str)
@every_model
def test_blocks_are_features_times_the_roots_of_their_weights(model, targets, weights):
    factors = np.ones(21) if weights is None else np.sqrt(np.asarray(weights, float))[BLOCK_OF]
    ours = clone(model).set_params(blocks=BLOCKS, block_weights=weights).fit(X, targets, ROW_WEIGHTS)
    plain = clone(model).fit(features(X) * factors, targets, ROW_WEIGHTS)
    assert ours.alpha_ == pytest.approx(plain.alpha_, rel=1e-6)
    close(scores(ours, TEST), scores(plain, features(TEST) * factors), rtol=1e-6)
    close(ours.coef_, plain.coef_ * factors, rtol=1e-5)
    close(ours.intercept_, plain.intercept_, np.abs(plain.intercept_).max(), rtol=1e-6)
    if weights is None:
        assert ours.block_weights_ is None
    else:
        np.testing.assert_array_equal(ours.block_weights_, weights)


@pytest.mark.slow
@every_model
def test_chunks_give_the_model_of_one_fit(model, targets):
    model = clone(model).set_params(blocks=BLOCKS, block_weights=[1.0, 2.0, 0.5], n_left_out=90)
    once = clone(model).partial_fit(X[:40], targets[:40]).partial_fit(X[40:], targets[40:])
    many = clone(model).partial_fit(X[:40], targets[:40])
    for rows in np.split(np.arange(40, 90), [1, 20]):
        many.partial_fit(X[rows], targets[rows])
    close(scores(many, TEST), scores(once, TEST), rtol=1e-8)
    assert many.alpha_ == pytest.approx(once.alpha_, rel=1e-8)
    assert many.n_samples_seen_ == 90


def test_unlabeled_rows_have_a_say_in_components_of_weighted_features():
    factors = np.sqrt([3.0, 1.0, 0.2])[BLOCK_OF]
    ours = StreamingRidge(alpha=1e-3, pca_components=4, blocks=BLOCKS, block_weights=[3.0, 1.0, 0.2])
    ours.fit(X, y).add_unlabeled(TEST)
    pca = PCA(4, svd_solver="full").fit(features(np.vstack([X, TEST])) * factors)
    projected = pca.transform(features(X) * factors)
    expected = linear_model.Ridge(alpha=1e-3, solver="svd").fit(projected, y).predict(projected)
    close(ours.predict(X), expected, rtol=1e-7)


@every_model
def test_weights_by_evidence_are_those_that_could_be_given(model, targets):
    found = clone(model).set_params(blocks=BLOCKS, block_weights="evidence").fit(X, targets)
    weights = found.block_weights_
    assert weights.shape == (3,)
    assert np.all(weights >= 0)
    assert weights.mean() == pytest.approx(1)
    given = clone(model).set_params(blocks=BLOCKS, block_weights=weights).fit(X, targets)
    alike(scores(given, TEST), scores(found, TEST))


@pytest.mark.portable
def test_weights_may_change_after_fit():
    model = StreamingRidge(alpha=1e-3, blocks=BLOCKS).fit(X, y)
    for weights in ([1, 2, 3], np.array([1, 2, 4.0]), np.array([1, 2, 4 + 1e-9]), None, "evidence", (1, 2, 3)):
        model.set_params(block_weights=weights)
        fresh = clone(model).fit(X, y)
        alike(model.predict(TEST), fresh.predict(TEST))


def test_a_block_without_use_counts_less_by_evidence():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((200, 20))
    targets = rows[:, :5] @ rng.standard_normal(5) + 0.3 * rng.standard_normal(200)
    blocks = [("useful", None, slice(0, 5)), ("noise", None, slice(5, None))]
    weights = StreamingRidge(blocks=blocks, block_weights="evidence").fit(rows, targets).block_weights_
    assert weights[1] < 0.01 * weights[0]


@pytest.mark.parametrize("alpha", [1e-3, "loo", "evidence"])
@pytest.mark.parametrize("value", [0.0, 0.3])
def test_weights_by_evidence_with_a_block_that_does_not_vary(value, alpha):
    rows = X.copy()
    rows[:, 5] = value
    blocks = [("some", None, slice(0, 3)), ("more", None, [3, 4]), ("constant", None, [5])]
    model = StreamingRidge(blocks=blocks, block_weights="evidence", alpha=alpha).fit(rows, y)
    without = StreamingRidge(blocks=blocks[:2], block_weights="evidence", alpha=alpha).fit(rows, y)
    assert np.all(np.isfinite(model.block_weights_))
    ratios = model.block_weights_[1] / model.block_weights_[0], without.block_weights_[1] / without.block_weights_[0]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-3)
    if alpha != 1e-3:  # a given penalty is one in units of weights
        close(model.predict(rows), without.predict(rows), rtol=1e-3)


# Two stages.


def projected(rows, fitted_to, all_rows, n_components):
    """Components of each block, of the features of all rows."""
    return np.hstack(
        [
            PCA(min(n_components, Z.shape[1]), svd_solver="full").fit(Z).transform(own)
            for Z, own in zip(by_blocks(all_rows, fitted_to), by_blocks(rows, fitted_to), strict=True)
        ]
    )


def test_two_stages_in_one_fit():
    model = StreamingRidge(alpha=1e-2, blocks=BLOCKS, block_components=3, pca_components=5).fit(X, y)
    first = projected(X, X, X, 3)
    second = PCA(5, svd_solver="full").fit(first)
    theirs = linear_model.Ridge(alpha=1e-2, solver="svd").fit(second.transform(first), y)
    close(model.predict(TEST), theirs.predict(second.transform(projected(TEST, X, X, 3))), rtol=1e-6)
    assert model.coef_.shape == (8,)


@pytest.mark.parametrize("weights", [None, [2.0, 1.0, 0.1]])
def test_two_stages_over_chunks(weights):
    chunks = np.split(np.arange(90), [30, 31, 70])
    first = BlockMap(BLOCKS, pca_components=3)
    for rows in chunks:
        first.partial_fit(X[rows])
    frozen = FrozenEstimator(first)
    model = StreamingRidge(frozen, alpha=1e-2, pca_components=5, block_weights=weights)
    clf = StreamingRidgeClassifier(frozen, alpha=1e-2, block_weights=weights)
    for rows in chunks:
        model.partial_fit(X[rows], Y[rows])
        clf.partial_fit(X[rows], LABELS[rows])
    factors = 1.0 if weights is None else np.sqrt(weights)[np.repeat([0, 1, 2], [3, 2, 3])]
    Z, Z_test = (projected(rows, X[:30], X, 3) * factors for rows in (X, TEST))
    pca = PCA(5, svd_solver="full").fit(Z)
    theirs = linear_model.Ridge(alpha=1e-2, solver="svd").fit(pca.transform(Z), Y)
    close(model.predict(TEST), theirs.predict(pca.transform(Z_test)), rtol=1e-6)
    theirs = linear_model.RidgeClassifier(alpha=1e-2, solver="svd").fit(Z, LABELS)
    close(clf.decision_function(TEST), theirs.decision_function(Z_test), rtol=1e-6)
    close(clf.coef_, theirs.coef_ * factors * np.sign(np.sum(clf.coef_ * theirs.coef_, axis=0)), rtol=1e-5)


def test_two_stages_over_chunks_by_names():
    named = [("terms", CHI2, NAMES[:3]), ("same", None, ["z", "x"])]
    numbered = [("terms", CHI2, slice(0, 3)), ("same", None, [5, 3])]
    expected, found = (
        FrozenEstimator(BlockMap(blocks, pca_components=2).partial_fit(rows[:40]).partial_fit(rows[40:]))
        for blocks, rows in ((numbered, X), (named, FRAME))
    )
    ours = StreamingRidge(found, alpha=1e-3).fit(FRAME, y)
    close(ours.predict(FRAME), StreamingRidge(expected, alpha=1e-3).fit(X, y).predict(X), rtol=1e-9)
    assert list(found.estimator.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="feature names"):
        StreamingRidge(found, alpha=1e-3).fit(FRAME[NAMES[::-1]], y)


@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("model", [StreamingRidge(), StreamingRidgeClassifier()])
def test_prediction_does_not_project(model, made, monkeypatch):
    model = clone(model).set_params(alpha=1e-2, blocks=BLOCKS, block_components=3, chunk_bytes=500)
    targets = LABELS if hasattr(model, "decision_function") else y
    model.fit(X, targets)
    first = BlockMap(BLOCKS, pca_components=3).fit(X)
    expected = np.squeeze(first.transform(TEST) @ model.coef_.T + model.intercept_)
    model.coef_  # noqa: B018, before it is forbidden to project

    def forbidden(self, X):
        raise AssertionError

    monkeypatch.setattr(BlockMap, "transform", forbidden)
    close(scores(model, made(TEST)), expected, rtol=1e-5)


class Recording(TransformerMixin, BaseEstimator):
    seen = []  # noqa: RUF012

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        self.seen.append(X.shape[0])
        return np.hstack([X, X**2])

    def get_feature_names_out(self, input_features=None):
        return np.arange(12).astype(str)


@pytest.mark.parametrize("n_components", [None, 2])
def test_memory_for_features_is_bounded(n_components):
    model = StreamingRidge(
        alpha=1.0, blocks=[("a", Recording(), slice(None))], block_components=n_components, chunk_bytes=8 * 12 * 7
    )
    Recording.seen.clear()
    model.fit(X, y).predict(X)
    assert max(Recording.seen) == 7


# Names.


@pytest.mark.portable
@pytest.mark.slow
@pytest.mark.parametrize(
    "frame",
    [FRAME, pl.DataFrame(X, schema=NAMES), FRAME.astype("float32")],
    ids=["pandas", "polars", "single"],
)
@pytest.mark.parametrize("n_components", [None, 2])
def test_columns_by_name(frame, n_components):
    blocks = [("terms", CHI2, ["u", "v", "w"]), ("same", None, np.array(["z", "x"])), ("one", WAVES, "y")]
    numbered = [("terms", CHI2, [0, 1, 2]), ("same", None, [5, 3]), ("one", WAVES, [4])]
    rows = np.asarray(frame)
    ours, theirs = (
        StreamingRidgeClassifier(alpha=1e-3, blocks=own, block_components=n_components)
        .partial_fit(data[:50], LABELS[:50])
        .partial_fit(data[50:], LABELS[50:])
        for own, data in ((blocks, frame), (numbered, rows))
    )
    alike(scores(ours, frame), scores(theirs, rows))
    with pytest.raises(ValueError, match="feature names"):
        ours.predict(frame[NAMES[::-1]])
    lasso = StreamingGroupLasso(blocks=blocks, alpha=1e-3).fit(frame, y)
    alike(lasso.coef_, StreamingGroupLasso(blocks=numbered, alpha=1e-3).fit(rows, y).coef_)


@pytest.mark.portable
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (slice(1, 4), [1, 2, 3]),
        (slice(None), range(6)),
        (slice(None, None, 2), [0, 2, 4]),
        ([-1, 2], [5, 2]),
        (3, [3]),
        (np.int64(3), [3]),
        ([True, False, True, False, False, False], [0, 2]),
        (np.arange(6) > 3, [4, 5]),
        ("w", [2]),
        (slice("v", "x"), [1, 2, 3]),
        (pd.Index(["x", "u"]), [3, 0]),
    ],
    ids=str,
)
def test_columns_of_any_kind_of_data_with_names(columns, expected):
    blocks = [("own", CHI2, columns), ("rest", None, [0, 5])]
    ours = StreamingRidge(alpha=1e-3, blocks=blocks).fit(FRAME, y)
    theirs = StreamingRidge(alpha=1e-3, blocks=[("own", CHI2, list(expected)), ("rest", None, [0, 5])]).fit(X, y)
    alike(ours.predict(FRAME), theirs.predict(X))


# State.


@pytest.mark.portable
@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize(("model", "targets"), [MODELS[1], MODELS[-2]], ids=["regressor", "classifier"])
def test_copies_predict_and_learn_alike(model, targets, n_components):
    model = clone(model).set_params(blocks=BLOCKS, block_components=n_components, block_weights=[1, 2, 3])
    model.fit(X, targets)
    expected = scores(model, TEST)
    twin = pickle.loads(pickle.dumps(model))
    alike(scores(twin, TEST), expected)
    for one in (model, twin):
        one.partial_fit(X[::2], targets[::2])
    alike(scores(twin, TEST), scores(model, TEST))
    alike(scores(clone(model).fit(X, targets), TEST), expected)


def test_given_maps_are_left_alone():
    given = clone(CHI2)
    StreamingRidge(blocks=[("a", given, slice(None))], alpha=1.0).fit(X, y)
    assert not hasattr(given, "points_")


# Precision.


@pytest.mark.parametrize("n_components", [None, 4])
def test_random_features_are_the_same_in_both_precisions(n_components):
    parts = [(clone(map_).fit(X[:, columns]), columns) for _, map_, columns in RANDOM]
    Z, Z_test = (np.hstack([map_.transform(rows[:, own]) for map_, own in parts]) for rows in (X, TEST))
    options = dict(alpha=1e-1, blocks=RANDOM, block_components=n_components)
    for make, targets in ((StreamingRidge, y), (StreamingRidgeClassifier, LABELS)):
        double, single = (make(**options).fit(X.astype(dtype), targets) for dtype in (np.float64, np.float32))
        assert scores(double, TEST).dtype == np.float64
        assert scores(double, TEST.astype(np.float32)).dtype == np.float32
        close(scores(double, TEST), scores(single, TEST.astype(np.float32)), rtol=1e-3)
        gram = double._learned.parts[0].gram
        assert gram.dtype == np.float64
        if n_components is None:
            close(gram, Z.T @ Z, rtol=1e-5)
            close(scores(double, TEST), scores(make(alpha=1e-1).fit(Z, targets), Z_test), rtol=1e-3)


@pytest.mark.parametrize("other", [CHI2, None])
def test_one_exact_map_makes_all_statistics_double(other):
    blocks = [RANDOM[0], ("b", other, [3, 4, 5])]
    model = StreamingRidge(alpha=1e-3, blocks=blocks).fit(X, y)
    Z = BlockMap(blocks).fit(X).transform(X)
    assert Z.dtype == np.float64
    close(model._learned.parts[0].gram, Z.T @ Z, rtol=1e-13)
    single = X.astype(np.float32)
    from_single = StreamingRidge(alpha=1e-3, blocks=blocks).fit(single, y)._learned
    Z = from_single.feature_map.transform(single.astype(np.float64))
    close(from_single.parts[0].gram, Z.T @ Z, rtol=1e-13)


# Groups.


def test_group_lasso_zeroes_whole_blocks():
    rng = np.random.default_rng(1)
    rows = rng.random((120, 6))
    targets = np.sin(3 * rows[:, 0]) + rows[:, 5]
    blocks = [("a", CHI2, [0, 1]), ("b", CHI2, [2, 3]), ("c", None, [4, 5]), ("d", None, [2, 3])]
    options = dict(alpha=0.01, tol=1e-10, max_iter=10**5)
    ours = StreamingGroupLasso(blocks=blocks, **options).partial_fit(rows[:60], targets[:60])
    ours.partial_fit(rows[60:], targets[60:])
    block_of = np.repeat([0, 1, 2, 3], [6, 6, 2, 2])
    assert [ours.coef_[block_of == k].any() for k in range(4)] == [True, False, True, False]
    assert ours.coef_[block_of == 0].all()
    Z = BlockMap(blocks).fit(rows[:60]).transform(rows)
    theirs = StreamingGroupLasso(groups=block_of, **options).fit(Z, targets)
    close(ours.coef_, theirs.coef_, rtol=1e-4)
    close(ours.predict(rows), theirs.predict(Z), rtol=1e-6)
    mapped = StreamingGroupLasso(BlockMap(blocks), **options).partial_fit(rows[:60], targets[:60])
    close(mapped.partial_fit(rows[60:], targets[60:]).coef_, ours.coef_, rtol=1e-6)


@pytest.mark.portable
def test_group_lasso_takes_a_map_of_blocks_of_any_width():
    blocks = [("a", CHI2, slice(0, 3)), ("b", None, [3])]
    ours, theirs = StreamingGroupLasso(BlockMap(blocks), alpha=0.01), StreamingGroupLasso(blocks=blocks, alpha=0.01)
    alike(ours.fit(X, y).coef_, theirs.fit(X, y).coef_)


# Refusals.


@pytest.mark.parametrize(
    ("message", "act"),
    [
        ("Give either a feature_map or blocks, not both.", lambda: StreamingRidge(CHI2, blocks=BLOCKS).fit(X, y)),
        (
            "Give either a feature_map or blocks, not both.",
            lambda: StreamingRidgeClassifier(CHI2, blocks=BLOCKS).fit(X, LABELS),
        ),
        ("Give either a feature_map or blocks, not both.", lambda: StreamingGroupLasso(CHI2, blocks=BLOCKS).fit(X, y)),
        (
            "Give either groups or blocks, which are groups already.",
            lambda: StreamingGroupLasso(blocks=BLOCKS, groups=[1] * 6).fit(X, y),
        ),
        (
            "Give either groups or blocks, which are groups already.",
            lambda: StreamingGroupLasso(BlockMap(BLOCKS), groups=[1] * 6).fit(X, y),
        ),
        ("block_components=2 needs blocks=...; got blocks=None.", lambda: StreamingRidge(block_components=2).fit(X, y)),
        (
            "block_components=2 needs blocks=...; got blocks=None.",
            lambda: StreamingRidge(CHI2, block_components=2).fit(X, y),
        ),
        (
            "block_weights needs blocks=... or a BlockMap as feature_map; got blocks=None.",
            lambda: StreamingRidge(block_weights=[1.0]).fit(X, y).predict(X),
        ),
        (
            "block_weights needs blocks=... or a BlockMap as feature_map; got blocks=None.",
            lambda: StreamingRidge(CHI2, block_weights="evidence").fit(X, y).coef_,
        ),
        ("block_weights must be 3 numbers that are not negative.", lambda: weighted([1.0, 2.0])),
        ("block_weights must be 3 numbers that are not negative.", lambda: weighted([1.0, 2.0, -1.0])),
        ("block_weights must be 3 numbers that are not negative.", lambda: weighted([1.0, 2.0, np.nan])),
        ("block_weights must be 3 numbers that are not negative.", lambda: weighted([1.0, 2.0, np.inf])),
        ("block_weights must be 3 numbers that are not negative.", lambda: weighted([[1.0, 2.0, 3.0]])),
        ("block_weights must be 3 numbers that are not negative.", lambda: weighted(["a", "b", "c"])),
        ("block_weights must be 3 numbers that are not negative.", lambda: weighted([1.0, None, 2.0])),
        ("'block_weights' parameter", lambda: weighted("likelihood")),
        ("'block_weights' parameter", lambda: weighted(2.0)),
        ("'block_components' parameter", lambda: StreamingRidge(blocks=BLOCKS, block_components=0).fit(X, y)),
        ("'blocks' parameter", lambda: StreamingRidge(blocks={"a": CHI2}).fit(X, y)),
        ("blocks must be tuples", lambda: StreamingRidge(blocks=[]).fit(X, y)),
        ("blocks must be tuples", lambda: StreamingGroupLasso(blocks=[("a", CHI2)]).fit(X, y)),
        ("names of blocks must differ", lambda: StreamingRidge(blocks=[BLOCKS[0], BLOCKS[0]]).fit(X, y)),
        ("block 'a' must be a transformer or None", lambda: StreamingRidge(blocks=[("a", 3, [0])]).fit(X, y)),
        ("columns of the block 'a' do not fit", lambda: StreamingRidge(blocks=[("a", CHI2, [6])]).fit(X, y)),
        ("columns of the block 'a' do not fit", lambda: StreamingRidge(blocks=[("a", CHI2, ["u"])]).fit(X, y)),
        ("columns of the block 'a' do not fit", lambda: StreamingRidge(blocks=[("a", CHI2, None)]).fit(FRAME, y)),
        ("columns of the block 'a' do not fit", lambda: StreamingRidge(blocks=[("a", CHI2, len)]).fit(FRAME, y)),
        ("columns of the block 'a' do not fit", lambda: StreamingRidge(blocks=[("a", CHI2, ["u", 1])]).fit(FRAME, y)),
        ("The block 'a' has no columns", lambda: StreamingRidge(blocks=[("a", CHI2, [])]).fit(FRAME, y)),
        ("wants a column 'q', which the data", lambda: StreamingRidge(blocks=[("a", CHI2, ["u", "q"])]).fit(FRAME, y)),
        ("'n_components' parameter", lambda: StreamingRidge(blocks=[("a", ExpChi2Sampler(0), [0])]).fit(X, y)),
        ("Negative values", lambda: StreamingRidge(blocks=BLOCKS).fit(-X, y)),
        ("equal_rank=91 is more than the 90 samples so far", lambda: ranked(91)),
        ("equal_rank=91 is more than the 90 samples so far", lambda: ranked(91, n_left_out=20)),
        ("'equal_rank' parameter", lambda: ranked(0)),
        ("'equal_rank' parameter", lambda: ranked(2.5)),
        (
            "equal_rank need some of the samples, which were not asked for",
            lambda: StreamingRidgeClassifier(alpha=1.0).fit(X, LABELS).set_params(equal_rank=5).predict(X),
        ),
    ],
)
def test_refusals_are_one_clear_sentence(message, act):
    with pytest.raises(ValueError, match=message) as refusal:
        act()
    assert "\n" not in str(refusal.value)


def weighted(weights):
    return StreamingRidge(alpha=1.0, blocks=BLOCKS, block_weights=weights).fit(X, y).predict(X)


def ranked(rank, **options):
    return StreamingRidgeClassifier(alpha=1.0, equal_rank=rank, **options).fit(X, LABELS).predict(X)


# Equal ranks.


@pytest.fixture
def with_factors(request, monkeypatch):
    """Whether penalties are searched with factors, as with very many features; that this was done is checked."""
    used, factor = [], FactoredRidge._factor
    monkeypatch.setattr(FactoredRidge, "_factor", lambda self, alpha: used.append(alpha) or factor(self, alpha))
    if request.param:
        monkeypatch.setattr("histogp.streaming.ridge_models.MOST_DECOMPOSED_FEATURES", 0)
    yield
    assert bool(used) == request.param


def left_out_scores(Z, some, alpha, weights, units):
    """The scores of some rows, each by a model of all others."""
    found = []
    for i in some:
        others = weights - units * (np.arange(len(Z)) == i)
        theirs = linear_model.Ridge(alpha=alpha, solver="svd").fit(
            Z, 2.0 * (LABELS[:, None] == list("abc")) - 1, others
        )
        found.append(theirs.predict(Z[[i]])[0])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("with_factors", [False, True], indirect=True)
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("rank", [1, 20, 90])
def test_left_out_scores_of_a_rank_are_equal(rank, class_weight, with_factors):
    options = dict(alpha=0.1, n_left_out=90, class_weight=class_weight)
    before = StreamingRidgeClassifier(**options).fit(X, LABELS)
    after = StreamingRidgeClassifier(equal_rank=rank, **options)
    for rows in np.split(RNG.permutation(90), [40, 41]):
        after.partial_fit(X[rows], LABELS[rows])
    offsets = after.intercept_ - before.intercept_
    close(after.coef_, before.coef_, rtol=1e-9)
    close(after.decision_function(TEST), before.decision_function(TEST) + offsets, rtol=1e-9)
    assert abs(offsets.sum()) < 1e-9
    assert np.abs(offsets).max() > 1e-3
    counts = {label: np.sum(label == LABELS) for label in "abc"}
    weights = np.array([30 / counts[label] if class_weight else 1.0 for label in LABELS])
    moved = left_out_scores(X, range(90), 0.1, weights, weights) + offsets
    heights = np.sort(moved, axis=0)[::-1][rank - 1]
    close(heights, np.full(3, heights.mean()), 1.0, rtol=1e-8)


def test_the_rank_in_a_sample_is_in_proportion():
    options = dict(alpha=0.1, blocks=BLOCKS, block_weights=[1.0, 2.0, 3.0], n_left_out=30, random_state=0)
    before = StreamingRidgeClassifier(**options).fit(X, LABELS)
    after = StreamingRidgeClassifier(equal_rank=21, **options).fit(X, LABELS)
    sample = after._learned.sample
    assert len(sample.X) == 30
    # Rows may be equal, but for their labels.
    own = [
        np.all(row == X, axis=1) & ("abc"[k] == LABELS)
        for row, k in zip(sample.X, sample.targets.argmax(axis=1), strict=True)
    ]
    some = [int(np.flatnonzero(one)[0]) for one in own]
    Z = features(X) * np.sqrt([1.0, 2.0, 3.0])[BLOCK_OF]
    moved = left_out_scores(Z, some, 0.1, np.ones(90), np.ones(90)) + after.intercept_ - before.intercept_
    heights = np.sort(moved, axis=0)[::-1][6]
    close(heights, np.full(3, heights.mean()), 1.0, rtol=1e-5)


def test_two_classes_have_nothing_to_move():
    plain, ranked = (StreamingRidgeClassifier(alpha=0.1, equal_rank=rank).fit(X, LABELS == "a") for rank in (None, 30))
    alike(ranked.decision_function(X), plain.decision_function(X))
    # Until there is a third.
    ranked = StreamingRidgeClassifier(alpha=0.1, equal_rank=30)
    for label in "abc":
        ranked.partial_fit(X[label == LABELS], LABELS[label == LABELS])
    once = StreamingRidgeClassifier(alpha=0.1, equal_rank=30).fit(X, LABELS)
    close(ranked.decision_function(TEST), once.decision_function(TEST), rtol=1e-9)


def test_rare_classes_are_predicted_more_often():
    labels = np.where(X[:, 1] > np.quantile(X[:, 1], 0.93), "rare", LABELS)
    plain, ranked = (StreamingRidgeClassifier(alpha=1.0, equal_rank=rank).fit(X, labels) for rank in (None, 10))
    assert np.sum(ranked.predict(X) == "rare") > np.sum(plain.predict(X) == "rare")


def test_ranks_may_change_after_fit():
    model = StreamingRidgeClassifier(alpha=0.1, equal_rank=5, random_state=0).fit(X, LABELS)
    for rank in (40, None, 5):
        model.set_params(equal_rank=rank)
        fresh = clone(model).fit(X, LABELS)
        np.testing.assert_array_equal(model.predict(TEST), fresh.predict(TEST))
        np.testing.assert_allclose(model.intercept_, fresh.intercept_)


def test_rows_of_no_weight_do_not_count_in_ranks():
    weights = np.arange(90) % 3 > 0
    options = dict(alpha=0.1, n_left_out=90, equal_rank=20)
    weighted = StreamingRidgeClassifier(**options).fit(X, LABELS, weights.astype(float))
    fewer = StreamingRidgeClassifier(**options).fit(X[weights], LABELS[weights])
    close(weighted.intercept_, fewer.intercept_, rtol=1e-9)


def test_classes_without_rows_are_not_predicted():
    options = dict(alpha=0.1, n_left_out=90, equal_rank=20)
    model = StreamingRidgeClassifier(**options).partial_fit(X, LABELS, classes=list("abcd"))
    plain = StreamingRidgeClassifier(**options).fit(X, LABELS)
    np.testing.assert_array_equal(model.predict(TEST), plain.predict(TEST))


@pytest.mark.parametrize("with_factors", [False, True], indirect=True)
@pytest.mark.parametrize("weights", [None, [1.0, 2.0]])
@pytest.mark.parametrize("made", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_are_left_out_like_dense_ones(made, weights, with_factors):
    blocks = [("terms", CHI2, slice(0, 3)), ("same", None, [4, 5])]
    model = StreamingRidgeClassifier(blocks=blocks, block_weights=weights, equal_rank=20, random_state=0)
    expected = clone(model).fit(X, LABELS)
    found = clone(model).fit(made(X), LABELS)
    assert found.alpha_ == pytest.approx(expected.alpha_, rel=1e-6)
    close(found.decision_function(made(TEST)), expected.decision_function(TEST), rtol=1e-6)
