"""Fashion-MNIST as bags of patches: how often each of 300 learned patterns, and a flat patch, occurs in an image."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import gen_batches

from benchmarks.data.fashion import Split, fashion_mnist_images
from benchmarks.data.packages import cached

SIDE, STRIDE = 6, 2
N_WORDS = 300
N_SAMPLED = 3_000  # images for the codebook
FLAT = 0.02  # standard deviation of intensities from 0 to 1
IMAGES_AT_ONCE = 500


def bags_of_patches() -> Split:
    """Histograms (n, 301), float32, that sum to one, and labels; the last word is that of flat patches.

    The images are those of Fashion-MNIST (Zalando, MIT license), in its order.
    """
    arrays = cached("fashion-mnist-patches", _arrays)
    return arrays["X_train"], arrays["y_train"], arrays["X_test"], arrays["y_test"]


def _arrays() -> dict[str, np.ndarray]:
    X_train, y_train, X_test, y_test = fashion_mnist_images()
    words = _codebook(X_train)
    return {
        "X_train": _histograms(X_train, words),
        "y_train": y_train,
        "X_test": _histograms(X_test, words),
        "y_test": y_test,
    }


def _codebook(images: np.ndarray) -> np.ndarray:
    """The centers of the patches of some images, (300, pixels)."""
    chosen = np.random.default_rng(0).choice(len(images), N_SAMPLED, replace=False)
    patches, is_flat = _patches(images[chosen])
    means = MiniBatchKMeans(N_WORDS, batch_size=10_000, n_init=1, random_state=0).fit(patches[~is_flat])
    return means.cluster_centers_


def _histograms(images: np.ndarray, words: np.ndarray) -> np.ndarray:
    batches = gen_batches(len(images), IMAGES_AT_ONCE)
    return np.concatenate([_counts(images[batch], words) for batch in batches])


def _counts(images: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The share of the patches of each image that are nearest to each word, or flat."""
    patches, is_flat = _patches(images)
    nearest = np.argmax(patches @ words.T - (words**2).sum(axis=1) / 2, axis=1)
    nearest[is_flat] = len(words)
    n_bins = len(words) + 1
    bins = nearest.reshape(len(images), -1) + n_bins * np.arange(len(images))[:, None]
    counts = np.bincount(bins.ravel(), minlength=n_bins * len(images)).reshape(len(images), n_bins)
    return (counts / bins.shape[1]).astype(np.float32)


def _patches(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Patches with mean zero and length one, image after image, (patches, pixels), and which of them are flat."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (SIDE, SIDE), axis=(1, 2))[:, ::STRIDE, ::STRIDE]
    patches = windows.reshape(-1, SIDE * SIDE).astype(np.float32) / 255
    patches -= patches.mean(axis=1, keepdims=True)
    lengths = np.sqrt((patches**2).sum(axis=1, keepdims=True))
    is_flat = lengths[:, 0] < FLAT * SIDE
    return patches / np.where(is_flat[:, None], 1, lengths), is_flat
