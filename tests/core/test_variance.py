"""Every variance against the dense formula, for every kernel, kind of noise and input."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_operators import kernel_operator
from oracles import Log, close, heights, histograms, kernel_matrix, matrices
from scipy.stats import spearmanr
from sklearn.datasets import load_digits

from core.operators.intersection_kernels import kernels
from histogp._core.data import Rows
from histogp._core.posterior import Posterior
from histogp._core.solvers.problem import Noise, SolverOptions, TrainingTargets
from histogp._core.variance import METHODS, VarianceOptions
from histogp._core.variance.calibrated import CALIBRATED, variances_of_differences
from histogp._core.variance.sampled import SAMPLED
from histogp.kernels import Exponential, HistogramIntersection, Power

KERNELS = {
    "identity": HistogramIntersection(),
    "power": HistogramIntersection(Power(0.5)),
    "exponential": HistogramIntersection(Exponential(2.0)),
    "own transform": HistogramIntersection(Log(3.0)),
    "weights": HistogramIntersection(weights=np.linspace(0, 2, 8)),
    "one eta a dimension": HistogramIntersection(Power(np.linspace(0.3, 1.5, 8)), np.linspace(3, 1, 8)),
}
X = histograms(400, 8)
X[:, 5] = 0  # empty in training
# Rows like those of training, above their range, with a column that was empty, and of zeros.
TEST = np.vstack([histograms(30, 8, seed=3), 3 * X[:5], histograms(5, 8, seed=4) + np.eye(8)[5], np.zeros((1, 8))])
ROWS = Rows.from_array(TEST)
OPTIONS = VarianceOptions(tol=1e-10)
CG = SolverOptions("cg", 1e-3, n_threads=2)


def noises(n, kind):
    rng = np.random.default_rng(5)
    if kind == "one":
        return Noise(np.full(n, 0.1))
    sample = 0.1 * rng.uniform(0.5, 2, n)
    if kind == "one an example":
        return Noise(sample)
    return Noise(sample, rng.integers(0, 3, n), np.array([0.5, 1.0, 2.0]), np.array([1.5, 1.0, 0.7]))


def exact(kernel, diagonal, train=X, test=TEST):
    """Prior variance and latent variance by the dense formula, (n,) each."""
    K = kernel_matrix(train, train, kernel) + np.diag(diagonal)
    k = kernel_matrix(train, test, kernel)
    prior = heights(test, kernel).sum(axis=1)
    return prior, prior - (k * np.linalg.solve(K, k)).sum(axis=0)


def variances(kernel, noise, train=X, seed=0):
    nothing = np.zeros((len(noise.sample), noise.n_matrices))  # variances do not depend on targets
    return Posterior(kernel_operator(train, kernel, 2), TrainingTargets(nothing, noise), nothing, 0.0, seed)


def latent(found, rows, method, options, solver):
    """A variance that says of itself that it is clear."""
    values, shortfall = found.variance(rows, method, replace(options, solver=solver))
    assert shortfall is None
    return values


def calibrated_tables(found, solver):
    return found.prepared(CALIBRATED, VarianceOptions(solver=solver))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one", "one an example", "one a class"])
@pytest.mark.parametrize("name", KERNELS)
def test_every_method_is_right_or_a_bound(name, kind):
    noise = noises(400, kind)
    prior, expected = exact(KERNELS[name], noise.diagonals().max(axis=1))
    found = variances(KERNELS[name], noise)
    for solver in (SolverOptions(n_threads=2), CG):
        close(latent(found, ROWS, "precise", OPTIONS, solver), expected, prior.max(), rtol=1e-9)
        found = variances(KERNELS[name], noise)
    chain = [expected, *latent(found, ROWS, "fine", VarianceOptions([8, 2, 0]), CG).T]
    chain += [latent(found, ROWS, method, OPTIONS, CG) for method in ("coarse", "coarse-quantized")] + [prior]
    for smaller, larger in itertools.pairwise(chain):
        assert np.all(smaller <= larger + 1e-9 * prior.max())
    assert np.all(chain[1] >= 0)
    # More eigenvectors than there are make it exact.
    every = latent(found, ROWS, "fine", VarianceOptions(400), CG)
    close(every, expected, prior.max(), rtol=1e-9)
    sampled = latent(found, ROWS, "sampled", VarianceOptions(n_samples=512), CG)
    large = expected > 1e-6 * prior.max()
    assert np.sqrt(np.mean((sampled[large] / expected[large] - 1) ** 2)) < 0.12
    calibrated = latent(found, ROWS, "calibrated", OPTIONS, CG)
    assert np.all(calibrated >= 0)
    assert np.all(calibrated <= prior + 1e-9)
    inside = large & (np.arange(len(large)) < 30)
    error = np.sqrt(np.mean((calibrated[inside] / expected[inside] - 1) ** 2))
    assert error < 0.2  # eight dimensions of few examples: the worst case for it
    assert error / 3 < calibrated_tables(found, CG).error < 3 * error
    assert spearmanr(calibrated, expected)[0] > 0.95
    # The function of a row of zeros is zero.
    for method in METHODS:
        assert latent(found, ROWS, method, OPTIONS, CG)[-1] == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("noise", ["one", "one an example"])
def test_every_method_is_what_it_says_it_is(method, noise):
    kernel, noise = KERNELS["identity"], noises(400, noise)
    prior, expected = exact(kernel, noise.sample)
    values = latent(variances(kernel, noise), ROWS, method, OPTIONS, CG)
    kind, usual = METHODS[method].kind, slice(0, 30)
    assert np.all(values >= 0)
    if kind == "exact":
        np.testing.assert_allclose(values, expected, atol=1e-8 * prior.max())
    elif kind == "bound":
        assert np.all(values >= expected - 1e-8)
        assert np.all(values <= prior + 1e-8)
    else:
        assert np.sqrt(np.mean((values[usual] / expected[usual] - 1) ** 2)) < 0.2


def test_one_variance_a_problem():
    noise = noises(400, "one a class")
    kernel = KERNELS["power"]
    expected = np.stack([exact(kernel, diagonal)[1] for diagonal in noise.diagonals().T], axis=1)
    for solver in (SolverOptions(n_threads=2), CG):
        found = variances(kernel, noise).variance_per_output(ROWS, replace(OPTIONS, solver=solver))
        close(found.values, expected, rtol=1e-9)
    shared = latent(variances(kernel, noise), ROWS, "precise", OPTIONS, CG)
    assert np.all(shared[:, None] >= expected - 1e-9)
    one = variances(kernel, noises(400, "one"))
    per_output = one.variance_per_output(ROWS, replace(OPTIONS, solver=CG)).values
    close(per_output[:, 0], latent(one, ROWS, "precise", OPTIONS, CG))


@settings(max_examples=100)
@given(st.data())
def test_the_bounds_hold_for_any_data(data):
    train = data.draw(matrices())
    kernel = data.draw(kernels(train))
    test = data.draw(matrices(train.shape[1]))
    if isinstance(kernel.transform, Exponential):
        return
    size = max(heights(train, kernel).sum(axis=1).max(), 1e-3)
    noise = Noise(size * np.geomspace(0.05, 1, train.shape[0]))
    prior, expected = exact(kernel, noise.sample, train, test)
    found, rows = variances(kernel, noise, train), Rows.from_array(test)
    precise = latent(found, rows, "precise", OPTIONS, SolverOptions())
    scale = max(prior.max(), size)
    close(precise, expected.clip(0), scale, rtol=1e-9)
    chain = [precise, *latent(found, rows, "fine", VarianceOptions([8, 2, 0]), CG).T]
    chain += [latent(found, rows, method, OPTIONS, CG) for method in ("coarse", "coarse-quantized")]
    for smaller, larger in itertools.pairwise(chain):
        assert np.all(smaller <= larger + 1e-8 * scale)
    assert all(np.all(link >= 0) for link in chain)


@pytest.mark.slow
def test_large_data_take_the_iterative_path_and_bounds_stay_bounds():
    train, test = histograms(2500, 30, density=0.2), histograms(40, 30, seed=7, density=0.2)
    kernel, noise = HistogramIntersection(), Noise(np.full(2500, 0.05))
    prior, expected = exact(kernel, noise.sample, train, test)
    found, rows = variances(kernel, noise, train), Rows.from_array(test)
    solver = SolverOptions(n_threads=2)
    np.testing.assert_allclose(latent(found, rows, "precise", OPTIONS, solver), expected, rtol=1e-6)
    loose = latent(found, rows, "precise", VarianceOptions(tol=2e-3), solver)
    assert np.all(loose >= expected - 1e-12)  # never too small
    np.testing.assert_allclose(loose, expected, rtol=0.05)
    fine = latent(found, rows, "fine", VarianceOptions([32, 8, 2, 0]), solver)
    chain = [expected, *fine.T, latent(found, rows, "coarse", OPTIONS, solver), prior]
    for smaller, larger in itertools.pairwise(chain):
        assert np.all(smaller <= larger + 1e-8)
    assert np.mean(fine[:, 0]) < 0.95 * np.mean(fine[:, 1])
    calibrated = latent(found, rows, "calibrated", OPTIONS, solver)
    error = np.sqrt(np.mean((calibrated / expected - 1) ** 2))
    assert error < 0.1
    assert calibrated_tables(found, solver).error < 0.1


def test_a_solver_that_is_stopped_says_how_wrong_the_variance_may_be():
    found = variances(HistogramIntersection(), Noise(np.full(400, 1e-4)))
    stopped = SolverOptions("cg", 1e-3, max_iter=2, preconditioner_rank=0)
    values, shortfall = found.variance(ROWS, "precise", replace(OPTIONS, solver=stopped))
    most = float(re.search(r"too large by up to (\S+):", shortfall)[1])
    expected = exact(HistogramIntersection(), np.full(400, 1e-4))[1]
    assert np.all(values - expected <= 1.05 * most)  # it is given with two digits
    latent(found, ROWS, "precise", OPTIONS, replace(stopped, max_iter=5000))  # a second try can do better


def test_samples_have_the_posterior_covariance_jointly():
    noise = noises(400, "one an example")
    kernel = KERNELS["identity"]
    found = variances(kernel, noise)
    samples = found.prepared(SAMPLED, VarianceOptions(n_samples=4000, solver=CG))
    few = Rows.from_array(TEST[:6])
    K = kernel_matrix(X, X, kernel) + np.diag(noise.sample)
    k = kernel_matrix(X, TEST[:6], kernel)
    expected = kernel_matrix(TEST[:6], TEST[:6], kernel) - k.T @ np.linalg.solve(K, k)
    drawn = samples.deviations(few).astype(float)
    covariance = drawn @ drawn.T / 4000 + np.diag(_hidden(samples, few))
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    error = np.sqrt((size**2 + expected**2) / 4000)
    assert np.all(np.abs(covariance - expected) < 5 * error + 0.02 * size)


def _hidden(samples, rows):
    located = samples.layout.locate(rows)
    return located.gaps(samples.spreads) + located.beyond


def test_sampled_variances_are_right_on_average():
    noise = noises(400, "one")
    expected = exact(KERNELS["power"], noise.sample)[1][:-1]
    ratios = []
    for seed in range(12):
        found = latent(
            variances(KERNELS["power"], noise, seed=seed), ROWS, "sampled", VarianceOptions(n_samples=64), CG
        )
        ratios.append((found[:-1] / expected).mean())
    assert abs(np.mean(ratios) - 1) < 0.01 + 3 * np.std(ratios) / np.sqrt(len(ratios))


def test_what_is_prepared_is_prepared_once_and_only_on_demand():
    found = variances(HistogramIntersection(), noises(400, "one"))
    names = ("system-cg", "systems-cg", "spectrum", "coarse", "coarse-quantized", "sampled", "calibrated")
    assert all(found.lazy.present(name) is None for name in names)
    latent(found, ROWS, "fine", VarianceOptions(5), CG)
    spectrum = found.lazy.present("spectrum")
    latent(found, ROWS, "fine", VarianceOptions(2), CG)
    latent(found, ROWS, "coarse", OPTIONS, CG)
    assert found.lazy.present("spectrum") is spectrum
    latent(found, ROWS, "calibrated", OPTIONS, CG)
    table = found.lazy.present("calibrated")
    latent(found, ROWS, "calibrated", OPTIONS, CG)
    assert found.lazy.present("calibrated") is table
    assert all(found.lazy.present(name) is None for name in ("system-cg", "sampled"))


def test_rows_left_out_of_the_tables_have_the_variances_of_leaving_them_out():
    noise = noises(400, "one an example")
    found = variances(KERNELS["identity"], noise)
    calibrated = calibrated_tables(found, CG)
    K = kernel_matrix(X, X, KERNELS["identity"]) + np.diag(noise.sample)
    expected = (1 / np.linalg.inv(K).diagonal() - noise.sample)[calibrated.left_out]
    assert np.sqrt(np.mean((calibrated.left_out_variances / expected - 1) ** 2)) < 0.12
    assert calibrated.error < 0.12


def test_data_of_which_nothing_can_be_learned():
    zeros = np.zeros((300, 4))
    found, rows = variances(HistogramIntersection(), Noise(np.full(300, 0.1)), zeros), Rows.from_array(np.eye(4))
    for method in METHODS:
        np.testing.assert_allclose(latent(found, rows, method, OPTIONS, SolverOptions()), 1.0)


def test_repeated_eigenvalues_do_not_break_the_bound():
    block = histograms(150, 10, seed=3)
    train = np.kron(np.eye(4), block)
    test = np.hstack([block[:30], np.zeros((30, 30))])
    found, rows = variances(HistogramIntersection(), Noise(np.full(600, 0.1)), train), Rows.from_array(test)
    expected = exact(HistogramIntersection(), np.full(600, 0.1), train, test)[1]
    for link in latent(found, rows, "fine", VarianceOptions([8, 5, 2, 0]), CG).T:
        assert np.all(link >= expected - 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [100.0, 1.0, 0.01])
def test_counts_are_sampled_without_bias_however_small_the_noise(noise):
    digits = load_digits().data
    train, test = digits[:500], digits[500:560]
    found, rows = variances(HistogramIntersection(), Noise(np.full(500, noise)), train), Rows.from_array(test)
    expected = exact(HistogramIntersection(), np.full(500, noise), train, test)[1]
    sampled = latent(found, rows, "sampled", VarianceOptions(n_samples=512), SolverOptions())
    assert abs(np.mean(sampled / expected) - 1) < 0.05


def test_what_lies_beyond_the_training_data_counts_fully():
    rng = np.random.default_rng(0)
    train = (rng.random((600, 20)) < 0.3) * 1.0
    train[:, 15:] = 0
    test = np.vstack([10 * train[:20], rng.integers(0, 4, (20, 20))])
    found, rows = variances(HistogramIntersection(), Noise(np.full(600, 0.1)), train), Rows.from_array(test)
    expected = exact(HistogramIntersection(), np.full(600, 0.1), train, test)[1]
    np.testing.assert_allclose(latent(found, rows, "calibrated", OPTIONS, CG), expected, rtol=0.05)
    same = np.ones((600, 5))
    found = variances(HistogramIntersection(), Noise(np.full(600, 0.1)), same)
    beyond = latent(found, Rows.from_array(2 * np.ones((1, 5))), "calibrated", OPTIONS, CG)
    np.testing.assert_allclose(beyond, 5, rtol=1e-3)


def test_weights_of_examples_over_many_decades():
    train, test = histograms(300, 12), histograms(20, 12, seed=5)
    noise = Noise(0.05 / 10 ** np.random.default_rng(0).uniform(-4, 4, 300))
    found, rows = variances(HistogramIntersection(), noise, train), Rows.from_array(test)
    expected = exact(HistogramIntersection(), noise.sample, train, test)[1]
    calibrated = found.variance(rows, "calibrated", OPTIONS).values
    assert np.all(np.isfinite(calibrated))
    close(latent(found, rows, "precise", OPTIONS, SolverOptions()), expected, rtol=1e-6)


@pytest.mark.parametrize(("noise", "unit"), [(1e-6, 1.0), (0.1, 1e6), (1e3, 1e-6)])
def test_precise_by_iteration_is_precise_or_says_so(noise, unit):
    train, test = histograms(300, 12) * unit, histograms(20, 12, seed=5) * unit
    found = variances(HistogramIntersection(), Noise(np.full(300, noise)), train)
    expected = exact(HistogramIntersection(), np.full(300, noise), train, test)[1]
    options = VarianceOptions(solver=SolverOptions("cg", 1e-3, 3000))
    actual, shortfall = found.variance(Rows.from_array(test), "precise", options)
    assert shortfall or np.all(np.abs(actual / expected - 1) < 0.05)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 3.0])
def test_variances_over_a_gap_are_those_of_brownian_motion(noise):
    """By the dense formula, for samples on both sides of a gap, and none on one side of another."""
    x = np.concatenate([np.linspace(0.05, 0.3, 9), np.linspace(0.8, 1.0, 5)])
    nodes = np.array([0.0, 0.05, 0.3, 0.8, 1.0])
    gaps = np.array([0.05, 0.0, 0.5, 0.0, 0.0])
    cross = np.minimum.outer(nodes, x)
    explained = cross @ np.linalg.solve(np.minimum.outer(x, x) + noise * np.eye(len(x)), cross.T)
    covariance = np.minimum.outer(nodes, nodes) - explained
    found = variances_of_differences(gaps, covariance.diagonal())
    for k in np.flatnonzero(gaps):
        ends = covariance[k : k + 2, k : k + 2]
        assert found[k] == pytest.approx(ends[0, 0] + ends[1, 1] - 2 * ends[0, 1], rel=1e-6)
    assert not found[gaps == 0].any()
