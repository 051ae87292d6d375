"""Kernel objects: values, derivatives, parameters, refusals."""

import numpy as np
import pytest
from discovery import all_transforms
from hypothesis import given
from hypothesis import strategies as st
from oracles import Log, chi2_kernel, close, dense, histograms, kernel_matrix, matrices
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import SVC

import histogp
from histogp._core.data import Rows
from histogp._core.maps.points import direct_map
from histogp.kernels import Chi2, Exponential, HistogramIntersection, Power, Transform
from histogp.kernels._base import as_kernel

ETAS = st.floats(0.01, 5)


@given(matrices(n_columns=3), matrices(n_columns=3))
def test_a_call_evaluates_the_dense_formula(X, Y):
    for kernel in (HistogramIntersection(), HistogramIntersection(Power(0.25), [1, 0, 2])):
        expected = kernel_matrix(X, Y, kernel)
        close(kernel(X, Y), expected, expected)
        close(kernel(X), kernel_matrix(X, X, kernel), kernel_matrix(X, X, kernel))


@given(matrices(n_columns=3), matrices(n_columns=3))
def test_a_call_of_chi2_evaluates_the_dense_formula(X, Y):
    expected = chi2_kernel(X, Y)
    close(Chi2()(X, Y), expected, expected, rtol=1e-14)
    close(Chi2(1)(X, Y), expected, expected, rtol=1e-14)
    weighted = chi2_kernel(dense(X) * [1, 0, 2], dense(X) * [1, 0, 2])
    close(Chi2(weights=[1, 0, 2])(X), weighted, weighted, rtol=1e-14)


@pytest.mark.parametrize("columns", [slice(1, None), [2, 0], [True, False, True]])
def test_a_scale_and_columns_of_a_call(columns):
    X, Y = histograms(9, 3), histograms(4, 3, seed=1)
    some, others = X[:, columns], Y[:, columns]
    weights = [0.5, 2.0]
    for made in (np.asarray, sparse.csr_array):
        found = HistogramIntersection(Power(0.5), weights, scale=3.0, columns=columns)(made(X), made(Y))
        close(found, 3 * kernel_matrix(some, others, HistogramIntersection(Power(0.5), weights)))
        found = Chi2(weights=weights, scale=3.0, columns=columns)(made(X), made(Y))
        close(found, 3 * chi2_kernel(some * weights, others * weights))


@given(ETAS, st.floats(0, 1))
def test_power_and_exponential_are_the_papers_formulas(eta, x):
    x = np.array([x])
    np.testing.assert_allclose(Power(eta).value(x, eta=eta), x**eta)
    expected = np.expm1(eta * x) / np.expm1(eta)
    np.testing.assert_allclose(Exponential(eta).value(x, eta=eta), expected, rtol=1e-12, atol=1e-300)


def test_exponential_tends_to_the_identity():
    x = np.linspace(0, 1, 7)
    np.testing.assert_allclose(Exponential().value(x, eta=1e-12), x, rtol=1e-9)


def test_exponential_is_finite_for_large_eta_on_the_unit_interval():
    assert np.isfinite(Exponential().value(np.linspace(0, 1, 5), eta=1e4)).all()


@pytest.mark.parametrize("transform", [*(make() for make in all_transforms()), Power(0.7), Exponential(1.7), Log(2.5)])
def test_derivatives_match_finite_differences(transform):
    given, step = transform.get_params(), 1e-6
    x = np.array([0.0, 1e-3, 0.2, 1.0, 1.5])
    assert np.all(np.diff(transform.value(x, **given)) > 0)
    derivatives = transform.derivative(x, **given)
    for name, value in given.items():
        up, down = (transform.value(x, **{**given, name: value + s}) for s in (step, -step))
        np.testing.assert_allclose(derivatives[name], (up - down) / (2 * step), rtol=1e-6, atol=1e-9)
    assert set(transform.bounds) == set(given) == set(derivatives)


@pytest.mark.parametrize("make", all_transforms())
def test_a_model_with_any_transform_of_the_package_can_be_saved(make, tmp_path):
    X = histograms(20, 3)
    model = histogp.HistogramGPRegressor(HistogramIntersection(make()), noise=0.1, normalize_y=False).fit(X, X[:, 1])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(histogp.load(tmp_path / "m").predict(X), model.predict(X))


def test_short_names_stand_for_the_default_objects():
    assert as_kernel("hik").transform is None
    assert as_kernel("hik-poly").transform.eta == 0.5
    assert as_kernel("hik-exp").transform.eta == 1.0
    assert isinstance(as_kernel("chi2"), Chi2)
    with pytest.raises(ValueError, match="Unknown kernel 'rbf'; known names are 'hik'"):
        as_kernel("rbf")


def test_parameters_are_reachable_and_cloned():
    kernel = HistogramIntersection(Power(0.25))
    kernel.set_params(transform__eta=2.0)
    assert clone(kernel).get_params()["transform__eta"] == 2.0
    assert "Power" in kernel._repr_html_()
    kernel = Chi2(2, tol=0.1, weights=[1.0, 2.0], groups=[0, 1])
    assert clone(kernel).get_params() == kernel.get_params()
    assert clone(kernel).set_params(n_terms="auto").n_terms == "auto"


def test_chi2_takes_its_points_and_their_number_from_data():
    X = histograms(40, 6)
    given = Chi2("auto", tol=1e-4)
    adapted = given._adapt(X, noise=0.3)
    np.testing.assert_array_equal(adapted.value.map.points, direct_map(Rows.from_array(X), None, 1e-4).points)
    assert adapted.kernel.n_terms == len(adapted.value.map.points) > 1
    assert adapted.noise == 0.3
    assert given.n_terms == "auto"
    for searched in (False, True):
        assert adapted.kernel._left_open(given, searched=searched).n_terms == "auto"


def test_only_kernels_of_features_adapt_again_and_only_to_more_samples():
    for before, after, expected in ((10, 11, True), (511, 9000, True), (512, 513, False), (10, 10, False)):
        assert Chi2()._adapts_again(before, after) == expected
        assert not HistogramIntersection()._adapts_again(before, after)


def test_values_that_a_search_found_become_parameters():
    kernel = HistogramIntersection(Power(0.5), weights=[1.0, 2.0])
    found = kernel._with_values({"scale": 3.0, "transform__eta": 0.7})
    assert (found.scale, found.weights, found.transform.eta) == (3, [1.0, 2.0], 0.7)
    plain = HistogramIntersection()._with_values({"scale": 3.0})
    assert (plain.scale, plain.weights) == (3, None)
    # A scale that is found multiplies the one that was given; weights that are found have both in them.
    assert HistogramIntersection(scale=2.0)._with_values({"scale": 3.0}).scale == 6
    learned = Chi2(weights="ard", scale=2.0)._with_values({"weights": np.ones(2)})
    assert (learned.scale, learned.weights.tolist()) == (2, [0.5, 0.5])
    of_transform = HistogramIntersection(Log(2.0))._with_values({"transform__scale": 5.0})
    assert (of_transform.scale, of_transform.transform.scale) == (1, 5)
    assert HistogramIntersection(weights="ard")._with_values({"weights": np.ones(2)}).weights.tolist() == [1, 1]
    assert (kernel.weights, kernel.transform.eta) == ([1.0, 2.0], 0.5)


def test_svc_accepts_the_kernel():
    X = histograms(40, 6)
    y = X[:, 1] > X[:, 2]
    assert SVC(kernel=HistogramIntersection()).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (HistogramIntersection(Power(-1)), "eta must be positive; got -1"),
        (HistogramIntersection(Power([1, 2])), "one for each of the 3 features"),
        (HistogramIntersection(Power("a")), "eta must be one finite number"),
        (HistogramIntersection(weights=[1, -1, 1]), "weights must not be negative; got -1"),
        (HistogramIntersection(weights=[1, np.nan, 1]), "weights must be one finite number"),
        (Chi2(weights=[1, -1, 1]), "weights must not be negative; got -1"),
        (Chi2(0), 'n_terms must be a whole number from 1 to 1000 or "auto"; got 0'),
        (Chi2(2.5), "n_terms must be a whole number"),
        (Chi2(tol=0), "tol must be a number above 0; got 0"),
        (Chi2(scale=0), "scale must be a number above 0; got 0"),
        (HistogramIntersection(scale=-1.0), "scale must be a number above 0; got -1"),
    ],
)
def test_bad_parameters_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel._adapt(np.ones((2, 3)))
    with pytest.raises(ValueError, match=message):
        kernel(np.ones((2, 3)))


def test_foreign_objects_are_refused():
    with pytest.raises(TypeError, match=r"must be one of histogp.kernels"):
        as_kernel(object())
    with pytest.raises(TypeError, match=r"must be None or a histogp.kernels.Transform"):
        HistogramIntersection(transform=np.sqrt)._adapt(np.ones((2, 3)))


def test_an_overflowing_transform_says_what_to_do():
    with pytest.raises(ValueError, match=r"not finite for the value 1000: scale the features"):
        HistogramIntersection(Exponential(5))([[1000.0]])


def test_a_transform_must_be_zero_at_zero_and_keep_the_shape():
    class Shifted(Transform):
        def value(self, x):
            return x + 1

    class Summed(Transform):
        def value(self, x):
            return x.sum()

    with pytest.raises(ValueError, match=r"g\(0\) must be 0, not 1"):
        HistogramIntersection(Shifted())._adapt(np.ones((2, 2)))
    with pytest.raises(ValueError, match="one value for each"):
        HistogramIntersection(Summed())([[1.0, 2.0]])


def test_a_transform_cannot_write_to_the_data():
    class InPlace(Transform):
        def value(self, x):
            x *= x.any() + 1  # leaves zeros alone
            return x

    X = sparse.csr_array([[1.0, 2.0]])
    with pytest.raises(ValueError, match="read-only"):
        HistogramIntersection(InPlace())(X)
    assert X.toarray().tolist() == [[1.0, 2.0]]


def test_negative_data_and_different_widths_are_refused():
    with pytest.raises(ValueError, match="Negative values in data"):
        HistogramIntersection()([[-1.0]])
    with pytest.raises(ValueError, match="X has 1 features and Y has 2"):
        HistogramIntersection()([[1.0]], sparse.csr_array([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="Negative values in data"):
        Chi2()([[-1.0]])
    with pytest.raises(ValueError, match="X has 1 features and Y has 2"):
        Chi2()([[1.0]], sparse.csr_array([[1.0, 2.0]]))


def test_a_parameter_of_no_transform_is_refused():
    with pytest.raises(ValueError, match=r"no transform with the parameter 'transform__scale': set transform="):
        HistogramIntersection().set_params(transform__scale=2)
    assert HistogramIntersection().set_params(transform__eta=2).transform.eta == 2
