"""``histogp fit --stream``: what the estimators learn from the same pieces, also after an interrupt."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles import alike, histograms
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import histogp
from cli.colors import FEATURES, write_csv
from histogp.cli import stream
from histogp.feature_maps import AdditiveChi2Map
from histogp.sources.source import open_source
from histogp.streaming import StreamingRidge, StreamingRidgeClassifier

N, D = 90, 6
X = histograms(N, D)
CODES = np.argmax(X[:, 1:4], axis=1)
NAMES = np.array(["red", "green, or so", "blue"])[CODES]
PARTS = np.array_split(np.arange(N), 3)
ROWS = 11  # in a piece
LABEL = ("--label", "color")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(stream, "CHUNK_BYTES", 8 * 3 * D * ROWS)


def fit(run, *arguments, data="part*.csv", output="m.histogp", code=0, **options):
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    return run("fit", data, "--stream", "--kernel", "chi2", *arguments, *given, "-o", output, code=code)


def write_parts(labels=NAMES):
    for k, rows in enumerate(PARTS):
        write_csv(f"part{k}.csv", X[rows], labels[rows])


def write(kind, k, rows):
    name = f"part{k}.{kind}"
    if kind == "csv":
        write_csv(name, X[rows], CODES[rows])
    elif kind == "parquet":
        columns = dict(zip(FEATURES, X[rows].T, strict=True))
        pq.write_table(pa.table({**columns, "color": CODES[rows]}), name, row_group_size=9)
    elif kind == "svm":
        dump_svmlight_file(X[rows], CODES[rows], name, zero_based=True)
    elif k == 1:
        matrix = sparse.csr_array(X[rows])
        arrays = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
        np.savez(name, format=b"csr", y=CODES[rows], **arrays)
    else:
        np.savez(name, X=X[rows], y=CODES[rows])


def pieces(n_parts=3):
    """The rows that the command learns together: pieces do not span files."""
    return [rows[begin : begin + ROWS] for rows in PARTS[:n_parts] for begin in range(0, len(rows), ROWS)]


def learned(make, y, n_parts=3, **options):
    model = make(AdditiveChi2Map(n_terms=3), random_state=0, **options)
    for rows in pieces(n_parts):
        model.partial_fit(X[rows], y[rows])
    return model


def assert_same(model, other):
    assert model.n_samples_seen_ == other.n_samples_seen_
    for mine, theirs in zip(model._learned.parts, other._learned.parts, strict=True):
        for name, array in mine.arrays().items():
            alike(array, theirs.arrays()[name])
    vars(model).pop("feature_names_in_", None)
    vars(other).pop("feature_names_in_", None)
    alike(model.predict(X), other.predict(X))
    assert model.alpha_ == pytest.approx(other.alpha_, rel=1e-6)


@pytest.mark.portable
@pytest.mark.parametrize("kind", ["csv", "parquet", "svm", "npz"])
def test_files_of_every_format_give_what_the_estimator_learns_from_the_same_pieces(kind, run):
    for k, rows in enumerate(PARTS):
        write(kind, k, rows)
    named = kind in ("csv", "parquet")
    said = fit(run, *(LABEL if named else ()), data=f"part*.{kind}")
    model = histogp.load("m.histogp")
    assert "90 rows, 6 features, 3 classes" in said
    assert model.classes_.dtype == np.int64
    assert getattr(model, "feature_names_in_", np.array([])).tolist() == (FEATURES if named else [])
    expected = StreamingRidgeClassifier(AdditiveChi2Map(n_terms=3), random_state=0)
    for k in range(3):
        source = open_source(f"part{k}.{kind}", label="color" if named else None, n_features=D)
        for chunk in source.chunks(ROWS):
            expected.partial_fit(chunk.X, chunk.labels.astype(int))
    assert_same(model, expected)
    close = learned(StreamingRidgeClassifier, CODES)
    np.testing.assert_allclose(model.decision_function(X), close.decision_function(X), atol=1e-5)
    assert not os.path.exists("m.histogp.part")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("--alpha", "0.5"), {"alpha": 0.5}),
        (("--alpha", "loo"), {"alpha": "loo"}),
        (("--alpha", "gcv", "--pca", "5"), {"alpha": "gcv", "pca_components": 5}),
        (("--alpha", "evidence", "--class-weight", "balanced"), {"alpha": "evidence", "class_weight": "balanced"}),
    ],
)
def test_options_reach_the_estimator(arguments, options, run):
    write_parts()
    fit(run, *LABEL, *arguments)
    assert_same(histogp.load("m.histogp"), learned(StreamingRidgeClassifier, NAMES, **options))


def test_regression(run):
    write_parts(X[:, 1] * 10)
    assert "regression" in fit(run, *LABEL, "--task", "regression")
    assert_same(histogp.load("m.histogp"), learned(StreamingRidge, X[:, 1] * 10))


def test_components_seed_and_columns_to_leave_out(run):
    write_parts()
    fit(run, *LABEL, "--terms", "2", "--seed", "7", "--ignore", "f5", "--jobs", "1")
    model = histogp.load("m.histogp")
    assert model.feature_map.n_terms == 2
    assert model.random_state == 7
    assert model.n_features_in_ == 5


def test_classes_may_come_late_and_numbers_among_texts_stay_texts(run):
    labels = np.where(np.arange(N) < 40, "x", CODES.astype(str))
    write_parts(labels)
    fit(run, *LABEL)
    np.testing.assert_array_equal(histogp.load("m.histogp").classes_, np.unique(labels))


class KilledError(Exception):
    """Stands for a process that is gone."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "class_weight"), [("csv", None), ("parquet", "balanced")])
def test_a_command_that_was_killed_after_any_piece_goes_on_to_the_same_bits(kind, class_weight, run, monkeypatch):
    for k, rows in enumerate(PARTS):
        write(kind, k, rows)
    options = {"class_weight": class_weight} if class_weight else {}
    fit(run, *LABEL, data=f"part*.{kind}", output="whole.histogp", **options)
    whole = histogp.load("whole.histogp")
    learn = StreamingRidgeClassifier.partial_fit
    for n_learned in range(len(pieces())):
        left = [n_learned]

        def dying(self, X, y, left=left):
            if not left[0]:
                raise KilledError
            left[0] -= 1
            return learn(self, X, y)

        with monkeypatch.context() as patch:
            patch.setattr(StreamingRidgeClassifier, "partial_fit", dying)
            with pytest.raises(KilledError):
                fit(run, *LABEL, data=f"part*.{kind}", checkpoint_seconds=0, **options)
        assert not os.path.exists("m.histogp")
        assert os.path.exists("m.histogp.part") == (n_learned > 0)
        said = fit(run, *LABEL, "--resume", data=f"part*.{kind}", **options)
        n_rows = sum(len(rows) for rows in pieces()[:n_learned])
        assert (f"{n_rows} rows were learned before" in said) == (n_learned > 0)
        assert not os.path.exists("m.histogp.part")
        assert_same(histogp.load("m.histogp"), whole)
        os.remove("m.histogp")


def test_a_command_that_dies_while_it_solves_has_learned_everything(run, monkeypatch):
    write_parts()

    def dying(self):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(StreamingRidgeClassifier, "_solve", dying)
        with pytest.raises(KilledError):
            fit(run, *LABEL, checkpoint_seconds=1000)
    assert "90 rows were learned before" in fit(run, *LABEL, "--resume")
    assert_same(histogp.load("m.histogp"), learned(StreamingRidgeClassifier, NAMES))


KILLED = """
import os, signal, sys
from histogp.cli import stream
from histogp.cli.main import main
from histogp.streaming import StreamingRidgeClassifier
stream.CHUNK_BYTES = int(sys.argv[1])
learn, calls = StreamingRidgeClassifier.partial_fit, []
def dying(self, X, y):
    calls.append(len(y))
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return learn(self, X, y)
StreamingRidgeClassifier.partial_fit = dying
main(sys.argv[2:])
"""


@pytest.mark.slow
def test_a_process_that_is_really_killed(run):
    write_parts()
    command = "fit part*.csv --stream --kernel chi2 --label color -o m.histogp --checkpoint-seconds 0"
    arguments = [sys.executable, "-c", KILLED, str(stream.CHUNK_BYTES), *command.split()]
    done = subprocess.run(arguments, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert not os.path.exists("m.histogp")
    assert "rows were learned before" in fit(run, *LABEL, "--resume")
    assert_same(histogp.load("m.histogp"), learned(StreamingRidgeClassifier, NAMES))
    assert not [name for name in os.listdir() if "part" in name and not name.endswith(".csv")]


@pytest.fixture
def checkpoint(run, monkeypatch):
    """What an interrupted command has left behind."""
    write_parts()

    def dying(self):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(StreamingRidgeClassifier, "_solve", dying)
        with pytest.raises(KilledError):
            fit(run, *LABEL)


@pytest.mark.usefixtures("checkpoint")
def test_other_files_or_columns_are_not_gone_on_with(run):
    assert "other files or columns" in fit(run, *LABEL, "--resume", data="part0.csv", code=2)
    assert "other files or columns" in fit(run, *LABEL, "--resume", "--ignore", "f1", code=2)
    assert "other files or columns" in fit(run, "--label", "6", "--resume", code=2)
    write_csv("part0.csv", X[PARTS[0]] * 10, NAMES[PARTS[0]])
    assert "other files or columns" in fit(run, *LABEL, "--resume", code=2)
    assert os.path.exists("m.histogp.part")
    assert not os.path.exists("m.histogp")


@pytest.mark.usefixtures("checkpoint")
@pytest.mark.parametrize(
    "options",
    [("--terms", "2"), ("--alpha", "1"), ("--pca", "3"), ("--seed", "1"), ("--class-weight", "balanced")],
)
def test_other_options_are_not_gone_on_with(options, run):
    assert "written with other options" in fit(run, *LABEL, *options, "--resume", code=2)


@pytest.mark.usefixtures("checkpoint")
def test_a_damaged_checkpoint_is_refused(run, tmp_path):
    content = (tmp_path / "m.histogp.part").read_bytes()
    (tmp_path / "m.histogp.part").write_bytes(content[:-9])
    assert "not an intact histogp model" in fit(run, *LABEL, "--resume", code=2)


@pytest.mark.usefixtures("checkpoint")
def test_without_resume_it_begins_anew(run):
    assert "learned before" not in fit(run, *LABEL)
    assert not os.path.exists("m.histogp.part")
    assert_same(histogp.load("m.histogp"), learned(StreamingRidgeClassifier, NAMES))


def test_resume_without_a_checkpoint_begins_at_the_beginning(run):
    write_parts()
    assert "learned before" not in fit(run, *LABEL, "--resume")
    assert_same(histogp.load("m.histogp"), learned(StreamingRidgeClassifier, NAMES))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--kernel hik", "--stream needs --kernel chi2"),
        ("--one-class", "--one-class is not for --stream"),
        ("--eta 2", "--eta is not"),
        ("--optimize gradient", "--optimize is not"),
        ("--ard", "--ard is not"),
        ("--labels train.csv", "--labels is not"),
        ("--predict-only", "--predict-only is not"),
        ("--variance sampled", "--variance is not"),
        ("--criterion mean", "--criterion is not"),
        ("--contamination 0.1", "--contamination is not"),
        ("--prediction quantized", "--prediction is not"),
        ("--noise 1", "--noise is not"),
        ("--solver cg", "--solver is not"),
        ("--tol 0.1", "--tol is not"),
        ("--max-iter 9", "--max-iter is not"),
        ("--preconditioner-rank 9", "--preconditioner-rank is not"),
        ("--n-bins 9", "--n-bins is not"),
        ("--class-weight balanced-ovr", "balanced-ovr is not for --stream"),
        ("--class-weight balanced --task regression", "--class-weight needs --task classification"),
        ("--alpha much", "neither a number nor"),
        ("--alpha -1", "alpha"),
        ("--terms 0", "--terms must be 1 or more"),
        ("--pca 0", "--pca must be 1 or more"),
        ("--pca 99", "more than the 18 features"),
        ("--task regression", "target of row 1 is"),
        ("--label price", "no column 'price'"),
    ],
)
def test_what_does_not_go_with_stream_is_refused_by_a_sentence(options, sentence, run):
    write_parts()
    said = fit(run, *LABEL, *options.split(), code=2)
    assert sentence in said
    assert "Traceback" not in said
    assert not os.path.exists("m.histogp")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [("none*.csv", "There is no file"), ("empty.csv", "no rows"), ("one.csv", "one class so far, 'red'")],
)
def test_data_that_do_not_do_are_refused_by_a_sentence(data, sentence, run):
    write_csv("empty.csv", X[:0], NAMES[:0])
    write_csv("one.csv", X[:5], ["red"] * 5)
    said = fit(run, *LABEL, data=data, code=2)
    assert sentence in said
    assert not os.path.exists("m.histogp")


def test_other_data_that_do_not_do(run):
    write_parts()
    assert "has no labels of its own" in fit(run, "--ignore", "color", code=2)
    write_csv("part1.csv", X[:5, :5], NAMES[:5], FEATURES[:5])
    assert "lacks 1 of the 6 columns" in fit(run, *LABEL, code=2)
    write_parts(X[:, 1])
    assert "use --task regression" in fit(run, *LABEL, code=2)
    np.savez("data.npz", X=X, y=CODES)
    before = Path("data.npz").read_bytes()
    assert "is an input of this command" in fit(run, data="data.npz", output="data.npz", code=2)
    assert Path("data.npz").read_bytes() == before


def test_resume_and_pca_are_for_stream(run):
    for option in (["--resume"], ["--pca", "3"]):
        assert "needs --stream" in run("fit", "train.csv", *LABEL, *option, "-o", "m", code=2)


@pytest.fixture
def streamed(run):
    write_parts()
    fit(run, *LABEL)
    write_csv("new.csv", X[:20, ::-1], NAMES[:20], FEATURES[::-1])
    return learned(StreamingRidgeClassifier, NAMES)


def test_predict_finds_columns_by_name_and_writes_scores(run, streamed):
    table = list(csv.DictReader(run("predict", "m.histogp", "new.csv", "--scores", "--ignore", "color").splitlines()))
    assert [row["prediction"] for row in table] == streamed.predict(X[:20]).tolist()
    scores = [[float(row[f"score_{label}"]) for label in streamed.classes_] for row in table]
    np.testing.assert_allclose(scores, streamed.decision_function(X[:20]), rtol=1e-12)


def test_two_classes_have_one_score(run):
    np.savez("two.npz", X=X, y=CODES == 1)
    fit(run, data="two.npz")
    lines = run("predict", "m.histogp", "two.npz", "--scores").splitlines()
    assert lines[0] == "prediction,score_True"
    assert all((label == "True") == (float(score) > 0) for label, score in (line.split(",") for line in lines[1:]))


def test_evaluate_measures(run, streamed):
    accuracy = np.mean(streamed.predict(X[:20]) == NAMES[:20])
    assert f"accuracy                 {accuracy:.4f}" in run("evaluate", "m.histogp", "new.csv", *LABEL)
    scores = json.loads(run("evaluate", "m.histogp", "new.csv", *LABEL, "--json"))
    assert scores["accuracy"] == accuracy
    assert scores["rows"] == 20


def test_regression_from_fit_to_scores(run):
    write_parts(X[:, 1] * 10)
    fit(run, *LABEL, "--task", "regression")
    model = learned(StreamingRidge, X[:, 1] * 10)
    values = run("predict", "m.histogp", "part0.csv", "--ignore", "color").splitlines()
    np.testing.assert_allclose(np.array(values[1:], float), model.predict(X[PARTS[0]]), rtol=1e-12)
    scores = json.loads(run("evaluate", "m.histogp", "part0.csv", *LABEL, "--json"))
    assert scores["R2"] == pytest.approx(model.score(X[PARTS[0]], X[PARTS[0], 1] * 10))
    assert "30 rows more, 120 in all" in run("update", "m.histogp", "part0.csv", *LABEL)
    assert "--scores is for" in run("predict", "m.histogp", "part0.csv", "--ignore", "color", "--scores", code=2)


def test_inspect_tells_what_is_in_the_file(run, streamed):
    facts = json.loads(run("inspect", "m.histogp", "--json"))
    assert facts["class"] == "StreamingRidgeClassifier"
    assert facts["samples"] == N
    assert facts["features"] == D
    assert facts["labels"] == streamed.classes_.tolist()
    assert facts["feature names"] == FEATURES
    assert len(facts["sha256"]) == 64
    text = run("inspect", "m.histogp")
    for part in ("AdditiveChi2Map()", "penalty", "auto", "principal components", "written by"):
        assert part in text


def test_update_goes_on_learning_also_new_classes(run, streamed):
    write_csv("more.csv", X[:10] * 2, ["violet"] * 10)
    said = run("update", "m.histogp", "more.csv", *LABEL, "-o", "newer.histogp")
    assert "10 rows more, 100 in all; new: violet" in said
    model = histogp.load("newer.histogp")
    assert list(model.feature_names_in_) == FEATURES
    assert_same(model, streamed.partial_fit(X[:10] * 2, ["violet"] * 10))
    run("update", "m.histogp", "more.csv", *LABEL)
    np.testing.assert_array_equal(histogp.load("m.histogp").classes_, model.classes_)


@pytest.mark.parametrize(
    "command",
    [
        "novelty m.histogp new.csv",
        "query m.histogp new.csv",
        "predict m.histogp new.csv --proba",
        "predict m.histogp new.csv --variance precise",
        "predict m.histogp new.csv --prediction quantized",
        "predict m.histogp new.csv --n-bins 9",
        "evaluate m.histogp new.csv --label color --report r.html",
        "update m.histogp new.csv --label color --jobs 1",
    ],
)
@pytest.mark.usefixtures("streamed")
def test_what_only_a_process_can_do_is_refused_by_a_sentence(command, run):
    before = os.listdir()
    said = run(*command.split(), code=2)
    assert "needs a Gaussian process; this model was learned with --stream and has only scores." in said
    assert os.listdir() == before
