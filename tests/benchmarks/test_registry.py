"""Cases are found by themselves, and are what their decorator says."""

import pytest

from benchmarks.data import LOADERS
from benchmarks.registry import Bar, case, discover, select


@pytest.mark.parametrize(
    ("text", "met", "missed"),
    [("<= 1.1", 1.1, 1.11), (">= 0.9", 0.9, 0.89), ("< 2", 1.9, 2.0), ("> 0", 1e-9, 0.0), ("== 1", 1.0, 0.0)],
)
def test_a_bar_is_a_number_with_a_direction(text, met, missed):
    bar = Bar.parse(text)
    assert bar.is_met(met)
    assert not bar.is_met(missed)
    assert not bar.is_met(float("nan"))
    assert str(bar) == text


@pytest.mark.parametrize("text", ["1.1", "<=", "<= fast", "~ 3", "<= 1 <= 2"])
def test_other_bars_are_refused(text):
    with pytest.raises(ValueError, match="A bar is one of"):
        Bar.parse(text)


def test_cases_are_discovered_and_selected_by_name_or_group(tiny):
    cases = discover(tiny)
    assert list(cases) == ["tiny_needs", "tiny_fit", "tiny_failure"]
    assert [one.name for one in select(cases, [])] == list(cases)
    assert [one.name for one in select(cases, ["tiny"])] == ["tiny_fit", "tiny_failure"]
    assert [one.name for one in select(cases, ["tiny_fit", "other"])] == ["tiny_needs", "tiny_fit"]
    assert cases["tiny_fit"].title == "As long as the imported histogp says."
    with pytest.raises(ValueError, match="no case or group 'tiny_fitt'"):
        select(cases, ["tiny_fitt"])


def test_what_is_missing_is_named(tiny):
    assert discover(tiny)["tiny_needs"].missing() == ["no_such_module_or_command"]


def test_a_bar_needs_its_value(tiny):
    with pytest.raises(ValueError, match=r"bars for \['absent'\]"):
        discover(tiny)["tiny_needs"].run()


def test_names_are_unique_words(tiny):
    discover(tiny)
    with pytest.raises(ValueError, match="Two cases have the name 'tiny_fit'"):
        case("tiny_fit", group="tiny")(lambda: {})
    with pytest.raises(ValueError, match="letters, digits and underscores"):
        case("../tiny", group="tiny")


def test_our_own_cases_are_complete():
    cases = discover()
    assert len({one.group for one in cases.values()}) > 5
    for one in cases.values():
        assert set(one.data) <= LOADERS.keys(), one.name
        assert one.title, f"{one.name} has no docstring"
        assert one.smoke, f"{one.name} has no arguments for a smoke run"
