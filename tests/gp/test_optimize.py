"""Hyperparameters found by an estimator."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from discovery import all_transforms
from kernel_operators import kernel_operator
from oracles import Log, alike, histograms, kernel_matrix
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import histogp
from histogp import HistogramGPClassifier, HistogramGPRegressor, Optimizer
from histogp._sklearn import HAS_CALLBACKS
from histogp.datasets import make_bags_of_words, make_planted_words, make_relevance_test
from histogp.kernels import Chi2, Exponential, HistogramIntersection, Power

N = 150
RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(N, 4))
K_TRUE = kernel_matrix(X, X, HistogramIntersection(Power(0.7), 0.5))
Y = RNG.multivariate_normal(np.zeros(N), K_TRUE + 0.05 * np.eye(N))
CODES = np.digitize(Y, np.quantile(Y, [0.3, 0.7]))


def negative_log_density(theta, y=Y):
    noise, scale, eta = np.exp(theta)
    K = kernel_matrix(X, X, HistogramIntersection(Power(eta), scale)) + noise * np.eye(N)
    return -multivariate_normal(np.zeros(N), K).logpdf(y)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "gradient"])
def test_the_optimum_is_that_of_the_density(method):
    """SciPy's simplex on SciPy's density is the oracle."""
    reg = HistogramGPRegressor(
        "hik-poly", normalize_y=False, optimize=Optimizer(method, prior_width=None), random_state=0
    ).fit(X, Y)
    oracle = minimize(negative_log_density, np.log([0.1, 1.0, 0.5]), method="Nelder-Mead", options={"fatol": 1e-6})
    assert -reg.log_marginal_likelihood_ == pytest.approx(oracle.fun, abs=0.01)
    found = [reg.noise_, reg.kernel_.scale, reg.kernel_.transform.eta]
    np.testing.assert_allclose(np.log(found), oracle.x, atol=0.1)
    assert reg.log_marginal_likelihood(method="exact") == pytest.approx(reg.log_marginal_likelihood_)
    # What is fitted is the posterior with what was found.
    again = HistogramGPRegressor(reg.kernel_, normalize_y=False, noise=reg.noise_).fit(X, Y)
    np.testing.assert_allclose(reg.predict(X), again.predict(X), rtol=1e-10)


def test_the_priors_hardly_count_for_so_many_examples():
    with_prior, without = (
        HistogramGPRegressor("hik-poly", normalize_y=False, optimize=Optimizer("exact", prior_width=width)).fit(X, Y)
        for width in (1.0, None)
    )
    assert without.log_marginal_likelihood_ - 0.5 < with_prior.log_marginal_likelihood_
    assert with_prior.log_marginal_likelihood_ <= without.log_marginal_likelihood_ + 1e-3


@pytest.mark.parametrize("bound", ["tightest", "fischer", "papers"])
def test_the_bound_improves_the_likelihood_and_leaves_the_noise_alone(bound):
    start = HistogramGPClassifier("hik-poly", noise=0.1).fit(X, CODES)
    clf = clone(start).set_params(optimize=Optimizer("bound", bound=bound)).fit(X, CODES)
    assert clf.noise_ == clf.noise == 0.1
    assert "noise" not in clf.optimization_path_
    exact = clf.log_marginal_likelihood(method="exact")
    assert exact > start.log_marginal_likelihood(method="exact")
    assert clf.log_marginal_likelihood_ <= exact
    # It is the best of the path, and the bound at what was found, but for the random start of the subspace.
    again = clf.log_marginal_likelihood(method="bound", bound=bound)
    assert again == pytest.approx(clf.log_marginal_likelihood_, rel=0.01)
    assert clf.log_marginal_likelihood_ == pytest.approx(clf.optimization_path_["log_marginal_likelihood"].max(), abs=1)


@pytest.mark.slow
def test_samples_and_estimates_come_to_the_exact_optimum():
    X, y = make_bags_of_words(900, n_words=100, n_classes=3, random_state=0)
    options = {"kernel": "hik-poly", "random_state": 0}
    estimated, exact = (HistogramGPClassifier(optimize=method, **options).fit(X, y) for method in ("gradient", "exact"))
    assert exact.log_marginal_likelihood() - estimated.log_marginal_likelihood() < 3
    assert set(estimated.optimization_path_["n_samples"]) == {500, 900}
    assert estimated.log_marginal_likelihood_error_ > 0
    error = estimated.log_marginal_likelihood() - estimated.log_marginal_likelihood_
    assert abs(error) < 4 * estimated.log_marginal_likelihood_error_


@pytest.mark.filterwarnings("ignore:The search for hyperparameters ended")  # the simplex is slow with eight weights
def test_the_papers_relevance_test():
    X, y = make_relevance_test(40, random_state=1)
    X_test, y_test = make_relevance_test(250, random_state=2)
    kernel = HistogramIntersection(weights="ard")
    clf = HistogramGPClassifier(kernel, optimize="gradient", random_state=0).fit(X, y)
    assert set(np.argsort(-clf.kernel_.weights)[:2]) == {0, 1}
    assert clf.score(X_test, y_test) > HistogramGPClassifier("hik", noise=0.1).fit(X, y).score(X_test, y_test)
    by_simplex = HistogramGPClassifier(kernel, optimize=Optimizer("bound", max_steps=300), random_state=0).fit(X, y)
    assert set(np.argsort(-by_simplex.kernel_.weights)[:2]) == {0, 1}


def test_planted_features_are_found_and_the_rest_is_pruned():
    X, y, relevant = make_planted_words(3000, 200, n_relevant=5, random_state=0)
    clf = HistogramGPClassifier(HistogramIntersection(weights="ard"), optimize="gradient", random_state=0).fit(X, y)
    weights = clf.kernel_.weights
    assert set(np.argsort(-weights)[:5]) == set(relevant)
    assert np.count_nonzero(weights == 0) > 20
    assert weights[weights > 0].min() >= 1e-4 * weights.max()
    assert clf.optimization_path_["n_weights"][-1] == np.count_nonzero(weights)
    common = HistogramGPClassifier("hik", optimize="gradient", random_state=0).fit(X, y)
    assert clf.log_marginal_likelihood_ > common.log_marginal_likelihood_ + 100


def test_a_gradient_of_all_weights_costs_as_many_products_whatever_their_number(monkeypatch):
    """One pass over the data for each block of vectors: nothing grows with the number of weights."""
    from histogp._core._numba import column_loops

    calls = []
    original = column_loops.quadratic_forms
    monkeypatch.setattr(column_loops, "quadratic_forms", lambda *a: (calls.append(a[7] - a[6]), original(*a)))

    U = RNG.standard_normal((60, 16))
    for n_features in (5, 500):
        calls.clear()
        X = RNG.random((60, n_features))
        operator = kernel_operator(X, HistogramIntersection(), 1)
        assert operator.gradient(U, U)["weights"].shape == (n_features,)
        assert sum(calls) == n_features  # every column once


def test_groups_have_one_weight_and_one_eta():
    groups = ["hog", "hog", "bow", "bow"]
    kernel = HistogramIntersection(Power([0.5, 1.0]), "ard", groups)
    for method in ("exact", "gradient", "bound"):
        reg = HistogramGPRegressor(kernel, normalize_y=False, optimize=method, random_state=0).fit(X, Y)
        assert reg.kernel_.weights.shape == reg.kernel_.transform.eta.shape == (2,)
        assert reg.optimization_path_["transform__eta"].shape[1:] == (2,)
        assert reg.predict(X).shape == (N,)
    order = np.array(groups) == "hog"
    same = HistogramIntersection(Power(np.where(order, 1.0, 0.5)), np.where(order, 3.0, 2.0))
    np.testing.assert_array_equal(HistogramIntersection(Power([0.5, 1.0]), [2, 3], groups)(X), same(X))


@pytest.mark.parametrize("parameters", [["noise"], ["scale"], ["transform__eta"], ["noise", "eta"]])
def test_only_what_is_named_changes(parameters):
    optimizer = Optimizer("exact", parameters=parameters)
    reg = HistogramGPRegressor(
        HistogramIntersection(Power(0.5), 2.0, scale=3.0), noise=0.1, normalize_y=False, optimize=optimizer
    ).fit(X, Y)
    assert reg.kernel_.weights == 2.0
    changed = {
        "noise": reg.noise_ != 0.1,
        "scale": reg.kernel_.scale != 3.0,
        "transform__eta": reg.kernel_.transform.eta != 0.5,
    }
    assert [name for name, is_changed in changed.items() if is_changed] == [
        name for name in changed if name.removeprefix("transform__") in parameters or name in parameters
    ]
    assert reg.kernel == reg.get_params()["kernel"]
    assert reg.kernel.transform.eta == 0.5


@pytest.mark.parametrize("make", [HistogramIntersection, Chi2])
def test_fixed_weights_stay_and_the_scale_is_found(make):
    reg = HistogramGPRegressor(make(weights=[1, 2, 0, 4]), normalize_y=False, optimize="exact", random_state=0).fit(
        X, Y
    )
    assert reg.kernel_.weights == [1, 2, 0, 4]
    assert reg.kernel_.scale != 1
    # From another scale it finds the same kernel, and larger weights need a smaller scale.
    others = ({"weights": [1, 2, 0, 4], "scale": 5.0}, {"weights": [5, 10, 0, 20]})
    for parameters, factor in zip(others, (1, 5), strict=True):
        other = HistogramGPRegressor(make(**parameters), normalize_y=False, optimize="exact", random_state=0).fit(X, Y)
        assert other.kernel_.weights == parameters["weights"]
        assert other.kernel_.scale * factor == pytest.approx(reg.kernel_.scale, rel=0.05)
        np.testing.assert_allclose(other.predict(X), reg.predict(X), atol=0.01)


def test_learned_weights_have_the_scale_in_them():
    """The kernel is the same, whatever scale is given, and that stays."""
    found = [
        HistogramGPRegressor(
            HistogramIntersection(weights="ard", scale=scale), normalize_y=False, optimize="exact", random_state=0
        )
        for scale in (1.0, 4.0)
    ]
    one, four = (model.fit(X, Y).kernel_ for model in found)
    assert (one.scale, four.scale) == (1, 4)
    np.testing.assert_allclose(4 * four.weights, one.weights, rtol=0.05, atol=0.05 * one.weights.max())


@pytest.mark.parametrize("transform", [*(make() for make in all_transforms()), Log(1.0)])
def test_other_transforms(transform):
    kernel = HistogramIntersection(transform)
    for method in ("exact", "bound", "gradient"):
        clf = HistogramGPClassifier(kernel, noise=0.1, optimize=method, random_state=0).fit(X, CODES)
        start = HistogramGPClassifier(kernel, noise=0.1).fit(X, CODES)
        assert clf.log_marginal_likelihood(method="exact") > start.log_marginal_likelihood(method="exact")


def test_a_name_of_its_own_is_not_short_for_another():
    """The scale of the kernel is not the transform's hyperparameter of that name."""
    kernel = HistogramIntersection(Log(2.0), weights=3.0)
    fitted = HistogramGPRegressor(kernel, normalize_y=False, optimize=Optimizer("exact", parameters=["scale"])).fit(
        X, Y
    )
    assert fitted.kernel_.transform.scale == 2.0
    assert fitted.kernel_.weights == 3.0
    assert fitted.kernel_.scale != 1.0
    both = HistogramGPRegressor(
        kernel, normalize_y=False, optimize=Optimizer("exact", parameters=["scale", "transform__scale"])
    ).fit(X, Y)
    assert both.kernel_.transform.scale != 2.0
    assert both.kernel_.weights == 3.0
    assert both.kernel_.scale != 1.0


def test_an_exponential_that_would_overflow_is_not_tried():
    big = X * 100
    clf = HistogramGPClassifier(HistogramIntersection(Exponential(0.01)), optimize="exact").fit(big, CODES)
    assert np.all(np.isfinite(clf.decision_function(big)))


def test_per_class_noise_and_sample_weights():
    weights = RNG.uniform(0.5, 2, N)
    clf = HistogramGPClassifier("hik-poly", class_weight="balanced-ovr", optimize="exact").fit(X, CODES, weights)
    start = HistogramGPClassifier("hik-poly", noise=0.1, class_weight="balanced-ovr").fit(X, CODES, weights)
    # The noise keeps its proportions among examples and classes.
    ratio = clf._posterior.noise.diagonals() / start._posterior.noise.diagonals()
    np.testing.assert_allclose(ratio, clf.noise_ / 0.1)
    # It was decided with one noise for all labels.
    shared = HistogramGPClassifier("hik-poly", optimize="exact").fit(X, CODES, weights)
    assert clf.noise_ == shared.noise_
    assert clf.kernel_.transform.eta == shared.kernel_.transform.eta
    assert clf.kernel_.scale == shared.kernel_.scale
    assert np.isnan(clf.log_marginal_likelihood_)
    assert np.isfinite(clf.log_marginal_likelihood())


def test_several_starts_do_not_end_below_one():
    one, three = (
        HistogramGPRegressor(
            "hik-poly", normalize_y=False, optimize=Optimizer("exact", n_starts=n, prior_width=None), random_state=0
        ).fit(X, Y)
        for n in (1, 3)
    )
    assert three.log_marginal_likelihood_ >= one.log_marginal_likelihood_ - 1e-3
    assert len(three.optimization_path_["noise"]) > len(one.optimization_path_["noise"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The search for hyperparameters ended")
@pytest.mark.parametrize("method", ["bound", "gradient", "exact"])
@pytest.mark.parametrize("X", [np.zeros((6, 3)), np.ones((6, 3)), np.eye(6)[:, :3]], ids=["zero", "equal", "sparse"])
def test_degenerate_data(X, method):
    clf = HistogramGPClassifier("hik-poly", optimize=method, random_state=0).fit(X, [0, 1, 0, 1, 1, 0])
    assert np.all(np.isfinite(clf.decision_function(X)))
    two = HistogramGPClassifier(HistogramIntersection(weights="ard"), optimize=method).fit(X[:2], [0, 1])
    assert np.all(np.isfinite(two.decision_function(X)))


def test_another_fit_without_a_search_leaves_nothing_of_it():
    clf = HistogramGPClassifier("hik", noise=0.1, optimize="exact").fit(X, CODES)
    clf.set_params(optimize=None).fit(X, CODES)
    assert clf.noise_ == 0.1
    assert not {"optimization_path_", "log_marginal_likelihood_", "log_marginal_likelihood_error_"} & set(vars(clf))


def test_the_path_is_a_table(capsys):
    clf = HistogramGPClassifier("hik-poly", optimize="exact", verbose=1).fit(X, CODES)
    table = pd.DataFrame(clf.optimization_path_)
    expected = ["log_marginal_likelihood", "standard_error", "n_samples", "n_products"]
    assert list(table) == [*expected, "noise", "scale", "transform__eta"]
    assert clf.log_marginal_likelihood_ == pytest.approx(table["log_marginal_likelihood"].max(), abs=0.5)
    lines = [line for line in capsys.readouterr().out.splitlines() if "log likelihood" in line]
    assert len(lines) == len(table)
    assert "noise 0.1" in lines[0]


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has callbacks from 1.9 on")
def test_an_interrupt_keeps_the_best_so_far(monkeypatch):
    class Interrupting:
        def __init__(self):
            self.evaluations = 0

        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            self.evaluations += context.task_name == "evaluation"
            if self.evaluations == 4 and context.task_name == "evaluation":
                raise KeyboardInterrupt

    clf = HistogramGPClassifier("hik-poly", optimize="exact").set_callbacks(Interrupting())
    with pytest.warns(ConvergenceWarning, match="interrupted after 4 evaluations; the best of them counts"):
        clf.fit(X, CODES)
    path = clf.optimization_path_["log_marginal_likelihood"]
    assert len(path) == 4
    assert clf.log_marginal_likelihood_ == path.max()
    assert clf.log_marginal_likelihood() == pytest.approx(path.max())


@pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has callbacks from 1.9 on")
def test_a_callback_stops_the_search():
    class Stopping:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            return context.task_name == "evaluation"

    clf = HistogramGPClassifier("hik-poly", optimize="gradient").set_callbacks(Stopping())
    with pytest.warns(ConvergenceWarning, match="after 1 evaluations"):
        assert clf.fit(X, CODES).predict(X).shape == (N,)


@pytest.mark.parametrize("method", ["gradient", "bound", "exact"])
def test_the_same_seed_gives_the_same_model(method):
    one, two = (HistogramGPClassifier("hik-poly", optimize=method, random_state=3).fit(X, CODES) for _ in range(2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.portable
def test_models_with_hyperparameters_found_survive_a_file(tmp_path):
    groups = ["a", "a", "b", "b"]
    optimizer = Optimizer("gradient", parameters=["weights", "noise"], sparsity=0.1)
    kernel = HistogramIntersection(Power([0.5, 0.7]), "ard", groups)
    clf = HistogramGPClassifier(kernel, optimize=optimizer, prediction="quantized", random_state=0).fit(X, CODES)
    for training in (True, False):
        clf.save(tmp_path / "model", include_training=training)
        back = histogp.load(tmp_path / "model")
        alike(back.decision_function(X), clf.decision_function(X))
        np.testing.assert_array_equal(back.feature_relevance_, clf.feature_relevance_)
        assert back.noise_ == clf.noise_
        assert back.log_marginal_likelihood_ == clf.log_marginal_likelihood_
        assert list(back.optimization_path_) == list(clf.optimization_path_)
        for name, column in clf.optimization_path_.items():
            np.testing.assert_array_equal(back.optimization_path_[name], column)
        assert back.optimize.get_params() == optimizer.get_params()
        assert back.kernel.groups == groups
    with pytest.raises(ValueError, match="without its training samples"):
        back.log_marginal_likelihood()
    twin = pickle.loads(pickle.dumps(clf))
    assert twin.log_marginal_likelihood() == clf.log_marginal_likelihood()


@pytest.mark.parametrize("optimize", ["gradient", Optimizer()])
def test_grid_search_reaches_into_the_optimizer(optimize):
    clf = HistogramGPClassifier(HistogramIntersection(weights="ard"), optimize=optimize)
    search = GridSearchCV(clf, {"optimize__sparsity": [0.1, 1.0]}, cv=2).fit(X, CODES)
    assert search.best_estimator_.optimize.sparsity in (0.1, 1.0)
    assert clone(search.best_estimator_).optimize.method == "gradient"


X_600 = np.random.default_rng(1).random((600, 5))
Y_600 = np.sin(3 * X_600[:, 0]) + 0.1 * np.random.default_rng(2).standard_normal(600)
BEST = HistogramGPRegressor("hik-poly", normalize_y=False, optimize="exact").fit(X_600, Y_600).log_marginal_likelihood()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "gradient"])
@pytest.mark.parametrize("units", [(1e-4, 1), (16, 1), (1e4, 1e6), (1e12, 1e-5), (1, 1e3)])
def test_units_of_features_and_targets_do_not_matter(units, method):
    of_features, of_targets = units
    reg = HistogramGPRegressor("hik-poly", normalize_y=False, optimize=method, random_state=0)
    reg.fit(of_features * X_600, of_targets * Y_600)
    assert reg.log_marginal_likelihood() + 600 * np.log(of_targets) == pytest.approx(BEST, abs=4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "gradient"])
@pytest.mark.parametrize("start", [(0.05, 1e-5), (0.05, 10), (3, 1e-5), (5, 0.1)])
def test_other_starts_end_at_the_same_place(start, method):
    eta, noise = start
    reg = HistogramGPRegressor(
        HistogramIntersection(Power(eta)), normalize_y=False, noise=noise, optimize=method, random_state=0
    )
    assert reg.fit(X_600, Y_600).log_marginal_likelihood() == pytest.approx(BEST, abs=4)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1, 1e5])
@pytest.mark.parametrize("n", [300, 800])
def test_relevance_does_not_depend_on_the_unit_of_a_feature(n, unit):
    rng = np.random.default_rng(0)
    X = rng.random((n, 4))
    y = np.sin(5 * X[:, 0]) + np.sin(5 * X[:, 1]) + 0.05 * rng.standard_normal(n)
    kernel = HistogramIntersection(weights="ard")
    reg = HistogramGPRegressor(kernel, normalize_y=False, optimize="gradient", random_state=0).fit(
        X * [unit, 1, 1, 1], y
    )
    assert set(np.argsort(-reg.feature_relevance_)[:2]) == {0, 1}
    assert reg.feature_relevance_[:2].min() > 0.1


def test_constant_sample_weights_change_nothing():
    one, thousand = (
        HistogramGPRegressor("hik", normalize_y=False, optimize="exact").fit(
            X[:40], Y[:40], sample_weight=np.full(40, weight)
        )
        for weight in (1.0, 1000.0)
    )
    assert thousand.noise_ / 1000 == pytest.approx(one.noise_, rel=0.05)


# Rows that occur twice are the likelier, the less noise there is, until rounding ends the search: after 70 to more than
# 200 evaluations, which depends on the processor.
@pytest.mark.portable
@pytest.mark.filterwarnings("ignore:The search for hyperparameters ended after max_steps")
def test_too_little_noise_is_no_obstacle_unless_it_is_fixed():
    twice, labels = np.repeat(X[:20], 5, axis=0), np.repeat(CODES[:20], 5)
    twice *= 1 + 1e-15 * np.arange(100)[:, None]  # all but equal
    for method in ("exact", "gradient", "bound"):
        kernel = HistogramIntersection(weights="ard")
        optimizer = Optimizer(method, parameters=["noise", "weights"])
        clf = HistogramGPClassifier(kernel, noise=1e-18, optimize=optimizer, random_state=0).fit(twice, labels)
        assert clf.noise_ > 1e-17
        assert np.all(np.isfinite(clf.decision_function(twice)))
    fixed = HistogramGPClassifier("hik", noise=1e-300, optimize=Optimizer("exact", parameters=["scale"]))
    with pytest.raises(ValueError, match="No hyperparameters near those given can be evaluated"):
        fixed.fit(twice, labels)


def test_a_search_that_runs_out_of_steps_says_so():
    for method in ("exact", "bound", "gradient"):
        clf = HistogramGPClassifier("hik-poly", optimize=Optimizer(method, max_steps=3), random_state=0)
        with pytest.warns(ConvergenceWarning, match="ended after max_steps=3 evaluations"):
            clf.fit(X, CODES)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e-150])
def test_features_that_hardly_matter(scale):
    reg = HistogramGPRegressor("hik", normalize_y=False, optimize="gradient", random_state=0).fit(X_600 * scale, Y_600)
    assert np.all(np.isfinite(reg.predict(X_600)))
    assert np.isfinite(reg.log_marginal_likelihood(method="quadrature"))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": HistogramIntersection(weights="ard")}, 'weights="ard" are learned from the data'),
        ({"kernel": HistogramIntersection(weights="all"), "optimize": "exact"}, "None or \"ard\"; got 'all'"),
        ({"kernel": HistogramIntersection(groups=[1, 2])}, "one group for each of the 4 features"),
        ({"kernel": HistogramIntersection(weights=[1, 2, 3], groups=[0, 0, 1, 1])}, "for each of the 2 groups"),
        ({"optimize": "best"}, "'optimize' parameter"),
        ({"optimize": Optimizer("best")}, "'method' parameter of Optimizer"),
        ({"optimize": Optimizer(parameters=["eta"])}, "'eta' is not a free hyperparameter; with this kernel there are"),
        ({"kernel": HistogramIntersection(groups=[1, None, 2, 2])}, "groups must be numbers, or texts"),
        (
            {"kernel": HistogramIntersection(weights="ard"), "optimize": Optimizer(parameters=["noise"])},
            '"weights" is not among the parameters',
        ),
        ({"optimize": Optimizer(parameters=[])}, "at least one"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(parameters, message):
    with pytest.raises(ValueError, match=message):
        HistogramGPClassifier(**parameters).fit(X, CODES)


def test_the_simplex_refuses_many_weights_at_once():
    wide = histograms(30, 40)
    clf = HistogramGPClassifier(HistogramIntersection(weights="ard"), optimize="bound")
    with pytest.raises(ValueError, match=r'cannot search 40 hyperparameters, at most 20; optimize="gradient" can'):
        clf.fit(wide, np.arange(30) % 2)


@pytest.mark.slow
def test_likelihood_of_other_hyperparameters():
    reg = HistogramGPRegressor("hik", noise=0.1, normalize_y=False, random_state=0).fit(X, Y)
    kernel = HistogramIntersection(Power(0.7), 0.5)
    expected = multivariate_normal(np.zeros(N), K_TRUE + 0.05 * np.eye(N)).logpdf(Y)
    assert reg.log_marginal_likelihood(kernel, 0.05) == pytest.approx(expected)
    value, error = reg.log_marginal_likelihood(kernel, 0.05, "quadrature", max_error=0.5, return_error=True)
    assert error <= 0.5
    assert abs(value - expected) < 4 * error
    assert reg.log_marginal_likelihood(kernel, 0.05, "bound") <= expected
    assert reg.log_marginal_likelihood(kernel, 0.05, "exact", return_error=True) == (pytest.approx(expected), 0.0)
    for arguments, message in (
        ({"noise": 0}, "noise must be a number above 0"),
        ({"noise": "small"}, "noise must be a number above 0"),
        ({"max_error": -1}, "max_error must be a number above 0"),
        ({"method": "best"}, "Unknown method 'best'"),
        ({"method": "bound", "bound": "best"}, "Unknown bound 'best'"),
        ({"method": "quadrature", "n_probes": 1}, "n_probes must be a number above 1"),
        ({"kernel": "rbf"}, "Unknown kernel 'rbf'"),
    ):
        with pytest.raises(ValueError, match=message):
            reg.log_marginal_likelihood(**arguments)
    with pytest.warns(ConvergenceWarning, match="standard error"):
        reg.log_marginal_likelihood(method="quadrature", n_probes=2, max_error=1e-9)


def test_several_outputs_add_up():
    both = HistogramGPRegressor("hik", noise=0.1, normalize_y=False, random_state=0).fit(
        X, np.stack([Y, 2 * Y], axis=1)
    )
    single = [
        HistogramGPRegressor("hik", noise=0.1, normalize_y=False, random_state=0).fit(X, y).log_marginal_likelihood()
        for y in (Y, 2 * Y)
    ]
    assert both.log_marginal_likelihood() == pytest.approx(sum(single))


@pytest.mark.slow
def test_memory_of_the_search_is_linear():
    """Above the sample nothing has the size of a matrix."""
    import tracemalloc

    peaks = []
    for n in (4_000, 8_000):
        X, y = make_bags_of_words(n, n_words=200, length=20, random_state=0)
        clf = HistogramGPClassifier("hik-poly", optimize=Optimizer(max_steps=2), n_jobs=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tracemalloc.start()
            clf.fit(X, y)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 2.6 * peaks[0]
    assert peaks[1] < 8_000**2  # bytes: an eighth of the matrix


def test_learned_weights_are_numbers_for_the_next_search(tmp_path):
    """A model in memory and the same one from a file search for the same things."""
    model = HistogramGPRegressor(
        HistogramIntersection(weights="ard"), normalize_y=False, optimize="exact", random_state=0
    ).fit(X, Y)
    model.save(tmp_path / "model")
    both = model, histogp.load(tmp_path / "model")
    for one in both:
        one.set_params(kernel=HistogramIntersection(), optimize=Optimizer("exact", reoptimize_every=1))
        one.partial_fit(X[:5], Y[:5])
    alike(both[0].kernel_.weights, both[1].kernel_.weights)
    assert both[0].kernel_.scale == pytest.approx(both[1].kernel_.scale, rel=1e-9)
    ratios = both[0].kernel_.weights / np.where(both[1].kernel_.weights > 0, both[1].kernel_.weights, 1)
    assert np.ptp(ratios[ratios > 0]) < 1e-6
