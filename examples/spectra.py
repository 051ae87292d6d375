"""
Spectra: how much of it is in there, and how sure
=================================================

Read a concentration from synthetic spectra with drifting baselines, with an error bar for each sample.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from histogp import HistogramGPRegressor

rng = np.random.default_rng(0)
wavelengths = np.linspace(400, 900, 100)


def peak(center, width):
    """A band of absorption."""
    return np.exp(-0.5 * ((wavelengths - center) / width) ** 2)


y = rng.uniform(0, 1, size=300)
others = rng.uniform(0, 1, size=(300, 2))
baseline = rng.uniform(0, 0.3, size=(300, 1)) * (wavelengths / 900)
X = y[:, None] / (1 + y[:, None]) * peak(560, 25) + others @ [peak(500, 40), peak(700, 60)] + baseline
X += rng.normal(0, 0.01, size=X.shape)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# The concentration saturates, and two other substances overlap with it.

reg = HistogramGPRegressor().fit(X_train, y_train)
mean, deviation = reg.predict(X_test, return_std=True)
inside = abs(mean - y_test) < 1.96 * deviation
print(f"R2 {reg.score(X_test, y_test):.4f}; {inside.mean():.0%} of the samples in their interval of 95%")

# %%
figure, (spectra, predicted) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for row in range(0, 60, 6):
    spectra.plot(wavelengths, X_train[row], color=plt.cm.viridis(y_train[row]))
spectra.set(xlabel="wavelength", ylabel="absorption", title="ten samples, color: concentration")
predicted.errorbar(y_test, mean, 1.96 * deviation, fmt=".", alpha=0.5)
predicted.axline((0, 0), slope=1, color="black", linewidth=1)
predicted.set(xlabel="concentration", ylabel="predicted, with intervals of 95%")
plt.show()
