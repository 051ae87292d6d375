"""Kernel objects: values, derivatives, parameters, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import Log, chi2_kernel, close, dense, histograms, kernel_matrix, matrices
from scipy import sparse
from sklearn.base import clone
from sklearn.svm import SVC

from histogp.kernels import Chi2, Exponential, HistogramIntersection, Power, Transform
from histogp.kernels._base import resolve
from histogp.kernels._names import as_kernel

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
    close(Chi2(1, points=[[1.0, 2.0, 3.0]])(X, Y), expected, expected, rtol=1e-14)
    weighted = chi2_kernel(dense(X) * [1, 0, 2], dense(X) * [1, 0, 2])
    close(Chi2(weights=[1, 0, 2])(X), weighted, weighted, rtol=1e-14)


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


@pytest.mark.parametrize("transform", [Power(0.7), Exponential(1.7), Log(2.5)])
def test_derivatives_match_finite_differences(transform):
    (name,) = transform.get_params()
    value, step = getattr(transform, name), 1e-6
    x = np.array([0.0, 1e-3, 0.2, 1.0, 1.5])
    up, down = (transform.value(x, **{name: value + s}) for s in (step, -step))
    derivative = transform.derivative(x, **{name: value})[name]
    np.testing.assert_allclose(derivative, (up - down) / (2 * step), rtol=1e-6, atol=1e-9)
    assert set(transform.bounds) == {name}


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
    kernel = Chi2(2, tol=0.1, weights=[1.0, 2.0], groups=[0, 1], points=np.ones((2, 2)))
    assert clone(kernel).get_params()["points"].tolist() == [[1, 1], [1, 1]]
    assert clone(kernel).set_params(n_terms="auto").n_terms == "auto"


def test_chi2_takes_its_points_from_data_once():
    X = histograms(40, 6)
    adapted = Chi2("auto")._adapt(X)
    assert adapted._adapt(X * 2) is adapted
    assert resolve(adapted, 6).feature_map.points.shape == (len(adapted.points), 6)
    assert resolve(Chi2(), 6).feature_map is None
    assert Chi2().points is None


def test_points_by_a_name_are_refused():
    with pytest.raises(ValueError, match="points must be"):
        resolve(Chi2(points="greedy")._adapt(histograms(40, 6)), 6)


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
        (Chi2(2, points=np.ones((2, 4))), r"points must be 2 x 3 positive numbers.*shape \(2, 4\)"),
        (Chi2(3, points=np.ones((2, 3))), "points must be 3 x 3 positive numbers"),
        (Chi2(1, points=np.ones(3)), "points must be 1 x 3 positive numbers"),
        (Chi2("auto", points=1.0), "points must be 1 x 3 positive numbers"),
        (Chi2(1, points=[[1.0, 0.0, 1.0]]), "points must be 1 x 3 positive numbers"),
        (Chi2(1, points=[[1.0, np.nan, 1.0]]), "points must be 1 x 3 positive numbers"),
    ],
)
def test_bad_parameters_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        resolve(kernel, 3)


def test_foreign_objects_are_refused():
    with pytest.raises(TypeError, match=r"must be one of histogp.kernels"):
        resolve(object(), 3)
    with pytest.raises(TypeError, match=r"must be None or a histogp.kernels.Transform"):
        resolve(HistogramIntersection(transform=np.sqrt), 3)


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
        resolve(HistogramIntersection(Shifted()), 2)
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
