"""Ridge solutions from statistics, against scikit-learn and dense formulas."""

import numpy as np
import pytest
from oracles import close
from scipy.linalg import null_space
from scipy.stats import multivariate_normal
from sklearn import linear_model
from sklearn.decomposition import PCA

from histogp._core.least_squares.ridge import Components, LeftOut, Ridge
from histogp._core.least_squares.statistics import Quadratic, StreamingStatistics, Sums

pytestmark = pytest.mark.portable

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((50, 8)) @ RNG.standard_normal((8, 8)) + 3 * RNG.standard_normal(8)
Y = Z @ RNG.standard_normal((8, 2)) + RNG.standard_normal((50, 2)) + 5
WEIGHTS = RNG.random(50) + 0.1
MORE = RNG.standard_normal((70, 8)) * np.arange(1, 9) - 1
STATISTICS = StreamingStatistics.of(Z, Y)
ALPHAS = [1e-3, 0.5, 20.0, 1e4]
by_intercept = pytest.mark.parametrize("intercept", [True, False])
by_alpha = pytest.mark.parametrize("alpha", ALPHAS)
by_weights = pytest.mark.parametrize("weights", [None, WEIGHTS, WEIGHTS * (WEIGHTS > 0.4)], ids=["no", "all", "zeros"])


def fitted(Z, Y, alpha, intercept, weights=None):
    return linear_model.Ridge(alpha=alpha, fit_intercept=intercept, solver="svd").fit(Z, Y, weights)


def hat_matrix(Z, alpha, intercept):
    """The matrix that maps targets to predictions for the same rows."""
    ones = np.full((len(Z), len(Z)), intercept / len(Z))
    C = Z - ones @ Z
    return ones + C @ np.linalg.solve(C.T @ C + alpha * np.eye(Z.shape[1]), C.T)


@by_alpha
@by_intercept
@by_weights
def test_coefficients_are_those_of_scikit_learn(alpha, intercept, weights):
    ridge = Ridge.of(StreamingStatistics.of(Z, Y, weights), intercept=intercept)
    coefficients, intercepts = ridge.coefficients(alpha)
    theirs = fitted(Z, Y, alpha, intercept, weights)
    close(coefficients, theirs.coef_.T, rtol=1e-9)
    close(intercepts, np.broadcast_to(theirs.intercept_, 2), np.abs(Y).max(), rtol=1e-9)


@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_components_are_those_of_pca(n_components):
    components = Components.of(Quadratic.of(STATISTICS), n_components)
    pca = PCA(n_components, svd_solver="full").fit(Z)
    theirs = pca.transform(Z)
    ours = components.transform(Z)
    close(ours * np.sign((ours * theirs).sum(axis=0)), theirs, rtol=1e-10)
    close(components.variances, pca.explained_variance_ * 49, rtol=1e-11)
    close(components.means, pca.mean_, rtol=1e-13)
    close(components.vectors.T @ components.vectors, np.eye(n_components), rtol=1e-12)


@by_alpha
@pytest.mark.parametrize("n_components", [1, 3, 8])
def test_leading_components_are_pca_and_ridge(n_components, alpha):
    coefficients, intercepts = Ridge.of(STATISTICS, n_components).coefficients(alpha)
    pca = PCA(n_components, svd_solver="full").fit(Z)
    expected = fitted(pca.transform(Z), Y, alpha, True).predict(pca.transform(Z))
    close(Z @ coefficients + intercepts, expected, rtol=1e-9)


@by_alpha
@by_intercept
def test_unlabeled_rows_have_a_say_in_the_components(intercept, alpha):
    ridge = Ridge.of(STATISTICS, 3, StreamingStatistics.of(MORE), intercept=intercept)
    together = np.vstack([Z, MORE])
    _, _, directions = np.linalg.svd(together - intercept * together.mean(axis=0))
    vectors = ridge.components.vectors
    close(vectors @ vectors.T, directions[:3].T @ directions[:3], rtol=1e-10)
    if intercept:
        pca = PCA(3, svd_solver="full").fit(together)
        close(vectors @ vectors.T, pca.components_.T @ pca.components_, rtol=1e-10)
    projected = Z @ directions[:3].T
    coefficients, intercepts = ridge.coefficients(alpha)
    close(Z @ coefficients + intercepts, fitted(projected, Y, alpha, intercept).predict(projected), rtol=1e-9)
    coordinates = ridge.components.transform(Z)
    close(coordinates.T @ coordinates, np.diag(ridge.components.variances), rtol=1e-11)


def test_unlabeled_rows_without_a_choice_of_components_do_not_matter():
    one, other = (Ridge.of(STATISTICS, None, unlabeled) for unlabeled in (None, StreamingStatistics.of(MORE)))
    close(one.coefficients(2.0)[0], other.coefficients(2.0)[0], rtol=1e-12)


@by_alpha
@by_intercept
def test_generalized_error_by_the_hat_matrix(alpha, intercept):
    rest = np.eye(50) - hat_matrix(Z, alpha, intercept)
    expected = np.mean((rest @ Y) ** 2, axis=0).sum() / np.mean(np.diag(rest)) ** 2
    ridge = Ridge.of(STATISTICS, intercept=intercept)
    np.testing.assert_allclose(ridge.generalized_error(alpha), expected, rtol=1e-9)


@by_alpha
@by_intercept
@by_weights
def test_left_out_error_by_leaving_out(alpha, intercept, weights):
    given = np.ones(50) if weights is None else weights
    ridge = Ridge.of(StreamingStatistics.of(Z, Y, weights), intercept=intercept)
    some = np.arange(0, 50, 3)
    errors = []
    for i in some:
        others = given - np.minimum(given, 1) * (np.arange(50) == i)
        predicted = fitted(Z, Y, alpha, intercept, others).predict(Z[[i]])
        errors.append(np.sum((Y[i] - predicted) ** 2))
    units = np.minimum(given[some], 1)
    rows = LeftOut(ridge.transform(Z[some]), Y[some], given[some], units)
    found = rows.mean_square(ridge.leave_out(alpha, rows))
    np.testing.assert_allclose(found, np.average(errors, weights=given[some]), rtol=1e-8)


@by_intercept
@pytest.mark.parametrize("n_rows", [50, 6])
def test_evidence_is_the_likelihood_under_the_best_noise(n_rows, intercept):
    F, T = Z[:n_rows], Y[:n_rows]
    if intercept:
        basis = null_space(np.ones((1, n_rows)))
        F, T = basis.T @ F, basis.T @ T
    ridge = Ridge.of(StreamingStatistics.of(Z[:n_rows], Y[:n_rows]), intercept=intercept)
    differences = []
    for alpha in ALPHAS:
        C = np.eye(len(F)) + F @ F.T / alpha
        noise = np.sum(T * np.linalg.solve(C, T)) / T.size
        likelihood = multivariate_normal(cov=noise * C).logpdf(T.T).sum()
        differences.append(ridge.negative_evidence(alpha) + likelihood)
    np.testing.assert_allclose(differences, T.size / 2 * (-1 - np.log(2 * np.pi)), rtol=1e-7)


@by_alpha
@by_intercept
def test_weights_count_like_repeated_rows(alpha, intercept):
    times = np.arange(50) % 4
    weighted = Ridge.of(StreamingStatistics.of(Z, Y, times), intercept=intercept)
    repeated = Ridge.of(StreamingStatistics.of(Z.repeat(times, axis=0), Y.repeat(times, axis=0)), intercept=intercept)
    for measure in (Ridge.generalized_error, Ridge.negative_evidence):
        np.testing.assert_allclose(measure(weighted, alpha), measure(repeated, alpha), rtol=1e-9)


def test_penalties_span_the_spectrum():
    ridge = Ridge.of(STATISTICS)
    largest = np.linalg.eigvalsh(np.cov(Z.T) * 49)[-1]
    penalties = ridge.penalties()
    assert np.all(np.diff(penalties) > 0)
    np.testing.assert_allclose(penalties[[0, -1]], [1e-10 * largest, 10 * largest], rtol=1e-9)
    assert np.all(np.isfinite([ridge.negative_evidence(alpha) for alpha in penalties]))


@by_alpha
@by_intercept
def test_directions_without_variance_have_no_weight(alpha, intercept):
    wide = np.hstack([Z, Z, np.zeros((50, 1))])
    coefficients, intercepts = Ridge.of(StreamingStatistics.of(wide, Y), intercept=intercept).coefficients(alpha)
    theirs = fitted(wide, Y, alpha, intercept)
    close(wide @ coefficients + intercepts, theirs.predict(wide), rtol=1e-8)
    close(coefficients[-1], np.zeros(2), np.abs(coefficients).max(), rtol=1e-10)


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows(rows):
    ridge = Ridge.of(StreamingStatistics.of(Z[:rows], Y[:rows]))
    coefficients, intercepts = ridge.coefficients(1.0)
    close(coefficients, np.zeros((8, 2)), 1.0, rtol=1e-12)
    close(intercepts, Y[:rows].sum(axis=0), np.abs(Y).max(), rtol=1e-12)
    assert np.all(np.isfinite(ridge.penalties()))
    assert np.isfinite(ridge.generalized_error(1.0))
    assert np.isfinite(ridge.negative_evidence(1.0))


@pytest.mark.parametrize("seed", range(3))
def test_with_fewer_rows_than_features_errors_are_those_of_the_dense_formulas(seed):
    rng = np.random.default_rng(seed)
    few, targets = rng.random((20, 50)), rng.standard_normal((20, 1))
    ridge = Ridge.of(StreamingStatistics.of(few, targets))
    C = few - few.mean(axis=0)
    for alpha in ridge.penalties()[8:]:
        H = C @ np.linalg.solve(C.T @ C + alpha * np.eye(50), C.T) + 1 / 20
        left = np.eye(20) - H
        errors = (left @ targets)[:, 0] / left.diagonal()
        rows = LeftOut(ridge.transform(few), targets, *np.ones((2, 20)))
        found = rows.mean_square(ridge.leave_out(alpha, rows))
        np.testing.assert_allclose(found, np.mean(errors**2), rtol=1e-3)
        expected = 20 * np.sum((left @ targets) ** 2) / np.trace(left) ** 2
        np.testing.assert_allclose(ridge.generalized_error(alpha), expected, rtol=1e-3)


@by_alpha
def test_evidence_of_weights_below_one_is_that_of_noise_by_weight(alpha):
    weights = WEIGHTS / WEIGHTS.sum()
    found, expected = [], []
    for penalty in (alpha, 3 * alpha):
        C = np.diag(1 / weights) + Z @ Z.T / penalty
        noise = np.sum(Y * np.linalg.solve(C, Y)) / Y.size
        expected.append(-multivariate_normal(cov=noise * C).logpdf(Y.T).sum())
        found.append(Ridge.of(StreamingStatistics.of(Z, Y, weights), intercept=False).negative_evidence(penalty))
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-6, atol=1e-6)


@by_intercept
@pytest.mark.parametrize("unit", [1e-6, 0.1])
def test_the_unit_of_weights_below_one_is_that_of_the_penalty(unit, intercept):
    weights = WEIGHTS / WEIGHTS.max()
    one, other = (Ridge.of(StreamingStatistics.of(Z, Y, own), intercept=intercept) for own in (weights, unit * weights))
    for measure in ("generalized_error", "negative_evidence"):
        found = [ridge.find_penalty(getattr(ridge, measure)) for ridge in (one, other)]
        assert found[1] == pytest.approx(unit * found[0], rel=1e-9)
        assert found[0] < one.penalties()[-1]


def single_and_double(n_rows, seed):
    """The regression on smooth features, more than there are rows, from products in single and double precision."""
    rng = np.random.default_rng(seed)
    frequencies = rng.standard_normal((10, 120))
    waves = np.cos(rng.random((n_rows, 10)) @ frequencies + 6 * rng.random(120)).astype(np.float32)
    targets = np.sign(waves @ rng.standard_normal((120, 1)) - waves.mean() + 3 * rng.standard_normal((n_rows, 1)))
    sums = Sums(120, 1, single=True)
    sums.add(waves, targets)
    rounded = Ridge.of(sums.total(), precision=np.float32)
    return waves, targets, rounded, Ridge.of(StreamingStatistics.of(waves.astype(float), targets))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_rows", [40, 119, 120, 200])
def test_penalties_from_products_in_single_precision_are_those_from_double(n_rows, seed):
    waves, targets, *both = single_and_double(n_rows, seed)

    def penalties(ridge):
        rows = LeftOut(ridge.transform(waves), targets, *np.ones((2, n_rows)))
        errors = ridge.generalized_error, ridge.negative_evidence, lambda a: rows.mean_square(ridge.leave_out(a, rows))
        return [ridge.find_penalty(error) for error in errors]

    found = [penalties(ridge) for ridge in both]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)
    assert min(found[0]) > 10 * both[0].components.rounding


def test_a_penalty_is_not_below_rounding():
    _, _, rounded, exact = single_and_double(40, 0)
    assert rounded.penalties()[0] == rounded.components.rounding > 100 * exact.penalties()[0]
    assert len(rounded.penalties()) < len(exact.penalties()) == 45
    # Targets without noise ask for the smallest penalty.
    assert rounded.find_penalty(lambda alpha: alpha) == rounded.components.rounding
    nothing = Ridge.of(StreamingStatistics.of(np.ones((5, 3)), np.arange(5.0)))
    assert np.all(nothing.penalties() > 0)
