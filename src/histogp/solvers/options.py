"""What users can say about the solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SolverOptions:
    """See the estimators."""

    solver: Literal["auto", "cg", "cholesky"] = "auto"
    tol: float = 1e-2
    max_iter: int = 1000
    preconditioner_rank: int | Literal["auto"] = "auto"
    n_threads: int = 1
