"""Feature maps as transformers: scikit-learn's contract, and products against kernels."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from oracles import alike, chi2_kernel, close, histograms
from scipy import sparse
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import additive_chi2_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from histogp.feature_maps import AdditiveChi2Map, HomogeneousMap, SkewedChi2Map

X = histograms(50, 6)
METHODS = ["direct", "vz", "chebyshev"]
KERNELS = ["intersection", "jensen-shannon", "hellinger"]
ADDITIVE = [
    *(AdditiveChi2Map(method) for method in METHODS),
    AdditiveChi2Map(n_terms="auto", points="greedy"),
    *(HomogeneousMap(kernel) for kernel in KERNELS),
]
SKEWED = [SkewedChi2Map(20, random_state=0), SkewedChi2Map(7, skewedness=0.1, random_state=0)]
every_map = pytest.mark.parametrize("transformer", ADDITIVE + SKEWED, ids=str)


@pytest.mark.slow
@parametrize_with_checks(ADDITIVE + SKEWED)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_terms", [1, 3, 7])
def test_the_error_is_the_kernel_minus_the_products(method, n_terms):
    transformer = AdditiveChi2Map(method, n_terms=n_terms).fit(X)
    Z, kernel = transformer.transform(X), chi2_kernel(X, X)
    close(transformer.approximation_error(X), kernel - Z @ Z.T, kernel.max(), rtol=1e-13)
    error = transformer.approximation_error(X[:4], X[4:9])
    close(error, (kernel - Z @ Z.T)[:4, 4:9], kernel.max(), rtol=1e-13)
    close(transformer.approximation_error(sparse.csr_array(X[:4]), sparse.csr_matrix(X[4:9])), error, rtol=1e-13)


def test_the_error_falls_with_the_components():
    errors = [np.abs(AdditiveChi2Map(n_terms=n).fit(X).approximation_error(X)) for n in (1, 3, 5, 7, 9)]
    assert all(after.mean() < before.mean() / 5 for before, after in pairwise(errors))
    assert all(after.max() < before.max() / 2 for before, after in pairwise(errors))
    by_method = {m: np.abs(AdditiveChi2Map(m).fit(X).approximation_error(X)).mean() for m in METHODS}
    assert by_method["direct"] < min(by_method["vz"], by_method["chebyshev"])


def test_the_kernel_is_a_distance_of_scikit_learn():
    # sum (x - y)^2 / (x + y) = sum x + sum y - 2 k(x, y)
    Z = AdditiveChi2Map(n_terms=12).fit_transform(X)
    close((X.sum(axis=1)[:, None] + X.sum(axis=1) + additive_chi2_kernel(X)) / 2, Z @ Z.T, rtol=1e-3)


def test_components_for_a_tolerance():
    rough, fine = (AdditiveChi2Map(n_terms="auto", tol=tol).fit(X) for tol in (1e-1, 1e-5))
    assert rough.n_terms_ < fine.n_terms_
    assert fine.points_.shape == (fine.n_terms_, 6)
    assert np.abs(fine.approximation_error(X)).sum() < 3e-5 * chi2_kernel(X, X).sum()


@pytest.mark.parametrize("sample_steps", [1, 2, 3])
def test_vz_is_the_sampler_of_scikit_learn(sample_steps):
    ours = AdditiveChi2Map("vz", n_terms=2 * sample_steps - 1).fit(X)
    theirs = AdditiveChi2Sampler(sample_steps=sample_steps).fit(X)
    close(ours.transform(X), theirs.transform(X), rtol=1e-14)
    given = AdditiveChi2Map("vz", n_terms=2 * sample_steps - 1, sample_interval=0.3).fit(X)
    theirs.set_params(sample_interval=0.3).fit(X)
    assert given.sample_interval_ == 0.3
    close(given.transform(X), theirs.transform(X), rtol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "formula", "tolerance"),
    [
        ("intersection", np.minimum, 0.15),
        ("jensen-shannon", lambda x, y: (xlogy(x, 1 + y / x) + xlogy(y, 1 + x / y)) / np.log(4), 0.01),
        ("hellinger", lambda x, y: np.sqrt(x * y), 1e-14),
    ],
)
def test_homogeneous_maps_approximate_their_kernels(kernel, formula, tolerance):
    Z = HomogeneousMap(kernel, n_terms=9).fit_transform(X)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(X[:, None] * X > 0, formula(X[:, None], X), 0).sum(axis=2)
    close(Z @ Z.T, expected, rtol=tolerance)


@every_map
def test_every_container_gives_the_same_features_in_its_precision(transformer):
    expected = clone(transformer).fit_transform(X)
    names = [f"f{k}" for k in range(6)]
    for data in (sparse.csr_matrix(X), sparse.csc_array(X), X.tolist(), pd.DataFrame(X, columns=names)):
        Z = clone(transformer).fit(data).transform(data)
        assert sparse.issparse(Z) == (sparse.issparse(data) and not isinstance(transformer, SkewedChi2Map))
        close(Z.toarray() if sparse.issparse(Z) else Z, expected, rtol=1e-12)
    fitted = clone(transformer).fit(X)
    for data in (X.astype(np.float32), sparse.csr_array(X.astype(np.float32))):
        Z = fitted.transform(data)
        assert Z.dtype == np.float32
        close(Z.toarray() if sparse.issparse(Z) else Z, expected, rtol=1e-5)


@pytest.mark.parametrize("transformer", ADDITIVE, ids=str)
def test_threads_do_not_matter(transformer):
    expected = clone(transformer).fit_transform(X)
    for n_jobs in (1, 2, -1):
        np.testing.assert_array_equal(clone(transformer).set_params(n_jobs=n_jobs).fit_transform(X), expected)


@every_map
def test_copies_map_alike(transformer):
    fitted = clone(transformer).fit(X)
    alike(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))
    alike(clone(fitted).fit(X).transform(X), fitted.transform(X))
    with pytest.raises(NotFittedError):
        clone(fitted).transform(X)


def test_names_of_the_features():
    frame = pd.DataFrame(X[:, :2], columns=["red", "blue"])
    transformer = AdditiveChi2Map(n_terms=3).set_output(transform="pandas").fit(frame)
    names = ["red_0", "blue_0", "red_1", "blue_1", "red_2", "blue_2"]
    assert transformer.get_feature_names_out().tolist() == names
    Z = transformer.transform(frame)
    assert list(Z.columns) == names
    np.testing.assert_array_equal(Z["blue_1"], transformer.set_output(transform="default").transform(frame)[:, 3])
    assert HomogeneousMap("hellinger").fit(X).get_feature_names_out().tolist() == [f"x{k}_0" for k in range(6)]
    skewed = SkewedChi2Map(3).set_output(transform="pandas").fit(frame)
    assert list(skewed.transform(frame).columns) == ["skewedchi2map0", "skewedchi2map1", "skewedchi2map2"]
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        transformer.get_feature_names_out(["a", "b"])


@every_map
def test_pipelines(transformer):
    y = X[:, 1] > X[:, 2]
    for data in (X, sparse.csr_array(X)):
        assert make_pipeline(transformer, LogisticRegression(C=100)).fit(data, y).score(data, y) > 0.8


def test_grid_search():
    pipeline = make_pipeline(AdditiveChi2Map(), LogisticRegression())
    search = GridSearchCV(pipeline, {"additivechi2map__method": METHODS, "additivechi2map__n_terms": [1, 3]})
    assert search.fit(X, X[:, 1] > X[:, 2]).best_score_ > 0.5


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (AdditiveChi2Map("vz", n_terms=4), "odd number of terms; got n_terms=4."),
        (HomogeneousMap(n_terms=2), "odd number of terms; got n_terms=2."),
        (AdditiveChi2Map("vz", n_terms="auto"), 'n_terms="auto" needs method="direct"; with \'vz\' give'),
        (AdditiveChi2Map("chebyshev", n_terms="auto"), "with 'chebyshev' give a number"),
        (AdditiveChi2Map("fourier"), "The 'method' parameter of AdditiveChi2Map must be a str among"),
        (AdditiveChi2Map(n_terms=0), "The 'n_terms' parameter of AdditiveChi2Map"),
        (AdditiveChi2Map(tol=0), "The 'tol' parameter of AdditiveChi2Map"),
        (AdditiveChi2Map(points="best"), "The 'points' parameter of AdditiveChi2Map"),
        (AdditiveChi2Map("vz", sample_interval=-1), "The 'sample_interval' parameter of AdditiveChi2Map"),
        (HomogeneousMap("rbf"), "The 'kernel' parameter of HomogeneousMap"),
        (SkewedChi2Map(0), "The 'n_components' parameter of SkewedChi2Map"),
        (SkewedChi2Map(skewedness=0), "The 'skewedness' parameter of SkewedChi2Map"),
    ],
)
def test_bad_parameters_are_named(transformer, message):
    with pytest.raises(ValueError, match=message) as refusal:
        transformer.fit(X)
    assert "\n" not in str(refusal.value)


@every_map
def test_negative_values_and_other_widths_are_refused(transformer):
    fitted = clone(transformer).fit(X)
    for data in (X - 0.1, sparse.csr_array(X - 0.1)):
        for method in (clone(transformer).fit, fitted.transform):
            with pytest.raises(ValueError, match=r"Negative values in data passed to .*: column 0 goes down to -0"):
                method(data)
    with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 6"):
        fitted.transform(X[:, :5])


def test_a_hellinger_map_has_one_component_whatever_is_given():
    assert HomogeneousMap("hellinger", n_terms=4).fit_transform(X).shape == X.shape


@pytest.mark.parametrize("n_components", [20000, 20001])
@pytest.mark.parametrize("skewedness", [0.03, 1.0])
def test_the_skewed_kernel_is_approximated_within_monte_carlo_error(n_components, skewedness):
    Z = SkewedChi2Map(n_components, skewedness=skewedness, random_state=0).fit_transform(X[:20])
    x, y = X[:20, None] + skewedness, X[None, :20] + skewedness
    expected = np.prod(2 * np.sqrt(x * y) / (x + y), axis=2)
    # A mean of n / 2 cosines with a variance of at most one half.
    close(Z @ Z.T, expected, 1.0, rtol=4.5 / np.sqrt(n_components))
    if n_components % 2 == 0:
        close((Z**2).sum(axis=1), np.ones(20), rtol=1e-12)


@pytest.mark.slow
def test_a_single_skewed_feature_is_right_on_average():
    A = X[:5, :2]
    draws = np.stack([SkewedChi2Map(1, random_state=seed).fit_transform(A) for seed in range(2000)])
    x, y = A[:, None] + 1, A[None] + 1
    expected = np.prod(2 * np.sqrt(x * y) / (x + y), axis=2)
    close(np.mean(draws * draws.transpose(0, 2, 1), axis=0), expected, 1.0, rtol=4 / np.sqrt(2000))


def test_sparse_rows_are_skewed_like_dense_ones():
    for transformer in SKEWED:
        fitted = clone(transformer).fit(X)
        close(fitted.transform(sparse.csr_array(X)), fitted.transform(X), rtol=1e-13)
        in_parts = sparse.csr_array((np.array([0.2, 0.3]), np.array([1, 1]), np.array([0, 2])), shape=(1, 6))
        close(fitted.transform(in_parts), fitted.transform(in_parts.toarray()), rtol=1e-13)


def test_a_random_state_is_reproducible():
    first, second = (SkewedChi2Map(10, random_state=3).fit_transform(X) for _ in range(2))
    alike(first, second)
    assert np.abs(SkewedChi2Map(10, random_state=4).fit_transform(X) - first).max() > 0.1
