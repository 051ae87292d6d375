"""Sums of kernels as users meet them: names and parameters, learning, variances, files; against dense formulas."""

import warnings

import numpy as np
import pytest
from oracles import close, histograms
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import histogp
from histogp import (
    ApproximationWarning,
    HistogramGPClassifier,
    HistogramGPOneClass,
    HistogramGPRegressor,
    NotConvergedWarning,
    Optimizer,
    load,
)
from histogp._core import support
from histogp._core.operators.pair_operators import ApproximateOperator, DenseOperator
from histogp._core.operators.sorted_columns import SortedOperator
from histogp._core.variance import METHODS
from histogp.active import query
from histogp.gp import VARIANCE_METHODS
from histogp.kernels import Chi2, Constant, ExpChi2, Gaussian, HistogramIntersection, Laplacian, Power, Sum, as_kernel

N, D, NOISE = 70, 6, 0.2
X, TEST = histograms(N, D), histograms(9, D, seed=4)
VALUES = np.sin(5 * X[:, 0]) + X[:, 1]
CODES = np.argmax(X[:, :3], axis=1)
KERNELS = {
    "shared": Sum(
        [HistogramIntersection(scale=0.5), Laplacian(unit=0.7), Gaussian(unit=0.4), Constant(0.3)],
        weights=np.linspace(0.5, 2, D),
        transform=Power(0.8),
    ),
    "shifted": Sum(
        [HistogramIntersection(scale=0.5), Laplacian(unit=0.7), Constant(0.3)],
        weights=np.linspace(0.5, 2, D),
        shift=np.linspace(0.1, -0.2, D),
    ),
    "normalized": Sum([HistogramIntersection(), Gaussian(unit=0.1)], normalize="l1"),
    "apart": HistogramIntersection(columns=[0, 1, 5]) + 0.5 * ExpChi2(beta=2.0, columns=slice(2, 5)),
    "stacked": HistogramIntersection(columns=[0, 2]) + 2.0 * HistogramIntersection(Power(0.5)) + Constant(0.3),
    "columns": HistogramIntersection(columns=[1, 3, 4], weights=[1.0, 2.0, 0.5]),
    "chi2": Chi2(weights=0.5) + Laplacian(unit=1.0),
}
OPERATORS = {"stacked": SortedOperator, "columns": SortedOperator}
by_kernel = pytest.mark.parametrize("name", KERNELS)


def solved(kernel, values=VALUES, rows=X, noise=NOISE):
    """Means and latent variances of the test rows by dense formulas."""
    A, k = kernel(rows) + noise * np.eye(len(rows)), kernel(TEST, rows)
    return k @ np.linalg.solve(A, values), kernel(TEST).diagonal() - np.einsum("ij,ji->i", k, np.linalg.solve(A, k.T))


def density(kernel, noise=NOISE):
    """The logarithm of the density of the values."""
    return stats.multivariate_normal(np.zeros(N), kernel(X) + noise * np.eye(N)).logpdf(VALUES)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@by_kernel
def test_mean_variance_and_likelihood_are_those_of_the_dense_sum(name, container):
    kernel = KERNELS[name]
    model = HistogramGPRegressor(kernel, normalize_y=False, noise=NOISE, tol=1e-10).fit(container(X), VALUES)
    assert isinstance(model._posterior.operator, OPERATORS.get(name, DenseOperator))
    assert model.approximation_ == {}
    mean, variance = solved(kernel)
    close(model.predict(container(TEST)), mean, rtol=1e-9)
    close(model.predict_variance(container(TEST), include_noise=False), variance, rtol=1e-9)
    close(model.predict_variance(TEST, "auto"), variance + NOISE, rtol=1e-9)
    close(model.log_marginal_likelihood(method="exact"), density(kernel), rtol=1e-9)
    shares = model.kernel_shares_
    assert not shares or abs(sum(shares.values()) - 1) < 1e-12
    assert len(model.feature_relevance_) == D


@by_kernel
def test_every_method_of_the_variance_bounds_or_estimates_it_or_names_the_part_that_cannot(name):
    kernel = KERNELS[name]
    model = HistogramGPRegressor(kernel, normalize_y=False, noise=NOISE, tol=1e-8).fit(X, VALUES)
    variance = solved(kernel)[1]
    for method in VARIANCE_METHODS:
        is_there = method in model.posterior_.variance_methods
        assert is_there == (name in OPERATORS or not METHODS[method].needs_tables)
        if not is_there and method != "calibrated":  # in whose place "precise" comes, here always
            part = {"apart": "exp_chi2", "normalized": "gaussian"}.get(name, "laplacian")
            with pytest.raises(
                ValueError, match=f"needs tables over single features, which the part '{part}' does not"
            ):
                model.predict_variance(TEST, method)
            continue
        found = model.predict_variance(TEST, method, include_noise=False)
        match METHODS["precise" if method == "calibrated" else method].kind:
            case "exact":
                np.testing.assert_allclose(found, variance, rtol=1e-6)
            case "estimate":
                np.testing.assert_allclose(found, variance, rtol=0.5)
            case "bound":
                assert np.all(found >= variance * (1 - 1e-6))


@by_kernel
def test_updates_are_fits(name):
    kernel = KERNELS[name]
    labels = np.array(["a", "b", "c"])[CODES]
    model = HistogramGPClassifier(kernel, noise=NOISE, tol=1e-9).fit(X[:40], labels[:40])
    model.partial_fit(X[40:], labels[40:]).forget([3, 60]).relabel([5], ["b"])
    kept = np.delete(np.arange(N), [3, 60])
    labels[5] = "b"
    fresh = HistogramGPClassifier(kernel, noise=NOISE, tol=1e-9).fit(X[kept], labels[kept])
    close(model.decision_function(TEST), fresh.decision_function(TEST), rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(TEST), fresh.predict_proba(TEST), rtol=1e-5)
    np.testing.assert_array_equal(model._training_samples()[0].toarray(), X[kept])


@by_kernel
def test_files_hold_all_of_it(name, tmp_path):
    model = HistogramGPClassifier(KERNELS[name], noise=NOISE, prediction="quantized").fit(X, CODES)
    model.save(tmp_path / "whole")
    model.save(tmp_path / "predicts", include_training=False)
    for path in ("whole", "predicts"):
        same = load(tmp_path / path)
        np.testing.assert_allclose(same.decision_function(TEST), model.decision_function(TEST), rtol=1e-12)
    same = load(tmp_path / "whole").partial_fit(TEST, np.zeros(9, int))
    again = model.partial_fit(TEST, np.zeros(9, int))
    np.testing.assert_allclose(same.decision_function(TEST), again.decision_function(TEST), rtol=1e-9)
    exact = clone(model).set_params(prediction="exact").fit(X, CODES)
    quantized = clone(model).fit(X, CODES)
    assert (exact.predict(TEST) == quantized.predict(TEST)).all()


@by_kernel
def test_other_models_take_sums_as_well(name):
    kernel = KERNELS[name]
    weights = np.linspace(1, 2, N)
    model = HistogramGPRegressor(kernel, normalize_y=False, noise=NOISE, tol=1e-10).fit(
        X, VALUES, sample_weight=weights
    )
    A = kernel(X) + np.diag(NOISE / weights)
    close(model.predict(TEST), kernel(TEST, X) @ np.linalg.solve(A, VALUES), rtol=1e-8)
    one_class = HistogramGPOneClass(kernel, contamination=0.1, noise=NOISE).fit(X)
    assert set(one_class.predict(TEST)) <= {-1, 1}
    classifier = HistogramGPClassifier(kernel, noise=NOISE, class_weight="balanced-ovr").fit(X, CODES)
    assert classifier.novelty(TEST).max() <= 1 + 1e-9
    assert len(query(classifier, TEST, batch_size=2)) == 2


@by_kernel
def test_a_constant_does_not_count_in_novelty(name):
    kernel = KERNELS[name]
    model = HistogramGPClassifier(kernel, noise=NOISE, tol=1e-10).fit(X, CODES)
    constant = 0.3 if name in ("shared", "shifted", "stacked") else 0.0
    prior = kernel(TEST).diagonal() - constant
    expected = np.minimum(solved(kernel)[1] / np.where(prior > 0, prior, 1.0), 1.0)
    close(model.novelty(TEST), expected, rtol=1e-8)


def test_parts_have_names_and_parameters():
    kernel = HistogramIntersection() + 0.5 * Laplacian() + Laplacian(2.0) + Constant(0.1)
    assert list(kernel.named_parts()) == ["histogram_intersection", "laplacian", "laplacian_2", "constant"]
    assert kernel.get_params()["laplacian__scale"] == 0.5
    kernel.set_params(laplacian_2__beta=3.0, constant=Gaussian(7.0))
    assert kernel.get_params()["laplacian_2__beta"] == 3.0
    assert isinstance(kernel.named_parts()["constant"], Gaussian)
    named = Sum(wide=Laplacian(0.1), narrow=Laplacian(10.0), weights=2.0)
    assert list(named.named_parts()) == ["wide", "narrow"]
    assert named.weights == 2.0
    copied = clone(named).set_params(wide__beta=0.2)
    assert (named.parts[0][1].beta, copied.parts[0][1].beta) == (0.1, 0.2)
    assert repr(2 * named) == repr(clone(named).set_params(wide__scale=2.0, narrow__scale=2.0))
    model = HistogramGPRegressor(named, noise=0.1, normalize_y=False).set_params(kernel__narrow__beta=5.0)
    assert model.kernel.get_params()["narrow__beta"] == 5.0
    search = GridSearchCV(
        HistogramGPRegressor("hik + laplacian", noise=0.1, normalize_y=False),
        {"kernel__laplacian__beta": [0.5, 2.0], "noise": [0.1]},
        cv=2,
    )
    assert search.fit(X, VALUES).best_params_["kernel__laplacian__beta"] in (0.5, 2.0)


def test_sums_of_sums():
    flat = HistogramIntersection() + Laplacian() + (Gaussian() + Constant())
    assert len(flat.parts) == 4
    shared = Sum([Laplacian(unit=1.0)], weights=2.0)
    nested = shared + Gaussian(unit=1.0)
    assert list(nested.named_parts()) == ["sum", "gaussian"]
    close(nested(X), shared(X) + Gaussian(unit=1.0)(X))
    close(sum([Gaussian(unit=1.0), Constant(2.0)])(X), Gaussian(unit=1.0)(X) + 2.0)
    close((3 * nested)(X), 3 * nested(X))


def test_short_names_add_up():
    assert repr(as_kernel("hik + laplacian")) == repr(Sum([HistogramIntersection(), Laplacian()]))
    with pytest.raises(ValueError, match="Unknown kernel 'lapacian'; known names are"):
        as_kernel("hik + lapacian")


SIGNED = np.random.default_rng(0).standard_normal((30, 3))


def test_signs_follow_the_parts():
    y = SIGNED[:, 0]
    shifted = Sum([HistogramIntersection(), Laplacian()], shift=0.0)
    for kernel in ("laplacian", "gaussian + constant", Laplacian() + Gaussian(), shifted):
        model = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False)
        assert not model.__sklearn_tags__().input_tags.positive_only
        assert np.isfinite(model.fit(SIGNED, y).predict(SIGNED)).all()
    for kernel in ("hik + laplacian", Laplacian() + ExpChi2()):
        assert HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).__sklearn_tags__().input_tags.positive_only
        with pytest.raises(ValueError, match=r"[Nn]egative"):
            HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(SIGNED, y)


def test_a_shift_and_normalized_rows_are_those_of_the_features():
    parts = [HistogramIntersection(scale=0.5), Laplacian(unit=0.7), Gaussian(unit=0.3)]
    shift, weights = np.array([-1.0, 0.5, 0.0]), np.array([1.0, 2.0, 0.5])
    for container in (np.asarray, sparse.csr_array):
        for norm in (None, "l1"):
            kernel = Sum(parts, weights=weights, shift=shift, normalize=norm)
            seen = SIGNED if norm is None else SIGNED / np.abs(SIGNED).sum(axis=1, keepdims=True)
            a, b = (weights * (one - shift) for one in (seen[:, None], seen[None, :9]))
            minima = np.minimum(np.maximum(a, 0), np.maximum(b, 0)) + np.minimum(np.maximum(-a, 0), np.maximum(-b, 0))
            expected = 0.5 * minima.sum(axis=2) + np.exp(-np.abs(a - b).sum(axis=2) / 0.7)
            expected += np.exp(-((a - b) ** 2).sum(axis=2) / 0.3)
            close(kernel(container(SIGNED), container(SIGNED[:9])), expected)
    rows = np.vstack([X, np.zeros(D)])
    close(KERNELS["normalized"](rows)[-1, -1], 1.0)  # a row without anything stays so


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Laplacian(unit=1.0, columns=[0, 1]), Laplacian(unit=1.0, columns=[2, 3])),
        (HistogramIntersection(columns=[0, 1]), HistogramIntersection(columns=[2, 3])),
        (KERNELS["apart"], Laplacian(unit=2.0)),
        (KERNELS["apart"], KERNELS["chi2"]),
        (Chi2(30, columns=[0, 1]), Chi2(30, columns=[2, 3])),
    ],
)
def test_the_likelihood_of_another_kernel_is_its_own(first, second):
    model = HistogramGPRegressor(first, normalize_y=False, noise=NOISE).fit(X, VALUES)
    close(model.log_marginal_likelihood(second, method="exact"), density(second), rtol=1e-6)


def test_weights_may_be_zero_in_sparse_data():
    rows = sparse.csr_array(sparse.random(40, 60, density=0.05, random_state=0))
    kernel = Sum([Chi2(), Laplacian(unit=1.0), ExpChi2(beta=1.0)], weights=np.arange(60) % 2)
    kept = Sum([Chi2(), Laplacian(unit=1.0), ExpChi2(beta=1.0)])
    close(kernel(rows), kept(rows.toarray()[:, 1::2]))


@pytest.mark.parametrize(
    "kernel",
    [
        0.25 * HistogramIntersection(weights="ard") + Constant(),
        Sum([("my_transform", HistogramIntersection(scale=4.0)), ("l", Laplacian())]),
        Sum(inner=Sum([Laplacian(), Constant(0.5)], weights="ard"), outer=Gaussian()),
        0.3 * Chi2(weights="ard"),
    ],
)
def test_the_kernel_that_was_found_is_that_of_the_model(kernel, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        model = HistogramGPRegressor(kernel, normalize_y=False, optimize=Optimizer("exact", max_steps=10)).fit(
            X, VALUES
        )
    close(model._posterior.operator.matrix(), model.kernel_(X), rtol=1e-2 if isinstance(kernel, Chi2) else 1e-9)
    model.save(tmp_path / "m")
    np.testing.assert_allclose(load(tmp_path / "m").predict(TEST), model.predict(TEST), rtol=1e-9)


def test_weights_are_searched_again_after_updates():
    for kernel in (
        HistogramIntersection(columns=[0, 1, 3], weights="ard"),
        2.0 * Laplacian(weights="ard") + Constant(),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            model = HistogramGPRegressor(kernel, normalize_y=False, optimize=Optimizer("exact", max_steps=5)).fit(
                X[:35], VALUES[:35]
            )
            model.partial_fit(X[35:], VALUES[35:])
        found = model.kernel_.get_params()
        weights = found.get("laplacian__weights", found.get("weights"))
        assert np.asarray(weights).dtype == float
        close(model._posterior.operator.matrix(), model.kernel_(X), rtol=1e-9)


def test_short_names_of_hyperparameters_are_those_of_all_parts():
    kernel = Laplacian(0.5) + Laplacian(5.0)
    search = Optimizer("exact", parameters=["beta"])
    model = HistogramGPRegressor(kernel, noise=0.1, normalize_y=False, optimize=search).fit(X, VALUES)
    found = model.kernel_.get_params()
    assert found["laplacian__beta"] != 0.5
    assert found["laplacian_2__beta"] != 5.0
    assert model.noise_ == 0.1
    model = HistogramGPRegressor(kernel, normalize_y=False, optimize=Optimizer("bound", criterion="loo")).fit(X, VALUES)
    assert model.noise_ != 0.1


def test_sums_copy_their_parts():
    part = HistogramIntersection()
    kernel = part + part
    kernel.set_params(histogram_intersection__scale=5.0)
    assert (part.scale, kernel.get_params()["histogram_intersection_2__scale"]) == (1.0, 1.0)
    special = Sum([Laplacian()], approximation="nystroem", n_components=50) + Constant()
    assert special.get_params()["sum__n_components"] == 50


def test_forgetting_is_a_fit_without():
    model = HistogramGPRegressor(Laplacian(), normalize_y=False, noise=NOISE).fit(X, VALUES).forget(np.arange(30))
    fresh = HistogramGPRegressor(Laplacian(), normalize_y=False, noise=NOISE).fit(X[30:], VALUES[30:])
    assert model.kernel_.unit == fresh.kernel_.unit
    close(model.predict(TEST), fresh.predict(TEST), rtol=1e-9)


def test_support_stays_in_double_precision_where_single_is_too_coarse():
    model = HistogramGPRegressor(Gaussian(), normalize_y=False, noise=1e-9).fit(X, VALUES)
    exact = model.predict(TEST)
    np.testing.assert_allclose(model.set_params(prediction="quantized").predict(TEST), exact, atol=0.05)
    far = HistogramGPRegressor(Gaussian(), normalize_y=False, noise=0.1).fit(1e4 + X, VALUES)
    exact = far.predict(TEST + 1e4)
    np.testing.assert_allclose(far.set_params(prediction="quantized").predict(TEST + 1e4), exact, atol=0.05)


def test_columns_of_the_additive_chi2_kernel(tmp_path):
    columns = [1, 4, 5]
    model = HistogramGPRegressor(Chi2(8, columns=columns, scale=2.0), normalize_y=False, noise=NOISE, tol=1e-10).fit(
        X, VALUES
    )
    alone = HistogramGPRegressor(Chi2(8, scale=2.0), normalize_y=False, noise=NOISE, tol=1e-10).fit(
        X[:, columns], VALUES
    )
    close(model.predict(TEST), alone.predict(TEST[:, columns]))
    close(model.predict_variance(TEST), alone.predict_variance(TEST[:, columns]))
    close(model.kernel_(X), alone.kernel_(X[:, columns]))
    close(model.feature_relevance_[columns], alone.feature_relevance_)
    assert model.approximation_.keys() == {"expansion"}
    model.save(tmp_path / "m")
    close(load(tmp_path / "m").predict(TEST), alone.predict(TEST[:, columns]))
    searched = HistogramGPRegressor(Chi2(weights="ard", columns=columns), normalize_y=False, optimize="gradient").fit(
        X, VALUES
    )
    assert searched.kernel_.weights.shape == (3,)


WRONG = {
    "no parts": (Sum([]), "A sum has a list of at least one kernel"),
    "no kernel": (Sum([Laplacian(), "hik"]), "The parts of a sum are kernels, or pairs of a name and a kernel"),
    "names twice": (Sum([("a", Laplacian()), ("a", Gaussian())]), "A part needs a name of its own"),
    "a name with underscores": (Sum([("a__b", Laplacian())]), "without two underscores in a row"),
    "a name of a parameter": (Sum([("weights", Laplacian())]), "cannot be called 'weights'"),
    "weights twice": (
        Sum([Laplacian(weights=2.0)], weights=1.0),
        "'laplacian' has weights of its own, and the sum has",
    ),
    "columns of a part": (Sum([Laplacian(columns=[0])], transform=Power()), "'laplacian' has columns of its own"),
    "columns that are not there": (Laplacian(columns=[0, 17]), "columns must be a slice, or numbers of some of the 6"),
    "columns twice": (HistogramIntersection(columns=[1, 1]), "columns must be a slice, or numbers"),
    "a scale": (Sum([Laplacian(scale=0.0)]), "scale must be a number above 0; got 0.0"),
    "a scale of the intersection kernel": (HistogramIntersection(scale=-1.0), "scale must be a number above 0"),
    "an approximation": (Laplacian(approximation="some"), "approximation must be one of 'auto', 'exact'"),
    "waves of a sum": (Sum([Laplacian(), Constant()], approximation="fourier"), '"fourier" is for one kernel alone'),
    "a sum in a sum that shares": (
        Sum([Sum([Laplacian()])], weights=2.0),
        "is a sum of its own, and the sum has weights",
    ),
    "a shift": (Sum([Laplacian()], shift=[1.0, 2.0]), "shift must be one finite number, or one for each of the 6"),
    "a norm": (Sum([Laplacian()], normalize="l2"), 'normalize must be "l1", a mask of features or None'),
    "a shift of parts": (
        Sum([Laplacian()], shift=1.0, approximation="parts"),
        'approximation="parts" shares nothing: with shift take another approximation',
    ),
    "components": (Gaussian(n_components=1), "n_components must be a whole number from 2 to"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_makes_no_sense_is_refused_by_a_sentence(name):
    kernel, sentence = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=sentence):
        HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X, VALUES)


def test_a_sum_takes_parts_in_one_way():
    with pytest.raises(TypeError, match="Parts come as a list or by name, not both; got also narrow"):
        Sum([Laplacian()], narrow=Gaussian())
    with pytest.raises(TypeError, match="unsupported operand"):
        Laplacian() + 1


def test_a_search_finds_all_parts_and_shared_weights_once():
    kernel = Sum([HistogramIntersection(), Laplacian(), Gaussian()], weights="ard", transform=Power(1.0))
    for optimizer in (Optimizer("exact", max_steps=15), Optimizer(criterion="loo")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            model = HistogramGPRegressor(kernel, normalize_y=False, optimize=optimizer, random_state=0).fit(X, VALUES)
        assert model.kernel_.weights.shape == (D,)
        assert {"laplacian__beta", "gaussian__scale", "transform__eta", "noise"} <= model.optimization_path_.keys()
        assert model.kernel_.get_params()["laplacian__beta"] != 1.0
        again = HistogramGPRegressor(model.kernel_, normalize_y=False, noise=model.noise_, tol=1e-10).fit(X, VALUES)
        np.testing.assert_allclose(again.predict(TEST), model.predict(TEST), rtol=1e-6)


def test_a_search_of_stacked_kernels_is_exact_where_the_dense_likelihood_says_so():
    kernel = KERNELS["stacked"]
    model = HistogramGPRegressor(kernel, normalize_y=False, optimize="exact").fit(X, VALUES)
    expected = density(model.kernel_, model.noise_)
    close(model.log_marginal_likelihood_, expected, rtol=1e-8)
    assert expected > density(kernel)


def test_support_grows_until_it_predicts_well(monkeypatch):
    monkeypatch.setattr(support, "FEWEST_SAMPLES", 20)
    rows = histograms(400, D)
    codes = np.argmax(rows[:, :3], axis=1)
    kernel = HistogramIntersection() + Gaussian()
    exact = HistogramGPClassifier(kernel, noise=NOISE).fit(rows, codes)
    for small, share in ((10.0, 1 / 8), (0.0, 1)):
        monkeypatch.setattr(support, "SMALL_ERROR", small)
        model = HistogramGPClassifier(kernel, noise=NOISE, prediction="quantized").fit(rows, codes)
        scores = model.decision_function(TEST)
        found = model._posterior.quantized(model._grid())
        assert found.rows.n_rows == share * 400
        error = np.sqrt(np.mean((scores - exact.decision_function(TEST)) ** 2))
        assert error < (0.15 if share < 1 else 1e-4)
        with pytest.raises(ValueError, match="There is no bound of the error with this kernel; measured"):
            model.quantization_error_bound()


def test_a_sum_outgrows_its_matrix(monkeypatch):
    monkeypatch.setattr("histogp._core.operators.pair_operators.MOST_EXACT_SAMPLES", 50)
    kernel = Sum([HistogramIntersection(), Laplacian(unit=0.7)], n_components=40)
    model = HistogramGPRegressor(kernel, normalize_y=False, noise=NOISE).fit(X[:45], VALUES[:45])
    with pytest.warns(ApproximationWarning, match="With 70 distinct training samples the kernel is approximated"):
        model.partial_fit(X[45:], VALUES[45:])
    assert isinstance(model._posterior.operator, ApproximateOperator)
    fresh = HistogramGPRegressor(kernel, normalize_y=False, noise=NOISE).fit(X, VALUES)
    close(model.predict(TEST), fresh.predict(TEST), rtol=1e-8)
    assert 0 < fresh.approximation_["nystroem"] < 0.2
    np.testing.assert_allclose(fresh.predict(TEST), solved(kernel)[0], atol=0.2)
    # Never too small far away from all landmarks.
    far = 50 * np.eye(D)
    assert fresh.predict_variance(far, include_noise=False).min() > 0.9


def test_single_precision_is_the_model(monkeypatch):
    monkeypatch.setattr("histogp._core.operators.pair_operators.MOST_EXACT_SAMPLES", 50)
    kernel = Laplacian(unit=0.7, approximation="exact")
    model = HistogramGPRegressor(kernel, normalize_y=False, noise=NOISE).fit(X, VALUES)
    assert model.approximation_ == {"float32": np.finfo(np.float32).eps}
    mean, variance = solved(kernel)
    np.testing.assert_allclose(model.predict(TEST), mean, atol=1e-5)
    np.testing.assert_allclose(model.predict_variance(TEST, include_noise=False), variance, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_noise_of_a_search_by_leave_one_out_follows_the_targets(unit):
    """Real targets have any unit, and may have little noise."""
    rows = histograms(200, D)
    values = unit * np.sin(5 * rows[:, 0])
    options = {"optimize": Optimizer(criterion="loo"), "noise": 0.1 * unit**2, "random_state": 0}
    kernel = HistogramIntersection(scale=unit**2) + Laplacian(scale=unit**2)
    model = HistogramGPRegressor(kernel, normalize_y=False, **options).fit(rows, values)
    assert model.noise_ < 0.005 * unit**2
    assert model.score(TEST, unit * np.sin(5 * TEST[:, 0])) > 0.95


REPLACED = {
    "a sum by a part": ("hik + laplacian", "laplacian"),
    "a part by a sum": ("laplacian", "hik + laplacian"),
    "a sum by another": (HistogramIntersection() + Laplacian(), HistogramIntersection() + Gaussian()),
    "exp-chi2": ("exp-chi2", "laplacian"),
    "another width": (ExpChi2(), ExpChi2(beta=30.0)),
    "another unit": (Laplacian(), Laplacian(unit=30.0)),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_kernel_that_was_set_counts_from_the_next_fit_on(name, tmp_path):
    before, after = REPLACED[name]
    codes = np.argmax(X[:, :3], axis=1)
    model = HistogramGPClassifier(before, noise=0.1, random_state=0).fit(X, codes)
    model.save(tmp_path / "model")
    fresh = HistogramGPClassifier(before, noise=0.1, random_state=0).fit(X[1:], codes[1:])
    for one in (model, histogp.load(tmp_path / "model")):
        one.set_params(kernel=after).forget(one.ids_[:1])
        np.testing.assert_allclose(one.decision_function(TEST), fresh.decision_function(TEST), atol=1e-9)
        assert str(one.kernel_) == str(fresh.kernel_)


def test_updates_of_few_samples_choose_landmarks_as_a_fit_does():
    codes = np.argmax(X[:, :3], axis=1)
    kernel = Laplacian(approximation="nystroem", n_components=20)
    model = (
        HistogramGPClassifier(kernel, noise=0.1, random_state=0)
        .partial_fit(X[:40], codes[:40])
        .partial_fit(X[40:], codes[40:])
    )
    fresh = HistogramGPClassifier(kernel, noise=0.1, random_state=0).fit(X, codes)
    np.testing.assert_allclose(model.decision_function(TEST), fresh.decision_function(TEST), atol=1e-9)


def test_models_that_only_predict_say_what_their_variance_needs(tmp_path):
    codes = np.argmax(X[:, :3], axis=1)
    model = HistogramGPClassifier("hik + laplacian", noise=0.1, prediction="quantized").fit(X, codes)
    model.save(tmp_path / "model", include_training=False)
    loaded = histogp.load(tmp_path / "model")
    for ask in (loaded.novelty, loaded.predict_variance):
        with pytest.raises(ValueError, match='which the variance of this kernel needs; with approximation="nystroem"'):
            ask(TEST)


@pytest.mark.parametrize(
    "columns", [[0, 2], (1, 2), range(1, 3), np.array([3, 0]), slice(1, 3), [True, True] + [False] * (D - 2)]
)
def test_columns_come_back_from_files_as_they_select(columns, tmp_path):
    codes = np.argmax(X[:, :3], axis=1)
    model = HistogramGPClassifier(Laplacian(columns=columns), noise=0.1).fit(X, codes)
    model.save(tmp_path / "model")
    loaded = histogp.load(tmp_path / "model")
    np.testing.assert_array_equal(
        X[:, loaded.kernel_.columns], X[:, list(columns) if not isinstance(columns, slice) else columns]
    )
    np.testing.assert_allclose(loaded.decision_function(TEST), model.decision_function(TEST), rtol=1e-9)


@pytest.mark.parametrize("name", ["scale", "columns"])
def test_what_a_sum_does_not_have_is_refused(name):
    with pytest.raises(TypeError, match=f"A sum has no {name}"):
        Sum([Laplacian()], **{name: 2.0})


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_features_that_overflow_are_refused_by_a_sentence(kernel):
    with pytest.raises(ValueError, match="The kernel overflows on these features"):
        HistogramGPRegressor(kernel, noise=0.1, normalize_y=False).fit(X * 1e306, VALUES)
