"""Variances, probabilities, novelties and one-class models on the command line."""

import csv
import io
import json
import os
import warnings

import numpy as np
import pytest
from oracles import alike

import histogp
from cli.colors import CODES, FEATURES, NAMES, X, assert_same_table, write_csv
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp._core import posterior
from histogp._core.variance import METHODS
from histogp.exceptions import VarianceWarning

pytestmark = pytest.mark.portable

TEST = X[:20]
QUANTIZED = ("--kernel", "hik", "--noise", "0.1", "--prediction", "quantized", "--predict-only")


def reference(path="model.histogp"):
    """The model of a file, for arrays without names."""
    model = histogp.load(path)
    vars(model).pop("feature_names_in_", None)
    return model


def columns(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name != "prediction"}


@pytest.fixture
def one_class(run):
    write_csv("plain.csv", X)
    run("fit", "plain.csv", "--one-class", "--kernel", "hik", "-o", "one.histogp")
    return reference("one.histogp")


@pytest.mark.parametrize("method", METHODS)
def test_variances_are_those_of_the_model(run, model, method):
    found = columns(run("predict", "model.histogp", "test.csv", "--variance", method))
    assert list(found) == ["variance"]
    alike(found["variance"], reference().predict_variance(TEST, method))


def test_probabilities_are_those_of_the_model_one_column_a_class(run, model):
    found = columns(run("predict", "model.histogp", "test.csv", "--proba", "--scores", "--variance", "precise"))
    classes = model.classes_.tolist()
    assert list(found) == [*(f"score_{c}" for c in classes), *(f"proba_{c}" for c in classes), "variance"]
    proba = np.stack([found[f"proba_{c}"] for c in classes], axis=1)
    alike(proba, reference().predict_proba(TEST))


def test_two_classes_have_two_probabilities(run):
    np.savez("two.npz", X=X, y=CODES == 1)
    run("fit", "two.npz", "-o", "m")
    found = columns(run("predict", "m", "two.npz", "--proba"))
    assert list(found) == ["proba_False", "proba_True"]
    np.testing.assert_allclose(found["proba_False"] + found["proba_True"], 1)


def test_a_regressor_has_a_variance_for_each_output(run):
    write_csv("data.csv", X, X[:, 1] * 10)
    run("fit", "data.csv", "--label", "color", "--task", "regression", "-o", "m")
    _, deviations = reference("m").predict(TEST, return_std=True)
    found = columns(run("predict", "m", "test.csv", "--variance", "precise"))["variance"]
    np.testing.assert_allclose(np.sqrt(found), deviations)
    several = HistogramGPRegressor(normalize_y=True).fit(X, X[:, 1:3])
    several.save("several")
    found = columns(run("predict", "several", "test.csv", "--ignore", "color", "--variance", "fine"))
    alike(found["variance_1"], several.predict_variance(TEST, "fine")[:, 1])
    assert {"prediction_0", "prediction_1", "variance_0", "variance_1"} == found.keys()


def test_what_is_needed_is_prepared_once_and_not_in_each_piece(run, model, monkeypatch):
    command = ("predict", "model.histogp", "train.csv", "--proba", "--variance", "sampled")
    whole = run(*command)
    made = []
    build = posterior.build_system
    monkeypatch.setattr(posterior, "build_system", lambda *rest: (made.append(1), build(*rest))[1])
    run(*command)
    once = len(made)
    monkeypatch.setattr("histogp.cli.predict.CHUNK_ROWS", 7)
    assert_same_table(run(*command), whole)
    assert len(made) == 2 * once > 0


def test_novelty_of_a_classifier(run, model):
    alike(columns(run("novelty", "model.histogp", "test.csv"))["novelty"], reference().novelty(TEST))
    run("novelty", "model.histogp", "test.csv", "--method", "coarse", "-o", "out.jsonl")
    with open("out.jsonl") as file:
        found = [json.loads(line) for line in file]
    alike([row["novelty"] for row in found], reference().novelty(TEST, "coarse"))


@pytest.mark.parametrize("criterion", ["variance", "mean", "ratio"])
def test_one_class_from_fit_to_novelty(run, criterion):
    said = run("fit", "train.csv", "--label", "color", "--one-class", "--criterion", criterion, "-o", "m")
    assert "80 rows, 6 features, one class" in said
    expected = HistogramGPOneClass(criterion=criterion, contamination="auto", random_state=0).fit(X)
    assert reference("m").offset_ == pytest.approx(expected.offset_, rel=1e-9)
    strange = np.vstack([TEST, 5 * np.eye(6), np.zeros((1, 6))])
    write_csv("new.csv", strange)
    found = columns(run("novelty", "m", "new.csv"))
    alike(found["novelty"], -expected.score_samples(strange))
    np.testing.assert_array_equal(found["outlier"], expected.predict(strange) == -1)
    assert set(found["outlier"]) == {0, 1}
    rows = list(csv.DictReader(io.StringIO(run("predict", "m", "new.csv", "--scores"))))
    assert [int(row["prediction"]) for row in rows] == expected.predict(strange).tolist()
    alike([float(row["score"]) for row in rows], expected.score_samples(strange))


def test_one_class_needs_no_labels_and_leaves_them_out(run, one_class):
    run("fit", "train.csv", "--one-class", "--kernel", "hik", "--ignore", "color", "-o", "ignored")
    np.savez("data.npz", X=X, y=NAMES)
    run("fit", "data.npz", "--one-class", "--kernel", "hik", "-o", "keyed")
    for path in ("ignored", "keyed"):
        alike(reference(path).alpha_, one_class.alpha_)
    assert histogp.load("ignored").feature_names_in_.tolist() == FEATURES


def test_contamination_is_the_part_of_the_training_rows(run, one_class):
    assert one_class.contamination == "auto"
    run("fit", "plain.csv", "--one-class", "--contamination", "0.2", "-o", "m")
    assert columns(run("novelty", "m", "plain.csv"))["outlier"].mean() == pytest.approx(0.2)


def test_inspect_says_what_a_one_class_model_is(run, one_class):
    facts = json.loads(run("inspect", "one.histogp", "--json"))
    assert facts["class"] == "HistogramGPOneClass"
    assert facts["criterion"] == "variance"
    assert facts["offset"] == one_class.offset_
    assert "rows unlike the training samples" in run("inspect", "one.histogp")


def test_another_method_for_one_class_only_if_the_offset_still_holds(run, one_class):
    found = columns(run("novelty", "one.histogp", "test.csv", "--method", "sampled"))["novelty"]
    alike(found, -one_class.set_params(method="sampled").score_samples(TEST))
    assert "does not hold for 'coarse'" in run("novelty", "one.histogp", "test.csv", "--method", "coarse", code=2)
    run("fit", "plain.csv", "--one-class", "--criterion", "mean", "-o", "mean")
    assert "judges by the mean" in run("novelty", "mean", "test.csv", "--method", "precise", code=2)


def test_a_predict_only_model_has_the_variance_that_was_prepared(run):
    run("fit", "train.csv", "--label", "color", *QUANTIZED, "--variance", "sampled", "-o", "small")
    clf = HistogramGPClassifier("hik", noise=0.1, prediction="quantized").fit(X, NAMES)
    found = columns(run("predict", "small", "test.csv", "--proba", "--variance", "sampled"))
    np.testing.assert_allclose(found["variance"], clf.predict_variance(TEST, "sampled"))
    np.testing.assert_allclose(found["proba_red"], clf.predict_proba(TEST)[:, clf.classes_.tolist().index("red")])
    np.testing.assert_allclose(columns(run("novelty", "small", "test.csv"))["novelty"], clf.novelty(TEST, "sampled"))
    assert json.loads(run("inspect", "small", "--json"))["prepared variances"] == ["sampled"]
    run("fit", "train.csv", "--label", "color", "--one-class", *QUANTIZED, "--variance", "sampled", "-o", "one")
    assert set(columns(run("novelty", "one", "test.csv"))) == {"novelty", "outlier"}


def test_a_predict_only_model_answers_for_what_it_lost(run):
    run("fit", "train.csv", "--label", "color", *QUANTIZED, "-o", "small")
    for command in (("predict", "small", "test.csv", "--variance", "precise"), ("novelty", "small", "test.csv")):
        said = run(*command, code=2)
        assert "without its training samples" in said
        assert said.count("\n") == 1


def test_variances_that_did_not_converge_are_said_in_one_line(run, model, monkeypatch, capsys):
    def stopped(self, X, method):
        for error in (1, 2):
            warnings.warn(f"too large by {error}", VarianceWarning, stacklevel=1)
        return np.ones(len(X))

    monkeypatch.setattr(HistogramGPClassifier, "predict_variance", stopped)
    histogp.cli.main.main(["predict", "model.histogp", "test.csv", "--variance", "precise"])
    assert capsys.readouterr().err == "histogp: too large by 1\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("predict regressor test.csv --proba", "--proba needs a classifier"),
        ("predict one.histogp test.csv --proba", "--proba needs a classifier"),
        ("predict regressor test.csv --scores", "--scores is for classifiers"),
        ("predict model.histogp test.csv --variance exact", "invalid choice: 'exact'"),
        ("predict model.histogp test.csv --variance", "expected one argument"),
        ("novelty regressor test.csv", "a classifier or a one-class model"),
        ("novelty model.histogp test.csv --method rough", "invalid choice: 'rough'"),
        ("novelty model.histogp test.csv -o test.csv", "test.csv is an input"),
        ("novelty none.histogp test.csv", "There is no file 'none.histogp'"),
        ("novelty model.histogp none.csv", "none.csv cannot be read"),
        ("evaluate one.histogp test.csv --label color", "no classes to compare"),
        ("fit train.csv --one-class -o m", "'color': 'blue' is not a number"),
        ("fit train.csv --label color --criterion mean -o m", "--criterion needs --one-class"),
        ("fit train.csv --label color --contamination 0.1 -o m", "--contamination needs --one-class"),
        ("fit plain.csv --one-class --contamination 0.9 -o m", "in the range (0.0, 0.5]"),
        ("fit plain.csv --one-class --contamination much -o m", "neither auto nor a number"),
        ("fit plain.csv --one-class --task regression -o m", "exclude each other"),
        ("fit plain.csv --one-class --optimize gradient -o m", "exclude each other"),
        ("fit plain.csv --one-class --ard -o m", "exclude each other"),
        ("fit plain.csv --one-class --class-weight balanced -o m", "exclude each other"),
        ("fit plain.csv --one-class --variance coarse-quantized -o m", "give a number as contamination"),
        (
            "fit plain.csv --one-class --prediction quantized --predict-only -o m",
            "needs --criterion mean or --variance",
        ),
        (
            "fit train.csv --label color --kernel hik --prediction quantized --predict-only --variance calibrated -o m",
            "needs 256 training rows",
        ),
        (
            "fit train.csv --label color --prediction quantized --predict-only --variance calibrated -o m",
            "--variance calibrated needs the training rows with this kernel: leave --predict-only out",
        ),
    ],
)
def test_bad_input_is_answered_by_one_sentence_and_code_2(run, model, one_class, arguments, sentence, tmp_path):
    HistogramGPRegressor().fit(X, X[:, 1]).save("regressor")
    before = sorted(os.listdir(tmp_path))
    said = run(*arguments.split(), code=2)
    assert sentence in said
    if not said.startswith("usage"):
        assert said.startswith("histogp: ")
        assert said.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before
