"""The loop of questions and answers."""

import numpy as np
import pytest
from oracles import histograms
from scipy import sparse

from histogp import HistogramGPClassifier, HistogramGPRegressor
from histogp.active import STRATEGIES, ActiveLearner, query

X = histograms(120, 5)
Y = np.where(X[:, 0] > X[:, 1], "left", "right")
TEST = histograms(50, 5, seed=5)
TEST_Y = np.where(TEST[:, 0] > TEST[:, 1], "left", "right")


def score(model):
    return model.score(TEST, TEST_Y)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("parameters", [{}, {"kernel": "hik", "noise": 0.1}], ids=["default", "hik"])
def test_every_question_is_new_and_its_answer_is_learned(strategy, parameters):
    clf = HistogramGPClassifier(**parameters).fit(X[:10], Y[:10])
    learner = ActiveLearner(clf, strategy=strategy, X_pool=X[10:], random_state=0)
    curve = learner.run(Y[10:], budget=15, scoring=score)
    np.testing.assert_array_equal(curve["n_labels"], np.arange(16))
    np.testing.assert_array_equal(curve["n_samples"], np.arange(10, 26))
    assert len(set(learner.queried_)) == 15
    rows = np.concatenate([np.arange(10), 10 + learner.queried_])
    scratch = HistogramGPClassifier(clf.kernel_, noise=clf.noise_).fit(X[rows], Y[rows])
    np.testing.assert_allclose(clf.decision_function(TEST), scratch.decision_function(TEST), atol=1e-8)
    assert curve["score"][-1] == score(scratch)


def test_the_first_question_is_what_query_says():
    clf = HistogramGPClassifier().fit(X[:10], Y[:10])
    learner = ActiveLearner(clf, X[10:], batch_size=3)
    np.testing.assert_array_equal(learner.query(), query(clf, X[10:], batch_size=3))
    first = learner.query()
    learner.teach(first, Y[10 + first])
    np.testing.assert_array_equal(
        learner.query(), query(clf, X[10:], batch_size=3, candidates=~np.isin(range(110), first))
    )


def test_it_can_begin_with_nothing_and_end_with_everything():
    learner = ActiveLearner(HistogramGPClassifier(), sparse.csr_array(X), batch_size=50, random_state=0)
    curve = learner.run(
        lambda index: Y[index], budget=1000, scoring=lambda m: {"accuracy": score(m), "n": len(m.classes_)}
    )
    np.testing.assert_array_equal(curve["n_labels"], [50, 100, 120])
    assert set(curve) == {"n_labels", "n_samples", "query_seconds", "update_seconds", "accuracy", "n"}
    assert sorted(learner.queried_) == list(range(120))
    assert len(learner.run(Y, budget=5)["n_labels"]) == 1


def test_runs_are_repeated_by_their_seed_and_go_on():
    curves = []
    for _ in range(2):
        learner = ActiveLearner(HistogramGPClassifier(), X, "random", random_state=3)
        learner.run(Y, budget=4)
        learner.run(Y, budget=6)
        curves.append(learner.queried_)
    np.testing.assert_array_equal(*curves)
    assert len(curves[0]) == 10


def test_runs_are_repeated_without_a_seed_unless_that_is_none():
    chosen = [ActiveLearner(HistogramGPClassifier(), X, "random", batch_size=20).query() for _ in range(2)]
    np.testing.assert_array_equal(*chosen)
    np.testing.assert_array_equal(chosen[0], ActiveLearner(HistogramGPClassifier(), X, random_state=0).query(20))
    others = [ActiveLearner(HistogramGPClassifier(), X, random_state=None).query(20).tolist() for _ in range(2)]
    assert others[0] != others[1]


@pytest.mark.parametrize("kernel", ["auto", "hik"])
def test_a_regressor_learns_too(kernel):
    reg = HistogramGPRegressor(kernel).fit(X[:5], X[:5, 0])
    learner = ActiveLearner(reg, X, "batch-variance", batch_size=5)
    learner.run(X[:, 0], budget=20)
    assert reg.n_samples_ == 25


def test_an_oracle_that_fails_leaves_the_model_as_it_was():
    clf = HistogramGPClassifier().fit(X[:10], Y[:10])
    learner = ActiveLearner(clf, X[10:])
    with pytest.raises(ZeroDivisionError):
        learner.run(lambda index: 1 / 0, budget=3)
    with pytest.raises(ValueError, match="inconsistent"):
        learner.run(lambda index: ["left", "left"], budget=3)
    assert clf.n_samples_ == 10
    assert len(learner.queried_) == 0


def test_a_curve_is_a_table():
    pd = pytest.importorskip("pandas")
    learner = ActiveLearner(HistogramGPClassifier(), X, "random", batch_size=10, random_state=0)
    assert len(pd.DataFrame(learner.run(Y, 30, scoring=score))) == 3


def test_misuse_is_refused_before_anything_is_asked():
    clf = HistogramGPClassifier().fit(X[:10], Y[:10])
    for options, message in ((dict(strategy="best"), "Unknown strategy"), (dict(batch_size=0), "batch_size")):
        with pytest.raises(ValueError, match=message):
            ActiveLearner(HistogramGPClassifier(), X, **options)
    learner = ActiveLearner(clf, sparse.coo_array(X))
    for index, message in (([1.7], "index must be positions"), ([-1], "index must be positions"), ([2, 2], "twice")):
        with pytest.raises(ValueError, match=message):
            learner.teach(index, ["left"] * len(index))
    learner.teach(np.arange(120) < 2, Y[:2])
    np.testing.assert_array_equal(learner.queried_, [0, 1])
    names = iter("abc")
    with pytest.raises(ValueError, match="same names"):
        learner.run(Y, 2, scoring=lambda model: {next(names): 1.0})
    learner.run(Y, 1000)
    with pytest.raises(ValueError, match="All samples of the pool are labeled"):
        learner.query()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"oracle": [0, 1]}, ValueError, "There are 2 labels for a pool of "),
        ({"budget": 2.5}, ValueError, "budget must be a whole number from 0 on; got 2.5"),
        ({"budget": -1}, ValueError, "budget must be"),
        ({"scoring": "accuracy"}, TypeError, "scoring must be a function of the estimator"),
    ],
)
def test_wrong_arguments_of_a_run_are_refused_by_a_sentence(options, error, message):
    clf = HistogramGPClassifier().fit(histograms(20, 4), np.arange(20) % 2)
    learner = ActiveLearner(clf, histograms(30, 4, seed=2))
    with pytest.raises(error, match=message):
        learner.run(**{"oracle": np.zeros(30, int), "budget": 3, **options})
    assert clf.n_samples_ == 20
