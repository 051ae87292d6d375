"""Variances and probabilities as users see them."""

import pickle
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from oracles import Answer, alike, histograms, kernel_matrix
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import histogp
from histogp import HistogramGPClassifier, HistogramGPRegressor
from histogp._core.probability import fit_temperature
from histogp.gp import VARIANCE_METHODS
from histogp.kernels import HistogramIntersection, Power

pytestmark = pytest.mark.portable

X = histograms(300, 6)
CODES = np.argmax(X[:, 1:4], axis=1)
TEST = np.vstack([histograms(20, 6, seed=3), 2 * X[:3], np.eye(6)])
KERNEL = HistogramIntersection(Power(0.5), np.linspace(0.5, 2, 6))
METHODS = VARIANCE_METHODS


def posterior(noise, y=None, weights=1.0):
    """The dense mean (n, ...) and latent covariance (n, n) at TEST."""
    K = kernel_matrix(X, X, KERNEL) + np.diag(noise / (weights * np.ones(len(X))))
    k = kernel_matrix(X, TEST, KERNEL)
    solved = np.linalg.solve(K, k)
    mean = None if y is None else solved.T @ y
    return mean, kernel_matrix(TEST, TEST, KERNEL) - k.T @ solved


@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_variance_of_a_classifier_is_that_of_the_formula(solver):
    clf = HistogramGPClassifier(KERNEL, noise=0.2, solver=solver, tol=1e-8).fit(X, CODES)
    latent = posterior(0.2)[1].diagonal()
    for data in (TEST, sparse.csr_array(TEST), TEST.tolist(), np.asfortranarray(TEST)):
        np.testing.assert_allclose(clf.predict_variance(data, tol=1e-9), latent + 0.2, rtol=1e-7)
    np.testing.assert_allclose(clf.predict_variance(TEST, include_noise=False, tol=1e-9), latent, rtol=1e-6)
    single = clf.predict_variance(TEST.astype(np.float32))
    np.testing.assert_allclose(single, latent + 0.2, rtol=1e-5)


@pytest.mark.parametrize("normalize_y", [False, True])
def test_a_regressor_returns_deviations_and_covariances_in_units_of_its_targets(normalize_y):
    y = 30 + 7 * (X[:, 1] - X[:, 2])
    reg = HistogramGPRegressor(KERNEL, noise=0.05, normalize_y=normalize_y).fit(X, y)
    unit = y.std() if normalize_y else 1.0
    _, covariance = posterior(0.05)
    expected = unit**2 * (covariance + 0.05 * np.eye(len(TEST)))
    mean, deviation = reg.predict(TEST, return_std=True)
    np.testing.assert_array_equal(mean, reg.predict(TEST))
    np.testing.assert_allclose(deviation, np.sqrt(expected.diagonal()), rtol=1e-7)
    np.testing.assert_allclose(reg.predict(TEST, return_cov=True)[1], expected, atol=1e-9 * unit**2)
    with pytest.raises(ValueError, match="not both"):
        reg.predict(TEST, return_std=True, return_cov=True)


def test_several_outputs_have_their_own_units():
    y = np.stack([X[:, 1], 100 * X[:, 2]], axis=1)
    reg = HistogramGPRegressor(KERNEL, noise=0.05, normalize_y=True).fit(X, y)
    unit = y.std(axis=0) ** 2
    expected = posterior(0.05)[1] + 0.05 * np.eye(len(TEST))
    np.testing.assert_allclose(reg.predict_variance(TEST), expected.diagonal()[:, None] * unit)
    assert reg.predict(TEST, return_std=True)[1].shape == (len(TEST), 2)
    covariance = reg.predict(TEST, return_cov=True)[1]
    np.testing.assert_allclose(covariance, expected[:, :, None] * unit, atol=1e-9)
    assert reg.sample_y(TEST, n_samples=5).shape == (len(TEST), 2, 5)
    np.testing.assert_allclose(reg.predict_variance(TEST, per_class=True), reg.predict_variance(TEST))
    with pytest.raises(ValueError, match="one number of eigenvectors"):
        reg.predict_variance(TEST, "fine", n_eigenvectors=[1, 2])


@pytest.mark.parametrize("include_noise", [True, False])
def test_samples_have_the_covariance_of_the_dense_posterior(include_noise):
    y = X[:, 1] - X[:, 2]
    reg = HistogramGPRegressor(KERNEL, noise=0.05, normalize_y=True).fit(X, y)
    mean, covariance = posterior(0.05, (y - y.mean()) / y.std())
    covariance = y.var() * (covariance + include_noise * 0.05 * np.eye(len(TEST)))
    drawn = reg.sample_y(TEST, 10_000, random_state=1, include_noise=include_noise)
    size = np.outer(covariance.diagonal(), covariance.diagonal())
    error = np.sqrt((size + covariance**2) / 10_000)
    assert np.all(np.abs(np.cov(drawn) - covariance) < 5 * error)
    deviation = np.sqrt(covariance.diagonal() / 10_000)
    assert np.all(np.abs(drawn.mean(axis=1) - (y.mean() + y.std() * mean)) < 5 * deviation)
    np.testing.assert_array_equal(reg.sample_y(TEST, 3), reg.sample_y(TEST, 3))


def test_each_class_has_its_variance_where_noise_depends_on_the_class():
    clf = HistogramGPClassifier(KERNEL, noise=0.2, class_weight="balanced-ovr").fit(X, CODES)
    one = clf.predict_variance(TEST, include_noise=False, per_class=True)
    K, k = kernel_matrix(X, X, KERNEL), kernel_matrix(X, TEST, KERNEL)
    prior = kernel_matrix(TEST, TEST, KERNEL).diagonal()
    for column in range(3):
        share = np.mean(column == CODES)
        noise = 0.4 * np.where(column == CODES, share, 1 - share)
        expected = prior - (k * np.linalg.solve(K + np.diag(noise), k)).sum(axis=0)
        np.testing.assert_allclose(one[:, column], expected, rtol=1e-7)
    assert np.all(clf.predict_variance(TEST, include_noise=False)[:, None] >= one)
    with pytest.raises(ValueError, match='per_class=True needs method="precise"'):
        clf.predict_variance(TEST, "fine", per_class=True)


def test_weights_of_examples_count():
    weights = np.linspace(0.1, 3, len(X))
    clf = HistogramGPClassifier(KERNEL, noise=0.2).fit(X, CODES, sample_weight=weights)
    expected = posterior(0.2, weights=weights)[1].diagonal() + 0.2
    np.testing.assert_allclose(clf.predict_variance(TEST), expected, rtol=1e-7)


def test_several_numbers_of_eigenvectors_give_a_column_each():
    clf = HistogramGPClassifier(KERNEL, noise=0.1).fit(X, CODES)
    found = clf.predict_variance(TEST, "fine", n_eigenvectors=[8, 0])
    assert found.shape == (len(TEST), 2)
    np.testing.assert_allclose(clf.predict_variance(TEST, "fine", n_eigenvectors=8), found[:, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "best"}, "Unknown method 'best'; known are 'auto', 'precise'"),
        ({"n_eigenvectors": -1}, "n_eigenvectors"),
        ({"n_eigenvectors": 1.5}, "n_eigenvectors"),
        ({"n_eigenvectors": []}, "n_eigenvectors"),
        ({"n_samples": 0}, "n_samples"),
        ({"tol": 0}, "tol"),
    ],
)
def test_bad_options_get_a_sentence(options, message):
    clf = HistogramGPClassifier(KERNEL, noise=0.1).fit(X, CODES)
    with pytest.raises(ValueError, match=message):
        clf.predict_variance(TEST, **options)


def test_bad_rows_get_a_sentence():
    clf = HistogramGPClassifier(KERNEL, noise=0.1).fit(X, CODES)
    for method in ("predict_variance", "predict_proba", "novelty"):
        with pytest.raises(ValueError, match="Negative values"):
            getattr(clf, method)(-TEST)
        with pytest.raises(ValueError, match="features"):
            getattr(clf, method)(TEST[:, :3])
    with pytest.raises(ValueError, match="n_samples"):
        HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(X, CODES).sample_y(TEST, 0)


def test_nothing_of_the_estimator_changes_when_it_predicts():
    clf = HistogramGPClassifier(KERNEL, noise=0.1, random_state=0).fit(X, CODES)
    before = dict(vars(clf))
    for method in METHODS:
        clf.predict_variance(TEST, method, n_samples=16)
    clf.predict_proba(TEST)
    clf.novelty(TEST)
    assert 0 < clf.variance_error_ < 0.3
    assert vars(clf).keys() == before.keys()
    assert all(vars(clf)[name] is before[name] for name in before)


def test_a_new_fit_forgets_the_old_variance():
    clf = HistogramGPClassifier(KERNEL, noise=0.1, random_state=0).fit(X[:150], CODES[:150])
    old = {method: clf.predict_variance(TEST, method) for method in METHODS}
    clf.fit(X, CODES)
    fresh = HistogramGPClassifier(KERNEL, noise=0.1, random_state=0).fit(X, CODES)
    for method in METHODS:
        np.testing.assert_array_equal(clf.predict_variance(TEST, method), fresh.predict_variance(TEST, method))
        assert np.any(clf.predict_variance(TEST, method) != old[method])


def test_threads_that_ask_at_once_get_the_same():
    clf = HistogramGPClassifier(KERNEL, noise=0.1, random_state=0).fit(X, CODES)
    found = []
    workers = [
        threading.Thread(
            target=lambda: found.append((clf.predict_variance(TEST, "calibrated"), clf.predict_proba(TEST)))
        )
        for _ in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 6
    for variance, probabilities in found:
        np.testing.assert_array_equal(variance, found[0][0])
        np.testing.assert_array_equal(probabilities, found[0][1])


@pytest.mark.parametrize("probability", ["link", "temperature"])
@pytest.mark.parametrize("include_training", [True, False])
def test_what_was_prepared_is_in_the_file(include_training, probability, tmp_path):
    clf = HistogramGPClassifier(KERNEL, noise=0.1, probability=probability, prediction="quantized").fit(X, CODES)
    tables = ("coarse-quantized", "sampled", "calibrated")
    expected = {method: clf.predict_variance(TEST, method) for method in (*tables, "fine")}
    probabilities = clf.predict_proba(TEST)
    clf.save(tmp_path / "model", include_training)
    loaded = histogp.load(tmp_path / "model")
    kept = loaded._posterior.tables()
    assert set(kept) == {*tables, probability, *(["spectrum"] if include_training else [])}
    for method in (*tables, *(["fine"] if include_training else [])):
        alike(loaded.predict_variance(TEST, method), expected[method])
    alike(loaded.predict_proba(TEST), probabilities)
    assert loaded.variance_error_ == clf.variance_error_
    loaded.save(tmp_path / "again", include_training)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    twin = pickle.loads(pickle.dumps(clf))
    assert set(twin._posterior.tables()) == {*tables, probability, "spectrum"}
    if not include_training:
        alike(loaded.novelty(TEST, "calibrated"), clf.novelty(TEST, "calibrated"))
        for method in ("precise", "fine", "coarse"):
            with pytest.raises(ValueError, match=f"without its training samples, which '{method}' needs"):
                loaded.predict_variance(TEST, method)
        with pytest.raises(ValueError, match="had not prepared 'sampled'"):
            loaded.predict_variance(TEST, "sampled", n_samples=100)
        with pytest.raises(ValueError, match="without its training samples"):
            loaded.set_params(probability="dirichlet").predict_proba(TEST)


def test_a_loaded_model_prepares_the_same_later(tmp_path):
    clf = HistogramGPClassifier(KERNEL, noise=0.1).fit(X, CODES)  # a random seed, which goes into the file
    clf.save(tmp_path / "model")
    loaded = histogp.load(tmp_path / "model")
    for method in METHODS:
        # Tables are in single precision.
        alike(loaded.predict_variance(TEST, method), clf.predict_variance(TEST, method), rtol=1e-5)
    alike(loaded.predict_proba(TEST), clf.predict_proba(TEST), rtol=1e-5)


@pytest.mark.parametrize("class_weight", [None, "balanced-ovr"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_have_the_order_of_scores_and_sum_to_one(n_classes, class_weight):
    y = np.array(["a", "b", "c"])[np.minimum(CODES, n_classes - 1)]
    clf = HistogramGPClassifier(KERNEL, noise=0.1, class_weight=class_weight).fit(X, y)
    found, scores = clf.predict_proba(TEST), clf.decision_function(TEST)
    assert found.shape == (len(TEST), n_classes)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.classes_[found.argmax(axis=1)], clf.predict(TEST))
    by_score = found[:, 1] if n_classes == 2 else found
    np.testing.assert_array_equal(np.argsort(by_score, axis=-1), np.argsort(scores, axis=-1))
    np.testing.assert_allclose(clf.predict_log_proba(TEST), np.log(found))


@pytest.mark.parametrize("class_weight", [None, "balanced-ovr"])
def test_the_temperature_is_that_of_leaving_one_out(class_weight):
    """Of leaving one out by hand, that is by a fit without each example."""
    few, codes = X[::5], CODES[::5]
    clf = HistogramGPClassifier(KERNEL, noise=0.2, class_weight=class_weight).fit(few, codes)
    noise = np.broadcast_to(clf._posterior.noise.diagonals(), (len(few), 3))
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    K = kernel_matrix(few, few, KERNEL)
    means = np.empty((len(few), 3))
    for i in range(len(few)):
        rest = np.arange(len(few)) != i
        for c in range(3):
            system = K[np.ix_(rest, rest)] + np.diag(noise[rest, c])
            means[i, c] = K[i, rest] @ np.linalg.solve(system, targets[rest, c])
    expected = fit_temperature(means, codes, np.ones(len(few)))
    assert np.isclose(clf._posterior.temperature(clf._variance_options())[0], expected, rtol=1e-6)

    def cost(factor):
        logits = factor * means - np.log(np.exp(factor * means).sum(axis=1, keepdims=True))
        wanted = np.where(targets > 0, 1 - 1 / (len(few) + 2), 0.5 / (len(few) + 2))
        return -(wanted * logits).sum()

    assert cost(expected) <= min(cost(0.99 * expected), cost(1.01 * expected))


def test_scores_without_an_error_have_finite_probabilities():
    alike_rows = np.eye(6).repeat(5, axis=0) * np.linspace(0.99, 1.01, 30)[:, None]
    clf = HistogramGPClassifier("hik", noise=1e-3).fit(alike_rows, np.arange(6).repeat(5) // 3)
    found = clf.predict_proba(np.eye(6))
    assert np.all(np.isfinite(found))
    assert 0 < found.min() < 0.1
    two = HistogramGPClassifier("hik", noise=0.1).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    assert np.all(np.isfinite(two.predict_proba([[0.3, 0.7]])))


@pytest.mark.parametrize("probability", ["temperature", "dirichlet"])
def test_probabilities_of_digits_are_honest(probability):
    digits = train_test_split(*load_digits(return_X_y=True), random_state=0)
    X_train, X_test, y_train, y_test = digits
    clf = HistogramGPClassifier("hik", noise=100.0, probability=probability, random_state=0).fit(X_train, y_train)
    found = clf.predict_proba(X_test)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert log_loss(y_test, found) < 0.3
    confidence, right = found.max(axis=1), found.argmax(axis=1) == y_test
    assert abs(confidence.mean() - right.mean()) < (0.03 if probability == "temperature" else 0.15)


def test_the_approximate_temperature_is_near_the_exact_one(monkeypatch):
    clf = HistogramGPClassifier("hik-poly", noise=0.1, random_state=0).fit(X, CODES)
    exact = clf._posterior.temperature(clf._variance_options())[0]
    factors_pay = Answer(False)
    monkeypatch.setattr("histogp._core.solvers.factors_pay", factors_pay)
    other = HistogramGPClassifier("hik-poly", noise=0.1, random_state=0).fit(X, CODES)
    approximate = other._posterior.temperature(other._variance_options())[0]
    assert np.isclose(approximate, exact, rtol=0.35)
    assert factors_pay.n_calls >= 1
    assert approximate != exact


def test_scikit_learns_calibration_tools_work():
    y = CODES == 1
    calibrated = CalibratedClassifierCV(HistogramGPClassifier(KERNEL, noise=0.1), cv=3).fit(X, y)
    assert calibrated.predict_proba(TEST).shape == (len(TEST), 2)
    display = CalibrationDisplay.from_estimator(HistogramGPClassifier(KERNEL, noise=0.1).fit(X, y), X, y, n_bins=3)
    assert len(display.prob_true) >= 2


def test_novelty_is_a_share_of_the_prior_variance():
    clf = HistogramGPClassifier(KERNEL, noise=0.2).fit(X, CODES)
    prior = kernel_matrix(TEST, TEST, KERNEL).diagonal()
    np.testing.assert_allclose(clf.novelty(TEST), posterior(0.2)[1].diagonal() / prior, rtol=1e-7)
    unseen = HistogramGPClassifier("hik", noise=0.1).fit(X * [1, 1, 1, 1, 0, 0], CODES)
    np.testing.assert_allclose(unseen.novelty([[0, 0, 0, 0, 1.0, 2.0], [0.0] * 6]), [1, 0])
    with pytest.raises(ValueError, match="Unknown method 'most'"):
        clf.novelty(TEST, "most")


def test_names_of_columns_and_precision_do_not_matter():
    names = [f"f{k}" for k in range(6)]
    clf = HistogramGPClassifier(KERNEL, noise=0.1, random_state=0).fit(pd.DataFrame(X, columns=names), CODES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in METHODS:
            clf.predict_variance(pd.DataFrame(TEST, columns=names), method, n_samples=8)
        assert clf.predict_proba(pd.DataFrame(TEST, columns=names)).dtype == np.float64


GAPS = {"below all values": (0.0, 0.3), "between values": (0.4, 0.7), "above most values": (0.15, 0.95)}


@pytest.mark.parametrize("gap", GAPS.values(), ids=list(GAPS))
def test_tables_know_what_lies_between_training_values(gap):
    """A function over a gap is a Brownian bridge, of which tables at both ends say nothing."""
    rng = np.random.default_rng(0)
    rows = rng.random((700, 4))
    inside = (rows > gap[0]) & (rows < gap[1])
    rows[inside] = np.where(gap[0] == 0, 0.0, rng.uniform(0, gap[0], inside.sum()))
    model = HistogramGPClassifier("hik", noise=0.1, random_state=0).fit(rows, rows[:, 0] > rows[:, 1])
    tests = np.full((3, 4), np.mean(gap))
    tests[1], tests[2, 1:] = 0.9 * gap[0] + 0.1 * gap[1], rows[0, 1:]
    K = np.minimum(rows[:, None], rows).sum(axis=2) + 0.1 * np.eye(len(rows))
    k = np.minimum(rows[:, None], tests).sum(axis=2)
    exact = tests.sum(axis=1) - np.sum(k * np.linalg.solve(K, k), axis=0)
    for method in ("sampled", "calibrated"):
        found = model.predict_variance(tests, method, include_noise=False)
        np.testing.assert_allclose(found, exact, rtol=0.2)
    prior = tests.sum(axis=1)
    np.testing.assert_allclose(model.novelty(tests, method="calibrated"), exact / prior, rtol=0.2)
