"""
Colour histograms: where in the picture does this patch belong?
================================================================

Cut two photographs into patches, describe each by a histogram of its colors, and learn which photograph it comes from.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.model_selection import train_test_split

from histogp import HistogramGPClassifier

SIDE, BINS = 16, 4


def patches(image):
    """Square pieces of an image, (n, SIDE, SIDE, 3)."""
    rows, columns = image.shape[0] // SIDE, image.shape[1] // SIDE
    cut = image[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE, 3)
    return cut.swapaxes(1, 2).reshape(-1, SIDE, SIDE, 3)


def color_histograms(pieces):
    """How many pixels of each piece have which color, of BINS levels of red, green and blue."""
    levels = pieces // (256 // BINS)
    colors = (levels[..., 0].astype(int) * BINS + levels[..., 1]) * BINS + levels[..., 2]
    return np.array([np.bincount(one.ravel(), minlength=BINS**3) for one in colors])


photographs = ["china.jpg", "flower.jpg"]
pieces = [patches(load_sample_image(name)) for name in photographs]
y = np.repeat(photographs, [len(some) for some in pieces])
pieces = np.concatenate(pieces)
X = color_histograms(pieces)
X_train, X_test, y_train, y_test, _, shown = train_test_split(X, y, pieces, test_size=0.8, random_state=0)

# %%
# A histogram of counts needs no preparation: the sum over colors of the smaller count is the number of pixels that two
# patches have in common.

clf = HistogramGPClassifier().fit(X_train, y_train)
print(f"accuracy on {len(y_test)} patches: {clf.score(X_test, y_test):.3f}")
print(clf.in_words())

# %%
# From the left: patches that are surely of the first photograph, undecided ones, and patches of the second.

flower = clf.predict_proba(X_test)[:, 1]
order = flower.argsort()
rows = np.concatenate([order[:8], abs(flower - 0.5).argsort()[:8], order[-8:]])
figure, axes = plt.subplots(4, 6, figsize=(8, 6), layout="constrained")
for ax, row in zip(axes.T.ravel(), rows, strict=True):
    ax.imshow(shown[row])
    ax.set_title(f"flower: {flower[row]:.0%}", fontsize=8)
    ax.set_axis_off()
plt.show()
