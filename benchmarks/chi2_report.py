"""Lines of the first table about chi-squared kernels."""

from __future__ import annotations

from collections.abc import Iterator

from measure import Line, Results, line


def chi2_report(results: Results) -> Iterator[Line]:
    yield from _maps(results)
    if "streaming_ridge" in results:
        got = results["streaming_ridge"]
        yield line(
            "streaming ridge, Fashion-MNIST 60,000 x 441, 3 terms, 10 classes",
            f"{got['seconds']:.1f} s, accuracy {got['accuracy']:.4f}, {got['prediction_us']:.0f} us an example; "
            f"AdditiveChi2Sampler and RidgeClassifier {got['sklearn_seconds']:.1f} s, {got['sklearn_accuracy']:.4f}",
            "< 8 s, >= 0.888",
            lambda: got["seconds"] < 8 and got["accuracy"] >= 0.888,
        )
    if "streaming_parquet" in results:
        got = results["streaming_parquet"]
        yield line(
            "histogp fit --stream, 1,000,000 x 441 Parquet, 3 terms, 10 classes",
            f"{got['seconds']:.0f} s, {got['megabytes']:.0f} MB (the files have {got['file_mb']:,.0f} MB), accuracy "
            f"{got['accuracy']:.4f}; 60,000 rows differ by {got['difference']:.1g} from least squares in memory",
            "< 240 s, < 1,500 MB, <= 1e-6",
            lambda: got["seconds"] < 240 and got["megabytes"] < 1500 and got["difference"] <= 1e-6,
        )
    if "chi2_gp" in results:
        got = results["chi2_gp"]
        yield line(
            "chi2 Gaussian process, Fashion-MNIST 60,000 x 441, 3 terms",
            f"{got['seconds']:.1f} s, {got['megabytes']:.0f} MB, accuracy {got['accuracy']:.4f}, exact variance "
            f"{got['variance_us']:.0f} us an example, exact evidence {got['evidence_seconds']:.1f} s",
            "< 12 s, >= 0.888, <= 50 us",
            lambda: got["seconds"] < 12 and got["accuracy"] >= 0.888 and got["variance_us"] <= 50,
        )
    if "chi2_resume" in results:
        got = results["chi2_resume"]
        yield line(
            f"histogp fit --stream, killed {got['killed']:.0f} times, resumed {got['resumed']:.0f} times",
            f"{got['identical']:.0f} of {got['runs']:.0f} models identical to the last bit",
            "all",
            lambda: got["identical"] == got["runs"],
        )


def _maps(results: Results) -> Iterator[Line]:
    if "chi2_error" in results:
        got = results["chi2_error"]
        direct, others = got["direct_5"], {"VZ (best interval)": got["vz_5"], "scaled Chebyshev": got["chebyshev_5"]}
        yield line(
            "error of the chi2 map, pairs of HOG values, 5 terms",
            f"Direct {direct:.1e} (algorithm 1 alone {got['greedy_5']:.1e}), "
            + ", ".join(f"{name} {value:.1e}" for name, value in others.items())
            + f", scikit-learn's sampler {got['sklearn_5']:.1e}"
            + f": {min(others.values()) / direct:.0f} times less",
            "<= 5e-4, >= 20 times less",
            lambda: direct <= 5e-4 and min(others.values()) >= 20 * direct,
        )
    if "chi2_map_times" in results:
        got = results["chi2_map_times"]
        for kind in ("float32", "float64"):
            times = [(got[f"ours_{kind}_{n}"], got[f"sklearn_{kind}_{n}"]) for n in (3, 5)]
            yield line(
                f"chi2 map, 60,000 x 441, {kind}, 3 and 5 terms",
                ", ".join(f"{ours:.2f} s (scikit-learn {theirs:.2f})" for ours, theirs in times),
                "<= scikit-learn",
                lambda times=times: all(ours <= theirs for ours, theirs in times),
            )
