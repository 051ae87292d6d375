"""The plain line among its untuned peers: mean ranks over the classification sets."""

import matplotlib.pyplot as plt

from benchmarks.contest.entrants import OURS
from benchmarks.contest.sets import VALUES
from benchmarks.contest.standings import ranks, stored

board = stored()
sets = [one for one in board.sets() if one.kind != VALUES]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, key in zip(axes, ["accuracy", "log_loss"], strict=True):
    found = {name: values.mean() for name, values in ranks(board, sets, key).items() if len(values) == len(sets)}
    names = sorted(found, key=found.get, reverse=True)
    ax.barh(names, [found[name] for name in names], color=["C1" if name == OURS else "C0" for name in names])
    ax.set(title=f"by {key.replace('_', ' ')}", xlabel=f"mean rank over {len(sets)} data sets")
plt.show()
