"""
Drift: notice that the data have changed
========================================

Feed the novelty of samples that come in to a drift detector of river, and learn again when it reports.
"""

import matplotlib.pyplot as plt
import numpy as np
from river.drift import ADWIN
from sklearn.datasets import load_digits

from histogp import HistogramGPClassifier

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
order = rng.permutation(len(y))
X, y = X[order], y[order]
X[1_000:] = X[1_000:].reshape(-1, 8, 8).transpose(0, 2, 1).reshape(-1, 64)  # from here on the scanner turns pages

# %%
# No label is needed to see that something is different. Once it is, a hundred labels repair the model.

clf = HistogramGPClassifier().fit(X[:500], y[:500])
detector, novelty, right, reports = ADWIN(delta=1e-4), [], [], []
for row in range(500, len(y)):
    sample = X[row : row + 1]
    right.append(clf.predict(sample)[0] == y[row])
    novelty.append(clf.novelty(sample)[0])
    detector.update(novelty[-1])
    if detector.drift_detected and row < len(y) - 200 and not reports:
        reports.append(row)
    if reports and row == reports[0] + 100:  # the labels have come
        clf.partial_fit(X[reports[0] : row], y[reports[0] : row])
print(f"the pictures turn at 1000; drift was reported at {reports}")

# %%
seen = np.arange(500, len(y))
window = np.ones(50) / 50
plt.plot(seen[49:], np.convolve(right, window, "valid"), label="accuracy of the last 50")
plt.plot(seen[49:], np.convolve(novelty, window, "valid"), label="novelty of the last 50")
plt.axvline(1_000, color="black", linestyle=":", label="pages turn")
for row in reports:
    plt.axvline(row, color="tab:red", label="drift reported")
    plt.axvline(row + 100, color="tab:green", label="100 labels learned")
plt.xlabel("sample")
plt.legend(fontsize=8)
plt.show()
