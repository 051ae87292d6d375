"""Random Fourier features: waves whose products average to a kernel of a difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from scipy.stats import qmc

from histogp._core.data import Array, Rows
from histogp._core.maps.additive import AdditiveMap
from histogp._core.threads import over_rows
from histogp.io.schema import Reader, Writer

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
        # Signs by chance: those of a factorization are not.
        signs = np.where(rng.random(width) < 0.5, -1.0, 1.0)
        blocks.append(directions * signs * np.sqrt(rng.chisquare(n_inputs, width)))
    return np.hstack(blocks)


def waves(angles: Array, phases: Array, out: Array | None = None) -> Array:
    """Pairs of cosines and sines, and a cosine for each phase at the end, (n, 2 pairs + len(phases)).

    The product of a row with itself is one, up to the latter.
    """
    n_pairs = angles.shape[1] - len(phases)
    n_waves = 2 * n_pairs + len(phases)
    out = np.empty((len(angles), n_waves), angles.dtype) if out is None else out
    np.cos(angles[:, :n_pairs], out=out[:, :n_pairs])
    np.sin(angles[:, :n_pairs], out=out[:, n_pairs : 2 * n_pairs])
    np.cos(angles[:, n_pairs:] + phases.astype(angles.dtype), out=out[:, 2 * n_pairs :])
    out *= angles.dtype.type(np.sqrt(2 / n_waves))
    return out


# Angles of a block, one for each sample and wave: 32 MB.
BLOCK_ANGLES = 2**22
# Samples that are enough for averages.
AVERAGED_SAMPLES = 1000


@dataclass(frozen=True, eq=False)
class RandomWaves:
    """Waves over the terms of an additive map.

    frequencies : (n_terms D, n), with the root of beta
    phases : (0,), or (1,) of the last wave, if that has no pair
    """

    additive: AdditiveMap
    frequencies: Array
    phases: Array

    is_additive = False
    is_costly = True

    @classmethod
    def draw(
        cls,
        additive: AdditiveMap,
        n_columns: int,
        n_components: int,
        beta: float,
        sampling: str,
        rng: np.random.Generator,
    ) -> RandomWaves:
        """Draw ``n_components`` waves over the terms of ``n_columns`` features, for ``exp(-beta chi2)``."""
        n_pairs, n_phases = divmod(n_components, 2)
        drawn = normal_frequencies(sampling, additive.n_terms * n_columns, n_pairs + n_phases, rng)
        frequencies = (np.sqrt(beta) * drawn).astype(np.float32)
        return cls(additive, frequencies, rng.uniform(0, 2 * np.pi, n_phases))

    @property
    def n_components(self) -> int:
        return 2 * self.frequencies.shape[1] - len(self.phases)

    @property
    def width(self) -> int:
        """Numbers that a row takes while its features are made."""
        return max(self.n_components, len(self.frequencies))

    @property
    def is_normalized(self) -> bool:
        return len(self.phases) == 0

    def relevance(self, rows: Rows) -> Array:
        """The share of each feature in the mean of chi2 over pairs of rows, up to 1,000: the variance of its terms."""
        some = rows.take(np.arange(0, rows.n_rows, max(1, -(-rows.n_rows // AVERAGED_SAMPLES)))).to_dense()
        variances = self.additive.transform(some).var(axis=0).reshape(-1, rows.n_columns).sum(axis=0)
        return variances / max(variances.sum(), np.finfo(float).tiny)

    def to_state(self, writer: Writer) -> None:
        """Write the map into a model file, with the additive one below it as the part "additive"."""
        writer.put("frequencies", self.frequencies)
        writer.put("phases", self.phases)
        self.additive.to_state(writer.child("additive"))

    @classmethod
    def from_state(
        cls, reader: Reader, additive: AdditiveMap, n_features: int, n_components: int, dtype: Any
    ) -> RandomWaves:
        """Waves in a model file, over an additive map that was read before; believes nothing."""
        n_pairs, n_phases = divmod(n_components, 2)
        shape = (additive.n_terms * n_features, n_pairs + n_phases)
        frequencies = reader.array("frequencies", dtype, shape)
        return cls(additive, frequencies, reader.array("phases", np.float64, (n_phases,)))

    def transform(self, X: Any, n_threads: int = 1) -> Array:
        """The features of rows (n, D), dense or CSR, in their precision: (n, n_components), dense."""
        out = np.empty((X.shape[0], self.n_components), X.dtype)
        frequencies = self.frequencies.astype(X.dtype, copy=False)
        step = max(1, BLOCK_ANGLES // max(frequencies.shape))
        for begin in range(0, X.shape[0], step):
            angles = np.asarray(self.additive.transform(X[begin : begin + step], n_threads) @ frequencies)
            block = out[begin : begin + step]
            over_rows(lambda some: waves(angles[some], self.phases, block[some]), len(block), n_threads)  # noqa: B023
        return out
