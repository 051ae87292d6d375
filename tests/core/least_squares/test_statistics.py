"""Sums over examples: against dense products, in any split, and in files."""

from itertools import pairwise

import numpy as np
import pytest
from oracles import close
from scipy import sparse

import histogp
from histogp._core.least_squares import statistics
from histogp._core.least_squares.statistics import LARGEST_SPARSE_DENSITY, StreamingStatistics, Sums, blocks
from histogp.exceptions import ModelFileError
from histogp.io import container
from histogp.io.schema import FORMAT

pytestmark = pytest.mark.portable

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((40, 30)) * (RNG.random((40, 30)) < 0.5)
FEW = np.zeros_like(Z)
FEW[RNG.integers(40, size=12), RNG.integers(30, size=12)] = RNG.standard_normal(12)
Y = RNG.standard_normal((40, 3))
WEIGHTS = RNG.random(40) * (RNG.random(40) < 0.7)
ARRAYS = ("gram", "sums", "cross", "target_sums", "target_gram")


def expected(Z, Y, weights):
    W, ones = np.diag(weights), np.ones(len(Z))
    return Z.T @ W @ Z, Z.T @ W @ ones, Z.T @ W @ Y, Y.T @ W @ ones, Y.T @ W @ Y


def same(actual, wanted, rtol=1e-13):
    for name in ARRAYS:
        assert getattr(actual, name).dtype == np.float64
        close(getattr(actual, name), getattr(wanted, name), rtol=rtol)
    close(actual.weight, wanted.weight, wanted.weight, rtol=rtol)
    assert actual.count == wanted.count


@pytest.mark.parametrize("weights", [None, WEIGHTS, np.zeros(40)], ids=["none", "some", "zeros"])
@pytest.mark.parametrize("made", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
@pytest.mark.parametrize("values", [Z, FEW], ids=["dense", "few"])
def test_sums_are_dense_products(made, values, weights):
    assert np.count_nonzero(FEW) < LARGEST_SPARSE_DENSITY * FEW.size < np.count_nonzero(Z)
    found = StreamingStatistics.of(made(values), Y, weights)
    given = np.ones(40) if weights is None else weights
    for name, array in zip(ARRAYS, expected(values, Y, given), strict=True):
        close(getattr(found, name), array, rtol=1e-13)
    np.testing.assert_array_equal(found.gram, found.gram.T)
    assert found.weight == pytest.approx(given.sum())
    assert found.count == np.count_nonzero(given)


@pytest.mark.parametrize("values", [Z, FEW], ids=["dense", "few"])
def test_single_precision_features_are_added_up_in_double(values):
    single = values.astype(np.float32)
    wanted = StreamingStatistics.of(single.astype(np.float64), Y, WEIGHTS)
    same(StreamingStatistics.of(single, Y, WEIGHTS), wanted)
    same(StreamingStatistics.of(sparse.csr_array(single), Y, WEIGHTS), wanted)


def test_one_target_or_none():
    same(StreamingStatistics.of(Z, Y[:, 0]), StreamingStatistics.of(Z, Y[:, :1]))
    same(StreamingStatistics.of(Z), StreamingStatistics.of(Z, Y).without_targets())
    same(StreamingStatistics.of(Z, Y[:, 0] > 0), StreamingStatistics.of(Z, (Y[:, 0] > 0).astype(float)))
    assert StreamingStatistics.of(Z).cross.shape == (30, 0)


def test_a_row_of_weight_two_counts_like_two():
    doubled = StreamingStatistics.of(Z, Y, np.full(40, 2.0))
    twice = StreamingStatistics.of(np.vstack([Z, Z]), np.vstack([Y, Y]))
    for name in (*ARRAYS, "weight"):
        np.testing.assert_allclose(getattr(doubled, name), getattr(twice, name), rtol=1e-12, atol=1e-12)
    same(StreamingStatistics.of(Z, Y).scaled(2.0), doubled)


def test_blocks_do_not_matter(monkeypatch):
    wanted = StreamingStatistics.of(Z, Y, WEIGHTS)
    monkeypatch.setattr(statistics, "BLOCK_ELEMENTS", 100)
    assert [rows.stop - rows.start for rows in blocks(40, 30)] == [3] * 13 + [1]
    for given in (Z, sparse.csr_array(Z)):
        same(StreamingStatistics.of(given, Y, WEIGHTS), wanted)


@pytest.mark.parametrize("cuts", [[], [1], [39], [0, 7, 7, 31, 40]])
def test_statistics_of_parts_add_up(cuts):
    wanted = StreamingStatistics.of(Z, Y, WEIGHTS)
    bounds = [0, *cuts, 40]
    for made in (np.asarray, sparse.csr_array):
        parts = [
            StreamingStatistics.of(made(Z[first:last]), Y[first:last], WEIGHTS[first:last])
            for first, last in pairwise(bounds)
        ]
        same(sum(parts, StreamingStatistics.empty(30, 3)), wanted)
        same(sum(reversed(parts), StreamingStatistics.empty(30, 3)), wanted)


def test_sums_leave_their_summands_alone():
    first, second = StreamingStatistics.of(Z[:20], Y[:20]), StreamingStatistics.of(Z[20:], Y[20:])
    before = first.gram.copy()
    _ = first + second
    np.testing.assert_array_equal(first.gram, before)


def test_statistics_of_no_rows():
    for nothing in (np.empty((0, 30)), sparse.csr_array((0, 30))):
        same(StreamingStatistics.of(nothing, np.empty((0, 3))), StreamingStatistics.empty(30, 3))
        same(StreamingStatistics.of(nothing, np.empty(0)), StreamingStatistics.empty(30, 1))
        same(StreamingStatistics.of(nothing), StreamingStatistics.empty(30))


def test_more_targets_have_been_zero():
    wanted = np.zeros((40, 5))
    positions = np.array([4, 0, 2])
    wanted[:, positions] = Y
    same(StreamingStatistics.of(Z, Y, WEIGHTS).with_targets(positions, 5), StreamingStatistics.of(Z, wanted, WEIGHTS))


def test_unequal_shapes_are_refused():
    message = "Statistics of 30 features and 3 targets and of 30 and 1 do not add up."
    with pytest.raises(ValueError, match=message):
        StreamingStatistics.of(Z, Y) + StreamingStatistics.of(Z, Y[:, 0])
    with pytest.raises(ValueError, match="of 30 features and 3 targets and of 29 and 3 do not add up"):
        StreamingStatistics.of(Z, Y) + StreamingStatistics.of(Z[:, 1:], Y)
    with pytest.raises(TypeError):
        StreamingStatistics.of(Z, Y) + 1
    for given in (Z, sparse.csr_array(FEW)):
        for targets in (Y[:20], np.vstack([Y, Y]), np.vstack([Y, Y]).ravel()):
            with pytest.raises(ValueError, match="one target and one weight"):
                StreamingStatistics.of(given, targets)
        for weights in (WEIGHTS[:20], np.append(WEIGHTS, 1)):
            with pytest.raises(ValueError, match="one target and one weight"):
                StreamingStatistics.of(given, Y, weights)


@pytest.mark.parametrize(
    "given",
    [StreamingStatistics.of(Z, Y, WEIGHTS), StreamingStatistics.of(Z), StreamingStatistics.empty(2, 1)],
    ids=["targets", "none", "empty"],
)
def test_files_hold_the_same_bits(given, tmp_path):
    given.save(tmp_path / "statistics")
    loaded = StreamingStatistics.load(str(tmp_path / "statistics"))
    for name in ARRAYS:
        assert getattr(loaded, name).tobytes() == getattr(given, name).tobytes()
        assert getattr(loaded, name).shape == getattr(given, name).shape
    assert (loaded.weight, loaded.count) == (given.weight, given.count)
    same(loaded + loaded, given + given, rtol=0)
    given.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "statistics").read_bytes()


def refused(path, message):
    with pytest.raises(ModelFileError, match=message) as refusal:
        StreamingStatistics.load(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "statistics"
    StreamingStatistics.of(Z, Y).save(path)
    content = path.read_bytes()
    for position in range(0, len(content), 97):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        refused(path, "is not an intact histogp model")
    for length in (0, 5, 100, len(content) - 1):
        path.write_bytes(content[:length])
        refused(path, "is not an intact histogp model")
    with pytest.raises(FileNotFoundError, match="There is no file"):
        StreamingStatistics.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class": "HistogramGPClassifier"}, "it holds a HistogramGPClassifier, not a StreamingStatistics"),
        ({"class": None}, "does not know"),
        ({"format": FORMAT + 1}, "newer histogp"),
        ({"format": 1}, "development version"),
        ({"format": str(FORMAT)}, "format version is damaged"),
        ({"extra": 1}, "unknown entry 'extra'"),
    ],
)
def test_files_of_others_are_refused(change, message, tmp_path):
    document = {"format": FORMAT, "version": "1", "class": "StreamingStatistics"} | change
    container.write(tmp_path / "other", document, StreamingStatistics.of(Z, Y).arrays())
    refused(tmp_path / "other", message)


def test_every_way_to_load_gives_the_same(tmp_path):
    given = StreamingStatistics.of(Z, Y, WEIGHTS)
    given.save(tmp_path / "statistics")
    same(histogp.load(tmp_path / "statistics"), given, rtol=0)
    assert histogp.describe(tmp_path / "statistics")["class"] == "StreamingStatistics"


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("gram", None, "'gram' is missing"),
        ("cross", None, "'cross' is missing"),
        ("gram", np.zeros((30, 29)), "'gram' has an unexpected shape or type"),
        ("gram", np.full((30, 30), np.nan), "'gram' has values that are not finite"),
        ("gram", np.zeros((30, 30), np.float32), "'gram' has an unexpected shape or type"),
        ("cross", np.zeros(30), "'cross' has an unexpected shape"),
        ("sums", np.zeros(31), "'sums' has an unexpected shape or type"),
        ("target_sums", np.zeros(2), "'target_sums' has an unexpected shape or type"),
        ("target_gram", np.zeros((3, 2)), "'target_gram' has an unexpected shape or type"),
        ("weight", np.zeros(2), "'weight' has an unexpected shape or type"),
        ("weight", np.array([np.inf]), "'weight' has values that are not finite"),
        ("weight", np.array([-1.0]), "'weight' has values below 0"),
        ("count", np.array([1.5]), "'count' has an unexpected shape or type"),
        ("count", np.array([-1]), "'count' has values below 0"),
    ],
)
def test_files_with_a_right_checksum_and_wrong_arrays_are_refused(name, array, message, tmp_path):
    arrays = StreamingStatistics.of(Z, Y).arrays()
    arrays[name] = array
    document = {"format": FORMAT, "version": "1", "class": "StreamingStatistics"}
    present = {key: value for key, value in arrays.items() if value is not None}
    container.write(tmp_path / "wrong", document, present)
    refused(tmp_path / "wrong", message)


def added(pieces, n_targets=3, **options):
    sums = Sums(30, n_targets, **options)
    for piece in pieces:
        sums.add(*piece)
    return sums.total()


CUTS = [[], [1], [39], [0, 7, 7, 31, 40]]


def cut(cuts, made=np.asarray, values=Z):
    return [(made(values[a:b]), Y[a:b], WEIGHTS[a:b]) for a, b in pairwise([0, *cuts, 40])]


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("made", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("values", [Z, FEW], ids=["dense", "few"])
def test_rows_that_are_added_in_place_are_statistics_of_all(values, made, cuts):
    found = added(cut(cuts, made, values))
    same(found, StreamingStatistics.of(values, Y, WEIGHTS))
    np.testing.assert_array_equal(found.gram, found.gram.T)


def test_dense_and_sparse_rows_in_turn():
    pieces = [(Z[:10], Y[:10]), (sparse.csr_array(FEW), Y), (Z[10:], Y[10:]), (sparse.csr_array(FEW), Y, WEIGHTS)]
    wanted = StreamingStatistics.of(Z, Y) + StreamingStatistics.of(FEW, Y) + StreamingStatistics.of(FEW, Y, WEIGHTS)
    for order in (pieces, pieces[::-1]):
        same(added(order), wanted)


def test_nothing_added_is_nothing():
    same(added([]), StreamingStatistics.empty(30, 3))
    same(added([(Z[:0], Y[:0]), (Z[:0], Y[:0], WEIGHTS[:0])]), StreamingStatistics.empty(30, 3))
    same(added([(Z,), (Z, None, WEIGHTS)], 0), StreamingStatistics.of(Z) + StreamingStatistics.of(Z, None, WEIGHTS))


def test_one_target_of_two_shapes():
    same(added([(Z[:20], Y[:20, 0]), (Z[20:], Y[20:, :1])], 1), StreamingStatistics.of(Z, Y[:, 0]))
    same(added([(Z.tolist(), Y.tolist())]), StreamingStatistics.of(Z, Y))


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("values", [Z, FEW], ids=["dense", "few"])
def test_products_in_single_precision(values, dtype, cuts):
    for made in (np.asarray, sparse.csr_array):
        found = added(cut(cuts, made, values.astype(dtype)), single=True)
        same(found, StreamingStatistics.of(values, Y, WEIGHTS), rtol=1e-5)
        np.testing.assert_array_equal(found.gram, found.gram.T)


def test_sums_of_products_in_single_precision_are_in_double(monkeypatch):
    """A sum of many blocks in single precision would stop at 2^24."""
    monkeypatch.setattr(statistics, "BLOCK_ELEMENTS", 1)
    assert max(rows.stop - rows.start for rows in blocks(3, 2, single=True)) > 1
    sums = Sums(1, 1, single=True)
    sums.add(np.array([[2.0**12]]), np.array([2.0**12]))
    for _ in range(10):
        sums.add(np.array([[1.0]]), np.array([1.0]))
    found = sums.total()
    assert (found.gram[0, 0], found.cross[0, 0], found.sums[0]) == (2.0**24 + 10, 2.0**24 + 10, 2.0**12 + 10)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n_elements", [1, 100, 10_000])
def test_blocks_do_not_matter_to_rows_that_are_added(n_elements, single, monkeypatch):
    wanted = StreamingStatistics.of(Z, Y, WEIGHTS)
    monkeypatch.setattr(statistics, "BLOCK_ELEMENTS", n_elements)
    same(added(cut([7, 31]), single=single), wanted, rtol=1e-5 if single else 1e-13)


def test_adding_leaves_its_arguments_alone():
    given = [array.copy() for array in (Z, Y, WEIGHTS)]
    for single in (False, True):
        added([tuple(given)] * 2, single=single)
        added([(sparse.csr_array(given[0]), *given[1:])], single=single)
    for array, before in zip(given, (Z, Y, WEIGHTS), strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("given", [Z, sparse.csr_array(Z), sparse.csr_array(FEW)], ids=["dense", "sparse", "few"])
def test_rows_that_cannot_be_added_are_refused_by_a_sentence(given, single):
    sums = Sums(30, 3, single=single)
    for targets, weights in ((Y[:20], None), (np.vstack([Y, Y]), None), (Y, WEIGHTS[:20]), (Y, np.append(WEIGHTS, 1))):
        with pytest.raises(ValueError, match=r"one target and one weight for each of the 40 samples\.$"):
            sums.add(given, targets, weights)
    for weights in (-WEIGHTS, np.where(WEIGHTS > 0.5, np.nan, WEIGHTS)):
        with pytest.raises(ValueError, match=r"Weights must not be negative; got .*\.$"):
            sums.add(given, Y, weights)
    # Nothing of that has been added.
    same(sums.total(), StreamingStatistics.empty(30, 3))


@pytest.mark.parametrize(("given", "single"), [(Z, False), (Z, True), (sparse.csr_array(FEW), False)])
@pytest.mark.parametrize(
    ("n_features", "targets"),
    [(30, Y[:, 0]), (30, np.hstack([Y, Y])), (30, None), (29, Y), (1, Y)],
    ids=["one target", "six targets", "no targets", "few features", "one feature"],
)
def test_other_numbers_of_features_or_targets_are_refused_by_a_sentence(given, single, n_features, targets):
    sums = Sums(30, 3, single=single)
    with pytest.raises(ValueError, match=r"of 30 features and 3 targets.*\.$"):
        sums.add(given[:, :n_features], targets)
    same(sums.total(), StreamingStatistics.empty(30, 3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_that_are_none_or_too_large_are_refused(bad, single):
    for where in (0, 1):
        arrays = [Z.copy(), Y.copy()]
        arrays[where][3, 2] = bad
        with pytest.raises(ValueError, match=r"finite numbers of moderate size\.$"):
            added([tuple(arrays)], single=single)


def test_single_precision_does_not_lose_targets_far_from_zero():
    rng = np.random.default_rng(0)
    features, targets = rng.standard_normal((500, 20)), rng.standard_normal((500, 2))
    sums = Sums(20, 2, single=True)
    sums.add(features, targets + 1e6)
    found = sums.total()
    centered = found.cross - np.outer(found.sums, found.target_sums / 500)
    wanted = features.T @ (targets - targets.mean(axis=0))
    np.testing.assert_allclose(centered, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
