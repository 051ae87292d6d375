"""The tables of the README, as templates that are filled from stored results.

A field is ``{case[value]:format}``, where the format is one of Python's, ``time`` for a duration in seconds or ``us``
for one in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table: the cells of its header and of its rows. The cells of a row that have no field tell it from others."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


VARIANCES = Table(
    ("`method`", "what it is", "time a sample", "its preparation"),
    (
        (
            '`"precise"`',
            "one linear system a row, solved in blocks",
            "{variance_times[precise_us]:us}",
            "{variance_times[precise_preparation]:time}",
        ),
        (
            '`"fine"`',
            "bound from 8 leading eigenvectors",
            "{variance_times[fine_us]:us}",
            "{variance_times[fine_preparation]:time}",
        ),
        (
            '`"coarse"`',
            "bound from the largest eigenvalue, in sorted columns",
            "{variance_times[coarse_us]:us}",
            "{variance_times[coarse_preparation]:time}",
        ),
        (
            '`"coarse-quantized"`',
            "the same from a table",
            "{variance_times[coarse_quantized_us]:us}",
            "{variance_times[coarse_quantized_preparation]:time}",
        ),
        (
            '`"sampled"`',
            "256 posterior draws in tables",
            "{sampled_times[us_10090]:us}",
            "{sampled_times[preparation_10090]:time}",
        ),
        (
            '`"calibrated"`',
            "a table, weighed to fit exact leave-one-out variances",
            "{calibrated_times[us_10090]:us}",
            "{calibrated_times[preparation_10090]:time} (a fit: {calibrated_times[fit_10090]:time})",
        ),
    ),
)

SUMS = Table(
    ("data, kernel", "histogp", "scikit-learn's SVC (RBF)"),
    (
        (
            "10,000 x 441, intersection + Laplacian + Gaussian, exact",
            "fit {sum_fit[seconds]:time}, accuracy {sum_fit[accuracy]:.3f}; a prediction {sum_fit[exact_us]:us}, "
            "quantized {sum_fit[quantized_us]:us}",
            "a prediction {sum_fit[svc_us]:us}",
        ),
        (
            "60,000 x 441, Gaussian + Laplacian, 6,000 landmarks",
            "accuracy {sum_fashion[accuracy]:.4f}, fit {sum_fashion[seconds]:time}",
            "accuracy {sum_fashion[svc_accuracy]:.4f}, fit {sum_fashion[svc_seconds]:time}; on roots with C=10 "
            "{sum_fashion[svc_on_roots_accuracy]:.4f}, {sum_fashion[svc_on_roots_seconds]:time}",
        ),
    ),
)

KERNELS = Table(
    ("kernel", "accuracy", "log loss", "fit with search", "a prediction"),
    tuple(
        (
            title,
            f"{{kernel_table[{kernel}/score]:.4f}}",
            f"{{kernel_table[{kernel}/loss]:.3f}}",
            f"{{kernel_table[{kernel}/seconds]:time}}",
            f"{{kernel_table[{kernel}/microseconds]:us}}",
        )
        for title, kernel in (
            ('`"hik"`', "hik"),
            ('`"hik-exp"`', "hik-exp"),
            ('`"chi2"`', "chi2"),
            ('`"exp-chi2"`, 2,000 landmarks', "exp-chi2"),
        )
    ),
)

_TEXT_MODELS = {
    '`"hik"`': "hik",
    '`"chi2"`': "chi2",
    '`"exp-chi2"`': "exp-chi2",
    "the same by 2,000 waves": "exp-chi2, waves",
    "`LinearSVC` on tf-idf": "LinearSVC, tf-idf",
    "`ComplementNB`": "ComplementNB",
}
TEXTS = Table(
    ("accuracy", *_TEXT_MODELS),
    tuple(
        (title, *(f"{{exp_chi2_{data}[{model}/accuracy]:.3f}}" for model in _TEXT_MODELS.values()))
        for title, data in (("20 Newsgroups", "newsgroups"), ("Reuters R52", "reuters"))
    ),
)

HELPS = Table(
    ("data", "kernel", "as given", "optimized"),
    tuple(
        (
            data if kernel == "hik" else "",
            f'`"{kernel}"`',
            *(
                f"{{helps_{name}[{kernel} {kind} accuracy]:.3f}} +- {{helps_{name}[{kernel} {kind} margin]:.3f}}"
                for kind in ("fixed", "optimized")
            ),
        )
        for data, name in (
            ("Fashion-MNIST, 15,000 images", "fashion"),
            ("20 Newsgroups, 11,293 texts, L1-normalized counts of 10,000 words", "newsgroups"),
        )
        for kernel in ("hik", "hik-poly", "hik-exp")
    ),
)

PEERS = Table(
    ("model", "fit", "prediction", "memory", "accuracy"),
    tuple(
        (
            title,
            f"{{{name}[seconds]:time}}",
            f"{{{name}[prediction_us]:us}}",
            f"{{{name}[megabytes]:.0f}} MB",
            f"{{{name}[accuracy]:.4f}}",
        )
        for title, name in (
            ("histogp, exact prediction", "histogp_exact"),
            ("histogp, quantized prediction", "histogp_quantized"),
            ('histogp, `kernel="hik-poly"`, `noise=3`, quantized', "histogp_poly"),
            ("`SVC`, RBF on square roots", "svc_rbf"),
            ("`LinearSVC` on `AdditiveChi2Sampler`", "linear_svc_chi2"),
            ("`RidgeClassifier`", "ridge"),
            ("`HistGradientBoostingClassifier`", "gradient_boosting"),
            ("GPyTorch, exact GP, RBF on square roots", "gpytorch_exact"),
        )
    ),
)


def _labels(case: str, counts: tuple[int, ...]) -> str:
    """Labels that each strategy needs, for each number of other classes."""
    strategies = ("expected-change", "mean", "uncertainty", "uncertainty+", "variance")
    return ", ".join(
        f'`"{name}"` ' + "; ".join(f"{{{case}[{n}_{name}_labels]:.0f}}" for n in counts) for name in strategies
    )


def _rivals(name: str) -> str:
    return "; ".join(f"{{exp_chi2_rivals[{name}_{n}]:.3f}}" for n in (500, 1_000, 2_000))


def _approximations(data: str) -> str:
    direct, components = (
        "; ".join(f"{{exp_chi2_tables[{data}/{row}/{n}/mean]:.3f}}" for n in (3_000, 5_000, 7_000))
        for row in ("Direct", "PCA-Direct")
    )
    return f"Direct {direct}, its components {components}, exact {{exp_chi2_tables[{data}/exact]:.4f}}"


def _exp_chi2_size(n: int) -> str:
    return (
        f"{{exp_chi2_fashion[seconds_{n}]:time}}, accuracy {{exp_chi2_fashion[accuracy_{n}]:.4f}}, "
        f"{{exp_chi2_fashion[prediction_us_{n}]:us}} an image"
    )


SPEED = Table(
    ("what", "measured"),
    (
        (
            "fit, Fashion-MNIST 60,000 x 441, 10 classes",
            "{fit_fashion[seconds]:time}, {fit_fashion[megabytes]:,.0f} MB, test accuracy {fit_fashion[accuracy]:.4f}",
        ),
        (
            "its growth from 7,500 to 60,000 samples",
            "{growth[seconds_7500]:.2f}, {growth[seconds_15000]:.2f}, {growth[seconds_30000]:.2f}, "
            "{growth[seconds_60000]:.2f} s: exponent {growth[exponent]:.2f}",
        ),
        ("fit, 50,050 x 1,000 sparse, binary", "{fit_50050[seconds]:time}"),
        (
            "fit, 10,090 x 1,000 sparse, binary",
            "{fit_10090[seconds]:time}; with `tol=1e-7` {fit_10090_tight[seconds]:time}",
        ),
        (
            "the same by a dense Cholesky factor, the matrix given",
            "{cholesky[times_the_time]:.0f} times the time ({cholesky[best_case_seconds]:.1f} s instead of "
            "{cholesky[seconds]:.1f} s if it may overwrite the matrix), {cholesky[times_the_memory]:.0f} times the "
            "memory",
        ),
        (
            'the same by `SVC(kernel="precomputed")`, matrix included',
            "{svc[times_the_time]:.0f} times the time; {svc[times_the_time_with_our_matrix]:.0f} times with the matrix "
            "by `histogp.kernels`",
        ),
        ("fit, 1,500 x 1,000 sparse, 15 classes", "{fit_1500[seconds]:time}"),
        (
            "product with the 60,000 x 60,000 matrix, per vector in a block of 16",
            "{product[block_ratio]:.2f} times reading the data once at copy bandwidth",
        ),
        (
            "exact prediction, 1,000 sparse features, binary",
            "{prediction[exact_10090]:us} a sample at N = 10,090, {prediction[exact_50050]:us} at 50,050",
        ),
        (
            "quantized prediction, the same",
            "{prediction[quantized_10090]:us} at N = 10,090, {prediction[quantized_50050]:us} at 50,050",
        ),
        (
            "quantized prediction, Fashion-MNIST 60,000 x 441, 10 classes",
            "{quantized_fashion[linear_us]:us}; the same label as exact for {quantized_fashion[linear_agreement]:.2%}, "
            "largest error of a score {quantized_fashion[linear_error]:.3f}, worst case of all inputs "
            "{quantized_fashion[worst_case]:.2f}",
        ),
        (
            "its papers' form, the nearest of 100 uniform nodes",
            "the same label for {quantized_fashion[nearest_agreement]:.2%}, largest error "
            "{quantized_fashion[nearest_error]:.2f}",
        ),
        (
            "its model file",
            "loads in {quantized_fashion[load_seconds]:time} ({quantized_fashion[file_mb]:.0f} MB); to predict only "
            "{quantized_fashion[table_mb]:.0f} MB and {quantized_fashion[table_load_seconds]:time}",
        ),
        (
            "`histogp predict`, 1,000,000 x 441 from Parquet, 10 classes, quantized",
            "{predict_command[seconds]:time}, {predict_command[megabytes]:,.0f} MB",
        ),
        ("variances of 10,090 x 1,000 sparse", "see [Uncertainty](#uncertainty)"),
        (
            '`"calibrated"` variance against the exact one, worst of 3 seeds',
            "{calibrated_error[worst_rms]:.1%} off, rank correlation {calibrated_error[worst_rank]:.3f}; Fashion-MNIST "
            "20,000: {calibrated_error_fashion[worst_rms]:.1%}, {calibrated_error_fashion[worst_rank]:.3f} "
            "({calibrated_times_fashion[us]:us} an image, preparation {calibrated_times_fashion[in_fits]:.2f} times "
            "the fit)",
        ),
        (
            "the same for images unlike those of training",
            "unseen classes {calibrated_far[classes_rms]:.0%} off, doubled counts {calibrated_far[doubled_rms]:.0%}, "
            "permuted bins {calibrated_far[permuted_rms]:.0%}; rank correlation {calibrated_far[lowest_rank]:.3f} and "
            "more",
        ),
        (
            '`"sampled"` variance, 256 draws',
            "bias {sampled_bias[bias]:+.1%}, {sampled_bias[rms]:.0%} off; {sampled_times[fastest_us]:us} to "
            "{sampled_times[slowest_us]:us} from 5,000 to 50,050 samples",
        ),
        (
            "`predict_proba`, expected calibration error",
            "Fashion-MNIST {probability_fashion[ours_error]:.3f}, digits {probability_digits[ours_error]:.3f}; log "
            "loss {probability_fashion[ours_loss]:.3f} and {probability_digits[ours_loss]:.3f} "
            '(`"dirichlet"`: {probability_fashion[dirichlet_loss]:.3f} and {probability_digits[dirichlet_loss]:.3f})',
        ),
        (
            "one Fashion-MNIST class against the rest, 100 samples, mean AUC",
            "{one_class[ours]:.3f}; best of `OneClassSVM`, `IsolationForest`, `LocalOutlierFactor`: "
            "{one_class[best_other]:.3f}",
        ),
        (
            "one sample added to 10,090 x 1,000 sparse, binary",
            "{update_one[milliseconds]:.0f} ms, {update_one[warm_iterations]:.0f} iterations; a fit from scratch "
            "{update_one[fit_milliseconds]:.0f} ms, {update_one[cold_iterations]:.0f}",
        ),
        (
            "15 samples, one a class, added to 1,500",
            "{update_15[milliseconds]:.0f} ms, {update_15[in_fits]:.2f} of a fit",
        ),
        (
            "5,000 samples in batches of 50 into an empty model, a prediction after each",
            "{stream[stream_2]:time}, {stream[in_fits_2]:.0f} times a fit of all",
        ),
        (
            "15 classes of drawings, 10 to 60 samples each, hyperparameters searched for at every step",
            "the accuracy of fits from scratch ({incremental[mean_difference]:+.3f} on average), "
            "{incremental[speedup_first]:.0f} to {incremental[speedup_last]:.0f} times as fast",
        ),
        (
            "`kill -9` during `histogp update`, 200 times; 4 readers during updates",
            "the old file {kills[old]:.0f} times, the new one {kills[new]:.0f} times, another {kills[neither]:.0f} "
            "times; {readers[mixtures]:.0f} mixtures",
        ),
        (
            "question to a pool of 50,000 x 441, 2,000 labeled",
            '`"mean"` {query_times[mean]:.1f} s, `"variance"` {query_times[variance]:.1f} s, `"uncertainty"` '
            '{query_times[uncertainty]:.1f} s, `"expected-change"` {query_times[expected-change]:.1f} s; batch of 10 '
            "{query_times[fastest_batch]:.1f} to {query_times[slowest_batch]:.1f} s",
        ),
        (
            "the papers' checkerboard, 100 more labels, 100 runs, mean accuracy",
            'random {checkerboard[random_100]:.3f}, `"mean"` {checkerboard[mean_100]:.3f}, `"uncertainty"` '
            '{checkerboard[uncertainty_100]:.3f}, `"expected-change"` {checkerboard[expected-change_100]:.3f}, '
            '`"uncertainty+"` {checkerboard[uncertainty+_100]:.3f}, `"variance"` {checkerboard[variance_100]:.3f}',
        ),
        (
            "one Fashion-MNIST class against 4; 9 others, 100 tasks: labels for the AUC of 50 random ones (51: more)",
            _labels("one_vs_few_fashion", (4, 9)),
        ),
        ("one QuickDraw class against 4; 9; 19 others, the same", _labels("one_vs_few_drawings", (4, 9, 19))),
        (
            "additive chi-squared kernel, error over pairs of HOG values, 5 terms",
            "`AdditiveChi2Map` {chi2_error[direct_5]:.1e} (algorithm 1 alone {chi2_error[greedy_5]:.1e}), VZ with the "
            "best interval {chi2_error[vz_5]:.1e}, scaled Chebyshev {chi2_error[chebyshev_5]:.1e}, scikit-learn's "
            "sampler {chi2_error[sklearn_5]:.1e}",
        ),
        (
            "`AdditiveChi2Map`, 60,000 x 441, 3 terms",
            "float32 {chi2_map_times[ours_float32_3]:time}, float64 {chi2_map_times[ours_float64_3]:time}; "
            "scikit-learn's `AdditiveChi2Sampler` with as many columns {chi2_map_times[sklearn_float32_3]:time}, "
            "{chi2_map_times[sklearn_float64_3]:time}",
        ),
        (
            "`StreamingRidgeClassifier` on 3 terms, Fashion-MNIST 60,000 x 441, 10 classes",
            "{streaming_ridge[seconds]:time}, accuracy {streaming_ridge[accuracy]:.4f}; `AdditiveChi2Sampler` and "
            "`RidgeClassifier` {streaming_ridge[sklearn_seconds]:time}, {streaming_ridge[sklearn_accuracy]:.4f}",
        ),
        (
            '`HistogramGPClassifier("chi2")`, 3 terms, the same',
            "{chi2_gp[seconds]:time}, {chi2_gp[megabytes]:,.0f} MB, accuracy {chi2_gp[accuracy]:.4f}; exact variance "
            "{chi2_gp[variance_us]:us} an image, exact marginal likelihood {chi2_gp[evidence_seconds]:time}",
        ),
        (
            '`StreamingRidgeClassifier` on `ExpChi2Sampler`, `alpha="loo-log"`, the same',
            "; ".join(f"{n:,}{' features' if n == 4_000 else ''} {_exp_chi2_size(n)}" for n in (4_000, 6_000, 12_000)),
        ),
        (
            '`HistogramGPClassifier(ExpChi2(4000), optimize="gradient")`, the same',
            "accuracy {exp_chi2_gp[accuracy]:.4f}, expected calibration error {exp_chi2_gp[ece]:.3f}, log loss "
            "{exp_chi2_gp[log_loss]:.3f}; variance as by the dense formula of the features "
            "({exp_chi2_gp[variance_error]:.0e}), {exp_chi2_gp[variance_us]:us} an image",
        ),
        (
            '`"exp-chi2"` features in ridge regression, 5,100 images, 500; 1,000; 2,000 of them',
            f"random {_rivals('ours')}, components of three times as many {_rivals('pca')}, `Nystroem` "
            f"{_rivals('nystroem')}; the exact kernel {{exp_chi2_rivals[exact]:.3f}}",
        ),
        (
            "the paper's tables on 5,100 images, SVM, 3,000; 5,000; 7,000 features, 10 seeds",
            f"orientations: {_approximations('hog')}. Bag of patches: {_approximations('patches')}",
        ),
        (
            "orientations and bags of patches together, 5,100 images, 10 seeds",
            "alone {two_blocks[hog]:.3f} and {two_blocks[patches]:.3f}; added up {two_blocks[both]:.3f}; with "
            '`block_weights="evidence"` {two_blocks[weighted]:.3f}, a gain of {two_blocks[weighted_gain]:.4f} +- '
            "{two_blocks[weighted_half_width]:.4f}",
        ),
        (
            'QuickDraw, 345 classes, 24,150 x 441: ridge on 4,000 `"exp-chi2"` features',
            "top-1 {exp_chi2_drawings[ours_top_1]:.3f}, top-5 {exp_chi2_drawings[ours_top_5]:.3f} in "
            "{exp_chi2_drawings[ours_seconds]:time}; `LinearSVC` on the same histograms "
            "{exp_chi2_drawings[linear_svc_top_1]:.3f}, {exp_chi2_drawings[linear_svc_top_5]:.3f} in "
            "{exp_chi2_drawings[linear_svc_seconds]:time}",
        ),
        (
            "`histogp fit --stream`, 1,000,000 x 441 from Parquet, 3 terms, 10 classes",
            "{streaming_parquet[seconds]:time}, {streaming_parquet[megabytes]:,.0f} MB (the files have "
            "{streaming_parquet[file_mb]:.0f} MB); 60,000 of the rows differ by {streaming_parquet[difference]:.0e} "
            "from least squares in memory",
        ),
        (
            "the same on 30,000 rows, killed 20 times and resumed",
            "{chi2_resume[identical]:.0f} of {chi2_resume[runs]:.0f} models identical to the last bit",
        ),
        (
            "search for eta and noise, then fit: 10,090 x 1,000; 50,050 x 1,000",
            "{search_10090[gradient_seconds]:time}; {search_50050[seconds]:time} ({search_50050[megabytes]:.0f} MB, "
            "{search_50050[bytes_a_nonzero]:.0f} bytes a non-zero)",
        ),
        (
            "the same 10,090 by the papers' bound and simplex",
            "{search_10090[bound_in_gradient_times]:.1f} times the time, log likelihood lower by "
            "{search_10090[likelihood_gain]:.0f}",
        ),
        (
            "1,000 ARD weights, 10,090 rows, 20 planted features, 5 seeds",
            "{ard[median_seconds]:time}; of the 20 largest weights at least {ard[lowest_precision]:.0%} are those of "
            "the 20 features",
        ),
        ("gradient for these 1,000 weights", "{ard[gradient_in_products]:.1f} products with the matrix"),
        (
            "log-determinant by quadrature, 2,000 images, 16 probes",
            "{quadrature[largest_error]:.2%} off in the worst of 10 seeds",
        ),
        (
            "its bounds on the same matrix",
            "exact value {bounds[fashion_exact]:.0f}, Fischer {bounds[fashion_fischer]:.0f}, the papers' "
            "{bounds[fashion_papers]:.0f}",
        ),
        (
            "the papers' relevance test, 20 samples a class, 500 runs",
            "both relevant features first in {relevance[first_20]:.1%}; accuracy {relevance[accuracy_20]:.3f} against "
            "{relevance[plain_20]:.3f} unweighted (p = {relevance[p_20]:.0e})",
        ),
    ),
)

TABLES = {
    "variances": VARIANCES,
    "kernels": KERNELS,
    "sums": SUMS,
    "texts": TEXTS,
    "speed": SPEED,
    "helps": HELPS,
    "peers": PEERS,
}
PROVENANCE = "provenance"
