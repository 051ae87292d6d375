"""Samples as small pictures: gray-level images and bar histograms, with captions."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from scipy import sparse

SIDE = 168  # of a histogram, in pixels: that of a 28 x 28 image in the usual scale
MOST_BARS = 128
MOST_PICTURES = 12


def image(pixels: Any, *, scale: int = 6, label: str) -> str:
    """A gray-level image: zero, or the smallest value if that is negative, is white, the largest value black."""
    pixels = np.asarray(pixels, float)
    height, width = pixels.shape
    ink = pixels - min(0.0, pixels.min())
    gray = np.rint(255 - 255 * ink / (ink.max() or 1.0)).astype(np.uint8)
    data = b64encode(_png(gray)).decode()
    return (
        f'<img src="data:image/png;base64,{data}" alt="{escape(label)}" '
        f'width="{width * scale}" height="{height * scale}" style="image-rendering:pixelated"/>'
    )


def histogram(values: Any, *, label: str) -> str:
    """Bars from zero to the largest value, and down to the smallest if that is negative.

    A long row shows the value furthest from zero of each group of neighbors.
    """
    heights = np.asarray(values, float).ravel()
    if len(heights) > MOST_BARS:
        heights = np.array([group[np.abs(group).argmax()] for group in np.array_split(heights, MOST_BARS)])
    lowest, highest = heights.min(initial=0.0), heights.max(initial=0.0)
    heights = heights / (highest - lowest or 1.0) * (SIDE - 8)
    zero = SIDE + min(0.0, heights.min(initial=0.0))
    width = SIDE / max(len(heights), 1)
    gap = 0.15 * width if width > 4 else 0.0  # thin bars would blur
    bars = "".join(
        f"M{k * width + gap:.2f},{zero:.4g}V{zero - height:.1f}H{(k + 1) * width - gap:.2f}V{zero:.4g}z"
        for k, height in enumerate(heights)
        if height != 0
    )
    return (
        f'<svg class="bars" viewBox="0 0 {SIDE} {SIDE}" width="{SIDE}" height="{SIDE}" role="img" '
        f'aria-label="{escape(label)}"><path d="{bars}"/><path class="axis" d="M0,{zero - 0.5:.4g}H{SIDE}"/></svg>'
    )


def card(picture: str, *, title: str, detail: str, wrong: bool) -> str:
    """A picture with its caption; a wrong prediction is marked in words, too."""
    mark = '<span class="mark">\N{MULTIPLICATION X} wrong</span>' if wrong else ""
    return (
        f'<figure class="card{" wrong" if wrong else ""}">{picture}'
        f"<figcaption>{mark}<strong>{escape(title)}</strong><span>{escape(detail)}</span></figcaption></figure>"
    )


def gallery(cards: Sequence[str]) -> str:
    """Cards side by side."""
    return f'<div class="gallery">{"".join(cards)}</div>'


def of_samples(
    X: Any, index: np.ndarray, captions: Sequence[tuple[str, str, bool]], image_shape: tuple[int, int] | None
) -> str:
    """The samples ``index`` of X, each with a title, a detail and whether it is wrong; images or histograms."""
    rows = X[index].toarray() if sparse.issparse(X) else np.asarray(X)[index]
    cards = []
    for row, (title, detail, wrong) in zip(rows, captions, strict=True):
        label = f"{title} {detail}"
        picture = histogram(row, label=label) if image_shape is None else image(row.reshape(image_shape), label=label)
        cards.append(card(picture, title=title, detail=detail, wrong=wrong))
    return gallery(cards)


def _png(gray: np.ndarray) -> bytes:
    """A PNG file of 8-bit gray levels."""
    height, width = gray.shape
    lines = np.pad(gray, ((0, 0), (1, 0)))  # each line begins with its filter, 0 for none
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
