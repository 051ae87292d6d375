"""
One class: what does not belong
===============================

Learn zeros alone, and find out which other digits look like them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.utils import shuffle

from histogp import HistogramGPOneClass

X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
zeros = X[y == 0]
model = HistogramGPOneClass().fit(zeros[:100])

# %%
# Scores are negative where a sample is unlike those of training.

new, rest = zeros[100:], X[y > 0]
print(f"new zeros that are flagged: {(model.predict(new) < 0).mean():.0%}")
print(f"other digits that are flagged: {(model.predict(rest) < 0).mean():.0%}")
known = np.repeat([False, True], [len(rest), len(new)])
print(f"area under the curve: {roc_auc_score(known, model.score_samples(np.vstack([rest, new]))):.4f}")

# %%
figure, (scores, picture) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
scores.hist(model.decision_function(new), density=True, bins=20, label="new zeros")
scores.hist(model.decision_function(rest), density=True, bins=40, label="other digits", alpha=0.7)
scores.axvline(0, color="black", linewidth=1)
scores.set(xlabel="decision_function", yticks=[])
scores.legend()
closest = rest[model.score_samples(rest).argsort()[-8:]]
picture.imshow(closest.reshape(2, 4, 8, 8).swapaxes(1, 2).reshape(16, 32), cmap="gray_r")
picture.set(title="the digits most like a zero")
picture.set_axis_off()
plt.show()
