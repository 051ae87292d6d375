"""Equal rows: what their hashes depend on, and how they are numbered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import dense, matrices
from scipy import sparse

from histogp._core import data
from histogp._core.data import Rows, content_hash, number_added, number_rows


def numbered_by_hand(X):
    """The number of each row among the distinct ones, in the order in which they appear."""
    known = {}
    return [known.setdefault(tuple(row + 0.0), len(known)) for row in dense(X)]


@st.composite
def repeated(draw):
    """Rows of a matrix, each perhaps several times."""
    X = draw(matrices())
    index = draw(st.lists(st.integers(0, X.shape[0] - 1), min_size=1, max_size=20))
    return X[np.array(index)]


@given(repeated())
def test_a_hash_depends_on_the_non_zeros_alone(X):
    expected = content_hash(X)
    assert expected.dtype == np.uint64
    full = dense(X)
    wider = np.hstack([full, np.zeros((len(full), 3))])
    negative_zeros = np.where(full == 0, -0.0, full)
    stored = sparse.csr_array((np.ones(full.size), np.indices(full.shape).reshape(2, -1)), shape=full.shape)
    stored.data[:] = full.ravel()
    for same in (full, np.asfortranarray(full), sparse.csc_array(full), Rows.from_array(full), wider, negative_zeros):
        np.testing.assert_array_equal(content_hash(same, n_threads=2), expected)
    np.testing.assert_array_equal(content_hash(stored), expected)
    in_single = full.astype(np.float32)
    np.testing.assert_array_equal(content_hash(in_single), content_hash(in_single.astype(np.float64)))


@given(repeated())
def test_rows_are_numbered_in_the_order_in_which_they_appear(X):
    found = number_rows(X)
    np.testing.assert_array_equal(found.row_of, numbered_by_hand(X))
    np.testing.assert_array_equal(found.row_of[found.first], np.arange(len(found.first)))
    np.testing.assert_array_equal(found.hashes, content_hash(X)[found.first])


@given(repeated(), st.integers(0, 20))
def test_further_rows_are_numbered_as_if_all_had_come_at_once(X, n_first):
    X = Rows.from_array(dense(X))
    n_first = min(n_first, X.n_rows)
    whole, before = number_rows(X), number_rows(X.block(0, n_first))
    found = number_added(X.block(n_first, X.n_rows), before.hashes, lambda: X.take(before.first))
    np.testing.assert_array_equal(np.concatenate([before.row_of, found.row_of]), whole.row_of)
    np.testing.assert_array_equal(np.concatenate([before.first, n_first + found.first]), whole.first)
    np.testing.assert_array_equal(found.hashes, whole.hashes)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, Rows.from_array])
def test_rows_that_only_have_the_same_hash_stay_apart(container, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 3)) * [1.0, 2.0, 0.5]
    expected = numbered_by_hand(X)
    assert max(expected) == 7
    monkeypatch.setattr(data, "content_hash", lambda X, n_threads=1: np.full(X.shape[0], 7, np.uint64))
    found = number_rows(container(X))
    np.testing.assert_array_equal(found.row_of, expected)
    rows = Rows.from_array(X)
    present = rows.take(found.first[:5])
    more = number_added(rows, np.full(5, 7, np.uint64), lambda: present)
    np.testing.assert_array_equal(more.row_of, expected)
    np.testing.assert_array_equal(more.first, found.first[5:])


def test_hashes_look_random():
    """Neither few values nor one non-zero leave bits that are always the same."""
    counts = np.random.default_rng(0).integers(0, 3, (3000, 20)).astype(float)
    single = np.eye(3000)[:, :2000] * 2.0
    for X in (np.unique(counts, axis=0), single[:2000]):
        found = content_hash(X)
        assert len(np.unique(found)) == len(X)
        shares = [np.mean((found >> np.uint64(bit)) & np.uint64(1)) for bit in range(64)]
        np.testing.assert_allclose(shares, 0.5, atol=0.06)


def test_the_hash_of_a_row_is_always_the_same():
    """Orders of rows rest on it, and with them results to the last bit."""
    z = (2 * 0x9E3779B97F4A7C15) % 2**64 ^ int(np.float64(1.5).view(np.uint64))

    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    expected = [mix(0x6A09E667F3BCC908), mix((mix(z) + 0x6A09E667F3BCC908) % 2**64)]
    assert content_hash(np.array([[0.0, 0.0], [0.0, 1.5]])).tolist() == expected
