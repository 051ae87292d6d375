"""Tables follow stored results."""

import dataclasses
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.registry import discover
from benchmarks.report import aligned, bars, cases_of, duration, provenance, updated
from benchmarks.results import Result, load, store
from benchmarks.tables import TABLES, Table

ROOT = Path(__file__).parents[2]
RESULT = Result(
    "tiny_fit",
    {"seconds": 1.234, "accuracy": 0.98765, "odd/name +": 3e-6},
    "0123456789abcdef",
    False,
    "2026-01-02",
    2.0,
    {"python": "3.13.1", "numpy": "2.4.0"},
    {"processor": "Example 1", "cores": 2, "memory_gb": 8},
)
TABLE = Table(
    ("what", "measured", "score"),
    (
        ("fit", "{tiny_fit[seconds]:time}", "{tiny_fit[accuracy]:.2%}"),
        ("", "{tiny_fit[odd/name +]:time}", "-"),
        ("", "{other[seconds]:.1f}", "-"),
    ),
)
TEXT = """Before.

<!-- benchmark: tiny -->
| typed | by | hand |
| --- | --- | --- |
| fit | 9 s | 1% |
| | 8 s | - |
| | 7 s | - |
| no such row | 1 | 2 |
<!-- end -->

Between.

<!-- benchmark: provenance -->
<!-- end -->
After.
"""


def test_rows_come_from_results_and_others_go():
    found = updated(TEXT, {"tiny_fit": RESULT}, {"tiny": TABLE})
    assert found.text == (
        "Before.\n\n<!-- benchmark: tiny -->\n\n| what | measured | score |\n| --- | --- | --- |\n"
        "| fit | 1.2 s | 98.77% |\n| | 3.0 us | - |\n\n<!-- end -->\n\nBetween.\n\n"
        "<!-- benchmark: provenance -->\n\nMeasured on 2026-01-02 at `0123456`, on Example 1, 2 cores, 8 GB, with "
        "Python 3.13.1, NumPy 2.4.0.\n\n<!-- end -->\nAfter.\n"
    )
    assert found.unmeasured == ["tiny: - (other)"]
    assert updated(found.text, {"tiny_fit": RESULT}, {"tiny": TABLE}).text == found.text


def test_a_table_without_results_says_so():
    found = updated(TEXT, {}, {"tiny": TABLE})
    assert "(Not measured yet: `python -m benchmarks list` has the cases of the table 'tiny'.)" in found.text
    assert "Nothing is measured yet." in found.text
    assert "typed" not in found.text


def test_a_row_comes_back_with_its_result():
    other = dataclasses.replace(RESULT, case="other", values={"seconds": 4.0}, commit=None, date="2026-02-03")
    found = updated(TEXT, {"tiny_fit": RESULT, "other": other}, {"tiny": TABLE})
    assert "| | 4.0 | - |" in found.text
    assert found.unmeasured == []
    sentence = provenance({"tiny_fit": RESULT, "other": other}, {"tiny": TABLE})
    assert sentence.startswith("Measured from 2026-01-02 to 2026-02-03 at `0123456`, `unknown`, on Example 1")


def test_a_value_that_a_case_no_longer_has_is_an_error():
    stale = dataclasses.replace(RESULT, values={"seconds": 1.0})
    with pytest.raises(ValueError, match="tiny_fit has no value 'accuracy'; run the case again"):
        updated(TEXT, {"tiny_fit": stale}, {"tiny": TABLE})


@pytest.mark.parametrize("text", ["no block", TEXT.replace("benchmark: tiny", "benchmark: large")])
def test_blocks_are_those_of_tables(text):
    with pytest.raises(ValueError, match="is missing or unknown"):
        updated(text, {}, {"tiny": TABLE})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (248.2, "248 s"),
        (26.0, "26 s"),
        (9.96, "10 s"),
        (8.13, "8.1 s"),
        (0.142, "0.14 s"),
        (0.033, "33 ms"),
        (186e-6, "186 us"),
        (5.13e-6, "5.1 us"),
        (0.38e-6, "0.38 us"),
        (0.0, "0 us"),
        (-0.2, "-0.20 s"),
    ],
)
def test_durations_have_two_digits(seconds, text):
    assert duration(seconds) == text


def test_bars_are_met_or_missed(tiny):
    cases = discover(tiny)
    header, line = bars(cases, {"tiny_fit": RESULT})
    assert line == ("tiny_fit", "seconds", "1.234", "<= 1.5", "met", "2026-01-02", "0123456")
    slow = dataclasses.replace(RESULT, values={"seconds": 2.0}, modified=True)
    assert bars(cases, {"tiny_fit": slow})[1][4:] == ("MISSED", "2026-01-02", "0123456+")
    assert aligned([header, line]).splitlines()[1].startswith("tiny_fit  seconds  1.234     <= 1.5  met")


def test_templates_ask_for_cases_that_exist():
    named = {case for table in TABLES.values() for row in table.rows for case in cases_of(row)}
    assert named <= discover().keys()
    for table in TABLES.values():
        assert {len(row) for row in table.rows} == {len(table.header)}


def test_the_readme_shows_the_stored_results(capsys):
    assert main(["report", "--check"]) == 0, capsys.readouterr().out


def test_check_notices_a_typed_number(tmp_path, capsys):
    folder, readme = tmp_path / "results", tmp_path / "README.md"
    readme.write_text((ROOT / "README.md").read_text())
    for result in load().values():
        store(result, folder)
    store(dataclasses.replace(RESULT, case="fit_50050", values={"seconds": 1.5}), folder)
    options = ["--results", str(folder), "--readme", str(readme)]
    assert main(["report", "--check", *options]) == 1
    assert main(["report", *options]) == 0
    assert "| fit, 50,050 x 1,000 sparse, binary | 1.5 s |" in readme.read_text()
    assert main(["report", "--check", *options]) == 0
    readme.write_text(readme.read_text().replace("binary | 1.5 s |", "binary | 1.1 s |"))
    assert main(["report", "--check", *options]) == 1
    assert "differs from the stored results" in capsys.readouterr().out


def test_a_stored_result_without_a_case_is_noticed(tmp_path, capsys):
    for result in load().values():
        store(result, tmp_path)
    store(RESULT, tmp_path)
    assert main(["report", "--check", "--results", str(tmp_path)]) == 1
    assert "stored, but no case: tiny_fit" in capsys.readouterr().out
