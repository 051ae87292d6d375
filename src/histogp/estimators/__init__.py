"""The scikit-learn classes: they validate, delegate and name things; numerics live below."""
