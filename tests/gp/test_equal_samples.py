"""Samples with equal features are one row inside; for users all is as dense formulas over all samples say."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from discovery import all_estimators
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import Answer, close, histograms
from scipy import sparse, stats
from scipy.special import log_softmax

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor, Optimizer
from histogp._core.data import Rows
from histogp._core.operators.contract import prior_covariance
from histogp._core.solvers.factors import DenseSystem
from histogp.active import ActiveLearner
from histogp.kernels import SHORT_NAMES, Constant, Gaussian, HistogramIntersection, Laplacian, Power, Sum

N, D, NOISE = 40, 4, 0.2
DISTINCT, TEST = histograms(14, D, density=0.7), histograms(7, D, seed=3)
RNG = np.random.default_rng(0)
ROW_OF = np.concatenate([RNG.permutation(14)[:11], RNG.integers(14, size=N - 11)])
X = DISTINCT[ROW_OF]
N_ROWS = len(np.unique(ROW_OF))
VALUES = RNG.normal(size=(N, 2))
CODES = RNG.integers(3, size=N)
WEIGHTS = {"no weights": None, "weights": RNG.uniform(0.3, 3, N)}
KERNELS = {
    **{name: name for name in SHORT_NAMES},
    "sum": "hik + laplacian + constant",
    "stacked": HistogramIntersection(columns=[0, 2]) + 2.0 * HistogramIntersection(Power(0.5)) + Constant(0.3),
    "parts": Sum([HistogramIntersection(), Gaussian(unit=0.7)], approximation="parts"),
    "landmarks": Laplacian(unit=0.7, approximation="nystroem", n_components=8),
    "waves": Gaussian(unit=0.7, approximation="fourier", n_components=10),
}
by_kernel = pytest.mark.parametrize("kernel", KERNELS)
by_weights = pytest.mark.parametrize("weights", WEIGHTS)


def n_rows(model):
    return model._posterior.operator.n_samples


class Dense:
    """The formulas over all samples, with noise (N,) for one output y (N,)."""

    def __init__(self, model, rows, noise, y):
        self.operator, self.rows = model._posterior.operator, rows
        self.noise, self.y = noise, y
        self.A = self.kernel(rows, rows) + np.diag(noise)
        self.alpha = np.linalg.solve(self.A, y)

    def kernel(self, left, right):
        return self.operator.cross(Rows.from_array(left), Rows.from_array(right))

    def mean(self, test=TEST):
        return self.kernel(test, self.rows) @ self.alpha

    def variance(self, test=TEST):
        k, rows = self.kernel(test, self.rows), Rows.from_array(test)
        prior = prior_covariance(self.operator, rows, rows).diagonal()
        return prior - np.einsum("ij,ji->i", k, np.linalg.solve(self.A, k.T))

    def log_density(self):
        return stats.multivariate_normal(np.zeros(len(self.y)), self.A).logpdf(self.y)

    def left_out(self):
        """Means and latent variances of samples that are left out one by one."""
        c = np.linalg.inv(self.A).diagonal()
        features = Rows.from_array(self.rows)
        remainder = (
            prior_covariance(self.operator, features, features).diagonal()
            - self.kernel(self.rows, self.rows).diagonal()
        )
        return self.y - self.alpha / c, 1 / c - self.noise + remainder


def noise_of(weights):
    return NOISE / (np.ones(N) if weights is None else weights)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@by_weights
@by_kernel
def test_a_regressor_is_that_of_all_samples(kernel, weights, container):
    weights = WEIGHTS[weights]
    model = HistogramGPRegressor(KERNELS[kernel], normalize_y=False, noise=NOISE, tol=1e-10).fit(
        container(X), VALUES, weights
    )
    assert n_rows(model) == N_ROWS < N == model.n_samples_ == len(model.ids_) == model.posterior_.n_samples
    outputs = [Dense(model, X, noise_of(weights), y) for y in VALUES.T]
    close(model.alpha_, np.stack([one.alpha for one in outputs], axis=1), rtol=1e-7)
    close(model.predict(container(TEST)), np.stack([one.mean() for one in outputs], axis=1), rtol=1e-7)
    close(model.posterior_.variance(container(TEST), "precise"), outputs[0].variance(), rtol=1e-7)
    found = model._posterior.leave_one_out(model._variance_options())
    np.testing.assert_array_equal(found.index, np.arange(N))
    for k, one in enumerate(outputs):
        means, variances = one.left_out()
        close(found.means[:, k], means, rtol=1e-7)
        close(found.variances[:, 0], variances, rtol=1e-7)
    rows, y, given_weights = model.posterior_.training_data()
    np.testing.assert_array_equal(rows.toarray(), X)
    np.testing.assert_array_equal(y, VALUES)
    close(given_weights, np.ones(N) if weights is None else weights)


@by_weights
@by_kernel
def test_likelihoods_are_those_of_all_samples(kernel, weights):
    weights = WEIGHTS[weights]
    model = HistogramGPRegressor(KERNELS[kernel], normalize_y=False, noise=NOISE, tol=1e-6, random_state=0).fit(
        X, VALUES, weights
    )
    for noise in (None, 0.7):
        scaled = noise_of(weights) * (noise or NOISE) / NOISE
        expected = sum(Dense(model, X, scaled, y).log_density() for y in VALUES.T)
        close(model.log_marginal_likelihood(noise=noise, method="exact"), expected, rtol=1e-8)
        close(model.log_marginal_likelihood(noise=noise), expected, rtol=1e-8)
        assert model.log_marginal_likelihood(noise=noise, method="bound") <= expected + 1e-6
        found, error = model.log_marginal_likelihood(noise=noise, method="quadrature", n_probes=64, return_error=True)
        assert abs(found - expected) < 5 * error + 1e-3


@pytest.mark.parametrize("class_weight", [None, "balanced", "balanced-ovr"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"solver": "cg"}, {"solver": "cg", "preconditioner_rank": 5}])
@by_weights
def test_a_classifier_is_that_of_all_samples(class_weight, n_classes, options, weights):
    weights, codes = WEIGHTS[weights], np.minimum(CODES, n_classes - 1)
    model = HistogramGPClassifier("hik-poly", noise=NOISE, class_weight=class_weight, tol=1e-10, **options)
    model.fit(X, codes, weights)
    assert n_rows(model) == N_ROWS
    per_sample = np.ones(N) if weights is None else weights
    share = np.bincount(codes, per_sample) / per_sample.sum()
    outputs = []
    for k in (1,) if n_classes == 2 else range(3):
        noise = NOISE / per_sample
        if class_weight == "balanced":
            noise = noise * n_classes * share[codes]
        if class_weight == "balanced-ovr":
            noise = noise * 2 * (share[codes] if n_classes == 2 else np.where(codes == k, share[k], 1 - share[k]))
        outputs.append(Dense(model, X, noise, np.where(codes == k, 1.0, -1.0)))
    close(model.alpha_.reshape(N, -1), np.stack([one.alpha for one in outputs], axis=1), rtol=1e-7)
    close(model.decision_function(TEST).reshape(7, -1), np.stack([one.mean() for one in outputs], axis=1), rtol=1e-7)
    each = np.stack([one.variance() for one in outputs], axis=1)
    close(model.predict_variance(TEST, include_noise=False, per_class=True), each, rtol=1e-6)
    largest = Dense(model, X, np.max([one.noise for one in outputs], axis=0), np.ones(N)).variance()
    close(model.predict_variance(TEST, include_noise=False), largest, rtol=1e-6)
    close(model.log_marginal_likelihood(method="exact"), sum(one.log_density() for one in outputs), rtol=1e-8)
    found = model._posterior.leave_one_out(model._variance_options())
    for k, one in enumerate(outputs):
        means, variances = one.left_out()
        close(found.means[:, k], means, rtol=1e-5)
        close(found.variances[:, min(k, found.variances.shape[1] - 1)], variances, rtol=1e-5)


@pytest.mark.parametrize("criterion", ["variance", "mean", "ratio"])
@pytest.mark.parametrize("contamination", ["auto", 0.25])
@by_weights
def test_a_one_class_model_is_that_of_all_samples(criterion, contamination, weights):
    copies = np.ones(N, int) if WEIGHTS[weights] is None else np.ceil(WEIGHTS[weights]).astype(int)
    model = HistogramGPOneClass("hik", noise=NOISE, criterion=criterion, contamination=contamination, tol=1e-10)
    model.fit(X, sample_weight=copies)
    one = Dense(model, X, NOISE / copies, np.ones(N))

    def score(mean, variance):
        return {"variance": -variance, "mean": mean, "ratio": mean / np.sqrt(variance + NOISE)}[criterion]

    close(model.score_samples(TEST), score(one.mean(), one.variance()), rtol=1e-7)
    # A weight counts like so many samples, which are left out together: most rows have several, so they are copies.
    index = np.repeat(np.arange(N), copies)
    _, row_of = np.unique(X[index], axis=0, return_inverse=True)
    assert np.mean(np.bincount(row_of) == 1) < 0.5
    scores = score(one.mean(X[index]), one.variance(X[index]))
    if contamination == "auto":
        for row in np.unique(row_of):
            rest = index[row_of != row]
            without = Dense(model, X[rest], np.full(len(rest), NOISE), np.ones(len(rest)))
            own = X[index[row_of == row]]
            scores[row_of == row] = score(without.mean(own), without.variance(own))
    part = 0.05 if contamination == "auto" else contamination
    close(model.offset_, np.quantile(scores, part), rtol=1e-6)


def same(model, other, rtol=1e-7):
    for name in ("predict", "decision_function", "predict_proba", "predict_variance", "score_samples"):
        if hasattr(model, name):
            found, expected = getattr(model, name)(TEST), getattr(other, name)(TEST)
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
    assert n_rows(model) == n_rows(other)


def told(make, index=slice(None)):
    """What an estimator is told about the samples besides their features."""
    return {HistogramGPClassifier: CODES[index], HistogramGPRegressor: VALUES[index, 0]}.get(make)


@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
@by_kernel
def test_weight_two_is_two_copies(make, kernel):
    counts = np.random.default_rng(1).integers(0, 4, N)
    copies = np.repeat(np.arange(N), counts)
    model = make(KERNELS[kernel], noise=NOISE, tol=1e-10, random_state=0)
    y = told(make)
    model.fit(X, y, sample_weight=counts.astype(float))
    same(model, make(**model.get_params(deep=False)).fit(X[copies], None if y is None else y[copies]), 1e-6)


SEARCHES = {
    "exact": "exact",
    "gradient": "gradient",
    "bound": "bound",
    "loo": "loo",
    "noise alone": Optimizer(criterion="loo", parameters=["noise"]),
}


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("make", [HistogramGPClassifier, HistogramGPRegressor])
@pytest.mark.parametrize("kernel", ["hik-poly", "laplacian", "chi2"])
def test_searches_find_the_same_for_weights_and_copies(make, search, kernel):
    counts = np.random.default_rng(1).integers(1, 4, N)
    copies = np.repeat(np.arange(N), counts)
    models = [make(kernel, noise=NOISE, optimize=SEARCHES[search], random_state=0) for _ in range(2)]
    y = told(make)
    models[0].fit(X, y, sample_weight=counts.astype(float))
    models[1].fit(X[copies], y[copies])
    np.testing.assert_allclose(models[0].noise_, models[1].noise_, rtol=1e-5)
    for name in models[0].optimization_path_:
        first, second = (model.optimization_path_[name] for model in models)
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-7, err_msg=name)
    same(*models, rtol=1e-4)
    if search == "exact":
        for model in models:
            close(model.log_marginal_likelihood_, model.log_marginal_likelihood(), rtol=1e-6)


def test_weights_count_like_copies_for_dirichlet_probabilities():
    counts = np.random.default_rng(1).integers(0, 4, N)
    copies = np.repeat(np.arange(N), counts)
    model = HistogramGPClassifier("hik", noise=NOISE, probability="dirichlet", random_state=0, tol=1e-8)
    found = model.fit(X, CODES, sample_weight=counts).predict_proba(TEST)
    close(model.fit(X[copies], CODES[copies]).predict_proba(TEST), found, rtol=1e-6)
    # Against the problem of all samples: each has a row of its own if they differ in the last digits.
    apart = X[copies] * (1 + 1e-13 * np.arange(len(copies))[:, None])
    model.fit(apart, CODES[copies])
    assert n_rows(model) == len(copies)
    np.testing.assert_allclose(model.predict_proba(TEST), found, atol=1e-4)


@st.composite
def histories(draw):
    """Batches of samples of few rows, and which of them are forgotten or relabeled in between."""
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["learn", "learn", "forget", "relabel"]))
        steps.append((kind, draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=6))))
    first = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=6))
    return [("learn", first), *steps]


@settings(max_examples=40)
@given(
    histories(), st.sampled_from([None, "balanced", "balanced-ovr"]), st.sampled_from(["hik", "laplacian", "stacked"])
)
def test_updates_in_any_order_are_a_fit_of_what_is_left(history, class_weight, kernel):
    kernel = Laplacian(unit=0.7) if kernel == "laplacian" else KERNELS[kernel]
    make = partial(HistogramGPClassifier, kernel, noise=NOISE, class_weight=class_weight, tol=1e-10, random_state=0)
    model, rows, codes, weights = make(), [], [], []
    for kind, entries in history:
        places = sorted({row for row, _ in entries if row < len(rows)})
        if kind == "learn":
            model.partial_fit(
                DISTINCT[[row for row, _ in entries]],
                [code for _, code in entries],
                classes=[0, 1, 2],
                sample_weight=[1.0 + row % 3 for row, _ in entries],
            )
            rows += [row for row, _ in entries]
            codes += [code for _, code in entries]
            weights += [1.0 + row % 3 for row, _ in entries]
        elif kind == "forget" and 0 < len(places) < len(rows):
            model.forget(model.ids_[places])
            rows, codes, weights = ([v for i, v in enumerate(one) if i not in places] for one in (rows, codes, weights))
        elif kind == "relabel" and places:
            new = [(codes[place] + 1) % 3 for place in places]
            model.relabel(model.ids_[places], new)
            for place, code in zip(places, new, strict=True):
                codes[place] = code
    assert model.n_samples_ == len(rows)
    assert n_rows(model) == len(set(rows))
    if len(model.classes_) < 2:
        return
    fresh = make()
    fresh.partial_fit(DISTINCT[rows], codes, classes=model.classes_, sample_weight=weights)
    np.testing.assert_allclose(model.decision_function(TEST), fresh.decision_function(TEST), atol=1e-6)
    np.testing.assert_allclose(model.predict_variance(TEST), fresh.predict_variance(TEST), rtol=1e-6)
    np.testing.assert_allclose(model.alpha_, fresh.alpha_, atol=1e-5)
    np.testing.assert_allclose(model.log_marginal_likelihood(), fresh.log_marginal_likelihood(), rtol=1e-7, atol=1e-7)
    X_back, y_back, _ = model.posterior_.training_data()
    np.testing.assert_array_equal(X_back.toarray(), DISTINCT[rows])
    np.testing.assert_array_equal(y_back, codes)


@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
@pytest.mark.parametrize("options", [{}, {"solver": "cg", "preconditioner_rank": 5}])
def test_known_rows_add_none_and_a_row_goes_with_its_last_sample(make, options):
    y = told(make)
    model = make("hik", noise=NOISE, tol=1e-10, random_state=0, **options)
    fresh = copy.deepcopy(model)
    some = np.arange(25)
    model.fit(X[some], None if y is None else y[some])
    operator, before = model._posterior.operator, n_rows(model)
    known = np.flatnonzero(np.isin(ROW_OF, ROW_OF[some]))[25:]
    model.partial_fit(X[known], None if y is None else y[known])
    assert model._posterior.operator.n_samples == before
    assert model._posterior.operator is operator or model._posterior.operator.kernel is operator.kernel
    index = np.concatenate([some, known])
    same(model, fresh.fit(X[index], None if y is None else y[index]), 1e-6)
    one_row = np.flatnonzero(ROW_OF[index] == ROW_OF[0])
    assert len(one_row) > 1
    model.forget(one_row[:-1])
    assert n_rows(model) == before
    model.forget(one_row[-1:])
    assert n_rows(model) == before - 1
    left = np.delete(index, one_row)
    same(model, fresh.fit(X[left], None if y is None else y[left]), 1e-6)


def test_containers_and_precision_do_not_matter():
    exact = np.round(X * 256) / 256  # the same numbers in both precisions
    stored = sparse.coo_array((exact.ravel(), np.indices(exact.shape).reshape(2, -1)), shape=exact.shape).tocsr()
    expected = HistogramGPClassifier("hik", noise=NOISE).fit(exact, CODES)
    assert n_rows(expected) == len(np.unique(exact, axis=0))
    for data in (exact.astype(np.float32), sparse.csr_array(exact), stored, sparse.csc_array(exact), exact.tolist()):
        model = HistogramGPClassifier("hik", noise=NOISE).fit(data, CODES)
        assert n_rows(model) == n_rows(expected)
        close(model.alpha_, expected.alpha_, rtol=1e-9)
    model.partial_fit(sparse.csr_array(exact.astype(np.float32)), CODES)
    assert n_rows(model) == n_rows(expected)


def test_zeros_of_either_sign_are_equal():
    rows = np.array([[-1.0, 0.0], [-1.0, -0.0], [0.0, 2.0]])
    assert (
        n_rows(HistogramGPRegressor(Laplacian(unit=1.0), noise=0.1, normalize_y=False).fit(rows, [1.0, 2.0, 3.0])) == 2
    )
    stored = sparse.csr_array((np.array([-1.0, -1.0, 0.0, 2.0]), ([0, 1, 1, 2], [0, 0, 1, 1])), shape=(3, 2))
    assert (
        n_rows(HistogramGPRegressor(Laplacian(unit=1.0), noise=0.1, normalize_y=False).fit(stored, [1.0, 2.0, 3.0]))
        == 2
    )


@pytest.mark.portable
@pytest.mark.parametrize("make", all_estimators("histogp.gp"))
def test_files_and_copies_keep_samples_and_rows(make, tmp_path):
    y = told(make)
    options = {"class_weight": "balanced-ovr"} if make is HistogramGPClassifier else {}
    model = make("hik", noise=NOISE, tol=1e-10, random_state=0, **options).fit(X, y, WEIGHTS["weights"])
    model.forget([0, 3])
    model.save(tmp_path / "model")
    loaded = histogp.load(tmp_path / "model")
    for twin in (loaded, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        same(twin, model)
        np.testing.assert_array_equal(twin.ids_, model.ids_)
        np.testing.assert_allclose(twin.alpha_, model.alpha_)
        assert twin.n_samples_ == N - 2
        close(twin.log_marginal_likelihood(), model.log_marginal_likelihood())
        twin.partial_fit(X[:5], None if y is None else y[:5])
        assert n_rows(twin) == n_rows(model)  # as far as these rows were there
    model.partial_fit(X[:5], None if y is None else y[:5])
    same(loaded, model)
    model.save(tmp_path / "again")
    loaded.save(tmp_path / "twin")
    assert histogp.describe(tmp_path / "again")["class"] == make.__name__
    same(histogp.load(tmp_path / "again"), histogp.load(tmp_path / "twin"))


def test_models_without_training_samples_predict_the_same(tmp_path):
    model = HistogramGPClassifier("hik", noise=NOISE, prediction="quantized", random_state=0).fit(X, CODES)
    model.predict_proba(TEST)
    model.save(tmp_path / "small", include_training=False)
    loaded = histogp.load(tmp_path / "small")
    np.testing.assert_allclose(loaded.predict_proba(TEST), model.predict_proba(TEST))
    assert loaded.n_samples_ == N
    exact = HistogramGPClassifier("hik", noise=NOISE, random_state=0).fit(X, CODES).decision_function(TEST)
    for kind in ("worst-case", "linear", "assumption-free", "a-priori"):
        assert np.all(np.abs(model.decision_function(TEST) - exact) <= model.quantization_error_bound(kind) + 1e-9)


def test_limits_count_distinct_samples():
    rng = np.random.default_rng(0)
    many = rng.integers(50, size=2_500)
    model = HistogramGPRegressor("hik", noise=0.1, normalize_y=False).fit(
        histograms(50, D)[many], rng.normal(size=2_500)
    )
    assert isinstance(model._posterior.kept_system, DenseSystem)
    assert model.posterior_.quick_method == "precise"


class TestNoiseDoesNotVanish:
    """Copies say nothing about the noise: a search that believed them would end at none at all."""

    rows = histograms(60, D, seed=5)
    codes = np.argmax(rows[:, :3] + 0.1 * np.random.default_rng(5).normal(size=(60, 3)), axis=1)
    values = rows @ np.arange(D) + 0.3 * np.random.default_rng(6).normal(size=60)
    test = histograms(30, D, seed=7)

    @pytest.mark.parametrize("copies", [2, 10])
    @pytest.mark.parametrize("search", ["exact", "gradient", "loo"])
    @pytest.mark.parametrize("make", [HistogramGPClassifier, HistogramGPRegressor])
    def test_with_copies_of_all_samples(self, make, search, copies):
        y = self.codes if make is HistogramGPClassifier else self.values
        fit = lambda m: make("hik-poly", optimize=search, random_state=0).fit(  # noqa: E731
            np.repeat(self.rows, m, axis=0), np.repeat(y, m)
        )
        once, several = fit(1), fit(copies)
        if search == "loo":
            assert 1e-2 < several.noise_ <= 10 * copies
            return
        # All that the evidence knows is the noise of a mean.
        assert 0.7 < several.noise_ / copies / once.noise_ < 1.4
        close(
            several.predict_variance(self.test, include_noise=False),
            once.predict_variance(self.test, include_noise=False),
            rtol=0.2,
        )
        if make is HistogramGPRegressor:
            close(several.predict(self.test), once.predict(self.test), rtol=0.1)

    @pytest.mark.parametrize("search", ["gradient", "loo"])
    def test_with_updates_that_bring_the_same_again(self, search):
        optimizer = Optimizer(criterion="loo" if search == "loo" else "evidence", reoptimize_every=1, max_steps=30)
        model = HistogramGPRegressor("hik-poly", normalize_y=False, optimize=optimizer, random_state=0).fit(
            self.rows, self.values
        )
        first = model.noise_
        rng = np.random.default_rng(0)
        for _ in range(50):
            some = rng.integers(60, size=12)
            model.partial_fit(self.rows[some], self.values[some])
        assert n_rows(model) == 60
        assert model.n_samples_ == 660
        assert 0.2 * first < model.noise_ < 11 * 5 * first
        assert np.all(np.isfinite(model.predict(self.test)))


def temperature(means, codes, weights, n):
    """The best factor on scores on a fine grid, where labels are wrong with a probability of one in n + 2."""
    wanted = np.full(means.shape, 0.5 / (n + 2))
    wanted[np.arange(len(means)), codes] = 1 - 1 / (n + 2)
    factors = np.exp(np.linspace(np.log(0.01), np.log(1000), 20_000))
    losses = [-np.sum(weights[:, None] * wanted * log_softmax(factor * means, axis=1)) for factor in factors]
    return factors[np.argmin(losses)]


@pytest.mark.parametrize("kind", ["copies", "repeated measurements"])
def test_probabilities_are_fitted_to_what_equal_samples_are(kind):
    """Copies are left out together, repeated measurements one by one."""
    rows, rng = histograms(25, D, density=0.8), np.random.default_rng(3)
    chances = np.exp(6 * rows[:, :3])
    chances /= chances.sum(axis=1, keepdims=True)
    row_of = np.repeat(np.arange(25), 4)
    if kind == "copies":
        codes = np.array([rng.choice(3, p=p) for p in chances])[row_of]
    else:
        codes = np.array([rng.choice(3, p=chances[row]) for row in row_of])
    model = HistogramGPClassifier("hik", noise=NOISE, random_state=0).fit(rows[row_of], codes)
    K = np.minimum(rows[row_of][:, None], rows[row_of]).sum(axis=2)
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    means = np.empty_like(targets)
    for i in range(100):
        rest = np.flatnonzero(row_of != row_of[i]) if kind == "copies" else np.delete(np.arange(100), i)
        means[i] = K[i, rest] @ np.linalg.solve(K[np.ix_(rest, rest)] + NOISE * np.eye(len(rest)), targets[rest])
    # Samples that do not differ are one, of so much weight.
    _, first, counts = np.unique(np.column_stack([row_of, codes]), axis=0, return_index=True, return_counts=True)
    expected = temperature(means[first], codes[first], counts, len(first) if kind == "copies" else 100)
    found = model._posterior.temperature(model._variance_options())[0]
    np.testing.assert_allclose(found, expected, rtol=2e-3)


@pytest.mark.parametrize("class_weight", [None, "balanced-ovr"])
def test_many_rows_are_left_out_by_tables(class_weight, monkeypatch):
    """Without factors the variance of a left-out row comes from tables, and with it that of its samples."""
    rng = np.random.default_rng(0)
    rows = histograms(300, D, seed=8)
    row_of = np.concatenate([np.arange(300), rng.integers(300, size=200)])
    codes = np.argmax(rows[row_of, :3] + 0.2 * rng.normal(size=(500, 3)), axis=1)
    make = partial(HistogramGPClassifier, "hik-poly", noise=0.5, class_weight=class_weight, random_state=0, tol=1e-6)
    exact = make().fit(rows[row_of], codes)
    expected = exact._posterior.leave_one_out(exact._variance_options())
    factors_pay = Answer(False)
    monkeypatch.setattr("histogp._core.solvers.factors_pay", factors_pay)
    model = make().fit(rows[row_of], codes)
    found = model._posterior.leave_one_out(model._variance_options())
    assert factors_pay.n_calls > 0
    np.testing.assert_array_equal(found.index, np.flatnonzero(np.isin(row_of, row_of[found.index])))
    assert len(found.index) > len(np.unique(row_of[found.index])) == 300 // 8
    np.testing.assert_allclose(found.means, expected.means[found.index], atol=0.05)
    variances = expected.variances[found.index]
    np.testing.assert_allclose(np.broadcast_to(found.variances, variances.shape), variances, rtol=1.0)
    np.testing.assert_allclose(model.predict_proba(TEST), exact.predict_proba(TEST), atol=0.2)


def test_a_learner_may_ask_for_what_it_knows():
    model = HistogramGPClassifier("hik", noise=NOISE, optimize="gradient", random_state=0).fit(X, CODES)
    learner = ActiveLearner(model, X_pool=np.vstack([X, TEST]), strategy="random", batch_size=5, random_state=0)
    curve = learner.run(np.concatenate([CODES, np.zeros(7, int)]), budget=47)
    assert curve["n_samples"][-1] == model.n_samples_ == 2 * N + 7
    assert n_rows(model) == N_ROWS + 7
    assert 1e-3 < model.noise_ < 100


def test_verbose_says_how_many_are_distinct(capsys):
    HistogramGPRegressor("hik", noise=0.1, normalize_y=False, verbose=1).fit(X, VALUES)
    assert f"{N} samples ({N_ROWS} distinct), {D} features" in capsys.readouterr().out
