"""Data for examples and benchmarks: IDX image files, orientation histograms, bags of words, a checkerboard."""

from histogp.datasets.images import load_fashion_mnist, load_idx_folder, orientation_histograms, read_idx
from histogp.datasets.synthetic import make_bags_of_words, make_checkerboard, make_planted_words, make_relevance_test

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
