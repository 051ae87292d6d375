"""Cases run in processes of their own, against any checkout."""

import os

import pytest

from benchmarks.__main__ import main
from benchmarks.comparison import Comparison, compare
from benchmarks.registry import discover
from benchmarks.results import load
from benchmarks.running import CaseError, run_alone


def environment_of(checkout):
    """Variables with which a child imports histogp from a checkout, and the tiny cases."""
    return {"PYTHONPATH": os.pathsep.join([str(checkout / "src"), os.environ["PYTHONPATH"]])}


def test_a_case_runs_in_a_process_of_its_own(tiny, checkout):
    variables = environment_of(checkout("some", 0.25))
    case = discover(tiny)["tiny_fit"]
    result = run_alone(case, environment=variables)
    assert result.values == {"seconds": 0.25, "accuracy": 0.333333}
    assert result.versions["histogp"] == "some"
    assert result.commit is None
    assert run_alone(case, smoke=True, environment=variables).values["seconds"] == 2.5


def test_a_failure_has_the_last_words_of_the_case(tiny):
    with pytest.raises(CaseError, match="RuntimeError: nothing to measure"):
        run_alone(discover(tiny)["tiny_failure"])


def test_two_checkouts_are_compared_round_by_round(tiny, checkout):
    said = []
    old, new = checkout("old", 1.0), checkout("new", 1.08)
    (found,) = compare(old, new, [discover(tiny)["tiny_fit"]], rounds=2, say=said.append)
    assert found == Comparison("tiny_fit", (1.0, 1.0), (1.08, 1.08))
    assert found.ratio == pytest.approx(1.08)
    assert found.is_met
    assert found.cells() == ("tiny_fit", "1 s", "1.08 s", "1.080", "1.08 1.08", "<= 1.1", "met")
    assert said == [f"tiny_fit, round {number} of 2: 1 s, 1.08 s" for number in (1, 2)]
    (slower,) = compare(new, checkout("newest", 1.2), [discover(tiny)["tiny_fit"]], rounds=1)
    assert not slower.is_met
    assert slower.cells()[-1] == "MISSED"


def test_the_ratio_is_the_median_of_rounds():
    assert Comparison("any", (1.0, 2.0, 1.0), (3.0, 2.0, 1.1)).ratio == pytest.approx(1.1)


def test_a_folder_without_histogp_is_refused(tiny, tmp_path, capsys):
    with pytest.raises(ValueError, match="There is no src/histogp in"):
        compare(tmp_path, tmp_path, [discover(tiny)["tiny_fit"]])
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "There is no src/histogp in" in capsys.readouterr().err


def test_cases_are_listed(capsys):
    assert main(["list", "house"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["house_fit", "house_prediction", "house_update", "house_query"]
    assert main(["list", "no_such_case"]) == 2
    assert "no_such_case" in capsys.readouterr().err


def test_a_smoke_run_of_one_of_our_cases(tmp_path, capsys):
    assert main(["run", "--smoke", "--results", str(tmp_path), "sample_y"]) == 0
    assert "sample_y: " in capsys.readouterr().err
    result = load(tmp_path)["sample_y"]
    assert result.values["worst_covariance"] > 0
    assert result.commit is None or len(result.commit) == 40


def test_a_smoke_run_stores_nothing_unless_told(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.__main__.FOLDER", tmp_path)
    assert main(["run", "--smoke", "sample_y"]) == 0
    assert not list(tmp_path.iterdir())
