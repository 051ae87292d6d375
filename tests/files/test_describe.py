"""What model files say about themselves."""

import json

import numpy as np
import pytest
from oracles import histograms

import histogp
from histogp.io import container
from histogp.streaming import StreamingRidge

X = histograms(20, 4)


def test_the_facts_of_a_file(tmp_path):
    model = histogp.HistogramGPRegressor("hik", noise=0.1, normalize_y=False, prediction="quantized").fit(X, X[:, 0])
    for include_training in (True, False):
        model.save(tmp_path / "m", include_training=include_training)
        document, _ = container.read(tmp_path / "m")
        assert histogp.describe(tmp_path / "m") == {
            "class": "HistogramGPRegressor",
            "format": document["format"],
            "version": document["version"],
            "includes_training": include_training,
            "notes": [],
            "sha256": document["sha256"],
        }


def test_notes_come_back(tmp_path):
    notes = ["part0.csv 1200", "größer"]
    StreamingRidge().fit(X, X[:, 0]).save(tmp_path / "m", notes=notes)
    assert histogp.describe(tmp_path / "m")["notes"] == notes
    assert json.loads(json.dumps(histogp.describe(tmp_path / "m")))["class"] == "StreamingRidge"


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        histogp.describe(tmp_path / "none")
    (tmp_path / "text").write_text("no model")
    with pytest.raises(histogp.ModelFileError, match="is not an intact histogp model"):
        histogp.describe(tmp_path / "text")
    container.write(tmp_path / "other", {"class": "A"}, {"a": np.zeros(3)})
    with pytest.raises(histogp.ModelFileError, match="its description is damaged"):
        histogp.describe(tmp_path / "other")
