"""Labels get the type they mean, and files of labels fit the data."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from histogp.cli.labels import like, match, numeric, read_labels, typed
from histogp.exceptions import DataError


def same(found, expected):
    expected = np.array(expected)
    assert found.dtype.kind == expected.dtype.kind
    assert found.tolist() == expected.tolist()


def text(path, content):
    path.write_text(content, newline="")
    return path


class TestTyped:
    @given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
    def test_text_of_integers_means_integers(self, integers):
        same(typed(np.array([str(integer) for integer in integers])), integers)

    @pytest.mark.parametrize("odd", ["007", "+1", "-0", "1.0", "1_0", "x", "9" * 30, "é"])
    def test_other_text_stays_text(self, odd):
        same(typed(np.array(["1", odd])), ["1", odd])

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_whole_floats_mean_integers(self, dtype):
        found = typed(np.array([1, -2, 0], dtype))
        assert found.dtype == np.int64
        same(found, [1, -2, 0])

    @pytest.mark.parametrize("labels", [[1.0, 2.5], [1.0, np.inf], [1.0, 1e300]])
    def test_other_floats_stay_floats(self, labels):
        same(typed(np.array(labels)), labels)

    @pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64])
    def test_integers_and_truth_values_stay_as_they_are(self, dtype):
        assert typed(np.array([1, 0], dtype)).dtype == dtype

    @pytest.mark.parametrize("labels", [["b", "a"], [3, 1], [True, False]])
    def test_objects_become_what_they_are(self, labels):
        same(typed(np.array(labels, object)), labels)

    def test_bytes_are_text(self):
        same(typed(np.array(["é".encode(), b"b"])), ["é", "b"])

    @pytest.mark.parametrize(
        "labels", [np.array(["a", "", ""]), np.array([1, np.nan]), np.array(["a", None], object), np.array([b"a", b""])]
    )
    def test_missing_labels_are_refused(self, labels):
        with pytest.raises(DataError, match=r"^The label of row 2 is missing\.$"):
            typed(labels)

    def test_other_types_are_refused(self):
        with pytest.raises(
            DataError, match=r"^Labels must be numbers or text, but they are of type datetime64\[D\]\.$"
        ):
            typed(np.array(["2020-01-01"], "M8[D]"))


class TestNumeric:
    @pytest.mark.parametrize("labels", [[1, 2], [1.5, 2.0], ["1.5", " 2e3"], [True, False], [b"1", b"2"]])
    def test_numbers_in_any_form_become_floats(self, labels):
        for array in (np.array(labels), np.array(labels, object)):
            found = numeric(array)
            assert found.dtype == np.float64
            assert found.tolist() == [float(label) for label in labels]

    @pytest.mark.parametrize(
        ("labels", "found"),
        [
            (np.array(["1", "x", "y"]), "'x'"),
            (np.array(["1", ""]), "''"),
            (np.array(["1", "nan"]), "'nan'"),
            (np.array([1, np.nan]), "nan"),
            (np.array([1, np.inf], np.float32), "inf"),
            (np.array([1, None], object), "None"),
            (np.array(["1", None], object), "None"),
        ],
    )
    def test_all_else_is_refused(self, labels, found):
        with pytest.raises(DataError, match=rf"^The target of row 2 is {found}, but finite numbers are needed\.$"):
            numeric(labels)


class TestFiles:
    @pytest.mark.parametrize("labels", [[3, 1, 2], [0.5, 1.5, -2.0], ["b", "a", "c, d"]])
    @pytest.mark.parametrize("name", ["y.npy", "column.npy", "y.npz", "other.npz", "y.parquet", "y.csv", "y.txt"])
    def test_every_format_holds_labels(self, tmp_path, name, labels):
        path, array = tmp_path / name, np.array(labels)
        if path.suffix == ".npy":
            np.save(path, array.reshape(-1, 1) if name.startswith("column") else array)
        elif path.suffix == ".npz":
            np.savez(path, **({"other": array} if name.startswith("other") else {"y": array, "z": array[:1]}))
        elif path.suffix == ".parquet":
            pq.write_table(pa.table({"any": labels}), path)
        else:
            quote = '"' if path.suffix == ".csv" else ""
            text(path, "".join(f"{quote}{label}{quote}\n" for label in labels))
        found = read_labels(path)
        same(typed(found), labels)
        if array.dtype.kind != "U":
            np.testing.assert_array_equal(numeric(found), labels)

    @pytest.mark.parametrize("name", ["y.csv", "y.txt"])
    def test_text_may_come_from_windows_with_blank_lines_at_the_end(self, tmp_path, name):
        path = text(tmp_path / name, "\ufeffa\r\n\r\nb\r\n\r\n\r\n")
        assert read_labels(path).tolist() == ["a", "", "b"]

    def test_lines_of_plain_text_are_labels_as_they_stand(self, tmp_path):
        assert read_labels(text(tmp_path / "y.txt", 'a,b\n"c"\n')).tolist() == ["a,b", '"c"']

    def test_the_header_of_a_text_file_is_dropped_if_it_is_one_row_too_many(self, tmp_path):
        path = text(tmp_path / "y.csv", "label\n1\n2\n")
        assert match(read_labels(path), 2, path).tolist() == ["1", "2"]
        assert match(read_labels(path), 3, path).tolist() == ["label", "1", "2"]

    def test_other_counts_are_refused(self, tmp_path):
        path = text(tmp_path / "y.csv", "label\n1\n2\n")
        for n_rows in (1, 4):
            with pytest.raises(DataError, match=rf"y\.csv has 3 labels, but the data have {n_rows} rows\.$"):
                match(read_labels(path), n_rows, path)
        with pytest.raises(DataError, match=r"y\.npy has 3 labels, but the data have 2 rows\.$"):
            match(np.array(["a", "b", "c"]), 2, "y.npy")

    def refuses(self, path, sentence):
        with pytest.raises(DataError, match=sentence):
            read_labels(path)

    def test_more_than_one_column_is_refused(self, tmp_path):
        self.refuses(text(tmp_path / "y.csv", "a\nb,c\n"), r"line 2: one label a line is needed, but 2 cells found\.$")
        np.save(tmp_path / "y.npy", np.zeros((3, 2)))
        self.refuses(tmp_path / "y.npy", r"labels must be one column, but they have the shape \(3, 2\)\.$")
        np.savez(tmp_path / "y.npz", a=[1], b=[2])
        self.refuses(tmp_path / "y.npz", r"neither a key 'y' nor a single array; its keys are 'a', 'b'\.$")
        pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "y.parquet")
        self.refuses(tmp_path / "y.parquet", r"must have one column, the labels, but it has 2\.$")

    def test_unreadable_files_are_refused(self, tmp_path):
        self.refuses(tmp_path / "y.csv", r"y\.csv cannot be read: no such file or directory\.$")
        self.refuses(
            text(tmp_path / "y.dat", "1\n"), r"no known ending; known are \.csv, \.txt, \.npy, \.npz, \.parquet\.$"
        )
        np.save(tmp_path / "y.npy", np.array(["a", None], object))
        self.refuses(tmp_path / "y.npy", "holds Python objects, which are not loaded")

    def test_pyarrow_is_asked_for_where_it_is_missing(self, tmp_path, monkeypatch):
        pq.write_table(pa.table({"y": [1]}), tmp_path / "y.parquet")
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        self.refuses(tmp_path / "y.parquet", r"pip install 'histogp\[parquet\]'")


def test_text_with_fractions_is_real_numbers_which_classifiers_refuse():
    assert typed(np.array(["0.5", "1", "2e3"])).dtype == np.float64
    for names in (["1.0", "2.0"], ["007", "010"], ["nan", "1.5"], ["a", "1.5"]):
        np.testing.assert_array_equal(typed(np.array(names)), names)


@pytest.mark.parametrize(
    ("classes", "labels", "expected"),
    [
        (np.array([0.0, 1.0]), np.array(["0", "1"]), [0.0, 1.0]),
        (np.array([False, True]), np.array([0, 1]), [False, True]),
        (np.array([False, True]), np.array(["True", "False"]), [True, False]),
        (np.array(["007", "1.50", "x"]), np.array(["1.50", " x "]), ["1.50", "x"]),
        (np.array(["1", "2"], object), np.array([2, 1]), ["2", "1"]),
        (np.array([1, 2]), np.array([2.0, 3.0]), [2, 3]),
        (np.array(["a", "b"]), np.array(["b", "new"]), ["b", "new"]),
    ],
)
def test_labels_meet_the_classes_that_they_mean(classes, labels, expected):
    assert like(labels, classes).tolist() == expected


def test_a_word_among_numbers_is_named():
    with pytest.raises(DataError, match=r"The label 'zebra' of row 2 is none of the model's classes"):
        like(np.array(["1", "zebra"]), np.array([1, 2]))


def test_spaces_around_labels_do_not_count():
    same(typed(np.array([" cat", "dog "])), ["cat", "dog"])
