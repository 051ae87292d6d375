"""Pictures show the values of a row."""

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from histogp.reports.pictures import MOST_BARS, card, gallery, histogram, image

NASTY = """<b>&"'"""


def decode(markup):
    """The gray levels of a picture, read chunk by chunk."""
    source = ElementTree.fromstring(markup).attrib["src"]
    assert source.startswith("data:image/png;base64,")
    content = base64.b64decode(source.partition(",")[2])
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        size, name = struct.unpack_from(">I4s", content, at)
        data = content[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", content, at + 8 + size) == (zlib.crc32(name + data),)
        chunks[name], at = data, at + 12 + size
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, color, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, color, rest) == (8, 0, [0, 0, 0])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def bars(markup):
    return ElementTree.fromstring(markup).find("path").attrib["d"].count("M")


def test_a_png_decodes_to_the_pixels():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7))
    pixels[0, 0] = 255
    np.testing.assert_array_equal(decode(image(pixels, label="x")), 255 - pixels)


def test_the_largest_value_is_black_and_zero_is_white():
    np.testing.assert_array_equal(decode(image([[0.0, 0.25], [0.5, 0.1]], label="x")), [[255, 128], [0, 204]])
    assert (decode(image(np.zeros((2, 3)), label="x")) == 255).all()


def test_an_image_is_scaled_and_labeled():
    attributes = ElementTree.fromstring(image(np.eye(4, 3), scale=5, label=NASTY)).attrib
    assert (attributes["width"], attributes["height"], attributes["alt"]) == ("15", "20", NASTY)
    assert "pixelated" in attributes["style"]


@pytest.mark.parametrize(("n", "shown"), [(1, 1), (16, 16), (MOST_BARS, MOST_BARS), (1000, MOST_BARS)])
def test_a_histogram_has_a_bar_a_value_up_to_a_limit(n, shown):
    assert bars(histogram(np.ones(n), label="x")) == shown


def test_a_lone_peak_of_a_long_row_is_seen():
    row = np.zeros(10_000)
    row[4321] = 3
    assert bars(histogram(row, label="x")) == 1


def test_an_empty_histogram_is_flat():
    assert bars(histogram(np.zeros(9), label="x")) == bars(histogram([], label="x")) == 0


def test_cards_are_escaped_and_errors_marked_in_words():
    right, wrong = (card(histogram([1, 2], label=NASTY), title=NASTY, detail=NASTY, wrong=w) for w in (False, True))
    root = ElementTree.fromstring(gallery([right, wrong]))
    assert [node.text for node in root.iterfind(".//strong")] == [NASTY, NASTY]
    assert "wrong" not in right
    assert "wrong" in "".join(ElementTree.fromstring(wrong).itertext())


def test_negative_values_are_lighter_than_zero_and_hang_from_the_axis():
    np.testing.assert_array_equal(decode(image([[-1.0, 0.0], [0.5, 1.0]], label="x")), [[255, 128], [64, 0]])
    picture = ElementTree.fromstring(histogram([3.0, -1.0, 0.0], label="x"))
    shapes, axis = (path.attrib["d"] for path in picture.findall("path"))
    up, down = [[float(y) for y in re.findall(r"(?:,|V)(-?[\d.]+)", bar)] for bar in shapes.split("z")[:2]]
    assert up[0] == up[2] == down[0] == down[2] == pytest.approx(float(axis.partition(",")[2].partition("H")[0]) + 0.5)
    assert up[0] - up[1] == pytest.approx(3 * (down[1] - down[0]))
    assert bars(histogram(-np.ones(1000), label="x")) == MOST_BARS
