"""Lines of the first table about the exponential chi-squared kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from approximations import DATA, TITLES
from approximations import SIZES as TABLE_SIZES
from exp_chi2 import KERNELS, N_COMPARED, RIVAL_SIZES, SIZES
from measure import Line, Results, line

from histogp.reports.comparison import KERNELS as COMPARED

FIRST, SECOND, THIRD = SIZES


def exp_chi2_report(results: Results) -> Iterator[Line]:
    if "exp_chi2_tables" in results:
        yield from _tables(results["exp_chi2_tables"])
    if "exp_chi2_fashion" in results:
        yield from _fashion(results["exp_chi2_fashion"])
    if "exp_chi2_drawings" in results:
        got = results["exp_chi2_drawings"]
        ratio = got["ours_seconds"] / got["linear_svc_seconds"]
        yield line(
            "exp-chi2 ridge, QuickDraw 24,150 x 441, 345 classes: top-1, top-5",
            f"{got['ours_top_1']:.4f}, {got['ours_top_5']:.4f} in {got['ours_seconds']:.0f} s; LinearSVC "
            f"{got['linear_svc_top_1']:.4f}, {got['linear_svc_top_5']:.4f} in {got['linear_svc_seconds']:.0f} s",
            "above, in a fifth of the time",
            lambda: ratio <= 0.2 and all(got[f"ours_top_{k}"] > got[f"linear_svc_top_{k}"] for k in (1, 5)),
        )
    for case, title in (("exp_chi2_newsgroups", "20 Newsgroups"), ("exp_chi2_reuters", "Reuters R52")):
        if case in results:
            got = results[case]
            names = [*KERNELS, "LinearSVC", "LinearSVC, tf-idf", "ComplementNB"]
            shown = "; ".join(
                f"{name} {got[f'{name}/accuracy']:.4f} ({got[f'{name}/seconds']:.1f} s)" for name in names
            )
            yield line(f"{title}, word counts: accuracy", shown, "reported", lambda: True)
    if "exp_chi2_gp" in results:
        got = results["exp_chi2_gp"]
        yield line(
            f"exp-chi2 Gaussian process, Fashion-MNIST 60,000 x 441, {FIRST:,} features",
            f"expected calibration error {got['ece']:.4f}, log loss {got['log_loss']:.4f}, "
            f"accuracy {got['accuracy']:.4f}, {got['seconds']:.0f} s with the search; variance "
            f"{got['variance_us']:.0f} us an example, differs by {got['variance_error']:.0e} from the dense formula",
            "<= 0.02, exact",
            lambda: got["ece"] <= 0.02 and got["variance_error"] < 1e-6,
        )
    if "kernel_table" in results:
        got = results["kernel_table"]
        for name in COMPARED:
            yield line(
                f"{name} by the evidence, Fashion-MNIST {N_COMPARED:,} x 441",
                f"accuracy {got[f'{name}/score']:.4f}, log loss {got[f'{name}/loss']:.3f}, "
                f"{got[f'{name}/seconds']:.1f} s, {got[f'{name}/microseconds']:.1f} us an example",
                "reported",
                lambda: True,
            )
    if "exp_chi2_rivals" in results:
        got = results["exp_chi2_rivals"]
        for n in RIVAL_SIZES:
            shown = ", ".join(
                f"{title} {got[f'{name}_{n}']:.4f} ({got[f'{name}_{n}_seconds']:.1f} s)"
                for name, title in (
                    ("ours", "random"),
                    ("pca", "PCA of 3 times as many"),
                    ("nystroem", "Nystroem"),
                )
            )
            yield line(
                f"exp-chi2 ridge, HOG, 5,100 rows, {n:,} features: accuracy",
                f"{shown}; exact kernel {got['exact']:.4f}",
                "reported",
                lambda: True,
            )
    if "two_blocks" in results:
        got = results["two_blocks"]
        yield line(
            "orientations and patches together, 5,100 rows, 10 seeds: accuracy",
            f"hog {got['hog']:.4f}, patches {got['patches']:.4f}, both {got['both']:.4f}, gain {got['both_gain']:.4f} "
            f"+- {got['both_half_width']:.4f}; weights by evidence {got['weighted']:.4f}, gain "
            f"{got['weighted_gain']:.4f} +- {got['weighted_half_width']:.4f}",
            "gain > 0",
            lambda: max(got[f"{name}_gain"] - got[f"{name}_half_width"] for name in ("both", "weighted")) > 0,
        )


def _tables(got: dict[str, float]) -> Iterator[Line]:
    for data in DATA:
        exact = got[f"{data}/exact"]
        means = [got[f"{data}/PCA-Direct/{n}/mean"] for n in TABLE_SIZES]
        yield line(
            f"exp-chi2, {TITLES[data]}, 5,100 rows: PCA-Direct with 3,000, 5,000, 7,000 features",
            ", ".join(f"{mean:.4f}" for mean in means) + f"; exact kernel {exact:.4f}",
            "within 0.015",
            lambda means=means, exact=exact: min(means) >= exact - 0.015,
        )


def _fashion(got: dict[str, float]) -> Iterator[Line]:
    for n, accuracy, limit in ((FIRST, 0.905, 30), (SECOND, 0.915, 60), (THIRD, 0.922, np.inf)):
        us = got[f"prediction_us_{n}"]
        yield line(
            f"exp-chi2 ridge, Fashion-MNIST 60,000 x 441, {n:,} features",
            f"{got[f'seconds_{n}']:.1f} s, accuracy {got[f'accuracy_{n}']:.4f}, {us:.0f} us an example",
            f"< {limit} s, >= {accuracy}" + ", <= 150 us" * (n == SECOND) if n != THIRD else f"stretch: {accuracy}",
            lambda n=n, accuracy=accuracy, limit=limit, us=us: (
                got[f"seconds_{n}"] < limit and got[f"accuracy_{n}"] >= accuracy and (n != SECOND or us <= 150)
            ),
        )
