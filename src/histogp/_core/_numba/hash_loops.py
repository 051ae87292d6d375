"""Hashes of rows: sums over their non-zeros, in any order, of numbers that look random.

A non-zero with the bits b in column d counts as ``mix(b ^ (d + 1) STEP)``, all modulo 2^64. ``mix(z)`` is that of the
generator SplitMix64 (Steele, Lea and Flood, 2014): ``z ^= z >> 30``, ``z *= FIRST``, ``z ^= z >> 27``, ``z *= SECOND``,
``z ^= z >> 31``.
"""

from __future__ import annotations

import numpy as np

from histogp._core.threads import leaf

# As unsigned numbers: a signed one beside them would make them floats.
STEP, FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_0, _1, _27, _30, _31 = (np.uint64(number) for number in (0, 1, 27, 30, 31))


@leaf
def hash_dense_rows(bits, out):
    """``out[i] = sum_d mix(bits[i, d] ^ (d + 1) STEP)`` over what is neither 0.0 nor -0.0; bits (N, D), out (N,)."""
    for i in range(bits.shape[0]):
        total = _0
        for d in range(bits.shape[1]):
            z = bits[i, d] ^ (np.uint64(d + 1) * STEP)
            z = (z ^ (z >> _30)) * FIRST
            z = (z ^ (z >> _27)) * SECOND
            # Without the sign; computed for zeros as well, so that nothing has to be guessed.
            total += (z ^ (z >> _31)) if bits[i, d] << _1 != _0 else _0
        out[i] = total


@leaf
def hash_sparse_rows(indptr, column_of, bits, first, last, out):
    """``out[i] = sum_k mix(bits[k] ^ (column_of[k] + 1) STEP)`` over the non-zeros of the rows ``first..last``.

    indptr (N + 1,); column_of, bits (nnz,); out (N,)
    """
    for i in range(first, last):
        total = _0
        for k in range(indptr[i], indptr[i + 1]):
            z = bits[k] ^ ((np.uint64(column_of[k]) + _1) * STEP)
            z = (z ^ (z >> _30)) * FIRST
            z = (z ^ (z >> _27)) * SECOND
            total += (z ^ (z >> _31)) if bits[k] << _1 != _0 else _0
        out[i] = total
