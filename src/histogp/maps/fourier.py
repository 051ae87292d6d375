"""Random Fourier features: waves whose products average to a kernel of a difference."""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.stats import qmc

from histogp.storage import Array

SAMPLINGS = ("orthogonal", "plain", "quasi")


def normal_frequencies(sampling: str, n_inputs: int, n_frequencies: int, rng: np.random.Generator) -> Array:
    """Columns that are standard normal, each by itself, (n_inputs, n_frequencies): those of ``exp(-|x - y|^2 / 2)``.

    "plain" ones are independent. "orthogonal" ones are orthogonal among ``n_inputs`` of them, with the lengths of
    independent ones, which lowers the variance of the products. "quasi" ones are from a scrambled Sobol sequence.
    """
    if sampling == "plain":
        return rng.standard_normal((n_inputs, n_frequencies))
    if sampling == "quasi":
        if n_inputs > qmc.Sobol.MAXDIM:
            raise ValueError(
                f'sampling="quasi" takes up to {qmc.Sobol.MAXDIM:,} terms, and here the additive map has {n_inputs:,}: '
                'take fewer of them, or "orthogonal".'
            )
        seed = int(rng.integers(2**31))
        uniform = qmc.Sobol(n_inputs, seed=seed).random_base2(max(0, int(np.ceil(np.log2(n_frequencies)))))
        return special.ndtri(np.clip(uniform[:n_frequencies], 1e-12, 1 - 1e-12)).T
    blocks = []
    for begin in range(0, n_frequencies, n_inputs):
        width = min(n_inputs, n_frequencies - begin)
        directions, _ = np.linalg.qr(rng.standard_normal((n_inputs, width)))
        # Signs by chance: those of a factorisation are not.
        signs = np.where(rng.random(width) < 0.5, -1.0, 1.0)
        blocks.append(directions * signs * np.sqrt(rng.chisquare(n_inputs, width)))
    return np.hstack(blocks)


def waves(angles: Array, phases: Array, out: Array | None = None) -> Array:
    """Pairs of cosines and sines, and a cosine for each phase at the end, (n, 2 pairs + len(phases)).

    The product of a row with itself is one, up to the latter.
    """
    n_pairs = angles.shape[1] - len(phases)
    n_outputs = 2 * n_pairs + len(phases)
    out = np.empty((len(angles), n_outputs), angles.dtype) if out is None else out
    np.cos(angles[:, :n_pairs], out=out[:, :n_pairs])
    np.sin(angles[:, :n_pairs], out=out[:, n_pairs : 2 * n_pairs])
    np.cos(angles[:, n_pairs:] + phases.astype(angles.dtype), out=out[:, 2 * n_pairs :])
    out *= angles.dtype.type(np.sqrt(2 / n_outputs))
    return out
