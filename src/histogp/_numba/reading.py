"""Tables on a grid, read at the non-zeros of test rows without a search.

With ``v = 1 + per_unit x`` between the powers of two ``2^l`` and ``2^(l + 1)``, the value x lies at
``t = n_bins (l + v / 2^l - 1)`` on the grid of its column, or at its end if that is shorter.

Arguments that all share: indptr, column_of and values of compressed rows; per_unit (D,); starts (D + 1,), the first
node of each column; ends (D,), the number of its last node, as a float64.
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from histogp._numba.jit import leaf
from histogp._numba.memory import prefetch

# float64 as integers: between two powers of two they are linear in the number.
_BITS_OF_ONE = int(np.float64(1).view(np.int64))
_PER_OCTAVE = 2.0**-52
# Places that are found before they are read, so that the reads do not wait for each other; they must fit into the
# fastest cache.
_AT_ONCE = 32


@register_jitable
def _position(value, per_unit, per_bit, end):
    bits = np.float64(1 + value * per_unit).view(np.int64)
    return max(min((bits - _BITS_OF_ONE) * per_bit, end), 0.0)


@leaf
def read_block(indptr, column_of, values, per_unit, starts, ends, nodes, n_bins, shift, blend, first, last, total, out):
    """Add up the table over the non-zeros of the rows ``first..last``, several problems at once.

    A value at t is read as ``(1 - s) node_k + s node_(k + 1)`` with ``k = floor(t + shift)``, ``s = blend (t - k)``:
    shift 0 and blend 1 interpolate, shift 1/2 and blend 0 take the nearest node.
    nodes (starts[D] + 1, M), in double or single precision; total (M,), of the same, is scratch; out (n, M).
    """
    # Unsigned numbers throughout: Numba would test signed ones for indices below zero.
    one, at_once, width = np.uint64(1), np.uint64(_AT_ONCE), np.uint64(nodes.shape[1])
    per_bit = _PER_OCTAVE * n_bins
    node_of = np.empty(at_once, np.int64)
    share_of = np.empty(at_once, nodes.dtype)
    for i in range(np.uint64(first), np.uint64(last)):
        total[:] = 0
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + one])
        while begin < end:
            count = min(end - begin, at_once)
            for e in range(count):
                column = np.uint64(column_of[begin + e])
                t = _position(values[begin + e], per_unit[column], per_bit, ends[column])
                k = np.floor(t + shift)
                share_of[e] = blend * (t - k)
                node_of[e] = starts[column] + np.int64(k)
                prefetch(nodes, node_of[e])
                prefetch(nodes, node_of[e] + 1)
            for e in range(count):
                node, s = np.uint64(node_of[e]), share_of[e]
                below, above = nodes[node], nodes[node + one]
                for m in range(width):
                    total[m] += below[m] + s * (above[m] - below[m])
            begin += count
        for m in range(width):
            out[i, m] = total[m]


@leaf
def read_one(indptr, column_of, values, per_unit, starts, ends, nodes, n_bins, shift, blend, first, last, out):
    """Like `read_block` for a single problem, twice as fast there; nodes (starts[D] + 1,), out (n,)."""
    one, at_once = np.uint64(1), np.uint64(_AT_ONCE)
    per_bit = _PER_OCTAVE * n_bins
    node_of = np.empty(at_once, np.int64)
    share_of = np.empty(at_once)
    for i in range(np.uint64(first), np.uint64(last)):
        total = 0.0
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + one])
        while begin < end:
            count = min(end - begin, at_once)
            for e in range(count):
                column = np.uint64(column_of[begin + e])
                t = _position(values[begin + e], per_unit[column], per_bit, ends[column])
                k = np.floor(t + shift)
                share_of[e] = blend * (t - k)
                node_of[e] = starts[column] + np.int64(k)
            for e in range(count):
                node, s = np.uint64(node_of[e]), share_of[e]
                total += (1 - s) * nodes[node] + s * nodes[node + one]
            begin += count
        out[i] = total
