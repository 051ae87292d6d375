"""Data for examples and benchmarks: IDX image files, orientation histograms, bags of words, a checkerboard."""

from histogp.datasets.bags_of_words import make_bags_of_words
from histogp.datasets.checkerboard import make_checkerboard
from histogp.datasets.idx import load_fashion_mnist, load_idx_folder, read_idx
from histogp.datasets.orientation import orientation_histograms
from histogp.datasets.relevance import make_planted_words, make_relevance_test

__all__ = [
    "load_fashion_mnist",
    "load_idx_folder",
    "make_bags_of_words",
    "make_checkerboard",
    "make_planted_words",
    "make_relevance_test",
    "orientation_histograms",
    "read_idx",
]
