"""
Relevance: which features carry the model
=========================================

Learn a weight for each measurement of cell nuclei, and see which of them tell malignant from benign.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score

from histogp import HistogramGPClassifier
from histogp.plotting import RelevanceDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
clf = HistogramGPClassifier()
print(f"accuracy {cross_val_score(clf, X, y).mean():.3f}")

# %%
# The default shifts and scales every column by itself; what it found is told in a sentence.

print(clf.fit(X, y).in_words())

# %%
# Shares of the features in the prior variance. Equal shares would be 1/30 = 3.3%.

display = RelevanceDisplay.from_estimator(clf, top=15)
display.figure_.set_layout_engine("constrained")
plt.show()
