"""``fit(..., groups=...)``: near-duplicates are left out together, wherever samples are left out."""

import numpy as np
import pandas as pd
import pytest
from oracles import alike
from sklearn.datasets import load_digits, make_regression
from sklearn.metrics import log_loss

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor, Optimizer
from histogp._core.probability import Link
from histogp._core.search import leave_one_out


def near_duplicates(n=120, copies=4, seed=0):
    """Digits with noise of their own, each several times, almost the same; their groups; and test digits."""
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    X = np.maximum(X + rng.normal(0, 4, X.shape), 0)
    y = np.where(rng.random(len(y)) < 0.15, rng.integers(10, size=len(y)), y)
    group_of = np.repeat(np.arange(n), copies)
    several = X[group_of] + rng.uniform(0, 1e-3, (n * copies, X.shape[1]))
    return several, y[group_of], group_of, X[n : n + 600], y[n : n + 600]


@pytest.mark.parametrize("seed", range(3))
def test_near_duplicates_do_no_harm_to_probabilities(seed):
    X, y, groups, X_test, y_test = near_duplicates(seed=seed)
    whole, single = HistogramGPClassifier().fit(X, y, groups=groups), HistogramGPClassifier().fit(X, y)
    once = HistogramGPClassifier().fit(X[::4], y[::4])
    losses = [log_loss(y_test, model.predict_proba(X_test)) for model in (whole, once, single)]
    assert losses[0] < 1.05 * losses[1]
    assert losses[0] < losses[2] - 0.05  # who sees a copy believes too much


def test_groups_may_be_anything_that_tells_them_apart():
    X, y, groups, _, _ = near_duplicates(60, 3)
    expected = HistogramGPClassifier().fit(X, y, groups=groups)
    for given in (groups.astype(float) - 7, groups.astype(str), [f"picture {k}" for k in groups], 100 - groups):
        found = HistogramGPClassifier().fit(X, y, groups=given)
        assert found.noise_ == expected.noise_
    order = np.random.default_rng(0).permutation(len(y))
    assert HistogramGPClassifier().fit(X[order], y[order], groups=groups[order]).noise_ == expected.noise_


def test_groups_of_one_are_no_groups():
    X, y, _, X_test, _ = near_duplicates(100, 1)
    expected = HistogramGPClassifier().fit(X, y)
    found = HistogramGPClassifier().fit(X, y, groups=np.arange(100))
    np.testing.assert_allclose(found.noise_, expected.noise_, rtol=1e-3)
    np.testing.assert_allclose(found.predict_proba(X_test), expected.predict_proba(X_test), atol=1e-3)


def test_more_samples_than_a_search_sees(monkeypatch):
    """The noise is then tried on whole groups of all samples."""
    X, y, groups, _, _ = near_duplicates(60, 4)
    seen = []
    of = leave_one_out.left_out_slope

    def spied(posterior, index, *arguments, **options):
        seen.append(index)
        return of(posterior, index, *arguments, **options)

    monkeypatch.setattr(leave_one_out, "FEWEST_SAMPLES", 100)
    monkeypatch.setattr(leave_one_out, "MOST_SAMPLES", 100)
    monkeypatch.setattr(leave_one_out, "LEFT_OUT_ROWS", 50)
    monkeypatch.setattr(leave_one_out, "left_out_slope", spied)
    model = HistogramGPClassifier().fit(X, y, groups=groups)
    assert seen
    assert len(seen[0]) == 48
    assert np.all(np.bincount(groups[seen[0]])[np.unique(groups[seen[0]])] == 4)
    monkeypatch.setattr(leave_one_out, "fit_link_to", lambda scores, wanted: Link(2.0, 0.7))
    posterior, options = model._posterior, model._solver_options()
    value, slope = of(posterior, seen[0], options, is_classification=True)
    step = 1e-4
    less, more = (
        of(
            model._refitted(model.kernel_, model.noise_ * np.exp(s))._posterior,
            seen[0],
            options,
            is_classification=True,
        )
        for s in (-step, step)
    )
    assert less[0] != value
    np.testing.assert_allclose(slope, (more[0] - less[0]) / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("class_weight", [None, "balanced-ovr"])
def test_left_out_samples_are_those_of_models_without_their_group(solver, class_weight):
    X, y, groups, _, _ = near_duplicates(30, 3)
    X[4] = X[0]  # equal samples, of two groups: these are left out together
    model = HistogramGPClassifier("hik", noise=500.0, class_weight=class_weight, solver=solver, tol=1e-10)
    model.fit(X, y, groups=groups)
    found = model._posterior.leave_one_out(model._variance_options(tol=1e-8))
    np.testing.assert_array_equal(found.index, np.arange(len(X)))
    K = np.minimum(X[:, None], X[None]).sum(axis=2)
    diagonals = model._posterior.given.noise.diagonals()
    joined = np.where(groups == 1, 0, groups)
    for output, targets in enumerate(model._posterior.given.targets.T):
        A = K + np.diag(diagonals[:, output % diagonals.shape[1]])
        for group in np.unique(joined)[:5]:
            out, rest = np.flatnonzero(joined == group), np.flatnonzero(joined != group)
            solved = np.linalg.solve(A[np.ix_(rest, rest)], np.column_stack([targets[rest], K[rest][:, out]]))
            np.testing.assert_allclose(found.means[out, output], K[np.ix_(out, rest)] @ solved[:, 0], atol=1e-6)
            variances = (K[np.ix_(out, out)] - K[np.ix_(out, rest)] @ solved[:, 1:]).diagonal()
            latent = found.variances[out, output % found.variances.shape[1]]
            np.testing.assert_allclose(latent, variances, rtol=1e-5)


def test_regression_and_searches_that_are_asked_for():
    X, y = make_regression(80, 6, noise=40, random_state=0)
    groups = np.repeat(np.arange(80), 3)
    X, y = X[groups] + np.random.default_rng(0).uniform(0, 1e-4, (240, 6)), y[groups]
    X = X - X.min(axis=0)
    whole, single = (HistogramGPRegressor().fit(X, y, groups=given) for given in (groups, None))
    assert whole.noise_ > 2 * single.noise_
    searched = HistogramGPRegressor("hik", noise=0.1, optimize=Optimizer(criterion="loo"))
    assert searched.fit(X, y, groups=groups).noise_ > 1.5 * searched.fit(X, y).noise_


def test_the_threshold_of_one_class_leaves_groups_out():
    X, _, groups, X_test, _ = near_duplicates(150, 3)
    rejected = [np.mean(HistogramGPOneClass().fit(X, groups=given).predict(X_test) < 0) for given in (groups, None)]
    assert rejected[0] < 0.15
    assert rejected[1] > 2 * rejected[0]


def test_files_updates_and_what_is_forgotten(tmp_path):
    X, y, groups, X_test, _ = near_duplicates(60, 3)
    model = HistogramGPClassifier().fit(X, y, groups=groups)
    model.save(tmp_path / "model.histogp")
    loaded = histogp.load(tmp_path / "model.histogp")
    alike(loaded.predict_proba(X_test), model.predict_proba(X_test))
    loaded.forget(loaded.ids_[:30])
    expected = HistogramGPClassifier().fit(X[30:], y[30:], groups=groups[30:])
    assert loaded.noise_ == expected.noise_
    alike(loaded.predict_proba(X_test), expected.predict_proba(X_test))
    # One more sample is a group of its own.
    model = HistogramGPClassifier("hik", noise=100.0).fit(X[:-1], y[:-1], groups=groups[:-1])
    model.partial_fit(X[-1:], y[-1:])
    apart = groups.copy()
    apart[-1] = 1000
    expected = HistogramGPClassifier("hik", noise=100.0).fit(X, y, groups=apart)
    np.testing.assert_allclose(model.predict_proba(X_test), expected.predict_proba(X_test), atol=1e-6)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(20), "two groups or more"),
        (np.arange(19), "each of the 20 samples"),
        ([None, *range(19)], "no value for sample 0"),
        ([*range(19), np.nan], "no value for sample 19"),
        (np.zeros((20, 2)), "each of the 20 samples"),
        (pd.Series([*"abcdefghijklmnopqrs", None], dtype="string"), "no value for sample 19"),
    ],
)
def test_refusals(groups, message):
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        HistogramGPClassifier().fit(X[:20], y[:20], groups=groups)


def test_weight_zero_takes_no_part_in_groups():
    X, y, groups, X_test, _ = near_duplicates(40, 2)
    weights = np.ones(len(y))
    weights[:10] = 0
    found = HistogramGPClassifier().fit(X, y, weights, groups=groups)
    expected = HistogramGPClassifier().fit(X[10:], y[10:], groups=groups[10:])
    assert found.noise_ == expected.noise_
    alike(found.predict_proba(X_test), expected.predict_proba(X_test))


def test_one_group_that_is_left_is_no_group():
    X, y, groups, X_test, _ = near_duplicates(30, 4)
    two = groups // 15
    model = HistogramGPClassifier().fit(X, y, groups=two).forget(np.flatnonzero(two == 0))
    expected = HistogramGPClassifier().fit(X[two == 1], y[two == 1])
    assert model.noise_ == expected.noise_
    alike(model.predict_proba(X_test), expected.predict_proba(X_test))


def test_groups_are_equal_as_python_says():
    X, y, groups, _, _ = near_duplicates(40, 3)
    mixed = [float(k) if place % 2 else int(k) for place, k in enumerate(groups)]
    expected = HistogramGPClassifier().fit(X, y, groups=groups)
    assert HistogramGPClassifier().fit(X, y, groups=np.array(mixed, object)).noise_ == expected.noise_
