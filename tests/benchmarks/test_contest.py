"""The contest of the plain line with its peers: splits, trials, records, and what follows from scores."""

import io
import os
import pickle
import platform
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse, stats

from benchmarks.__main__ import main
from benchmarks.cases.defaults import _made_up
from benchmarks.contest import records
from benchmarks.contest.entrants import BALANCED, OURS, NonNegative, entrant, named, ours, peers, weighted_peers
from benchmarks.contest.records import RECORDS, Entry, Record, complete, load_record, store_record
from benchmarks.contest.sets import SETS, VALUES, of_kind, set_named
from benchmarks.contest.standings import (
    Board,
    Interval,
    entrant_lines,
    excess_calibration_errors,
    flat,
    gap,
    lead,
    nested,
    paired,
    ranks,
    rare_lines,
    set_lines,
    stored,
    summary,
    value_lines,
)
from benchmarks.contest.trials import run_trials
from benchmarks.data.values import _FrameReader
from benchmarks.registry import discover
from benchmarks.scores import calibration_error, calibration_error_by_chance

KINDS = sorted({one.kind for one in SETS.values()})
ROOT = Path(__file__).parents[2]
DIGITS = set_named("digits")


def test_sets_have_as_many_splits_as_their_rows_allow():
    assert len(of_kind("imbalanced")) == 10
    assert len(of_kind("small")) == 35
    for one in SETS.values():
        given = one.n_rows == 70_000 or one.kind == "texts" or one.name == "quickdraw"
        assert one.n_splits == (1 if given else 3 if one.n_rows > 5_000 else 5), one.name
    with pytest.raises(ValueError, match="no data set 'digit' in the contest"):
        set_named("digit")


def test_splits_are_seeded_and_stratified():
    first, again, other = (DIGITS.split(number) for number in (0, 0, 1))
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    assert len(first.y) == int(0.7 * DIGITS.n_rows)
    assert len(first.y) + len(first.y_test) == DIGITS.n_rows
    shares = np.bincount(first.y) / len(first.y), np.bincount(first.y_test) / len(first.y_test)
    assert np.abs(np.subtract(*shares)).max() < 0.003


@pytest.mark.parametrize("kind", KINDS)
def test_every_entrant_is_a_model_and_has_a_name_of_its_own(kind):
    groups = [group(kind) for group in (peers, weighted_peers, named, ours)]
    names = [name for group in groups for name in group]
    assert len(set(names)) == len(names)
    for name in names:
        model = entrant(name, kind)
        assert hasattr(model, "fit")
        if name.endswith(BALANCED):
            assert "balanced" in map(str, model.get_params().values())
    with pytest.raises(ValueError, match="There is no entrant 'svc'"):
        entrant("svc", kind)


def test_kernels_by_name_see_no_negative_feature():
    X = np.array([[-2.0, 1.0], [0.0, 3.0]])
    shift = NonNegative().fit(X)
    assert np.array_equal(shift.transform(X), [[0, 1], [2, 3]])
    assert np.array_equal(shift.transform(X - 1), [[0, 0], [1, 2]])
    counts = sparse.csr_array(np.eye(2))
    assert NonNegative().fit(counts).transform(counts) is counts


@pytest.mark.slow
def test_a_trial_scores_labels_and_probabilities():
    first, second = run_trials(DIGITS, "neighbors", [0, 1])
    assert first["accuracy"] != second["accuracy"]
    for scores in (first, second):
        assert scores["accuracy"] > 0.9
        assert 0 < scores["log_loss"] < 2
        assert scores["n_test"] == 540
        assert {"calibration_error", "calibration_error_by_chance", "fit_seconds", "predict_seconds"} < scores.keys()
        assert "failed" not in scores


@pytest.mark.slow
def test_who_takes_too_long_or_fails_is_told():
    assert run_trials(DIGITS, "boosting", [0, 1], limit=0) == 2 * [{"failed": "did not finish"}]
    (scores,) = run_trials(DIGITS, "nobody", [0])
    assert scores["failed"].startswith("ValueError: There is no entrant 'nobody'")


@pytest.mark.slow
def test_what_has_no_probabilities_is_calibrated():
    (scores,) = run_trials(DIGITS, "linear_svc", [0])
    assert scores["calibration_seconds"] > 0
    assert scores["log_loss"] < 1


def entry(*splits, version=None):
    origin = records._entry([])
    versions = origin.versions if version is None else origin.versions | {"scikit-learn": version}
    return Entry(list(splits), origin.date, versions, origin.machine, origin.commit)


def test_a_record_survives_storage(tmp_path):
    assert load_record(DIGITS, tmp_path) == Record("digits", "small")
    record = Record("digits", "small", {"logistic": entry({"accuracy": 0.9}, {"failed": "did not finish"})})
    store_record(record, tmp_path)
    assert load_record(DIGITS, tmp_path) == record
    record.entries["neighbors"] = entry()
    store_record(record, tmp_path)
    assert load_record(DIGITS, tmp_path) == record
    assert [path.name for path in tmp_path.iterdir()] == ["digits.json"]


def test_only_what_is_missing_or_of_another_version_runs(tmp_path, monkeypatch):
    ran = []

    def run(data, name, numbers, limit):
        ran.append(name)
        return [{"accuracy": 0.5} for _ in numbers]

    monkeypatch.setattr(records, "run_trials", run)
    complete(DIGITS, ["peers"], folder=tmp_path)
    assert ran == list(peers("small"))
    complete(DIGITS, ["peers"], folder=tmp_path)
    assert len(ran) == len(peers("small"))
    record = load_record(DIGITS, tmp_path)
    record.entries["logistic"] = entry(*record.entries["logistic"].splits, version="0.1")
    record.entries["neighbors"] = entry({"accuracy": 0.5})
    store_record(record, tmp_path)
    complete(DIGITS, ["peers", "named"], again=["boosting"], folder=tmp_path)
    assert sorted(ran[len(peers("small")) :]) == sorted(["logistic", "boosting", "neighbors", *named("small")])
    assert not load_record(DIGITS, tmp_path).lacks("logistic", DIGITS.n_splits)


def test_scores_of_ours_survive_as_values_of_a_case():
    scores = {
        "digits": {OURS: [{"accuracy": 0.9, "log_loss": 0.2}, {"failed": 1.0}]},
        "glass6": {OURS: [{"accuracy": 0.8}], OURS + BALANCED: [{"balanced_accuracy": 0.7}]},
    }
    values = flat(scores)
    assert values["glass6/0/balanced/balanced_accuracy"] == 0.7
    assert nested({"mean_accuracy": 1.0} | values) == scores


def board(**means):
    """Scores of `digits` by entrant, split by split; None did not finish. Others are far behind."""
    given = {name: [{} if v is None else {"accuracy": v, "log_loss": 1 - v} for v in m] for name, m in means.items()}
    rest = {name: [{"accuracy": 0.1, "log_loss": 0.9}] * 3 for name in peers("small")}
    return Board({"digits": {**rest, **given}})


def test_ranks_share_ties_and_put_the_unfinished_last():
    found = board(histogp=[0.9] * 3, logistic=[0.95] * 3, neighbors=[0.9] * 3, boosting=[0.99, 0.99, None])
    for key in ("accuracy", "log_loss"):
        by = ranks(found, [DIGITS], key)
        assert [by[name][0] for name in ("logistic", OURS, "neighbors")] == [1, 2.5, 2.5]
        assert by["boosting"][0] == len(peers("small")) + 1
        assert lead(by) == -1.5


def test_a_gap_has_the_standard_error_of_paired_differences():
    mine, other = np.array([0.90, 0.93, 0.91]), np.array([0.92, 0.94, 0.94])
    found = gap(board(histogp=mine, logistic=other), DIGITS, peers("small"), "accuracy")
    assert (found.other, found.is_level) == ("logistic", False)
    assert found.behind == pytest.approx(0.02)
    assert found.standard_error == pytest.approx(stats.sem(other - mine))
    same = gap(board(histogp=mine, logistic=other), DIGITS, peers("small"), "log_loss")
    assert same.behind == pytest.approx(found.behind)
    failed = gap(board(histogp=[0.9, None, 0.9], logistic=other), DIGITS, peers("small"), "accuracy")
    assert not failed.is_level


def test_one_split_has_the_error_of_its_test_samples():
    scores = {name: [{"accuracy": 0.5, "n_test": 100}] for name in peers("small")}
    scores |= {OURS: [{"accuracy": 0.8, "n_test": 100}], "logistic": [{"accuracy": 0.83, "n_test": 100}]}
    found = gap(Board({"digits": scores}), DIGITS, peers("small"), "accuracy")
    assert found.standard_error == pytest.approx(0.04)
    assert found.is_level


def test_intervals_are_those_of_students_t():
    values = np.random.default_rng(0).normal(1, 2, 20)
    low, high = stats.ttest_1samp(values, 0).confidence_interval()
    found = Interval.of(values)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx((low, high))
    assert paired(board(histogp=[0.9], logistic=[0.8]), [DIGITS], "logistic", "accuracy").mean == pytest.approx(0.1)
    ratio = paired(board(histogp=[0.9], logistic=[0.8]), [DIGITS], "logistic", "log_loss").mean
    assert np.exp(ratio) == pytest.approx(0.5)


def test_calibration_by_chance_is_what_right_probabilities_show():
    rng = np.random.default_rng(1)
    first = rng.uniform(0, 1, 300)
    probabilities = np.column_stack([first, 1 - first])
    drawn = [calibration_error(probabilities, (rng.random(300) > first).astype(int)) for _ in range(200)]
    assert calibration_error_by_chance(probabilities) == pytest.approx(np.mean(drawn), rel=0.05)
    assert calibration_error_by_chance(np.eye(3)) == 0
    scores = {OURS: [{"calibration_error": 0.03, "calibration_error_by_chance": 0.02}]}
    assert excess_calibration_errors(Board({"digits": scores}), [DIGITS], OURS) == pytest.approx([0.01])


def test_a_summary_has_a_number_for_every_bar():
    values = summary(_made_up())
    assert np.isfinite(list(values.values())).all()
    assert values["sets"] == len(SETS) - len(of_kind(VALUES))
    assert discover()["defaults_standings"].bars.keys() <= values.keys()
    with pytest.raises(ValueError, match="Nothing is stored of imbalanced, large"):
        summary(Board({}))


def test_a_failure_of_ours_misses_bars_and_not_more():
    scores = {name: dict(entrants) for name, entrants in _made_up().scores.items()}
    for name in ("letter", "glass6", "meats"):
        scores[name] |= {OURS: [{"failed": 1.0}] * SETS[name].n_splits}
    values, bars = summary(Board(scores)), discover()["defaults_standings"].bars
    assert values["failed_sets"] == 2
    for missed in ("letter_behind", "average_precision_behind", "rare_probability_off"):
        assert not bars[missed].is_met(values[missed])
    for lines in (set_lines, entrant_lines, value_lines, rare_lines):
        assert len({len(cells) for cells in lines(Board(scores))}) == 1


def test_standings_show_what_is_stored(tmp_path, capsys):
    assert main(["standings", "--results", str(tmp_path)]) == 0
    assert "rank by accuracy" in capsys.readouterr().out
    assert stored(tmp_path, tmp_path).sets() == []
    assert main(["peers", "no_such_set", "--results", str(tmp_path)]) == 2
    assert "no_such_set" in capsys.readouterr().err


def test_stored_records_are_those_of_sets_and_name_no_machine():
    secrets = [name for name in (platform.node(), str(Path.home()), str(ROOT)) if len(name) > 1]
    for path in RECORDS.glob("*.json"):
        record = load_record(set_named(path.stem))
        known = {*peers(record.kind), *weighted_peers(record.kind), *named(record.kind)}
        assert record.entries.keys() <= known, path.stem
        for name, one in record.entries.items():
            assert len(one.splits) == set_named(path.stem).n_splits, (path.stem, name)
            assert one.machine.keys() == {"processor", "cores", "memory_gb"}
        text = path.read_text()
        assert not [secret for secret in secrets if secret in text], path.stem


def test_a_frame_that_asks_for_more_is_refused():
    with pytest.raises(pickle.UnpicklingError, match=r"does not need posix\.system"):
        _FrameReader(io.BytesIO(pickle.dumps(os.system))).load()
    assert _FrameReader(io.BytesIO(pickle.dumps(slice(1)))).load() == slice(1)
