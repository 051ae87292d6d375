"""Bad input: one clear sentence, and nothing changed."""

import numpy as np
import pandas as pd
import pytest
from discovery import all_estimators
from oracles import histograms
from scipy import sparse

from histogp import HistogramGPClassifier, HistogramGPRegressor
from histogp._core import data
from histogp.kernels import Exponential, HistogramIntersection, Laplacian, Power, Sum

X = histograms(40, 5)
Y = (X[:, 1] > X[:, 2]).astype(int)


def altered(value, column=2):
    changed = X.copy()
    changed[3, column] = value
    return changed


CASES = [
    ({}, altered(-1), Y, {}, r"Negative values in data .*: column 2 goes down to -1.*scale them.*split"),
    ({}, sparse.csr_array(altered(-2)), Y, {}, r"Negative values in data .*: column 2 goes down to -2"),
    ({}, altered(np.nan), Y, {}, "contains NaN"),
    ({}, altered(np.inf), Y, {}, "contains infinity"),
    ({}, X, Y[:-1], {}, "inconsistent numbers of samples"),
    ({}, X, np.linspace(0, 1, 40), {}, "continuous"),
    ({}, X, X[:, 0], {}, "Unknown label type"),
    ({}, X, Y, {"sample_weight": np.zeros(40)}, "at least one non-zero number"),
    ({"class_weight": {0: 0.0, 1: 0.0}}, X, Y, {}, "leave no sample with a positive weight"),
    ({"class_weight": {0: -1.0, 1: 1.0}}, X, Y, {}, "class_weight must have finite weights >= 0"),
    ({"class_weight": {0: np.nan, 1: 1.0}}, X, Y, {}, "class_weight must have finite weights >= 0"),
    ({}, np.full((40, 5), 1e308), Y, {}, "kernel overflows on these features; scale them"),
    ({}, np.r_[[[0, -1, 0, 0, 0], [0, 0, 0, -5, 0]], X[2:]], Y, {}, "column 1 goes down to -1,"),
    ({"class_weight": {"a": 1.0}}, X, Y, {}, "not in class_weight"),
    ({}, X, Y, {"sample_weight": -np.ones(40)}, "Negative values in data passed to `sample_weight`"),
    ({"noise": 0}, X, Y, {}, "'noise' parameter"),
    ({"noise": -1.0}, X, Y, {}, "'noise' parameter"),
    ({"tol": 0}, X, Y, {}, "'tol' parameter"),
    ({"solver": "magic"}, X, Y, {}, "'solver' parameter"),
    ({"kernel": "rbf"}, X, Y, {}, "Unknown kernel 'rbf'; known names are"),
    ({"kernel": 3}, X, Y, {}, "'kernel' parameter"),
    ({"kernel": HistogramIntersection(Power(0))}, X, Y, {}, "eta must be positive; got 0"),
    ({"kernel": HistogramIntersection(weights=[1, 2])}, X, Y, {}, "one for each of the 5 features"),
    ({"kernel": HistogramIntersection(Exponential(1))}, X * 1e4, Y, {}, "not finite for the value"),
    ({"preconditioner_rank": -1}, X, Y, {}, "'preconditioner_rank' parameter"),
    ({"class_weight": "uniform"}, X, Y, {}, "'class_weight' parameter"),
    ({"n_jobs": 0}, X, Y, {}, "n_jobs must be a number of threads"),
]


@pytest.mark.parametrize(("parameters", "X_bad", "y_bad", "fit_options", "message"), CASES)
def test_fit_refuses_and_keeps_the_previous_fit(parameters, X_bad, y_bad, fit_options, message):
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X, Y)
    before = dict(vars(clf))
    scores = clf.decision_function(X)
    clf.set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        clf.fit(X_bad, y_bad, **fit_options)
    clf.set_params(**{name: before[name] for name in parameters})
    assert vars(clf).keys() == before.keys()
    assert all(vars(clf)[name] is before[name] for name in before)
    np.testing.assert_array_equal(clf.decision_function(X), scores)


def test_a_refit_on_another_width_that_fails_leaves_the_old_width():
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="continuous"):
        clf.fit(X[:, :3], np.linspace(0, 1, 40))
    assert clf.n_features_in_ == 5
    clf.predict(X)


@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
def test_predict_refuses(make):
    with pytest.raises(ValueError, match="not fitted"):
        make().predict(X)
    for fitted in (make().fit(X, Y), make("hik", noise=0.1).fit(X, Y)):
        with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 5"):
            fitted.predict(X[:, :3])
        with pytest.raises(ValueError, match="NaN"):
            fitted.predict(altered(np.nan))
    with pytest.raises(ValueError, match="Negative values in data"):
        fitted.predict(altered(-1))


def test_a_shift_of_wide_sparse_samples_is_refused_before_it_takes_memory():
    wide = sparse.csr_array(X)
    wide.resize(40, 2**25)
    model = HistogramGPClassifier(Sum([Laplacian()], shift=1.0), noise=0.1)
    with pytest.raises(ValueError, match=r"A shift .* 40 samples with 33,554,432 features would take at least 10 GiB"):
        model.fit(wide, Y)
    assert not hasattr(model, "classes_")


def test_a_shift_of_samples_that_are_nearly_dense_is_never_refused(monkeypatch):
    monkeypatch.setattr(data, "MOST_SHIFTED", 10)
    HistogramGPClassifier(Sum([Laplacian()], shift=1.0), noise=0.1).fit(sparse.csr_array(X), Y)


def test_an_interrupt_during_fit_leaves_the_previous_fit(monkeypatch):
    clf = HistogramGPClassifier("hik", noise=0.1, solver="cg").fit(X, Y)
    before = dict(vars(clf))

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("histogp.gp._model.condition", interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X[:, :2], Y)
    assert vars(clf) == before


def test_columns_of_a_frame_are_named():
    frame = pd.DataFrame(X, columns=[f"p{k}" for k in range(X.shape[1])])
    for value, message in ((-1.0, "column 'p3' goes down to -1"), (np.nan, "in column 'p3'")):
        wrong = frame.copy()
        wrong.iloc[2, 3] = value
        with pytest.raises(ValueError, match=message):
            HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(wrong, X[:, 0])
