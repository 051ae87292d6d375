"""Whether a model knows how sure it is: probabilities, novelties and variances on test samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from histogp.reports import charts, pictures
from histogp.reports.charts import Series
from histogp.reports.evaluation import Evaluation
from histogp.reports.page import Section

BINS = 15
NOVELTY_BINS = 30
# Samples whose variances are computed; enough for a chart.
MOST_VARIANCES = 5000
# A model that tells so many pairs apart notices what it does not know.
NOTICED = 0.9
# Standard deviations, and the part of normal errors within them.
WITHIN = {1: 0.682689, 2: 0.954499}
CLOSE = 0.05


@dataclass(frozen=True, eq=False)
class Reliability:
    """Samples in bins by the probability of their most probable class; empty bins are left out.

    low, high : where the bins begin and end
    n_samples, probability, right : of each bin the samples, their mean probability and the part that is right
    error : the expected calibration error, the mean distance between the last two over all samples
    """

    low: np.ndarray
    high: np.ndarray
    n_samples: np.ndarray
    probability: np.ndarray
    right: np.ndarray

    @property
    def error(self) -> float:
        return float(np.average(np.abs(self.probability - self.right), weights=self.n_samples))


def classifier_sections(
    model: Any, evaluation: Evaluation, X: Any, image_shape: tuple[int, int] | None
) -> list[Section]:
    """What probabilities are worth and what is novel, as far as the model can still tell."""
    sections = []
    probabilities = _if_possible(model, lambda: model.predict_proba(X))
    if probabilities is not None:
        right = model.classes_[probabilities.argmax(axis=1)] == evaluation.labels
        sections.append(_reliability(reliability(probabilities.max(axis=1), right)))
    index = some_samples(evaluation.n_samples)
    known = _if_possible(model, lambda: model.novelty(X[index]))
    unknown = _if_possible(model, lambda: model.novelty(shuffled(X[index])))
    if known is not None and unknown is not None:
        sections.append(_novelty(known, unknown, _most_novel(evaluation, X, index, known, image_shape)))
    return sections


def regressor_sections(model: Any, evaluation: Evaluation, X: Any) -> list[Section]:
    """How many targets are as near to the prediction as the variance says."""
    index = some_samples(evaluation.n_samples)
    variance = _if_possible(model, lambda: model.predict_variance(X[index], model.posterior_.quick_method))
    if variance is None:
        return []
    errors = np.abs(evaluation.predictions - evaluation.labels)[index]
    shares = coverage(errors, np.sqrt(variance).reshape(errors.shape))
    text = (
        "Predictions have standard deviations. Where these are right and errors are normal, "
        f"{WITHIN[1]:.1%} of the targets are within one of the prediction, and {WITHIN[2]:.1%} within two. "
    )
    gap = shares[1] - WITHIN[1]
    text += f"Here they are {'about right' if abs(gap) < CLOSE else 'too large' if gap > 0 else 'too small'}."
    rows = [[str(k), f"{share:.1%}", f"{WITHIN[k]:.1%}"] for k, share in shares.items()]
    header = ["standard deviations", "targets within", "of normal errors"]
    return [Section("How sure it is", text, charts.data_table(header, rows))]


def reliability(probability: np.ndarray, right: np.ndarray) -> Reliability:
    """Reliability of samples with these probabilities (n,) of their most probable class, right or not (n,)."""
    bins = np.minimum((probability * BINS).astype(int), BINS - 1)
    counts, probabilities, hits = (
        np.bincount(bins, weights, minlength=BINS) for weights in (None, probability, right.astype(float))
    )
    used = np.flatnonzero(counts)
    counts = counts[used]
    return Reliability(used / BINS, (used + 1) / BINS, counts, probabilities[used] / counts, hits[used] / counts)


def coverage(errors: np.ndarray, deviations: np.ndarray) -> dict[int, float]:
    """The part of the errors within 1 and 2 standard deviations."""
    return {k: float(np.mean(errors <= k * deviations)) for k in WITHIN}


def shuffled(X: Any, seed: int = 0) -> Any:
    """The samples of X with their features in random order, as CSR."""
    rows = sparse.csr_array(X, copy=True)
    rng = np.random.default_rng(seed)
    for begin, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        rows.indices[begin:end] = rng.choice(rows.shape[1], end - begin, replace=False)
    rows.has_sorted_indices = False
    rows.sort_indices()
    return rows


def some_samples(n: int) -> np.ndarray:
    """Positions of some of n samples, spread evenly, because data are often sorted."""
    return np.unique(np.linspace(0, n - 1, MOST_VARIANCES).astype(int))


def _if_possible(model: Any, compute: Callable[[], np.ndarray]) -> np.ndarray | None:
    """None where the training samples would be needed, but were not saved."""
    try:
        return compute()
    except ValueError:
        if model.posterior_.includes_training:
            raise
        return None


def _reliability(found: Reliability) -> Section:
    """Probabilities against what comes true, as a chart and a table."""
    text = (
        "Of the samples that it gives a probability of 90%, nine in ten should be right: then the points are on the "
        "dashed line, but for those of few samples, which scatter. On average over the samples they are "
        f"{found.error:.1%} off (expected calibration error, {BINS} bins)."
    )
    series = [
        Series("this model", found.probability.tolist(), found.right.tolist()),
        Series("as it should be", [0, 1], [0, 1], dashed=True),
    ]
    chart = charts.line_chart(
        series,
        x_label="probability of the most probable class",
        y_label="part that is right",
        y_range=(0, 1),
        title="Probabilities against what comes true",
    )
    rows = [
        [f"{low:.0%} to {high:.0%}", f"{n:,}", f"{probability:.1%}", f"{right:.1%}"]
        for low, high, n, probability, right in zip(
            found.low, found.high, found.n_samples, found.probability, found.right, strict=True
        )
    ]
    table = charts.data_table(["probability", "samples", "on average", "right"], rows)
    return Section("What its probabilities are worth", text, chart + table)


def _novelty(known: np.ndarray, unknown: np.ndarray, gallery: str) -> Section:
    """Novelties of test samples (n,) beside those of shuffled ones (n,), and pictures."""
    told_apart = roc_auc_score(np.repeat([0, 1], [len(known), len(unknown)]), np.concatenate([known, unknown]))
    text = (
        "Novelty is how little the training samples tell about another one: 0 all of it, 1 nothing. For comparison the "
        f"features of {len(known):,} test samples are shuffled, which makes samples that the model cannot know. Of a "
        f"test sample and a shuffled one, the shuffled one is the more novel in {told_apart:.0%} of all pairs: "
    )
    text += "it notices what it does not know." if told_apart >= NOTICED else "here novelty does not tell them apart."
    edges = np.linspace(0, max(known.max(), unknown.max(), np.finfo(float).tiny), NOVELTY_BINS + 1)
    series = [_outline("test samples", known, edges), _outline("shuffled samples", unknown, edges)]
    chart = charts.line_chart(
        series, x_label="novelty", y_label="part of the samples", title="Novelty of test samples and of shuffled ones"
    )
    return Section("What it has not seen before", text, chart + gallery)


def _outline(name: str, values: np.ndarray, edges: np.ndarray) -> Series:
    """A histogram as a line, without the empty bins at its ends but for one."""
    shares = np.histogram(values, edges)[0] / len(values)
    used = np.flatnonzero(shares)
    drawn = slice(max(used[0] - 1, 0), used[-1] + 2)
    return Series(name, ((edges[:-1] + edges[1:]) / 2)[drawn].tolist(), shares[drawn].tolist())


def _most_novel(
    evaluation: Evaluation, X: Any, index: np.ndarray, novelty: np.ndarray, image_shape: tuple[int, int] | None
) -> str:
    """Pictures of the test samples ``index`` with the largest novelty; nothing if they are no images."""
    if image_shape is None:
        return ""
    order = np.argsort(-novelty, kind="stable")[: pictures.MOST_PICTURES]
    captions = []
    for value, i in zip(novelty[order], index[order], strict=True):
        wrong = bool(evaluation.predictions[i] != evaluation.labels[i])
        but = f", but it is {evaluation.labels[i]}" if wrong else ""
        captions.append((f"novelty {value:.3f}", f"taken for {evaluation.predictions[i]}{but}", wrong))
    shown = pictures.of_samples(X, index[order], captions, image_shape)
    return f'<p class="note">The most novel test samples:</p>{shown}'
