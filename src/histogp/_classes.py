"""Labels that come and go, and the weights of their classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from histogp._core.data import Array
from histogp._core.solvers.problem import Noise


def merged(known: Array, more: Array) -> Array:
    """All classes, sorted; ``more`` may have some of them several times."""
    more = np.unique(more)
    if len(known) and len(more) and _are_texts(known) != _are_texts(more):
        kinds = ["texts" if _are_texts(labels) else "numbers" for labels in (more, known)]
        raise ValueError(f"The new labels are {kinds[0]}, but those known are {kinds[1]}.")
    everything = np.unique(np.concatenate([known, more])) if len(known) else more
    if any(len(np.unique(labels.astype(everything.dtype))) < len(labels) for labels in (known, more)):
        raise ValueError("The new labels are of a type that cannot tell all known classes apart.")
    return everything


def declared(classes: Any) -> Array:
    """Classes that users name, sorted."""
    labels = column_or_1d(classes)
    has_others = labels.dtype == object and not _are_texts(labels)
    if has_others or (labels.dtype.kind == "f" and not np.all(np.isfinite(labels))):
        raise ValueError(f"classes must be numbers or texts; got {list(labels)!r}.")
    check_classification_targets(labels)
    return np.unique(labels)


def carried_over(alpha: Array, before: Array, after: Array, shared_noise: bool) -> Array:
    """Solutions (N, M) for the classes ``before`` as a guess of those for the classes ``after``.

    The problem of a class that nobody had seen has the targets -1. So have the sums of all others, but for a factor:
    where they share their matrix, that is the solution.
    """
    each = np.hstack([-alpha, alpha])[:, : len(before)] if len(before) <= 2 else alpha
    missing = np.zeros(len(alpha))
    if shared_noise and len(before) != 2:
        missing = each.sum(axis=1) / (len(before) - 2)
    out = np.repeat(missing[:, None], len(after), axis=1)
    stay = np.isin(after, before)
    out[:, stay] = each[:, np.searchsorted(before, after[stay])]
    if len(after) > 2:
        return out
    return out[:, 1:] if len(after) == 2 else -out


def class_weights(setting: Any, classes: Array, codes: Array, weights: Array) -> Array:
    """One weight a class, as scikit-learn defines them for a dict or "balanced"; 1 for classes without samples."""
    per_class = np.ones(len(classes))
    if isinstance(setting, dict):
        per_class[:] = [setting.get(label, 1.0) for label in classes.tolist()]
    elif setting == "balanced":
        # `compute_class_weight` knows weights of samples from scikit-learn 1.7 on.
        present, places = np.unique(codes, return_inverse=True)
        order = np.lexsort((weights, places))  # the same sums whatever the order of samples is
        totals = np.bincount(places[order], weights[order])
        per_class[present] = totals.sum() / (len(present) * totals)
    if not np.all(np.isfinite(per_class)) or per_class.min() < 0:
        raise ValueError(f"class_weight must have finite weights >= 0; got {setting!r}.")
    return per_class


def balanced_noise(noise: float, codes: Array, weights: Array, n_classes: int) -> Noise:
    """Label-dependent noise (supplement of gp-hik-eccv2012, section S1)."""
    sample = noise / weights
    order = np.lexsort((weights, codes))  # the same sums whatever the order of samples is
    totals = np.bincount(codes[order], weights[order], minlength=n_classes)
    share = totals / totals.sum()
    if n_classes <= 2:
        return Noise(sample * 2 * share[codes])
    # A side without samples has no noise to speak of; 1 stands for it.
    positive, negative = (np.where(side > 0, 2 * side, 1.0) for side in (share, 1 - share))
    return Noise(sample, output_of=codes, positive=positive, negative=negative)


def _are_texts(labels: Array) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype == object and all(isinstance(one, str) for one in labels))
