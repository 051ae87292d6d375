"""Several maps side by side: against ColumnTransformer, dense products and scikit-learn's PCA."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from oracles import alike, close, histograms
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from histogp.feature_maps import AdditiveChi2Map, BlockMap, ExpChi2Sampler, HomogeneousMap

pytestmark = pytest.mark.portable

RNG = np.random.default_rng(0)
X = histograms(50, 6)
MORE = histograms(40, 6, seed=1)
NAMES = list("uvwxyz")
FRAMES = [pd.DataFrame(X, columns=NAMES), pl.DataFrame(X, schema=NAMES)]
by_frame = pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars"])
CHI2 = AdditiveChi2Map(n_terms=3, points="greedy")
WAVES = ExpChi2Sampler(20, random_state=0)
BLOCKS = [("terms", CHI2, slice(0, 4)), ("same", None, [5, 3]), ("waves", WAVES, [4, 2, 0])]
POSITIONS = [np.arange(4), np.array([5, 3]), np.array([4, 2, 0])]
WIDTHS = [12, 2, 20]
MASK = np.array([True, False, False, True, True, False])
NUMBERED = [
    (slice(1, 4), [1, 2, 3]),
    (slice(None), range(6)),
    (slice(None, 2), [0, 1]),
    (slice(-2, None), [4, 5]),
    (slice(0, None, 2), [0, 2, 4]),
    (slice(None, None, 2), [0, 2, 4]),
    (slice(None, None, -1), range(5, -1, -1)),
    ([4, 0], [4, 0]),
    ((1, 3), [1, 3]),
    ([-1, 2, -6], [5, 2, 0]),
    (np.array([5, 1]), [5, 1]),
    (3, [3]),
    (-1, [5]),
    (np.int64(2), [2]),
    (MASK, [0, 3, 4]),
    (MASK.tolist(), [0, 3, 4]),
]
NAMED = [
    (["x", "u"], [3, 0]),
    ("w", [2]),
    (("z",), [5]),
    (np.array(["y", "v"]), [4, 1]),
    (np.array(["y", "v"], object), [4, 1]),
    (slice("v", "x"), [1, 2, 3]),
    (slice("y", None), [4, 5]),
]


def raw(rows, fitted_to=X):
    """The features of each block, by maps of their own."""
    parts = zip((CHI2, None, WAVES), POSITIONS, strict=True)
    return [
        rows[:, own] if map_ is None else clone(map_).fit(fitted_to[:, own]).transform(rows[:, own])
        for map_, own in parts
    ]


def same_up_to_signs(actual, expected, rtol=1e-8):
    close(actual * np.sign(np.sum(actual * expected, axis=0)), expected, rtol=rtol)


def array(Z):
    return Z.toarray() if sparse.issparse(Z) else np.asarray(Z)


@pytest.mark.slow
@pytest.mark.usefixtures("non_negative_blobs")
@parametrize_with_checks([BlockMap([("terms", CHI2, slice(None)), ("same", None, [0])], pca_components=2)])
def test_common_checks(estimator, check):
    check(estimator)


def test_features_are_those_of_a_column_transformer():
    theirs = [(name, "passthrough" if map_ is None else map_, columns) for name, map_, columns in BLOCKS]
    expected = ColumnTransformer(theirs, sparse_threshold=0).fit(X)
    found = BlockMap(BLOCKS).fit(X)
    for rows in (X, MORE):
        alike(found.transform(rows), expected.transform(rows))
        alike(found.transform(rows), np.hstack(raw(rows)))
    alike(BlockMap(tuple(BLOCKS)).fit_transform(X), expected.transform(X))
    alike(BlockMap([list(block) for block in BLOCKS]).fit_transform(X), expected.transform(X))


def test_what_is_known_of_the_features():
    found = BlockMap(BLOCKS).fit(X)
    np.testing.assert_array_equal(found.block_of_, np.repeat([0, 1, 2], WIDTHS))
    for own, expected in zip(found.columns_, POSITIONS, strict=True):
        np.testing.assert_array_equal(own, expected)
    names = [f"{name}__{k}" for (name, _, _), width in zip(BLOCKS, WIDTHS, strict=True) for k in range(width)]
    assert found.get_feature_names_out().tolist() == names
    assert found.n_features_in_ == 6
    assert [type(map_) for map_ in found.maps_] == [AdditiveChi2Map, type(None), ExpChi2Sampler]
    projected = BlockMap(BLOCKS, pca_components=3).fit(X)
    np.testing.assert_array_equal(projected.block_of_, np.repeat([0, 1, 2], [3, 2, 3]))
    assert projected.get_feature_names_out()[2:6].tolist() == ["terms__2", "same__0", "same__1", "waves__0"]
    framed = found.set_output(transform="pandas").transform(X)
    assert list(framed.columns) == names
    alike(framed.to_numpy(), np.hstack(raw(X)))


@pytest.mark.parametrize(("columns", "expected"), NUMBERED, ids=lambda value: str(value))
def test_columns_by_number(columns, expected):
    for data in (X, sparse.csr_array(X), *FRAMES):
        found = BlockMap([("own", None, columns), ("all", None, slice(None))]).fit(data)
        np.testing.assert_array_equal(found.columns_[0], list(expected))
        np.testing.assert_array_equal(array(found.transform(data)), np.hstack([X[:, list(expected)], X]))
    mapped = BlockMap([("own", CHI2, columns)]).fit(X).transform(MORE)
    own = np.array(expected)
    np.testing.assert_array_equal(mapped, clone(CHI2).fit(X[:, own]).transform(MORE[:, own]))


@by_frame
@pytest.mark.parametrize(("columns", "expected"), NAMED, ids=lambda value: str(value))
def test_columns_by_name(columns, expected, frame):
    found = BlockMap([("own", CHI2, columns), ("last", None, ["z"])]).fit(frame)
    np.testing.assert_array_equal(found.columns_[0], expected)
    assert found.feature_names_in_.tolist() == NAMES
    wanted = np.hstack([clone(CHI2).fit_transform(X[:, expected]), X[:, 5:]])
    np.testing.assert_array_equal(found.transform(frame), wanted)
    with pytest.raises(ValueError, match="feature names"):
        found.transform(frame[NAMES[::-1]])


def test_columns_in_several_blocks_and_in_none():
    found = BlockMap([("a", None, [1, 1, 2]), ("b", HomogeneousMap("hellinger"), [2, 1])]).fit(X)
    np.testing.assert_array_equal(found.transform(MORE), np.hstack([MORE[:, [1, 1, 2]], np.sqrt(MORE[:, [2, 1]])]))
    # Other columns do not matter.
    other = MORE.copy()
    other[:, [0, 3, 4, 5]] = -7
    np.testing.assert_array_equal(found.transform(other), found.transform(MORE))


def test_negative_values_are_refused_only_where_a_map_wants_none():
    signed = X.copy()
    signed[:, 5] -= 1
    assert BlockMap([("a", CHI2, slice(0, 5)), ("b", None, [5])]).fit_transform(signed).min() < 0
    with pytest.raises(ValueError, match="Negative values in data passed to AdditiveChi2Map"):
        BlockMap([("a", CHI2, slice(None))]).fit(signed)


@pytest.mark.parametrize("made", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows(made):
    blocks = [("terms", CHI2, [4, 1, 2]), ("same", None, slice(3, 5))]
    expected = BlockMap(blocks).fit(X).transform(MORE)
    Z = BlockMap(blocks).fit(made(X)).transform(made(MORE))
    assert sparse.issparse(Z)
    assert Z.format == "csr"
    close(Z.toarray(), expected, rtol=1e-13)
    mixed = BlockMap(BLOCKS).fit(made(X)).transform(made(MORE))
    assert isinstance(mixed, np.ndarray)
    close(mixed, np.hstack(raw(MORE)), rtol=1e-6)
    projected = BlockMap(blocks, pca_components=2).fit(made(X)).transform(made(MORE))
    same_up_to_signs(projected, BlockMap(blocks, pca_components=2).fit(X).transform(MORE))


@pytest.mark.parametrize("n_components", [None, 2])
def test_single_precision_stays_single(n_components):
    found = BlockMap(BLOCKS, pca_components=n_components).fit(X)
    single = found.transform(MORE.astype(np.float32))
    assert single.dtype == np.float32
    close(single, found.transform(MORE), rtol=1e-4)
    fitted = BlockMap(BLOCKS, pca_components=n_components).fit(X.astype(np.float32))
    assert fitted.transform(MORE).dtype == np.float64


def test_rows_as_lists():
    expected = BlockMap(BLOCKS).fit(X).transform(MORE)
    alike(BlockMap(BLOCKS).fit(X.tolist()).transform(MORE.tolist()), expected)


# Maps.


class Doubled(TransformerMixin, BaseEstimator):
    """A user's own, without names of its features."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return 2 * X


def test_maps_of_others():
    blocks = [("a", StandardScaler(), [0, 2]), ("b", Doubled(), [1]), ("c", FunctionTransformer(np.sqrt), [3, 4])]
    wanted = [StandardScaler().fit(X[:, [0, 2]]).transform(MORE[:, [0, 2]]), 2 * MORE[:, [1]], np.sqrt(MORE[:, [3, 4]])]
    np.testing.assert_array_equal(BlockMap(blocks).fit(X).transform(MORE), np.hstack(wanted))


def test_maps_that_look_at_targets():
    y = X[:, 4] - X[:, 1]
    found = BlockMap([("best", SelectKBest(f_regression, k=1), slice(0, 3)), ("all", None, [0])]).fit(X, y)
    np.testing.assert_array_equal(found.transform(MORE), MORE[:, [1, 0]])


def test_maps_that_give_frames():
    for kind in ("pandas", "polars"):
        framing = clone(CHI2).set_output(transform=kind)
        for rows in (X, sparse.csr_array(X)):
            Z = BlockMap([("a", framing, [0, 1]), ("b", None, [2])]).fit(rows).transform(rows)
            close(array(Z), np.hstack([clone(CHI2).fit_transform(X[:, :2]), X[:, 2:3]]), rtol=1e-13)


def test_given_maps_are_left_alone_and_frozen_ones_are_not_fitted_again():
    given = clone(CHI2)
    BlockMap([("a", given, [0, 1])]).fit(X)
    assert not hasattr(given, "points_")
    fitted = clone(CHI2).fit(MORE[:9, :2]).set_output(transform="pandas")
    points = fitted.points_.copy()
    Z = BlockMap([("a", FrozenEstimator(fitted), [0, 1])]).fit(X).transform(X)
    np.testing.assert_array_equal(fitted.points_, points)
    np.testing.assert_array_equal(Z, clone(CHI2).fit(MORE[:9, :2]).transform(X[:, :2]))
    assert isinstance(fitted.transform(X[:, :2]), pd.DataFrame)


def test_maps_within_maps():
    inner = BlockMap([("a", CHI2, [1, 0]), ("b", None, [2])], pca_components=2)
    found = BlockMap([("pair", inner, [5, 3, 1]), ("c", None, [0])]).fit(X)
    own = clone(inner).fit(X[:, [5, 3, 1]]).transform(MORE[:, [5, 3, 1]])
    alike(found.transform(MORE), np.hstack([own, MORE[:, :1]]))


# Principal components.


@pytest.mark.parametrize("n_components", [1, 2, 7, 100])
def test_components_are_those_of_scikit_learn(n_components):
    found = BlockMap(BLOCKS, pca_components=n_components).fit(X)
    expected = []
    for Z, rows in zip(raw(X), raw(MORE), strict=True):
        pca = PCA(min(n_components, Z.shape[1]), svd_solver="full").fit(Z)
        expected.append(pca.transform(rows))
    actual = found.transform(MORE)
    assert actual.shape == (40, sum(min(n_components, width) for width in WIDTHS))
    for k, wanted in enumerate(expected):
        same_up_to_signs(actual[:, found.block_of_ == k], wanted, rtol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_components_over_chunks_are_those_of_all_rows(form):
    both = np.vstack([X, MORE])
    found = BlockMap(BLOCKS, pca_components=2)
    for rows in (slice(50), slice(50, 52), slice(52, 53), slice(53, None)):
        found.partial_fit(form(both[rows]))
    # The maps are adapted to the first chunk.
    actual = found.transform(both)
    for k, Z in enumerate(raw(both)):
        same_up_to_signs(actual[:, found.block_of_ == k], PCA(2, svd_solver="full").fit_transform(Z), rtol=1e-6)
    again = found.fit(MORE).transform(both)
    alike(again, BlockMap(BLOCKS, pca_components=2).fit(MORE).transform(both))


def test_a_first_chunk_of_few_rows_limits_the_components_until_there_are_more():
    found = BlockMap(BLOCKS, pca_components=5).partial_fit(X[:3])
    assert found.transform(X).shape == (50, 6)
    assert BlockMap(BLOCKS, pca_components=5).fit(X[:1]).transform(X).shape == (50, 3)
    found.partial_fit(X[3:])
    assert found.transform(X).shape == (50, 12)
    assert len(found.block_of_) == len(found.get_feature_names_out()) == 12


def test_pieces_of_rows_do_not_matter():
    expected = BlockMap(BLOCKS, pca_components=3).fit(X).transform(MORE)
    same_up_to_signs(BlockMap(BLOCKS, pca_components=3, chunk_bytes=1).fit(X).transform(MORE), expected)


def test_further_rows_without_components_change_nothing():
    found = BlockMap(BLOCKS).partial_fit(X)
    before = found.transform(X)
    np.testing.assert_array_equal(found.partial_fit(MORE).transform(X), before)
    with pytest.raises(ValueError, match="X has 5 features, but BlockMap is expecting 6"):
        found.partial_fit(MORE[:, :5])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_weights_of_components_as_those_of_features(form):
    found = BlockMap(BLOCKS, pca_components=4).fit(X)
    weights, intercepts = RNG.standard_normal((len(found.block_of_), 3)), RNG.standard_normal(3)
    folded, moved = found._folded(weights, intercepts)
    np.testing.assert_allclose(array(found._unprojected(form(MORE))), np.hstack(raw(MORE)), rtol=1e-5, atol=1e-6)
    assert folded.shape == (sum(WIDTHS), 3)
    projected = found.transform(MORE) @ weights + intercepts
    close(found._unprojected(MORE) @ folded + moved, projected, rtol=1e-12)


# Copies.


@pytest.mark.parametrize("n_components", [None, 2])
def test_copies_map_alike(n_components):
    found = BlockMap(BLOCKS, pca_components=n_components).fit(X)
    for twin in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        alike(twin.transform(MORE), found.transform(MORE))
        alike(twin.partial_fit(MORE).transform(X), copy.deepcopy(found).partial_fit(MORE).transform(X))
    alike(clone(found).fit(X).transform(MORE), found.transform(MORE))
    with pytest.raises(NotFittedError):
        clone(found).transform(X)


@pytest.mark.parametrize("n_components", [None, 2])
def test_a_failed_fit_leaves_the_map_as_it_was(n_components):
    found = BlockMap(BLOCKS, pca_components=n_components).fit(X)
    expected = found.transform(MORE)
    for attempt in (found.fit, found.partial_fit):
        with pytest.raises(ValueError, match=r"NaN|Negative"):
            attempt(np.where(X > 0.5, np.nan, X))
        np.testing.assert_array_equal(found.transform(MORE), expected)
    with pytest.raises(ValueError, match="Negative"):
        found.fit(-X)
    np.testing.assert_array_equal(found.transform(MORE), expected)


# Refusals.


@pytest.mark.parametrize(
    ("message", "blocks"),
    [
        ("blocks must be tuples of a name, a feature map and columns; got", []),
        ("blocks must be tuples of a name, a feature map and columns; got", [("a", CHI2)]),
        ("blocks must be tuples of a name, a feature map and columns; got", [("a", CHI2, [0], 1)]),
        ("blocks must be tuples of a name, a feature map and columns; got", [(1, CHI2, [0])]),
        ("blocks must be tuples of a name, a feature map and columns; got", ["abc"]),
        ("blocks must be tuples of a name, a feature map and columns; got", [CHI2, None, [0]]),
        ("blocks must be tuples", [("a", ExpChi2Sampler(99, beta="evidence", sampling="quasi", random_state=123456))]),
        ("blocks must be tuples", [("a", CHI2, np.arange(100), None)]),
        ("The 'blocks' parameter of BlockMap", {"a": CHI2}),
        ("The 'blocks' parameter of BlockMap", None),
        ("The names of blocks must differ; got a, b, a.", [(name, None, [0]) for name in "aba"]),
        ("The map of the block 'a' must be a transformer or None; got 3.", [("a", 3, [0])]),
        ("The map of the block 'b' must be a transformer or None; got 'drop'.", [("a", None, [0]), ("b", "drop", [0])]),
        ("The map of the block 'a' must be a transformer or None", [("a", AdditiveChi2Map, [0])]),
        ("The columns of the block 'a' do not fit the data: all features must be in", [("a", CHI2, [0, 6])]),
        ("The columns of the block 'a' do not fit the data: all features must be in", [("a", CHI2, -7)]),
        ("The columns of the block 'a' do not fit the data", [("a", CHI2, [True] * 5)]),
        ("The columns of the block 'a' do not fit the data", [("a", CHI2, [0, "u"])]),
        ("The columns of the block 'a' do not fit the data", [("a", CHI2, [0.5])]),
        ("The columns of the block 'a' do not fit the data", [("a", CHI2, None)]),
        ("The columns of the block 'a' do not fit the data", [("a", CHI2, len)]),
        ("The columns of the block 'a' do not fit the data", [("a", CHI2, ["missing"])]),
        ("The columns of the block 'a' do not fit the data", [("a", CHI2, slice("u", "missing"))]),
        ("The block 'a' has no columns.", [("a", CHI2, [])]),
        ("The block 'a' has no columns.", [("a", None, slice(6, None))]),
        ("The block 'b' has no columns.", [("a", CHI2, [0]), ("b", CHI2, [False] * 6)]),
        ("The 'n_terms' parameter of AdditiveChi2Map", [("a", AdditiveChi2Map(n_terms=0), [0])]),
    ],
)
def test_refusals_are_one_clear_sentence(message, blocks):
    for data in (X, FRAMES[0]):
        with pytest.raises(ValueError, match=message) as refusal:
            BlockMap(blocks).fit(data)
        assert "\n" not in str(refusal.value)


def test_names_need_data_with_names():
    with pytest.raises(ValueError, match="columns of the block 'a' do not fit the data: Specifying the columns using"):
        BlockMap([("a", CHI2, ["u"])]).fit(X)


@pytest.mark.parametrize("options", [{"pca_components": 0}, {"pca_components": 1.5}, {"chunk_bytes": 0}])
def test_bad_parameters_are_named(options):
    with pytest.raises(ValueError, match=f"The '{next(iter(options))}' parameter of BlockMap"):
        BlockMap(BLOCKS, **options).fit(X)


def test_rows_that_are_no_matrix_are_told_so():
    with pytest.raises(ValueError, match="Expected 2D array"):
        BlockMap(BLOCKS).fit(X[0])
