"""
Texts: which library does a docstring come from?
================================================

Count the words of real texts, the docstrings of four Python libraries, and learn to tell them apart without tf-idf.
"""

import inspect
from importlib import import_module

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import cross_val_predict

from histogp import HistogramGPClassifier

MODULES = {
    "matplotlib": ["pyplot", "axes", "figure", "patches", "colors"],
    "numpy": ["", "linalg", "fft", "polynomial.polynomial"],
    "scipy": ["linalg", "ndimage", "optimize", "signal", "stats"],
    "sklearn": ["cluster", "datasets", "ensemble", "linear_model", "metrics", "preprocessing"],
}


def docstrings(library, modules):
    """Those of what the modules export, from 200 characters on, each once, without the name of the library."""
    values = [value for name in modules for value in vars(import_module(f"{library}.{name}".strip("."))).values()]
    texts = {inspect.getdoc(value) for value in values if getattr(value, "__module__", "").startswith(library)}
    return sorted(text.replace(library, "") for text in texts if text and len(text) > 200)


texts = {library: docstrings(library, modules) for library, modules in MODULES.items()}
y = [library for library, found in texts.items() for _ in found]
X = CountVectorizer(min_df=3).fit_transform(text for found in texts.values() for text in found)
print(f"{X.shape[0]} texts, {X.shape[1]} words")

# %%
# The counts are sparse, and stay so.

clf = HistogramGPClassifier()
answers = cross_val_predict(clf, X, y)
print(clf.fit(X, y).in_words())

# %%
ConfusionMatrixDisplay.from_predictions(y, answers, cmap="Blues", colorbar=False)
plt.show()
