"""
Segmentation: a few scribbles, and a map of what is not known
=============================================================

Mark a few pixels of a photograph, let the model label all others, and see where it would like another scribble.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import uniform_filter
from sklearn.datasets import load_sample_image

from histogp import HistogramGPClassifier

image = load_sample_image("flower.jpg")[::4, ::4] / 255.0
height, width, _ = image.shape

# %%
# A pixel is described by its color, and by mean and deviation of the colors around it.

mean = uniform_filter(image, size=(7, 7, 1))
deviation = np.sqrt(np.maximum(uniform_filter(image**2, size=(7, 7, 1)) - mean**2, 0))
X = np.concatenate([image, mean, deviation], axis=2).reshape(-1, 9)

# %%
# Three short lines say what is flower (1) and what is not (0).

scribbles = np.full((height, width), -1)
scribbles[45:75, 95] = 1
scribbles[10, 10:50] = 0
scribbles[95, 20:60] = 0
marked = scribbles.ravel() >= 0
clf = HistogramGPClassifier().fit(X[marked], scribbles.ravel()[marked])
print(f"{marked.sum()} of {marked.size} pixels are marked")

# %%
# Novelty is high where the colors are unlike those of all scribbles, whatever the label.

flower = clf.predict_proba(X)[:, 1].reshape(height, width)
novelty = clf.novelty(X).reshape(height, width)
figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
axes[0].imshow(image)
for label, color in [(0, "cyan"), (1, "yellow")]:
    axes[0].plot(*np.nonzero(label == scribbles.T), ".", color=color, markersize=2)
axes[1].imshow(image * (0.25 + 0.75 * flower[..., None]))
axes[2].imshow(novelty, cmap="magma", vmin=0, vmax=1)
for ax, title in zip(axes, ["scribbles", "probability of flower", "novelty: mark the bright parts next"], strict=True):
    ax.set_title(title)
    ax.set_axis_off()
plt.show()
