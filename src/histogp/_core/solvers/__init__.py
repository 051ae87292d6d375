"""Linear systems with ``K + diag(noise)``."""
