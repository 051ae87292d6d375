"""Each warning comes once a call, is of a class of ours, and points at the line of the user."""

import inspect
import warnings

import numpy as np
import pytest
from discovery import all_estimators, given
from oracles import histograms
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import histogp
from histogp import (
    HistogramGPClassifier,
    HistogramGPOneClass,
    HistogramGPRegressor,
    NotConvergedWarning,
    Optimizer,
    PrecisionWarning,
    VarianceWarning,
)
from histogp._core.variance import calibrated
from histogp.active import ActiveLearner, query
from histogp.streaming import (
    StreamingElasticNet,
    StreamingGroupLasso,
    StreamingPCA,
    StreamingRidge,
    StreamingRidgeClassifier,
)

X = histograms(300, 8)
TEST = histograms(200, 8, seed=3)  # several blocks of right-hand sides
CODES = (X[:, 1] > X[:, 2]).astype(int)
TARGETS = {HistogramGPClassifier: CODES, HistogramGPRegressor: X[:, 1] - X[:, 2], HistogramGPOneClass: None}
FINE = dict(noise=1e-3, solver="cg", preconditioner_rank=0, tol=1e-2, max_iter=5000, random_state=0)
STOPPED = {"max_iter": 2, "tol": 1e-10}
SOLVER, VARIANCE, DIGITS = [NotConvergedWarning], [VarianceWarning], [PrecisionWarning]
BOTH = [NotConvergedWarning, VarianceWarning]


def make(estimator, **options):
    return given(estimator, **FINE | options)


def fitted(estimator, **options):
    return make(estimator, **options).fit(X, TARGETS[estimator])


def stopped(estimator, **options):
    """Fitted well, with a solver that stops too early from now on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted(estimator, **options).set_params(**STOPPED)


def too_few_steps(estimator):
    optimizer = Optimizer("exact", max_steps=3, reoptimize_every=1)
    return make(estimator, kernel="hik-poly", optimize=optimizer, solver="cholesky", noise=0.1)


# What is called with an estimator whose solver stops too early, and which warnings that gives.
CALLS = {
    "fit": (lambda model, y: model.fit(X, y), SOLVER),
    "partial_fit": (lambda model, y: model.partial_fit(TEST, None if y is None else y[:200]), SOLVER),
    "forget": (lambda model, y: model.forget(model.ids_[:20]), SOLVER),
    "relabel": (lambda model, y: model.relabel(model.ids_[:50], y[:50][::-1]), SOLVER),
    "predict_variance": (lambda model, y: model.predict_variance(TEST), VARIANCE),
    "novelty": (lambda model, y: model.novelty(TEST), VARIANCE),
    "sample_y": (lambda model, y: model.sample_y(TEST), VARIANCE),
    "score_samples": (lambda model, y: model.score_samples(TEST), VARIANCE),
}
CALLS_OF = {
    HistogramGPClassifier: CALLS,
    HistogramGPRegressor: {
        **CALLS,
        "predict": (lambda model, y: model.predict(TEST, return_std=True), VARIANCE),
        "predict with covariances": (lambda model, y: model.predict(TEST, return_cov=True), VARIANCE),
    },
    HistogramGPOneClass: {
        **CALLS,
        # Updates compute the offset from variances.
        **{name: (CALLS[name][0], BOTH) for name in ("fit", "partial_fit", "forget")},
        "fit_predict": (lambda model, y: model.fit_predict(X), BOTH),
        "decision_function": (lambda model, y: model.decision_function(TEST), VARIANCE),
        "predict": (lambda model, y: model.predict(TEST), VARIANCE),
    },
}
# These warn in circumstances of their own, below, or not at all.
OTHERS = {
    "posterior_",
    "set_callbacks",
    *("log_marginal_likelihood", "predict_proba", "predict_log_proba", "variance_error_"),
    *("approximation_", "kernel_shares_", "in_words"),
    *("decision_function", "quantization_error_bound", "save", "set_params", "predict"),
}


def public_names(estimator):
    """Methods and properties that this package gives the class."""
    ours = [vars(part) for part in estimator.__mro__ if part.__module__.startswith("histogp.")]
    return {
        name
        for part in ours
        for name, value in part.items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    }


def gives(call, expected):
    """Check the warnings of a call: their classes, each once, and where they point at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert sorted(each.category.__name__ for each in caught) == sorted(each.__name__ for each in expected)
    for each in caught:
        assert each.filename == __file__


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        pytest.param(estimator, name, id=f"{estimator.__name__}-{name}")
        for estimator, calls in CALLS_OF.items()
        for name in calls
        if hasattr(estimator, name.split()[0])
    ],
)
def test_a_solver_that_stops_too_early_warns_once(estimator, name):
    call, expected = CALLS_OF[estimator][name]
    model, y = stopped(estimator), TARGETS[estimator]
    gives(lambda: call(model, y), expected)


@pytest.mark.parametrize("estimator", all_estimators("histogp.gp"))
def test_every_public_method_is_here(estimator):
    assert public_names(estimator) <= set(CALLS_OF[estimator]) | OTHERS


@pytest.mark.parametrize("estimator", CALLS_OF)
def test_a_solver_that_comes_to_its_end_warns_of_nothing(estimator):
    options = dict(noise=0.1, solver="auto")
    for name, (call, _) in CALLS_OF[estimator].items():
        if hasattr(estimator, name.split()[0]):
            model = fitted(estimator, **options)
            gives(lambda call=call, model=model: call(model, TARGETS[estimator]), [])


def test_a_first_partial_fit_warns_as_fit_does():
    for estimator, expected in zip(CALLS_OF, (SOLVER, SOLVER, BOTH), strict=True):
        model, y = make(estimator, **STOPPED), TARGETS[estimator]
        gives(lambda model=model, y=y: model.partial_fit(X, y), expected)


def test_variances_of_classes_warn_once():
    model = stopped(HistogramGPClassifier, class_weight="balanced-ovr")
    gives(lambda: model.predict_variance(TEST, per_class=True), VARIANCE)


@pytest.mark.parametrize("estimator", CALLS_OF)
def test_tables_that_are_not_calibrated_well_warn_once(estimator, monkeypatch):
    monkeypatch.setattr(calibrated, "LEFT_OUT_MAX_ITER", 1)
    calls = [
        lambda model: model.predict_variance(TEST, "calibrated"),
        lambda model: model.variance_error_,
    ]
    if estimator is HistogramGPClassifier:
        monkeypatch.setattr("histogp._core.solvers.factors_pay", lambda *_: False)
        calls += [lambda model: model.predict_proba(TEST), lambda model: model.predict_log_proba(TEST)]
        calls += [lambda model: model.novelty(TEST, "calibrated")]
    for call in calls:
        model = stopped(estimator)
        gives(lambda call=call, model=model: call(model), VARIANCE)


@pytest.mark.parametrize("estimator", [HistogramGPClassifier, HistogramGPRegressor])
def test_searches_and_likelihoods_that_end_too_early_warn_once(estimator):
    y = TARGETS[estimator]
    model = too_few_steps(estimator)
    gives(lambda: model.fit(X, y), SOLVER)
    gives(lambda: model.partial_fit(TEST, y[:200]), SOLVER)
    gives(lambda: model.forget(model.ids_[:20]), SOLVER)
    gives(lambda: model.relabel(model.ids_[:50], y[:50][::-1]), SOLVER)
    gives(lambda: model.log_marginal_likelihood(method="quadrature", n_probes=2, max_error=1e-9), SOLVER)


def test_questions_warn_once():
    model = stopped(HistogramGPClassifier)
    gives(lambda: query(model, TEST, "variance", 3, variance="precise"), VARIANCE)
    gives(lambda: ActiveLearner(model, TEST, strategy="uncertainty", variance="precise").query(), VARIANCE)
    gives(lambda: ActiveLearner(model, TEST).teach([0, 1], [0, 1]), SOLVER)


def test_questions_of_scikit_activeml_warn_once():
    pytest.importorskip("skactiveml")
    from histogp.active.scikit_activeml import HistogramGPSampling

    y = np.where(np.arange(300) < 250, CODES.astype(float), np.nan)
    strategy = HistogramGPSampling(make(HistogramGPClassifier, **STOPPED), "variance", variance="precise")
    gives(lambda: strategy.query(X, y), BOTH)


def test_displays_warn_once():
    pytest.importorskip("matplotlib")
    from histogp.plotting import TightnessDisplay, UncertaintyDisplay

    regressor = stopped(HistogramGPRegressor)
    gives(lambda: TightnessDisplay.from_estimator(regressor, TEST, methods=["precise", "coarse"]), VARIANCE)
    gives(lambda: UncertaintyDisplay.from_estimator(regressor, feature=1, method=["precise", "coarse"]), VARIANCE)


def test_the_line_is_the_users_also_through_scikit_learn():
    model = make(HistogramGPClassifier, **STOPPED)
    gives(lambda: make_pipeline(MaxAbsScaler(), model).fit(X, CODES), SOLVER)
    gives(lambda: GridSearchCV(model, {"noise": [1e-3]}, cv=2).fit(X, CODES), 3 * SOLVER)  # three fits


STREAMED = {
    StreamingRidge: ({"alpha": 1.0}, ["predict", "coef_", "intercept_", "alpha_", "criterion_", "block_weights_"]),
    StreamingRidgeClassifier: (
        {"alpha": 1.0},
        ["predict", "decision_function", "coef_", "intercept_", "alpha_", "criterion_", "block_weights_"],
    ),
    StreamingElasticNet: ({"alpha": 1e-3}, ["predict", "coef_", "intercept_", "n_iter_"]),
    StreamingGroupLasso: ({"alpha": 1e-3}, ["predict", "coef_", "intercept_", "n_iter_"]),
}
SILENT = {"partial_fit", "save", "add_unlabeled"}


def asked(model, name):
    attribute = getattr(model, name)
    return attribute(TEST) if callable(attribute) else attribute


@pytest.mark.parametrize("estimator", STREAMED)
def test_streams_warn_once_of_features_known_to_few_digits(estimator):
    options, names = STREAMED[estimator]
    y = CODES if estimator is StreamingRidgeClassifier else X @ np.ones((8, 2))
    for name in names:
        model = estimator(**options)
        gives(lambda model=model: model.fit(X + 1e4, y), DIGITS)
        gives(lambda model=model, name=name: asked(model, name), [])  # what is known is not computed again
        gives(lambda model=model: model.partial_fit(X + 1e4, y), [])
        gives(lambda model=model, name=name: asked(model, name), DIGITS)
        gives(lambda model=model, name=name: asked(model, name), [])
    assert public_names(estimator) <= {"fit", *names} | SILENT


@pytest.mark.parametrize("estimator", [StreamingElasticNet, StreamingGroupLasso])
def test_streams_warn_once_of_too_few_iterations_for_several_targets(estimator):
    y = np.stack([X[:, 1] - X[:, 2], X[:, 3], X[:, 0] + X[:, 4]], axis=1)
    for name in STREAMED[estimator][1]:
        model = estimator(alpha=1e-6, max_iter=1, tol=1e-12)
        gives(lambda model=model: model.fit(X, y), SOLVER)
        gives(lambda model=model: model.partial_fit(X, y), [])
        gives(lambda model=model, name=name: asked(model, name), SOLVER)


def test_principal_components_of_a_stream_do_not_warn():
    model = StreamingPCA(2)
    gives(lambda: model.fit(X + 1e4), [])
    gives(lambda: [asked(model, name) for name in ("transform", "components_", "explained_variance_ratio_")], [])


def test_classes_are_those_of_scikit_learn_and_exported():
    assert issubclass(VarianceWarning, NotConvergedWarning)
    assert issubclass(NotConvergedWarning, ConvergenceWarning)
    assert issubclass(PrecisionWarning, UserWarning)
    assert len(histogp.exceptions.__all__) == 6
    assert issubclass(histogp.ApproximationWarning, UserWarning)
    assert set(histogp.exceptions.__all__) <= set(histogp.__all__)
