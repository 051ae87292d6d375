"""The picture of the page "Which estimator when": questions with arrows to answers."""

import matplotlib.pyplot as plt

QUESTION, ANSWER = dict(facecolor="#eef3fb", edgecolor="#2f6fb3"), dict(facecolor="#fdf3e4", edgecolor="#d07a1e")

figure, ax = plt.subplots(figsize=(9, 5.2), layout="constrained")
ax.set(xlim=(0, 9), ylim=(0, 5.2))
ax.set_axis_off()


def box(x, y, text, style):
    """A box with a text in it, around a point."""
    kind = "round,pad=0.4" if style is QUESTION else "square,pad=0.4"
    ax.text(x, y, text, ha="center", va="center", fontsize=9, bbox=dict(boxstyle=kind, **style), zorder=2)


def arrow(start, end, word=""):
    """An arrow between two points, with a word beside its middle."""
    ax.annotate("", end, start, arrowprops=dict(arrowstyle="-|>", color="#555555", shrinkA=18, shrinkB=18), zorder=1)
    ax.text((start[0] + end[0]) / 2 + 0.08, (start[1] + end[1]) / 2 + 0.06, word, fontsize=9, color="#555555")


box(1.3, 4.6, "Do the rows fit\ninto memory?", QUESTION)
box(1.3, 2.9, "Are there labels\nor values to learn?", QUESTION)
box(4.4, 2.9, "More than 80,000 rows,\nor microseconds needed?", QUESTION)
box(7.4, 4.6, "StreamingRidgeClassifier\nStreamingRidge", ANSWER)
box(7.4, 2.9, 'kernel="hik"\nprediction="quantized"', ANSWER)
box(1.3, 1.0, "HistogramGPOneClass", ANSWER)
box(4.4, 1.0, "HistogramGPClassifier()", ANSWER)
box(7.4, 1.0, "HistogramGPRegressor()", ANSWER)
arrow((1.3, 4.6), (1.3, 2.9), "yes")
arrow((1.9, 4.6), (6.4, 4.6), "no")
arrow((1.3, 2.9), (1.3, 1.0), "no")
arrow((1.9, 2.9), (3.7, 2.9), "yes")
arrow((5.1, 2.9), (6.6, 2.9), "yes")
arrow((4.4, 2.9), (4.4, 1.0), "no: labels")
arrow((4.6, 2.9), (7.2, 1.0), "no: values")
plt.show()
