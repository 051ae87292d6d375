"""Measurements of histogp: cases with bars, stored results, tables of the README.

``python -m benchmarks --help`` says how to use it.
"""
