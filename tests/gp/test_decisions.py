"""What users get by default, ``kernel="auto"`` and ``noise="auto"``: against dense formulas and other fits."""

from contextlib import nullcontext

import numpy as np
import pytest
from core.operators.test_pair_kernels import formula
from oracles import alike, close
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

import histogp
from histogp import ApproximationWarning, HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor, Optimizer
from histogp._core import probability
from histogp._core.search import leave_one_out
from histogp.gp import _decisions, _model
from histogp.gp._decisions import (
    LIKENESS_NOISE,
    START_NOISE,
    starting_kernels,
    suited_approximation,
    unusual_samples,
)
from histogp.kernels import Constant, Gaussian, HistogramIntersection, Laplacian, Power, Sum

N, D = 90, 4
RNG = np.random.default_rng(0)
# Numbers that float32 has, too.
X = RNG.standard_normal((N, D)).astype(np.float32).astype(float)
TEST = RNG.standard_normal((30, D)).astype(np.float32).astype(float)
NAMES = np.array(["ash", "birch", "elm"])


def surface(rows):
    return rows[:, 0] + rows[:, 1] ** 2


def labels_of(rows):
    return NAMES[np.digitize(surface(rows), [0.2, 1.5])]


VALUES = 5 + 3 * (surface(X) + 0.3 * RNG.standard_normal(N))
LABELS = labels_of(X)
TOLD = {HistogramGPClassifier: LABELS, HistogramGPRegressor: VALUES, HistogramGPOneClass: None}
by_estimator = pytest.mark.parametrize("make", TOLD)
PARTS = {f"{name}__scale" for name in ("histogram_intersection", "laplacian", "gaussian", "constant")} | {
    "laplacian__beta",
    "gaussian__beta",
}


def fitted(make, index=slice(None), *, rows=X, model=None, **options):
    """A model of some of the samples."""
    y = TOLD[make]
    model = make() if model is None else model
    return model.fit(rows[index], None if y is None else y[index], **options)


def further(model, index):
    y = TOLD[type(model)]
    return model.partial_fit(X[index], None if y is None else y[index])


def scores_of(model, rows=TEST):
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


def found_by(model):
    """All numbers that were decided, by name."""
    found = {name: value for name, value in model.kernel_.get_params().items() if name != "parts"}
    numbers = {name: np.asarray(value) for name, value in found.items() if np.isscalar(value) or np.ndim(value)}
    return {name: value for name, value in numbers.items() if value.dtype.kind in "fiu"} | {"noise": model.noise_}


def same_decisions(model, other):
    """To the last bit."""
    found, expected = found_by(model), found_by(other)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.fixture
def on_a_sample(monkeypatch):
    """Searches see 40 rows, units come from 60, and noise is tried on 30."""
    monkeypatch.setattr(leave_one_out, "FEWEST_SAMPLES", 40)
    monkeypatch.setattr(_decisions, "UNIT_SAMPLES", 60)
    monkeypatch.setattr(_model, "UNIT_SAMPLES", 60)
    monkeypatch.setattr(leave_one_out, "LEFT_OUT_ROWS", 30)


class TestDense:
    """The models of plain lines are dense Gaussian processes with the kernel and the noise that were found."""

    def test_a_classifier(self):
        model = HistogramGPClassifier().fit(X, LABELS)
        A = formula(X, X, model.kernel_) + model.noise_ * np.eye(N)
        targets = np.where(LABELS[:, None] == NAMES, 1.0, -1.0)
        expected = formula(TEST, X, model.kernel_) @ np.linalg.solve(A, targets)
        np.testing.assert_allclose(model.decision_function(TEST), expected, atol=1e-8)
        np.testing.assert_array_equal(model.predict(TEST), NAMES[expected.argmax(axis=1)])
        assert np.mean(model.predict(TEST) == labels_of(TEST)) > 0.7
        # Probabilities: a link that is fitted to predictions of samples that are left out.
        inverse = np.linalg.inv(A)
        left_out = targets - inverse @ targets / inverse.diagonal()[:, None]
        doubt = 1 / (N + 2)
        wanted = np.where(targets > 0, 1 - doubt, doubt / 2)

        def logarithms(x, f):
            return log_softmax(np.exp(x[0]) * f + x[1] * np.log(np.clip((1 + f) / 2, 0.02, 1.5)), axis=1)

        def cost(x):
            return -np.sum(wanted * logarithms(x, left_out)) + 2 * np.sum((x - [np.log(3), 0.5]) ** 2)

        link = minimize(cost, [np.log(3), 0.5], bounds=[(-5, 7), (0, 8)], method="Nelder-Mead").x
        np.testing.assert_allclose(model.predict_proba(TEST), np.exp(logarithms(link, expected)), atol=2e-3)

    def test_a_regressor(self):
        model = HistogramGPRegressor().fit(X, VALUES)
        center, unit = VALUES.mean(), VALUES.std()
        A = formula(X, X, model.kernel_) + model.noise_ * np.eye(N)
        k = formula(TEST, X, model.kernel_)
        mean, std = model.predict(TEST, return_std=True)
        np.testing.assert_allclose(mean, center + unit * k @ np.linalg.solve(A, (VALUES - center) / unit), rtol=1e-8)
        variance = formula(TEST, TEST, model.kernel_).diagonal() - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))
        np.testing.assert_allclose(std**2, unit**2 * (variance + model.noise_), rtol=1e-6)
        density = multivariate_normal(np.zeros(N), A).logpdf((VALUES - center) / unit)
        close(model.log_marginal_likelihood(), density, rtol=1e-8)
        assert model.score(TEST, 5 + 3 * surface(TEST)) > 0.8

    def test_a_one_class_model(self):
        """Weights are inverse to mean differences, units are mean distances; nothing is searched for."""
        model = HistogramGPOneClass().fit(X)
        kernel = model.kernel_
        assert list(kernel.named_parts()) == ["laplacian", "gaussian"]
        shifted = X - X.min(axis=0)
        pairs = np.abs(X[:, None] - X)[~np.eye(N, dtype=bool)]
        weights = 1 / pairs.mean(axis=0)
        weights /= (shifted @ weights).mean()
        np.testing.assert_array_equal(kernel.shift, X.min(axis=0))
        np.testing.assert_allclose(kernel.weights, weights, rtol=1e-9)
        distances = weights * pairs
        units = {"laplacian": distances.sum(axis=1).mean(), "gaussian": (distances**2).sum(axis=1).mean()}
        for name, part in kernel.named_parts().items():
            np.testing.assert_allclose([part.scale, part.beta, part.unit], [0.5, 1.0, units[name]], rtol=1e-9)
        assert model.noise_ == LIKENESS_NOISE
        A, k = formula(X, X, kernel) + model.noise_ * np.eye(N), formula(TEST, X, kernel)
        np.testing.assert_allclose(model.score_samples(TEST), np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T)) - 1)
        # The threshold lies where one in twenty would, if each were judged by the others.
        left_out = model.noise_ - 1 / np.linalg.inv(A).diagonal()
        np.testing.assert_allclose(model.offset_, np.quantile(left_out, 0.05), rtol=1e-6)

    @pytest.mark.parametrize("weights", [None, np.linspace(0.2, 1, N)])
    @pytest.mark.parametrize("kernel", ["auto", "laplacian"])
    def test_the_loss_of_a_search_is_the_density_of_samples_that_are_left_out(self, kernel, weights):
        """By the dense formula; a loss per sample, in single precision."""
        model = HistogramGPRegressor(kernel).fit(X, VALUES, weights)
        path, weights = model.optimization_path_, np.ones(N) if weights is None else weights
        assert path["loss"].min() < path["loss"][0]
        y = (VALUES - np.average(VALUES, weights=weights)) / model._codec.unit
        inverse = np.linalg.inv(formula(X, X, model.kernel_) + np.diag(model.noise_ / weights))
        errors, variances = inverse @ y / inverse.diagonal(), 1 / inverse.diagonal()
        one = np.median(weights)  # the weight of a sample
        variances += model.noise_ / one - model.noise_ / weights
        loss = np.average((np.log(2 * np.pi * variances) + errors**2 / variances) / 2, weights=weights)
        if kernel != "auto":
            place = np.argmin(np.abs(path["noise"] - model.noise_))
            close(path["loss"][place], loss, scale=1.0, rtol=1e-4)
        # Without parts that are not worth their time the loss may be larger by one for each, summed over samples.
        dropped = (
            {name for name in PARTS - found_by(model).keys() if name.endswith("scale")} if kernel == "auto" else ()
        )
        assert loss < path["loss"].min() + len(dropped) * one / weights.sum() + 0.03


class TestTable:
    """What is searched for, and what kernel_ and noise_ are, for what users may write."""

    KERNELS = {  # noqa: RUF012
        "auto": ("auto", PARTS | {"transform__eta"}),
        "name": ("hik", {"scale"}),
        "object": (HistogramIntersection(Power(0.5)), {"scale", "transform__eta"}),
    }
    SEARCHES = {  # noqa: RUF012
        "none": None,
        "loo": "loo",
        "gradient": "gradient",
        "object": Optimizer(criterion="loo", max_steps=20),
    }
    ROWS = X - X.min(axis=0)  # which intersection kernels take as well

    def fitted(self, kernel, noise, search, make=HistogramGPClassifier, **options):
        model = make(self.KERNELS[kernel][0], noise=noise, optimize=self.SEARCHES[search], **options)
        return fitted(make, rows=self.ROWS, model=model)

    @staticmethod
    def searched(model):
        counted = {"loss", "n_samples", "log_marginal_likelihood", "standard_error", "n_products", "n_weights"}
        return set(getattr(model, "optimization_path_", {})) - counted

    @pytest.mark.parametrize("noise", ["auto", 0.3])
    @pytest.mark.parametrize("search", SEARCHES)
    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize("make", [HistogramGPClassifier, HistogramGPRegressor])
    def test_what_is_searched_for(self, make, kernel, search, noise):
        model = self.fitted(kernel, noise, search, make)
        given, names = self.KERNELS[kernel]
        if search == "none":
            expected = (names if kernel == "auto" else set()) | ({"noise"} if noise == "auto" else set())
        else:
            expected = names | {"noise"}
        assert self.searched(model) == expected
        path = getattr(model, "optimization_path_", {})
        if "noise" not in expected:
            assert model.noise_ == noise
        elif kernel == "auto" or search != "none":
            # The search starts where it is told to, and ends at one of the values that it has tried.
            close(path["noise"][0], START_NOISE if noise == "auto" else noise)
            assert np.isclose(path["noise"], model.noise_, rtol=1e-6).any()
        else:
            # Noise alone is in units of the prior variance.
            close(path["noise"][0], START_NOISE * model.kernel_(self.ROWS).diagonal().mean(), rtol=1e-6)
            assert np.isclose(path["noise"], model.noise_, rtol=1e-6).any()
        if kernel == "auto":
            assert isinstance(model.kernel_, Sum)
            np.testing.assert_array_equal(model.kernel_.shift, self.ROWS.min(axis=0))
            assert model.kernel_.weights.shape == (D,)
        elif search == "none":
            expected = histogp.kernels.as_kernel(given).get_params(deep=False)
            assert {name: str(value) for name, value in model.kernel_.get_params(deep=False).items()} == {
                name: str(value) for name, value in expected.items()
            }
        K = formula(self.ROWS, self.ROWS, model.kernel_)
        codec = model._codec
        alpha = np.linalg.solve(K + model.noise_ * np.eye(N), codec.encode(model._samples.y))
        np.testing.assert_allclose(model.alpha_.reshape(N, -1), alpha, atol=1e-5 * np.abs(alpha).max())

    @pytest.mark.parametrize("noise", ["auto", 0.3])
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_one_class_models_search_for_nothing(self, kernel, noise):
        model = HistogramGPOneClass(self.KERNELS[kernel][0], noise=noise).fit(self.ROWS)
        assert not self.searched(model)
        unit = 1.0 if kernel == "auto" else model.kernel_(self.ROWS).diagonal().mean()
        close(model.noise_, LIKENESS_NOISE * unit if noise == "auto" else noise)

    @pytest.mark.parametrize("kernel", KERNELS)
    def test_a_search_does_not_lose_against_its_start(self, kernel):
        """The noise that is found for a kernel has no larger loss than that where a search starts."""
        path = self.fitted(kernel, "auto", "none").optimization_path_
        assert path["loss"].min() <= path["loss"][0]
        assert path["noise"].min() >= 0.01

    def test_nested_parameters_are_refused(self):
        model = HistogramGPClassifier()
        with pytest.raises(ValueError, match="optimize=None has no parameters: set optimize to an object or a name"):
            HistogramGPClassifier().set_params(optimize__criterion="loo")
        with pytest.raises(ValueError, match='kernel="auto" is found by fit and has no parameters: set kernel to an'):
            model.set_params(kernel__scale=2.0)
        search = GridSearchCV(model, {"kernel__scale": [1.0, 2.0]}, error_score="raise")
        with pytest.raises(ValueError, match='kernel="auto" is found by fit'):
            search.fit(X, LABELS)
        # With a kernel of one's own they are fine, also at once.
        model.set_params(kernel=HistogramIntersection(), kernel__scale=2.0)
        assert model.kernel.scale == 2.0
        assert HistogramGPClassifier("laplacian").set_params(kernel__beta=3.0).kernel.beta == 3.0

    def test_weights_that_a_search_leaves_out_are_refused(self):
        model = HistogramGPClassifier(optimize=Optimizer(parameters=["noise"]))
        with pytest.raises(ValueError, match='"weights" is not among the parameters'):
            model.fit(X, LABELS)

    @pytest.mark.parametrize("name", ["Auto", "automatic", "hik2"])
    def test_other_names_are_refused(self, name):
        with pytest.raises(ValueError, match=f"{name}"):
            HistogramGPClassifier(name).fit(X, LABELS)
        with pytest.raises(ValueError, match="'noise' parameter"):
            HistogramGPClassifier(noise=name).fit(X, LABELS)

    def test_signs_follow_the_kernel(self):
        for kernel, positive in (("auto", False), ("hik", True), ("laplacian", False), ("laplacian + hik", True)):
            assert HistogramGPClassifier(kernel).__sklearn_tags__().input_tags.positive_only == positive
        with pytest.raises(ValueError, match="Negative values"):
            HistogramGPClassifier("hik").fit(X, LABELS)

    def test_a_noise_for_each_label_is_applied_to_what_was_decided_without(self):
        plain = fitted(HistogramGPClassifier)
        each = fitted(HistogramGPClassifier, model=HistogramGPClassifier(class_weight="balanced-ovr"))
        same_decisions(each, plain)
        own = LABELS[:, None] == NAMES
        share = own.mean(axis=0)
        noises = 2 * plain.noise_ * np.where(own, share, 1 - share)
        K, k = formula(X, X, plain.kernel_), formula(TEST, X, plain.kernel_)
        for c, noise in enumerate(noises.T):
            expected = k @ np.linalg.solve(K + np.diag(noise), np.where(own[:, c], 1.0, -1.0))
            np.testing.assert_allclose(each.decision_function(TEST)[:, c], expected, atol=1e-7)


@pytest.mark.portable
@pytest.mark.parametrize("sampled", [False, True])
@by_estimator
class TestSameBits:
    """The same samples make the same decisions, however they come."""

    @pytest.fixture(autouse=True)
    def _sampled(self, sampled, request):
        if sampled:
            request.getfixturevalue("on_a_sample")

    def test_in_any_order(self, make):
        order = np.random.default_rng(1).permutation(N)
        model, other = fitted(make), fitted(make, order)
        same_decisions(model, other)
        np.testing.assert_allclose(scores_of(model), scores_of(other), rtol=1e-6, atol=1e-9)

    def test_in_any_container(self, make):
        model = fitted(make)
        for container in (sparse.csr_array, sparse.csc_matrix, np.asfortranarray, np.float32, np.ndarray.tolist):
            y = TOLD[make]
            same_decisions(make().fit(container(X), y), model)
        read_only = X.copy()
        read_only.flags.writeable = False
        same_decisions(make().fit(read_only, TOLD[make]), model)

    def test_with_any_number_of_threads_and_twice(self, make):
        model = fitted(make)
        same_decisions(fitted(make), model)
        same_decisions(fitted(make, model=make(n_jobs=2)), model)

    def test_as_copies_or_with_weights(self, make):
        counts = np.random.default_rng(2).integers(0, 3, N)
        weighted = fitted(make, sample_weight=counts.astype(float))
        repeated = fitted(make, np.repeat(np.arange(N), counts))
        same_decisions(weighted, repeated)
        np.testing.assert_allclose(scores_of(weighted), scores_of(repeated), atol=1e-9)
        if make is HistogramGPClassifier:
            np.testing.assert_allclose(weighted.predict_proba(TEST), repeated.predict_proba(TEST), atol=1e-6)

    def test_samples_of_weight_zero_leave_no_trace(self, make):
        rows = np.vstack([X, -1e6 * np.ones((1, D)), 1e6 * np.ones((1, D))])
        y = TOLD[make]
        y = None if y is None else np.append(y, y[:2])
        weights = np.append(np.ones(N), [0, 0])
        same_decisions(make().fit(rows, y, sample_weight=weights), fitted(make))


def test_noise_is_tried_on_all_samples(on_a_sample, capsys):
    """Labels that a sample of 40 knows too little of: the noise is that of the search, or a third or three times it."""
    factors = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((150, D))
        y = (surface(rows) + rng.standard_normal(150) > 0.7).astype(int)
        model = HistogramGPClassifier(verbose=1).fit(rows, y)
        path = model.optimization_path_
        assert set(path["n_samples"]) == {40}
        (factor,) = (f for f in (1 / 3, 1.0, 3.0) if np.isclose(f * path["noise"], model.noise_, rtol=1e-9).any())
        factors.append(factor)
    assert len(set(factors)) > 1
    assert "of left-out samples after" in capsys.readouterr().out


class TestDuplicates:
    @pytest.mark.parametrize("times", [2, 10])
    def test_copies_of_all_samples_do_no_harm_to_a_classifier(self, times):
        rng = np.random.default_rng(0)
        rows, new = rng.standard_normal((120, D)), rng.standard_normal((1000, D))
        y, wanted = (surface(A) + 0.7 * rng.standard_normal(len(A)) > 0.7 for A in (rows, new))
        once = HistogramGPClassifier().fit(rows, y)
        again = HistogramGPClassifier().fit(np.tile(rows, (times, 1)), np.tile(y, times))
        losses = [log_loss(wanted, model.predict_proba(new)) for model in (once, again)]
        assert losses[1] < losses[0] * 1.1
        assert again.score(new, wanted) > once.score(new, wanted) - 0.02
        assert 0.2 * once.noise_ < again.noise_ < 3 * times * once.noise_

    @pytest.mark.parametrize("times", [2, 10])
    def test_copies_of_all_samples_do_no_harm_to_a_regressor(self, times):
        rng = np.random.default_rng(0)
        rows, new = rng.standard_normal((120, D)), rng.standard_normal((1000, D))
        y, wanted = (surface(A) + 0.4 * rng.standard_normal(len(A)) for A in (rows, new))
        found = []
        for k in (1, times):
            model = HistogramGPRegressor().fit(np.tile(rows, (k, 1)), np.tile(y, k))
            mean, std = model.predict(new, return_std=True)
            found.append((np.mean(np.log(std) + (wanted - mean) ** 2 / std**2 / 2), model.noise_))
        assert found[1][0] < found[0][0] + 0.05
        assert 0.2 * found[0][1] < found[1][1] < 3 * times * found[0][1]

    @pytest.mark.parametrize("part", [0.1, 0.4])
    def test_copies_of_some_samples_do_not_make_the_noise_vanish(self, part):
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((100, D))
        y = surface(rows) + 0.4 * rng.standard_normal(100)
        some = np.repeat(rng.choice(100, int(part * 100), replace=False), 3)
        whole = np.concatenate([np.arange(100), some])
        once, again = HistogramGPRegressor().fit(rows, y), HistogramGPRegressor().fit(rows[whole], y[whole])
        assert again.noise_ > 0.2 * once.noise_


class TestUpdates:
    @by_estimator
    def test_forgetting_is_a_fit_of_what_is_left(self, make):
        """A smallest and a largest value leave no trace."""
        gone = np.union1d(np.concatenate([X.argmin(axis=0), X.argmax(axis=0)]), [3, 50])
        left = np.setdiff1d(np.arange(N), gone)
        model = fitted(make).forget(gone)
        same_decisions(model, fitted(make, left))
        np.testing.assert_array_equal(model.kernel_.shift, X[left].min(axis=0))
        np.testing.assert_allclose(scores_of(model), scores_of(fitted(make, left)), atol=1e-9)
        np.testing.assert_array_equal(model.ids_, left)

    @pytest.mark.parametrize("search", ["loo", "gradient"])
    def test_forgetting_with_a_search_is_one_as_well(self, search):
        left = np.delete(np.arange(N), X.argmin(axis=0))
        model = HistogramGPClassifier(optimize=search).fit(X, LABELS).forget(X.argmin(axis=0))
        fresh = HistogramGPClassifier(optimize=search).fit(X[left], LABELS[left])
        same_decisions(model, fresh)
        np.testing.assert_allclose(scores_of(model), scores_of(fresh), atol=1e-9)

    def test_forgetting_with_a_kernel_of_ones_own_finds_its_noise_again(self):
        left = np.arange(10, N)
        model = HistogramGPClassifier("laplacian").fit(X, LABELS).forget(np.arange(10))
        fresh = HistogramGPClassifier("laplacian").fit(X[left], LABELS[left])
        same_decisions(model, fresh)
        assert model.noise_ != HistogramGPClassifier("laplacian").fit(X, LABELS).noise_

    @by_estimator
    def test_decisions_may_be_kept(self, make):
        model = fitted(make)
        before = clone(model.kernel_), model.noise_
        gone = [int(X[:, 0].argmin()), 5]
        model.forget(gone, keep_decisions=True)
        same_decisions(model, fitted(make))
        left = np.delete(np.arange(N), gone)
        fresh = fitted(make, left, model=make(before[0], noise=before[1]))
        np.testing.assert_allclose(scores_of(model), scores_of(fresh), atol=1e-7)

    @by_estimator
    def test_further_samples_use_what_was_decided(self, make, tmp_path):
        """Between decisions an update is a fit with the same kernel and noise; then it is one that decides again."""
        model = fitted(make, slice(0, 50))
        decided = fitted(make, slice(0, 50))
        further(model, slice(50, 60))
        same_decisions(model, decided)
        fresh = fitted(make, slice(0, 60), model=make(decided.kernel_, noise=decided.noise_))
        np.testing.assert_allclose(scores_of(model), scores_of(fresh), atol=1e-7)
        model.save(tmp_path / "model")
        loaded = histogp.load(tmp_path / "model")
        for one in (model, loaded):
            further(one, slice(60, 74))
            same_decisions(one, decided)  # 24 of 50
            further(one, slice(74, 76))
            whole = fitted(make, slice(0, 76))  # 26 of 50
            same_decisions(one, whole)
            np.testing.assert_allclose(scores_of(one), scores_of(whole), atol=1e-9)
            one.forget([2])
            same_decisions(one, fitted(make, np.delete(np.arange(76), 2)))

    def test_labels_use_what_was_decided_until_many_have_changed(self):
        model = HistogramGPClassifier().fit(X, LABELS)
        decided, right = clone(model.kernel_), LABELS.copy()
        noise = model.noise_
        right[:10] = "elm"
        model.relabel(np.arange(10), right[:10])
        fresh = HistogramGPClassifier(decided, noise=noise).fit(X, right)
        np.testing.assert_allclose(scores_of(model), scores_of(fresh), atol=1e-7)
        right[10:50] = LABELS[10:50][::-1]
        model.relabel(np.arange(10, 50), right[10:50])
        same_decisions(model, HistogramGPClassifier().fit(X, right))

    @pytest.mark.parametrize("every", [5, None])
    def test_a_search_says_when_it_decides_again(self, every):
        optimizer = Optimizer(criterion="loo", reoptimize_every=every)
        model = HistogramGPClassifier(optimize=optimizer).fit(X[:60], LABELS[:60])
        before = HistogramGPClassifier(optimize=optimizer).fit(X[:60], LABELS[:60])
        model.partial_fit(X[60:64], LABELS[60:64])
        same_decisions(model, before)
        model.partial_fit(X[64:66], LABELS[64:66])
        after = HistogramGPClassifier(optimize=optimizer).fit(X[:66], LABELS[:66])
        same_decisions(model, before if every is None else after)

    def test_samples_one_by_one(self):
        """From the very first one on, as those who label do."""
        model = HistogramGPClassifier()
        for k in range(25):
            model.partial_fit(X[k : k + 1], LABELS[k : k + 1])
            probabilities = model.predict_proba(TEST)
            assert np.all(np.isfinite(probabilities))
            np.testing.assert_array_equal(model.predict(TEST), model.classes_[probabilities.argmax(axis=1)])
        fresh = HistogramGPClassifier(model.kernel_, noise=model.noise_).fit(X[:25], LABELS[:25])
        np.testing.assert_allclose(scores_of(model), scores_of(fresh), atol=1e-6)

    def test_a_new_fit_leaves_nothing_of_the_old_one(self):
        model = HistogramGPClassifier().fit(X, LABELS)
        model.fit(X[:6, :2], LABELS[:6])
        assert not hasattr(model, "optimization_path_")
        same_decisions(model, HistogramGPClassifier().fit(X[:6, :2], LABELS[:6]))


class TestFewSamples:
    @staticmethod
    def agreeing(model, rows):
        """Probabilities, after a look at whether all methods agree on the best class."""
        probabilities, scores = model.predict_proba(rows), model.decision_function(rows)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        np.testing.assert_array_equal(model.predict(rows), model.classes_[best])
        np.testing.assert_array_equal(probabilities.argmax(axis=1), best)
        return probabilities

    @pytest.mark.parametrize("n_classes", [2, 3, 7])
    def test_one_sample_of_each_class(self, n_classes):
        model = HistogramGPClassifier().fit(X[:n_classes], np.arange(n_classes))
        probabilities = self.agreeing(model, X[:n_classes])
        np.testing.assert_array_equal(model.predict(X[:n_classes]), np.arange(n_classes))
        assert probabilities.max(axis=1).min() > 0.3
        assert not hasattr(model, "optimization_path_")
        assert model.noise_ == START_NOISE
        assert len(model.kernel_.named_parts()) == 4

    @pytest.mark.parametrize("n", [9, 10])
    def test_searches_begin_with_ten_distinct_rows(self, n):
        y = np.arange(n) % 2
        copies = np.repeat(np.arange(n), 3)
        model = HistogramGPClassifier().fit(X[copies], y[copies])
        assert hasattr(model, "optimization_path_") == (n >= 10)
        self.agreeing(model, TEST)
        reg = HistogramGPRegressor().fit(X[copies], VALUES[copies])
        assert hasattr(reg, "optimization_path_") == (n >= 10)
        assert np.all(np.isfinite(reg.predict(TEST)))

    @pytest.mark.parametrize("counts", [[7, 3], [70, 30], [140, 60], [6, 3, 1], [500, 300, 200]])
    @pytest.mark.parametrize("value", [0.0, 1.0, -5.0])
    def test_one_distinct_row_has_the_frequencies_of_classes(self, counts, value):
        y = np.repeat(np.arange(len(counts)), counts)
        model = HistogramGPClassifier().fit(np.full((len(y), D), value), y)
        probabilities = self.agreeing(model, np.vstack([np.full((1, D), value), TEST]))
        expected = np.array(counts) / len(y)
        np.testing.assert_allclose(probabilities[0], expected, atol=0.1 / len(y))
        # Features that do not vary tell nothing, whatever they are later.
        np.testing.assert_allclose(probabilities, np.tile(probabilities[0], (len(TEST) + 1, 1)), atol=1e-3)

    def test_one_class(self):
        model = HistogramGPClassifier().partial_fit(X[:12], np.full(12, "ash"))
        assert set(model.predict(TEST)) == {"ash"}
        np.testing.assert_array_equal(model.predict_proba(TEST), np.ones((len(TEST), 1)))
        model.partial_fit(X[12:40], LABELS[12:40])
        assert list(model.classes_) == list(NAMES)
        self.agreeing(model, TEST)

    def test_two_samples_and_one_feature(self):
        model = HistogramGPClassifier().fit([[0.0], [1.0]], [0, 1])
        np.testing.assert_array_equal(model.predict([[-3.0], [0.1], [0.9], [4.0]]), [0, 0, 1, 1])
        reg = HistogramGPRegressor().fit([[0.0], [1.0]], [10.0, 20.0])
        low, high = reg.predict([[0.0], [1.0]])
        assert 10 <= low < 15 < high <= 20

    def test_one_sample(self):
        np.testing.assert_allclose(HistogramGPRegressor().fit(X[:1], [7.0]).predict(TEST), 7.0)
        assert HistogramGPOneClass().fit(X[:1]).predict(X[:1]) == [1]
        model = HistogramGPClassifier().partial_fit(X[:1], ["ash"])
        assert list(model.predict(TEST[:2])) == ["ash", "ash"]

    def test_targets_that_do_not_vary(self):
        model = HistogramGPRegressor().fit(X, np.full(N, 7.0))
        np.testing.assert_allclose(model.predict(TEST), 7.0)
        several = HistogramGPRegressor().fit(X, np.column_stack([VALUES, np.full(N, 7.0)]))
        np.testing.assert_allclose(several.predict(TEST)[:, 1], 7.0, atol=0.5)

    def test_equal_rows_with_other_labels(self):
        """Two rows with all labels mixed: about the frequencies of each row."""
        rows = np.repeat([[0.0, 1.0], [1.0, 0.0]], [80, 120], axis=0)
        y = np.concatenate([np.arange(80) < 60, np.arange(120) < 24]).astype(int)
        found = self.agreeing(HistogramGPClassifier().fit(rows, y), np.array([[0.0, 1.0], [1.0, 0.0]]))
        np.testing.assert_allclose(found[:, 1], [0.75, 0.2], atol=0.05)


class TestFeatures:
    """Features of any kind: what they are should matter, and nothing else."""

    Y = (surface(X) > 0.7).astype(int)

    def score(self, change=lambda A: A, new=None):
        rng = np.random.default_rng(5)
        test = rng.standard_normal((1000, D))
        model = HistogramGPClassifier().fit(change(X), self.Y)
        return model.score((new or change)(test), surface(test) > 0.7)

    @pytest.mark.parametrize("unit", [1e150, 1e-150, np.array([1e-9, 1.0, 1e9, 1e3])])
    def test_units_do_not_matter(self, unit):
        model, other = HistogramGPClassifier().fit(X, self.Y), HistogramGPClassifier().fit(X * unit, self.Y)
        np.testing.assert_allclose(other.decision_function(TEST * unit), model.decision_function(TEST), atol=0.02)
        assert self.score(lambda A: A * unit) == pytest.approx(self.score(), abs=0.01)

    @pytest.mark.parametrize(
        "change", [lambda A: A * 3.7, lambda A: A * [1e-9, 1, 5, 3] + 2, np.float32], ids=["unit", "units", "single"]
    )
    def test_the_same_samples_are_searched_in_any_unit(self, change, on_a_sample):
        rows = np.vstack([X, -X])
        y = np.concatenate([self.Y, 1 - self.Y])
        model, other = (HistogramGPClassifier().fit(rows_, y) for rows_ in (rows, change(rows)))
        close(other.noise_, model.noise_, rtol=1e-3)
        close(other.decision_function(change(TEST)), model.decision_function(TEST), 1.0, rtol=1e-3)

    @pytest.mark.parametrize("offset", [-7.0, 1e3, 1e6])
    def test_offsets_do_not_matter(self, offset):
        assert self.score(lambda A: A + offset) == pytest.approx(self.score(), abs=0.01)

    @pytest.mark.parametrize("outlier", [1e6, -1e6, 1e12])
    def test_an_outlier_hardly_matters(self, outlier):
        def spoil(A):
            A = A.copy()
            A[3, 2] = outlier
            return A

        assert self.score(spoil, new=lambda A: A) > self.score() - 0.03

    @pytest.mark.parametrize("number", [0, 1, 2], ids=["one weight", "normalized", "own weights"])
    @pytest.mark.parametrize("value", [0.0, 7.0])
    def test_no_kernel_sees_features_that_do_not_vary_in_training(self, number, value):
        rng = np.random.default_rng(0)
        counts, test = rng.poisson(0.4, (80, 6)) * rng.integers(1, 9, (80, 1)), rng.poisson(0.4, (50, 6))
        y = (counts[:, 0] > counts[:, 1]).astype(int)

        def learned(rows):
            return HistogramGPClassifier(starting_kernels(rows)[number], optimize="loo").fit(rows, y)

        expected = learned(counts).decision_function(test)
        model = learned(np.column_stack([counts, np.full(80, value)]))
        for later in (value, 0.0, 30.0, 1e3):
            close(model.decision_function(np.column_stack([test, np.full(50, later)])), expected, 1.0, rtol=1e-3)

    @pytest.mark.parametrize("value", [0.0, 3.0, -1e6])
    def test_features_that_do_not_vary_in_training_do_no_harm(self, value):
        """Even if they do later."""
        rng = np.random.default_rng(6)

        def wide(A):
            return np.column_stack([A, np.full(len(A), value)])

        def later(A):
            return np.column_stack([A, value + 100 * rng.standard_normal(len(A))])

        assert self.score(wide, new=later) == pytest.approx(self.score(), abs=0.01)

    def test_rounding_is_no_feature(self):
        def wide(A):
            noise = np.random.default_rng(len(A)).standard_normal((len(A), 20))
            return np.column_stack([A, 1 + 1e-15 * noise])

        assert self.score(wide) == pytest.approx(self.score(), abs=0.01)

    def test_a_table_without_anything_in_it(self):
        model = HistogramGPRegressor().fit(np.full((N, 3), 5.0), VALUES)
        np.testing.assert_allclose(model.predict(np.zeros((4, 3))), VALUES.mean(), rtol=1e-2)
        assert set(HistogramGPOneClass().fit(np.full((N, 3), 5.0)).predict(np.full((4, 3), 5.0))) == {1}

    @pytest.mark.parametrize("size", [1e300, 1e-300])
    @by_estimator
    def test_what_cannot_be_computed_with_is_refused_by_a_sentence(self, make, size):
        what = "large" if size > 1 else "small"
        with pytest.raises(ValueError, match=f"too {what} to compute with: multiply X by a number"):
            make().fit(X * size, TOLD[make])

    def test_one_feature(self):
        rows = np.linspace(-3, 3, 60)[:, None]
        model = HistogramGPRegressor().fit(rows, np.sin(2 * rows[:, 0]))
        np.testing.assert_allclose(model.predict(rows[:-1] + 0.05), np.sin(2 * rows[:-1, 0] + 0.1), atol=0.1)
        clf = HistogramGPClassifier().fit(rows, np.abs(rows[:, 0]) > 1)
        assert clf.score(rows[:-1] + 0.03, np.abs(rows[:-1, 0] + 0.03) > 1) > 0.95

    def test_sparse_rows_may_have_any_sign(self):
        """Those that are mostly zeros keep them; others are shifted as dense ones are."""
        few = X * (np.random.default_rng(0).random(X.shape) < 0.3)
        for rows, shift in ((few, 0.0), (X, X.min(axis=0))):
            dense, packed = (HistogramGPClassifier().fit(c(rows), self.Y) for c in (np.asarray, sparse.csr_array))
            same_decisions(dense, packed)
            np.testing.assert_array_equal(packed.kernel_.shift, shift)
            alike(packed.decision_function(sparse.csr_array(TEST)), dense.decision_function(TEST))


class Compared:
    """What a fit compares: the rows and the starts of its searches, and the losses of rows that these have not seen."""

    def __init__(self, monkeypatch):
        self.searched, self.begun, self.points, self.unseen, self.groups, self.chosen = [], [], [], [], [], []
        run, unseen_losses, best = _decisions._Search.run, _decisions._Search.unseen_losses, _decisions.clearly_best

        def spied_run(search, kernel, rows, begin=None, **options):
            found = run(search, kernel, rows, begin, **options)
            self.searched.append(rows)
            self.begun.append(begin)
            self.points.append(found.point)
            return found

        def spied_losses(search, found, rows):
            self.unseen.append(rows)
            return unseen_losses(search, found, rows)

        def spied_best(losses, groups):
            self.groups.append(groups)
            self.chosen.append(best(losses, groups))
            return self.chosen[-1]

        monkeypatch.setattr(_decisions._Search, "run", spied_run)
        monkeypatch.setattr(_decisions._Search, "unseen_losses", spied_losses)
        monkeypatch.setattr(_decisions, "clearly_best", spied_best)


class TestComparedKernels:
    """Which of several kernels suits rows that no search has seen."""

    @pytest.fixture
    def compared(self, on_a_sample, monkeypatch):
        monkeypatch.setattr(_decisions, "FEWEST_UNSEEN", 30)
        return Compared(monkeypatch)

    @pytest.mark.parametrize("make", [HistogramGPClassifier, HistogramGPRegressor])
    def test_rows_that_were_not_searched_choose_where_a_second_search_begins(self, make, compared):
        fitted(make)
        first, second, last = compared.searched
        np.testing.assert_array_equal(first, second)
        assert (len(first), len(last)) == (20, 40)
        for unseen in compared.unseen:
            np.testing.assert_array_equal(np.sort(np.append(unseen, first)), np.arange(N))
        assert compared.begun[:2] == [None, None]
        assert compared.begun[2] is compared.points[compared.chosen[0]]

    @pytest.mark.parametrize("values", [np.ones(800), None], ids=["constant", "one feature"])
    def test_targets_without_noise(self, values):
        """Of fewer samples a smaller noise can be told from rounding."""
        rows = np.random.default_rng(0).random((800, 3))
        targets = rows[:, 0] if values is None else values
        np.testing.assert_allclose(HistogramGPRegressor().fit(rows, targets).predict(rows), targets, atol=1e-3)

    def test_weights_of_their_own_are_kept_where_too_few_rows_are_left(self, compared, monkeypatch):
        monkeypatch.setattr(_decisions, "FEWEST_UNSEEN", 71)
        model = fitted(HistogramGPClassifier)
        assert [len(rows) for rows in compared.searched] == [40]
        assert (np.ndim(model.kernel_.weights), compared.unseen) == (1, [])

    def test_groups_are_seen_or_not_as_a_whole_and_are_one_reason(self, compared):
        groups = np.arange(N) // 2
        model = HistogramGPClassifier().fit(X, LABELS, groups=groups)
        assert set(groups[compared.unseen[0]]).isdisjoint(groups[compared.searched[0]])
        np.testing.assert_array_equal(compared.groups[0], groups[compared.unseen[0]])
        order = np.random.default_rng(0).permutation(N)
        same_decisions(model, HistogramGPClassifier().fit(X[order], LABELS[order], groups=groups[order]))

    @pytest.mark.parametrize("far", [0.0, 1.7e9])
    def test_in_any_container_and_far_from_zero(self, far, compared):
        """A time in seconds has rounding in single precision that is larger than all other features."""
        rows = np.column_stack([X, np.full(N, far)]).astype(np.float32)
        model = HistogramGPClassifier().fit(rows, LABELS)
        for container in (np.float64, sparse.csr_array, sparse.csc_matrix, np.asfortranarray):
            same_decisions(HistogramGPClassifier().fit(container(rows), LABELS), model)
        own = rows[:, :D].astype(float)
        same_for_all = 1 / np.sum(own - own.min(axis=0), axis=1).mean()
        close(starting_kernels(rows)[1].weights, np.append(np.full(D, same_for_all), 0.0))  # the last one says nothing

    def test_samples_that_come_again(self, compared):
        labels = LABELS.copy()
        rows, several = np.repeat(X, 3, axis=0), np.repeat(labels, 3)
        several[::9] = labels[0]
        order = np.random.default_rng(0).permutation(3 * N)
        model = HistogramGPClassifier().fit(rows, several)
        same_decisions(model, HistogramGPClassifier().fit(rows[order], several[order]))


class TestCounts:
    """Which kernels a search starts from."""

    def test_more_features_than_samples_have_no_own_weights_where_most_are_zero(self):
        signs = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=(40, 300), p=[0.05, 0.9, 0.05])
        rows = sparse.csr_array(signs)  # as hashed words
        (kernel,) = starting_kernels(rows)
        assert np.ndim(kernel.weights) <= 1
        assert kernel.weights is not None
        assert len(starting_kernels(rows[:, :30])) == 2

    @staticmethod
    def counts(n=40, d=12, seed=0):
        return np.random.default_rng(seed).poisson(0.4, (n, d)).astype(float)

    def test_features_that_are_no_counts_are_shifted(self):
        kernel, one = starting_kernels(X, 4.0)
        for either in (kernel, one):
            np.testing.assert_array_equal(either.shift, X.min(axis=0))
        assert (kernel.weights, kernel.normalize) == ("ard", None)
        close(one.weights, 1 / np.sum(X - X.min(axis=0), axis=1).mean())
        assert [part.scale for part in kernel.named_parts().values()] == [2.0] * 4  # half the mean square of targets

    @pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, np.float32])
    def test_counts_are_tried_with_one_weight_for_all_normalized_and_with_weights(self, container):
        rows = self.counts()
        one, normalized, each = starting_kernels(container(rows))
        for kernel in (one, normalized, each):
            assert np.all(np.asarray(kernel.shift) == 0)
        close(one.weights, 1 / rows.sum(axis=1).mean())
        assert (normalized.weights, normalized.normalize) == (None, "l1")
        assert (each.weights, each.normalize) == ("ard", None)

    def test_what_does_not_make_sense_is_not_tried(self):
        rows = self.counts()
        shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
        assert [kernel.normalize for kernel in starting_kernels(shares)] == [None, None]  # as they are
        wide = self.counts(20, 50)
        assert "ard" not in [kernel.weights for kernel in starting_kernels(wide) if isinstance(kernel.weights, str)]
        negative = rows - 0.5 * (rows == 2)
        negative[0, 0] = -1.0
        for container in (np.asarray, sparse.csr_array):
            kernel, one = starting_kernels(container(negative))
            assert (kernel.weights, kernel.shift, kernel.normalize) == ("ard", 0.0, None)
            close(one.weights, 1 / np.abs(negative).sum(axis=1).mean())
        (nothing,) = starting_kernels(np.zeros((5, 3)))
        assert nothing.normalize is None

    def test_the_container_does_not_make_counts(self):
        """What is dense by its values is no count in a sparse container."""
        for kernel in starting_kernels(sparse.csr_array(np.abs(X) + 1)):
            np.testing.assert_array_equal(kernel.shift, (np.abs(X) + 1).min(axis=0))
        assert len(starting_kernels(np.where(np.abs(X) < 0.8, 0, np.abs(X)))) == 3

    def test_weights_are_those_that_suit_the_data(self):
        """One for all where features that hardly vary say nothing, their own where these say it all."""
        rng = np.random.default_rng(0)
        y, sizes = rng.integers(2, size=1500), np.repeat([1.0, 0.05], [5, 40])
        said = np.where(np.arange(45) < 5, 1.0, 0.0)
        noise = rng.standard_normal((len(y), 45))
        order = rng.permutation(len(y))
        for signal, n_weights in ((said, 0), (said[::-1], 1)):
            rows = sizes * (noise + y[:, None] * signal)
            model = HistogramGPClassifier().fit(rows, y)
            assert np.ndim(model.kernel_.weights) == n_weights
            same_decisions(model, HistogramGPClassifier().fit(rows[order], y[order]))

    def test_a_model_of_counts(self):
        rng = np.random.default_rng(0)
        topics = rng.dirichlet(np.full(40, 0.2), 3)
        y = rng.integers(3, size=200)
        lengths = rng.integers(5, 60, 200)
        rows = np.stack([rng.multinomial(n, topics[c]) for n, c in zip(lengths, y, strict=True)]).astype(float)
        model = HistogramGPClassifier().fit(sparse.csr_array(rows[:100]), y[:100])
        assert model.score(rows[100:], y[100:]) > 0.9
        assert np.all(np.asarray(model.kernel_.shift) == 0)
        same_decisions(model, HistogramGPClassifier().fit(rows[:100], y[:100]))


class TestOtherTasks:
    def test_several_outputs_of_any_unit(self):
        both = np.column_stack([VALUES, -1e6 * surface(X)])
        model = HistogramGPRegressor().fit(X, both)
        unit = both.std(axis=0)
        A = formula(X, X, model.kernel_) + model.noise_ * np.eye(N)
        solved = np.linalg.solve(A, (both - both.mean(axis=0)) / unit)
        expected = both.mean(axis=0) + unit * (formula(TEST, X, model.kernel_) @ solved)
        np.testing.assert_allclose(model.predict(TEST) / unit, expected / unit, atol=1e-7)
        other = HistogramGPRegressor().fit(X, both * [1e3, 1e-9])
        np.testing.assert_allclose(other.predict(TEST) * [1e-3, 1e9] / unit, expected / unit, atol=1e-3)

    @pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
    def test_targets_as_they_are(self, unit):
        """Without normalization scales and noise start in units of the targets."""
        values = unit * surface(X)
        model = HistogramGPRegressor(normalize_y=False).fit(X, values)
        close(model.optimization_path_["noise"][0], START_NOISE * np.var(values), rtol=1e-9)
        assert model.score(TEST, unit * surface(TEST)) > 0.9
        plain = HistogramGPRegressor(normalize_y=False).fit(X, surface(X)).optimization_path_
        np.testing.assert_allclose(model.optimization_path_["loss"][:5] - np.log(unit), plain["loss"][:5], atol=1e-2)

    SETS = {  # noqa: RUF012
        "a blob": lambda rng, n: rng.standard_normal((n, 5)),
        "a cube": lambda rng, n: rng.random((n, 3)),
        "histograms": lambda rng, n: rng.dirichlet([5, 5, 1, 1, 0.5], n),
        "two clusters": lambda rng, n: 0.3 * rng.standard_normal((n, 4)) + 3 * rng.choice([-1, 1], (n, 1)),
        "counts": lambda rng, n: rng.poisson(0.4, (n, 30)).astype(float),
        "heavy tails": lambda rng, n: rng.standard_t(3, (n, 4)),
        "many features": lambda rng, n: rng.standard_normal((n, 60)),
    }

    @pytest.mark.parametrize("name", SETS)
    def test_few_new_samples_of_the_trained_kind_are_flagged(self, name):
        rng = np.random.default_rng(0)
        model = HistogramGPOneClass().fit(self.SETS[name](rng, 300))
        assert 0.02 <= np.mean(model.predict(self.SETS[name](rng, 2000)) == -1) <= 0.1

    def test_samples_of_another_kind_are_flagged_on_every_side(self):
        model = HistogramGPOneClass().fit(X)
        for side in (-1, 1):
            assert np.all(model.predict(X + side * 8 * np.eye(D)[0]) == -1)


@pytest.mark.parametrize("probability", ["link", "temperature"])
def test_methods_agree_on_the_best_class(probability):
    rows, y = load_digits(return_X_y=True)
    model = HistogramGPClassifier(probability=probability).fit(rows[:200], y[:200])
    scores = model.decision_function(rows[200:600])
    np.testing.assert_array_equal(model.predict_proba(rows[200:600]).argmax(axis=1), scores.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(rows[200:600]), model.classes_[scores.argmax(axis=1)])
    assert model.score(rows[200:], y[200:]) > 0.8


def test_kernels_that_were_found_are_kernels_like_others():
    """They fit again, copy, and evaluate densely."""
    model = fitted(HistogramGPClassifier)
    again = HistogramGPClassifier(clone(model.kernel_), noise=model.noise_).fit(X, LABELS)
    alike(again.decision_function(TEST), model.decision_function(TEST))
    close(model.kernel_(TEST, X), formula(TEST, X, model.kernel_), rtol=1e-9)
    assert {type(part) for part in model.kernel_.named_parts().values()} & {Laplacian, Gaussian, HistogramIntersection}


def test_an_interrupt_leaves_the_previous_fit(monkeypatch):
    model = fitted(HistogramGPClassifier)
    before = dict(vars(model))

    n_calls, original = [], leave_one_out.leave_one_out_loss

    def interrupt(*arguments, **options):
        n_calls.append(1)
        if len(n_calls) % 3 == 0:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(leave_one_out, "leave_one_out_loss", interrupt)
    for change in (lambda: model.fit(X[:40], LABELS[:40]), lambda: model.forget([0])):
        with pytest.raises(KeyboardInterrupt):
            change()
        assert vars(model) == before


OPERATORS = "histogp._core.operators.pair_operators"


@pytest.mark.parametrize("cls", [HistogramGPClassifier, HistogramGPRegressor])
@pytest.mark.parametrize("memory", [1, 2**40])
def test_above_the_samples_of_a_matrix_decisions_are_the_same(monkeypatch, cls, memory):
    """Classes have a matrix in single precision where there is room for it, otherwise there are landmarks."""
    exact = fitted(cls)
    monkeypatch.setattr(f"{OPERATORS}.MOST_EXACT_SAMPLES", 50)
    monkeypatch.setattr(_decisions, "memory_of_machine", lambda: memory)
    model = fitted(cls)
    is_single = cls is HistogramGPClassifier and memory > 1
    assert set(model.approximation_) == {"float32" if is_single else "nystroem"}
    same_decisions(model, exact)
    found, expected = (getattr(one, "decision_function", one.predict)(TEST) for one in (model, exact))
    np.testing.assert_allclose(found, expected, atol=0.02 if is_single else 0.05 * np.abs(expected).max())


def test_a_matrix_has_limits(monkeypatch):
    monkeypatch.setattr(_decisions, "memory_of_machine", lambda: 4 * 60**2)
    assert suited_approximation(60, 180, 2) == "auto"  # which is exact
    monkeypatch.setattr(f"{OPERATORS}.MOST_EXACT_SAMPLES", 50)
    assert suited_approximation(60, 180, 2) == "single"
    for name, limit in (
        (f"{OPERATORS}.MOST_SINGLE_SAMPLES", 59),
        ("histogp.gp._decisions.MOST_DIFFERENCES", 60 * 180 - 1),
        ("histogp.gp._decisions.MOST_PRODUCTS", 60**2 * 2 - 1),
        ("histogp.gp._decisions.memory_of_machine", lambda: 4 * 60**2 - 1),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(name, limit)
            assert suited_approximation(60, 180, 2) == "auto"
    monkeypatch.setattr(_decisions, "memory_of_machine", lambda: 2**40)
    assert set(HistogramGPClassifier().fit(X, LABELS).approximation_) == {"float32"}
    groups = np.arange(len(LABELS)) // 2  # whose rows a matrix would have to be solved for together
    assert set(HistogramGPClassifier().fit(X, LABELS, groups=groups).approximation_) == {"nystroem"}
    assert set(HistogramGPClassifier(solver="cholesky").fit(X, LABELS).approximation_) == {"nystroem"}  # factors


def test_an_update_that_calls_for_another_approximation_decides_again(monkeypatch):
    monkeypatch.setattr(_decisions, "memory_of_machine", lambda: 4 * 70**2)
    monkeypatch.setattr(f"{OPERATORS}.MOST_EXACT_SAMPLES", 50)
    model = HistogramGPClassifier().fit(X[:45], LABELS[:45])
    for n, expected in ((55, "float32"), (60, "float32"), (75, "nystroem")):
        before = model.kernel_
        with nullcontext() if n == 60 else pytest.warns(ApproximationWarning, match=f"With {n} .*{expected}"):
            model.partial_fit(X[model.n_samples_ : n], LABELS[model.n_samples_ : n])
        assert set(model.approximation_) == {expected}
        if n != 60:  # between decisions
            same_decisions(model, HistogramGPClassifier().fit(X[:n], LABELS[:n]))
        else:
            assert model.kernel_ is before


@pytest.mark.parametrize("far", [1e6, -1e6])
def test_a_sample_far_away_costs_little(far):
    X, y = load_digits(return_X_y=True)
    X = X[:, X[:300].std(axis=0) > 1] - 5.0  # not counts
    spoiled = X[:300].copy()
    spoiled[7, :3] = far
    losses = [
        log_loss(y[300:900], HistogramGPClassifier().fit(rows, y[:300]).predict_proba(X[300:900]))
        for rows in (X[:300], spoiled)
    ]
    assert losses[1] < 1.1 * losses[0]


def test_unusual_samples_are_those_beyond_all_others_together():
    rows = np.random.default_rng(0).normal(size=(200, 4))
    every = np.arange(200)
    assert not unusual_samples(rows, every).any()
    assert not unusual_samples(np.exp(1.5 * rows), every).any()  # a long tail is no exception
    assert not unusual_samples(np.where(rows > 2, 50.0, 1.0), every).any()  # nor is a rare value
    rows[[3, 90], [0, 2]] = 1e4, -1e5
    rows[4, 0] = 9e3
    np.testing.assert_array_equal(np.flatnonzero(unusual_samples(rows, every)), [3, 4, 90])
    np.testing.assert_array_equal(np.flatnonzero(unusual_samples(sparse.csr_array(rows), every)), [3, 4, 90])
    np.testing.assert_array_equal(np.flatnonzero(unusual_samples(rows, every[:80])), [3, 4, 90])
    rows[::2, 1] = 1e6  # half of them are no exceptions
    np.testing.assert_array_equal(np.flatnonzero(unusual_samples(rows, every)), [3, 4, 90])


def test_shifts_do_not_come_from_a_sample_far_away():
    rows, far = X + 3.0, X + 3.0
    far[5, 0] = -1e9
    found = fitted(HistogramGPClassifier, rows=far).kernel_.shift
    np.testing.assert_array_equal(found, np.delete(rows, 5, axis=0).min(axis=0))


class TestUnitsOfWeights:
    """The unit of weights does not matter, nor how often all samples were copied."""

    @pytest.mark.parametrize("weight", [2.0, 10.0, 1 / N, 1e-9])
    def test_one_weight_for_all(self, weight):
        once = fitted(HistogramGPClassifier)
        found = HistogramGPClassifier().fit(X, LABELS, np.full(N, weight))
        np.testing.assert_allclose(found.noise_, weight * once.noise_, rtol=1e-3)
        np.testing.assert_allclose(found.predict_proba(TEST), once.predict_proba(TEST), atol=2e-3)

    def test_copies_of_all(self):
        once = fitted(HistogramGPClassifier)
        found = HistogramGPClassifier().fit(np.repeat(X, 10, axis=0), np.repeat(LABELS, 10))
        np.testing.assert_allclose(found.noise_, 10 * once.noise_, rtol=1e-3)
        np.testing.assert_allclose(found.predict_proba(TEST), once.predict_proba(TEST), atol=2e-3)

    @pytest.mark.parametrize("tiny", [1e-6, 1e-9, 1e-15, 1e-100])
    @pytest.mark.parametrize("make", [HistogramGPClassifier, HistogramGPRegressor])
    def test_weights_next_to_nothing(self, make, tiny):
        weights = np.ones(N)
        weights[:20] = tiny
        found = make().fit(X, TOLD[make], weights)
        without = fitted(make, slice(20, None))
        wanted = labels_of(TEST) if make is HistogramGPClassifier else 5 + 3 * surface(TEST)
        assert found.score(TEST, wanted) > without.score(TEST, wanted) - 0.15
        assert 0.1 * without.noise_ < found.noise_ < 10 * without.noise_

    @pytest.mark.parametrize("class_weight", [None, "balanced"])
    def test_copies_of_everything_change_nothing_though_labels_of_equal_samples_differ(self, class_weight):
        rng = np.random.default_rng(0)
        rows, test = rng.integers(3, size=(60, 3)).astype(float), rng.integers(3, size=(40, 3)).astype(float)
        labels = (rows.sum(axis=1) + rng.normal(size=60) > 3).astype(int)
        model = HistogramGPClassifier(class_weight=class_weight).fit(rows, labels)
        assert len(np.unique(rows, axis=0)) < len(np.unique(np.column_stack([rows, labels]), axis=0)) < 60
        weighted = HistogramGPClassifier(class_weight=class_weight).fit(rows, labels, np.full(60, 2.0))
        copied = HistogramGPClassifier(class_weight=class_weight).fit(np.repeat(rows, 3, axis=0), np.repeat(labels, 3))
        for other, unit in ((weighted, 2), (copied, 3)):
            np.testing.assert_allclose(other.noise_, unit * model.noise_, rtol=1e-3)
            np.testing.assert_allclose(other.predict_proba(test), model.predict_proba(test), atol=1e-3)

    def test_class_weights_make_no_copies(self):
        """Where most samples of every class are single, equal ones come again, whatever their classes weigh."""
        rows = np.round(X[:, :2] * 2)
        rare = np.where(LABELS == "elm", "elm", "other")
        seen = []
        for class_weight in (None, "balanced"):
            model = HistogramGPClassifier("hik", noise=0.3, class_weight=class_weight).fit(rows - rows.min(), rare)
            seen.append(model._posterior.given.row_counts)
        np.testing.assert_array_equal(*seen)

    @pytest.mark.parametrize("class_weight", [None, "balanced", "balanced-ovr"])
    def test_in_any_order_with_equal_rows_and_weights(self, class_weight):
        rng = np.random.default_rng(0)
        index, weights = rng.integers(60, size=N), rng.uniform(0.3, 3, N)
        labels = NAMES[rng.integers(3, size=N)]
        order = rng.permutation(N)
        found = [
            HistogramGPClassifier(class_weight=class_weight).fit(X[index][of], labels[of], weights[of])
            for of in (np.arange(N), order)
        ]
        assert found[0].noise_ == found[1].noise_
        regressors = [HistogramGPRegressor().fit(X[index][of], VALUES[of], weights[of]) for of in (np.arange(N), order)]
        assert regressors[0].noise_ == regressors[1].noise_


class TestRepeatedMeasurements:
    @pytest.mark.parametrize("n_levels", [1, 2, 5, 20])
    def test_values_that_scatter_at_equal_features(self, n_levels):
        rng = np.random.default_rng(n_levels)
        rows = np.repeat(np.arange(float(n_levels)), 200 // n_levels)[:, None]
        truth = np.sin(rows[:, 0] / 5)
        model = HistogramGPRegressor().fit(rows, truth + rng.normal(size=len(rows)))
        mean, std = model.predict(rows, return_std=True)
        assert 0.85 < std.mean() < 1.15
        assert 0.9 < np.mean(np.abs(truth + rng.normal(size=len(rows)) - mean) < 1.96 * std) < 0.99

    @pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
    @pytest.mark.parametrize("n_levels", [1, 3])
    def test_frequencies_of_classes_of_few_rows(self, share, n_levels):
        labels = np.tile(np.arange(200) < 200 * share, n_levels)
        rows = np.repeat(np.arange(float(n_levels)), 200)[:, None]
        found = HistogramGPClassifier().fit(rows, labels).predict_proba(rows[::200])[:, 1]
        np.testing.assert_allclose(found, share, atol=0.02)

    def test_outliers_of_copies_are_those_of_weights(self):
        rows = np.random.default_rng(0).normal(size=(120, 4))
        copies = HistogramGPOneClass().fit(np.vstack([rows, rows]))
        weighted = HistogramGPOneClass().fit(rows, sample_weight=np.full(120, 2.0))
        close(weighted.offset_, copies.offset_)
        close(
            HistogramGPOneClass().fit(rows, sample_weight=np.full(120, 0.1)).offset_,
            HistogramGPOneClass().fit(rows).offset_,
        )

    @pytest.mark.parametrize("copies", [1, 2, 10])
    def test_copies_are_no_reason_to_reject_new_samples(self, copies):
        rng = np.random.default_rng(0)
        rows, new = rng.normal(size=(120, 4)), rng.normal(size=(1000, 4))
        for model in (
            HistogramGPOneClass().fit(np.repeat(rows, copies, axis=0)),
            HistogramGPOneClass().fit(rows, sample_weight=np.full(120, float(copies))),
        ):
            assert 0.02 < np.mean(model.predict(new) < 0) < 0.1


class TestDecisionsThatStay:
    @pytest.mark.parametrize("optimize", [None, "loo", "gradient"])
    def test_keep_decisions_keeps_them_however_many_go(self, optimize):
        model = HistogramGPClassifier(optimize=optimize).fit(X, LABELS)
        noise = model.noise_
        model.forget(np.arange(60), keep_decisions=True)
        assert model.noise_ == noise
        assert model.n_samples_ == N - 60

    def test_forgetting_finds_noise_again_where_a_search_was_asked_for(self):
        rows = X - X.min(axis=0)
        model = HistogramGPClassifier("hik", noise="auto", optimize="gradient").fit(rows, LABELS).forget(np.arange(30))
        other = HistogramGPClassifier("hik", noise="auto", optimize="gradient").fit(rows[30:], LABELS[30:])
        np.testing.assert_allclose(model.noise_, other.noise_, rtol=1e-6)

    def test_parameters_that_are_set_later_count_from_the_next_fit_on(self):
        model = HistogramGPClassifier(noise=0.3).fit(X, LABELS)
        for noise in ("auto", 5.0):
            model.set_params(noise=noise).forget(model.ids_[:1])
            assert model.noise_ == 0.3

    def test_searching_for_what_is_left_out_is_what_auto_does(self):
        plain, searched = (HistogramGPClassifier(optimize=one).fit(X, LABELS) for one in (None, "loo"))
        assert plain.noise_ == searched.noise_
        often = HistogramGPClassifier(optimize=Optimizer(criterion="loo", reoptimize_every=1)).fit(X[:60], LABELS[:60])
        often.partial_fit(X[60:], LABELS[60:])
        assert often.noise_ == plain.noise_


class TestUnitsOfNoise:
    def test_of_a_kernel_by_name_with_few_samples(self):
        rows = 1000 * (X - X.min(axis=0))
        few, enough = (HistogramGPClassifier("hik").fit(rows[:n], LABELS[:n]).noise_ for n in (9, 12))
        assert 0.1 < few / enough < 10

    @pytest.mark.parametrize("optimize", ["bound", Optimizer("gradient", parameters=["scale"])])
    def test_where_a_search_does_not_find_it(self, optimize):
        rows = X - X.min(axis=0)
        found = [
            HistogramGPClassifier("hik", optimize=optimize, random_state=0).fit(unit * rows, LABELS).noise_
            for unit in (1.0, 1000.0)
        ]
        np.testing.assert_allclose(found[1], 1000 * found[0], rtol=1e-2)

    @pytest.mark.parametrize("offset", [0.0, 100.0, 1e4])
    def test_of_targets_far_from_zero(self, offset):
        y = offset + np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(N)
        model = HistogramGPRegressor(normalize_y=False).fit(X, y)
        assert 0.002 < model.noise_ < 0.05

    def test_of_a_kernel_that_does_not_vary(self):
        assert 0.01 <= HistogramGPClassifier(Constant(0.1)).fit(X[:30], LABELS[:30]).noise_ <= 10


def test_probabilities_of_many_samples_in_any_order(monkeypatch):
    monkeypatch.setattr(probability, "MOST_LEFT_OUT", 50)
    monkeypatch.setattr(probability, "SOME_LEFT_OUT", 40)
    order = np.random.default_rng(0).permutation(N)
    found = [fitted(HistogramGPClassifier, of).predict_proba(TEST) for of in (np.arange(N), order)]
    np.testing.assert_allclose(*found, atol=1e-9)


def test_one_class_alone_is_what_is_predicted():
    model = HistogramGPClassifier().fit(X, np.full(N, "elm"))
    assert set(model.predict(TEST)) == {"elm"}
    np.testing.assert_array_equal(model.predict_proba(TEST), np.ones((30, 1)))


def test_a_kernel_by_name_may_be_set_with_its_parameters():
    assert HistogramGPClassifier().set_params(kernel="laplacian", kernel__beta=3.0).kernel.beta == 3.0
    with pytest.raises(ValueError, match="has no parameters"):
        HistogramGPClassifier("hik").set_params(kernel="auto", kernel__beta=3.0)
