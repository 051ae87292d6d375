"""Predictions arrive complete and unchanged, or not at all."""

import csv
import io
import json
import os
import stat
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from histogp.cli import sinks
from histogp.cli.sinks import open_sink
from histogp.exceptions import DataError

LABELS = np.array(["cat", "a,b", 'say "x"', "two\nlines", "two\r\nmore", "", "é%s", " b "])
SCORES = np.array([0.1, 1 / 3, 1e-300, -2.0, 5e15, 1e16, 0.0, 123456.789])
ROWS = {"label": LABELS, "score: 100%": SCORES}
ENDINGS = [".csv", ".parquet", ".jsonl", ".ndjson"]


def write(path, *pieces, columns=None):
    with open_sink(path, list(columns or pieces[0])) as sink:
        for piece in pieces:
            sink.write(piece)
    return path


def from_csv(content):
    rows = list(csv.reader(io.StringIO(content, newline="")))
    assert {len(row) for row in rows} == {len(rows[0])}
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    content = path.read_bytes().decode()
    if path.suffix == ".csv":
        return from_csv(content)
    rows = [json.loads(line, parse_constant=pytest.fail) for line in content.rstrip("\n").split("\n")]
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("cuts", [[], [3], [0, 1, 8]])
def test_every_format_gives_back_what_was_written(tmp_path, ending, cuts):
    pieces = [
        dict(zip(ROWS, parts, strict=True))
        for parts in zip(*(np.split(column, cuts) for column in ROWS.values()), strict=True)
    ]
    found = read(write(tmp_path / f"out{ending}", *pieces))
    assert list(found) == list(ROWS)
    assert found["label"] == LABELS.tolist()
    assert list(map(float, found["score: 100%"])) == SCORES.tolist()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    "labels",
    [np.arange(3), np.arange(3, dtype=np.uint8), np.array(["b", "a", "b"], object), np.array([True, False, True])],
)
def test_labels_of_any_kind_are_written(tmp_path, ending, labels):
    found = read(write(tmp_path / f"out{ending}", {"y": labels}))["y"]
    assert found == (list(map(str, labels.tolist())) if ending == ".csv" else labels.tolist())


@given(st.lists(st.one_of(st.floats(), st.floats(width=32)), min_size=1), st.sampled_from([np.float64, np.float32]))
def test_floats_come_back_the_same(numbers, dtype):
    with np.errstate(over="ignore"):
        column = np.array(numbers).astype(dtype)
    written = io.StringIO()
    sinks._csv_sink(written.write, ["x"]).write({"x": column})
    np.testing.assert_array_equal(np.array(from_csv(written.getvalue())["x"], dtype), column)


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(), st.text()), min_size=1), st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_any_text_comes_back_from_csv_the_same(rows, names):
    columns = [[row[k] for row in rows] for k in (0, 1)]
    written = io.StringIO(newline="")
    sink = sinks._csv_sink(written.write, names)
    sink.write({name: np.array(column, object) for name, column in zip(names, columns, strict=True)})
    assert list(csv.reader(io.StringIO(written.getvalue(), newline=""))) == [names, *map(list, rows)]


def test_single_precision_is_not_padded(tmp_path):
    assert read(write(tmp_path / "out.csv", {"x": np.array([0.1], np.float32)}))["x"] == ["0.1"]


def test_what_json_cannot_say_is_null(tmp_path):
    path = write(tmp_path / "out.jsonl", {"x": np.array([1.5, np.nan, np.inf]), "y": np.array(["a", None, 3], object)})
    assert read(path) == {"x": [1.5, None, None], "y": ["a", None, 3]}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_file_without_rows_has_its_columns(tmp_path, ending):
    assert read(write(tmp_path / f"out{ending}", columns=["a", "b"])) == {"a": [], "b": []}


def test_parquet_gathers_small_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "GROUP_ROWS", 10)
    path = write(tmp_path / "out.parquet", *[{"x": np.arange(3.0)}] * 9)
    metadata = pq.ParquetFile(path).metadata
    assert [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)] == [12, 12, 3]


def test_columns_must_be_equally_long(tmp_path):
    with pytest.raises(ValueError, match=r"shorter|longer"):
        write(tmp_path / "out.csv", {"x": np.arange(2), "y": np.arange(3)})


@pytest.mark.parametrize("path", [None, "-"])
def test_without_a_path_csv_goes_to_standard_output(capsys, path):
    write(path, {"y": np.array(["a,b", "c"]), "p": np.array([0.5, 1.0])})
    assert capsys.readouterr().out == 'y,p\n"a,b",0.5\nc,1.0\n'


def test_a_broken_pipe_is_for_the_caller(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    pipe = open(writer, "w")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", pipe)
    with pytest.raises(BrokenPipeError):
        write(None, {"y": np.arange(3)})
    with pytest.raises(BrokenPipeError):
        pipe.close()


class TestReplacing:
    @pytest.mark.parametrize("ending", ENDINGS)
    @pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
    @pytest.mark.parametrize("n_pieces", [0, 1, 3])
    def test_a_failure_leaves_the_folder_as_it_was(self, tmp_path, monkeypatch, ending, failure, n_pieces):
        monkeypatch.setattr(sinks, "GROUP_ROWS", 5)
        path = tmp_path / f"out{ending}"
        path.write_text("old")

        def fail(path):
            with open_sink(path, ["x"]) as sink:
                for _ in range(n_pieces):
                    sink.write({"x": np.arange(3)})
                raise failure

        for target in (path, tmp_path / f"new{ending}"):
            with pytest.raises(failure):
                fail(target)
        assert os.listdir(tmp_path) == [path.name]
        assert path.read_text() == "old"

    def test_the_file_appears_when_all_is_written(self, tmp_path):
        path = tmp_path / "out.csv"
        path.write_text("old")
        with open_sink(path, ["x"]) as sink:
            sink.write({"x": np.arange(3)})
            assert path.read_text() == "old"
        assert path.read_text() == "x\n0\n1\n2\n"
        assert os.listdir(tmp_path) == ["out.csv"]

    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link.csv").symlink_to(tmp_path / "folder" / "out.csv")
        write(tmp_path / "link.csv", {"x": np.arange(1)})
        assert (tmp_path / "link.csv").is_symlink()
        assert (tmp_path / "folder" / "out.csv").read_text() == "x\n0\n"

    def test_permissions_are_those_of_any_new_file_or_of_the_old_one(self, tmp_path):
        (tmp_path / "plain").touch()
        path = write(tmp_path / "out.csv", {"x": np.arange(1)})
        assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
        path.chmod(0o640)
        assert stat.S_IMODE(write(path, {"x": np.arange(1)}).stat().st_mode) == 0o640

    def test_what_cannot_be_written_is_told(self, tmp_path):
        for path, sentence in [
            (tmp_path / "none" / "out.csv", r"There is no folder '.*/none'\.$"),
            (tmp_path / ("x" * 250 + ".csv"), r"cannot be written: file name too long\.$"),
            (tmp_path / "out.xlsx", r"no known ending; known are \.csv, \.parquet, \.jsonl, \.ndjson\.$"),
        ]:
            with pytest.raises(DataError, match=sentence):
                write(path, {"x": np.arange(1)})
        (tmp_path / "folder.csv").mkdir()
        with pytest.raises(DataError, match=r"folder\.csv' is not a file that can be replaced\.$"):
            write(tmp_path / "folder.csv", {"x": np.arange(1)})
        assert os.listdir(tmp_path) == ["folder.csv"]

    def test_pyarrow_is_asked_for_where_it_is_missing(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(DataError, match=r"pip install 'histogp\[parquet\]'"):
            write(tmp_path / "out.parquet", {"x": np.arange(1)})
        assert not os.listdir(tmp_path)
