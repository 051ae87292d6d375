"""What makes probabilities of scores: against a search of its own, and the order of scores."""

import numpy as np
import pytest
from oracles import close
from scipy.optimize import minimize
from scipy.special import log_softmax

from histogp._core.probability import (
    BEND_BOUNDS,
    LOG_TEMPERATURE_BOUNDS,
    START_LINK,
    Link,
    fit_link,
    fit_link_to,
    wanted_probabilities,
)


def log_probabilities(scores, temperature, bend):
    f = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
    return log_softmax(temperature * f + bend * np.log(np.clip((1 + f) / 2, 0.02, 1.5)), axis=1)


def drawn(n, n_classes, link, seed=0):
    """Scores, and labels with the probabilities of a link."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-1.2, 1.2, (n, 1 if n_classes == 2 else n_classes))
    chances = np.exp(log_probabilities(scores, *link))
    return scores, np.array([rng.choice(n_classes, p=p) for p in chances]), rng.uniform(0.5, 2, n)


@pytest.mark.parametrize("n", [30, 400])  # below 200 priors are half as wide
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("link", [(1.0, 2.0), (4.0, 0.0), (0.3, 0.5)])
def test_a_fit_is_the_minimum_of_the_loss_with_its_priors(n, n_classes, link):
    scores, codes, weights = drawn(n, n_classes, link)
    wanted = weights[:, None] * np.where(codes[:, None] == np.arange(n_classes), 1 - 1 / (n + 2), 0.0)
    wanted += weights[:, None] * np.where(codes[:, None] != np.arange(n_classes), 1 / (n + 2) / (n_classes - 1), 0.0)
    width = 0.5 if n < 200 else 1.0

    def cost(x):
        away = (x - [np.log(3.0), 0.5]) / width
        return -np.sum(wanted * log_probabilities(scores, np.exp(x[0]), x[1])) + away @ away / 2

    options = {"method": "Nelder-Mead", "bounds": [(-5, 7), (0, 8)], "options": {"xatol": 1e-7, "fatol": 1e-9}}
    expected = min((minimize(cost, [0.0, at], **options) for at in (0.3, 1.0, 3.0)), key=lambda one: one.fun)
    found = fit_link(scores, codes, weights)
    at = np.array([np.log(found.temperature), found.bend])
    assert cost(at) <= expected.fun + 1e-6 * max(1.0, expected.fun)
    np.testing.assert_allclose(at, expected.x, atol=0.01)
    close(found.log_probabilities(scores), log_probabilities(scores, found.temperature, found.bend))
    again = fit_link_to(scores, wanted)
    close(np.array([again.temperature, again.bend]), np.array([found.temperature, found.bend]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_many_labels_give_back_the_link_they_come_from(n_classes):
    scores, codes, _ = drawn(40_000, n_classes, (2.0, 1.5))
    found = fit_link(scores, codes, np.ones(len(codes)))
    expected = log_probabilities(scores, 2.0, 1.5)
    assert np.abs(np.exp(found.log_probabilities(scores)) - np.exp(expected)).max() < 0.02


@pytest.mark.parametrize("bend", [BEND_BOUNDS[0], 0.5, BEND_BOUNDS[1]])
@pytest.mark.parametrize("temperature", np.exp(LOG_TEMPERATURE_BOUNDS))
def test_the_most_probable_class_is_that_of_the_largest_score(temperature, bend):
    """Within the bounds of a fit; where the logarithm is cut off and the temperature small, ties may be rounding."""
    scores = np.random.default_rng(0).uniform(-3, 3, (2000, 5))
    probabilities = Link(temperature, bend).log_probabilities(scores)
    order = np.argsort(scores, axis=1)
    in_order = np.take_along_axis(probabilities, order, axis=1)
    assert np.all(np.diff(in_order, axis=1) >= 0)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), scores.argmax(axis=1))
    one = scores[:, :1]
    np.testing.assert_array_equal(Link(temperature, bend).log_probabilities(one).argmax(axis=1), one[:, 0] > 0)


def test_scores_without_an_error_leave_some_doubt():
    codes = np.arange(100) % 2
    scores = np.where(codes == 1, 1.0, -1.0)[:, None]
    found = np.exp(fit_link(scores, codes, np.ones(100)).log_probabilities(scores))
    assert 1e-4 < 1 - found.max(axis=1).mean() < 0.02
    more = np.exp(fit_link(scores, codes, np.ones(100), 10_000).log_probabilities(scores))
    assert more.max(axis=1).mean() > found.max(axis=1).mean()


def test_nothing_to_learn_from_leaves_the_start():
    found = fit_link(np.zeros((50, 1)), np.arange(50) % 2, np.ones(50))
    close(np.array([found.temperature, found.bend]), np.array([START_LINK.temperature, START_LINK.bend]), rtol=1e-6)


def test_labels_count_as_wrong_now_and_then():
    close(wanted_probabilities(np.array([0, 2]), 3), np.array([[0.75, 0.125, 0.125], [0.125, 0.125, 0.75]]))
    close(wanted_probabilities(np.array([1]), 2, 98), np.array([[0.01, 0.99]]))
