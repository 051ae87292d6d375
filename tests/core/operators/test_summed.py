"""Sums of operators: the contract, and models against dense formulas."""

import numpy as np
import pytest
from hypothesis import strategies as st
from kernel_operators import kernel_operator
from oracles import close, dense, histograms

import histogp
from core.operators.suite import CoreSuite, UpdatesSuite, WithoutTablesSuite
from core.operators.test_pair_kernels import formula
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor, Optimizer
from histogp._core.data import Rows
from histogp._core.operators.contract import Approximate
from histogp.active import query
from histogp.kernels import Chi2, Constant, ExpChi2, Gaussian, HistogramIntersection, Laplacian, Power, Sum

pytestmark = pytest.mark.portable
NOISE = 0.3


def summed(*parts, **named):
    return Sum(list(parts) or list(named.items()), approximation="parts")


class TestSummed(CoreSuite, UpdatesSuite, WithoutTablesSuite):
    typical = {  # noqa: RUF012
        "intersection, laplacian, constant": summed(
            HistogramIntersection(scale=0.7), Laplacian(0.7, unit=2.0), Constant(0.2)
        ),
        "weights and columns": summed(
            HistogramIntersection(Power(1.5), columns=[0, 2]),
            Gaussian(unit=3.0, columns=slice(1, 4)),
            ExpChi2(beta=0.5),
        ),
    }

    def make(self, X, kernel, n_threads=1):
        return kernel_operator(X, kernel, n_threads)

    def evaluate(self, A, B, kernel):
        return formula(A, B, kernel)

    def size(self, A, B, kernel):
        """Distances are differences of sums of features, or of their squares."""
        sums = [np.asarray(dense(rows), float).sum(axis=1) for rows in (A, B)]
        return formula(A, B, kernel) + (1 + sums[0])[:, None] + sums[1] + sums[0][:, None] ** 2 + sums[1] ** 2

    def cost(self, X, kernel):
        """Non-zeros of the intersection kernels, with a column of ones for constants; all pairs for each other part."""
        parts = kernel.named_parts()
        has_ones = "constant" in parts
        n_matrices = len(parts) - 1 - has_ones
        return np.count_nonzero(X) + has_ones * X.shape[0] + n_matrices * X.shape[0] ** 2

    def kernels(self, X):
        size = max(1.0, float(np.max(dense(X), initial=0.0)))
        parts = HistogramIntersection(), Laplacian(unit=size), Constant(0.5)
        return st.sampled_from([summed(*parts), summed(*parts[1:])])


X, TEST = histograms(60, 5), histograms(20, 5, seed=7)
Y = np.sin(9 * X[:, 0]) + X[:, 1] - 3 * X[:, 2] * X[:, 3]
KERNELS = {
    "intersection and laplacian": summed(HistogramIntersection(), Laplacian(unit=0.5, scale=0.4), Constant(0.2)),
    "columns": summed(
        one=HistogramIntersection(Power(0.5), columns=[0, 1]), two=Gaussian(2.0, unit=0.3, columns=[2, 3, 4])
    ),
}
by_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))


def regressor(kernel, **options):
    return HistogramGPRegressor(kernel, noise=NOISE, normalize_y=False, tol=1e-10, **options)


def posterior(kernel, A, y, noise=NOISE):
    """Mean, latent variance and log marginal likelihood by the dense formula."""
    system = formula(A, A, kernel) + noise * np.eye(len(A))
    cross = formula(TEST, A, kernel)
    alpha = np.linalg.solve(system, y)
    variance = formula(TEST, TEST, kernel).diagonal() - np.sum(cross * np.linalg.solve(system, cross.T).T, axis=1)
    evidence = -(y @ alpha + np.linalg.slogdet(system)[1] + len(A) * np.log(2 * np.pi)) / 2
    return cross @ alpha, variance, evidence


@by_kernel
@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_a_model_is_that_of_the_dense_sum(kernel, solver, tmp_path):
    model = regressor(kernel, solver=solver).fit(X, Y)
    mean, variance, evidence = posterior(kernel, X, Y)
    model.save(tmp_path / "model")
    for one in (model, histogp.load(tmp_path / "model")):
        np.testing.assert_allclose(one.predict(TEST), mean, rtol=1e-7)
        np.testing.assert_allclose(one.predict_variance(TEST, include_noise=False), variance, rtol=1e-6)
        assert one.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-9)
    assert not model.approximation_
    assert sum(model.kernel_shares_.values()) == pytest.approx(1)
    assert set(model.kernel_shares_) == set(kernel.named_parts())


@by_kernel
def test_updates_equal_a_fit(kernel):
    model = regressor(kernel).fit(X[:40], Y[:40])
    model.partial_fit(X[40:], Y[40:])
    np.testing.assert_allclose(model.predict(TEST), posterior(kernel, X, Y)[0], rtol=1e-6)
    model.forget(model.ids_[:10])
    np.testing.assert_allclose(model.predict(TEST), posterior(kernel, X[10:], Y[10:])[0], rtol=1e-6)


@by_kernel
def test_derivatives_are_those_of_finite_differences(kernel):
    operator = kernel_operator(X, kernel)
    U, V = np.random.default_rng(0).standard_normal((2, len(X), 2))
    found, value = operator.gradient(U, V), operator.kernel
    logarithms = value.log_gradient(found)
    traces = value.log_gradient(operator.trace_gradient())
    rows = Rows.from_array(X)
    for one in value.hyperparameters(rows, NOISE, 1.0):
        if one.name == "noise":
            continue
        step = 1e-5
        sides = [
            operator.with_kernel(value.at({one.name: one.expand(one.start * np.exp(sign * step))})) for sign in (1, -1)
        ]
        forms = [np.einsum("is,ij,js", U, side.matrix(), V) for side in sides]
        close(one.collect(logarithms[one.name])[0], (forms[0] - forms[1]) / (2 * step), np.abs(forms[0]), rtol=1e-6)
        diagonals = [side.diagonal().sum() for side in sides]
        close(one.collect(traces[one.name])[0], (diagonals[0] - diagonals[1]) / (2 * step), diagonals[0], rtol=1e-6)


def test_a_search_ends_where_that_of_the_matrix_does():
    """Which works with all pairs at once."""
    parts = [HistogramIntersection(), Laplacian(unit=0.5)]
    found = [
        regressor(Sum(parts, approximation=kind), optimize=Optimizer("exact", max_steps=300)).fit(X, Y)
        for kind in ("parts", "exact")
    ]
    likelihoods = [model.log_marginal_likelihood_ for model in found]
    assert likelihoods[0] == pytest.approx(likelihoods[1], abs=0.02)
    shares = [list(model.kernel_shares_.values()) for model in found]
    np.testing.assert_allclose(*shares, atol=0.02)
    noise = found[0].noise_
    assert posterior(found[0].kernel_, X, Y, noise)[2] == pytest.approx(likelihoods[0], rel=1e-8)


def test_parts_keep_their_approximations(tmp_path):
    """An intersection kernel exactly, landmarks and the expansion of chi2 beside it."""
    kernel = summed(HistogramIntersection(), Laplacian(unit=0.5, approximation="nystroem", n_components=40), Chi2())
    model = regressor(kernel).fit(X, Y)
    assert list(model.approximation_) == ["nystroem + expansion"]
    assert 0 < model.approximation_["nystroem + expansion"] < 0.1
    mean = posterior(kernel, X, Y)[0]
    assert np.sqrt(np.mean((model.predict(TEST) - mean) ** 2)) < 0.1 * mean.std()
    operator = model._posterior.operator
    features = operator.matrix() + NOISE * np.eye(len(X))
    np.testing.assert_allclose(
        model.predict(TEST), operator.cross(Rows.from_array(TEST)) @ np.linalg.solve(features, Y), rtol=1e-7
    )
    model.save(tmp_path / "model")
    np.testing.assert_allclose(histogp.load(tmp_path / "model").predict(TEST), model.predict(TEST), rtol=1e-9)
    exact = operator.exactly()
    assert exact.offer(Approximate).approximated_by == "expansion"  # that of chi2 is all that there is


def test_classes_novelty_and_queries():
    labels = np.where(np.median(Y) < Y, "high", "low")
    kernel = KERNELS["intersection and laplacian"]
    model = HistogramGPClassifier(kernel, noise=NOISE, random_state=0).fit(X, labels)
    expected = HistogramGPClassifier(
        Sum(list(kernel.named_parts().items()), approximation="exact"), noise=NOISE, random_state=0
    ).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(TEST), expected.predict_proba(TEST), rtol=1e-6)
    np.testing.assert_allclose(model.novelty(TEST), expected.novelty(TEST), rtol=1e-6)
    np.testing.assert_array_equal(query(model, TEST, batch_size=3), query(expected, TEST, batch_size=3))
    one_class = HistogramGPOneClass(kernel, contamination=0.1, noise=NOISE, random_state=0).fit(X)
    assert set(one_class.predict(TEST)) <= {-1, 1}


def test_constants_alone_take_features_of_any_sign():
    kernel = summed(Laplacian(unit=0.5), Constant(0.2))
    model = regressor(kernel).fit(X - 0.5, Y)
    expected = regressor(Laplacian(unit=0.5) + Constant(0.2)).fit(X - 0.5, Y)
    np.testing.assert_allclose(model.predict(TEST - 0.5), expected.predict(TEST - 0.5), rtol=1e-7)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Sum([Laplacian()], approximation="parts", weights=2.0), "set weights of each part"),
        (Sum([Laplacian()], approximation="parts", shift=1.0), "with shift take another approximation"),
        (Sum([Laplacian()], approximation="parts", normalize="l1"), "with normalize take another approximation"),
        (Sum([Laplacian(approximation="parts")]), "approximation must be one of"),
        (summed(Laplacian(approximation="some")), "approximation must be one of"),
    ],
)
def test_what_makes_no_sense_is_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        regressor(kernel).fit(X, Y)


def test_tables_are_refused_by_a_sentence(tmp_path):
    model = regressor(KERNELS["columns"]).fit(X, Y)
    with pytest.raises(ValueError, match='a sum with approximation="parts" does not have'):
        model.predict_variance(TEST, "sampled")
    with pytest.raises(ValueError, match='a sum with approximation="parts" does not have'):
        regressor(KERNELS["columns"], prediction="quantized").fit(X, Y)
    with pytest.raises(ValueError, match='a sum with approximation="parts" does not have'):
        model.save(tmp_path / "model", include_training=False)
