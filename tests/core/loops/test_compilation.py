"""Compiling: lazily, once, with a message, also where no cache can be written."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import histogp

FIT = """
import logging, numpy as np
from histogp import HistogramGPRegressor
X = np.random.default_rng(0).random((30, 3))
HistogramGPRegressor().fit(X, X[:, 0]).predict(X)
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )


@pytest.mark.slow
def test_importing_compiles_nothing():
    code = """
import histogp.gp
from histogp._core.threads import _leaves
assert _leaves and not any(leaf.signatures for leaf in _leaves)
"""
    run(code)


@pytest.mark.slow
def test_the_first_fit_says_that_it_compiles_and_the_second_does_not(tmp_path):
    first = run(FIT, NUMBA_CACHE_DIR=str(tmp_path))
    assert "compiles its numerical loops now" in first.stderr
    assert "compiles" not in run(FIT, NUMBA_CACHE_DIR=str(tmp_path)).stderr


@pytest.mark.slow
def test_a_package_whose_cache_cannot_be_written_still_works(tmp_path):
    copied = tmp_path / "site" / "histogp"
    shutil.copytree(Path(histogp.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    # Numba looks for a writable folder beside the source and in the user's cache; give it neither.
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder would have to be made")
    for folder in (copied / "_core" / "_numba", copied / "_core", copied):
        (folder / "__pycache__").write_text("")
        folder.chmod(stat.S_IREAD | stat.S_IEXEC)
    environment = {"PYTHONPATH": str(copied.parent), "XDG_CACHE_HOME": str(blocked), "HOME": str(blocked)}
    environment |= {"NUMBA_CACHE_DIR": "", "PYTHONDONTWRITEBYTECODE": "1"}
    code = FIT + "import histogp; assert 'site' in histogp.__file__; print('fitted')"
    try:
        assert "fitted" in run(code, **environment).stdout
    finally:
        for folder in (copied, copied / "_core", copied / "_core" / "_numba"):
            folder.chmod(stat.S_IRWXU)


def test_leaves_accept_read_only_input():
    X = np.random.default_rng(0).random((40, 3))
    X.flags.writeable = False
    histogp.HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(X, X[:, 0].copy()).predict(X)
