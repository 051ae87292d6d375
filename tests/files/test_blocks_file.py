"""Files of models with blocks: the same for all kinds of columns; damage is refused by a sentence."""

import numpy as np
import pandas as pd
import pytest
from mutations import forged_contents, packed
from oracles import alike, histograms
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

import histogp
from histogp import ModelFileError
from histogp.feature_maps import AdditiveChi2Map, BlockMap, ExpChi2Sampler, HomogeneousMap, SkewedChi2Map
from histogp.io import container, schema
from histogp.streaming import StreamingGroupLasso, StreamingRidge, StreamingRidgeClassifier

pytestmark = pytest.mark.portable

X = histograms(80, 6)
TEST = histograms(20, 6, seed=3)
NAMES = ["ä", "bee", "c c", "d", "", "f"]
FRAME, TEST_FRAME = (pd.DataFrame(rows, columns=NAMES) for rows in (X, TEST))
TARGETS = X[:, 1] - X[:, 2]
LABELS = np.array(["x", "y", "z"])[np.argmax(X[:, 1:4], axis=1)]
CHI2 = AdditiveChi2Map(n_terms=3, points="greedy")
WAVES = ExpChi2Sampler(7, random_state=0)
SOME = {"n_left_out": 30, "random_state": 0}
COLUMNS = {
    "slice": slice(1, 4),
    "everything": slice(None),
    "steps": slice(0, None, 2),
    "from the end": slice(-3, None),
    "numbers": [4, 0, 2],
    "tuple": (4, 0),
    "array": np.array([5, 1], np.int32),
    "negative numbers": [-1, -6],
    "number": 3,
    "mask": [True, False, True, False, False, True],
    "array as mask": np.arange(6) > 2,
}
NAMED = {
    "names": ["d", "ä"],
    "name": "f",
    "array of names": np.array(["bee", "", "c c"]),
    "index of names": pd.Index(["bee", "f"]),
    "slice of names": slice("bee", "d"),
}
ALL = [
    ("terms", CHI2, slice(0, 3)),
    ("same", None, [5, 3]),
    ("waves", WAVES, [4, 0, 2]),
    ("root", HomogeneousMap("hellinger"), [1, 2]),
    ("skewed", SkewedChi2Map(5, random_state=1), slice(None)),
    ("pair", BlockMap([("in", CHI2, [1, 0]), ("out", None, slice(None))], pca_components=2), [3, 4]),
]
RANDOM = [("a", WAVES, slice(0, 3)), ("b", ExpChi2Sampler(6, beta=2.0, random_state=1), [3, 5])]
MODELS = {
    "a regressor": (StreamingRidge(blocks=ALL, block_components=3, **SOME), TARGETS),
    "all maps": (StreamingRidge(blocks=ALL, block_weights=[1, 2, 0, 1.5, 1, 3], **SOME), TARGETS),
    "a classifier": (
        StreamingRidgeClassifier(blocks=ALL, block_components=2, block_weights="evidence", **SOME),
        LABELS,
    ),
    "ranks": (StreamingRidgeClassifier(blocks=ALL[:3], equal_rank=20, alpha=0.1, **SOME), LABELS),
    "random": (StreamingRidgeClassifier(blocks=RANDOM, block_components=3, alpha=0.1), LABELS),
    "groups": (StreamingGroupLasso(blocks=ALL[:2], alpha=1e-3), TARGETS),
    "tuples": (StreamingRidge(blocks=tuple(ALL[:2]), alpha=0.1), TARGETS),
    "lists": (StreamingRidge(blocks=[list(block) for block in ALL[:2]], alpha=0.1), TARGETS),
    "a map of blocks": (StreamingRidge(BlockMap(ALL, pca_components=2), block_weights="evidence", alpha=0.1), TARGETS),
    "a frozen map": (StreamingRidge(FrozenEstimator(BlockMap(ALL, pca_components=2).fit(X)), alpha=0.1), TARGETS),
}


def scores(model, X=TEST):
    return getattr(model, "decision_function", model.predict)(X)


def again(model, path):
    model.save(path)
    loaded = histogp.load(path)
    assert type(loaded) is type(model)
    return loaded


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.histogp"


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_predicts_and_learns_alike(name, path):
    given, targets = MODELS[name]
    model = clone(given).partial_fit(X[:50], targets[:50])
    loaded = again(model, path)
    for rows in (TEST, TEST.astype(np.float32)):
        alike(scores(loaded, rows), scores(model, rows))
    alike(loaded.coef_, model.coef_)
    if hasattr(model, "block_weights_"):
        alike(loaded.block_weights_, model.block_weights_)
    for one in (model, loaded):
        one.partial_fit(X[50:], targets[50:])
    alike(scores(loaded), scores(model))
    before = path.read_bytes()
    again(histogp.load(path), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["a regressor", "a classifier", "tuples"])
def test_a_loaded_model_may_be_fitted_from_scratch(name, path):
    given, targets = MODELS[name]
    loaded = again(clone(given).fit(X[:50], targets[:50]), path)
    alike(scores(loaded.fit(X, targets)), scores(clone(given).fit(X, targets)))


@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("kind", [*COLUMNS, *NAMED])
def test_columns_of_every_kind(kind, n_components, path):
    data, rows = (FRAME, TEST_FRAME) if kind in NAMED else (X, TEST)
    blocks = [("own", CHI2, (COLUMNS | NAMED)[kind]), ("rest", None, [0, 5])]
    model = StreamingRidge(blocks=blocks, block_components=n_components, alpha=0.1).fit(data, TARGETS)
    loaded = again(model, path)
    alike(loaded.predict(rows), model.predict(rows))
    for one in (model, loaded):
        one.partial_fit(data[:40], TARGETS[:40])
    alike(loaded.predict(rows), model.predict(rows))
    alike(loaded.fit(data, TARGETS).predict(rows), clone(model).fit(data, TARGETS).predict(rows))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("kind", NAMED)
def test_frozen_maps_with_names(kind, path):
    blocks = BlockMap([("own", CHI2, NAMED[kind]), ("rest", None, ["d"])], pca_components=2)
    model = StreamingRidge(FrozenEstimator(blocks.fit(FRAME)), alpha=0.1).fit(FRAME, TARGETS)
    alike(again(model, path).predict(TEST_FRAME), model.predict(TEST_FRAME))


def test_a_loaded_map_knows_its_components_alone(path):
    loaded = again(StreamingRidge(blocks=ALL, block_components=2, alpha=0.1).fit(X, TARGETS), path)
    with pytest.raises(ValueError, match="came from a file, which has its components alone"):
        loaded._learned.feature_map.partial_fit(X)


def test_what_a_file_cannot_hold_is_refused_before_anything_is_written(path):
    path.write_text("old")
    for foreign in (StandardScaler(), FrozenEstimator(StandardScaler().fit(X[:, :2]))):
        model = StreamingRidge(blocks=[("a", foreign, [0, 1]), ("b", None, [2])], alpha=1.0).fit(X, TARGETS)
        with pytest.raises(ValueError, match=r"cannot hold; use joblib|cannot be saved"):
            model.save(path)
    assert path.read_text() == "old"


def forge(content, path, change):
    document, arrays = container.parse(content)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(document, arrays)
    return packed(document, arrays, path.parent)


def test_files_from_before_there_were_blocks(path, monkeypatch):
    new = {"blocks", "block_components", "block_weights", "equal_rank"}
    for make, targets in (
        (StreamingRidge, TARGETS),
        (StreamingRidgeClassifier, LABELS),
        (StreamingGroupLasso, TARGETS),
    ):
        model = make(CHI2, alpha=0.1).fit(X, targets)
        model.save(path)
        for name in new & model.get_params(deep=False).keys():
            monkeypatch.setitem(schema.ABSENT, (make.__name__, name), getattr(model, name))

        def older(document, _):
            for name in new & document["parameters"].keys():
                del document["parameters"][name]

        path.write_bytes(forge(path.read_bytes(), path, older))
        alike(scores(histogp.load(path)), scores(model))


# Damage.

CONTENTS = ("a regressor", "all maps", "random", "a map of blocks", "groups", "ranks")


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.histogp"
    found = {}
    for name in CONTENTS:
        given, targets = MODELS[name]
        clone(given).fit(X, targets).save(path)
        found[name] = path.read_bytes()
    return found


def set_entry(name, at, value):
    return lambda _, arrays: arrays[name].__setitem__(at, value)


def set_array(name, make):
    return lambda _, arrays: arrays.__setitem__(name, make(arrays[name]))


def parameter(**values):
    return lambda document, _: document["parameters"].update(values)


def block(k, at, value):
    return lambda document, _: document["parameters"]["blocks"]["blocks"][k].__setitem__(at, value)


FORGED = [
    ("a regressor", set_entry("map.widths", 0, 10), "blocks are damaged"),
    ("a regressor", set_entry("map.widths", 0, 0), "map.widths"),
    ("a regressor", set_entry("map.widths", 0, 2**62), "blocks are damaged"),
    ("a regressor", set_array("map.widths", lambda a: a[:-1]), "map.widths"),
    ("a regressor", set_array("map.widths", lambda a: a.astype(np.float64)), "map.widths"),
    ("a regressor", lambda _, a: a.pop("map.widths"), "map.widths"),
    ("a regressor", set_entry("map.1.columns", 0, 6), "columns do not exist"),
    ("a regressor", set_entry("map.1.columns", 0, 2**62), "columns do not exist"),
    ("a regressor", set_entry("map.1.columns", 0, -1), "map.1.columns"),
    ("a regressor", set_array("map.1.columns", lambda a: a[:0]), "columns do not exist"),
    ("a regressor", set_array("map.1.columns", lambda a: a[:1]), "blocks are damaged"),
    ("a regressor", set_array("map.1.columns", lambda a: a[:, None]), "map.1.columns"),
    ("a regressor", lambda _, a: a.pop("map.1.columns"), "map.1.columns"),
    ("a regressor", set_array("map.0.vectors", lambda a: a[:-1]), "map.0.vectors"),
    ("a regressor", set_entry("map.0.vectors", (0, 0), np.nan), "map.0.vectors"),
    ("a regressor", set_array("map.0.means", lambda a: a[:-1]), "map.0.means"),
    ("a regressor", set_entry("map.0.means", 0, np.inf), "map.0.means"),
    ("a regressor", set_entry("map.0.variances", 0, -1.0), "map.0.variances"),
    ("a regressor", set_array("map.0.variances", lambda a: a[:-1]), "map.0.vectors"),
    (
        "a regressor",
        lambda _, a: a.update(
            {"map.0.variances": a["map.0.variances"][:2], "map.0.vectors": a["map.0.vectors"][:, :2]}
        ),
        "statistics do not fit together",
    ),
    ("a regressor", lambda _, a: a.pop("map.0.vectors"), "map.0.vectors"),
    ("a regressor", lambda _, a: a.update({"map.1.map.points": np.ones((3, 2))}), "unknown array 'map.1.map.points'"),
    ("a regressor", lambda _, a: a.pop("map.2.map.frequencies"), "map.2.map.frequencies"),
    ("a regressor", set_array("map.2.map.frequencies", lambda a: a[:, :-1]), "map.2.map.frequencies"),
    ("a regressor", set_entry("map.5.map.1.columns", 0, 2), "columns do not exist"),
    ("a regressor", parameter(block_components=None), "statistics do not fit together|unknown array"),
    ("a regressor", parameter(block_components=0), "block_components"),
    ("a regressor", parameter(blocks=None), "block_components=3 needs blocks"),
    ("a regressor", parameter(blocks={"blocks": []}), "blocks must be tuples"),
    ("a regressor", parameter(blocks={"blocks": [["a", None]]}), "block is damaged"),
    ("a regressor", parameter(blocks={"blocks": [[1, None, {"slice": [0, 1, None]}]]}), "block is damaged"),
    ("a regressor", parameter(blocks="blocks"), "blocks"),
    ("a regressor", parameter(feature_map={"object": "Popen", "parameters": {}}), "does not know"),
    ("a regressor", block(0, 1, {"object": "Popen", "parameters": {}}), "does not know"),
    ("a regressor", block(0, 1, None), "blocks are damaged|unknown array"),
    ("a regressor", block(0, 1, 3), "must be a transformer"),
    ("a regressor", block(0, 0, "same"), "names of blocks must differ"),
    ("a regressor", block(0, 2, {"slice": [0, 1]}), "columns of a block are damaged"),
    ("a regressor", block(0, 2, {"slice": [0.5, 1, None]}), "columns of a block are damaged"),
    ("a regressor", block(0, 2, {"slice": [True, 1, None]}), "columns of a block are damaged"),
    ("a regressor", block(0, 2, {"array": "nothing"}), "nothing"),
    ("a regressor", block(0, 2, {"columns": 3}), "parameter is damaged"),
    ("all maps", parameter(block_components=2), "map.0.variances"),
    ("all maps", lambda _, a: a.pop("parameter.block_weights"), "parameter.block_weights"),
    ("all maps", set_entry("parameter.block_weights", 0, np.nan), "parameter.block_weights"),
    ("ranks", parameter(equal_rank=0), "equal_rank"),
    ("ranks", parameter(equal_rank="first"), "equal_rank"),
    ("a map of blocks", parameter(feature_map={"object": "BlockMap", "parameters": {}}), "of its BlockMap is missing"),
    ("groups", parameter(groups=True), "groups"),
]


@pytest.mark.parametrize("case", range(len(FORGED)))
def test_forged_contents_with_a_valid_checksum(case, contents, path):
    name, change, message = FORGED[case]
    path.write_bytes(forge(contents[name], path, change))
    with pytest.raises(ModelFileError, match=message) as caught:
        histogp.load(path)
    sentence = str(caught.value)
    assert "is not an intact histogp model: " in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 600


# Numbers that were forged may have no solution within the given iterations.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", CONTENTS)
def test_random_damage(name, contents, path):
    """A file is refused, or what it holds predicts, or says in a sentence why it does not."""
    rng = np.random.default_rng(0)
    parsed = container.parse(contents[name])
    for _ in range(25):
        document, arrays = forged_contents(*parsed, rng)
        if not isinstance(document.get("class", ""), str):
            continue
        path.write_bytes(packed(document, arrays, path.parent))
        try:
            model = histogp.load(path)
        except ModelFileError:
            continue
        try:
            with np.errstate(all="ignore"):
                scores(model, np.ones((2, model.n_features_in_)))
        except ValueError:
            continue
