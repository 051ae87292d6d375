"""Feature maps of chi-squared and other additive kernels, as scikit-learn transformers."""

from histogp.feature_maps.block_map import BlockMap
from histogp.feature_maps.expansions import AdditiveChi2Map, HomogeneousMap
from histogp.feature_maps.samplers import ExpChi2Sampler, SkewedChi2Map

__all__ = ["AdditiveChi2Map", "BlockMap", "ExpChi2Sampler", "HomogeneousMap", "SkewedChi2Map"]
