"""
Orientation histograms: shapes in noisy pictures
================================================

Describe pictures of four shapes by histograms of gradient orientations, and see which pictures are mistaken for others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay

from histogp import HistogramGPClassifier
from histogp.datasets import orientation_histograms

SIDE = 28
SHAPES = ["disc", "ring", "square", "triangle"]
rng = np.random.default_rng(0)
down, right = np.mgrid[:SIDE, :SIDE]


def draw(shape):
    """A noisy grey picture of one shape, of random size, place and contrast."""
    size = rng.uniform(6, 10)
    y, x = down - rng.uniform(11, 17), right - rng.uniform(11, 17)
    distance = np.hypot(x, y)
    inside = {
        "disc": distance < size,
        "ring": abs(distance - 0.8 * size) < 0.25 * size,
        "square": np.maximum(abs(x), abs(y)) < 0.9 * size,
        "triangle": (abs(x) < (y + size) / 2) & (y < size),
    }[shape]
    return np.clip(rng.normal(60 + rng.uniform(60, 150) * inside, 40), 0, 255)


y = rng.choice(SHAPES, size=1_500)
images = np.array([draw(shape) for shape in y]).astype(np.uint8)
X = orientation_histograms(images)
print(f"{X.shape[1]} features: {X.shape[1] // 9} cells of 9 orientations")

# %%
# Raw pixels know nothing of shape; edges do.

train, test = slice(0, 500), slice(500, None)
for name, features in {"pixels": images.reshape(len(images), -1), "orientations": X}.items():
    clf = HistogramGPClassifier().fit(features[train], y[train])
    print(f"{name}: accuracy {clf.score(features[test], y[test]):.3f}")

# %%
figure, (left, confusion) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.imshow(np.block([[images[y == shape][k] for k in range(4)] for shape in SHAPES]), cmap="gray")
left.set_axis_off()
ConfusionMatrixDisplay.from_predictions(y[test], clf.predict(X[test]), ax=confusion, cmap="Blues", colorbar=False)
plt.show()
