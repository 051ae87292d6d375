"""The settings of `make portable` have an effect."""

import os

import numba
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

pytestmark = pytest.mark.portable


@pytest.mark.skipif("OPENBLAS_CORETYPE" not in os.environ, reason="BLAS takes the loops of this processor")
def test_blas_takes_the_loops_that_were_asked_for():
    core = os.environ["OPENBLAS_CORETYPE"]
    found = {library["architecture"] for library in ThreadpoolController().select(internal_api="openblas").info()}
    # Some builds have no loops of their own for Zen, and take those for Haswell.
    assert found <= ({"Zen", "Haswell"} if core == "Zen" else {core})


@pytest.mark.skipif(os.environ.get("NUMBA_CPU_NAME") != "generic", reason="Numba compiles for this processor")
def test_numba_compiles_for_any_processor():
    @numba.njit
    def double(x, out):
        for i in range(len(x)):
            out[i] = 2 * x[i]

    double(np.ones(8), np.ones(8))
    (assembly,) = double.inspect_asm().values()
    assert "xmm" in assembly
    assert "ymm" not in assembly
