"""What makes an example worth its label, as utilities: the higher, the better.

``|mean|`` stands, with more than two classes, for the gap between the two largest means. The variance is that of the
latent function; ``noise`` is added where the formula says so, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from histogp._core.conditioning import Covariances, Observed, Quality, choose_batch, expected_change
from histogp._core.data import Array
from histogp.active.pool import Pool

# Rows of the pool for which the expected change of the predictions is measured.
REFERENCE = 200


class Strategy(NamedTuple):
    """``utilities`` of all candidates, (n,), or ``quality`` of variances for those that choose a batch together."""

    formula: str
    utilities: Callable[[Pool], Array] | None = None
    quality: Callable[[Pool], Quality] | None = None
    needs_classes: bool = True


def choose(strategy: Strategy, pool: Pool, batch_size: int, history: list[Array] | None = None) -> tuple[Array, Array]:
    """Numbers of candidates, (batch_size,), best first, and their utilities.

    ``history`` takes the utilities of all candidates at each choice, minus infinity for those chosen before.
    """
    if strategy.needs_classes and not is_classifier(pool.estimator):
        raise ValueError(
            "This strategy needs a classifier; for other models there are 'random', 'variance' and 'batch-variance'."
        )
    if strategy.quality is not None:
        observed = Observed(pool.system(batch_size), pool.noise, pool.tol)
        variances = collect(pool, pool.variances)
        return choose_batch(observed, pool.take, variances, strategy.quality(pool), batch_size, history)
    assert strategy.utilities is not None
    utilities = strategy.utilities(pool)
    best = np.argsort(-utilities, kind="stable")[:batch_size]
    if history is not None:
        history += one_after_the_other(utilities, best)
    return best, utilities[best]


def one_after_the_other(utilities: Array, chosen: Array) -> list[Array]:
    """The utilities at each choice, minus infinity for those chosen before."""
    everything = np.arange(len(utilities))
    return [np.where(np.isin(everything, chosen[:k]), -np.inf, utilities) for k in range(len(chosen))]


def collect(pool: Pool, *functions: Callable[..., Array]) -> Any:
    """Functions of rows, each (n, ...), evaluated block by block for all candidates."""
    found = [[function(rows) for function in functions] for _, rows in pool.blocks()]
    several = [np.concatenate(blocks) for blocks in zip(*found, strict=True)]
    return several[0] if len(functions) == 1 else several


def gaps(means: Array) -> Array:
    """``|mean|``, or the gap between the two largest means, (n,)."""
    if means.shape[1] == 1:
        return np.abs(means[:, 0])
    two = np.partition(means, -2, axis=1)[:, -2:]
    return two[:, 1] - two[:, 0]


def _random(pool: Pool) -> Array:
    return pool.random.permutation(len(pool.candidates)).astype(float)


def _mean(pool: Pool) -> Array:
    return -gaps(collect(pool, pool.means))


def _variance(pool: Pool) -> Array:
    return collect(pool, pool.variances)


def _uncertainty(pool: Pool) -> Array:
    means, variances = collect(pool, pool.means, pool.variances)
    return -gaps(means) / np.sqrt(pool.noise + variances)


def _uncertainty_plus(pool: Pool) -> Array:
    means, variances = collect(pool, pool.means, pool.variances)
    return -gaps(means) - np.sqrt(pool.noise + variances)


def _expected_change(pool: Pool) -> Array:
    n = len(pool.candidates)
    reference = pool.take(np.sort(pool.random.choice(n, min(n, REFERENCE), replace=False)))
    covariances = Covariances(pool.system(reference.n_rows), reference, pool.tol)
    return collect(
        pool,
        lambda rows: expected_change(covariances.evaluate(rows), pool.means(rows), pool.variances(rows), pool.noise),
    )


def _posterior_variance(pool: Pool) -> Quality:
    return lambda variances, _: variances


def _posterior_uncertainty(pool: Pool) -> Quality:
    distances = gaps(collect(pool, pool.means))
    return lambda variances, index: -distances[index] / np.sqrt(pool.noise + variances)


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
