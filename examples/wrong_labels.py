"""
Wrong labels: find them with cleanlab
=====================================

Spoil 3% of the labels of the digits, and let probabilities of held-out samples point at them.
"""

import matplotlib.pyplot as plt
import numpy as np
from cleanlab.filter import find_label_issues
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict

from histogp import HistogramGPClassifier

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
wrong = rng.choice(len(y), size=len(y) * 3 // 100, replace=False)
labels = y.copy()
labels[wrong] = (y[wrong] + rng.integers(1, 10, size=len(wrong))) % 10

# %%
# Each sample is judged by a model that has not seen it.

probabilities = cross_val_predict(HistogramGPClassifier(), X, labels, method="predict_proba")
found = find_label_issues(labels, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1)
hits = np.isin(found, wrong)
print(f"{len(wrong)} labels are wrong; {len(found)} are reported, {hits.sum()} of them rightly")

# %%
# The most suspicious ones: the label they have, and in brackets the one they had.

figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for ax, row in zip(axes.ravel(), found, strict=False):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{labels[row]} ({y[row]})", color="tab:green" if row in wrong else "tab:red")
    ax.set_axis_off()
plt.show()
