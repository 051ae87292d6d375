"""A stored result says what was measured and on what, and nothing else about the machine."""

import json
import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest
import sklearn

import histogp
from benchmarks.results import FOLDER, Result, from_json, load, store, to_json

ROOT = Path(__file__).parents[2]


def test_a_result_survives_storage(tmp_path):
    result = Result.now("some", {"seconds": 1.23456789, "p": 4e-77}, 2.5)
    assert result.values == {"seconds": 1.23457, "p": 4e-77}
    path = store(result, tmp_path / "new")
    assert path.name == "some.json"
    assert load(path.parent) == {"some": result}
    assert from_json(to_json(result)) == result
    again = Result.now("some", {"seconds": 1.0}, 2.5)
    store(again, path.parent)
    assert load(path.parent) == {"some": again}
    assert [one.name for one in path.parent.iterdir()] == ["some.json"]


def test_it_has_commit_date_versions_and_machine():
    result = Result.now("some", {}, 0.0, needs=("pytest", "make"))
    source = Path(histogp.__file__).parent
    head = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True)
    assert result.commit == (head.stdout.strip() if head.returncode == 0 else None)
    assert len(result.date) == len("2020-01-01")
    assert result.versions["python"] == platform.python_version()
    assert result.versions["numpy"] == np.__version__
    assert result.versions["scikit-learn"] == sklearn.__version__
    assert result.versions["histogp"] == histogp.__version__
    assert result.versions["pytest"] == pytest.__version__
    assert {"scipy", "numba"} < result.versions.keys()
    assert "make" not in result.versions
    assert result.machine["cores"] == len(os.sched_getaffinity(0))
    assert result.machine["memory_gb"] > 0
    assert isinstance(result.machine["processor"], str)


def test_no_path_or_host_is_stored():
    text = to_json(Result.now("some", {"seconds": 1.0}, 0.0))
    for secret in filter(lambda name: len(name) > 1, (platform.node(), str(Path.home()), str(ROOT))):
        assert secret not in text
    for path in FOLDER.glob("*.json"):
        stored = json.loads(path.read_text())
        assert stored.keys() == json.loads(text).keys()
        assert stored["machine"].keys() == {"processor", "cores", "memory_gb"}


def test_what_is_no_number_is_not_stored(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store(Result.now("some", {"seconds": float("nan")}, 0.0), tmp_path)
    assert load(tmp_path) == {}
