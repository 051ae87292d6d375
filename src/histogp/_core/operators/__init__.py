"""The kernel matrix as a linear operator, one structure a file."""
