"""Rows of data files of every kind that is read here, whole or in bounded pieces."""
