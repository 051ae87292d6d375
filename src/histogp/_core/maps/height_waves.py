"""Random waves for exponentials of the distance between heights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from histogp._core.data import Array, Rows
from histogp._core.maps.additive import Direct
from histogp._core.maps.points import direct_map
from histogp._core.maps.random_waves import RandomWaves, normal_frequencies
from histogp._core.operators.pair_kernels import HeightsKernel
from histogp.errors import ModelFileError
from histogp.io.schema import Reader, Writer


@dataclass(frozen=True, eq=False)
class Identity:
    """Heights as they are, in the place of an additive map."""

    n_terms = 1

    def transform(self, X: Any, n_threads: int = 1) -> Array:
        return X

    def to_state(self, writer: Writer) -> None:
        """Nothing: the kernel says that there is no map."""


@dataclass(frozen=True, eq=False)
class HeightWaves:
    """Waves over the heights of samples, or over an additive map of these for exponentials of chi2.

    kernel : with one exponential; it has the heights and the scale
    error : of the products of features, where it was measured
    """

    kernel: HeightsKernel
    waves: RandomWaves
    error: float = np.nan

    name = "fourier"
    is_additive = False
    is_costly = True
    is_normalized = False
    # Products are sometimes too large: what they leave of the kernel is no covariance.
    is_below = False
    # It has no landmarks.
    rows = None

    @classmethod
    def draw(cls, kernel: HeightsKernel, rows: Rows) -> HeightWaves:
        """Draw an even number of waves for a kernel that is one exponential; the rows decide on an additive map."""
        options, part = kernel.approximation, kernel.exponential
        if part is None:
            raise ValueError("There are random waves for one exponential alone.")
        rng = np.random.default_rng(options.seed)
        n_pairs = max(1, options.n_components // 2)
        rate = part.beta / part.unit
        if part.measure == "absolute":
            # The transform of a product of exponentials is one of Cauchy densities.
            frequencies = rate * rng.standard_cauchy((kernel.n_features, n_pairs))
            return cls(kernel, RandomWaves(Identity(), frequencies, np.empty(0)))  # type: ignore[arg-type]
        # That of exp(-|a - b|^2 / 2) is normal. chi2 is the squared distance of the additive map over two.
        if part.measure == "squared":
            drawn = normal_frequencies(options.sampling, kernel.n_features, n_pairs, rng)
            frequencies = np.sqrt(2 * rate) * drawn
            return cls(kernel, RandomWaves(Identity(), frequencies, np.empty(0)))  # type: ignore[arg-type]
        additive = direct_map(kernel.transform_rows(rows), options.n_terms, 0.0)
        drawn = normal_frequencies(options.sampling, additive.n_components, n_pairs, rng)
        # Rounded to single precision, as those of `ExpChi2Sampler` are.
        frequencies = np.sqrt(rate) * drawn.astype(np.float32).astype(np.float64)
        return cls(kernel, RandomWaves(additive, frequencies, np.empty(0)))

    @property
    def n_components(self) -> int:
        return self.waves.n_components

    @property
    def width(self) -> int:
        """Numbers that a row takes while its features are made."""
        return self.waves.width

    def with_kernel(self, kernel: HeightsKernel, rows: Rows) -> HeightWaves:
        """The map for other hyperparameters, from the same random numbers."""
        return HeightWaves.draw(kernel, rows)

    def relevance(self, rows: Rows) -> Array:
        """The share of each feature of the data in what tells the rows apart, as the kernel has it."""
        return self.kernel.relevance(rows)

    def transform(self, X: Any, n_threads: int = 1) -> Array:
        """The features of rows (n, D), dense or CSR: (n, n_components), dense."""
        heights = self.kernel.transform_rows(Rows.from_array(X, n_threads)).to_dense(n_threads)
        return np.sqrt(self.kernel.parts[0].scale) * self.waves.transform(heights, n_threads)

    def rounded(self, X: Any, n_threads: int = 1) -> Array:
        """The features of rows in single precision: rounded at last, because angles are large."""
        return self.transform(X, n_threads).astype(np.float32)

    def to_state(self, writer: Writer) -> None:
        """Write the map into a model file, with the additive one below it as the part "additive"."""
        writer.put("error", [self.error])
        writer.put("frequencies", self.waves.frequencies)
        self.waves.additive.to_state(writer.child("additive"))

    @classmethod
    def from_state(cls, reader: Reader, kernel: HeightsKernel, n_features: int) -> HeightWaves:
        """The map in a model file, of a kernel that was read before; believes nothing."""
        additive: Any = Identity()
        if kernel.exponential is not None and kernel.exponential.measure == "chi2":
            additive = Direct.from_state(reader.child("additive"), n_features)
            if additive.n_terms != kernel.approximation.n_terms:
                raise ModelFileError("the terms of its kernel are damaged.")
        shape = (additive.n_terms * n_features, max(1, kernel.approximation.n_components // 2))
        phases = reader.array("phases", np.float64, (0,)) if reader.has("phases") else np.empty(0)
        error = float(reader.array("error", np.float64, (1,), finite=False)[0]) if reader.has("error") else np.nan
        return cls(kernel, RandomWaves(additive, reader.array("frequencies", np.float64, shape), phases), error)
