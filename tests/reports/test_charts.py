"""Charts and tables say what they were given, and survive whatever that is."""

import math
import re
from decimal import Decimal
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from histogp.reports.charts import (
    NOTHING,
    Axis,
    Series,
    confusion_table,
    data_table,
    key_figures,
    line_chart,
    scatter_chart,
)

NASTY = """<b>&"'"""
MAGNITUDES = st.floats(1e-12, 1e12)
NUMBERS = st.floats(-1e9, 1e9)


def chart(*series, **options):
    return line_chart(series, **{"x_label": "rows", "y_label": "accuracy", "title": "A chart", **options})


def texts(markup, path):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(markup).iterfind(path)]


def lead(number):
    """The digits of a number without zeros at its end."""
    return int("".join(map(str, Decimal(repr(number)).normalize().as_tuple().digits)))


@pytest.mark.parametrize(
    "markup",
    [
        chart(Series("a", [1, 2, 3], [0.1, 0.5, 0.2]), Series("b", [1, 2], [1, 2], dashed=True)),
        chart(Series(NASTY, [1, 2], [1, 2]), Series(NASTY, [1], [1]), x_label=NASTY, y_label=NASTY, title=NASTY),
        scatter_chart([1, 2, 3], [1, 2, 4], title=NASTY),
        confusion_table([[3, 1], [0, 2]], [NASTY, "b"]),
        key_figures([(NASTY, NASTY)]),
        data_table([NASTY, "n"], [[NASTY, "1"]]),
    ],
)
def test_charts_are_well_formed_xml(markup):
    ElementTree.fromstring(markup)
    assert "<b>" not in markup


def test_text_is_escaped():
    markup = chart(Series("s", [1, 2], [1, 2]), title=NASTY, y_label=NASTY)
    assert texts(markup, "figcaption") == [NASTY]
    assert NASTY in texts(markup, "svg/text")
    assert ElementTree.fromstring(markup).find("svg").attrib["aria-label"] == NASTY


def test_markers_carry_the_exact_values():
    assert texts(chart(Series("s", [60000], [0.94125])), ".//circle/title") == ["s: 60000, 0.94125"]


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([5], [5]),
        ([1, 2, 3], [0.94, 0.94, 0.94]),
        ([0, 0], [0, 0]),
        ([2, 2, 2], [1, 2, 3]),
        ([1, 2], [1, 1 + 1e-15]),
        ([-3, 4], [-1e-7, 1e-7]),
        ([1, 2], [1e-140, 1e140]),
    ],
)
@pytest.mark.parametrize("log", [False, True])
def test_degenerate_series_are_drawn(x, y, log):
    markup = chart(Series("s", x, y), log_x=log, log_y=log)
    drawable = sum(a > 0 and b > 0 for a, b in zip(x, y, strict=True)) if log else len(x)
    assert markup.count("<circle") == drawable
    assert "nan" not in markup.replace(NOTHING, "")


def test_points_that_have_no_place_are_left_out():
    series = Series("s", [1, 2, 3, np.nan, 5, 6], [1, np.inf, -1, 1, 10, 1e300])
    assert chart(series).count("<circle") == 3
    assert chart(series, log_y=True).count("<circle") == 2
    assert chart(Series("s", [0, -1], [1, 1]), log_x=True) == NOTHING


def test_without_data_charts_say_so():
    assert chart() == chart(Series("s", [], [])) == scatter_chart([], [], title="t") == confusion_table([], [])
    assert "No data" in chart()


def test_one_line_needs_no_legend_and_two_have_one():
    one, two = Series("alpha", [1, 2], [1, 2]), Series("beta", [1, 2], [2, 1], dashed=True)
    assert texts(chart(one), "ul/li") == []
    assert texts(chart(one, two), "ul/li") == ["alpha", "beta"]
    assert chart(one, two).count('class="line color-2 dashed"') == 2


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_ticks_are_round_and_cover_the_range(values):
    axis = Axis.around(np.array(values))
    assert axis.low <= min(values)
    assert axis.high >= max(values)
    assert 3 <= len(axis.ticks) <= 8
    steps = np.diff(axis.ticks)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    assert float(f"{steps[0]:.1e}") == pytest.approx(steps[0], rel=1e-6)
    assert f"{steps[0]:.0e}"[0] in "125"
    np.testing.assert_allclose([axis.ticks[0], axis.ticks[-1]], [axis.low, axis.high], atol=1e-6 * steps[0])
    assert len(set(axis.labels)) == len(axis.labels)


@given(st.lists(MAGNITUDES, min_size=1, max_size=5))
def test_ticks_of_log_axes_are_round_and_cover_the_range(values):
    axis = Axis.around(np.array(values), log=True)
    assert axis.low <= min(values)
    assert axis.high >= max(values)
    assert 2 <= len(axis.ticks) <= 8
    assert {lead(t) for t in axis.ticks} <= {1, 2, 5}
    if max(values) / min(values) > 1000:
        assert {lead(t) for t in axis.ticks} == {1}
    assert len(set(axis.labels)) == len(axis.labels)


@pytest.mark.parametrize(
    ("values", "log", "labels"),
    [
        ([0, 60000], False, ["0", "10k", "20k", "30k", "40k", "50k", "60k"]),
        ([0.93, 0.958], False, ["0.930", "0.935", "0.940", "0.945", "0.950", "0.955", "0.960"]),
        ([0, 2.5], False, ["0", "0.5", "1.0", "1.5", "2.0", "2.5"]),
        ([-1, 1], False, ["-1.0", "-0.5", "0", "0.5", "1.0"]),
        ([0, 4e-4], False, ["0", "1e-4", "2e-4", "3e-4", "4e-4"]),
        ([500, 60000], True, ["500", "1000", "2000", "5000", "10k", "20k", "50k", "100k"]),
        ([1e-3, 1e3], True, ["1e-3", "0.01", "0.1", "1", "10", "100", "1000"]),
        ([1e6, 1e10], True, ["1M", "10M", "100M", "1e9", "1e10"]),
    ],
)
def test_ticks_read_well(values, log, labels):
    axis = Axis.around(np.array(values, float), log=log)
    assert [label.replace("\N{MINUS SIGN}", "-") for label in axis.labels] == labels


def test_a_given_range_is_kept():
    axis = Axis.around(np.array([0.2, 0.7]), limits=(0.55, 1.0))
    assert (axis.low, axis.high) == (0.55, 1.0)
    assert axis.ticks == [0.6, 0.7, 0.8, 0.9, 1.0]
    assert "1.0" in texts(chart(Series("s", [1, 2], [0.2, 0.7]), y_range=(0.5, 1)), "svg/text")


def test_the_scatter_is_thinned_evenly_and_says_so():
    values = np.arange(5000.0)
    markup = scatter_chart(values, values, title="t")
    at = [float(x) for x in re.findall(r'cx="([\d.]+)"', markup)]
    assert len(at) == 2000
    assert np.ptp(np.diff(at)) < 0.5
    assert texts(markup, "p") == ["2,000 of 5,000 points are drawn."]
    assert texts(scatter_chart(values[:9], values[:9], title="t"), "p") == []


def test_the_confusion_table_has_truth_in_rows_and_the_recall_last():
    markup = confusion_table([[3, 1, 0], [0, 2, 0], [0, 0, 0]], ["a", "b", "c"])
    assert texts(markup, ".//thead/tr/th") == ["a", "b", "c", "recall"]
    assert texts(markup, ".//tbody/tr/th") == ["a", "b", "c"]
    rows = [
        ["".join(cell.itertext()) for cell in row] for row in ElementTree.fromstring(markup).iterfind(".//tbody/tr")
    ]
    assert rows == [["a", "3", "1", "", "75.0%"], ["b", "", "2", "", "100.0%"], ["c", "", "", "", "\N{EN DASH}"]]
    hit, miss = (ElementTree.fromstring(markup).find(f".//td[@class='{kind}']") for kind in ("hit", "miss"))
    assert hit.attrib["style"] == f"--share:{math.sqrt(0.75):.3f}"
    assert miss.attrib["title"] == "truth a, predicted b: 25.0% of the row"


def test_of_many_classes_the_worst_are_shown():
    matrix = np.diag(np.full(40, 10))
    matrix[np.arange(15, 35), 0] = np.arange(1, 21)
    markup = confusion_table(matrix, [f"c{k}" for k in range(40)])
    assert texts(markup, ".//tbody/tr/th") == [f"c{k}" for k in range(15, 35)]
    assert "20 of 40 classes" in texts(markup, "figcaption")[0]
    assert texts(markup, ".//tbody/tr/td[@class='recall']")[-1] == f"{10 / 30:.1%}"


def test_numbers_are_aligned_to_the_right_and_words_are_not():
    rows = [["a", "60,000", "0.94 ± 0.01", "31 s", "3"], ["b", "1", "\N{EN DASH}", "0.2 s", "two"]]
    markup = data_table(["name", "rows", "accuracy", "time", "mixed"], rows)
    assert texts(markup, ".//th[@class='number']") == ["rows", "accuracy", "time"]
    assert texts(markup, ".//td[@class='number']") == ["60,000", "0.94 ± 0.01", "31 s", "1", "\N{EN DASH}", "0.2 s"]


def test_key_figures_keep_values_with_their_labels():
    markup = key_figures([("94 %", "accuracy"), ("31 s", "time")])
    assert texts(markup, "div/dd") == ["94 %", "31 s"]
    assert texts(markup, "div/dt") == ["accuracy", "time"]
