"""The numbers behind a report, and the report as a whole."""

from xml.etree import ElementTree

import numpy as np
import pytest
from oracles import histograms
from scipy import sparse
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score, top_k_accuracy_score

import histogp
from histogp import HistogramGPClassifier, HistogramGPRegressor
from histogp.kernels import ExpChi2
from histogp.reports.curves import learning_curve, quantization_curve, sizes_up_to
from histogp.reports.evaluation import evaluate
from histogp.reports.report import report

X, TEST = histograms(120, 6), histograms(60, 6, seed=5)
Y, Y_TEST = (np.array(["a", "b<c>", "d"])[np.argmax(some[:, 1:4], axis=1)] for some in (X, TEST))


def test_scores_are_those_of_scikit_learn():
    clf = HistogramGPClassifier().fit(X, Y)
    evaluation = evaluate(clf, TEST, Y_TEST)
    predictions = clf.predict(TEST)
    np.testing.assert_array_equal(evaluation.predictions, predictions)
    assert evaluation.scores["accuracy"] == accuracy_score(Y_TEST, predictions)
    assert evaluation.scores["balanced accuracy"] == balanced_accuracy_score(Y_TEST, predictions)
    ordered = np.sort(clf.decision_function(TEST), axis=1)
    np.testing.assert_allclose(evaluation.margins, ordered[:, -1] - ordered[:, -2])
    reg = HistogramGPRegressor().fit(X, X[:, 1])
    assert evaluate(reg, TEST, TEST[:, 1]).scores["R2"] == r2_score(TEST[:, 1], reg.predict(TEST))


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"class_weight": "balanced-ovr"}])
@pytest.mark.parametrize("weights", [None, np.linspace(0, 3, 120)])
def test_the_last_point_of_a_learning_curve_is_the_model_itself(options, weights):
    clf = HistogramGPClassifier(**options).fit(X, Y, sample_weight=weights)
    points = list(learning_curve(clf, TEST, Y_TEST))
    assert points[-1].n == clf.n_samples_
    assert points[-1].score == clf.score(TEST, Y_TEST)
    assert [point.n for point in points] == sorted(point.n for point in points)


def test_training_examples_come_back():
    weights = np.linspace(0, 3, 120)
    for model, y in ((HistogramGPClassifier(), Y), (HistogramGPRegressor(normalize_y=True), X[:, 1])):
        X_back, y_back, weights_back = model.fit(sparse.csr_array(X), y, sample_weight=weights)._training_samples()
        np.testing.assert_array_equal(X_back.toarray(), X[1:])
        np.testing.assert_allclose(weights_back, weights[1:])
        if y is Y:
            np.testing.assert_array_equal(y_back, y[1:])
        else:
            np.testing.assert_allclose(y_back, y[1:])


def test_sizes_halve_down_to_a_few():
    assert sizes_up_to(1000) == [31, 62, 125, 250, 500, 1000]
    assert sizes_up_to(3) == [2, 3]


def test_quantization_is_compared_with_the_exact_scores_and_leaves_the_model_alone():
    clf = HistogramGPClassifier("hik", noise=0.1, n_bins=7).fit(X, Y)
    exact = clf.decision_function(TEST)
    before = clf.get_params()
    points = list(quantization_curve(clf, TEST, bins=(5, 50)))
    assert clf.get_params() == before
    for point in points:
        scores = clf.set_params(prediction="quantized", n_bins=point.n_bins).decision_function(TEST)
        assert point.linear == np.abs(scores - exact).max()
        assert point.agreement == np.mean(scores.argmax(axis=1) == exact.argmax(axis=1))
        assert point.linear <= point.worst_case <= point.by_weights


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_report_is_well_formed_and_complete(make):
    clf = HistogramGPClassifier("hik", noise=0.1).fit(make(X), Y)
    stages = []
    page, evaluation = report(clf, make(TEST), Y_TEST, title="A & B", say=stages.append)
    body = page[page.index("<body>") : page.index("</html>")]
    ElementTree.fromstring(body)
    assert evaluation.n_samples == 60
    assert page.count("<section>") == 8
    assert "b&lt;c&gt;" in page
    assert "A &amp; B" in page
    assert any("learning curve" in stage for stage in stages)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_report_of_the_default_on_features_of_any_sign(make):
    signed, signed_test = X - X.mean(axis=0), TEST - X.mean(axis=0)
    clf = HistogramGPClassifier().fit(signed, Y)
    page, evaluation = report(clf, make(signed_test), Y_TEST, title="signs")
    ElementTree.fromstring(page[page.index("<body>") : page.index("</html>")])
    assert page.count("<section>") == 7  # without tables nothing is quantized
    assert evaluation.scores["accuracy"] == clf.score(signed_test, Y_TEST)
    assert f"with its kernel matrix. In words: {clf.in_words()}." in page
    assert "Prediction compares a sample with all training samples" in page
    assert "shape=(6,)" in page or len(repr(clf.kernel_)) < 700  # long lists of numbers are cut
    reg = HistogramGPRegressor().fit(signed, signed[:, 1])
    assert reg.in_words() in report(reg, signed_test, signed_test[:, 1], title="values", image_shape=(2, 3))[0]


def test_two_classes_several_outputs_and_unknown_labels(tmp_path):
    two = HistogramGPClassifier().fit(X, Y == "a")
    assert "least sure" in report(two, TEST, Y_TEST == "a", title="two")[0]
    several = HistogramGPRegressor().fit(X, X[:, 1:3])
    assert "more data" in report(several, TEST, TEST[:, 1:3], title="several")[0]
    unknown = np.where(np.arange(60) % 2 == 0, "new", Y_TEST)
    page, evaluation = report(HistogramGPClassifier().fit(X, Y), TEST, unknown, title="unknown")
    assert "new" in page
    assert evaluation.scores["accuracy"] < 0.6
    small = HistogramGPClassifier(prediction="quantized").fit(X, Y)
    small.save(tmp_path / "m", include_training=False)
    page, _ = report(histogp.load(tmp_path / "m"), TEST, Y_TEST, title="small")
    assert "without its training samples" in page


@pytest.mark.parametrize(
    "kernel", ["chi2", ExpChi2(40, approximation="nystroem"), ExpChi2(40, approximation="fourier")]
)
def test_a_report_of_a_kernel_with_features(kernel):
    page, _ = report(HistogramGPClassifier(kernel).fit(X, Y), TEST, Y_TEST, title="Features")
    assert "solved exactly in their space" in page
    assert "Exact or quantized" not in page


def test_a_report_of_a_kernel_with_a_matrix():
    page, _ = report(HistogramGPClassifier("exp-chi2").fit(X, Y), TEST, Y_TEST, title="Matrix")
    assert "solved, not approximated, with its kernel matrix" in page
    assert "Exact or quantized" not in page


@pytest.mark.parametrize("k", [1, 2, 3])
def test_top_k_accuracy_is_that_of_scikit_learn(k):
    for y, y_test in ((Y, Y_TEST), (Y == "a", Y_TEST == "a")):
        clf = HistogramGPClassifier().fit(X, y)
        if k < len(clf.classes_):
            found = evaluate(clf, TEST, y_test, k).scores[f"top-{k} accuracy"]
            assert found == top_k_accuracy_score(y_test, clf.decision_function(TEST), k=k, labels=clf.classes_)
