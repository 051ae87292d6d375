"""
Bags of words: accuracy by the number of samples
================================================

Sparse word counts of five classes: what the default and the intersection kernel learn from 50 to 2,000 samples, beside
naive Bayes.
"""

import matplotlib.pyplot as plt
from sklearn.naive_bayes import ComplementNB

from histogp import HistogramGPClassifier
from histogp.datasets import make_bags_of_words

X, y = make_bags_of_words(4_000, n_words=1_000, n_classes=5, class_share=0.3, random_state=0)
counts = (X * 130).astype(int)  # each text has 130 words
X_test, y_test = counts[2_000:], y[2_000:]
print(f"{counts.shape[0]} texts, {counts.nnz / counts.shape[0]:.0f} different words each")

# %%
# All three learn from the sparse counts as they are.

sizes = [50, 100, 200, 500, 1_000, 2_000]
models = {
    "histogp, default": HistogramGPClassifier(),
    'histogp, "hik"': HistogramGPClassifier("hik"),
    "ComplementNB": ComplementNB(),
}
for name, model in models.items():
    scores = [model.fit(counts[:size], y[:size]).score(X_test, y_test) for size in sizes]
    plt.plot(sizes, scores, "o-", label=name)
plt.xscale("log")
plt.xlabel("training samples")
plt.ylabel("accuracy on 2,000 other texts")
plt.legend()
plt.show()
