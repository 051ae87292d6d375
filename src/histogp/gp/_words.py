"""What a fitted estimator has found, in a sentence for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from histogp._core.data import Array
from histogp._core.operators.contract import Features, approximation_of
from histogp.kernels import Kernel

# The part of the prior variance, a constant aside, from which on a kernel is mostly of one kind.
MOSTLY = 2 / 3
# Parts of a sum with a smaller share are not worth a word, nor are features with less than this part of a fair share.
LEAST_SHARE, LEAST_RELEVANCE = 0.005, 1e-6
# What approximations are made of, by their names.
MADE_OF = {"nystroem": "landmarks", "fourier": "random waves", "expansion": "an expansion", "float32": "rounding"}
COUNTED = ("nystroem", "fourier")


def told_by(estimator: Any) -> str:
    """What a fitted estimator has found, as far as it knows: one without its training samples leaves things out."""
    kernel, posterior = estimator.kernel_, estimator._posterior
    name, features = approximation_of(posterior.operator), posterior.operator.offer(Features)
    knows_samples = posterior.includes_training
    return in_words(
        kernel,
        estimator.noise_,
        shares=estimator.kernel_shares_ if knows_samples and kernel._leaves() else {},
        relevance=estimator.feature_relevance_,
        approximation=name,
        n_components=None if features is None else features.n_components,
        error=estimator.approximation_[name] if knows_samples and name is not None else None,
    )


def in_words(
    kernel: Kernel,
    noise: float,
    *,
    shares: Mapping[str, float] | None = None,
    relevance: Array | None = None,
    approximation: str | None = None,
    n_components: int | None = None,
    error: float | None = None,
) -> str:
    """A kernel and what it does with data, as one phrase without an end.

    Parameters
    ----------
    kernel, noise : as they were found
    shares : the part of the prior variance that each part of a sum has, by name; nothing if that is not known
    relevance : the share of each feature, (D,)
    approximation : its name, several with " + "; None for an exact kernel
    n_components : landmarks or waves
    error : the relative error of the approximation
    """
    known = shares if shares and 0 < sum(shares.values()) < np.inf else {}
    found = [_kernel(kernel, known), f"noise {short(noise)}", *_changes(kernel)]
    if relevance is not None and not kernel._is_offset:
        found += _features(relevance)
    if approximation is not None:
        found += _approximation(approximation, n_components, error)
    return ", ".join(found)


def short(value: float) -> str:
    """A number with two digits, as short as it gets: ".08", "1.5", "12,000", "3e-7"."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.2g}")
    if 1e-4 <= abs(rounded) < 1e7:
        text = f"{rounded:,.0f}" if abs(rounded) >= 100 else np.format_float_positional(rounded, trim="-")
        return text.replace("0.", ".", 1) if abs(rounded) < 1 else text
    mantissa, exponent = f"{rounded:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def _kernel(kernel: Kernel, shares: Mapping[str, float]) -> str:
    """Which kernel it is, or what a sum is made of."""
    parts = kernel._leaves()
    if not parts:
        return f"{_name(kernel)} kernel"
    named: dict[str, list[str]] = {}
    for name in sorted(parts, key=lambda name: -shares.get(name, 0.0)):
        named.setdefault(_kind(parts[name]), []).append(name)
    constant = named.pop("constant", [])
    total = {kind: sum(shares.get(name, 0.0) for name in names) for kind, names in named.items()}
    kinds = sorted(total, key=lambda kind: -total[kind])
    texts = [f"{kind} ({', '.join(listed)})" for kind in kinds if (listed := _listed(parts, named[kind], shares))]
    if not texts:
        return "constant kernel"
    offsets = _listed(parts, constant, shares) if shares else []
    if len(kinds) > 1 and shares and total[kinds[0]] >= MOSTLY * sum(total.values()):
        return ", ".join([f"mostly {texts[0]}", *(f"some {text}" for text in texts[1:]), *offsets])
    return ", ".join([" and ".join(texts), *offsets])


def _kind(kernel: Kernel) -> str:
    """What a part of a sum sees."""
    return "constant" if kernel._is_offset else "interactions" if kernel._is_interactive else "single features"


def _listed(parts: Mapping[str, Kernel], names: Sequence[str], shares: Mapping[str, float]) -> list[str]:
    """Parts of a sum with their shares, without those that hardly count; or their names, if shares are not known."""
    if not shares:
        return [_part_name(name, parts[name]) for name in names]
    counting = [name for name in names if shares.get(name, 0.0) >= LEAST_SHARE]
    return [f"{_part_name(name, parts[name])} {_share(shares[name])}" for name in counting]


def _part_name(name: str, kernel: Kernel) -> str:
    """What a part is called: by its kind, unless it has a name of its own or is the second of its kind."""
    return _name(kernel) if name.replace("_", "") == type(kernel).__name__.lower() else name


def _name(kernel: Kernel) -> str:
    return kernel._word or type(kernel).__name__


def _share(value: float) -> str:
    """A share with one digit, or two if it is small."""
    if value >= 0.95:
        return short(round(value, 2))
    return short(round(value, 1 if value >= 0.095 else 2))


def _changes(kernel: Any) -> Iterable[str]:
    """What the kernel does with rows and features before it compares them."""
    if kernel.get_params(deep=False).get("normalize") is not None:
        yield "rows normalized"
    if kernel.transform is not None:
        values = [np.asarray(value) for value in kernel.transform.get_params(deep=False).values()]
        numbers = " ".join(
            short(float(value.min())) + (f" to {short(float(value.max()))}" if np.ptp(value) > 0 else "")
            for value in values
        )
        yield f"features transformed by {type(kernel.transform).__name__.lower()} {numbers}".rstrip()


def _features(relevance: Array) -> Iterable[str]:
    """How many features carry half the weight, and how many none."""
    n_features, total = len(relevance), float(np.sum(relevance))
    if n_features < 2 or not 0 < total < np.inf:
        return
    largest_first = np.sort(relevance)[::-1]
    needed = int(np.searchsorted(np.cumsum(largest_first), total / 2 * (1 - 1e-9))) + 1
    carries = "carries" if needed == 1 else "carry"
    none = int(np.sum(relevance <= LEAST_RELEVANCE * total / n_features))
    yield f"{needed:,} of {n_features:,} features {carries} half the weight" + (f" and {none:,} none" if none else "")


def _approximation(names: str, n_components: int | None, error: float | None) -> Iterable[str]:
    """What stands for the kernel, and how well."""
    if names == "float32":
        yield "in single precision"
        return
    several = list(dict.fromkeys(names.split(" + ")))
    count = f"{n_components:,} " if several[0] in COUNTED and len(several) == 1 and n_components is not None else ""
    made_of = " and ".join(MADE_OF.get(name, name) for name in several)
    yield f"approximated by {count}{made_of}"
    if error is not None and np.isfinite(error):
        yield f"error {short(float(f'{100 * error:.1g}') if error < 0.1 else round(100 * error))}%"
