"""Feature maps of additive kernels, as plain values that work on arrays."""
