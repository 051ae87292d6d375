"""The adapter, with the real package."""

import numpy as np
import pytest
from oracles import histograms
from sklearn.base import clone

from histogp import HistogramGPClassifier
from histogp.active import STRATEGIES, query

pytest.importorskip("skactiveml", reason='scikit-activeml is not installed: pip install "histogp[activeml]"')
from skactiveml.classifier import SklearnClassifier
from skactiveml.pool import UncertaintySampling
from skactiveml.utils import MISSING_LABEL, is_unlabeled

from histogp.active.scikit_activeml import HistogramGPSampling

X = histograms(80, 5)
Y = (X[:, 0] > X[:, 1]).astype(float)
PARTLY = np.where(np.arange(80) % 5 == 0, Y, MISSING_LABEL)
OPEN = np.flatnonzero(np.isnan(PARTLY))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_chooses_what_query_chooses(strategy):
    clf = HistogramGPClassifier(noise=0.3)
    sampling = HistogramGPSampling(clf, strategy, random_state=0)
    index, utilities = sampling.query(X, PARTLY, batch_size=4, return_utilities=True)
    assert set(index) <= set(OPEN)
    assert utilities.shape == (4, 80)
    for k in range(4):
        expected = np.isnan(PARTLY)
        expected[index[:k]] = False
        np.testing.assert_array_equal(~np.isnan(utilities[k]), expected)
        assert np.nanargmax(utilities[k]) == index[k]
    if strategy not in ("random", "expected-change"):
        fitted = clone(clf).fit(X[::5], Y[::5])
        expected, values = query(fitted, X, strategy, 4, candidates=OPEN, return_utilities=True)
        np.testing.assert_array_equal(index, expected)
        np.testing.assert_allclose(utilities[np.arange(4), index], values)


def test_candidates_in_their_three_forms():
    sampling = HistogramGPSampling(random_state=0)
    among = OPEN[:20]
    index = sampling.query(X, PARTLY, candidates=among, batch_size=3)
    assert set(index) <= set(among)
    rows, utilities = sampling.query(X, PARTLY, candidates=X[among], batch_size=3, return_utilities=True)
    np.testing.assert_array_equal(among[rows], index)
    assert utilities.shape == (3, 20)


def test_a_cycle_from_no_labels_to_all():
    y = np.full(80, MISSING_LABEL)
    sampling = HistogramGPSampling(random_state=0)
    for _ in range(8):
        index, utilities = sampling.query(X, y, batch_size=10, return_utilities=True)
        assert utilities.shape == (10, 80)
        assert is_unlabeled(y[index]).all()
        y[index] = Y[index]
    assert not np.isnan(y).any()


def test_texts_as_labels_and_a_label_that_is_missing():
    y = np.where(np.arange(80) < 10, np.where(Y > 0, "big", "small"), "nobody knows")
    index = HistogramGPSampling(missing_label="nobody knows", strategy="mean").query(X, y, batch_size=2)
    assert index.min() >= 10


def test_our_classifier_serves_their_strategies():
    clf = SklearnClassifier(HistogramGPClassifier(), classes=[0, 1]).fit(X, PARTLY)
    index = UncertaintySampling(random_state=0).query(X, PARTLY, clf, batch_size=3)
    assert set(index) <= set(OPEN)


def test_an_unknown_strategy():
    with pytest.raises(ValueError, match="Unknown strategy 'best'"):
        HistogramGPSampling(strategy="best").query(X, PARTLY)
