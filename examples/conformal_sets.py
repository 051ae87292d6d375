"""
Conformal sets: answers that hold nine times of ten
===================================================

Wrap the classifier with MAPIE, and get sets of labels that contain the right one with a guaranteed frequency.
"""

import matplotlib.pyplot as plt
from mapie.classification import SplitConformalClassifier
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from histogp import HistogramGPClassifier

X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=100, random_state=0)
X_held, X_test, y_held, y_test = train_test_split(X_rest, y_rest, train_size=600, random_state=0)

# %%
# A hundred samples are few, so the model is often unsure; 600 others tell how large the sets have to be.

clf = HistogramGPClassifier().fit(X_train, y_train)
levels = [0.8, 0.9, 0.95, 0.98]
conformal = SplitConformalClassifier(clf, confidence_level=levels, conformity_score="lac", prefit=True)
sets = conformal.conformalize(X_held, y_held).predict_set(X_test)[1]
covered = sets[range(len(y_test)), y_test].mean(axis=0)
sizes = sets.sum(axis=1).mean(axis=0)
for level, coverage, size in zip(levels, covered, sizes, strict=True):
    print(f"asked for {level:.0%}: {coverage:.1%} of the sets have the label, {size:.2f} labels each")

# %%
figure, (coverage, examples) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
coverage.plot(levels, covered, "o-", label="sets with the right label")
coverage.axline((0.8, 0.8), slope=1, color="black", linewidth=1)
coverage.set(xlabel="confidence asked for", ylabel="share of test samples")
coverage.legend()
largest = sets[:, :, 1].sum(axis=1).argsort()[-6:]
examples.imshow(X_test[largest].reshape(6, 8, 8).swapaxes(0, 1).reshape(8, 48), cmap="gray_r")
names = [", ".join(str(label) for label in sets[row, :, 1].nonzero()[0]) for row in largest]
examples.set_xticks(range(4, 48, 8), names, fontsize=8)
examples.set(yticks=[], title="the largest sets of 90%")
plt.show()
