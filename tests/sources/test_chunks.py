"""Pieces of bounded size from everything that holds rows."""

import gzip
from itertools import islice

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from oracles import dense, histograms
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from histogp.exceptions import DataError
from histogp.streaming import read_chunks

N, D = 50, 6
X = histograms(N, D)
Y = np.arange(N) % 4
NAMES = [f"f{k}" for k in range(D)]
BYTES = 8 * D * 7  # seven rows
TABLE = pa.table({**dict(zip(NAMES, np.asfortranarray(X).T, strict=True)), "y": Y})


def read(data, chunk_bytes=BYTES, **options):
    """All rows and labels together; every piece is as small as it must be."""
    pieces = list(read_chunks(data, chunk_bytes=chunk_bytes, **options))
    assert all(8 * rows.shape[0] * rows.shape[1] <= max(chunk_bytes, 8 * rows.shape[1]) for rows, _ in pieces)
    assert all(labels is None or len(labels) == rows.shape[0] for rows, labels in pieces)
    found = np.concatenate([dense(rows) for rows, _ in pieces])
    if pieces[0][1] is None:
        assert all(labels is None for _, labels in pieces)
        return found, None
    return found, np.concatenate([np.asarray(labels) for _, labels in pieces]).astype(float)


def assert_whole(found, X=X, y=Y, **tolerance):
    np.testing.assert_allclose(found[0], X, **{"rtol": 0, **tolerance})
    if y is None:
        assert found[1] is None
    else:
        np.testing.assert_array_equal(found[1], y)


MATRICES = {
    "an array": X,
    "columns first": np.asfortranarray(X),
    "CSR": sparse.csr_array(X),
    "CSC": sparse.csc_matrix(X),
    "COO": sparse.coo_array(X),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("chunk_bytes", [1, BYTES, BYTES + 1, 10**9])
def test_matrices_with_labels_and_without(name, chunk_bytes):
    assert_whole(read((MATRICES[name], Y), chunk_bytes))
    assert_whole(read(MATRICES[name], chunk_bytes), y=None)
    pieces = list(read_chunks(MATRICES[name], chunk_bytes=chunk_bytes))
    assert all(sparse.issparse(piece) == sparse.issparse(MATRICES[name]) for piece, _ in pieces)


def test_pieces_are_as_large_as_they_may_be():
    assert [len(y) for _, y in read_chunks((X, Y), chunk_bytes=BYTES)] == [7] * 7 + [1]
    assert len(list(read_chunks((X, Y)))) == 1


def test_memory_maps_are_read_only_where_they_are_looked_at(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert_whole(read(mapped), y=None)
    assert_whole(read((mapped, Y)))
    assert all(np.shares_memory(piece, mapped) for piece, _ in read_chunks(mapped, chunk_bytes=BYTES))


def test_frames_keep_their_columns():
    assert_whole(read(pl.DataFrame(X, schema=NAMES)), y=None)
    frame, series = pd.DataFrame(X, columns=NAMES, index=np.arange(N)[::-1]), pd.Series(Y, index=np.arange(N) + 5)
    pieces = list(read_chunks((frame, series), chunk_bytes=BYTES))
    assert all(list(piece.columns) == NAMES for piece, _ in pieces)
    assert_whole(read((frame, series)))


def write(path, X=X, y=Y):
    name = path.name.lower()
    if name.endswith("npz"):
        np.savez(path, X=X, y=y)
    elif name.endswith("npy"):
        np.save(path, np.column_stack([X, y]))
    elif name.endswith("parquet"):
        pq.write_table(pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": y}), path, row_group_size=11)
    elif "csv" in name:
        with (gzip.open if name.endswith("gz") else open)(path, "wt") as file:
            pd.DataFrame(X, columns=NAMES).assign(y=y).to_csv(file, index=False)
    else:
        dump_svmlight_file(X, y, str(path), zero_based=True)
    return path


FILES = {
    "a.csv": {"label": "y"},
    "a.csv.gz": {"label": "y"},
    "a.parquet": {"label": "y"},
    "a.npz": {},
    "a.npy": {"label": "-1"},
    "a.svm": {},
    "a.svmlight": {},
    "a.LIBSVM": {},
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("chunk_bytes", [1, BYTES, 10**9])
def test_files_of_every_format(name, chunk_bytes, tmp_path):
    path = write(tmp_path / name)
    for data in (path, str(path), [path]):
        assert_whole(read(data, chunk_bytes, **FILES[name]), rtol=1e-12)


def test_columns_may_be_left_out(tmp_path):
    path = write(tmp_path / "a.parquet")
    assert_whole(read(path, label="y", ignore=["f1", "f2"]), np.delete(X, [1, 2], axis=1))
    assert_whole(read(path, ignore=["y"]), y=None)
    assert_whole(read(TABLE, label="y", ignore=["f1", "f2"]), np.delete(X, [1, 2], axis=1))


def test_several_files_follow_each_other_in_the_order_of_names_and_lists(tmp_path):
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        write(tmp_path / f"part{k}.csv", X[rows], Y[rows])
    assert_whole(read(str(tmp_path / "part*.csv"), label="y"), rtol=1e-12)
    write(tmp_path / "last.npz")
    found = read([tmp_path / "last.npz", str(tmp_path / "part[01].csv")], label="y")
    first = np.arange(len(found[0]) - N)
    assert_whole(found, np.vstack([X, X[first]]), np.concatenate([Y, Y[first]]), rtol=1e-12)
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper" / "b.npz")
    assert_whole(read(str(tmp_path / "**" / "b.npz")))


def test_a_name_with_the_signs_of_a_pattern_is_a_name_if_there_is_such_a_file(tmp_path):
    write(tmp_path / "part[01].npz")
    assert_whole(read(tmp_path / "part[01].npz"))


def test_svmlight_files_are_as_wide_as_the_widest(tmp_path):
    narrow = X.copy()
    narrow[:, 2:] = 0
    write(tmp_path / "0.svm", narrow)
    write(tmp_path / "1.svm")
    assert_whole(read(str(tmp_path / "*.svm")), np.vstack([narrow, X]), np.concatenate([Y, Y]), rtol=1e-12)


def test_files_follow_the_columns_of_the_first(tmp_path):
    write(tmp_path / "0.csv")
    pd.DataFrame(X, columns=NAMES)[NAMES[::-1]].assign(y=Y).to_csv(tmp_path / "1.csv", index=False)
    found = read(str(tmp_path / "*.csv"), label="y")
    assert_whole(found, np.vstack([X, X]), np.concatenate([Y, Y]), rtol=1e-12)
    pd.DataFrame(X[:, 1:], columns=NAMES[1:]).assign(y=Y).to_csv(tmp_path / "2.csv", index=False)
    with pytest.raises(DataError, match="lacks 1 of the 6 columns"):
        read(str(tmp_path / "*.csv"), label="y")


ARROW = {
    "table": lambda path: TABLE,
    "table in parts": lambda path: pa.concat_tables([TABLE[:20], TABLE[20:]]),
    "record batch": lambda path: TABLE.to_batches()[0],
    "reader": lambda path: TABLE.to_reader(max_chunksize=13),
    "dataset": lambda path: pyarrow.dataset.dataset(write(path / "a.parquet")),
}


@pytest.mark.parametrize("name", ARROW)
@pytest.mark.parametrize("chunk_bytes", [1, BYTES, 10**9])
def test_everything_of_arrow(name, chunk_bytes, tmp_path):
    assert_whole(read(ARROW[name](tmp_path), chunk_bytes, label="y"))
    found, labels = read(ARROW[name](tmp_path), chunk_bytes)
    assert_whole((found, labels), np.column_stack([X, Y]), None)


@pytest.mark.parametrize("of", [lambda texts: texts, lambda texts: texts.dictionary_encode()])
def test_labels_of_arrow_may_be_texts(of):
    table = TABLE.set_column(D, "y", of(pa.array(np.array(list("abcd"))[Y])))
    found = [labels for _, labels in read_chunks(table, label="y", chunk_bytes=BYTES)]
    np.testing.assert_array_equal(np.concatenate(found), np.array(list("abcd"))[Y])


def test_iterables_of_pairs_are_passed_on_and_cut():
    pairs = [(X[:3], Y[:3]), (X[3:40], Y[3:40]), (X[40:], Y[40:])]
    assert_whole(read(pairs))
    assert_whole(read(iter(pairs)))
    assert_whole(read([(part, None) for part, _ in pairs]), y=None)
    assert_whole(read([(part.tolist(), labels.tolist()) for part, labels in pairs]))
    assert_whole(read([(sparse.csr_array(part), labels) for part, labels in pairs]))
    assert_whole(read(tuple(pairs[:2])), X[:40], Y[:40])  # two pairs, not a matrix and its labels


def test_an_endless_source_is_read_as_far_as_needed():
    def forever():
        while True:
            yield X, Y

    assert len(list(islice(read_chunks(forever(), chunk_bytes=BYTES), 20))) == 20


def test_chunks_go_into_an_estimator():
    from histogp.streaming import StreamingRidge

    model = StreamingRidge(alpha=1.0)
    for rows, targets in read_chunks((X, Y), chunk_bytes=BYTES):
        model.partial_fit(rows, targets)
    np.testing.assert_allclose(model.coef_, StreamingRidge(alpha=1.0).fit(X, Y).coef_)


REFUSED = {
    "a missing file": (lambda path: path / "none.csv", DataError, "no file"),
    "a pattern without files": (lambda path: str(path / "*.parquet"), DataError, "no file"),
    "a folder": (lambda path: path, DataError, "folder"),
    "an unknown ending": (lambda path: write_text(path / "a.txt", "1,2"), DataError, "no known ending"),
    "a column that is not there": (lambda path: TABLE.select(NAMES), DataError, "no column 'y'"),
    "nothing but labels": (lambda path: TABLE.select(["y"]), DataError, "no feature column"),
    "texts among features": (
        lambda path: TABLE.set_column(0, "f0", pa.array(["a"] * N)),
        DataError,
        "'f0' holds string, not numbers",
    ),
    "missing values": (
        lambda path: TABLE.set_column(0, "f0", pa.array([None, *X[1:, 0]])),
        DataError,
        "'f0' has 1 missing",
    ),
    "rows without labels": (lambda path: [X, X], ValueError, "pairs of samples and labels"),
    "three of a kind": (lambda path: [(X, Y, Y)], ValueError, "pairs of samples and labels"),
    "a vector": (lambda path: X[0], ValueError, "one row a sample"),
    "a vector with labels": (lambda path: (X[0], Y[:D]), ValueError, "one row a sample"),
    "labels of another length": (lambda path: (X, Y[:-1]), ValueError, "50 rows, but there are 49 labels"),
    "a number": (lambda path: 3, ValueError, "int"),
    "nothing": (lambda path: None, ValueError, "NoneType"),
}


WITHOUT_COLUMNS = list(REFUSED)[list(REFUSED).index("rows without labels") :]


def write_text(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_rows_is_refused_by_a_sentence(what, tmp_path):
    data, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        list(read_chunks(data(tmp_path), label=None if what in WITHOUT_COLUMNS else "y"))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("chunk_bytes", [0, -1, 1.5, "large"])
def test_the_size_of_a_piece_is_a_whole_number_above_0(chunk_bytes):
    with pytest.raises(ValueError, match="chunk_bytes must be"):
        list(read_chunks((X, Y), chunk_bytes=chunk_bytes))


def test_batches_files_and_frames_with_a_label(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path)
    frame = TABLE.to_pandas()
    for data in (
        TABLE.to_batches(),
        iter(TABLE.to_batches()),
        pq.ParquetFile(path),
        pq.ParquetFile(path).iter_batches(),
        pyarrow.dataset.dataset(path).scanner(),
        tmp_path.glob("*.parquet"),
        (path,),
        frame,
        pl.from_arrow(TABLE),
    ):
        pieces = [(np.asarray(rows), np.asarray(labels)) for rows, labels in read_chunks(data, label="y")]
        np.testing.assert_array_equal(np.concatenate([rows for rows, _ in pieces]), X)
        np.testing.assert_array_equal(np.concatenate([labels for _, labels in pieces]), Y)
    with pytest.raises(ValueError, match="which a ndarray does not have"):
        list(read_chunks(X, label="y"))
    with pytest.raises(ValueError, match="no column 'z'"):
        list(read_chunks(frame, label="z"))
    with pytest.raises(ValueError, match="list of columns"):
        read_chunks(frame, ignore="ab")
