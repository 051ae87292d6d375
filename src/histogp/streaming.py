"""Learning from statistics of chunks of data of any size."""

from histogp.estimators.streaming.pca import StreamingPCA
from histogp.estimators.streaming.penalised import StreamingElasticNet, StreamingGroupLasso
from histogp.estimators.streaming.ridge import StreamingRidge
from histogp.estimators.streaming.ridge_classifier import StreamingRidgeClassifier
from histogp.primal.statistics import StreamingStatistics
from histogp.sources.chunks import read_chunks

__all__ = [
    "StreamingElasticNet",
    "StreamingGroupLasso",
    "StreamingPCA",
    "StreamingRidge",
    "StreamingRidgeClassifier",
    "StreamingStatistics",
    "read_chunks",
]
