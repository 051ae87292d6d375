"""Files of streaming estimators: the same bytes, the same in what they learn next; damage is refused by a sentence."""

import json

import numpy as np
import pandas as pd
import pytest
from mutations import damaged_bytes, forged_contents, packed
from oracles import alike, histograms
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import AdditiveChi2Sampler

import histogp
from histogp import ModelFileError
from histogp.feature_maps import AdditiveChi2Map, HomogeneousMap, SkewedChi2Map
from histogp.io import container, schema
from histogp.streaming import StreamingPCA, StreamingRidge, StreamingRidgeClassifier

pytestmark = pytest.mark.portable

N, D = 120, 5
X = histograms(N, D)
TEST = histograms(20, D, seed=3)
CODES = np.argmax(X[:, 1:4], axis=1)
NAMES = np.array(["ä", "bee", "sea, or c"])[CODES]
TARGETS = X[:, 1] - X[:, 2]
WEIGHTS = np.linspace(0, 2, N)
CHI2 = AdditiveChi2Map(n_terms=3)
SOME = {"n_left_out": 30, "random_state": 0}
MODELS = {
    "a regressor": (StreamingRidge(CHI2, **SOME), TARGETS),
    "two targets": (StreamingRidge(CHI2, **SOME), X[:, 1:3]),
    "a column of targets": (StreamingRidge(alpha="gcv"), TARGETS[:, None]),
    "features as they are": (StreamingRidge(alpha=0.1, fit_intercept=False, pca_components=3), TARGETS),
    "texts": (StreamingRidgeClassifier(CHI2, **SOME), NAMES),
    "objects": (StreamingRidgeClassifier(alpha="evidence"), NAMES.astype(object)),
    "two integers": (StreamingRidgeClassifier(CHI2, **SOME), (CODES == 1) * 7 - 2),
    "booleans": (StreamingRidgeClassifier(CHI2, pca_components=4, **SOME), CODES == 1),
    "balanced": (StreamingRidgeClassifier(CHI2, class_weight="balanced", **SOME), NAMES),
    "weights of classes": (StreamingRidgeClassifier(class_weight={0: 1.0, 1: 2.0, 2: 0.5}, **SOME), CODES),
    "a skewed map": (StreamingRidgeClassifier(SkewedChi2Map(7, random_state=1), **SOME), CODES),
    "a sampled map": (StreamingRidgeClassifier(AdditiveChi2Map("vz", n_terms=3), alpha=1.0), CODES),
    "a polynomial map": (StreamingRidgeClassifier(AdditiveChi2Map("chebyshev", n_terms=4), alpha=1.0), CODES),
    "another kernel": (StreamingRidge(HomogeneousMap(), alpha=1.0), TARGETS),
    "a root": (StreamingRidge(HomogeneousMap("hellinger"), alpha=1.0), TARGETS),
    "principal components": (StreamingPCA(3, feature_map=CHI2), None),
    "all components": (StreamingPCA(), None),
}


def fed(name, rows=slice(None), model=None, form=np.asarray):
    """Learn some rows, from scratch or further."""
    estimator, y = MODELS[name]
    model = clone(estimator) if model is None else model
    options = {} if y is None else {"sample_weight": WEIGHTS[rows]}
    return model.partial_fit(form(X[rows]), None if y is None else y[rows], **options)


def scores(model, X=TEST):
    method = next(name for name in ("decision_function", "predict", "transform") if hasattr(model, name))
    return getattr(model, method)(X)


def assert_same(model, other):
    alike(scores(model), scores(other))
    for mine, theirs in zip(model._learned.parts, other._learned.parts, strict=True):
        for name, array in mine.arrays().items():
            alike(array, theirs.arrays()[name])
    assert model.n_samples_seen_ == other.n_samples_seen_
    assert repr(model) == repr(other)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.histogp"


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_predicts_and_learns_alike(name, form, path):
    model = fed(name, slice(70), form=form)
    model.save(path)
    loaded = histogp.load(path)
    assert type(loaded) is type(model)
    assert_same(loaded, model)
    for data in (sparse.csr_array(TEST), TEST.astype(np.float32)):
        alike(scores(loaded, data), scores(model, data))
        assert scores(loaded, data).dtype == scores(model, data).dtype
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        assert loaded.classes_.dtype == model.classes_.dtype
        assert loaded.predict(TEST).dtype == model.predict(TEST).dtype
    for rows in (slice(70, 90), slice(90, None)):
        for one in (model, loaded):
            fed(name, rows, one, form)
        assert_same(loaded, model)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_gives_the_same_bytes(name, tmp_path):
    fed(name).save(tmp_path / "a")
    histogp.load(tmp_path / "a").save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_late_classes_after_loading(class_weight, path):
    order = np.argsort(CODES, kind="stable")
    model = StreamingRidgeClassifier(CHI2, class_weight=class_weight, **SOME)
    model.partial_fit(X[order[:40]], NAMES[order[:40]])
    n_before = len(model.classes_)
    model.save(path)
    loaded = histogp.load(path)
    for one in (model, loaded):
        one.partial_fit(X[order[40:]], NAMES[order[40:]])
    assert len(loaded.classes_) > n_before
    assert_same(loaded, model)


def test_a_single_class_waits_in_a_file_for_others(path):
    StreamingRidgeClassifier().partial_fit(X[:5], ["b"] * 5).save(path)
    model = histogp.load(path).partial_fit(X[5:9], ["a"] * 4)
    fresh = StreamingRidgeClassifier().fit(X[:9], ["b"] * 5 + ["a"] * 4)
    for one in (model, fresh):
        one.set_params(alpha=1.0)
    np.testing.assert_allclose(model.decision_function(TEST), fresh.decision_function(TEST))


def test_rows_without_labels_are_kept(path):
    model = StreamingRidge(pca_components=2, alpha=1.0).fit(X, TARGETS).add_unlabeled(TEST)
    model.save(path)
    assert_same(histogp.load(path), model)
    assert histogp.load(path)._learned.unlabeled.count == len(TEST)


def test_feature_names_survive(path):
    frame = pd.DataFrame(X, columns=["a", "b", "ü", "", "e f"])
    StreamingRidge(CHI2, alpha=1.0).fit(frame, TARGETS).save(path)
    loaded = histogp.load(path)
    assert list(loaded.feature_names_in_) == list(frame.columns)
    loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[frame.columns[::-1]])


class OwnRidge(StreamingRidge):
    pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StreamingRidge(AdditiveChi2Sampler(sample_steps=1)), "AdditiveChi2Sampler needs its code"),
        (lambda: StreamingRidge(random_state=np.random.RandomState(0)), "random_state"),
        (OwnRidge, "OwnRidge would need its code"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_before_anything_is_written(make, message, path):
    model = make().fit(X, TARGETS)
    path.write_text("old")
    with pytest.raises(ValueError, match=message):
        model.save(path)
    assert path.read_text() == "old"


def test_parameters_that_load_would_refuse_are_refused_by_save(path):
    with pytest.raises(ValueError, match="alpha"):
        StreamingRidge().fit(X, TARGETS).set_params(alpha=-1).save(path)
    with pytest.raises(ValueError, match="not fitted"):
        StreamingRidge().save(path)
    assert not path.exists()


CONTENTS = ("texts", "balanced", "two targets", "a skewed map", "principal components", "sparse")


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """Files by the name of the model, and one whose sample is sparse."""
    path = tmp_path_factory.mktemp("models") / "model.histogp"
    found = {}
    for name in CONTENTS:
        model = fed("texts", form=sparse.csr_array) if name == "sparse" else fed(name)
        model.save(path)
        found[name] = path.read_bytes()
    return found


def refused(content, path, message):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        histogp.load(path)
    sentence = str(caught.value)
    assert "is not an intact histogp model: " in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 600


def forge(content, path, change):
    document, arrays = container.parse(content)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(document, arrays)
    return packed(document, arrays, path.parent)


def put(**values):
    return lambda document, _: document.update(values)


def set_entry(name, at, value):
    return lambda _, arrays: arrays[name].__setitem__(at, value)


def set_array(name, make):
    return lambda _, arrays: arrays.__setitem__(name, make(arrays[name]))


def of_map(**values):
    return lambda document, _: document["parameters"]["feature_map"]["parameters"].update(values)


def of_sample(**values):
    return lambda document, _: document["sample"].update(values)


def no_names(_, arrays):
    arrays.update({"feature_names": np.zeros(0, np.uint8), "feature_names.ends": np.zeros(0, np.int64)})


FORGED = [
    ("texts", put(format=3), "newer histogp"),
    ("texts", put(format=1), "written by a development version"),
    ("texts", put(extra=1), "unknown entry 'extra'"),
    ("texts", put(n_features=7), "array 'map.points'"),
    ("texts", put(n_features=2**53 - 1), "array 'map.points'"),
    ("texts", put(n_features=0), "n_features"),
    ("texts", put(n_seen=-1), "n_seen"),
    ("texts", put(n_parts=0), "n_parts"),
    ("texts", put(n_parts=2), "part.1"),
    ("texts", put(n_parts=10**15), "part.1"),
    ("texts", put(classes=None), "labels are damaged"),
    ("texts", put(sample=None), "'sample' is damaged"),
    ("texts", of_sample(layout="sparse"), "sample.data"),
    ("texts", of_sample(layout="other"), "sample.layout"),
    ("texts", of_sample(seed=None), "sample.seed"),
    ("texts", of_sample(seed=-1), "sample.seed"),
    ("texts", lambda _, a: a.pop("sample.priorities"), "unknown entry 'sample'"),
    ("texts", lambda _, a: a.update(feature_names=np.zeros(3, np.uint8)), "feature_names.ends"),
    ("texts", no_names, "one name for each feature"),
    ("texts", lambda d, _: d["parameters"].update(alpha=-1), "alpha"),
    ("texts", lambda d, _: d["parameters"].update(extra=1), "a parameter 'extra'"),
    ("texts", lambda d, _: d["parameters"].update(feature_map=None), "statistics do not fit together"),
    ("texts", lambda d, _: d["parameters"].update(feature_map={"object": "Popen", "parameters": {}}), "does not know"),
    ("texts", lambda d, _: d["parameters"].update(class_weight="balanced"), "not those of its targets"),
    ("texts", of_map(n_terms=-3), "n_terms"),
    ("texts", set_entry("map.points", (0, 0), 0.0), "points of its feature map are damaged"),
    ("texts", set_entry("map.points", (0, 0), np.nan), "not finite"),
    ("texts", set_array("map.points", lambda a: a[:0]), "points of its feature map are damaged"),
    ("texts", set_array("map.points", lambda a: a[:2]), "statistics do not fit together"),
    ("texts", set_array("map.points", lambda a: a.astype(np.float32)), "map.points"),
    ("texts", lambda _, a: a.pop("map.points"), "array 'map.points' is missing"),
    ("texts", lambda _, a: a.update({"map.density": np.ones(2)}), "unknown array 'map.density'"),
    ("texts", lambda _, a: a.pop("part.0.gram"), "part.0.gram"),
    ("texts", set_array("part.0.gram", lambda a: a[:-1]), "part.0.gram"),
    ("texts", set_array("part.0.cross", lambda a: a[:, :2]), "part.0.target_sums"),
    ("texts", set_entry("part.0.sums", 0, np.inf), "part.0.sums"),
    ("texts", set_entry("part.0.count", 0, -1), "part.0.count"),
    ("texts", set_entry("classes", 0, 255), "classes"),
    ("texts", set_entry("classes.ends", 0, 100), "classes"),
    ("texts", lambda _, a: a.update(more=np.zeros(1)), "unknown array 'more'"),
    ("texts", set_array("sample.X", lambda a: a[:, :2]), "sample.X"),
    ("texts", set_array("sample.targets", lambda a: a[:, :2]), "sample.targets"),
    ("texts", set_entry("sample.weights", 0, -1.0), "sample.weights"),
    ("sparse", set_entry("sample.indices", 0, D), "ind"),
    ("sparse", set_entry("sample.indices", 0, -1), "sample.indices"),
    ("sparse", set_entry("sample.indptr", 1, 2**62), "ind"),
    ("sparse", set_array("sample.indptr", lambda a: a[:-1]), "sample.indptr"),
    ("balanced", put(n_parts=1), "not those of its targets"),
    ("balanced", put(n_parts=2), "not those of its targets"),
    ("two targets", put(is_vector=True), "not those of its targets"),
    ("two targets", put(is_vector=None), "is_vector"),
    ("two targets", put(classes="number"), "unknown entry 'classes'"),
    ("a skewed map", of_map(n_components=10**9), "map.frequencies"),
    ("a skewed map", of_map(skewedness=0), "skewedness"),
    ("principal components", lambda d, _: d.update({"class": "StreamingRidge"}), "parameter"),
    ("principal components", lambda d, _: d["parameters"].update(n_components=0), "n_components"),
]


@pytest.mark.parametrize("case", range(len(FORGED)))
def test_forged_contents_with_a_valid_checksum(case, contents, path):
    name, change, message = FORGED[case]
    refused(forge(contents[name], path, change), path, message)


def test_a_forged_width_allocates_nothing(path):
    fed("a polynomial map").save(path)
    refused(forge(path.read_bytes(), path, put(n_features=2 * 10**8)), path, "do not fit together")


@pytest.mark.parametrize("name", CONTENTS)
def test_truncated_and_flipped_bytes(name, contents, path):
    content = contents[name]
    for end in range(0, len(content), len(content) // 20):
        refused(content[:end], path, "intact")
    for at in range(8 + int.from_bytes(content[:8], "little"), len(content), len(content) // 20):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        refused(bytes(damaged), path, "do not match its checksum")


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTENTS)
def test_random_damage(name, contents, path):
    """A file is refused, or what it holds predicts, or says in a sentence why it does not."""
    rng = np.random.default_rng(0)
    parsed = container.parse(contents[name])
    for k in range(100):
        content = damaged_bytes(contents[name], rng) if k % 4 == 0 else None
        document, arrays = forged_contents(*parsed, rng)
        if not isinstance(document.get("class", ""), str):
            continue  # see the next test
        path.write_bytes(content or packed(document, arrays, path.parent))
        try:
            model = histogp.load(path)
        except ModelFileError:
            continue
        try:
            with np.errstate(all="ignore"):
                scores(model, np.ones((2, model.n_features_in_)))
        except ValueError:
            continue


@pytest.mark.parametrize("value", [[], {}])
def test_a_class_that_is_no_text(value, contents, path):
    refused(forge(contents["texts"], path, lambda d, _: d.update({"class": value})), path, "does not know")


def test_the_document_is_plain_json_with_the_class(contents):
    document, _ = container.parse(contents["texts"])
    assert json.loads(json.dumps(document))["class"] == "StreamingRidgeClassifier"
    assert document["notes"] == []


def test_a_file_holds_one_state(tmp_path, monkeypatch):
    """Another thread may learn something else while it is written."""
    model = fed("a regressor")
    expected = scores(model)
    write = schema.Writer.parameters

    def interrupted(writer, parameters):
        model.set_params(alpha=7.0).fit(X[:, :3], TARGETS)
        write(writer, parameters)

    monkeypatch.setattr(schema.Writer, "parameters", interrupted)
    model.save(tmp_path / "model")
    alike(scores(histogp.load(tmp_path / "model")), expected)
