"""What users are told about data files that cannot be used."""

from __future__ import annotations


class DataError(ValueError):
    """Input that cannot be used; the text is one sentence for the user."""
