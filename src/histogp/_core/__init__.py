"""Numerics, from compiled loops to posteriors; nothing here knows scikit-learn."""
