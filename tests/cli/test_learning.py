"""The commands that go on learning."""

import csv
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import histogp
from cli.colors import CODES, FEATURES, NAMES, X, write_csv
from histogp.active import STRATEGIES, query
from histogp.gp.one_class import HistogramGPOneClass


def scores(path):
    model = histogp.load(path)
    vars(model).pop("feature_names_in_", None)
    return model.decision_function(X)


def test_update_learns_what_fit_would_have_learned(run):
    write_csv("first.csv", X[:50], NAMES[:50])
    write_csv("more.csv", X[50:], NAMES[50:])
    options = ("--label", "color", "--kernel", "hik", "--noise", "0.1", "--tol", "1e-8")
    run("fit", "train.csv", *options, "-o", "all")
    run("fit", "first.csv", *options, "-o", "m")
    assert "30 rows more, 80 in all" in run("update", "m", "more.csv", "--label", "color")
    np.testing.assert_allclose(scores("m"), scores("all"), atol=1e-8)
    assert list(histogp.load("m").feature_names_in_) == FEATURES
    np.testing.assert_array_equal(histogp.load("m").ids_, np.arange(80))


def test_update_writes_elsewhere_and_takes_new_classes(run, model):
    write_csv("more.csv", X[:4], ["pink", "pink", "red", "violet"])
    said = run("update", "model.histogp", "more.csv", "--label", "color", "-o", "newer")
    assert "new: pink, violet" in said
    assert len(histogp.load("newer").classes_) == len(model.classes_) + 2
    assert histogp.load("model.histogp").n_samples_ == 80


def test_labels_are_numbers_where_those_of_the_model_are(run):
    write_csv("numbers.csv", X, CODES)
    run("fit", "numbers.csv", "--label", "color", "-o", "m")
    np.save("X.npy", X[:3])
    np.save("y.npy", np.array([0.0, 1.0, 7.0]))
    run("update", "m", "X.npy", "--labels", "y.npy")
    assert histogp.load("m").classes_.dtype.kind == "i"
    assert 7 in histogp.load("m").classes_
    write_csv("bad.csv", X[:2], ["1", "green"])
    assert "is none of the model's classes, which are numbers" in run(
        "update", "m", "bad.csv", "--label", "color", code=2
    )


def test_regression_and_one_class_models_are_updated(run):
    write_csv("targets.csv", X, X[:, 1] * 10)
    run("fit", "targets.csv", "--label", "color", "--task", "regression", "-o", "m")
    assert "80 rows more" in run("update", "m", "targets.csv", "--label", "color")
    run("fit", "train.csv", "--ignore", "color", "--one-class", "--kernel", "hik", "-o", "usual")
    run("update", "usual", "test.csv", "--ignore", "color")
    found = histogp.load("usual")
    expected = HistogramGPOneClass("hik", noise=found.noise_).fit(np.concatenate([X, X[:20]]))
    np.testing.assert_allclose(found.offset_, expected.offset_)


BAD_UPDATES = {
    "no labels": (["test.csv"], "test.csv has no labels of its own"),
    "a wrong column": (["test.csv", "--label", "hue"], "hue"),
    "columns missing": (["narrow.csv", "--label", "color"], "narrow.csv"),
    "a missing file": (["nothing.csv", "--label", "color"], "nothing.csv"),
    "negative values": (["negative.csv", "--label", "color"], "Negative values"),
    "onto the data": (["test.csv", "--label", "color", "-o", "test.csv"], "is an input of this command"),
}


@pytest.mark.parametrize("what", BAD_UPDATES)
def test_a_bad_update_leaves_the_model_alone(what, run, model):
    write_csv("negative.csv", -X, NAMES)
    with open("narrow.csv", "w") as file:
        file.write("f0,color\n1,red\n")
    arguments, message = BAD_UPDATES[what]
    with open("model.histogp", "rb") as file:
        before = file.read()
    error = run("update", "model.histogp", *arguments, code=2)
    assert message in error
    assert error.count("\n") == 1
    with open("model.histogp", "rb") as file:
        assert file.read() == before


def test_a_model_that_only_predicts_is_not_updated(run):
    run("fit", "train.csv", "--label", "color", "-o", "m", "--prediction", "quantized", "--predict-only")
    assert "learns no more" in run("update", "m", "test.csv", "--label", "color", code=2)


def test_an_update_that_another_has_overtaken_is_not_written(run, model, monkeypatch):
    save = histogp.HistogramGPClassifier.partial_fit

    def meanwhile(self, *arguments, **options):
        os.utime("model.histogp", ns=(1, 1))
        return save(self, *arguments, **options)

    monkeypatch.setattr(histogp.HistogramGPClassifier, "partial_fit", meanwhile)
    assert "has changed" in run("update", "model.histogp", "test.csv", "--label", "color", code=2)


@pytest.mark.slow
def test_a_killed_update_leaves_the_old_model_or_the_new_one(run, model):
    """The benchmark kills many more."""
    command = [sys.executable, "-m", "histogp.cli.main", "update", "model.histogp", "test.csv", "--label", "color"]
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    duration = time.perf_counter() - start
    n_before = histogp.load("model.histogp").n_samples_
    assert n_before == 100
    for part in (0.7, 0.9, 0.97, 1.0):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(part * duration)
        process.send_signal(signal.SIGKILL)
        process.wait()
        n_now = histogp.load("model.histogp").n_samples_
        assert n_now in (n_before, n_before + 20)
        n_before = n_now


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_query_prints_what_the_library_says(strategy, run, model):
    table = list(
        csv.DictReader(run("query", "model.histogp", "test.csv", "--strategy", strategy, "-n", "5").splitlines())
    )
    vars(model).pop("feature_names_in_")
    index, utilities = query(model, X[:20], strategy, 5, random_state=0, return_utilities=True)
    assert [int(row["row"]) for row in table] == index.tolist()
    np.testing.assert_allclose([float(row["utility"]) for row in table], utilities)
    assert [row["prediction"] for row in table] == model.predict(X[index]).tolist()


def test_query_refuses_what_makes_no_sense(run, model):
    assert "batch_size" in run("query", "model.histogp", "test.csv", "-n", "0", code=2)
    assert "invalid choice" in run("query", "model.histogp", "test.csv", "--strategy", "best", code=2)
    run("fit", "train.csv", "--ignore", "color", "--one-class", "-o", "usual")
    assert "needs a classifier" in run("query", "usual", "test.csv", "--ignore", "color", code=2)
    said = run("query", "usual", "test.csv", "--ignore", "color", "--strategy", "variance", "-n", "2")
    assert said.splitlines()[0] == "row,utility"
    assert "argmin |mean| / sqrt(noise + variance)" in run("query", "--help")
