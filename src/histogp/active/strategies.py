"""What makes a sample worth its label, as utilities: the higher, the better.

``|mean|`` stands, with more than two classes, for the gap between the two largest means. The variance is that of the
latent function; ``noise`` is added where the formula says so, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

if TYPE_CHECKING:
    from histogp.active.pool import Pool

# Candidates for which the expected change of the predictions is measured.
REFERENCE_SAMPLES = 200
# Candidates of a batch strategy whose variances are brought up to date together.
UPDATED_TOGETHER = 512
# Points of the integral over the value of the winning class, and where it ends, in standard deviations.
INTEGRAL_POINTS = 64
INTEGRAL_END = 8.0

Quality = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of variances (n,) of candidates, and their numbers (n,)


class Strategy(NamedTuple):
    """``utilities`` of all candidates, (n,), or ``quality`` of variances for those that choose a batch together."""

    formula: str
    utilities: Callable[[Pool], np.ndarray] | None = None
    quality: Callable[[Pool], Quality] | None = None
    needs_classes: bool = True


def choose(
    strategy: Strategy, pool: Pool, batch_size: int, history: list[np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of candidates, (batch_size,), best first, and their utilities.

    ``history`` takes the utilities of all candidates at each choice, minus infinity for those chosen before.
    """
    if strategy.needs_classes and not pool.has_classes:
        raise ValueError(
            "This strategy needs a classifier; for other models there are 'random', 'variance' and 'batch-variance'."
        )
    if strategy.quality is not None:
        return choose_batch(pool, strategy.quality(pool), batch_size, history)
    assert strategy.utilities is not None
    utilities = strategy.utilities(pool)
    best = np.argsort(-utilities, kind="stable")[:batch_size]
    if history is not None:
        history += one_after_the_other(utilities, best)
    return best, utilities[best]


def choose_batch(
    pool: Pool, quality: Quality, batch_size: int, history: list[np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates that are chosen one after the other, each as if those before had been observed.

    Parameters
    ----------
    quality : must not rise when variances fall. So only the best candidates need their variances of now, not all of
        them: most are no longer in question with their variances of before.
    history : takes the qualities of all candidates at each choice, minus infinity for those chosen before

    Returns
    -------
    chosen : numbers of candidates in the order of their choice, (batch_size,)
    qualities : those that they had when they were chosen, (batch_size,)
    """
    observations = pool.posterior.observations(batch_size)
    variances = pool.variances()
    everything = np.arange(len(variances))
    qualities = quality(variances, everything)
    if np.isnan(qualities).any():
        raise ValueError("Means or variances of the pool are not numbers: its features may be too large; scale them.")
    explained = np.zeros((len(variances), batch_size))
    n_seen = np.zeros(len(variances), int)
    chosen: list[int] = []
    found: list[float] = []
    while len(chosen) < min(batch_size, len(variances)):
        best = int(np.argmax(qualities))
        if n_seen[best] == len(observations) and (history is None or len(history) == len(chosen) + 1):
            chosen.append(best)
            found.append(float(qualities[best]))
            qualities[best] = -np.inf
            if len(chosen) < batch_size:
                observations.add(pool.take(np.array([best])))
            continue
        all_of_them = len(everything) <= UPDATED_TOGETHER or history is not None
        # The best itself may be left out by chance where many are as good.
        top = (
            everything
            if all_of_them
            else np.append(np.argpartition(-qualities, UPDATED_TOGETHER)[:UPDATED_TOGETHER], best)
        )
        for n_known in np.unique(n_seen[top]):
            some = np.unique(top[(n_seen[top] == n_known) & (qualities[top] > -np.inf)])
            if n_known < len(observations) and len(some):
                now = observations.explained(pool.take(some), explained[some, :n_known])
                explained[some, : len(observations)] = now
                variances[some] -= np.sum(now[:, n_known:] ** 2, axis=1)
                qualities[some] = quality(np.maximum(variances[some], 0.0), some)
                n_seen[some] = len(observations)
        if history is not None:
            history.append(qualities.copy())
    return np.array(chosen, int), np.array(found)


def one_after_the_other(utilities: np.ndarray, chosen: np.ndarray) -> list[np.ndarray]:
    """The utilities at each choice, minus infinity for those chosen before."""
    everything = np.arange(len(utilities))
    return [np.where(np.isin(everything, chosen[:k]), -np.inf, utilities) for k in range(len(chosen))]


def gaps(means: np.ndarray) -> np.ndarray:
    """``|mean|``, or the gap between the two largest means, (n,)."""
    if means.shape[1] == 1:
        return np.abs(means[:, 0])
    two = np.partition(means, -2, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0]


def expected_change(covariances: np.ndarray, means: np.ndarray, variances: np.ndarray, noise: float) -> np.ndarray:
    """The mean absolute change of the predictions at samples of reference, expected over the label, (n,).

    A label y at x' changes the mean at x by ``C(x, x') (y - m(x')) / (C(x', x') + noise)``. Of several outputs the
    changes are averaged. covariances (n, m), means (n, M), variances (n,), latent.
    """
    total = variances + noise
    positive = probabilities(means, np.sqrt(total))
    surprise = positive * np.abs(1 - means) + (1 - positive) * np.abs(1 + means)
    return np.abs(covariances).mean(axis=1) * surprise.mean(axis=1) / total


def probabilities(means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """How probable it is that each class has the largest value, (n, M); for one output that it is positive, (n, 1).

    The values are independent and normal, with one standard deviation (n,) for all classes.
    """
    scaled = means / deviations[:, None]
    if means.shape[1] == 1:
        return ndtr(scaled)
    # The winner has the value t, and all others a lower one.
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    t, step = np.linspace(-INTEGRAL_END, INTEGRAL_END, INTEGRAL_POINTS, retstep=True)
    below = log_ndtr(t[:, None, None] - scaled)
    density = -((t[:, None, None] - scaled) ** 2) / 2 - np.log(2 * np.pi) / 2
    out = np.exp(density + below.sum(axis=2, keepdims=True) - below).sum(axis=0) * step
    return out / out.sum(axis=1, keepdims=True)


def _random(pool: Pool) -> np.ndarray:
    return pool.random.permutation(len(pool)).astype(float)


def _mean(pool: Pool) -> np.ndarray:
    return -gaps(pool.means())


def _variance(pool: Pool) -> np.ndarray:
    return pool.variances()


def _uncertainty(pool: Pool) -> np.ndarray:
    means, variances = pool.moments()
    return -gaps(means) / np.sqrt(pool.posterior.noise + variances)


def _uncertainty_plus(pool: Pool) -> np.ndarray:
    means, variances = pool.moments()
    return -gaps(means) - np.sqrt(pool.posterior.noise + variances)


def _expected_change(pool: Pool) -> np.ndarray:
    posterior, n = pool.posterior, len(pool)
    reference = pool.take(np.sort(pool.random.choice(n, min(n, REFERENCE_SAMPLES), replace=False)))
    covariances = posterior.covariances(reference)

    def changes(X: Any) -> np.ndarray:
        means, variances = posterior.mean_and_variance(X, pool.variance_method)
        return expected_change(covariances(X), means, variances, posterior.noise)

    return pool.collect(changes)


def _posterior_variance(pool: Pool) -> Quality:
    return lambda variances, _: variances


def _posterior_uncertainty(pool: Pool) -> Quality:
    distances = gaps(pool.means())
    return lambda variances, index: -distances[index] / np.sqrt(pool.posterior.noise + variances)


STRATEGIES: dict[str, Strategy] = {
    "random": Strategy("any", _random, needs_classes=False),
    "mean": Strategy("argmin |mean|", _mean),
    "variance": Strategy("argmax variance", _variance, needs_classes=False),
    "uncertainty": Strategy("argmin |mean| / sqrt(noise + variance)", _uncertainty),
    "uncertainty+": Strategy("argmin |mean| + sqrt(noise + variance)", _uncertainty_plus),
    "expected-change": Strategy("argmax E_y mean_x |change of the mean at x by the label y|", _expected_change),
    "batch-variance": Strategy(
        "argmax variance after the batch so far", quality=_posterior_variance, needs_classes=False
    ),
    "batch-uncertainty": Strategy(
        "argmin |mean| / sqrt(noise + variance after the batch so far)", quality=_posterior_uncertainty
    ),
}
