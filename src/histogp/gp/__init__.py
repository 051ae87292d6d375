"""Gaussian processes as scikit-learn estimators."""
