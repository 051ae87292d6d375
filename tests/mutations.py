"""Damaged model files, drawn at random: bytes as an accident leaves them, and contents that somebody forged."""

from __future__ import annotations

import copy
import json

import numpy as np

from histogp.io import container


def damaged_bytes(content, rng):
    """Flip, cut, insert, repeat or overwrite bytes; most draws hit the header."""
    content = bytearray(content)
    header = 8 + int.from_bytes(content[:8], "little")
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, min(header, len(content)) if rng.random() < 0.7 else len(content)))
        match rng.integers(0, 7):
            case 0:
                content[at] ^= 1 << int(rng.integers(0, 8))
            case 1:
                content[at] = int(rng.integers(0, 256))
            case 2:
                del content[at:]
            case 3:
                del content[at : at + int(rng.integers(1, 50))]
            case 4:
                content[at:at] = rng.bytes(int(rng.integers(1, 50)))
            case 5:
                content[at:at] = content[at : at + int(rng.integers(1, 100))]
            case 6:
                content[:8] = int(rng.choice([0, 1, 7, 2**31, 2**63 - 1, len(content), 10**7])).to_bytes(8, "little")
        if len(content) == 0:
            break
    return bytes(content)


def forged_contents(document, arrays, rng):
    """Another document and other arrays, which would pass the checksum."""
    document, arrays = json.loads(json.dumps(document)), dict(arrays)
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.4:
            _forge_document(document, rng)
        elif arrays:
            _forge_array(arrays, rng)
    return document, arrays


_NUMBERS = [0, 1, -1, 2, 7, 2**31, 2**53, 2**64, 10**30, 0.5, -2.5, 1e308, 1e-320]
_VALUES = [None, True, False, "", "hik", "hik-exp", "quantized", "exact", [], {}, {"array": "alpha"}, [1], *_NUMBERS]


def _forge_document(document, rng):
    holder = document
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        if isinstance(holder[key], (dict, list)) and rng.random() < 0.8:
            holder = holder[key]
            continue
        if rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(_VALUES[rng.integers(len(_VALUES))])  # it may be altered in turn
        return


def _forge_array(arrays, rng):
    # Sorted: safetensors reads them in another order each time, and a failure should repeat itself.
    names = sorted(arrays)
    name = names[rng.integers(len(names))]
    array = arrays[name].copy()
    match rng.integers(0, 8):
        case 0:
            del arrays[name]
            return
        case 1:
            array = array[: rng.integers(0, len(array) + 1)]
        case 2:
            array = array.astype(rng.choice(["f4", "f8", "u4", "i8", "u1", "f2"]), casting="unsafe")
        case 3:
            array = array.reshape(-1, 1) if rng.random() < 0.5 else array.ravel()
        case 4:
            array = np.concatenate([array, array])
        case 5 if array.size and array.dtype.kind in "iu":
            # Several at once, so that their differences may look right.
            at = rng.integers(array.size)
            extremes = np.array([0, 1, 2**40, 2**62, 2**63 - 1, -1, -(2**63)])
            array.flat[at : at + 5] = rng.choice(extremes, len(array.flat[at : at + 5])).astype(array.dtype)
        case 5:
            other = names[rng.integers(len(names))]
            arrays[other], array = array, arrays[other]
        case _:
            if array.size:
                worst = [0, 1, -1, 2**31, 2**32 - 1, 2**62, 1e300, -1e300, np.nan, np.inf, 1e-310]
                with np.errstate(all="ignore"):
                    array.flat[rng.integers(array.size)] = np.array(worst[rng.integers(len(worst))]).astype(array.dtype)
    arrays[name] = array


def packed(document, arrays, folder):
    """The bytes of a file with a valid checksum."""
    path = folder / "forged.histogp"
    container.write(path, {key: document[key] for key in document if key != "sha256"}, arrays)
    return path.read_bytes()
