"""Every format gives the same rows and labels, whole or in pieces, and says what is wrong with it."""

import csv
import gzip
import itertools
import sys
import tracemalloc
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from histogp.exceptions import DataError
from histogp.sources import csv_file, parquet
from histogp.sources import source as source_file
from histogp.sources.source import open_source

X = np.array([[0, 1.5, 0, 3e-7], [2, 0, 0, 0.1], [0, 0, 7, 1 / 3], [1, 1, 1, 1], [0, 0, 0, 0.25]])
Y = np.array([1, 0, 2, 1, 0])
NAMES = ["a", "b", "c", "d"]


def write_csv(path, X=X, labels=Y, names=(*NAMES, "y"), newline="\n", encoding="utf-8", opener=open):
    with opener(path, "wt", encoding=encoding, newline="") as file:
        writer = csv.writer(file, lineterminator=newline)
        if names:
            writer.writerow(names)
        writer.writerows([*row, label] for row, label in zip(X.tolist(), labels.tolist(), strict=True))
    return path


def write_parquet(path, X=X, labels=Y, names=NAMES, **options):
    columns = dict(zip(names, np.asfortranarray(X).T, strict=True))
    pq.write_table(pa.table({**columns, "y": pa.array(labels)}), path, **options)
    return path


def write_npz(path):
    np.savez(path, X=X, y=Y)
    return path


def write_sparse_npz(path):
    matrix = sparse.csr_array(X)
    np.savez(
        path, format=b"csr", shape=matrix.shape, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr, y=Y
    )
    return path


def write_npy(path):
    np.save(path, np.column_stack([X, Y]))
    return path


def write_svmlight(path):
    dump_svmlight_file(X, Y, str(path), zero_based=True)
    return path


FORMATS = {
    "header.csv": (write_csv, "y"),
    "plain.csv": (lambda path: write_csv(path, names=()), "-1"),
    "zipped.csv.gz": (lambda path: write_csv(path, opener=gzip.open), "y"),
    "windows.csv": (lambda path: write_csv(path, newline="\r\n", encoding="utf-8-sig"), "y"),
    "one_group.parquet": (write_parquet, "y"),
    "groups.parquet": (lambda path: write_parquet(path, row_group_size=2), "y"),
    "arrays.npz": (write_npz, None),
    "sparse.npz": (write_sparse_npz, None),
    "matrix.npy": (write_npy, "4"),
    "rows.svm": (write_svmlight, None),
    "rows.svmlight": (write_svmlight, None),
    "ROWS.LIBSVM": (write_svmlight, None),
}


@pytest.fixture(params=FORMATS)
def source(request, tmp_path):
    write, label = FORMATS[request.param]
    return open_source(write(tmp_path / request.param), label=label, n_features=4)


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def assert_same(chunks, X=X, labels=Y):
    chunks = list(chunks)
    np.testing.assert_array_equal(np.concatenate([dense(chunk.X) for chunk in chunks]), X)
    found = np.concatenate([chunk.labels for chunk in chunks])
    np.testing.assert_array_equal(found.astype(float), labels)


def refuses(path, sentence, **options):
    with pytest.raises(DataError, match=sentence):
        open_source(path, **options).read()


def text(path, content):
    path.write_text(content, newline="")
    return path


def test_every_format_is_read_at_once(source):
    assert_same([source.read()])
    assert source.n_features == 4
    assert source.n_rows in (None, 5)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 100])
def test_every_format_is_read_in_pieces_of_any_size(source, n_rows):
    chunks = list(source.chunks(n_rows))
    assert max(chunk.X.shape[0] for chunk in chunks) <= n_rows
    assert_same(chunks)
    assert_same(source.chunks(n_rows))  # and again


def test_every_format_gives_contiguous_floats_or_compressed_rows(source):
    for X in (source.read().X, next(source.chunks(2)).X):
        assert X.dtype == np.float64
        assert X.format == "csr" if sparse.issparse(X) else X.flags.c_contiguous and X.flags.writeable


def test_names_are_known_where_the_file_has_them(source):
    named = "header" in source.path.name or source.path.suffix in (".gz", ".parquet") or "windows" in source.path.name
    assert source.feature_names == (NAMES if named else None)


@pytest.mark.parametrize("write", [write_csv, write_parquet])
class TestNamedColumns:
    @pytest.fixture
    def path(self, write, tmp_path):
        return write(tmp_path / f"data.{write.__name__.removeprefix('write_')}")

    def test_without_a_label_all_columns_are_features(self, path):
        chunk = open_source(path).read()
        np.testing.assert_array_equal(chunk.X, np.column_stack([X, Y]))
        assert chunk.labels is None

    @pytest.mark.parametrize("label", ["y", "4", "-1"])
    def test_the_label_has_a_name_or_a_position(self, path, label):
        assert_same([open_source(path, label=label).read()])

    def test_a_name_goes_before_a_position(self, write, path):
        write(path, names=["0", "1", "-1", "x"]) if write is write_parquet else write(
            path, names=["0", "1", "-1", "x", "y"]
        )
        assert open_source(path, label="-1").feature_names == ["0", "1", "x", "y"]

    def test_ignored_columns_are_left_out(self, path):
        source = open_source(path, label="y", ignore=["b", "0"])
        assert source.feature_names == ["c", "d"]
        assert_same([source.read()], X[:, 2:])

    def test_columns_of_a_model_are_found_in_its_order(self, path):
        source = open_source(path, label="y", features=["d", "a"], n_features=2)
        assert source.feature_names == ["d", "a"]
        assert_same(source.chunks(2), X[:, [3, 0]])

    def test_missing_columns_of_a_model_are_named(self, path):
        refuses(path, r"lacks 2 of the 3 columns the model was trained with: 'u', 'v'\.", features=["a", "u", "v"])

    def test_unknown_names_are_refused(self, path):
        refuses(path, r"no column 'z'; it has 'a', 'b', 'c', 'd', 'y'\.", label="z")
        refuses(path, r"no column 'z'", ignore=["z"])
        refuses(path, r"no column 7; it has 5 columns, counted from 0\.", label="7")

    def test_another_width_is_refused(self, path):
        refuses(path, r"has 4 features, but the model was trained with 3\.", label="y", n_features=3)

    def test_a_file_without_features_is_refused(self, path):
        refuses(path, r"has no feature column\.", label="y", ignore=NAMES)


class TestNamelessColumns:
    def test_stand_for_those_of_a_model_if_they_are_as_many(self, tmp_path):
        path = write_npy(tmp_path / "data.npy")
        assert_same([open_source(path, label="-1", features=NAMES).read()])
        refuses(path, "has 4 features, but the model was trained with 2", label="-1", features=["a", "b"])

    def test_are_left_out_by_position(self, tmp_path):
        path = write_npy(tmp_path / "data.npy")
        assert_same([open_source(path, label="-1", ignore=["0", "-2"]).read()], X[:, 1:3])

    def test_have_no_names(self, tmp_path):
        refuses(write_npy(tmp_path / "data.npy"), "no column 'y'; its columns have no names, only positions", label="y")


class TestFiles:
    def test_unknown_endings_are_refused(self, tmp_path):
        path = text(tmp_path / "data.txt", "1,2\n")
        refuses(
            path, r"no known ending; known are \.csv, \.csv\.gz, \.parquet, \.npz, \.npy, \.svm, \.svmlight, \.libsvm\."
        )

    def test_missing_files_and_folders_are_refused(self, tmp_path):
        refuses(tmp_path / "data.csv", r"data\.csv cannot be read: no such file or directory\.")
        (tmp_path / "folder.csv").mkdir()
        refuses(tmp_path / "folder.csv", r"is a folder, not a file\.")

    @pytest.mark.parametrize("name", ["data.csv", "data.parquet", "data.npz", "data.npy", "data.csv.gz"])
    def test_files_of_another_kind_are_refused(self, tmp_path, name):
        path = tmp_path / name
        path.write_bytes(b"\xff\xfenothing of this kind" * 9)
        refuses(
            path, "not text in UTF-8|cannot be read as Parquet|not an npz file|not a readable npy|not a complete gzip"
        )

    @pytest.mark.parametrize("name", ["data.parquet", "data.npz", "data.npy", "data.csv.gz"])
    def test_truncated_files_are_refused(self, tmp_path, name):
        path = {"parquet": write_parquet, "npz": write_npz, "npy": write_npy}.get(
            name.partition(".")[2], lambda path: write_csv(path, opener=gzip.open)
        )(tmp_path / name)
        path.write_bytes(path.read_bytes()[:-9])
        refuses(path, "cannot be read|not an npz file|not a readable|not a complete gzip")

    def test_files_without_rows_are_refused_at_once_but_give_no_pieces(self, tmp_path):
        np.save(tmp_path / "data.npy", X[:0])
        np.savez(tmp_path / "data.npz", X=X[:0])
        paths = [
            write_csv(tmp_path / "data.csv", X[:0], Y[:0]),
            write_parquet(tmp_path / "data.parquet", X[:0], Y[:0]),
            text(tmp_path / "data.svm", "# nothing\n"),
            tmp_path / "data.npy",
            tmp_path / "data.npz",
        ]
        for path in paths:
            refuses(path, "has no rows")
            assert not list(open_source(path).chunks(3))


class TestCsv:
    def test_blank_lines_at_the_end_are_no_rows(self, tmp_path):
        assert open_source(text(tmp_path / "data.csv", "a,b\n1,2\n\n \r\n\n")).read().X.tolist() == [[1, 2]]

    def test_blank_lines_among_rows_are_refused(self, tmp_path):
        refuses(text(tmp_path / "data.csv", "a,b\n1,2\n\n3,4\n"), r"line 3: the line is blank, but more rows follow\.")

    def test_the_last_line_needs_no_end(self, tmp_path):
        assert open_source(text(tmp_path / "data.csv", "1,2\n3,4")).read().X.tolist() == [[1, 2], [3, 4]]

    def test_quoted_cells_may_hold_commas_quotes_and_line_breaks(self, tmp_path):
        labels = np.array(["a,b", 'say "x"', "two\nlines", "two\r\nmore", "plain"])
        path = write_csv(tmp_path / "data.csv", labels=labels, names=("a", "b,b", 'c"', "d\nd", "y"))
        for n_rows in (1, 2, 10):
            chunks = list(open_source(path, label="y").chunks(n_rows))
            np.testing.assert_array_equal(np.concatenate([chunk.labels for chunk in chunks]), labels)
        assert open_source(path, label="y").feature_names == ["a", "b,b", 'c"', "d\nd"]

    def test_a_quote_within_a_plain_cell_is_a_character(self, tmp_path):
        chunk = open_source(text(tmp_path / "data.csv", 'x,y\n1,5" disk\n2,b\n'), label="y").read()
        assert chunk.labels.tolist() == ['5" disk', "b"]

    def test_quoted_numbers_and_spaces_are_numbers(self, tmp_path):
        chunk = open_source(text(tmp_path / "data.csv", '"a", b,y\n"1", 2 ,# \n'), label="y").read()
        assert chunk.X.tolist() == [[1, 2]]
        assert chunk.labels.tolist() == ["# "]

    def test_a_label_in_words_needs_no_header(self, tmp_path):
        source = open_source(text(tmp_path / "data.csv", "cat,1,2\ndog,3,4\n"), label="0")
        assert source.feature_names is None
        assert source.read().labels.tolist() == ["cat", "dog"]

    def test_a_word_above_numbers_is_a_name(self, tmp_path):
        source = open_source(text(tmp_path / "data.csv", "0,1,target\n5,6,7\n"), label="-1")
        assert source.feature_names == ["0", "1"]
        assert source.read().labels.tolist() == ["7"]

    def test_names_lose_spaces_around_them(self, tmp_path):
        assert open_source(text(tmp_path / "data.csv", "a , b,y\n1,2,3\n")).feature_names == ["a", "b", "y"]

    def test_names_must_differ(self, tmp_path):
        refuses(
            text(tmp_path / "data.csv", "a,b,a\n1,2,3\n"), r"more than one column 'a'; names of columns must differ\."
        )

    def test_columns_without_a_name_must_be_left_out(self, tmp_path):
        path = text(tmp_path / "data.csv", ",a,y\n0,5,1\n")
        refuses(path, r"column 1 has no name; give it one, or leave it out with --ignore 0\.", label="y")
        assert open_source(path, label="y", ignore=["0"]).read().X.tolist() == [[5]]

    @pytest.mark.parametrize(
        ("cell", "found"), [("x", "'x' is not a number"), ("", "a number is missing"), ("1_0", "'1_0'")]
    )
    @pytest.mark.parametrize("n_rows", [1, 2, 10])
    def test_cells_that_are_no_numbers_are_found(self, tmp_path, cell, found, n_rows):
        path = text(tmp_path / "data.csv", f'a,b,y\n1,2,"u\nv"\n3,{cell},w\nno,no,no\n')
        with pytest.raises(DataError, match=rf"data\.csv, line 4, column 'b': {found}.*; all columns but the label"):
            list(open_source(path, label="y").chunks(n_rows))

    def test_columns_without_names_are_told_by_position(self, tmp_path):
        refuses(text(tmp_path / "data.csv", "1,2\n3,x\n"), "line 2, column '1': 'x' is not a number")

    def test_short_and_long_rows_are_refused(self, tmp_path):
        refuses(
            text(tmp_path / "data.csv", "a,b,c\n1,2,3\n1\n"),
            r"line 3: 1 cells in place of 3, and column 'b' is missing\.",
        )
        refuses(text(tmp_path / "data.csv", "a,b,c\n1,2,3,4\n"), r"line 2: 4 cells in place of 3\.")
        refuses(text(tmp_path / "data.csv", 'a,b,y\n1,"2,3"\n'), r"line 2: 2 cells in place of 3", label="y")

    def test_an_open_quote_does_not_swallow_the_file(self, tmp_path):
        path = text(tmp_path / "data.csv", 'a,y\n1,"oh\n' + "2,x\n" * 5000)
        refuses(path, r"line 2: a quote is opened, but not closed\.", label="y")

    def test_an_empty_file_is_refused(self, tmp_path):
        refuses(text(tmp_path / "data.csv", "\n"), r"data\.csv is empty\.")

    def test_lines_are_read_when_they_are_asked_for(self, tmp_path, monkeypatch):
        path = write_csv(tmp_path / "data.csv", np.ones((1000, 4)), np.ones(1000))
        consumed = itertools.count()
        source = open_source(path, label="y")
        monkeypatch.setattr(
            csv_file, "text_lines", lambda path: (line for line in source_file.text_lines(path) if next(consumed) >= 0)
        )
        chunks = source.chunks(10)
        for n_chunks in (1, 2, 3):
            next(chunks)
            assert int(repr(consumed)[6:-1]) == 1 + 10 * n_chunks

    @pytest.mark.slow
    @given(
        st.lists(st.lists(st.floats(allow_nan=False), min_size=3, max_size=3), min_size=1, max_size=9),
        st.integers(1, 9),
    )
    def test_numbers_are_read_as_they_were_written(self, tmp_path_factory, rows, n_rows):
        path = tmp_path_factory.mktemp("numbers") / "data.csv"
        write_csv(path, np.array(rows)[:, :2], np.array(rows)[:, 2], names=("a", "b", "c"))
        found = np.concatenate([chunk.X for chunk in open_source(path).chunks(n_rows)])
        np.testing.assert_array_equal(found, rows)


class TestNumpy:
    @pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "i1", "u1", "i2", "u2", "?"])
    def test_what_fits_single_precision_stays_there(self, tmp_path, dtype):
        np.save(tmp_path / "data.npy", (X > 0).astype(dtype))
        found = open_source(tmp_path / "data.npy").read().X
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, X > 0)

    @pytest.mark.parametrize("dtype", ["f8", "i4", "u4", "i8", "u8"])
    def test_all_else_becomes_double(self, tmp_path, dtype):
        np.save(tmp_path / "data.npy", (X > 0).astype(dtype))
        assert open_source(tmp_path / "data.npy").read().X.dtype == np.float64

    def test_columns_one_after_the_other_become_rows(self, tmp_path):
        np.save(tmp_path / "data.npy", np.asfortranarray(X))
        chunk = next(open_source(tmp_path / "data.npy").chunks(3))
        assert chunk.X.flags.c_contiguous
        np.testing.assert_array_equal(chunk.X, X[:3])

    def test_pieces_of_an_npy_file_take_the_memory_of_a_piece(self, tmp_path):
        np.save(tmp_path / "data.npy", np.ones((20_000, 50)))
        source = open_source(tmp_path / "data.npy")
        tracemalloc.start()
        try:
            for chunk in source.chunks(100):
                assert chunk.X.base is None
                assert chunk.X.shape == (100, 50)
            assert tracemalloc.get_traced_memory()[1] < 8e5  # the whole is 8 MB
        finally:
            tracemalloc.stop()

    def test_python_objects_are_refused(self, tmp_path):
        objects = np.array([[1, "x"]], object)
        np.save(tmp_path / "data.npy", objects)
        np.savez(tmp_path / "data.npz", X=objects)
        for name in ("data.npy", "data.npz"):
            refuses(tmp_path / name, "holds Python objects, which are not loaded; save it with a numeric or text dtype")

    def test_other_shapes_and_types_are_refused(self, tmp_path):
        np.save(tmp_path / "data.npy", np.zeros((2, 3, 3)))
        refuses(tmp_path / "data.npy", r"one row a sample is needed, but the shape is \(2, 3, 3\)\.")
        np.save(tmp_path / "data.npy", np.array([["a", "b"]]))
        refuses(tmp_path / "data.npy", r"features must be numbers, but their dtype is <U1\.")

    def test_labels_of_npz_files_have_a_key(self, tmp_path):
        np.savez(tmp_path / "data.npz", X=X, y=Y + 1, classes=Y.reshape(-1, 1))
        path = tmp_path / "data.npz"
        assert_same([open_source(path, label="classes").read()])
        assert_same(open_source(path, label="y").chunks(2), labels=Y + 1)
        assert_same([open_source(path).read()], labels=Y + 1)
        refuses(path, r"no key 'z' for the labels; its keys are 'X', 'y', 'classes'\.", label="z")
        refuses(path, r"labels must be one column, but they have the shape \(5, 4\)\.", label="X")

    def test_the_matrix_of_npz_files_must_be_clear(self, tmp_path):
        np.savez(tmp_path / "data.npz", features=X, weights=Y)
        np.testing.assert_array_equal(open_source(tmp_path / "data.npz").read().X, X)
        np.savez(tmp_path / "data.npz", first=X, second=X)
        refuses(tmp_path / "data.npz", r"neither a key 'X' nor a single matrix; its keys are 'first', 'second'\.")

    def test_labels_of_npz_files_must_be_as_many_as_rows(self, tmp_path):
        np.savez(tmp_path / "data.npz", X=X, y=Y[1:])
        refuses(tmp_path / "data.npz", r"has 5 rows, but 4 labels\.")

    @pytest.mark.parametrize("form", ["csr", "csc", "coo"])
    def test_sparse_matrices_of_scipy_are_read(self, tmp_path, form):
        sparse.save_npz(tmp_path / "data.npz", sparse.csr_array(X.astype(np.float32)).asformat(form))
        source = open_source(tmp_path / "data.npz", ignore=["1"])
        assert (source.n_rows, source.n_features) == (5, 3)
        found = [chunk.X for chunk in source.chunks(2)]
        assert {(block.format, block.dtype.name) for block in found} == {("csr", "float32")}
        np.testing.assert_array_equal(sparse.vstack(found).toarray(), X[:, [0, 2, 3]].astype(np.float32))


class TestSvmlight:
    def test_an_index_is_the_number_of_a_column(self, tmp_path):
        chunk = open_source(text(tmp_path / "data.svm", "1 1:5 3:7 # first\n\n-1 2:6\n")).read()
        assert chunk.X.toarray().tolist() == [[0, 5, 0, 7], [0, 0, 6, 0]]
        assert chunk.labels.tolist() == [1, -1]

    def test_rows_are_widened_to_the_model(self, tmp_path):
        path = text(tmp_path / "data.svm", "1 1:5\n2 0:3\n")
        for options in ({"n_features": 6}, {"features": list("abcdef")}):
            source = open_source(path, **options)
            assert source.n_features == 6
            assert [chunk.X.shape for chunk in source.chunks(1)] == [(1, 6), (1, 6)]

    def test_without_a_model_the_width_is_known_after_reading(self, tmp_path):
        source = open_source(text(tmp_path / "data.svm", "1 1:5\n2 3:3\n"))
        assert source.n_features is None
        assert [chunk.X.shape for chunk in source.chunks(1)] == [(1, 2), (1, 4)]
        assert source.read().X.shape == (2, 4)

    def test_an_index_beyond_the_model_is_refused(self, tmp_path):
        path = text(tmp_path / "data.svm", "1 1:5\n2 4:3\n")
        refuses(path, r"has the index 4, but the model was trained with 4 features, counted from 0\.", n_features=4)

    def test_labels_and_names_are_refused(self, tmp_path):
        path = write_svmlight(tmp_path / "data.svm")
        refuses(path, "hold their labels themselves, so that --label has no meaning", label="y")
        refuses(path, "columns of svmlight files have no names, so that --ignore has no meaning", ignore=["0"])

    @pytest.mark.parametrize("row", ["x 1:2", "1 2", "1 a:2", "1 1:a", "1 -1:2", "1 2:1 1:1", "1 99999999999:1"])
    def test_rows_that_cannot_be_read_are_found(self, tmp_path, row):
        path = text(tmp_path / "data.svm", f"1 1:2\n\n{row}\n")
        refuses(path, rf"data\.svm, line 3: '{row}' is not of the form 'label index:value .*' with ascending indices\.")


class TestParquet:
    def test_single_precision_and_small_integers_stay_single(self, tmp_path):
        table = {
            "a": pa.array([1.5], pa.float32()),
            "b": pa.array(np.array([1.5], np.float16)),
            "c": pa.array([7], pa.uint16()),
        }
        pq.write_table(pa.table({**table, "d": pa.array([True])}), tmp_path / "data.parquet")
        chunk = open_source(tmp_path / "data.parquet").read()
        assert chunk.X.dtype == np.float32
        assert chunk.X.tolist() == [[1.5, 1.5, 7, 1]]

    @pytest.mark.parametrize("kind", [pa.float64(), pa.int32(), pa.uint64(), pa.decimal128(21, 2)])
    def test_all_else_becomes_double(self, tmp_path, kind):
        table = pa.table({"a": pa.array([1], pa.float32()), "b": pa.array([3]).cast(kind)})
        pq.write_table(table, tmp_path / "data.parquet")
        chunk = open_source(tmp_path / "data.parquet").read()
        assert chunk.X.dtype == np.float64
        assert chunk.X.tolist() == [[1, 3]]

    @pytest.mark.parametrize("row_group_size", [3, 10, 64])
    @pytest.mark.parametrize("n_rows", [1, 7, 16, 100])
    def test_large_row_groups_give_the_same_rows_through_a_temporary_file(
        self, tmp_path, monkeypatch, row_group_size, n_rows
    ):
        monkeypatch.setattr(parquet, "SMALL_BYTES", 8 * 5 * 8)
        monkeypatch.setattr(parquet, "COLUMNS_AT_ONCE", 2)
        monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 5)
        monkeypatch.setattr(parquet, "STACKED_ROWS", 3)
        X, labels = np.arange(64 * 5.0).reshape(64, 5), np.arange(64)
        path = write_parquet(tmp_path / "data.parquet", X, labels, names=list("edcba"), row_group_size=row_group_size)
        source = open_source(path, label="y")
        assert_same(source.chunks(n_rows), X, labels)
        assert_same([source.read()], X, labels)

    def test_a_full_disk_is_told(self, tmp_path, monkeypatch):
        monkeypatch.setattr(parquet, "SMALL_BYTES", 0)
        monkeypatch.setattr(parquet.tempfile, "TemporaryFile", partial(open, "/dev/full", "r+b", buffering=0))
        refuses(write_parquet(tmp_path / "data.parquet"), "cannot take the .* GB of a row group .*set TMPDIR")

    @pytest.mark.parametrize("small", [0, 2**26])
    def test_missing_values_are_found(self, tmp_path, monkeypatch, small):
        monkeypatch.setattr(parquet, "SMALL_BYTES", small)
        pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "b": [1.0, None, 2.0]}), tmp_path / "data.parquet")
        refuses(tmp_path / "data.parquet", r"column 'b' has 1 missing values in the rows 1 to 3; numbers are needed\.")

    def test_columns_of_text_must_be_left_out(self, tmp_path):
        path = tmp_path / "data.parquet"
        pq.write_table(pa.table({"a": [1.0], "name": ["x"]}), path)
        refuses(path, "column 'name' holds string, not numbers; leave it out .--ignore 'name', or ignore=")
        assert open_source(path, ignore=["name"]).read().X.tolist() == [[1]]

    @pytest.mark.parametrize(
        "labels",
        [
            ["x", "yy", "x"],
            [True, False, True],
            [1.5, 2.5, 3.5],
            pa.array(["x", "yy", "x"]).dictionary_encode(),
            pa.array([1.5, 2.5, 3.5]).cast(pa.decimal128(5, 2)),
        ],
    )
    def test_labels_of_any_kind_are_read(self, tmp_path, labels):
        pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "y": labels}), tmp_path / "data.parquet")
        expected = labels.to_pylist() if isinstance(labels, pa.Array) else labels
        source = open_source(tmp_path / "data.parquet", label="y")
        assert source.read().labels.tolist() == expected
        assert [chunk.labels.tolist() for chunk in source.chunks(2)] == [expected[:2], expected[2:]]

    def test_the_index_of_pandas_is_no_feature(self, tmp_path):
        pq.write_table(pa.table({"a": [1.0], "__index_level_0__": [7]}), tmp_path / "data.parquet")
        assert open_source(tmp_path / "data.parquet").feature_names == ["a"]
        assert open_source(tmp_path / "data.parquet", label="__index_level_0__").read().labels.tolist() == [7]

    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float32(), 4), pa.list_(pa.int16())]
    )
    def test_one_column_of_lists_is_a_matrix(self, tmp_path, kind):
        rows = (X * 4).round()
        path = tmp_path / "data.parquet"
        lists = pa.array(rows.astype(int).tolist() if pa.types.is_integer(kind.value_type) else rows.tolist(), kind)
        pq.write_table(pa.table({"y": Y, "vector": lists}), path)
        source = open_source(path, label="y", n_features=4)
        assert (source.n_rows, source.n_features, source.feature_names) == (5, 4, None)
        assert_same(source.chunks(2), rows)
        assert source.read().X.dtype == (np.float64 if kind.value_type == pa.float64() else np.float32)

    def test_lists_must_be_complete_and_equally_long(self, tmp_path):
        path = tmp_path / "data.parquet"
        for lists in ([[1.0, 2.0], [3.0, 4.0], [5.0]], [[1.0, 2.0], [3.0, 4.0], None]):
            pq.write_table(pa.table({"vector": lists}), path)
            refuses(path, r"row 3: column 'vector' must hold lists of 2 numbers, as in the first row\.")
        pq.write_table(pa.table({"vector": [[1.0, 2.0], [3.0, None]]}), path)
        refuses(path, "column 'vector' has 1 missing values in the rows 1 to 2")
        pq.write_table(pa.table({"vector": [["a"]]}), path)
        refuses(path, "column 'vector' holds string, not numbers")
        pq.write_table(pa.table({"vector": [[1.0, 2.0]]}), path)
        refuses(path, "has 2 features, but the model was trained with 3", n_features=3)

    def test_pyarrow_is_asked_for_where_it_is_missing(self, tmp_path, monkeypatch):
        path = write_parquet(tmp_path / "data.parquet")
        for module in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
            monkeypatch.setitem(sys.modules, module, None)
        refuses(path, r"Parquet files need pyarrow: pip install 'histogp\[parquet\]'\.")
