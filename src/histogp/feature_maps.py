"""Feature maps of chi-squared and other additive kernels, as scikit-learn transformers."""

from histogp.estimators.blocks import BlockMap
from histogp.estimators.exp_chi2 import ExpChi2Sampler
from histogp.estimators.feature_maps import AdditiveChi2Map, HomogeneousMap, SkewedChi2Map

__all__ = ["AdditiveChi2Map", "BlockMap", "ExpChi2Sampler", "HomogeneousMap", "SkewedChi2Map"]
