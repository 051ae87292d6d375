"""Equal samples as copies, or as repeated measurements."""

import numpy as np
import pytest
from oracles import close

from histogp._core import repeats
from histogp._core.repeats import LabeledScores, are_repeated_measurements, fit_to_left_out


def labeled(rows, codes, weights=None, scores=None):
    rows, codes = np.asarray(rows), np.asarray(codes)
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights, float)
    scores = np.zeros((len(rows), 1)) if scores is None else np.asarray(scores, float)
    return LabeledScores(scores, codes, weights, weights, rows)


def by_pairs(rows, codes, weights, chances):
    """Disagreements of all pairs of unit samples, and how many are expected where ``chances`` are those of a row."""
    units = [(row, code) for row, code, weight in zip(rows, codes, weights, strict=True) for _ in range(weight)]
    pairs = [(a, b) for i, a in enumerate(units) for b in units[:i] if a[0] == b[0]]
    return sum(a[1] != b[1] for a, b in pairs), sum(1 - np.sum(chances[a[0]] ** 2) for a, _ in pairs)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_counted_as_those_of_all_copies(seed, monkeypatch):
    monkeypatch.setattr(repeats, "FEW_ROWS", 0)
    rng = np.random.default_rng(seed)
    rows, weights = np.sort(rng.integers(6, size=20)), rng.integers(1, 4, size=20)
    chances = rng.dirichlet(np.ones(3), size=6)
    codes = np.array([rng.choice(3, p=p) for p in chances[rows]])
    for factor in (0.2, 1.0, 3.0):
        # Sharper or flatter predictions move what is expected.
        predicted = chances**factor / (chances**factor).sum(axis=1, keepdims=True)
        found, expected = by_pairs(rows, codes, weights, predicted)
        entries = labeled(rows, codes, weights)
        assert are_repeated_measurements(entries, predicted[rows]) == (found > 0 and found >= expected / 2)
        merged = entries.merged()
        assert are_repeated_measurements(merged, predicted[merged.row_of]) == (found > 0 and found >= expected / 2)


def test_copies_never_disagree():
    rows, codes = np.repeat(np.arange(5), 4), np.repeat([0, 1, 0, 1, 1], 4)
    assert not are_repeated_measurements(labeled(rows, codes), np.full((20, 2), 0.5))
    assert not are_repeated_measurements(labeled(rows, codes), np.eye(2)[codes])  # nor is it expected
    codes[::4] = 1 - codes[::4]
    assert are_repeated_measurements(labeled(rows, codes), np.full((20, 2), 0.5))
    assert not are_repeated_measurements(labeled(np.arange(20), codes), np.full((20, 2), 0.5))  # there are no pairs


def test_samples_that_do_not_differ_are_one():
    entries = labeled([1, 0, 1, 1, 0], [0, 1, 0, 1, 1], [1, 1, 2, 3, 0.5], np.arange(5)[:, None])
    merged = entries.merged()
    np.testing.assert_array_equal(merged.row_of, [0, 0, 1, 1])
    np.testing.assert_array_equal(merged.codes, [1, 1, 0, 1])
    np.testing.assert_array_equal(merged.weights, [0.5, 1, 3, 3])
    np.testing.assert_array_equal(merged.scores[:, 0], [4, 1, 0, 3])
    assert merged.merged() is merged


@pytest.mark.parametrize("are_real", [True, False])
def test_the_reading_that_suits_is_fitted(are_real):
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(30), 3)
    codes = rng.integers(2, size=90) if are_real else np.repeat(rng.integers(2, size=30), 3)
    calls = []

    def fit(scores, codes, weights, n):
        calls.append((scores, codes, weights, n))
        return scores[0, 0]

    def log_probabilities(found, scores):
        return np.log(np.full((len(scores), 2), 0.5))

    whole, single = (
        labeled(rows, codes, scores=np.full((90, 1), 2.0)),
        labeled(rows, codes, scores=np.full((90, 1), 3.0)),
    )
    assert fit_to_left_out(fit, log_probabilities, whole, lambda: single) == (3 if are_real else 2)
    # Copies count as one sample, measurements as many.
    assert [call[-1] for call in calls] == [len(calls[0][0]), 90][: len(calls)]
    for (scores, of_class, weights, _), n in zip(calls, (30, 90), strict=False):
        assert len(scores) == len(of_class) == len(np.unique(np.column_stack([rows, codes]), axis=0))
        close(np.bincount(of_class, weights), np.bincount(codes) * n / 90)
