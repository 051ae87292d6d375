"""
Active learning: which labels are worth asking for
==================================================

Start with two labels, let the model choose the next forty, and compare with random ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from histogp import HistogramGPClassifier
from histogp.active import ActiveLearner
from histogp.plotting import ActiveLearningDisplay

X, y = load_digits(return_X_y=True)
pool, X_test, labels, y_test = train_test_split(X, y == 8, random_state=0)


def area(model):
    """Area under the curve on samples that are never asked for."""
    return roc_auc_score(y_test, model.decision_function(X_test))


# %%
# Each run starts with one eight and one other digit, drawn anew.

curves = {}
for strategy in ["random", "uncertainty", "expected-change"]:
    curves[strategy] = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        start = [rng.choice(np.flatnonzero(labels)), rng.choice(np.flatnonzero(~labels))]
        model = HistogramGPClassifier("hik", noise=0.1).partial_fit(pool[start], labels[start])
        learner = ActiveLearner(model, pool, strategy=strategy, random_state=seed)
        curves[strategy].append(learner.run(labels, budget=40, scoring=area))

# %%
# Means of five runs, with their 95% intervals.

ActiveLearningDisplay.from_curves(curves).ax_.set(ylabel="area under the curve: eights against the rest")
plt.show()
