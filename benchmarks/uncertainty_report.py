"""Lines of the first table about variances, probabilities, detection of the unknown and posterior samples."""

from __future__ import annotations

from collections.abc import Iterator

import uncertainty
from measure import Line, Results, line


def uncertainty_report(results: Results) -> Iterator[Line]:
    yield from _exact(results)
    yield from _times(results)
    yield from _sampled(results)
    yield from _calibrated(results)
    yield from _far(results)
    yield from _probabilities(results)
    yield from _one_class(results)


def _exact(results: Results) -> Iterator[Line]:
    if "variance_chain" in results:
        got = results["variance_chain"]
        for name, what in (("fashion", "Fashion-MNIST 4,000"), ("bags", "10,090 x 1,000 sparse")):
            shares = ", ".join(
                f"{got[f'{name}_{kind}']:.3f}" for kind in ("precise", "fine_8", "fine_2", "fine_0", "coarse")
            )
            violation, smallest = got[f"{name}_violation"], got[f"{name}_smallest"]
            yield line(
                f"order of the variances, {what}",
                f"{'none violated' if violation <= 1e-8 and smallest >= 0 else 'VIOLATED'}, least distance "
                f"{-violation:.1g} of K(x, x), smallest {smallest:.3f}; means of precise, fine 8, 2, 0, coarse: "
                f"{shares}",
                "no violation beyond 1e-8",
                lambda violation=violation, smallest=smallest: violation <= 1e-8 and smallest >= 0,
            )
    if "variance_dense" in results:
        got = results["variance_dense"]
        yield line(
            "precise variance against dense Cholesky, Fashion-MNIST 3,000",
            f"{got['tight']:.1g} off, relative; {got['default']:.1g} with the default tolerance",
            "<= 1e-6",
            lambda: got["tight"] <= 1e-6,
        )
    if "sample_y" in results:
        got = results["sample_y"]
        worst = max(got["function_covariance"], got["observation_covariance"])
        yield line(
            f"covariance of {uncertainty.N_DRAWS:,} posterior draws at 12 rows against a dense one",
            f"{worst:.1f} standard errors off at most; means {max(got['function_mean'], got['observation_mean']):.1f}",
            "<= 4.5",
            lambda: worst <= 4.5,
        )


def _times(results: Results) -> Iterator[Line]:
    if "variance_times" in results:
        got = results["variance_times"]
        for method, name, bar in (
            ("precise", "precise variance", 20_000),
            ("fine", "fine variance, 8 eigenvectors", 300),
            ("coarse", "coarse variance", 10),
            ("coarse-quantized", "coarse quantised variance", 0.5),
        ):
            yield line(
                f"{name}, 10,090 x 1,000 sparse",
                f"{_microseconds(got[f'{method}_us'])} (preparation {got[f'{method}_preparation']:.2f} s)",
                f"<= {bar:g} us" if bar < 100 else f"<= {bar / 1000:g} ms",
                lambda method=method, bar=bar: got[f"{method}_us"] <= bar,
            )


def _sampled(results: Results) -> Iterator[Line]:
    if "sampled_times" in results:
        got = results["sampled_times"]
        times = ", ".join(
            f"{got[f'us_{n}']:.1f} us at N = {n:,} ({got[f'preparation_{n}']:.1f} s)" for n in uncertainty.SAMPLED_SIZES
        )
        yield line(
            "sampled variance, 256 draws, 1,000 sparse features (preparation)",
            times,
            "<= 20 us at any N",
            lambda: all(got[f"us_{n}"] <= 20 for n in uncertainty.SAMPLED_SIZES),
        )
    for case, what, n_seeds in (
        ("sampled_bias", "5,000 x 1,000 sparse", uncertainty.SAMPLED_SEEDS),
        ("sampled_bias_fashion", "Fashion-MNIST 4,000", uncertainty.SAMPLED_SEEDS_FASHION),
    ):
        if case in results:
            got = results[case]
            yield line(
                f"  against precise, {what}, {n_seeds} seeds",
                f"bias {got['bias']:+.2%} (standard error {got['standard_error']:.2%}), rms error {got['rms']:.1%}",
                "<= 1% and 3 standard errors; <= 10%",
                lambda got=got: abs(got["bias"]) <= 0.01 + 3 * got["standard_error"] and got["rms"] <= 0.1,
            )


def _calibrated(results: Results) -> Iterator[Line]:
    timed = []
    if "calibrated_times" in results:
        got = results["calibrated_times"]
        timed += [
            (f"{n:,} x 1,000 sparse, binary", *(got[f"{name}_{n}"] for name in ("us", "preparation", "fit")))
            for n in uncertainty.CALIBRATED_SIZES
        ]
    if "calibrated_times_fashion" in results:
        got = results["calibrated_times_fashion"]
        what = f"Fashion-MNIST {uncertainty.FASHION_SIZE:,}, 10 classes"
        timed.append((what, *(got[name] for name in ("us", "preparation", "fit"))))
    for what, duration, preparation, fit in timed:
        yield line(
            f"calibrated variance, {what}",
            f"{duration:.1f} us, preparation {preparation:.2f} s / fit {fit:.2f} s = {preparation / fit:.2f}",
            "<= 20 us; <= 1",
            lambda duration=duration, preparation=preparation, fit=fit: duration <= 20 and preparation <= fit,
        )
    for case, what in (
        ("calibrated_error", "10,090 x 1,000 sparse"),
        ("calibrated_error_fashion", f"Fashion-MNIST {uncertainty.FASHION_SIZE:,}"),
    ):
        if case in results:
            got = results[case]
            yield line(
                f"  against precise, {what}, worst of {uncertainty.SEEDS} seeds (mean)",
                f"rms error {got['worst_rms']:.2%} ({got['mean_rms']:.2%}), its own estimate "
                f"{got['lowest_estimate']:.2%} to {got['highest_estimate']:.2%}, rank correlation "
                f"{got['worst_rank']:.4f} ({got['mean_rank']:.4f})",
                "<= 4%; >= 0.98",
                lambda got=got: got["worst_rms"] <= 0.04 and got["worst_rank"] >= 0.98,
            )


def _far(results: Results) -> Iterator[Line]:
    """No bars."""
    if "calibrated_far" in results:
        got = results["calibrated_far"]
        titles = ("classes 5 to 9, trained on 0 to 4", "bins permuted, each row in its own way", "counts doubled")
        for name, title in zip(uncertainty.FAR, titles, strict=True):
            yield (
                f"  far rows, Fashion-MNIST {uncertainty.FASHION_SIZE:,}: {title}",
                f"rms error {got[f'{name}_rms']:.1%} (mean ratio {got[f'{name}_ratio']:.3f}), its own estimate "
                f"{got[f'{name}_estimate']:.1%}, rank correlation {got[f'{name}_rank']:.4f}",
                "",
                "",
            )


def _probabilities(results: Results) -> Iterator[Line]:
    for case, what, bar in (
        ("probability_fashion", f"Fashion-MNIST {uncertainty.FASHION_SIZE:,}", 0.02),
        ("probability_digits", "digits, 5 folds", 0.03),
    ):
        if case in results:
            got = results[case]
            yield line(
                f"predict_proba, {what}, expected calibration error (15 bins)",
                f"{got['ours_error']:.4f} (a held-out fifth {got['held_error']:.4f}, "
                f"Dirichlet {got['dirichlet_error']:.4f})",
                f"<= {bar}",
                lambda got=got, bar=bar: got["ours_error"] <= bar,
            )
            yield line(
                "  log loss against a temperature from a held-out fifth",
                f"{got['ours_loss']:.4f} against {got['held_loss']:.4f} (Dirichlet {got['dirichlet_loss']:.4f}; "
                f"accuracy {got['ours_accuracy']:.4f}, Dirichlet {got['dirichlet_accuracy']:.4f})",
                "no worse",
                lambda got=got: got["ours_loss"] <= got["held_loss"],
            )


def _one_class(results: Results) -> Iterator[Line]:
    if "one_class" in results:
        got = results["one_class"]
        ours = ", ".join(f"{name.removeprefix('ours ')} {got[name]:.4f}" for name in got if name.startswith("ours "))
        peers = {name: area for name, area in got.items() if not name.startswith("ours")}
        best = max(peers, key=peers.__getitem__)
        yield line(
            f"one class against the rest, Fashion-MNIST, {uncertainty.ONE_CLASS_SIZE} examples, "
            f"{uncertainty.ONE_CLASS_TESTED:,} test images, {uncertainty.ONE_CLASS_REPEATS} repeats",
            f"mean AUC {got['ours']:.4f} against {peers[best]:.4f} ({best})",
            ">= best other",
            lambda: got["ours"] >= peers[best],
        )
        yield "  our other criteria and methods (calibrated is precise below 256 examples)", ours, "", ""
        yield "  others", ", ".join(f"{name} {area:.4f}" for name, area in peers.items()), "", ""


def _microseconds(duration: float) -> str:
    if duration >= 1_000:
        return f"{duration / 1000:.1f} ms"
    return f"{duration:.0f} us" if duration >= 100 else f"{duration:.2f} us"
