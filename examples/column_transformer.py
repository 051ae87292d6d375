"""
Mixed columns: a pipeline with ColumnTransformer
================================================

Turn counts, measurements and categories of a data frame into features, and search the pipeline as any other.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.inspection import PartialDependenceDisplay
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from histogp import HistogramGPRegressor

rng = np.random.default_rng(0)
n = 600
frame = pd.DataFrame(
    {
        "rooms": rng.poisson(3, n) + 1,
        "area": rng.gamma(9, 10, n),
        "age": rng.uniform(0, 100, n),
        "district": rng.choice(["north", "south", "river"], n),
    }
)
worth = frame["district"].map({"north": 2.0, "south": 2.5, "river": 4.0})
price = worth * frame["area"] + 8 * frame["rooms"] - 60 * np.sin(frame["age"] / 32) + rng.normal(0, 10, n)

# %%
# Only the categories need a transformer. What the kernel makes of the units of other columns, it finds by itself.

columns = make_column_transformer(
    (OneHotEncoder(sparse_output=False), ["district"]), remainder="passthrough", verbose_feature_names_out=False
)
model = make_pipeline(columns, HistogramGPRegressor())
print(f"R2 {cross_val_score(model, frame, price).mean():.4f}")
print(model.fit(frame, price)[-1].in_words())

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.5), layout="constrained")
PartialDependenceDisplay.from_estimator(
    model, frame.astype({"rooms": float}), ["area", "age", "rooms"], ax=axes, kind="average", grid_resolution=30
)
plt.show()
