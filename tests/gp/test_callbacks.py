"""scikit-learn's callbacks: progress, scores along the way, early stopping."""

import contextlib

import numpy as np
import pytest
from discovery import all_estimators, targets_for
from oracles import histograms

from histogp import HistogramGPClassifier
from histogp._sklearn import HAS_CALLBACKS

X = histograms(80, 6)
Y = (X[:, 1] > X[:, 2]).astype(int)
needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has callbacks from 1.9 on")


def quality(model, X, y):
    """One number; those who have no score of their own still have some for samples."""
    return model.score(X, y) if hasattr(model, "score") else model.score_samples(X).mean()


class Recorder:
    """Keeps what the hooks were given and stops after ``limit`` iterations."""

    def __init__(self, limit=np.inf):
        self.limit = limit
        self.iterations = 0
        self.scores = []
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.events.append(f"end {context.task_name}")
        self.scores.append(quality(fitted_estimator, X, y))
        if context.task_name == "iteration":
            self.iterations += 1
        return self.iterations >= self.limit


@pytest.mark.skipif(HAS_CALLBACKS, reason="scikit-learn has callbacks")
def test_callbacks_are_refused_where_scikit_learn_has_none():
    clf = HistogramGPClassifier("hik", noise=0.1)
    assert clf.set_callbacks() is clf
    with pytest.raises(NotImplementedError, match=r"^Callbacks need scikit-learn 1\.9 or newer; this is 1\.[678]"):
        clf.set_callbacks(Recorder())


@needs_callbacks
@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
def test_each_iteration_is_a_task_with_a_fitted_estimator(make):
    recorder, y = Recorder(), targets_for(make, X)
    fitted = make(solver="cg", preconditioner_rank=0, tol=1e-4).set_callbacks(recorder).fit(X, y)
    assert recorder.iterations == fitted.n_iter_
    assert recorder.events[:3] == ["setup", "begin fit", "begin iteration"]
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert recorder.scores[-1] == quality(fitted, X, y)
    assert recorder.scores[-1] > recorder.scores[0] - 0.1
    assert not hasattr(fitted, "_callback_fit_ctx")


@needs_callbacks
def test_a_callback_stops_the_solver_without_a_warning():
    clf = HistogramGPClassifier("hik", noise=0.1, solver="cg", preconditioner_rank=0, tol=1e-10)
    clf.set_callbacks(Recorder(limit=3)).fit(X, Y)
    assert clf.n_iter_ == 3
    assert clf.residual_.max() > 1e-10
    assert clf.predict(X).shape == (80,)


@needs_callbacks
def test_a_progress_bar_runs(capsys):
    from sklearn.callback import ProgressBar

    HistogramGPClassifier("hik", noise=0.1, solver="cg").set_callbacks(ProgressBar()).fit(X, Y)


@needs_callbacks
def test_an_error_in_a_callback_leaves_the_previous_fit():
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
            raise RuntimeError("no")

    clf = HistogramGPClassifier("hik", noise=0.1, solver="cg").fit(X, Y)
    alpha = clf.alpha_
    failing = Failing()
    clf.set_callbacks(failing)
    with contextlib.suppress(RuntimeError):
        clf.fit(X[:, :3], Y)
    assert failing.events[-1] == "teardown"
    assert clf.alpha_ is alpha
    assert clf.n_features_in_ == 6
    assert not hasattr(clf, "_callback_fit_ctx")


@needs_callbacks
def test_data_that_are_refused_leave_no_callback_open():
    recorder = Recorder()
    clf = HistogramGPClassifier("hik", noise=0.1).set_callbacks(recorder)
    before = dict(vars(clf))
    with pytest.raises(ValueError, match="Negative"):
        clf.fit(-X, Y)
    assert recorder.events == ["setup", "teardown"]
    assert vars(clf) == before
