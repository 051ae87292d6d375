"""The kernel object of the exponential chi-squared kernel: values, what it takes from data, refusals."""

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.svm import SVC

from histogp._core.data import Rows
from histogp._core.maps.pair_distances import inverse_median, most_likely
from histogp._core.maps.points import direct_map
from histogp._core.operators import pair_operators
from histogp._core.operators.pair_operators import ApproximateOperator, DenseOperator, HalfOperator
from histogp.kernels import ExpChi2
from histogp.kernels._base import as_kernel

D = 5
X = histograms(40, D)
X[3] = 0
Y = histograms(9, D, seed=2) * 3
LABELS = 2.0 * (X[:, 1] > X[:, 2])[:, None] - 1


def waves_of(adapted, A=X):
    """The random waves of an operator of A, dense."""
    return adapted.kernel._operator(adapted.value, A).kernel.map.waves


@pytest.mark.parametrize("beta", [0.01, 1, 3.0, np.float32(7.5), 1e4])
def test_a_call_is_the_kernel_of_scikit_learn(beta):
    kernel = ExpChi2(beta=beta)
    np.testing.assert_allclose(kernel(X, Y), chi2_kernel(X, Y, gamma=float(beta) / 2), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(kernel(X), chi2_kernel(X, gamma=float(beta) / 2), rtol=1e-11, atol=1e-300)


def test_counts_and_rows_without_anything():
    counts = np.random.default_rng(0).poisson(3.0, (12, 6)).astype(float)
    counts[4] = 0
    close(ExpChi2(beta=0.2)(counts), chi2_kernel(counts, gamma=0.1), rtol=1e-12)
    assert ExpChi2(beta=2.0)(np.zeros((2, 3))).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    "made", [np.asfortranarray, sparse.csr_array, sparse.csr_matrix, sparse.coo_array, np.ndarray.tolist]
)
def test_every_container_gives_the_same_values(made):
    np.testing.assert_array_equal(ExpChi2(beta=3.0)(made(X), made(Y)), ExpChi2(beta=3.0)(X, Y))


@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array])
def test_single_precision(made):
    found = ExpChi2(beta=3.0)(made(X.astype(np.float32)), made(Y.astype(np.float32)))
    np.testing.assert_allclose(found, chi2_kernel(X, Y, gamma=1.5), atol=1e-5)
    mixed = ExpChi2(beta=3.0)(made(X.astype(np.float32)), Y)
    np.testing.assert_allclose(mixed, chi2_kernel(X, Y, gamma=1.5), atol=1e-5)


def test_values_in_single_precision_lose_no_further_digits():
    A = (10 * np.random.default_rng(0).random((12, 900))).astype(np.float32)
    close(ExpChi2(beta=0.01)(A), chi2_kernel(A.astype(np.float64), gamma=0.005), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 0.5, 3, np.float32(2)])
def test_the_scale_is_a_factor(scale):
    expected = float(scale) * chi2_kernel(X, Y, gamma=1.0)
    close(ExpChi2(beta=2.0, scale=scale)(X, Y), expected, rtol=1e-12)
    close((scale * ExpChi2(beta=2.0))(X, Y), expected, rtol=1e-12)


@pytest.mark.parametrize("columns", [slice(1, 4), [3, 1], np.arange(D) > 2])
def test_some_columns(columns):
    expected = chi2_kernel(X[:, columns], Y[:, columns], gamma=1.0)
    for made in (np.asarray, sparse.csr_array):
        close(ExpChi2(beta=2.0, columns=columns)(made(X), made(Y)), expected, rtol=1e-12)


def test_what_is_for_estimators_does_not_matter_to_a_call():
    for approximation in ("exact", "nystroem", "fourier"):
        others = ExpChi2(6, beta=2.0, n_terms=1, approximation=approximation, sampling="plain", random_state=4)
        np.testing.assert_array_equal(others(X, Y), ExpChi2(beta=2.0)(X, Y))


def test_svc_accepts_the_kernel():
    assert SVC(kernel=ExpChi2(beta=5.0)).fit(X, LABELS[:, 0]).score(X, LABELS[:, 0]) > 0.8


@pytest.mark.parametrize("beta", ["median", "evidence"])
def test_a_kernel_without_a_width_cannot_be_called(beta):
    with pytest.raises(ValueError, match=f'beta="{beta}" is found by an estimator.*\\.$') as caught:
        ExpChi2(beta=beta)(X)
    assert "\n" not in str(caught.value)
    assert ExpChi2(beta=beta)._adapt(X, LABELS).kernel(X).shape == (40, 40)


def test_the_short_name():
    kernel = as_kernel("exp-chi2")
    assert isinstance(kernel, ExpChi2)
    assert (kernel.n_components, kernel.beta, kernel.scale, kernel.approximation) == (2000, "median", 1.0, "auto")


def test_parameters_are_reachable_and_cloned():
    kernel = ExpChi2(8, beta=2.0, n_terms=2, scale=3.0, approximation="fourier", sampling="quasi", random_state=5)
    twin = clone(kernel)
    assert twin is not kernel
    assert twin.get_params() == kernel.get_params()
    assert twin.set_params(beta="evidence").beta == "evidence"
    assert kernel.beta == 2.0


@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array, Rows.from_array])
def test_points_width_and_frequencies_are_from_data(made):
    kernel = ExpChi2(12, n_terms=2, approximation="fourier")
    adapted = kernel._adapt(made(X))
    waves = waves_of(adapted)
    assert kernel.beta == "median"
    np.testing.assert_array_equal(waves.additive.points, direct_map(Rows.from_array(X), 2, 0.0).points)
    distances = -np.log(chi2_kernel(X, gamma=0.5))[np.triu_indices(40, 1)]
    assert adapted.kernel.beta == pytest.approx(1 / np.median(distances))
    assert waves.frequencies.shape == (2 * D, 6)
    assert np.isfinite(waves.frequencies).all()


def test_a_width_that_is_given_stays_and_one_that_was_found_may_be_left_to_data_again():
    assert ExpChi2(12, beta=4.0)._adapt(X).kernel.beta == 4.0
    given = ExpChi2(12)
    found = given._adapt(X).kernel.set_params(scale=3.0)
    again = found._left_open(given, searched=False)
    assert (again.beta, again.scale) == ("median", 3.0)


def test_a_width_that_a_search_found_stays():
    found = ExpChi2(12, beta=7.0, scale=3.0)._left_open(ExpChi2(12), searched=True)
    assert (found.beta, found.scale) == (7.0, 3.0)


def test_the_most_likely_width_needs_targets():
    assert ExpChi2(4, beta="evidence")._adapt(X, LABELS).kernel.beta == most_likely(X, LABELS)
    assert ExpChi2(4, beta="evidence")._adapt(X).kernel.beta == inverse_median(X)
    assert ExpChi2(4)._adapt(X, LABELS).kernel.beta == inverse_median(X)


@pytest.mark.parametrize("sampling", ["orthogonal", "plain", "quasi"])
def test_a_seed_gives_its_frequencies(sampling):
    def frequencies(A=X, **parameters):
        kernel = ExpChi2(20, sampling=sampling, approximation="fourier", **parameters)
        return waves_of(kernel._adapt(A), A).frequencies

    drawn = frequencies(beta=1.0)
    np.testing.assert_array_equal(frequencies(beta=1.0, random_state=0), drawn)
    assert not np.any(frequencies(beta=1.0, random_state=1) == drawn)
    # The rows have no say, and the width is a factor.
    np.testing.assert_allclose(frequencies(X[:7] * 3, beta=9.0), 3 * drawn, rtol=1e-15)


@pytest.mark.parametrize(
    ("approximation", "operator"),
    [
        ("auto", DenseOperator),
        ("exact", DenseOperator),
        ("nystroem", ApproximateOperator),
        ("fourier", ApproximateOperator),
    ],
)
def test_the_operator_is_the_one_that_was_asked_for(approximation, operator):
    adapted = ExpChi2(12, beta=4.0, scale=2.0, approximation=approximation)._adapt(X)
    assert adapted.value.n_features == D
    assert adapted.value.weights is None
    assert adapted.value.map is None  # it takes the training samples
    found = adapted.kernel._operator(adapted.value, X)
    assert isinstance(found, operator)
    if approximation in ("nystroem", "fourier"):
        assert found.n_components == 12
        assert found.kernel.map.name == approximation
    else:
        close(found.matrix(), 2 * chi2_kernel(X, gamma=2.0), rtol=1e-12)


def test_more_samples_than_have_a_matrix_are_approximated(monkeypatch):
    monkeypatch.setattr(pair_operators, "MOST_EXACT_SAMPLES", 30)
    for approximation, operator in (
        ("auto", ApproximateOperator),
        ("exact", HalfOperator),
        ("single", HalfOperator),
    ):
        kernel = ExpChi2(12, beta=4.0, approximation=approximation)
        few, many = (kernel._operator(kernel._adapt(A).value, A) for A in (X[:30], X))
        assert isinstance(few, DenseOperator)
        assert isinstance(many, operator)
    assert many.approximated_by == "float32"
    monkeypatch.setattr(pair_operators, "MOST_SINGLE_SAMPLES", 35)
    exact = ExpChi2(12, beta=4.0, approximation="exact")
    with pytest.raises(ValueError, match=r'for which 40 samples are too many.*approximation="nystroem"\.$'):
        exact._operator(exact._adapt(X).value, X)
    assert isinstance(kernel._operator(kernel._adapt(X).value, X), ApproximateOperator)


@pytest.mark.parametrize("sampling", ["orthogonal", "plain", "quasi"])
def test_products_of_features_approach_the_call(sampling):
    kernel = ExpChi2(20_000, beta=3.0, n_terms=9, sampling=sampling, scale=2.0, approximation="fourier")
    Z = kernel_operator(X, kernel).kernel.map.transform(X)
    assert np.abs(Z @ Z.T - kernel(X)).max() < 0.08


def test_products_of_landmarks_are_the_call_where_all_samples_are_landmarks():
    kernel = ExpChi2(60, beta=3.0, scale=2.0, approximation="nystroem")
    map_ = kernel_operator(X, kernel).kernel.map
    left, right = map_.transform(X), map_.transform(Y)
    close(left @ right.T, kernel(X, Y), rtol=1e-8)
    assert np.all((right @ right.T).diagonal() <= 2)


BAD = {
    "no components": ({"n_components": 0}, "n_components must be a whole number from 2 to 65536; got 0"),
    "an odd number": ({"n_components": 7}, "n_components must be even, pairs of cosines and sines; got 7"),
    "half components": ({"n_components": 4.0}, "n_components must be a whole number"),
    "true components": ({"n_components": True}, "n_components must be a whole number"),
    "named components": ({"n_components": "auto"}, "n_components must be a whole number"),
    "too many components": ({"n_components": 2**17}, "n_components must be a whole number"),
    "far too many components": ({"n_components": 10**400}, "n_components must be a whole number"),
    "no terms": ({"n_terms": 0}, "n_terms must be a whole number from 1 to 1000; got 0"),
    "half terms": ({"n_terms": 1.5}, "n_terms must be a whole number"),
    "too many terms": ({"n_terms": 1001}, "n_terms must be a whole number"),
    "no seed": ({"random_state": None}, "random_state must be a whole number from 0"),
    "a negative seed": ({"random_state": -1}, "random_state must be a whole number from 0"),
    "a generator": ({"random_state": np.random.RandomState(0)}, "random_state must be a whole number from 0"),
    "no scale": ({"scale": 0}, "scale must be a number above 0; got 0"),
    "None for a scale": ({"scale": None}, "scale must be a number above 0; got None"),
    "a negative scale": ({"scale": -1.0}, "scale must be a number above 0"),
    "a scale that is none": ({"scale": np.nan}, "scale must be a number above 0"),
    "an infinite scale": ({"scale": np.inf}, "scale must be a number above 0"),
    "several scales": ({"scale": [1.0, 2.0]}, "scale must be a number above 0"),
    "a named scale": ({"scale": "ard"}, "scale must be a number above 0"),
    "a scale beyond numbers": ({"scale": 10**400}, "scale must be a number above 0"),
    "an unknown approximation": (
        {"approximation": "waves"},
        "approximation must be one of 'auto', 'exact', 'single', 'nys",
    ),
    "no approximation": ({"approximation": None}, "approximation must be one of"),
    "a column too many": ({"columns": [0, D]}, "columns must be a slice, or numbers of some of the 5 features"),
    "a column twice": ({"columns": [1, 1]}, "columns must be a slice"),
    "no columns": ({"columns": []}, "columns must be a slice"),
    "an unknown sampling": ({"sampling": "random"}, "sampling must be one of 'orthogonal', 'plain', 'quasi'; got 'ran"),
    "no sampling": ({"sampling": None}, "sampling must be one of"),
    "no width": ({"beta": 0}, 'beta must be a number above 0, "median" or "evidence"; got 0'),
    "a negative width": ({"beta": -1.0}, "beta must be a number above 0"),
    "an infinite width": ({"beta": np.inf}, "beta must be a number above 0"),
    "a width that is none": ({"beta": np.nan}, "beta must be a number above 0"),
    "an unknown width": ({"beta": "mean"}, "beta must be a number above 0"),
    "None for a width": ({"beta": None}, "beta must be a number above 0"),
    "several widths": ({"beta": [1.0, 2.0]}, "beta must be a number above 0"),
    "a true width": ({"beta": True}, "beta must be a number above 0"),
    "a width beyond numbers": ({"beta": 10**400}, "beta must be a number above 0"),
}


def refused(work, message):
    with pytest.raises(ValueError, match=message) as caught:
        work()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused_by_a_sentence(name):
    parameters, message = BAD[name]
    kernel = ExpChi2(**({"n_components": 12, "beta": 1.0} | parameters))
    refused(lambda: kernel(X), message)
    refused(lambda: kernel._adapt(X), message)


def test_negative_data_and_different_widths_are_refused():
    with pytest.raises(ValueError, match="Negative values in data"):
        ExpChi2(beta=1.0)([[-1.0]])
    with pytest.raises(ValueError, match="X has 1 features and Y has 2"):
        ExpChi2(beta=1.0)([[1.0]], sparse.csr_array([[1.0, 2.0]]))
