"""Strategies against dense NumPy formulas."""

from functools import partial

import numpy as np
import pytest
from oracles import alike, histograms, kernel_matrix
from scipy import integrate, sparse, stats
from sklearn.linear_model import LogisticRegression

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp._core import conditioning
from histogp.active import STRATEGIES, pool, query, strategies
from histogp.gp import VARIANCE_METHODS
from histogp.kernels import HistogramIntersection, Power

pytestmark = pytest.mark.portable

N, D = 60, 6
KERNEL = HistogramIntersection(Power(0.7))
X = histograms(N, D)
POOL = histograms(90, D, seed=3)
POOL[:30] *= np.linspace(0.2, 2, 30)[:, None]
CODES = np.random.default_rng(1).integers(3, size=N)
NOISE = 0.2
MODELS = {
    "two classes": HistogramGPClassifier(KERNEL, noise=NOISE).fit(X, CODES > 0),
    "three classes": HistogramGPClassifier(KERNEL, noise=NOISE).fit(X, CODES),
    "iterated": HistogramGPClassifier(KERNEL, noise=NOISE, solver="cg", tol=1e-9).fit(X, CODES),
}


def dense(model):
    """Means (n, M), latent variances (n,) and covariances (n, n) of the pool."""
    targets = np.where((CODES > 0)[:, None], 1.0, -1.0)
    if len(model.classes_) == 3:
        targets = np.where(CODES[:, None] == np.arange(3), 1.0, -1.0)
    inverse = np.linalg.inv(kernel_matrix(X, X, KERNEL) + NOISE * np.eye(N))
    cross = kernel_matrix(POOL, X, KERNEL)
    covariance = kernel_matrix(POOL, POOL, KERNEL) - cross @ inverse @ cross.T
    return cross @ inverse @ targets, covariance.diagonal(), covariance


def gap(means):
    return np.abs(means[:, 0]) if means.shape[1] == 1 else np.diff(np.sort(means, axis=1)[:, -2:])[:, 0]


FORMULAS = {
    "mean": lambda m, v: -gap(m),
    "variance": lambda m, v: v,
    "uncertainty": lambda m, v: -gap(m) / np.sqrt(NOISE + v),
    "uncertainty+": lambda m, v: -(gap(m) + np.sqrt(NOISE + v)),
}


@pytest.mark.parametrize("strategy", FORMULAS)
@pytest.mark.parametrize("name", MODELS)
def test_utilities_are_those_of_the_formulas(strategy, name):
    means, variances, _ = dense(MODELS[name])
    expected = FORMULAS[strategy](means, variances)
    for data in (POOL, sparse.csr_array(POOL)):
        index, utilities = query(MODELS[name], data, strategy, 90, return_utilities=True)
        np.testing.assert_allclose(utilities, np.sort(expected)[::-1], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(expected[index], utilities, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("strategy", ["batch-variance", "batch-uncertainty"])
@pytest.mark.parametrize("at_once", [1, 7, 512])
def test_a_batch_counts_as_observed_while_it_is_chosen(name, strategy, at_once, monkeypatch):
    monkeypatch.setattr(strategies, "UPDATED_TOGETHER", at_once)
    means, variances, covariance = dense(MODELS[name])
    expected, utilities = [], []
    for _ in range(8):
        quality = variances if strategy == "batch-variance" else -gap(means) / np.sqrt(NOISE + variances)
        best = max(set(range(90)) - set(expected), key=lambda k: quality[k])
        expected.append(best)
        utilities.append(quality[best])
        column = covariance[:, best]
        covariance = covariance - np.outer(column, column) / (column[best] + NOISE)
        variances = covariance.diagonal()
    index, found = query(MODELS[name], POOL, strategy, 8, return_utilities=True)
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(found, utilities, rtol=1e-5)


def test_a_batch_does_not_hold_the_same_row_twice():
    twins = np.concatenate([POOL, POOL])
    index = query(MODELS["two classes"], twins, "batch-variance", 5)
    assert len(set(index % 90)) == 5
    assert len(set(query(MODELS["two classes"], twins, "variance", 4) % 90)) == 2


def test_only_rows_in_question_are_conditioned_on_the_batch(monkeypatch):
    """Qualities can only fall, so most rows are out of the question with what was known of them before."""
    monkeypatch.setattr(strategies, "UPDATED_TOGETHER", 4)
    seen = []
    explained = conditioning.Observed.explained
    monkeypatch.setattr(
        conditioning.Observed,
        "explained",
        lambda self, rows, known: seen.append(rows.n_rows) or explained(self, rows, known),
    )
    rng = np.random.default_rng(0)
    spread = rng.dirichlet(np.ones(D), 400) * np.exp(rng.normal(size=400))[:, None]
    query(MODELS["two classes"], spread, "batch-variance", 5)
    assert sum(seen) < 400


@pytest.mark.parametrize("name", MODELS)
def test_expected_change_is_what_learning_would_change(name, monkeypatch):
    """Every label is learned in turn, and the mean absolute change weighed with its probability."""
    monkeypatch.setattr("histogp.active.strategies.REFERENCE_SAMPLES", 90)
    model = MODELS[name]
    means, variances, _ = dense(model)
    index, utilities = query(model, POOL, "expected-change", 90, return_utilities=True)
    index, utilities = index[::20], utilities[::20]
    probabilities = reference_probabilities(means[index], np.sqrt(variances[index] + NOISE))
    before = np.reshape(model.decision_function(POOL), (90, -1))
    labels = model.classes_
    for k, utility, weights in zip(index, utilities, probabilities, strict=True):
        total = 0.0
        for code, label in enumerate(labels):
            twin = HistogramGPClassifier(KERNEL, noise=NOISE).fit(X, CODES > 0 if len(labels) == 2 else CODES)
            twin.partial_fit(POOL[k : k + 1], [label])
            after = np.reshape(twin.decision_function(POOL), (90, -1))
            total += weights[code] * np.abs(after - before).mean()
        np.testing.assert_allclose(utility, total, rtol=1e-4)


def reference_probabilities(means, deviations):
    if means.shape[1] == 1:
        positive = stats.norm.cdf(means[:, 0] / deviations)
        return np.stack([1 - positive, positive], axis=1)
    out = np.empty(means.shape)
    for row, (m, s) in enumerate(zip(means, deviations, strict=True)):
        for k in range(len(m)):
            others = np.delete(m, k)
            out[row, k] = integrate.quad(
                lambda t, k=k, others=others, m=m, s=s: (
                    stats.norm.pdf(t, m[k], s) * stats.norm.cdf(t, others, s).prod()
                ),
                m.min() - 9 * s,
                m.max() + 9 * s,
            )[0]
    return out


def test_probabilities_of_many_classes_are_integrals():
    means = np.random.default_rng(0).normal(size=(6, 5)) * [[0.1], [1], [3], [10], [0], [1]]
    deviations = np.array([1, 0.5, 1, 0.7, 2, 0.1])
    found = strategies.probabilities(means, deviations)
    np.testing.assert_allclose(found, reference_probabilities(means, deviations), atol=2e-4)


def test_covariances_from_tables_are_close_to_exact_ones(monkeypatch):
    exact = query(MODELS["two classes"], POOL, "expected-change", 90, random_state=0, return_utilities=True)
    monkeypatch.setattr(conditioning, "MOST_EXACT_SAMPLES", 10)
    tables = query(MODELS["two classes"], POOL, "expected-change", 90, random_state=0, return_utilities=True)
    by_row = [utilities[np.argsort(index)] for index, utilities in (exact, tables)]
    np.testing.assert_allclose(by_row[1], by_row[0], rtol=0.05)


@pytest.mark.parametrize("variance", VARIANCE_METHODS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_any_variance_feeds_any_strategy(strategy, variance):
    model = MODELS["three classes"]
    index = query(model, POOL, strategy, 3, variance=variance, random_state=0)
    assert len(set(index)) == 3
    if strategy == "variance":
        expected = model.predict_variance(POOL, variance)
        assert index[0] == expected.argmax()


def test_blocks_do_not_matter(monkeypatch):
    ask = partial(query, MODELS["three classes"], POOL, batch_size=5, random_state=0, return_utilities=True)
    expected = {name: ask(name) for name in STRATEGIES}
    monkeypatch.setattr(pool, "BLOCK_SAMPLES", 7)
    for name, (index, utilities) in expected.items():
        found, theirs = ask(name)
        # Rows, not their numbers: some occur several times in the pool, and rounding decides between them.
        np.testing.assert_array_equal(POOL[found], POOL[index])
        alike(theirs, utilities)


def test_candidates_as_numbers_and_as_a_mask():
    allowed = np.arange(10, 50, 3)
    mask = np.isin(np.arange(90), allowed)
    for name in STRATEGIES:
        index = query(MODELS["two classes"], POOL, name, 4, candidates=allowed, random_state=0)
        assert set(index) <= set(allowed)
        np.testing.assert_array_equal(
            query(MODELS["two classes"], POOL, name, 4, candidates=mask, random_state=0), index
        )
    assert len(query(MODELS["two classes"], POOL, "mean", 100)) == 90
    assert len(query(MODELS["two classes"], POOL, "batch-variance", 100, candidates=[4, 5])) == 2


@pytest.mark.parametrize("make", [HistogramGPRegressor, HistogramGPOneClass])
def test_models_without_classes_have_some_strategies(make):
    model = make(noise=NOISE).fit(X, X[:, 0])
    for name, strategy in STRATEGIES.items():
        if strategy.needs_classes:
            with pytest.raises(ValueError, match="needs a classifier"):
                query(model, POOL, name)
        else:
            assert len(query(model, POOL, name, 3)) == 3


def test_data_frames_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = HistogramGPClassifier(KERNEL, noise=NOISE).fit(frame, CODES)
    rows = pd.DataFrame(POOL, columns=list("abcdef"))
    np.testing.assert_array_equal(query(model, rows, batch_size=3), query(MODELS["three classes"], POOL, batch_size=3))


BAD = {
    "an unknown strategy": (dict(strategy="best"), "Unknown strategy 'best'; known are 'random'"),
    "an unknown variance": (dict(variance="exact"), "Unknown variance 'exact'; known are 'auto'"),
    "no batch": (dict(batch_size=0), "batch_size must be"),
    "half a row": (dict(batch_size=1.5), "batch_size must be"),
    "no candidates": (dict(candidates=[]), "no candidates"),
    "rows beyond the pool": (dict(candidates=[3, 90]), "positions of samples in the pool, from 0 to 89"),
    "a row twice": (dict(candidates=[3, 3]), "twice"),
    "several strategies": (dict(strategy=["mean"]), "Unknown strategy"),
    "texts as rows": (dict(candidates=["a"]), "positions of samples"),
    "a wrong width": (dict(X_pool=POOL[:, :2]), "2 features"),
    "negative values": (dict(X_pool=-POOL), "Negative values"),
    "an estimator that knows nothing": (dict(estimator=HistogramGPClassifier()), "not fitted"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_questions_are_answered_by_a_sentence(what):
    given, message = BAD[what]
    with pytest.raises(ValueError, match=message):
        query(**{"estimator": MODELS["two classes"], "X_pool": POOL, **given})


def test_a_model_that_only_predicts(tmp_path):
    model = HistogramGPClassifier(KERNEL, noise=NOISE, prediction="quantized").fit(X, CODES)
    model.predict_variance(POOL, "sampled")
    model.save(tmp_path / "m", include_training=False)
    loaded = histogp.load(tmp_path / "m")
    for strategy in ("random", "mean", "variance", "uncertainty", "uncertainty+"):
        assert len(query(loaded, POOL, strategy, 2)) == 2
    with pytest.raises(ValueError, match="without its training samples"):
        query(loaded, POOL, "batch-variance", 2)


def test_means_of_a_large_pool_are_those_of_quantized_prediction(monkeypatch):
    model = HistogramGPClassifier(KERNEL, noise=NOISE).fit(np.concatenate([X] * 5), np.concatenate([CODES] * 5))
    _, exact = query(model, POOL, "mean", 90, return_utilities=True)
    monkeypatch.setattr(pool, "MANY_CANDIDATES", 10)
    index, utilities = query(model, POOL, "mean", 90, return_utilities=True)
    quantized = model.set_params(prediction="quantized").decision_function(POOL[index])
    np.testing.assert_allclose(utilities, -gap(quantized))
    np.testing.assert_allclose(utilities, exact, atol=0.05)


@pytest.mark.parametrize("strategy", ["batch-variance", "batch-uncertainty"])
@pytest.mark.parametrize("rows", [np.zeros((700, D)), np.repeat(np.eye(D), 120, axis=0)], ids=["empty", "equal"])
def test_rows_that_are_all_as_good_are_chosen_from(strategy, rows):
    assert len(set(query(MODELS["two classes"], rows, strategy, 3))) == 3


def test_other_estimators_are_refused():
    with pytest.raises(ValueError, match="A LogisticRegression cannot be asked"):
        query(LogisticRegression().fit(X, CODES), POOL)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_default_kernel_answers_every_question_and_twice_alike(strategy, monkeypatch):
    signed = X - X.mean(axis=0)
    model = HistogramGPClassifier().fit(signed, CODES)
    chosen = query(model, signed, strategy, 3)
    np.testing.assert_array_equal(chosen, query(model, signed, strategy, 3))
    # As if there were so many candidates that tables would be made, and precise variances took long.
    for limit in ("MANY_CANDIDATES", "FEW_TRAINING_SAMPLES", "PRECISE_WORK"):
        monkeypatch.setattr(f"histogp.active.pool.{limit}", 0)
    np.testing.assert_array_equal(chosen, query(model, signed, strategy, 3))
