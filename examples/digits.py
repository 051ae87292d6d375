"""
Digits: the plain line
======================

Learn scikit-learn's digits without a choice, and look at those that the model is least sure of.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from histogp import HistogramGPClassifier

X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
clf = HistogramGPClassifier().fit(X_train, y_train)
print(f"accuracy {clf.score(X_test, y_test):.3f}")
print(clf.in_words())

# %%
# The probability of the best class says how sure the model is. These are the ten digits where it is lowest, each with
# the answer, its probability, and the label.

probabilities = clf.predict_proba(X_test)
answers = clf.predict(X_test)
sureness = probabilities.max(axis=1)

figure, axes = plt.subplots(2, 5, figsize=(8, 4), layout="constrained")
for ax, row in zip(axes.ravel(), sureness.argsort(), strict=False):
    ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    color = "tab:green" if answers[row] == y_test[row] else "tab:red"
    ax.set_title(f"{answers[row]} ({sureness[row]:.0%}), label {y_test[row]}", fontsize=9, color=color)
    ax.set_axis_off()
plt.show()
