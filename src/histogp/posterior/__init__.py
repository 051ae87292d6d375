"""Everything Bayesian, written once against the operator contract."""
