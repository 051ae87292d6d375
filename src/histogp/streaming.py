"""Learning from statistics of chunks of data of any size."""

from histogp.primal.statistics import StreamingStatistics

__all__ = ["StreamingStatistics"]
