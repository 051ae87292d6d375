"""Samples that share rows, against dense formulas over all samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import close

from histogp._core.solvers.preconditioner import gram
from histogp._core.solvers.problem import Noise, TrainingTargets

N_OUTPUTS = 3


@st.composite
def samples(draw):
    """Rows of samples, of which some have several; a covariance of rows; targets, and noise of three kinds."""
    n = draw(st.integers(1, 12))
    row_of = np.unique(draw(st.lists(st.integers(0, 7), min_size=n, max_size=n)), return_inverse=True)[1]
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n_rows = row_of.max() + 1
    features = rng.normal(size=(n_rows, n_rows))
    codes = rng.integers(N_OUTPUTS, size=n)
    sample = rng.choice([0.1, 0.2, 0.4, 1.7], size=n)
    noise = Noise(sample)
    if draw(st.booleans()):
        noise = Noise(sample, codes, *rng.uniform(0.3, 3, (2, N_OUTPUTS)))
    targets = np.where(codes[:, None] == np.arange(N_OUTPUTS), 1.0, -1.0)
    if draw(st.booleans()):
        targets = rng.normal(size=targets.shape)
    return TrainingTargets(targets, noise, row_of, 0.2), features @ features.T


def row_of(given):
    """The number of the row of each sample."""
    return np.arange(len(given.targets)) if given.row_of is None else given.row_of


def systems(given, K):
    """For each output the matrix of all samples, its diagonal of noise, and the targets."""
    diagonals = np.broadcast_to(given.noise.diagonals(), given.targets.shape)
    K = K[np.ix_(row_of(given), row_of(given))]
    return [(K + np.diag(noise), noise, y) for noise, y in zip(diagonals.T, given.targets.T, strict=True)]


def of_rows(given, K):
    """For each output the matrix of rows, and their targets."""
    diagonals = np.broadcast_to(given.row_noise.diagonals(), given.row_targets.shape)
    return [(K + np.diag(noise), y) for noise, y in zip(diagonals.T, given.row_targets.T, strict=True)]


@given(samples())
def test_rows_say_what_all_samples_say(case):
    given, K = case
    for (A, _, y), (B, of_row) in zip(systems(given, K), of_rows(given, K), strict=True):
        alpha = np.linalg.solve(B, of_row)
        whole = np.linalg.solve(A, y)
        close(np.bincount(row_of(given), whole), alpha, scale=np.abs(whole).max(), rtol=1e-9)
        # And so do variances: what the data explain of any covariances with the rows.
        k = np.cos(np.arange(len(K)))
        close(k @ np.linalg.solve(B, k), k[row_of(given)] @ np.linalg.solve(A, k[row_of(given)]), rtol=1e-9)


@given(samples())
def test_what_belongs_to_a_sample_follows_from_its_row(case):
    given, K = case
    of_row = [np.linalg.solve(B, y) for B, y in of_rows(given, K)]
    whole = np.stack([np.linalg.solve(A, y) for A, _, y in systems(given, K)], axis=1)
    close(given.sample_alpha(np.stack(of_row, axis=1)), whole, rtol=1e-9)


@given(samples(), st.booleans())
def test_samples_are_left_out_alone(case, units):
    given, K = case
    alpha = np.stack([np.linalg.solve(B, y) for B, y in of_rows(given, K)], axis=1)
    inverse = np.stack([np.linalg.inv(B).diagonal() for B, _ in of_rows(given, K)], axis=1)
    inverse = inverse[:, : given.noise.n_matrices]
    rows = np.arange(0, len(K), 2)
    variances = (1 / inverse - given.row_noise.diagonals())[rows]
    found = given.left_out(rows, variances, alpha, units=units)
    np.testing.assert_array_equal(found.index, np.flatnonzero(row_of(given) % 2 == 0))
    np.testing.assert_array_equal(rows[found.place], row_of(given)[found.index])
    for output, (A, noise, y) in enumerate(systems(given, K)):
        for i, mean, variance in zip(
            found.index,
            found.means[:, output],
            found.variances.T[min(output, found.variances.shape[1] - 1)],
            strict=True,
        ):
            # One of so many samples as the weights of equal ones say; what stays has less precision.
            counts = given.weights / min(1.0, np.median(given.weights))
            equal = (row_of(given) == row_of(given)[i]) & np.all(given.targets == given.targets[i], axis=1)
            removed = min(counts[equal].sum(), 1.0) / counts[i] if units else 1.0
            left = A.copy()
            left[i, i] = A[i, i] - noise[i] + (noise[i] / (1 - removed) if abs(1 - removed) > 1e-9 else 1e12)
            k = A[i] - noise * (np.arange(len(A)) == i)
            solved = np.linalg.solve(left, np.stack([y, k], axis=1))
            close(mean, k @ solved[:, 0], scale=1 + np.abs(y).max(), rtol=1e-7)
            close(variance, k[i] - k @ solved[:, 1], scale=1 + k[i], rtol=1e-7)


@given(samples())
def test_the_likelihood_of_all_samples_is_that_of_rows_and_of_their_scatter(case):
    given, K = case

    def log_density(A, y):
        return -(y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + len(y) * np.log(2 * np.pi)) / 2

    whole = [log_density(A, y) for A, _, y in systems(given, K)]
    by_rows = [log_density(B, y) for B, y in of_rows(given, K)]
    close(sum(by_rows) + given.log_scatter(), sum(whole), scale=1 + np.abs(whole).max(), rtol=1e-9)
    scaled = given.scaled(3.0)
    close(scaled.row_noise.diagonals(), 3 * given.row_noise.diagonals())
    close(scaled.weights, given.weights)


@given(samples())
def test_weights_and_scatter_add_up(case):
    given, _ = case
    weights = 0.2 / given.noise.sample
    means = np.stack(
        [np.bincount(row_of(given), weights * y) / np.bincount(row_of(given), weights) for y in given.targets.T]
    )
    if given.noise.n_matrices == 1:
        close(given.row_targets, means.T, scale=2.0)
        scatter = [
            np.bincount(row_of(given), weights * (y - m[row_of(given)]) ** 2)
            for y, m in zip(given.targets.T, means, strict=True)
        ]
        found = np.zeros_like(given.targets) if given.row_scatter is None else given.row_scatter
        close(found, np.transpose(scatter), scale=10.0)
    close(given.row_weights, np.bincount(row_of(given), weights))


@given(samples(), st.data())
def test_noise_of_rows_can_be_taken_apart(case, data):
    noise = case[0].row_noise
    rows = np.array(data.draw(st.lists(st.integers(0, len(noise.sample) - 1), min_size=1, max_size=8)))
    close(noise.subset(rows).diagonals(), noise.diagonals()[rows])
    if noise.n_matrices == 1:
        return
    blocks = [np.random.default_rng(0).normal(size=(len(noise.sample), 2))]
    everything = gram(blocks, np.arange(len(noise.sample)), noise.sample, 1)
    for output in range(N_OUTPUTS):
        own = gram(blocks, *noise.positives_of(output), 1)
        found = (everything - own) / noise.negative[output] + own / noise.positive[output]
        close(found, blocks[0].T @ (blocks[0] / noise.diagonals()[:, output : output + 1]), rtol=1e-9)


def test_single_samples_keep_every_bit_and_m_equal_ones_have_an_mth_of_the_noise():
    rng = np.random.default_rng(0)
    targets, sample = rng.normal(size=(9, 1)), rng.random(9)
    alone = TrainingTargets(targets, Noise(sample))
    assert alone.row_targets is targets
    assert alone.row_noise is alone.noise
    assert alone.row_scatter is None
    assert alone.log_scatter() == 0
    assert alone.sample_alpha(targets) is targets
    sample[[4, 7]] = sample[1]
    shared = TrainingTargets(targets, Noise(sample), np.array([0, 1, 2, 3, 1, 4, 5, 1, 6]))
    singles = np.delete(np.arange(9), [1, 4, 7])
    rows = np.delete(np.arange(7), 1)
    np.testing.assert_array_equal(shared.row_noise.sample[rows], sample[singles])
    np.testing.assert_array_equal(shared.row_targets[rows], targets[singles])
    assert shared.row_noise.sample[1] == sample[1] / 3


def test_rows_whose_order_is_not_that_of_samples():
    given = TrainingTargets(np.array([[1.0], [2.0], [3.0]]), Noise(np.array([0.1, 0.2, 0.3])), np.array([2, 0, 1]))
    np.testing.assert_array_equal(given.row_targets[:, 0], [2, 3, 1])
    np.testing.assert_array_equal(given.row_noise.sample, [0.2, 0.3, 0.1])
    np.testing.assert_array_equal(given.sample_alpha(np.array([[5.0], [6.0], [7.0]]))[:, 0], [7, 5, 6])


def test_a_search_sees_noise_that_does_not_depend_on_labels():
    own, shared = Noise(np.array([0.1, 0.2])), Noise(np.array([0.3, 0.3]))
    given = TrainingTargets(np.ones((2, 1)), own, None, 0.3, shared)
    seen = given.searched
    assert seen.noise is shared
    assert seen.searched is seen
    close(given.scaled(2.0).searched.noise.sample, 2 * shared.sample)
    with pytest.raises(AttributeError):
        given.unit = 3


class TestUnits:
    """What counts as one sample."""

    N_ROWS = 30
    ROW_OF = (np.array([0, 1, 0, 2, 1, 0]) + np.arange(0, N_ROWS, 3)[:, None]).ravel()
    LABELS = np.resize([1.0, -1.0, 1.0, 1.0, 1.0, -1.0], 60)[:, None]

    def told(self, weights, copies=1, has_labels=True):
        """Rows with three, two and one sample by turns; two of three have one label."""
        weights, targets, row_of = (np.repeat(one, copies, axis=0) for one in (weights, self.LABELS, self.ROW_OF))
        return TrainingTargets(targets, Noise(0.1 / weights), row_of, 0.1, has_labels=has_labels)

    @pytest.mark.parametrize("unit", [1.0, 2.0, 10.0, 1 / 7])
    def test_copies_of_all_samples_and_weights_are_as_many_units(self, unit):
        weighted = self.told(np.full(60, unit))
        close(weighted.unit_weight, unit)
        close(weighted.row_counts, np.resize([3.0, 2.0, 1.0], self.N_ROWS))
        copied = self.told(np.full(60, unit), copies=4)
        close(copied.unit_weight, 4 * unit)
        close(copied.row_counts, weighted.row_counts)
        close(copied.mean_weight, 4 * weighted.mean_weight)
        rng, rows = np.random.default_rng(0), np.arange(self.N_ROWS)
        alpha, variances = rng.normal(size=(self.N_ROWS, 1)), rng.random((self.N_ROWS, 1))
        once, often = (
            one.left_out(rows, variances, alpha, units=True) for one in (self.told(np.full(60, 4 * unit)), copied)
        )
        close(often.means[::4], once.means)
        close(often.variances[::4], once.variances)

    def test_weights_that_have_a_common_divisor(self):
        close(self.told(np.resize([1.0, 4, 3, 8, 6, 2], 60)).unit_weight, 2.0)
        close(self.told(np.resize([1.0, 4, 3, 8, 6, 3], 60)).unit_weight, 1.0)
        close(self.told(np.resize([0.5, 2, 3, 4, 3, 0.7], 60)).unit_weight, 1.0)  # none have: one, or less

    def test_few_may_have_one_by_chance(self):
        few = TrainingTargets(self.LABELS[:18], Noise(np.full(18, 0.1)), np.arange(18) // 2, 0.1, has_labels=True)
        assert few.unit_weight == 1.0

    def test_values_are_single(self):
        assert self.told(np.full(60, 2.0), copies=2, has_labels=False).unit_weight == 1.0
