"""Rows that are left out together: groups of samples that are nearly the same, such as one picture several times.

With ``A = K + diag(noise)``, ``alpha = A^-1 y`` and ``S = ([A^-1]_gg)^-1`` for the rows g of a group, these would be
off by ``e = S alpha_g`` if none of them were there, and the errors would have the covariance S. For groups of one row
that is what leaving out a row gives, ``alpha / c`` and ``1 / c`` with ``c = diag(A^-1)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from histogp._core.data import Array

# Rows of the smallest group: as many systems are solved, and a covariance is as large.
MOST_GROUP_ROWS = 4_000


def groups_of_rows(group_of: Array, row_of: Array | None) -> Array:
    """The numbers of groups of rows, (n_rows,), from those of samples, (N,); groups that share a row are one.

    row_of : (N,), the rows of samples; None if each has its own, in their order
    """
    group_of = np.unique(group_of, return_inverse=True)[1].reshape(-1)
    if row_of is None:
        return group_of
    shape = (int(group_of.max()) + 1, int(row_of.max()) + 1)
    shared = sparse.csr_array((np.ones(len(row_of)), (group_of, row_of)), shape=shape)
    links = sparse.block_array([[None, shared], [shared.T, None]])
    return sparse.csgraph.connected_components(links, directed=False)[1][shape[0] :]


def whole_groups(groups: Array, order: Array, most: int) -> Array:
    """Numbers of about ``most`` rows, ascending, that are whole groups: the first ones in an order of rows, (n,).

    groups : (n_rows,). Larger groups are passed over; if all are larger, the smallest one is taken.
    """
    sizes = np.bincount(groups)
    _, first = np.unique(groups[order], return_index=True)
    chosen, n_chosen = [], 0
    for group in groups[order][np.sort(first)]:
        if n_chosen + sizes[group] <= most:
            chosen.append(group)
            n_chosen += sizes[group]
    if not chosen:
        sizes = np.where(sizes > 0, sizes, len(groups) + 1)
        chosen = [int(sizes.argmin())]
    return np.flatnonzero(np.isin(groups, chosen))


def members_of(groups: Array) -> list[Array]:
    """The places of the rows of each group, given the numbers of groups, (n,)."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


@dataclass(frozen=True, eq=False)
class LeftOutGroups:
    """Groups of rows that are left out together, of one matrix.

    members : the places of the rows of each group
    covariances : S of each group
    errors : (n, M), of the rows; variances : (n,), the diagonals of the covariances
    """

    members: list[Array]
    covariances: list[Array]
    errors: Array
    variances: Array

    @classmethod
    def of(cls, members: list[Array], inverse: Array, alpha: Array) -> LeftOutGroups:
        """From what A^-1 has for the rows and groups, (n, n), and alpha (n, M)."""
        errors, variances = np.empty_like(alpha), np.empty(len(alpha))
        covariances = []
        for places in members:
            covariance = np.linalg.inv(inverse[np.ix_(places, places)].astype(np.float64))
            errors[places] = covariance @ alpha[places]
            variances[places] = covariance.diagonal()
            covariances.append(covariance)
        return cls(members, covariances, errors, variances)

    def as_single(self) -> tuple[Array, Array]:
        """What alpha (n, M) and c (n, 1) would be if these errors and variances were those of single rows."""
        return self.errors / self.variances[:, None], 1 / self.variances[:, None]

    def derivatives(self, by_alpha: Array, by_inverse: Array) -> tuple[Array, list[Array]]:
        """Derivatives for alpha, (n, M), and for ``[A^-1]_gg`` of each group, symmetric, from those for `as_single`."""
        variances = self.variances[:, None]
        by_error = by_alpha / variances
        by_variance = -((by_alpha * self.errors + by_inverse) / variances**2).sum(axis=1)
        out, blocks = np.empty_like(by_alpha), []
        for places, covariance in zip(self.members, self.covariances, strict=True):
            out[places] = covariance @ by_error[places]
            product = out[places] @ self.errors[places].T
            by_block = (product + product.T) / 2 + (covariance * by_variance[places]) @ covariance
            blocks.append(-by_block)
        return out, blocks


def times_blocks(members: list[Array], blocks: list[Array], rows: Array) -> Array:
    """The product of rows (k, n) and a matrix (n, n) that has blocks for the places of groups and zeros elsewhere."""
    out = np.empty_like(rows)
    for places, block in zip(members, blocks, strict=True):
        out[:, places] = rows[:, places] @ block.astype(rows.dtype)
    return out
