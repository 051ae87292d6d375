"""Time of each method of `predict_variance`."""

import matplotlib.pyplot as plt

from benchmarks.results import load

results = load()
times, sampled, calibrated = (results[f"{name}_times"].values for name in ("variance", "sampled", "calibrated"))
methods = {
    "precise": (times["precise_us"], times["precise_preparation"]),
    "fine": (times["fine_us"], times["fine_preparation"]),
    "coarse": (times["coarse_us"], times["coarse_preparation"]),
    "coarse-quantized": (times["coarse_quantized_us"], times["coarse_quantized_preparation"]),
    "sampled": (sampled["us_10090"], sampled["preparation_10090"]),
    "calibrated": (calibrated["us_10090"], calibrated["preparation_10090"]),
}
figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
for name, (microseconds, preparation) in methods.items():
    ax.loglog(microseconds, preparation, "o", color="C1" if name == "calibrated" else "C0")
    ax.annotate(f'"{name}"', (microseconds, preparation), xytext=(6, 4), textcoords="offset points")
ax.set(xlabel="microseconds a sample", ylabel="seconds of preparation", title="10,090 samples of 1,000 sparse features")
ax.margins(x=0.2, y=0.15)
plt.show()
