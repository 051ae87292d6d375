"""Plots with Matplotlib, in the manner of scikit-learn's displays: ``pip install histogp[plot]``."""

from histogp.plotting.active_learning import ActiveLearningDisplay
from histogp.plotting.likelihood import LikelihoodDisplay
from histogp.plotting.relevance import RelevanceDisplay
from histogp.plotting.tightness import TightnessDisplay
from histogp.plotting.uncertainty import UncertaintyDisplay

__all__ = [
    "ActiveLearningDisplay",
    "LikelihoodDisplay",
    "RelevanceDisplay",
    "TightnessDisplay",
    "UncertaintyDisplay",
]
