"""Feature maps as frozen values."""
