"""Run outside of the source tree by ``make wheel``: the installed package imports and fits."""

import importlib.metadata

import numpy as np

import histogp

assert "site-packages" in histogp.__file__, histogp.__file__
assert importlib.metadata.files("histogp") or []
assert importlib.metadata.version("histogp") == histogp.__version__
X = np.random.default_rng(0).random((3000, 5))
for clf in (histogp.HistogramGPClassifier(), histogp.HistogramGPClassifier("hik", noise=0.1)):
    clf.fit(X, X[:, 0] > 0.5)
    assert clf.score(X, X[:, 0] > 0.5) > 0.9
assert clf.n_iter_ > 1
print("histogp", histogp.__version__, "imports and fits")
