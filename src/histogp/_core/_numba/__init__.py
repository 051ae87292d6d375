"""Compiled loops: each takes arrays and fills arrays."""
