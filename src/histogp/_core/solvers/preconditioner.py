"""A low-rank approximation of the kernel matrix that speeds conjugate gradients up.

``K / scale ~ F F^T`` by block randomly pivoted Cholesky, which needs kernel columns only (Chen, Epperly,
Tropp and Webber, 2023); applied through the Woodbury identity. The first columns of F carry the large
eigenvalues, where the identity cancels: they are kept in double precision, the others in single.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from histogp._core.data import Array, Rows
from histogp._core.operators.contract import KernelOperator, updates_of
from histogp._core.solvers.problem import SINGLE_PRECISION_TOL, Noise, SolverOptions
from histogp._core.threads import over_rows, single_threaded_blas

# Columns of F whose pivots are drawn together, at first and later.
FIRST_BLOCK_COLUMNS = 32
BLOCK_COLUMNS = 128
# A column of F is rounded to single precision once that disturbs the identity by less than a hundredth.
MOST_ROUNDING = 1e-2


class PivotedCholesky:
    """A growing factor F with ``K / scale ~ F F^T``.

    ``blocks`` are groups of its columns, (N, b) each, in float64 or float32. ``squared_norms`` (rank,)
    are those of the columns.
    """

    def __init__(
        self, operator: KernelOperator, noise: Noise, rng: np.random.Generator, max_rank: int, n_threads: int = 1
    ):
        """A factor without columns; ``noise`` decides from when on columns are kept in single precision."""
        self.scale = operator.scale
        self.max_rank = min(max_rank, operator.n_samples)
        self.blocks: list[Array] = []
        self.squared_norms = np.empty(0)
        self._pivot_rows: list[Rows] | None = None
        self._recipes: list[tuple[Array, Array]] = []  # of each block: its pivots, and what makes their columns one
        self._operator = operator
        self._rng = rng
        self._n_threads = n_threads
        self._single_from = MOST_ROUNDING / np.finfo(np.float32).eps * noise.diagonals().min() / self.scale
        self._remaining = operator.diagonal() / self.scale
        self._trace = self._remaining.sum()

    @property
    def rank(self) -> int:
        return len(self.squared_norms)

    def grow(self, rank: int) -> bool:
        """Add columns up to ``rank``; false when the matrix is exhausted before."""
        rank = min(rank, self.max_rank)
        while self.rank < rank:
            if self._remaining.sum() <= 1e-6 * self._trace:
                return False
            try:
                self._add_block(min(BLOCK_COLUMNS if self.blocks else FIRST_BLOCK_COLUMNS, rank - self.rank))
            except ArithmeticError:
                if not self.blocks:
                    raise
                return False  # what is left is rounding
        return True

    def _add_block(self, size: int) -> None:
        """Add up to ``size`` columns at pivots that are drawn in proportion to what remains of the diagonal."""
        probabilities = self._remaining / self._remaining.sum()
        pivots = np.unique(self._rng.choice(len(probabilities), size=size, p=probabilities))
        columns = self._operator.columns(pivots, "single")
        pivot_rows = [block[pivots].T for block in self.blocks]

        def subtract(rows: slice) -> None:
            for block, at_pivots in zip(self.blocks, pivot_rows, strict=True):
                columns[rows] -= block[rows] @ at_pivots

        over_rows(subtract, len(columns), self._n_threads)
        unmix = np.linalg.inv(_robust_cholesky(columns[pivots])).T.astype(np.float32)
        new = np.empty_like(columns)

        def orthogonalize(rows: slice) -> None:
            new[rows] = columns[rows] @ unmix
            self._remaining[rows] -= np.einsum("ij,ij->i", new[rows], new[rows])

        over_rows(orthogonalize, len(columns), self._n_threads)
        np.maximum(self._remaining, 0, out=self._remaining)
        self._remaining[pivots] = 0
        squared_norms = np.einsum("ij,ij->j", new, new, dtype=np.float64)
        self.blocks.append(new if squared_norms.max() < self._single_from else new.astype(np.float64))
        self.squared_norms = np.append(self.squared_norms, squared_norms)
        self._recipes.append((pivots, unmix))

    def extended(self, operator: KernelOperator, rows: Rows) -> PivotedCholesky:
        """The factor of the operator with further rows after the present ones: theirs follow from the pivots."""
        if self._pivot_rows is None:
            everything = updates_of(self._operator).training_rows()
            self._pivot_rows = [everything.take(pivots) for pivots, _ in self._recipes]
        more: list[Array] = []
        for (pivots, unmix), pivot_rows in zip(self._recipes, self._pivot_rows, strict=True):
            some = operator.cross(rows, pivot_rows) / self.scale
            for block, done in zip(self.blocks, more, strict=False):
                some -= done @ block[pivots].T
            more.append((some @ unmix).astype(self.blocks[len(more)].dtype))
        other = copy.copy(self)
        other.blocks = [np.concatenate(both) for both in zip(self.blocks, more, strict=True)]
        other._operator = operator
        explained = sum(np.einsum("ij,ij->i", block, block) for block in more)
        rest = np.maximum(operator.diagonal(rows) / self.scale - explained, 0)
        other._remaining = np.append(self._remaining, rest)
        return other


class Preconditioner:
    """``P^-1 r`` with ``P = scale F F^T + diag(noise)``, exact for each output where each has a noise of its own."""

    def __init__(self, factor: PivotedCholesky, noise: Noise, n_threads: int = 1, inner: list[Array] | None = None):
        self.rank = factor.rank
        self._factor = factor
        self._blocks = factor.blocks
        self._offsets = np.cumsum([0] + [block.shape[1] for block in factor.blocks])
        self._scale = factor.scale
        self._diagonals = noise.diagonals() / factor.scale
        self._n_threads = n_threads
        self._inner = self._inner_matrices(noise) if inner is None else inner
        self._cores = [cho_factor(core, lower=True, check_finite=False) for core in self._inner]

    def apply(self, residuals: Array, outputs: Array) -> Array:
        """``P^-1 r`` for the right-hand sides with the numbers ``outputs``; residuals (N, len(outputs))."""
        inverse_noise = 1 / (self._diagonals if len(self._cores) == 1 else self._diagonals[:, outputs])
        scaled = inverse_noise * residuals
        coefficients = self._project(scaled)
        if len(self._cores) == 1:
            coefficients = cho_solve(self._cores[0], coefficients, check_finite=False)
        else:
            for column, output in zip(coefficients.T, outputs, strict=True):
                column[:] = cho_solve(self._cores[output], column, check_finite=False)
        of_block = [
            coefficients[begin:end].astype(block.dtype)
            for block, begin, end in zip(self._blocks, self._offsets[:-1], self._offsets[1:], strict=True)
        ]

        def subtract(rows: slice) -> None:
            correction = sum(block[rows] @ some for block, some in zip(self._blocks, of_block, strict=True))
            scaled[rows] -= inverse_noise[rows] * correction

        over_rows(subtract, len(scaled), self._n_threads)
        scaled /= self._scale
        return scaled

    def log_determinants(self) -> Array:
        """``log det P`` of each output that has its noise, or of all, (M,) or (1,)."""
        cores = np.array([2 * np.log(np.diag(core)).sum() for core, _ in self._cores])
        return cores + np.log(self._diagonals * self._scale).sum(axis=0)

    def draw(self, normals: Array, of_factor: Array, outputs: Array) -> Array:
        """Draws with the covariance P from standard normal numbers (N, S) and (rank, S)."""
        diagonals = self._diagonals if len(self._cores) == 1 else self._diagonals[:, outputs]
        out = np.sqrt(diagonals) * normals
        for block, begin, end in zip(self._blocks, self._offsets[:-1], self._offsets[1:], strict=True):
            out += block @ of_factor[begin:end]
        return np.sqrt(self._scale) * out

    def without(self, index: Array) -> Preconditioner:
        """That of the matrix without these rows and columns, for right-hand sides that are zero there."""
        other = copy.copy(self)
        less = [gram(self._blocks, index, diagonal, self._n_threads) for diagonal in self._diagonals.T]
        other._inner = [core - own for core, own in zip(self._inner, less, strict=True)]
        other._cores = [cho_factor(core, lower=True, check_finite=False) for core in other._inner]
        return other

    def with_threads(self, n_threads: int) -> Preconditioner:
        """The preconditioner on another number of threads."""
        other = copy.copy(self)
        other._n_threads = n_threads
        return other

    def updated(self, operator: KernelOperator, rows: Rows, noise: Noise, same_noise: bool) -> Preconditioner:
        """The preconditioner for an operator with further rows, perhaps none, after the present ones, and its noise."""
        n_old = len(self._diagonals)
        factor = self._factor.extended(operator, rows) if rows.n_rows else self._factor
        with single_threaded_blas():
            if not same_noise or noise.n_matrices > 1:
                return Preconditioner(factor, noise, self._n_threads)
            new = np.arange(n_old, operator.n_samples)
            more = gram(factor.blocks, new, noise.sample / factor.scale, self._n_threads)
            return Preconditioner(factor, noise, self._n_threads, [self._inner[0] + more])

    def _project(self, vectors: Array) -> Array:
        """``F^T vectors``, (rank, M)."""
        partial: dict[int, Array] = {}

        def project(rows: slice) -> None:
            parts = [block[rows].T @ vectors[rows].astype(block.dtype) for block in self._blocks]
            partial[rows.start] = np.concatenate(parts).astype(np.float64)

        over_rows(project, len(vectors), self._n_threads)
        return _ordered_sum(partial)

    def _inner_matrices(self, noise: Noise) -> list[Array]:
        """``I + F^T diag(noise / scale)^-1 F``, one a matrix."""
        identity = np.eye(self.rank)
        sample = noise.sample / self._scale
        everything = gram(self._blocks, np.arange(len(sample)), sample, self._n_threads)
        if noise.output_of is None or noise.positive is None or noise.negative is None:
            return [identity + everything]
        # The positives of all outputs together are the rows once: no more work than `everything`.
        inner = []
        for output, (positive, negative) in enumerate(zip(noise.positive, noise.negative, strict=True)):
            rows, own_sample = noise.positives_of(output)
            own = gram(self._blocks, rows, own_sample / self._scale, self._n_threads)
            inner.append(identity + everything / negative + own * (1 / positive - 1 / negative))
        return inner


def gram(blocks: list[Array], index: Array, variances: Array, n_threads: int) -> Array:
    """``F^T diag(1 / variances) F`` over the rows ``index`` of F, given in groups of columns."""
    rank = sum(block.shape[1] for block in blocks)
    partial: dict[int, Array] = {-1: np.zeros((rank, rank))}

    def accumulate(part: slice) -> None:
        rows = index[part]
        root = 1 / np.sqrt(variances[rows])[:, None]
        some = [block[rows] * root.astype(block.dtype) for block in blocks]
        partial[part.start] = np.block([[left.T @ right for right in some] for left in some])

    over_rows(accumulate, len(index), n_threads)
    return _ordered_sum(partial)


def _ordered_sum(partial: dict[int, Array]) -> Array:
    """Sum in the order of the keys, so that rounding does not depend on which thread came first."""
    return np.asarray(np.sum([partial[key] for key in sorted(partial)], axis=0, dtype=np.float64))


def _robust_cholesky(block: Array) -> Array:
    """Factor of a block of pivots, which may be equal up to rounding in single precision."""
    block = np.asarray((block + block.T) / 2, np.float64)
    size = max(np.trace(block) / len(block), np.finfo(np.float32).tiny)
    for jitter in 10.0 ** np.arange(-6, 1):
        try:
            return np.linalg.cholesky(block + jitter * size * np.eye(len(block)))
        except np.linalg.LinAlgError:
            continue
    raise ArithmeticError("A block of the kernel matrix is far from positive; please report the data as a bug.")


# Ranks at which the eigenvalues are looked at: at first, and how far while that is cheap.
PILOT_RANK = 16
TRIAL_RANK = 64
# Candidates for the best rank, in multiples of the present one.
RANK_FACTORS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64)
# For so many outputs the rank is doubled up to a limit, while the solves to come take so many times as long as that.
MANY_OUTPUTS = 64
MOST_LOOK_RANK = 2048
LOOK_FACTOR = 8
# The estimates of costs are not better than that factor; in doubt do without a preconditioner.
COST_MARGIN = 1.1
# Memory for F and for the inner matrices of all outputs.
MAX_FACTOR_BYTES = 512 * 2**20
MAX_CORE_BYTES = 256 * 2**20


@dataclass(frozen=True)
class CostModel:
    """Expected work of a solve with a preconditioner of rank r.

    cost, column_cost : as operators have them
    ``noise`` and eigenvalues are in the same unit, that of the factor. ``n_blocks`` is the number of
    sweeps that a product with all ``n_outputs`` vectors takes.
    """

    n_rows: int
    cost: int
    column_cost: int
    n_outputs: int
    n_blocks: int
    tol: float
    noise: float
    max_iter: int

    def iterations(self, largest_eigenvalue: float) -> float:
        """Conjugate gradients on a spectrum from the noise up to noise + the largest eigenvalue."""
        condition = 1 + largest_eigenvalue / self.noise
        return max(1.0, 0.65 * np.sqrt(condition) * np.log(2 / self.tol))

    def iteration(self, rank: int) -> float:
        sweep = 2.6 if self.n_outputs == 1 else 10.0 if self.tol >= SINGLE_PRECISION_TOL else 20.0
        product = sweep * self.n_blocks * self.cost
        vectors = 10.0 * self.n_rows * self.n_outputs
        apply = 6e5 + self.n_rows * rank * (1.0 + 0.12 * self.n_outputs) if rank else 0.0
        return product + vectors + apply

    def build(self, rank: int) -> float:
        return 0.2 * self.column_cost * rank + 0.07 * self.n_rows * rank**2


def make_preconditioner(
    operator: KernelOperator, noise: Noise, n_outputs: int, options: SolverOptions, rng: np.random.Generator
) -> Preconditioner | None:
    """The preconditioner of the rank asked for, or of the one that pays; None for rank 0."""
    if options.preconditioner_rank == 0:
        return None
    with single_threaded_blas():
        if options.preconditioner_rank == "auto":
            limit = max_rank(operator.n_samples, noise.n_matrices)
            factor = PivotedCholesky(operator, noise, rng, limit, options.n_threads)
            rank = grow_to_best_rank(factor, _cost_model(operator, noise, n_outputs, options))
        else:
            factor = PivotedCholesky(operator, noise, rng, options.preconditioner_rank, options.n_threads)
            factor.grow(options.preconditioner_rank)
            rank = factor.rank
        return Preconditioner(factor, noise, options.n_threads) if rank else None


def _cost_model(operator: KernelOperator, noise: Noise, n_outputs: int, options: SolverOptions) -> CostModel:
    """The cost model of a solve with this operator, noise and number of outputs."""
    typical_noise = np.exp(np.mean(np.log(noise.diagonals())))
    return CostModel(
        n_rows=operator.n_samples,
        cost=operator.cost,
        column_cost=operator.column_cost or operator.cost,
        n_outputs=n_outputs,
        n_blocks=-(-n_outputs // operator.block_width),
        tol=options.tol,
        noise=float(typical_noise) / operator.scale,
        max_iter=options.max_iter,
    )


def max_rank(n_rows: int, n_matrices: int) -> int:
    """The largest rank whose factor and inner matrices stay within fixed memory."""
    by_factor = MAX_FACTOR_BYTES // (4 * n_rows)
    by_cores = int(np.sqrt(MAX_CORE_BYTES / (8 * n_matrices)))
    return int(max(0, min(by_factor, by_cores, n_rows // 2)))


def grow_to_best_rank(factor: PivotedCholesky, model: CostModel) -> int:
    """Grow the factor while that is expected to save time; the rank reached, or 0 if none pays."""
    if factor.max_rank < PILOT_RANK:
        return 0
    if not factor.grow(PILOT_RANK):
        return factor.rank
    eigenvalues = [_next_eigenvalue(factor)]
    # Without help, conjugate gradients deal with a few large eigenvalues by themselves, the better the
    # easier the system; the formula fits bags of words, orientation histograms and raw counts.
    plain_iterations = min(
        model.iterations(float(factor.squared_norms.max())), 0.45 * model.iterations(eigenvalues[0]) ** 1.1
    )
    plain = plain_iterations * model.iteration(0)

    # See how fast the eigenvalues fall, where the look is cheap.
    while factor.rank < min(TRIAL_RANK, factor.max_rank) and plain > 16 * model.build(TRIAL_RANK):
        if not factor.grow(2 * factor.rank):
            return factor.rank
        eigenvalues.append(_next_eigenvalue(factor))
    best, cost = _cheapest(factor, model, eigenvalues)
    if plain_iterations <= model.max_iter and plain <= COST_MARGIN * cost:
        return 0

    while best > factor.rank:
        doubled = 2 * factor.rank
        if not factor.grow(min(best, doubled)) or best < doubled:
            break
        eigenvalues.append(_next_eigenvalue(factor))
        best, _ = _cheapest(factor, model, eigenvalues)

    # Eigenvalues of sparse data may fall off a cliff at about their number of columns. With many right-hand sides to
    # come it costs little to look.
    while model.n_outputs >= MANY_OUTPUTS and factor.rank < min(MOST_LOOK_RANK, factor.max_rank):
        doubled = min(2 * factor.rank, MOST_LOOK_RANK)
        to_come = model.iterations(_next_eigenvalue(factor)) * model.iteration(factor.rank)
        if to_come < LOOK_FACTOR * (model.build(doubled) - model.build(factor.rank)) or not factor.grow(doubled):
            break
    return factor.rank


def _cheapest(factor: PivotedCholesky, model: CostModel, eigenvalues: list[float]) -> tuple[int, float]:
    """The rank from here on with the lowest cost still to come, and that cost.

    ``eigenvalues`` are the estimates at the present rank and at its halves; they are expected to
    go on falling by the same power of the rank.
    """
    recent = eigenvalues[-3:]
    decay = np.log2(recent[0] / recent[-1]) / (len(recent) - 1) if len(recent) > 1 else 0.5
    decay = np.clip(decay, 0.25, 1.5)

    def cost(rank: int) -> float:
        eigenvalue = eigenvalues[-1] * (factor.rank / rank) ** decay
        building = model.build(rank) - model.build(factor.rank)
        return building + model.iterations(eigenvalue) * model.iteration(rank)

    candidates = [min(int(factor.rank * step), factor.max_rank) for step in RANK_FACTORS]
    best = min(candidates, key=cost)
    return best, cost(best)


def _next_eigenvalue(factor: PivotedCholesky) -> float:
    """Estimate of the largest eigenvalue of ``K - F F^T``.

    The squared norm of a new column of F is a Rayleigh quotient of the residual matrix at that time.
    """
    recent = factor.squared_norms[-max(8, factor.rank // 4) :]
    return float(max(recent.max(), np.finfo(float).tiny))
