"""Classify scikit-learn's digits, and show which of them the model is sure about and which not.

Run it with ``make demo``, or ``python examples/digits.py``. Nothing is downloaded.
"""

from time import perf_counter

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from histogp import HistogramGPClassifier

SHADES = " .:-=+*#%@"


def main() -> None:
    # Eight by eight counts of ink: each image is a histogram as it is.
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

    HistogramGPClassifier().fit(X_train[:50], y_train[:50]).predict(X_test)  # compiles, once for this machine
    start = perf_counter()
    clf = HistogramGPClassifier(noise=100.0).fit(X_train, y_train)
    fitted = perf_counter()
    scores = clf.decision_function(X_test)
    predicted = perf_counter()

    labels = clf.classes_[scores.argmax(axis=1)]
    print(f"{len(X_train)} digits learnt in {1e3 * (fitted - start):.0f} ms")
    print(f"{len(X_test)} digits classified in {1e6 * (predicted - fitted) / len(X_test):.1f} microseconds each")
    print(f"accuracy {np.mean(labels == y_test):.3f}\n")

    ordered = np.sort(scores, axis=1)
    margin = ordered[:, -1] - ordered[:, -2]
    by_margin = np.argsort(margin)
    for title, chosen in (("Most certain", by_margin[::-1][:5]), ("Least certain", by_margin[:5])):
        print(f"{title}, by the gap between the two best scores:\n")
        show(X_test[chosen], labels[chosen], y_test[chosen], margin[chosen])


def show(images: np.ndarray, labels: np.ndarray, truth: np.ndarray, margin: np.ndarray) -> None:
    """Print images side by side, 16 characters wide."""
    shades = np.array(list(SHADES))[(images / 16 * (len(SHADES) - 1)).astype(int)].reshape(-1, 8, 8)
    for row in range(8):
        print("   ".join("".join(pixel * 2 for pixel in image[row]) for image in shades))
    print("   ".join(f"{f'{label} ({gap:.2f})':<16}" for label, gap in zip(labels, margin, strict=True)))
    print("   ".join(f"{'' if a == b else f'but it is a {b}':<16}" for a, b in zip(labels, truth, strict=True)) + "\n")


if __name__ == "__main__":
    main()
