"""The report: from a model and labeled samples to one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import confusion_matrix

from histogp.reports import charts, pictures
from histogp.reports.calibration import classifier_sections, regressor_sections
from histogp.reports.charts import Series
from histogp.reports.curves import Point, Quantization, learning_curve, quantization_curve
from histogp.reports.evaluation import Evaluation, evaluate
from histogp.reports.page import Section, render
from histogp.reports.pictures import MOST_PICTURES


def report(
    model: Any,
    X: Any,
    y: np.ndarray,
    *,
    title: str,
    image_shape: tuple[int, int] | None = None,
    speed: Sequence[Point] | None = None,
    kernels: Section | None = None,
    top_k: int | None = None,
    say: Callable[[str], None] = lambda stage: None,
) -> tuple[str, Evaluation]:
    """The page for a fitted model and test samples, and the evaluation that it shows.

    image_shape : samples are gray-level images of this height and width
    speed : times of prediction against N, if they are not to come from the learning curve
    kernels : a comparison with other kernels, to show after the summary
    top_k : also score how often the label is among that many best ones
    say : told what happens next
    """
    say("evaluating")
    evaluation = evaluate(model, X, y, top_k)
    sections = []
    bins: list[Quantization] = []
    if is_classifier(model):
        sections.append(_confusion(model, evaluation))
    elif evaluation.labels.ndim == 1:
        chart = charts.scatter_chart(evaluation.labels, evaluation.predictions, title="Prediction against truth")
        sections.append(Section("How close it comes", "On the diagonal a prediction is perfect.", chart))
    if evaluation.labels.ndim == 1:
        sections.append(_hardest(evaluation, X, image_shape))
    say("uncertainty")
    if is_classifier(model):
        sections += classifier_sections(model, evaluation, X, image_shape)
    else:
        sections += regressor_sections(model, evaluation, X)
    if not model.posterior_.includes_training:
        text = "The model was saved without its training samples, so that it cannot learn again from fewer of them."
        sections.append(Section("What more data would bring", text, ""))
    else:
        points = []
        for point in learning_curve(model, X, y):
            points.append(point)
            say(f"learning curve: {point.n:,} samples")
        sections.append(_learning(model, points))
        if model.posterior_.offers("tables"):
            for quantization in quantization_curve(model, X):
                bins.append(quantization)
                say(f"quantized prediction: {quantization.n_bins} bins")
            exact = evaluation.microseconds if model.prediction == "exact" else points[-1].exact if points else np.nan
            sections.append(_quantization(bins, exact))
        sections.append(_speed(speed or points, speed is not None, model.posterior_.offers("features")))
    subtitle = (
        f"{type(model).__name__} with {model.n_samples_:,} training samples of {model.n_features_in_:,} features, "
        f"evaluated on {evaluation.n_samples:,} samples."
    )
    sections[:0] = [_summary(model, evaluation, bins), *([] if kernels is None else [kernels])]
    return render(title=title, subtitle=subtitle, sections=sections), evaluation


def _summary(model: Any, evaluation: Evaluation, bins: Sequence[Quantization]) -> Section:
    """Key figures, and a table of scores, kernel and noise."""
    name, score = next(iter(evaluation.scores.items()))
    figures = [
        (f"{score:.1%}" if name == "accuracy" else f"{score:.3f}", name),
        (f"{model.n_samples_:,}", "training samples, all of them used"),
    ]
    if evaluation.margins is not None and _errors_found(evaluation) is not None:
        figures.append((f"{_errors_found(evaluation):.0%}", "of its errors in the tenth it is least sure of"))
    figures.append((_microseconds(evaluation.microseconds), f"a prediction, {model.prediction}"))
    usual = [point for point in bins if point.n_bins == 100]
    if model.prediction == "exact" and usual:
        figures.append((_microseconds(usual[0].microseconds), "a prediction, quantized"))
    others = [[key, f"{value:.4f}"] for key, value in evaluation.scores.items()]
    facts = [["kernel", kernel_text(model.kernel_)], ["noise", f"{model.noise_:g}"]]
    text = "A Gaussian process that is solved, not approximated, in memory linear in the data"
    if model.posterior_.offers("features"):
        text = "A Gaussian process on features whose products approximate the kernel, solved exactly in their space"
    elif not model.posterior_.offers("tables"):
        text = "A Gaussian process that is solved, not approximated, with its kernel matrix"
    body = charts.key_figures(figures) + charts.data_table(["", ""], others + facts)
    return Section("At a glance", f"{text}. In words: {model.in_words()}.", body)


def kernel_text(kernel: Any) -> str:
    """A kernel or feature map as Python writes it, on one line and without long lists of numbers."""
    with np.printoptions(threshold=5, edgeitems=2, precision=4):
        return " ".join(repr(kernel).split())


def _confusion(model: Any, evaluation: Evaluation) -> Section:
    """Which class is taken for which."""
    labels = [str(label) for label in np.unique(np.concatenate([model.classes_, evaluation.labels]))]
    matrix = confusion_matrix(evaluation.labels.astype(str), evaluation.predictions.astype(str), labels=labels)
    errors = matrix - np.diag(matrix.diagonal())
    text = "No test sample was taken for another class."
    if errors.any():
        truth, said = np.unravel_index(errors.argmax(), errors.shape)
        times = f"{errors.max()} time{'s' * int(errors.max() > 1)}"
        text = f"The most frequent error: {labels[truth]} taken for {labels[said]}, {times}."
    return Section("What is taken for what", text, charts.confusion_table(matrix, labels))


def _hardest(evaluation: Evaluation, X: Any, image_shape: tuple[int, int] | None) -> Section:
    """Pictures of the samples with the smallest margins, or the largest errors of a regression."""
    if evaluation.margins is None:
        errors = np.abs(evaluation.predictions - evaluation.labels)
        hardest = np.argsort(-errors, kind="stable")[:MOST_PICTURES]
        captions = [
            (f"{evaluation.predictions[i]:.4g}", f"in truth {evaluation.labels[i]:.4g}", False) for i in hardest
        ]
        title, text = "Where it is furthest off", "The test samples with the largest errors."
    else:
        hardest = np.argsort(evaluation.margins, kind="stable")[:MOST_PICTURES]
        captions = []
        for i in hardest:
            wrong = evaluation.predictions[i] != evaluation.labels[i]
            detail = f"gap {evaluation.margins[i]:.3f}" + (f", but it is {evaluation.labels[i]}" if wrong else "")
            captions.append((f"{evaluation.predictions[i]}?", detail, bool(wrong)))
        title = "What it is least sure of"
        text = (
            "The test samples with the smallest gap between the two best scores. A model that knows what it does not "
            "know puts its errors here, where a person can look at them."
        )
        found = _errors_found(evaluation)
        if found is not None:
            text += f" Here the least certain tenth holds {found:.0%} of all errors."
    return Section(title, text, pictures.of_samples(X, hardest, captions, image_shape))


def _errors_found(evaluation: Evaluation) -> float | None:
    """The share of all errors that are among the least certain tenth of the samples."""
    assert evaluation.margins is not None
    wrong = evaluation.predictions != evaluation.labels
    unsure = np.argsort(evaluation.margins)[: evaluation.n_samples // 10]
    return float(wrong[unsure].sum() / wrong.sum()) if wrong.any() and len(unsure) else None


def _learning(model: Any, points: Sequence[Point]) -> Section:
    """The score against the number of training samples."""
    score = "accuracy" if is_classifier(model) else "R2"
    text = "The model, learned from fewer of its samples, drawn at random."
    if len(points) > 1:
        last, before = points[-1], points[-2]
        text += (
            f" The last doubling, from {before.n:,} to {last.n:,} samples, changed the {score} from "
            f"{before.score:.3f} to {last.score:.3f}: where the curve still rises, labels are worth their price."
        )
    series = [Series(score, [point.n for point in points], [point.score for point in points])]
    chart = charts.line_chart(
        series,
        x_label="training samples",
        y_label=score,
        log_x=True,
        title=f"{score.capitalize()} against training samples",
    )
    return Section("What more data would bring", text, chart)


def _quantization(bins: Sequence[Quantization], exact: float) -> Section:
    """Errors and times of quantized prediction against the number of bins; ``exact`` is the time of an exact one."""
    n = [point.n_bins for point in bins]
    series = [
        Series("interpolated", n, [point.linear for point in bins]),
        Series("nearest node of a uniform grid", n, [point.nearest for point in bins]),
        Series("interpolated, worst case of all inputs", n, [point.worst_case for point in bins], dashed=True),
        Series("interpolated, bound by weights in a bin", n, [point.by_weights for point in bins], dashed=True),
    ]
    chart = charts.line_chart(
        series, x_label="n_bins", y_label="largest error", log_x=True, log_y=True, title="Error of a score"
    )
    header = ["n_bins", "largest error", "worst case", "same label", "time"]
    rows = [
        [
            str(point.n_bins),
            f"{point.linear:.2g}",
            f"{point.worst_case:.2g}",
            "" if np.isnan(point.agreement) else f"{point.agreement:.2%}",
            _microseconds(point.microseconds),
        ]
        for point in bins
    ]
    text = (
        "Scores can be read from a table instead of being searched, in time that does not depend on the number of "
        "training samples. The dashed bounds of interpolation hold for every possible input, measured or not."
    )
    rows.append(["exact", "0", "0", "100.00%", _microseconds(exact)])
    if np.isnan(bins[0].agreement):  # a regression has no labels
        header, *rows = [[*row[:3], row[4]] for row in [header, *rows]]
    return Section("Exact or quantized", text, chart + charts.data_table(header, rows))


def _speed(points: Sequence[Point], elsewhere: bool, has_features: bool) -> Section:
    """Times of predictions against the number of training samples.

    elsewhere : they are those of an intersection kernel on other data
    has_features : the model predicts by features
    """
    n = [point.n for point in points]
    has_tables = not np.isnan([point.quantized for point in points]).any()
    series = [Series("exact", n, [point.exact for point in points])]
    if has_tables:
        series.append(Series("quantized", n, [point.quantized for point in points]))
    chart = charts.line_chart(
        series,
        x_label="training samples",
        y_label="microseconds",
        log_x=True,
        log_y=True,
        title="Time of one prediction in a batch",
    )
    text = "Exact prediction searches sorted columns, in the logarithm of N. Quantized prediction does not know N."
    if not has_tables:
        text = "Prediction compares a sample with all training samples, in time linear in N."
        if has_features:
            text = "Prediction is a product with features: it does not know N."
    if elsewhere:
        text += (
            " Measured with the intersection kernel on synthetic bags of words, 1,000 sparse features, because these "
            "can be made in any number."
        )
    return Section("Prediction time against N", text, chart)


def _microseconds(value: float) -> str:
    return f"{value:.{2 if value < 1 else 1 if value < 100 else 0}f} µs"
