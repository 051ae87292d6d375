"""Files to read, and how they are told apart."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path

from histogp.exceptions import DataError


def readable(path: str | os.PathLike[str]) -> Path:
    """The path of a file that exists and can be opened."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file.")
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise DataError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from None


def ending(path: Path, known: Iterable[str]) -> str:
    """Which of the known endings the file has, whatever its case."""
    known = list(known)
    for candidate in known:
        if path.name.lower().endswith(candidate):
            return candidate
    raise DataError(f"{path} has no known ending; known are {', '.join(known)}.")


def text_lines(path: Path) -> Generator[str]:
    """The lines of a text file, plain or gzipped, as they stand but for a byte order mark."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is not a complete gzip file: {error}.") from None
