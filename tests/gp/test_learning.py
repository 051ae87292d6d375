"""Learning that goes on, against fits from scratch."""

import copy
import pickle
import threading
from functools import partial

import numpy as np
import pytest
from discovery import all_estimators, given
from oracles import histograms, kernel_matrix
from scipy import sparse

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor, Optimizer
from histogp._core.solvers import factors
from histogp._estimator import updating
from histogp.gp import _model
from histogp.kernels import HistogramIntersection, Power

N, D = 150, 8
X = histograms(N, D)
TEST = histograms(40, D, seed=9)
RNG = np.random.default_rng(0)
CODES = RNG.integers(4, size=N)
Y = np.array(["ash", "birch", "cedar", "elm"])[CODES]
TARGETS = X @ RNG.standard_normal(D) + 3
WEIGHTS = RNG.uniform(0.5, 2, N)
WEIGHTS[[3, 77, 120]] = 0
SOLVERS = [dict(), dict(solver="cg", tol=1e-8), dict(solver="cg", tol=1e-8, preconditioner_rank=30)]
IDS = ["cholesky", "cg", "cg with preconditioner"]


def in_batches(model, order, ends, y, weights=WEIGHTS, **first):
    """Learn the rows in this order, up to one end after the other."""
    begin = 0
    for end in ends:
        rows = order[begin:end]
        model.partial_fit(X[rows], y[rows], sample_weight=weights[rows], **(first if begin == 0 else {}))
        begin = end
    return model


def assert_same(model, other):
    np.testing.assert_allclose(model.predict_variance(TEST), other.predict_variance(TEST), rtol=1e-5)
    if hasattr(model, "decision_function"):
        np.testing.assert_allclose(model.decision_function(TEST), other.decision_function(TEST), atol=1e-6)
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(model.classes_, other.classes_)
        np.testing.assert_array_equal(model.predict(TEST), other.predict(TEST))
    elif not hasattr(model, "decision_function"):
        np.testing.assert_allclose(model.predict(TEST), other.predict(TEST), atol=1e-6)


SPLITS = {
    "halves": (np.arange(N), [70, N]),
    "one by one": (np.arange(N), [100, *range(101, 112), N]),
    "shuffled": (np.random.default_rng(1).permutation(N), [1, 2, 30, 31, 130, N]),
    "by class": (np.argsort(CODES, kind="stable"), np.cumsum(np.bincount(CODES))),
}


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("options", SOLVERS, ids=IDS)
@pytest.mark.parametrize("class_weight", [None, "balanced", "balanced-ovr", {"ash": 0.3, "elm": 0}])
def test_a_classifier_learns_in_any_order_what_it_learns_at_once(split, options, class_weight):
    make = partial(given, HistogramGPClassifier, kernel="hik-poly", class_weight=class_weight, **options)
    order, ends = SPLITS[split]
    model = in_batches(make(), order, ends, Y)
    assert_same(model, make().fit(X, Y, WEIGHTS))
    kept = WEIGHTS[order] > 0
    if isinstance(class_weight, dict):
        kept &= Y[order] != "elm"
    np.testing.assert_array_equal(model.ids_, np.flatnonzero(kept))


def test_scores_are_those_of_the_dense_formula():
    model = in_batches(
        HistogramGPClassifier("hik", noise=0.1, class_weight="balanced"), np.arange(N), [40, 41, 90, N], Y
    )
    kept = WEIGHTS > 0
    per_class = WEIGHTS.sum() / (4 * np.bincount(CODES, WEIGHTS))
    noise = 0.1 / WEIGHTS[kept] / per_class[CODES[kept]]
    K = kernel_matrix(X[kept], X[kept], HistogramIntersection())
    targets = np.where(CODES[kept, None] == np.arange(4), 1.0, -1.0)
    alpha = np.linalg.solve(K + np.diag(noise), targets)
    expected = kernel_matrix(TEST, X[kept], HistogramIntersection()) @ alpha
    np.testing.assert_allclose(model.decision_function(TEST), expected, atol=1e-9)


@pytest.mark.parametrize("split", ["halves", "shuffled"])
@pytest.mark.parametrize("options", SOLVERS, ids=IDS)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("normalize_y", [False, True])
def test_a_regressor_learns_in_any_order_what_it_learns_at_once(split, options, several, normalize_y):
    y = np.stack([TARGETS, -10 * TARGETS**2], axis=1) if several else TARGETS
    make = partial(given, HistogramGPRegressor, normalize_y=normalize_y, **options)
    assert_same(in_batches(make(), *SPLITS[split], y), make().fit(X, y, WEIGHTS))


@pytest.mark.parametrize("contamination", ["auto", 0.1])
@pytest.mark.parametrize("options", [dict(), dict(criterion="ratio", solver="cg", tol=1e-8)])
def test_a_one_class_model_learns_in_any_order_what_it_learns_at_once(options, contamination):
    make = partial(given, HistogramGPOneClass, contamination=contamination, **options)
    model = in_batches(make(), *SPLITS["shuffled"], np.ones(N))
    assert_same(model, make().fit(X, sample_weight=WEIGHTS))
    model.forget(model.ids_[5:20])
    left = SPLITS["shuffled"][0][model.ids_]
    assert_same(model, make().fit(X[left], sample_weight=WEIGHTS[left]))


@pytest.mark.parametrize("options", SOLVERS, ids=IDS)
@pytest.mark.parametrize("class_weight", [None, "balanced", "balanced-ovr"])
def test_forgetting_is_a_fit_without(options, class_weight):
    make = partial(given, HistogramGPClassifier, class_weight=class_weight, **options)
    model = make().fit(X, Y)
    gone = np.union1d([0, 7, 149], np.flatnonzero(Y == "birch"))
    model.forget(gone[:20]).forget(gone[20:])
    left = np.setdiff1d(np.arange(N), gone)
    np.testing.assert_array_equal(model.ids_, left)
    assert_same(model, make().fit(X[left], Y[left]))
    assert "birch" not in model.classes_
    # And numbers are not used again.
    model.partial_fit(X[gone], Y[gone])
    np.testing.assert_array_equal(model.ids_, [*left, *range(N, N + len(gone))])
    rows = np.concatenate([left, gone])
    assert_same(model, make().fit(X[rows], Y[rows]))


@pytest.mark.parametrize("options", SOLVERS, ids=IDS)
@pytest.mark.parametrize(
    "class_weight", [None, "balanced", "balanced-ovr", {"ash": 2, "birch": 1, "cedar": 1, "elm": 0.5, "fir": 0}]
)
def test_relabeling_is_a_fit_with_the_right_labels(options, class_weight):
    make = partial(given, HistogramGPClassifier, class_weight=class_weight, **options)
    model = make().fit(X, Y)
    right = Y.copy().astype("<U6")
    right[Y == "cedar"] = "elm"
    right[[5, 6, 11]] = "fir"
    right[20:25] = "ash"
    changed = np.flatnonzero(right != Y)
    model.relabel(changed[::-1], right[changed[::-1]])
    kept = right != "fir" if isinstance(class_weight, dict) else np.ones(N, bool)
    assert_same(model, make().fit(X, right))
    np.testing.assert_array_equal(model.ids_, np.flatnonzero(kept))
    model.relabel(changed[0], "ash")  # a single one


@pytest.mark.parametrize("several", [False, True])
def test_a_regressor_forgets_and_takes_corrections(several):
    y = np.stack([TARGETS, TARGETS**2], axis=1) if several else TARGETS
    model = HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X, y)
    right = y.copy()
    right[[3, 9]] += 5
    model.relabel([9, 3], right[[9, 3]]).forget([0, 1])
    assert_same(model, HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X[2:], right[2:]))
    right[40] = 0
    model.relabel(40, right[40])
    assert_same(model, HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X[2:], right[2:]))


def test_classes_may_be_few_late_and_declared():
    model = HistogramGPClassifier("hik", noise=0.1).partial_fit(X[:5], ["b"] * 5)
    np.testing.assert_array_equal(model.predict(TEST), ["b"] * 40)
    np.testing.assert_array_equal(model.predict_proba(TEST), np.ones((40, 1)))
    assert model.decision_function(TEST).shape == (40,)
    twin = pickle.loads(pickle.dumps(model))
    for one in (model, twin):
        one.partial_fit(X[5:8], ["apple"] * 3)
    assert_same(twin, HistogramGPClassifier("hik", noise=0.1).fit(X[:8], ["b"] * 5 + ["apple"] * 3))
    model.partial_fit(X[8:9], ["b"], classes=["c", "b"])
    assert list(model.classes_) == ["apple", "b", "c"]
    K = kernel_matrix(X[:9], X[:9], HistogramIntersection()) + 0.1 * np.eye(9)
    expected = kernel_matrix(TEST, X[:9], HistogramIntersection()) @ np.linalg.solve(K, -np.ones(9))
    np.testing.assert_allclose(model.decision_function(TEST)[:, 2], expected)
    model.forget(np.arange(5, 8))  # the class that was never seen stays
    assert list(model.classes_) == ["b", "c"]
    model.forget(model.ids_[1:])
    assert model.n_samples_ == 1


def test_a_new_class_starts_from_what_is_known():
    """Where the problems share their matrix, the solution for targets -1 is a sum of those that are there."""
    options = dict(solver="cg", tol=1e-6, preconditioner_rank=0)
    model = given(HistogramGPClassifier, **options).fit(X[CODES < 3], Y[CODES < 3])
    n_cold = model.n_iter_
    one = np.flatnonzero(CODES == 3)[:1]
    model.partial_fit(np.zeros_like(X[one]), Y[one])  # a row that has nothing to do with the others
    assert model.n_iter_ <= 5 < n_cold / 4


def test_a_warm_start_saves_iterations_and_products():
    options = dict(solver="cg", tol=1e-4, preconditioner_rank=0, noise=0.01)
    model = given(HistogramGPClassifier, **options).fit(X[:-1], Y[:-1])
    model.partial_fit(X[-1:], Y[-1:])
    cold = given(HistogramGPClassifier, **options).fit(X, Y)
    assert model.n_iter_ < 0.8 * cold.n_iter_
    unchanged = copy.deepcopy(model).relabel(model.ids_[:3], Y[model.ids_[:3]])
    assert unchanged.n_iter_ == 0


def test_a_dense_factor_is_bordered_and_not_built_again(monkeypatch):
    sizes = []
    triangle = factors._triangle
    monkeypatch.setattr(
        factors, "_triangle", lambda matrix, diagonal: sizes.append(len(matrix)) or triangle(matrix, diagonal)
    )
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:100], Y[:100])
    model.partial_fit(X[100:103], Y[100:103]).partial_fit(X[103:104], ["fir"])
    model.predict_variance(TEST)
    model.relabel(0, "elm")
    assert sizes == [100, 3, 1]


def test_rows_are_merged_and_not_sorted_again(monkeypatch):
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:100], Y[:100])
    sorted_sizes = []
    lexsort = np.lexsort
    monkeypatch.setattr(np, "lexsort", lambda keys: sorted_sizes.append(len(keys[0])) or lexsort(keys))
    model.partial_fit(X[100:103], Y[100:103])
    assert sorted_sizes == [np.count_nonzero(X[100:103])]


@pytest.mark.portable
@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
def test_a_saved_model_goes_on_learning(make, tmp_path):
    y = {HistogramGPClassifier: Y, HistogramGPRegressor: TARGETS}.get(make, np.ones(N))
    model = given(make).fit(X[:90], y[:90], sample_weight=WEIGHTS[:90]).forget([4, 5])
    model.save(tmp_path / "m")
    loaded = histogp.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.ids_, model.ids_)
    for one in (model, loaded):
        one.partial_fit(X[90:], y[90:], sample_weight=WEIGHTS[90:])
    np.testing.assert_array_equal(loaded.ids_, model.ids_)
    assert_same(loaded, model)
    left = np.delete(np.arange(N), [4, 5])
    assert_same(loaded, given(make).fit(X[left], y[left], sample_weight=WEIGHTS[left]))


def test_a_model_that_only_predicts_says_so(tmp_path):
    HistogramGPClassifier("hik", noise=0.1, prediction="quantized").fit(X, Y).save(
        tmp_path / "m", include_training=False
    )
    loaded = histogp.load(tmp_path / "m")
    for change in (lambda: loaded.partial_fit(X, Y), lambda: loaded.forget([0]), lambda: loaded.relabel([0], ["elm"])):
        with pytest.raises(ValueError, match=r"without its training samples.*learns no more"):
            change()


BAD = {
    "a wrong width": (lambda m: m.partial_fit(X[:2, :3], Y[:2]), "3 features"),
    "a negative value": (lambda m: m.partial_fit(-X[:2], Y[:2]), "Negative values"),
    "values that overflow": (lambda m: m.partial_fit(np.full((2, D), 1e308), Y[:2]), "overflows"),
    "lengths that differ": (lambda m: m.partial_fit(X[:2], Y[:3]), "inconsistent"),
    "labels of another type": (
        lambda m: m.partial_fit(X[:2], [1, 2]),
        "new labels are numbers, but those known are texts",
    ),
    "real labels": (lambda m: m.partial_fit(X[:2], [0.5, 1.25]), "Unknown label type|continuous"),
    "an unknown number": (lambda m: m.forget([0, 999]), "no training sample with the number 999"),
    "a negative number": (lambda m: m.forget(-1), "no training sample with the number -1"),
    "a number twice": (lambda m: m.forget([1, 1]), "twice"),
    "rows of different lengths": (lambda m: m.forget([[1, 2], [3]]), "whole numbers"),
    "no numbers at all": (lambda m: m.forget(["a"]), "whole numbers"),
    "everything": (lambda m: m.forget(m.ids_), "all training samples"),
    "too few corrections": (lambda m: m.relabel([0, 1], ["elm"]), "inconsistent"),
    "a correction of another type": (lambda m: m.relabel([0], [3]), "new labels are numbers"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_updates_are_refused_and_change_nothing(what):
    change, message = BAD[what]
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:60], Y[:60])
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        change(model)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (dict(solver="foo"), "solver"),
        (dict(tol=-1), "tol"),
        (dict(max_iter="x"), "max_iter"),
        (dict(class_weight="foo"), "class_weight"),
        (dict(optimize=Optimizer(reoptimize_every="x")), "reoptimize_every"),
        (dict(class_weight={"ash": 0.0}), "class_weight is zero for samples"),
    ],
)
def test_parameters_are_checked_by_updates_too(parameters, message):
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:60], Y[:60]).set_params(**parameters)
    for change in (lambda: model.partial_fit(X[60:], Y[60:]), lambda: model.forget(0), lambda: model.relabel(0, "elm")):
        with pytest.raises(ValueError, match=message):
            change()
    assert model.n_samples_ == 60


@pytest.mark.parametrize("classes", [["a", None], [0.5, 1.0], [1.0, np.nan]])
def test_declared_classes_must_be_classes(classes):
    with pytest.raises(ValueError, match=r"classes must be|continuous"):
        HistogramGPClassifier("hik", noise=0.1).partial_fit(X[:2], [1.0, 2.0], classes=classes)


def test_labels_that_would_merge_classes_are_refused():
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:4], [2**53, 2**53 + 1, 0, 0])
    with pytest.raises(ValueError, match="cannot tell all known classes apart"):
        model.partial_fit(X[4:5], [3.0])


@pytest.mark.parametrize("options", SOLVERS, ids=IDS)
def test_what_overflows_is_refused_and_not_learned(options):
    model = given(HistogramGPRegressor, **options).fit(X[:60], TARGETS[:60])
    expected = model.predict(TEST)
    for change in (lambda: model.partial_fit(X[:1], [1e308]), lambda: model.relabel(0, 1e308)):
        with pytest.raises(ValueError, match="overflow"), np.errstate(all="ignore"):
            change()
    np.testing.assert_array_equal(model.predict(TEST), expected)


@pytest.mark.slow
def test_a_preconditioner_that_no_longer_helps_is_made_anew():
    rng = np.random.default_rng(0)
    A, B = rng.random((300, 6)), rng.random((140, 6)) * 1e5
    options = dict(solver="cg", tol=1e-8, noise=0.5, random_state=0)
    y = rng.normal(size=440)
    model = given(HistogramGPRegressor, **options).fit(A, y[:300]).partial_fit(B, y[300:])
    fresh = given(HistogramGPRegressor, **options).fit(np.concatenate([A, B]), y)
    np.testing.assert_allclose(model.predict(A), fresh.predict(A), atol=1e-5)
    assert model.n_iter_ < 3 * fresh.n_iter_


def test_threads_are_those_of_now():
    model = HistogramGPClassifier("hik", noise=0.1, n_jobs=2).fit(X[:60], Y[:60]).set_params(n_jobs=1)
    assert model.partial_fit(X[60:], Y[60:])._posterior.operator.n_threads == 1
    assert model.set_params(n_jobs=2).forget(0)._posterior.operator.n_threads == 2


def test_parameters_that_are_set_during_an_update_stay():
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:60], Y[:60])
    with updating(model) as changed:
        model.set_params(prediction="quantized")
        changed.mark_ = 1
    assert model.prediction == "quantized"
    assert model.mark_ == 1


def test_nothing_known_is_no_certainty():
    model = HistogramGPClassifier("hik", noise=0.1).partial_fit(np.eye(4)[:2], ["a", "b"])
    assert 0.3 < model.predict_proba([[0.1, 0, 0, 0]])[0, 0] < 0.7


def test_targets_of_another_shape_are_refused():
    model = HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(X[:60], TARGETS[:60])
    with pytest.raises(ValueError, match=r"targets of the shape \(n,\)"):
        model.partial_fit(X[:2], np.ones((2, 2)))
    with pytest.raises(ValueError, match="shape"):
        model.relabel([1, 2], np.ones((2, 2)))


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, MemoryError])
def test_a_failed_or_interrupted_update_changes_nothing(failure, monkeypatch):
    def fail(*_, **__):
        raise failure

    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:60], Y[:60])
    before = dict(vars(model))
    monkeypatch.setattr("histogp._core.solvers.factors.DirectSystem.solve", fail)
    for change in (lambda: model.partial_fit(X, Y), lambda: model.forget(0), lambda: model.relabel(0, "fir")):
        with pytest.raises(failure):
            change()
    assert vars(model) == before


def test_a_failed_first_update_leaves_an_unfitted_model(monkeypatch):
    model = HistogramGPClassifier("hik", noise=0.1)
    with pytest.raises(ValueError, match="Negative"):
        model.partial_fit(-X, Y)
    assert vars(model) == vars(HistogramGPClassifier("hik", noise=0.1))


def test_feature_names_are_checked_in_updates():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = HistogramGPClassifier("hik", noise=0.1).partial_fit(frame[:60], Y[:60])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[60:].rename(columns={"a": "z"}), Y[60:])
    model.partial_fit(frame[60:], Y[60:])
    np.testing.assert_array_equal(model.feature_names_in_, list("abcdefgh"))


def test_sparse_and_single_precision_updates():
    model = HistogramGPClassifier("hik", noise=0.1).partial_fit(X[:60].astype(np.float32), Y[:60])
    model.partial_fit(sparse.csr_array(X[60:]), Y[60:])
    rounded = np.concatenate([X[:60].astype(np.float32), X[60:]])
    assert_same(model, HistogramGPClassifier("hik", noise=0.1).fit(rounded, Y))
    single = HistogramGPRegressor("hik", noise=0.1, normalize_y=False).partial_fit(
        X[:60].astype(np.float32), TARGETS[:60].astype(np.float32)
    )
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    assert single.partial_fit(X[60:], TARGETS[60:]).predict(X.astype(np.float32)).dtype == np.float64


def test_an_update_that_another_thread_has_overtaken_says_so():
    model = HistogramGPClassifier("hik", noise=0.1).fit(X[:60], Y[:60])
    update = updating(model)
    update.__enter__()
    model.partial_fit(X[60:61], Y[60:61])
    with pytest.raises(RuntimeError, match="Another thread"):
        update.__exit__(None, None, None)
    assert model.n_samples_ == 61


def test_a_fit_that_another_one_has_overtaken_says_so(monkeypatch):
    model = HistogramGPClassifier("hik", noise=0.1)

    def overtake(kernel):
        monkeypatch.undo()
        model.fit(X[:, :3], Y)
        return _model.as_kernel(kernel)

    monkeypatch.setattr(_model, "as_kernel", overtake)
    with pytest.raises(RuntimeError, match="Another thread"):
        model.fit(X, Y)
    assert model.n_features_in_ == 3
    assert model.predict(X[:, :3]).shape == (N,)
    assert not hasattr(model, "_callback_fit_ctx")


# Two states of each estimator. What belongs to one does not fit, or not well, together with the other.
STATES = {
    HistogramGPClassifier: (Y[:60], [*Y[:60], *(f"new{k % 40}" for k in range(N - 60))]),
    HistogramGPRegressor: (TARGETS[:60], np.stack([TARGETS, -10 * TARGETS**2, TARGETS - 9], axis=1)),
    HistogramGPOneClass: (None, None),
}
READERS = ("predict", "decision_function", "predict_proba", "predict_variance", "score_samples")


@pytest.mark.parametrize("prediction", ["exact", "quantized"])
@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
def test_readers_see_the_old_or_the_new_state(make, prediction):
    """Classes, outputs and samples come and go while others predict: scores and what they mean must not mix."""
    options = {"normalize_y": True} if make is HistogramGPRegressor else {}
    model, wide = (
        make(prediction=prediction, n_bins=4, **options).fit(X[:n], y)
        for n, y in zip((60, N), STATES[make], strict=True)
    )
    readers = [name for name in READERS if hasattr(model, name)]
    expected = {name: {getattr(state, name)(TEST).tobytes() for state in (model, wide)} for name in readers}
    assert len(expected["predict_variance"]) == 2
    failures, stop = [], threading.Event()

    def read():
        try:
            while not stop.is_set():
                for name in readers:
                    assert getattr(model, name)(TEST).tobytes() in expected[name], name
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    before, after = vars(model), vars(wide)
    for k in range(200):
        with updating(model) as changed:
            changed.__dict__.clear()
            changed.__dict__.update(after if k % 2 == 0 else before)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


class TestSearchingAgain:
    KERNEL = HistogramIntersection(Power(0.5))

    def test_it_happens_as_often_as_was_asked_for(self):
        search = Optimizer("exact", reoptimize_every=20)
        model = HistogramGPClassifier(self.KERNEL, noise=0.1, optimize=search).fit(X[:60], Y[:60])
        first, likelihood = model.kernel_, model.log_marginal_likelihood_
        assert np.isfinite(likelihood)
        model.partial_fit(X[60:70], Y[60:70])
        assert model.kernel_ is first
        assert np.isnan(model.log_marginal_likelihood_)
        model.forget([0, 1, 2]).relabel([3, 4], ["elm", "elm"]).partial_fit(X[70:75], Y[70:75])
        assert model.kernel_ is not first
        assert np.isfinite(model.log_marginal_likelihood_)
        np.testing.assert_allclose(model.log_marginal_likelihood(), model.log_marginal_likelihood_, rtol=1e-6)

    def test_a_part_is_one_of_the_examples_at_the_last_search(self, tmp_path):
        model = HistogramGPClassifier(self.KERNEL, optimize="gradient").fit(X[:60], Y[:60])
        first = model.kernel_
        model.partial_fit(X[60:89], Y[60:89])
        assert model.kernel_ is first
        model.save(tmp_path / "m")
        model = histogp.load(tmp_path / "m").partial_fit(X[89:90], Y[89:90])
        assert np.isfinite(model.log_marginal_likelihood_)

    def test_never(self):
        model = HistogramGPClassifier(self.KERNEL, optimize=Optimizer(reoptimize_every=None)).fit(X[:20], Y[:20])
        assert model.kernel_ is model.partial_fit(X[20:], Y[20:]).kernel_

    def test_it_finds_what_a_search_from_scratch_finds_with_fewer_evaluations(self):
        options = dict(kernel=self.KERNEL, optimize=Optimizer("exact", reoptimize_every=1))
        model = HistogramGPClassifier(**options).fit(X[:140], Y[:140]).partial_fit(X[140:], Y[140:])
        scratch = HistogramGPClassifier(**options).fit(X, Y)
        np.testing.assert_allclose(model.log_marginal_likelihood_, scratch.log_marginal_likelihood_, rtol=1e-4)
        evaluations = [len(one.optimization_path_["n_samples"]) for one in (model, scratch)]
        assert evaluations[0] < evaluations[1]

    def test_weights_are_learned_anew(self):
        kernel = HistogramIntersection(weights="ard")
        model = HistogramGPRegressor(kernel, normalize_y=False, optimize=Optimizer(reoptimize_every=1)).fit(
            X[:60, :3], X[:60, 0]
        )
        model.partial_fit(X[60:, :3], X[60:, 1])
        assert model.kernel_.weights[1] > 0

    def test_an_interrupted_search_leaves_the_model_as_it_was(self, monkeypatch):
        model = HistogramGPClassifier(self.KERNEL, optimize=Optimizer(reoptimize_every=1)).fit(X[:60], Y[:60])
        before = dict(vars(model))

        def interrupt(row):
            raise KeyboardInterrupt

        monkeypatch.setattr("histogp.gp._model.describe_evaluation", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[60:], Y[60:])
        assert vars(model) == before
