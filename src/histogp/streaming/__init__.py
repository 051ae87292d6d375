"""Learning from statistics of chunks of data of any size."""

from histogp._core.least_squares.statistics import StreamingStatistics
from histogp.sources.chunks import read_chunks
from histogp.streaming.pca import StreamingPCA
from histogp.streaming.ridge_models import StreamingRidge, StreamingRidgeClassifier
from histogp.streaming.sparse_models import StreamingElasticNet, StreamingGroupLasso

__all__ = [
    "StreamingElasticNet",
    "StreamingGroupLasso",
    "StreamingPCA",
    "StreamingRidge",
    "StreamingRidgeClassifier",
    "StreamingStatistics",
    "read_chunks",
]
