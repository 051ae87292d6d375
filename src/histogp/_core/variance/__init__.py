"""Variances of test rows, one way to compute them a file."""
