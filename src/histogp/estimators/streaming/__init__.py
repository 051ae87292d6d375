"""Estimators that learn from statistics of chunks."""
