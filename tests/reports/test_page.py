"""The page is one file, complete and quiet."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from histogp.reports.charts import N_COLORS, Series, confusion_table, data_table, key_figures, line_chart
from histogp.reports.page import CSS, Section, render
from histogp.reports.pictures import card, gallery, histogram, image

NASTY = """<b>&"'"""
VOID = {"meta", "img"}


class Outline(HTMLParser):
    """The tags of a document, checked for balance."""

    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page():
    curve = line_chart([Series("a", [1, 2], [1, 2])], x_label="x", y_label="y", title="t")
    pictures = [image(np.eye(8), label="eye"), histogram([1, 2], label="bars")]
    cards = gallery([card(picture, title="one", detail="p", wrong=True) for picture in pictures])
    tables = confusion_table(np.eye(2), ["a", "b"]) + data_table(["h"], [["1"]]) + key_figures([("1", "one")])
    sections = [Section("Curve", "How it grows.", curve), Section("Rest", "", cards + tables)]
    return render(title="A report", subtitle="on something", sections=sections, footer="the end")


def test_the_page_is_a_balanced_html5_document(page):
    outline = Outline()
    outline.feed(page)
    assert page.startswith("<!DOCTYPE html>")
    assert not outline.open
    assert ("html", {"lang": "en"}) in outline.tags
    assert [tag for tag, _ in outline.tags].count("h1") == 1
    assert [tag for tag, _ in outline.tags].count("h2") == 2


def test_the_page_makes_no_request(page):
    assert not re.search(r"https?://|//\w+\.|url\(|@import|<script|<link|<iframe", page)
    assert re.findall(r"src=\W*(\w+:\w+/\w+)", page) == ["data:image/png"] * page.count("src=")
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page


def test_text_is_escaped_and_bodies_are_not():
    page = render(title=NASTY, subtitle=NASTY, sections=[Section(NASTY, NASTY, "<i>body</i>")], footer=NASTY)
    assert "<b>" not in page
    assert page.count("&lt;b&gt;") == 6
    assert "<i>body</i>" in page


def test_every_color_of_a_line_is_defined_in_light_and_in_dark():
    for k in range(1, N_COLORS + 1):
        assert len(re.findall(rf"--color-{k}: #", CSS)) == 2
        assert f".color-{k} {{" in CSS


def test_the_style_has_a_rule_for_every_class(page):
    used = {name for names in re.findall(r'class="([^"]+)"', page) for name in names.split()}
    assert used - set(re.findall(r"\.([a-z][\w-]*)", CSS)) <= {"body"}
    assert CSS.count("{") == CSS.count("}")


def test_the_page_adapts_to_screens_and_paper():
    assert all(rule in CSS for rule in ("prefers-color-scheme: dark", "@media print", "max-width: 30rem"))
