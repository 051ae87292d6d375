"""Plots with Matplotlib, in the manner of scikit-learn's displays: ``pip install histogp[plot]``."""

from histogp.plotting.learning_display import ActiveLearningDisplay
from histogp.plotting.likelihood_display import LikelihoodDisplay
from histogp.plotting.relevance_display import RelevanceDisplay
from histogp.plotting.tightness_display import TightnessDisplay
from histogp.plotting.uncertainty_display import UncertaintyDisplay

__all__ = [
    "ActiveLearningDisplay",
    "LikelihoodDisplay",
    "RelevanceDisplay",
    "TightnessDisplay",
    "UncertaintyDisplay",
]
