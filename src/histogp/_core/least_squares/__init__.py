"""Sums over samples and what follows from them: principal components, ridge paths, sparse penalties."""
