"""The command line ``histogp``: fit, predict and evaluate on files."""
