"""
Streaming: learn from Parquet files, one row group at a time
============================================================

Write 200,000 rows to files, learn from them in bounded memory, and watch the accuracy grow.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from histogp.feature_maps import AdditiveChi2Map
from histogp.streaming import StreamingRidgeClassifier, read_chunks

rng = np.random.default_rng(0)
profiles = rng.dirichlet(np.ones(30), size=6)
folder = Path(tempfile.mkdtemp())
for part in range(4):
    kinds = rng.integers(6, size=50_000)
    frame = pd.DataFrame(rng.poisson(12 * profiles[kinds]), columns=[f"bin {k}" for k in range(30)])
    frame.assign(kind=kinds).to_parquet(folder / f"part-{part}.parquet", row_group_size=10_000)

# %%
# ``label`` is the column with the answers. The files may be larger than the memory: what is kept are sums over rows.

test = pd.read_parquet(folder / "part-3.parquet")
X_test, y_test = test.drop(columns="kind").to_numpy(), test["kind"].to_numpy()
model = StreamingRidgeClassifier(AdditiveChi2Map(n_terms=3))
seen, scores = [], []
files = [str(folder / f"part-{part}.parquet") for part in range(3)]
for X, y in read_chunks(files, label="kind", chunk_bytes=2**21):
    model.partial_fit(X, y)
    seen.append(len(y) + (seen[-1] if seen else 0))
    scores.append(model.score(X_test, y_test))
print(f"{seen[-1]:,} rows, accuracy {scores[-1]:.4f}")

# %%
plt.plot(seen, scores, ".-")
plt.xscale("log")
plt.xlabel("rows seen")
plt.ylabel("accuracy on the last file")
plt.show()
