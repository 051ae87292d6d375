"""What the displays share."""

from __future__ import annotations

from typing import Any


def new_axes(caller: str, ax: Any, figsize: tuple[float, float] = (6.4, 4.0)) -> Any:
    """The axes given, or those of a new figure."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(f'{caller} needs Matplotlib: pip install "histogp[plot]".') from error
    return pyplot.subplots(figsize=figsize, layout="constrained")[1] if ax is None else ax
