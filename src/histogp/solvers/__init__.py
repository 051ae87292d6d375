"""Linear systems with ``K + diag(noise)``: functions of an operator, no classes but small results."""
