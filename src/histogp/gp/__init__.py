"""Gaussian processes as scikit-learn estimators."""

from histogp._sklearn import warning_once
from histogp.gp.classifier import HistogramGPClassifier
from histogp.gp.one_class import HistogramGPOneClass
from histogp.gp.optimizer import Optimizer
from histogp.gp.posterior_view import VARIANCE_ESTIMATES, VARIANCE_METHODS, VARIANCE_TABLES, PosteriorView
from histogp.gp.regressor import HistogramGPRegressor

__all__ = [
    "VARIANCE_ESTIMATES",
    "VARIANCE_METHODS",
    "VARIANCE_TABLES",
    "HistogramGPClassifier",
    "HistogramGPOneClass",
    "HistogramGPRegressor",
    "Optimizer",
    "PosteriorView",
    "warning_once",
]
