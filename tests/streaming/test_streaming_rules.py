"""Streaming models as targets and rules: frozen values, solved once, behind one base class."""

import dataclasses
import pickle
from inspect import signature

import numpy as np
import pytest
from oracles import close, histograms
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

import histogp
from histogp import active, datasets, feature_maps, kernels, streaming
from histogp.feature_maps import AdditiveChi2Map, BlockMap, ExpChi2Sampler
from histogp.feature_maps._adapters import as_map, fit_map
from histogp.streaming import (
    StreamingElasticNet,
    StreamingGroupLasso,
    StreamingPCA,
    StreamingRidge,
    StreamingRidgeClassifier,
)
from histogp.streaming._stream import StreamingModel
from histogp.streaming._targets import ClassTargets, NoTargets, RealTargets

X = histograms(60, 4)
Y = X[:, :2] - X[:, 2:]
LABELS = np.array(["b", "a", "c"])[np.argmax(X[:, :3], axis=1)]
BLOCKS = [("terms", AdditiveChi2Map(), slice(0, 2)), ("same", None, [2, 3])]
MODELS = {
    StreamingPCA: (None, {"n_components": 2}),
    StreamingRidge: (Y, {"alpha": 3.0}),
    StreamingRidgeClassifier: (LABELS, {"alpha": 3.0}),
    StreamingElasticNet: (Y, {"alpha": 1e-3}),
    StreamingGroupLasso: (Y, {"alpha": 1e-3}),
}
every_model = pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)


def scores(model, rows=X):
    return next(getattr(model, name) for name in ("transform", "decision_function", "predict") if hasattr(model, name))(
        rows
    )


@pytest.fixture
def counted(monkeypatch):
    """Counts calls of a method of a class."""

    def count(cls, name):
        calls, method = [], getattr(cls, name)
        monkeypatch.setattr(cls, name, lambda *arguments: calls.append(name) or method(*arguments))
        return calls

    return count


def test_all_models_are_here():
    found = {getattr(streaming, name) for name in streaming.__all__}
    assert {one for one in found if isinstance(one, type) and issubclass(one, StreamingModel)} == set(MODELS)


def test_what_draws_at_random_has_a_seed_by_default():
    packages = (histogp, active, datasets, streaming, feature_maps, kernels)
    names = [
        (package, name) for package in packages for name in package.__all__ if not name.endswith(("Warning", "Error"))
    ]
    made = {name: getattr(package, name) for package, name in names}
    found = {
        name: signature(one).parameters for name, one in made.items() if callable(one) and not name.endswith("Warning")
    }
    seeds = {name: given["random_state"].default for name, given in found.items() if "random_state" in given}
    assert {"StreamingRidge", "StreamingRidgeClassifier", "ExpChi2Sampler", "SkewedChi2Map", "ExpChi2"} <= set(seeds)
    assert {"HistogramGPClassifier", "ActiveLearner", "make_bags_of_words"} <= set(seeds)
    assert set(seeds.values()) == {0}


@every_model
def test_a_model_is_one_class_above_the_base(make):
    assert [cls for cls in make.__mro__ if cls.__module__.startswith("histogp")] == [make, StreamingModel]


@every_model
def test_rules_and_targets_are_frozen_and_rules_compare(make):
    targets, other = MODELS[make]
    model = make().fit(X, targets)
    rule = model._rule()
    assert rule == make()._rule()
    assert hash(rule) == hash(make()._rule())
    assert rule != make(**other)._rule()
    for value in (rule, model._learned.targets, model._learned, model._solve()):
        name = dataclasses.fields(value)[0].name if dataclasses.fields(value) else "anything"
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


@every_model
def test_weights_are_found_once_for_equal_rules(make, counted):
    targets, other = MODELS[make]
    calls = counted(type(make()._rule()), "solve")
    model = make().fit(X, targets)
    assert len(calls) == 1
    expected = scores(model)
    np.testing.assert_array_equal(scores(model), expected)
    np.testing.assert_array_equal(scores(model.set_params(**model.get_params())), expected)
    model.set_params(chunk_bytes=100)
    close(scores(model), expected, rtol=1e-12)
    assert len(calls) == 1
    found = scores(model.set_params(**other))
    assert found.shape != expected.shape or not np.allclose(found, expected)
    assert len(calls) == 2
    model.partial_fit(X, targets).partial_fit(X, targets)
    assert len(calls) == 2
    expected = scores(model)
    assert len(calls) == 3
    np.testing.assert_array_equal(scores(pickle.loads(pickle.dumps(model))), expected)
    assert len(calls) == 3


@every_model
def test_fitted_attributes_are_there_after_fit(make, counted):
    calls = counted(type(make()._rule()), "solve")
    model = make().fit(X, MODELS[make][0])
    for name in (name for name in dir(make) if name.endswith("_") and not name.endswith("__")):
        getattr(model, name)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"equal_rank": 61}, "more than the 60 samples"), ({"blocks": BLOCKS, "block_weights": [1]}, "2 numbers")],
)
def test_what_has_no_solution_is_refused_by_fit_which_changes_nothing(parameters, message):
    model = StreamingRidgeClassifier().fit(X[:50], LABELS[:50])
    learned = model._learned
    with pytest.raises(ValueError, match=message):
        model.set_params(**parameters).fit(X, LABELS)
    assert model._learned is learned
    assert model.n_samples_seen_ == 50


def test_samples_to_leave_out_later_do_not_change_the_solution(counted):
    calls = counted(type(StreamingRidge()._rule()), "solve")
    model = StreamingRidge().fit(X, Y)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.set_params(n_left_out=5).predict(X), expected)
    assert len(calls) == 1


@pytest.mark.parametrize("make", [StreamingRidge, StreamingPCA])
def test_weights_are_folded_once_for_any_number_of_predictions(make, counted):
    first = BlockMap(BLOCKS, pca_components=2).fit(X)
    calls = counted(BlockMap, "_folded")
    model = make(feature_map=FrozenEstimator(first), chunk_bytes=200).fit(X, MODELS[make][0])
    found = [scores(model) for _ in range(3)]
    assert len(calls) == 1
    weights = model._solve()
    assert weights.folded is not None
    close(found[2], first.transform(X) @ weights.coefficients + weights.intercepts, rtol=1e-9)


def test_targets_say_what_y_means():
    real = RealTargets().extended(Y)
    assert (real.n_targets, real.is_vector) == (2, False)
    assert RealTargets().extended(Y[:, 0]).decode(Y[:, :1]).shape == (60,)
    with pytest.raises(ValueError, match="There were 2 targets so far, now 1"):
        real.extended(Y[:, 0])
    classes = ClassTargets().extended(LABELS[LABELS != "b"]).extended(np.array(["b"]), classes=["z", "b"])
    assert list(classes.classes) == ["a", "b", "c", "z"]
    assert list(classes.places_of(ClassTargets(np.array(["a", "c"])))) == [0, 2]
    values, weights = classes.encode(LABELS, np.ones(60), {"a": 3.0})
    np.testing.assert_array_equal(classes.decode(2 * values - 1), LABELS)
    np.testing.assert_array_equal(weights, np.where(LABELS == "a", 3.0, 1.0))
    assert NoTargets().encode(None, np.ones(5), None)[0].shape == (5, 0)


def test_every_map_has_the_contract_of_our_own():
    foreign = StandardScaler()
    cases = ((None, np.float64, 4), (ExpChi2Sampler(6), np.float32, 6), (foreign, np.float64, 4))
    for given, precision, n_out in cases:
        fitted = fit_map(given, X, None, None)
        assert fitted._precision is precision
        assert fitted.transform(X).shape == fitted._unprojected(X).shape == (60, n_out)
        assert fitted._folded(np.ones((n_out, 1)), np.zeros(1)) is None
        assert fitted._block_of is None
    assert not hasattr(foreign, "mean_")
    ours = AdditiveChi2Map().fit(X)
    assert as_map(ours) is as_map(FrozenEstimator(ours)) is fit_map(FrozenEstimator(ours), X, None, None) is ours
    np.testing.assert_array_equal(fit_map(BlockMap(BLOCKS), X, None, None)._block_of, np.repeat([0, 1], [6, 2]))
