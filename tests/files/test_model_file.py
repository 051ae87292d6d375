"""Model files: they come back as they were saved, and what is not one is refused with a sentence."""

import importlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pandas as pd
import pytest
import safetensors
import safetensors.numpy
from mutations import damaged_bytes, forged_contents, packed
from oracles import Log, alike, histograms
from scipy import sparse

import histogp
from histogp import (
    HistogramGPClassifier,
    HistogramGPOneClass,
    HistogramGPRegressor,
    ModelFileError,
    VarianceWarning,
    feature_maps,
    gp,
    kernels,
    streaming,
)
from histogp._core.solvers import problem
from histogp._core.variance import calibrated
from histogp.io import container, schema
from histogp.kernels import Exponential, HistogramIntersection, Power

pytestmark = pytest.mark.portable

X = histograms(60, 6)
CODES = np.argmax(X[:, 1:4], axis=1)
NAMES = np.array(["ä", "bee", "sea, or c"])
TEST = histograms(20, 6, seed=3) * 2
MODELS = {
    "texts": (HistogramGPClassifier("hik", noise=0.1), NAMES[CODES]),
    "objects": (HistogramGPClassifier("hik-poly", noise=0.1), NAMES.astype(object)[CODES]),
    "two integers": (HistogramGPClassifier("hik", noise=0.1, random_state=3), (CODES == 1).astype(np.int16) * 7 - 2),
    "booleans": (HistogramGPClassifier("hik", noise=0.1, n_jobs=1), CODES == 1),
    "floats": (HistogramGPClassifier("hik", noise=0.1, class_weight="balanced"), CODES.astype(np.float32) * 2),
    "label-dependent noise": (HistogramGPClassifier("hik", noise=0.1, class_weight="balanced-ovr"), CODES),
    "weights of classes": (
        HistogramGPClassifier("hik", noise=0.1, class_weight={"ä": 1, "bee": 2.0, "sea, or c": 0.5}),
        NAMES[CODES],
    ),
    "weights of dimensions": (
        HistogramGPClassifier(HistogramIntersection(Power(np.arange(1.0, 7)), np.arange(6.0)), noise=0.1),
        CODES,
    ),
    "regression": (HistogramGPRegressor(HistogramIntersection(Exponential(2.0)), noise=0.1, normalize_y=True), X[:, 1]),
    "hyperparameters found": (
        HistogramGPClassifier(HistogramIntersection(weights="ard"), optimize="exact", random_state=0),
        CODES,
    ),
    "one class": (HistogramGPOneClass("hik", noise=0.1, contamination=0.1, criterion="mean"), None),
    "two outputs": (
        HistogramGPRegressor("hik", noise=0.1, normalize_y=False, solver="cg"),
        X[:, 1:3].astype(np.float32),
    ),
}


def fitted(name):
    model, y = MODELS[name]
    return model.fit(X, y, sample_weight=np.linspace(0, 2, len(X)))


def scores(model, X=TEST):
    return getattr(model, "decision_function", model.predict)(X)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.histogp"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("include_training", [True, False])
def test_a_loaded_model_predicts_alike(name, include_training, path):
    model = fitted(name)
    if not include_training:
        model.set_params(prediction="quantized", n_bins=9)
    model.save(path, include_training)
    loaded = histogp.load(path)
    assert type(loaded) is type(model)
    for data in (TEST, sparse.csr_array(TEST), TEST.astype(np.float32)):
        alike(scores(loaded, data), scores(model, data))
        assert scores(loaded, data).dtype == scores(model, data).dtype
        alike(loaded.predict(data), model.predict(data))
    assert loaded.predict(TEST).dtype == model.predict(TEST).dtype
    assert repr(loaded) == repr(model)
    for attribute in ("n_iter_", "n_features_in_", "residual_", "n_samples_", "n_nonzeros_", "preconditioner_rank_"):
        np.testing.assert_array_equal(getattr(loaded, attribute), getattr(model, attribute))
    np.testing.assert_array_equal(loaded.quantization_error_bound(), model.quantization_error_bound())
    if include_training:
        np.testing.assert_array_equal(loaded.alpha_, model.alpha_)
        np.testing.assert_array_equal(loaded._posterior.targets, model._posterior.targets)
        np.testing.assert_array_equal(loaded._posterior.noise.diagonals(), model._posterior.noise.diagonals())
    model.set_params(prediction="exact", n_bins=100)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_gives_the_same_bytes(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "a")
    histogp.load(tmp_path / "a").save(tmp_path / "b")
    pickle.loads(pickle.dumps(model)).save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


@pytest.mark.slow
def test_a_fresh_process_needs_only_the_file(path):
    model = fitted("texts")
    model.save(path)
    np.save(path.with_suffix(".npy"), TEST)
    code = """
import sys, numpy as np, histogp
print(histogp.load(sys.argv[1]).decision_function(np.load(sys.argv[2])).tolist())
"""
    arguments = [sys.executable, "-c", code, path, path.with_suffix(".npy")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    alike(json.loads(done.stdout), scores(model))


def test_the_container_is_plain_safetensors_with_one_canonical_document(path):
    model = fitted("texts")
    model.save(path)
    with safetensors.safe_open(path, "numpy") as file:
        assert list(file.metadata()) == ["histogp"]
        text = file.metadata()["histogp"]
        np.testing.assert_array_equal(file.get_tensor("alpha"), model.alpha_)
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_arrays_of_any_layout_are_saved_as_they_read(path):
    arrays = {
        "big-endian": np.arange(5, dtype=">f8"),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(10.0)[::3],
        "scalar": np.array(3.5),
        "empty": np.empty((0, 2), np.uint32),
    }
    container.write(path, {"a": 1}, arrays)
    _, read = container.read(path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].shape == array.shape
        assert read[name].flags.writeable


def test_feature_names_survive(path):
    frame = pd.DataFrame(X, columns=["a", "b", "ü", "", "e f", "g"])
    HistogramGPClassifier("hik", noise=0.1).fit(frame, CODES).save(path)
    loaded = histogp.load(path)
    assert list(loaded.feature_names_in_) == list(frame.columns)
    loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[frame.columns[::-1]])


@pytest.mark.parametrize("name", ["texts", "regression"])
def test_joblib_pickles_work_as_for_every_estimator(name, tmp_path):
    model = fitted(name)
    joblib.dump(model, tmp_path / "model.joblib")
    alike(scores(joblib.load(tmp_path / "model.joblib")), scores(model))
    model.set_params(prediction="quantized").save(tmp_path / "small", include_training=False)
    small = pickle.loads(pickle.dumps(histogp.load(tmp_path / "small")))
    np.testing.assert_array_equal(scores(small), scores(model))
    model.set_params(prediction="exact")


def test_a_model_without_its_training_examples_says_what_it_cannot_do(path):
    model = HistogramGPClassifier("hik", noise=0.1, prediction="quantized", n_bins=9, value_range=0.7).fit(X, CODES)
    model.save(path, include_training=False)
    loaded = histogp.load(path)
    assert not hasattr(loaded, "alpha_")
    with pytest.raises(ValueError, match="without its training samples"):
        loaded.save(path)
    for changed in ({"prediction": "exact"}, {"n_bins": 10}, {"value_range": None}, {"interpolation": "nearest"}):
        with pytest.raises(ValueError, match="without its training samples"):
            histogp.load(path).set_params(**changed).predict(TEST)
    loaded.save(path, include_training=False)
    np.testing.assert_array_equal(scores(histogp.load(path)), scores(model))
    loaded.fit(X, CODES).save(path)  # learning anew is something else


def test_exact_prediction_cannot_be_saved_without_the_training_examples(path):
    with pytest.raises(ValueError, match=r'set_params\(prediction="quantized"\) first'):
        fitted("texts").save(path, include_training=False)
    assert not path.exists()


@pytest.mark.parametrize(
    ("make", "y", "message"),
    [
        (HistogramGPClassifier("hik", noise=0.1), CODES.astype("M8[D]"), "Labels of type datetime64"),
        (HistogramGPClassifier(HistogramIntersection(Log()), noise=0.1), CODES, "joblib"),
        (HistogramGPClassifier("hik", noise=0.1, random_state=np.random.RandomState(0)), CODES, "random_state"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_before_anything_is_written(make, y, message, path):
    model = make.fit(X, y)
    path.write_text("old")
    with pytest.raises(ValueError, match=message):
        model.save(path)
    assert path.read_text() == "old"


def test_saving_needs_a_fitted_model_and_a_folder(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        HistogramGPClassifier("hik", noise=0.1).save(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        fitted("texts").save(tmp_path / "missing" / "a")


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        histogp.load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="is a folder"):
        histogp.load(tmp_path)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.histogp"
    fitted("texts").save(path)
    return path.read_bytes()


def refused(content, path, message="is not an intact histogp model: "):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        histogp.load(path)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 600


def test_truncation_anywhere(content, path):
    for end in [0, 1, 7, 8, 9, *range(10, len(content), 1000), len(content) - 1]:
        refused(content[:end], path)


@pytest.mark.slow
def test_every_flipped_header_byte(content, path):
    header = 8 + int.from_bytes(content[:8], "little")
    for at in range(header):
        if content[at : at + 1] == b" ":
            continue  # JSON does not mind which white space follows it
        damaged = bytearray(content)
        damaged[at] ^= 1 << (at % 8)
        refused(bytes(damaged), path)


def test_flipped_bytes_of_arrays(content, path):
    header = 8 + int.from_bytes(content[:8], "little")
    for at in range(header, len(content), 37):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        refused(bytes(damaged), path, "do not match its checksum")


def test_foreign_files(path):
    safetensors.numpy.save_file({"a": np.zeros(3)}, path)
    with pytest.raises(ModelFileError, match="not written by histogp"):
        histogp.load(path)
    refused(pickle.dumps({"a": 1}), path)
    refused(b"PK\x03\x04" + bytes(1000), path)


def test_duplicate_keys(content, path):
    header = content[8 : 8 + int.from_bytes(content[:8], "little")]
    for old, new in ((b'"samples.codes":', b'"alpha":'), (b'"__metadata__":{', b'"__metadata__":{"histogp":"{}",')):
        twice = header.replace(old, new, 1)
        refused(len(twice).to_bytes(8, "little") + twice + content[8 + len(header) :], path, "occurs twice")
    twice = header.replace(b'{\\"class\\"', b'{\\"format\\":1,\\"class\\"', 1)
    refused(len(twice).to_bytes(8, "little") + twice + content[8 + len(header) :], path, "occurs twice")


@pytest.mark.parametrize("length", [0, 1, 10**6, 10**8, 2**63, 2**64 - 1])
def test_header_lengths_that_cannot_be(content, length, path):
    refused(length.to_bytes(8, "little") + content[8:], path)


def test_huge_declared_sizes_allocate_nothing(content, path):
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    for shape, end in (([2**40, 2**10], 2**53), ([2**62, 2**62], 8), ([10**12], 8 * 10**12)):
        header["alpha"] = {"dtype": "F64", "shape": shape, "data_offsets": [0, end]}
        text = json.dumps(header).encode()
        refused(len(text).to_bytes(8, "little") + text + bytes(64), path)
    refused((10).to_bytes(8, "little") + b"[" * 10 + bytes(64), path)
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    refused(len(deep).to_bytes(8, "little") + deep, path)


def forge(content, path, change):
    document, arrays = container.parse(content)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(document, arrays)
    return packed(document, arrays, path.parent)


def set_entry(name, at, value):
    return lambda _, arrays: arrays[name].__setitem__(at, value)


def set_array(name, make):
    return lambda _, arrays: arrays.__setitem__(name, make(arrays[name]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, _: d.update(format=3), "newer histogp"),
        (lambda d, _: d.update(format=1), "written by a development version"),
        (lambda d, _: d.pop("format"), "'format' is missing"),
        (lambda d, _: d.pop("class"), "'class' is missing"),
        (lambda d, _: d.pop("version"), "'version' is missing"),
        (lambda d, _: d.update(notes="a"), "notes are damaged"),
        (lambda d, _: d.update(extra=1), "unknown entry 'extra'"),
        (lambda d, _: d["samples"].update(extra=1), r"unknown entry 'samples\.extra'"),
        (lambda d, _: d["outputs"].update(extra=1), r"unknown entry 'outputs\.extra'"),
        (lambda d, _: d.update(alpha={}), "unknown entry 'alpha'"),
        (lambda d, _: d.update(samples=None), "'samples' is damaged"),
        (lambda d, _: d.update(format="1"), "version is damaged"),
        (lambda d, _: d.update({"class": "subprocess.Popen"}), "does not know"),
        (lambda d, _: d["parameters"].update(tol=-1), "tol"),
        (lambda d, _: d["parameters"].update(extra=1), "has a parameter 'extra' that this version does not know"),
        (lambda d, _: d["parameters"].pop("tol"), "the parameter 'tol' of its HistogramGPClassifier is missing"),
        (lambda d, _: d.update(parameters=[]), "parameters"),
        (lambda d, _: d.update(kernel={"object": "Popen", "parameters": {}}), "kernel"),
        (lambda d, _: d.update(n_features=7), "relevance"),
        (lambda d, _: d.update(n_samples=10**12), "ids"),
        (lambda d, _: d["samples"].update(n_given=3), "n_given"),
        (lambda d, _: d["samples"].update(n_changed=-1), "n_changed"),
        (lambda d, _: d.pop("samples"), "'samples.n_given' is missing"),
        (set_entry("samples.ids", 0, 5), "numbers of its samples"),
        (set_entry("samples.ids", -1, 10**9), "numbers of its samples"),
        (set_entry("samples.weights", 0, 0.0), "weights"),
        (lambda _, a: a.pop("alpha"), "'alpha' is missing"),
        (lambda _, a: a.update(more=np.zeros(1)), "unknown array 'more'"),
        (set_array("alpha", lambda a: a[:-1]), "alpha"),
        (set_array("alpha", lambda a: a.astype(np.float32)), "alpha"),
        (set_entry("alpha", 0, np.nan), "not finite"),
        (set_entry("data.row_of", 0, 60), "a row that does not exist"),
        (set_entry("data.row_of", 0, 2**32 - 1), "a row that does not exist"),
        (set_entry("data.indptr", 0, 1), "do not fit together"),
        (set_entry("data.indptr", 1, -5), "do not fit together"),
        (set_entry("data.indptr", 1, 10**9), "do not fit together"),
        (set_entry("data.indptr", -1, 10**9), "do not fit together"),
        (set_entry("data.values", 3, 10.0), "ascending"),
        (set_entry("data.values", 0, 0.0), "positive"),
        (set_entry("samples.codes", 0, 3), "class that does not exist"),
        (set_entry("noise.sample", 0, 0.0), "noise"),
        (set_entry("outputs.classes.ends", 0, 100), "classes"),
        (set_entry("outputs.classes", 0, 255), "classes"),
        (set_array("residual", lambda a: a[:1]), "number of outputs"),
    ],
)
def test_forged_contents_with_a_valid_checksum(content, change, message, path):
    refused(forge(content, path, change), path, message)


def test_a_parameter_that_came_later_does_not_make_files_unreadable(content, path, monkeypatch):
    def older(document, _):
        del document["parameters"]["tol"]
        del document["kernel"]["parameters"]["groups"]

    forged = forge(content, path, older)
    refused(forged, path, "is missing")
    monkeypatch.setitem(schema.ABSENT, ("HistogramGPClassifier", "tol"), 0.125)
    monkeypatch.setitem(schema.ABSENT, ("HistogramIntersection", "groups"), None)
    path.write_bytes(forged)
    loaded = histogp.load(path)
    assert loaded.tol == 0.125  # not today's default
    alike(scores(loaded), scores(fitted("texts")))


def test_an_entry_that_came_later_has_a_default():
    reader = schema.Reader({"given": 3, "part": {"nested": 1}}, {})
    assert reader.integer("given", default=0) == 3
    assert reader.integer("later", default=0) == 0
    assert reader.flag("asked", default=False) is False
    assert reader.text("how", ("a", "b"), default="a") == "a"
    with pytest.raises(ModelFileError, match=r"unknown entry 'part'"):
        reader.finish()
    reader.child("part")
    with pytest.raises(ModelFileError, match=r"unknown entry 'part\.nested'"):
        reader.finish()
    assert reader.child("part").integer("nested") == 1
    reader.finish()


def test_all_that_has_a_file_is_known():
    """The tables are literal, so that the schema imports nothing: they must keep up with the packages."""
    for table in (schema.CLASSES, schema.OBJECTS):
        for name, module in table.items():
            assert getattr(importlib.import_module(module), name).__name__ == name
    packages = (gp, streaming)
    saved = {name for package in packages for name in package.__all__ if hasattr(getattr(package, name), "save")}
    assert saved == set(schema.CLASSES)
    maps, of_kernels = set(feature_maps.__all__), {cls for cls in vars(kernels).values() if isinstance(cls, type)}
    own = {cls.__name__ for cls in of_kernels if issubclass(cls, kernels.Kernel) and cls is not kernels.Kernel}
    assert maps | own | {"Optimizer"} == set(schema.OBJECTS)


def test_loading_a_gaussian_process_imports_no_other_package(content, path):
    path.write_bytes(content)
    code = """
import sys, histogp
histogp.load(sys.argv[1])
print([name for name in ("histogp.sources", "histogp.streaming", "histogp.feature_maps") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_array("table.nodes", lambda a: a[:-1]), "nodes"),
        (set_entry("table.upper", 0, np.inf), "not finite"),
        (set_entry("table.upper", 0, -1.0), "below 0"),
        (set_entry("table.starts", 1, 0), "table are damaged"),
        (set_entry("table.starts", -1, 10**15), "nodes"),
    ],
)
def test_forged_tables(change, message, path):
    model = fitted("texts").set_params(prediction="quantized", n_bins=9)
    model.save(path, include_training=False)
    model.set_params(prediction="exact", n_bins=100)
    refused(forge(path.read_bytes(), path, change), path, message)


HUGE = 2**63 - 1


@pytest.mark.parametrize("pointers", [[1, -HUGE, -1, -1, -1], [HUGE, -HUGE, -1, -1, -1], [2**40, -HUGE - 1, -1, 5, 5]])
def test_pointers_whose_differences_overflow(pointers, content, path):
    def forge_training(_, arrays):
        arrays["data.indptr"][1:-1] = pointers
        arrays["data.values"].sort()

    refused(forge(content, path, forge_training), path, "do not fit together")
    model = fitted("texts").set_params(prediction="quantized", n_bins=9)
    model.save(path, include_training=False)
    model.set_params(prediction="exact", n_bins=100)

    def forge_table(_, arrays):
        arrays["table.starts"][1:-1] = pointers

    refused(forge(path.read_bytes(), path, forge_table), path, "table are damaged")


@pytest.mark.parametrize("name", ["objects", "regression"])
@pytest.mark.parametrize("n_features", [200_000_000, 2**53 - 1])
def test_a_forged_width_allocates_nothing(name, n_features, path):
    model = fitted(name).set_params(value_range=1.0)
    model.save(path)
    model.set_params(value_range=None)
    refused(forge(path.read_bytes(), path, lambda d, _: d.update(n_features=n_features)), path, "relevance")


@pytest.mark.parametrize("change", [{"noise": -1}, {"n_bins": 0}, {"prediction": "fast"}])
def test_parameters_that_load_would_refuse_are_refused_by_save(change, path):
    with pytest.raises(ValueError, match=next(iter(change))):
        HistogramGPClassifier("hik", noise=0.1).fit(X, CODES).set_params(**change).save(path)
    assert not path.exists()


def test_numpy_values_among_parameters_survive(path):
    weights = dict(zip(np.unique(CODES == 1), (np.array(1.0), np.float32(3)), strict=True))
    model = HistogramGPClassifier("hik", class_weight=weights, noise=np.float32(0.5), n_bins=np.int64(50)).fit(
        X, CODES == 1
    )
    model.save(path, include_training=np.True_)
    assert histogp.load(path).class_weight == {False: 1.0, True: 3.0}

    class Own(HistogramGPClassifier):
        pass

    with pytest.raises(ValueError, match="joblib"):
        Own().fit(X, CODES).save(path)


def test_very_small_targets_survive(path):
    model = HistogramGPRegressor("hik", noise=0.1, normalize_y=True).fit(X, X[:, 1] * 1e-310)
    model.save(path)
    alike(histogp.load(path).predict(TEST), model.predict(TEST))


@pytest.mark.slow
def test_random_damage(content, path):
    rng = np.random.default_rng(0)
    parsed = container.parse(content)
    for k in range(300):
        forged = packed(*forged_contents(*parsed, rng), path.parent) if k % 2 else damaged_bytes(content, rng)
        path.write_bytes(forged)
        try:
            model = histogp.load(path)
        except ModelFileError:
            continue
        scores(model)


@pytest.mark.slow
def test_a_killed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.histogp"
    code = """
import sys, numpy as np
from histogp import HistogramGPRegressor
X = np.random.default_rng(0).random((3000, 300))
model = HistogramGPRegressor(max_iter=1, solver="cg", preconditioner_rank=0, tol=0.9).fit(X, X[:, 0])
model.save(sys.argv[1])
print("saved", flush=True)
while True:
    model.save(sys.argv[1])
"""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, path], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "saved\n"
    before = path.read_bytes()
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert path.read_bytes() == before
    histogp.load(path)


def test_a_failing_write_leaves_the_old_file_and_no_other(path, monkeypatch):
    path.write_text("old")

    def fail(arrays, filename, metadata):
        filename.write_text("half")
        raise OSError("no space left on device")

    monkeypatch.setattr(safetensors.numpy, "save_file", fail)
    with pytest.raises(OSError, match="no space"):
        fitted("texts").save(path)
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("include_training", [True, False])
def test_a_file_does_not_grow_because_probabilities_were_asked_for(include_training, path):
    """They need calibrated variances of left-out rows, whose tables are as large as the data; nobody wants these."""
    rows = histograms(problem.MOST_DENSE_SAMPLES + 100, 8)
    model = HistogramGPClassifier("hik", noise=0.1, prediction="quantized", n_bins=16, random_state=0).fit(
        rows, rows[:, 1] > rows[:, 2]
    )
    assert model.n_iter_ > 1

    def size():
        model.save(path, include_training)
        return path.stat().st_size

    before = size()
    expected = model.predict_proba(rows[:3])
    assert size() < before + 1000  # the temperature
    np.testing.assert_array_equal(histogp.load(path).predict_proba(rows[:3]), expected)
    # Who asks for them wants them in the file.
    variances = model.predict_variance(rows[:3], "calibrated")
    assert size() > before + 50_000
    np.testing.assert_array_equal(histogp.load(path).predict_variance(rows[:3], "calibrated"), variances)


def test_a_range_of_tables_that_there_are_none_of_does_not_matter(tmp_path):
    model = HistogramGPClassifier("chi2", noise=0.1, value_range=[1.0, 2.0]).fit(X, X[:, 1] > X[:, 2])
    model.save(tmp_path / "model", include_training=False)
    alike(histogp.load(tmp_path / "model").decision_function(TEST), model.decision_function(TEST))


def test_many_texts_are_read_back(tmp_path):
    groups = [f"the group of the feature {k // 2}" for k in range(40_000)]
    data = np.zeros((2, 40_000))
    data[0, 0] = data[1, -1] = 1.0
    model = HistogramGPClassifier(HistogramIntersection(groups=groups), noise=0.1).fit(data, [0, 1])
    model.save(tmp_path / "model")
    assert histogp.load(tmp_path / "model").kernel_.groups == groups


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    path = tmp_path / "model"
    fitted("texts").save(path)
    before = path.read_bytes()
    weights = {f"{k} {'x' * 1000}": 1.0 for k in range(1000)}
    model = fitted("texts").set_params(class_weight={**weights})
    with pytest.raises(ValueError, match="would not be read back"):
        model.save(path)
    assert path.read_bytes() == before


def test_a_variance_that_fell_short_says_so_in_a_file_too(tmp_path, monkeypatch):
    monkeypatch.setattr(calibrated, "LEFT_OUT_MAX_ITER", 1)
    big = histograms(600, 6)
    model = HistogramGPRegressor("hik", normalize_y=False, noise=1e-3, prediction="quantized", random_state=0).fit(
        big, big[:, 0]
    )
    with pytest.warns(VarianceWarning) as caught:
        model.predict_variance(big[:5], "calibrated")
    for number, options in enumerate(({}, {"include_training": False})):
        model.save(tmp_path / f"{number}", **options)
        with pytest.warns(VarianceWarning, match=re.escape(str(caught[0].message))):
            histogp.load(tmp_path / f"{number}").predict_variance(big[:5], "calibrated")
