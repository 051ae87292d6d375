"""The suite notices a leaf whose result is off by 1e-6."""

import inspect

import numpy as np
import pytest
from core.loops import test_twins
from core.maps import test_maps
from core.operators import test_pair_kernels, test_sorted_columns

from histogp._core import threads
from histogp._core._numba import chi2_loops, column_loops, pair_loops, table_loops

LEAVES = [
    (module, name)
    for module in (chi2_loops, column_loops, pair_loops, table_loops)
    for name in dir(module)
    if getattr(module, name) in threads._leaves
]


def test_every_leaf_is_listed():
    assert len(LEAVES) == len(threads._leaves)


@pytest.mark.parametrize(("module", "name"), LEAVES)
def test_a_perturbed_leaf_is_noticed(module, name, monkeypatch):
    original = getattr(module, name)

    def perturbed(*arguments):
        original(*arguments)
        out = arguments[-1]
        if out.size:
            entry = np.unravel_index(np.abs(out).argmax(), out.shape)
            # A count is off by one, a real number by a millionth.
            out[entry] += 1 if out.dtype.kind == "i" else 1e-6 * np.abs(out[entry])

    monkeypatch.setattr(module, name, perturbed)
    twins = [getattr(test_twins, check) for check in dir(test_twins) if check.startswith("test_")]
    if name.startswith("count"):
        # A wrong count would send the next leaf out of bounds; its own twin sees it before.
        assert any(fails(check) for check in twins if "count" in check.__name__)
        return
    assert any(fails(check) for check in twins)
    if name in ("crowding", "scatter_rows") or name.startswith("hash"):
        return  # one only chooses between grids, and all are right; this operator does not need the others
    if module is chi2_loops:
        assert fails(test_maps.test_products_miss_the_kernel_by_equation_7)
        return
    suite = test_pair_kernels.TestDense() if module is pair_loops else test_sorted_columns.TestSortedOperator()
    assert any(fails(check, way) for check in typical_checks(suite) for way in suite.ways)


@pytest.mark.parametrize("suite", [test_sorted_columns.TestSortedOperator(), test_pair_kernels.TestDense()])
def test_nothing_is_noticed_where_nothing_is_wrong(suite):
    assert not any(fails(check) for check in typical_checks(suite))


def typical_checks(suite):
    """The tests of an operator that are quick, and the same every time."""
    return [getattr(suite, name) for name in dir(suite) if name.startswith("test_typical_")]


def fails(check, way=None):
    """Whether a test notices; its parameters, if it has any, are those of double precision."""
    choices = {"dtype": np.float64, "rtol": 1e-13, "most": 8}
    if hasattr(check, "__self__"):
        kernel = next(iter(check.__self__.typical.values()))
        choices |= {"kernel": kernel, "way": way, "on": "uniform", "n_threads": 2}
    arguments = {name: choices[name] for name in inspect.signature(check).parameters if name in choices}
    try:
        check(**arguments)
    except (AssertionError, ValueError):
        return True
    return False
