"""What the command line tells its user about bad input."""

from __future__ import annotations


class DataError(ValueError):
    """Input that cannot be used; the text is one sentence for the user."""
