"""scikit-learn's contract, for every estimator and for both solvers."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from discovery import all_estimators, given, targets_for
from oracles import alike, histograms
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.kernels import Gaussian, HistogramIntersection, Laplacian, Power

ESTIMATORS = all_estimators("histogp.gp")
X = histograms(60, 6)
Y = {make: targets_for(make, X) for make in ESTIMATORS}


@pytest.mark.slow
@pytest.mark.usefixtures("non_negative_blobs")
@parametrize_with_checks(
    [make(**options) for make in ESTIMATORS for options in ({}, {"solver": "cg", "tol": 1e-10}, {"kernel": "hik"})]
    + [given(make, **options) for make in ESTIMATORS for options in ({}, {"solver": "cg", "tol": 1e-10})]
    + [
        HistogramGPOneClass("hik", noise=0.1, contamination=0.1, criterion="mean"),
        HistogramGPOneClass("hik", noise=0.1, contamination=0.1, criterion="ratio", method="calibrated"),
        HistogramGPClassifier("hik", noise=0.1, class_weight="balanced-ovr"),
        HistogramGPRegressor("hik", noise=0.1, normalize_y=True),
        HistogramGPRegressor("hik-poly", noise=0.1, normalize_y=False),
        HistogramGPClassifier("hik", noise=0.1, prediction="quantized"),
        HistogramGPRegressor("hik", noise=0.1, normalize_y=False, prediction="quantized", interpolation="nearest"),
        HistogramGPClassifier("hik", optimize="gradient"),
        HistogramGPRegressor("hik-poly", normalize_y=False, optimize="exact"),
        HistogramGPClassifier(Laplacian(unit=50.0), noise=0.1),
        HistogramGPRegressor(Gaussian(unit=2.0), noise=0.1, normalize_y=False),
        HistogramGPOneClass(Laplacian(unit=2.0), noise=0.1, contamination=0.1),
    ]
)
def test_common_checks(estimator, check):
    check(estimator)


def test_estimators_are_discovered():
    assert [HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor] == ESTIMATORS


@pytest.mark.parametrize("make", ESTIMATORS)
def test_an_estimator_is_a_model_and_little_else(make):
    ours = [base.__name__ for base in make.__mro__ if base.__module__.startswith("histogp.gp")]
    assert ours == [make.__name__, "HistogramGP"]


@pytest.mark.parametrize("make", ESTIMATORS)
def test_every_container_and_dtype_gives_the_same_model(make):
    names = [f"f{k}" for k in range(6)]
    reference = make().fit(X, Y[make])
    expected = reference.predict(X)
    for data in (sparse.csr_matrix(X), sparse.csc_array(X), sparse.coo_array(X), X.tolist(), np.asfortranarray(X)):
        np.testing.assert_allclose(make().fit(data, Y[make]).predict(data), expected, atol=1e-9)
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        fitted = make().fit(frame, Y[make])
        assert list(fitted.feature_names_in_) == names
        np.testing.assert_allclose(fitted.predict(frame), expected, atol=1e-9)


def test_scores_keep_the_precision_of_the_data():
    X32 = X.astype(np.float32)
    clf = HistogramGPClassifier("hik", noise=0.1).fit(X32, Y[HistogramGPClassifier])
    assert clf.decision_function(X32).dtype == np.float32
    assert clf.decision_function(X).dtype == np.float64
    y = Y[HistogramGPRegressor]
    reg = HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X32, y.astype(np.float32))
    assert reg.predict(X32).dtype == np.float32
    assert reg.predict(X).dtype == np.float64
    # Targets in double precision may be such that single precision cannot hold them.
    reg.fit(X32, 1e40 * y)
    assert np.isfinite(reg.predict(X32)).all()


@pytest.mark.portable
@pytest.mark.parametrize("make", ESTIMATORS)
def test_copies_predict_alike(make):
    fitted = make("hik-poly").fit(X, Y[make])
    fitted.predict(X)
    for twin in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        alike(twin.predict(X), fitted.predict(X))
    assert not hasattr(clone(fitted), "alpha_")


@pytest.mark.slow
def test_grid_search_reaches_the_hyperparameters_of_the_kernel():
    clf = HistogramGPClassifier(HistogramIntersection(Power()), noise=0.1)
    search = GridSearchCV(clf, {"kernel__transform__eta": [0.25, 0.5, 1], "noise": [0.01, 0.1]}, n_jobs=2)
    search.fit(X, Y[HistogramGPClassifier])
    assert set(search.best_params_) == {"kernel__transform__eta", "noise"}
    assert search.best_estimator_.kernel_.transform.eta == search.best_params_["kernel__transform__eta"]


@pytest.mark.parametrize("name", ["hik", "hik-poly", "hik-exp"])
def test_grid_search_expands_short_names(name):
    search = GridSearchCV(
        HistogramGPClassifier(name, noise=0.1), {"kernel__transform__eta": [0.25, 1.0], "noise": [0.01, 0.1]}
    )
    search.fit(X, Y[HistogramGPClassifier])
    expected = "Exponential" if name == "hik-exp" else "Power"
    assert type(search.best_estimator_.kernel_.transform).__name__ == expected
    assert HistogramGPClassifier("hik", noise=0.1).set_params(noise=1.0).kernel == "hik"


def test_fitted_attributes_cannot_change_the_model():
    eta, weights = np.full(6, 0.5), np.ones(6)
    clf = HistogramGPClassifier(HistogramIntersection(Power(eta), weights), noise=0.1).fit(X, Y[HistogramGPClassifier])
    expected = clf.decision_function(X)
    clf.kernel_.transform.eta[:] = 3
    eta[:] = 2
    weights[:] = 0
    np.testing.assert_array_equal(clf.decision_function(X), expected)
    with pytest.raises(ValueError, match="read-only"):
        clf.alpha_[:] = 0


def test_threads_may_change_after_fit():
    clf = HistogramGPClassifier("hik", noise=0.1, n_jobs=2).fit(X, Y[HistogramGPClassifier])
    two = clf.decision_function(X)
    np.testing.assert_allclose(clf.set_params(n_jobs=1).decision_function(X), two)


def test_fit_leaves_the_kernel_that_it_was_given_alone():
    kernel = HistogramIntersection(Power(0.3))
    clf = HistogramGPClassifier(kernel, noise=0.1).fit(X, Y[HistogramGPClassifier])
    assert clf.kernel is kernel
    assert clf.kernel_ is not kernel
    others = {"weights": None, "groups": None, "scale": 1.0, "columns": None}
    assert vars(kernel) == {"transform": kernel.transform, **others}


def test_pipelines_metadata_routing_and_html():
    with config_context(enable_metadata_routing=True):
        clf = HistogramGPClassifier("hik", noise=0.1).set_fit_request(sample_weight=True)
        weights = np.r_[np.zeros(20), np.ones(40)]
        pipeline = make_pipeline(MinMaxScaler(), clf)
        pipeline.fit(X - 0.5, Y[HistogramGPClassifier], sample_weight=weights)
        assert len(pipeline[-1].alpha_) == 40
    assert "HistogramGPClassifier" in pipeline._repr_html_()


@pytest.mark.parametrize("make", ESTIMATORS)
def test_random_state_and_repetition_fix_the_result(make):
    options = dict(solver="cg", tol=1e-3, preconditioner_rank=20, random_state=0)
    first, second = (make(**options).fit(X, Y[make]).alpha_ for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_verbose_reports_stages_and_iterations(make, capsys):
    make(solver="cg", verbose=2, preconditioner_rank=0).fit(X, Y[make])
    printed = capsys.readouterr().out
    assert "60 samples, 6 features" in printed
    assert "iteration 1: residual" in printed
    assert "solved" in printed
    make().fit(X, Y[make])
    assert capsys.readouterr() == ("", "")
