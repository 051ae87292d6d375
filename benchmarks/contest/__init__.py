"""A contest of the plain line, ``HistogramGPClassifier().fit(X, y)`` on raw X, with untuned peers on real data.

`sets` has the data and their splits, `entrants` the models, `trials` runs one on the other in a process of its own,
`records` keeps what peers achieved, and `standings` compares.
"""
