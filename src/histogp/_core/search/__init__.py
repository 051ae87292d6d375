"""The search for hyperparameters that make the data likely."""
