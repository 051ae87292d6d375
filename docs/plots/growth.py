"""Time of a fit by the number of samples, and what other classifiers take."""

import matplotlib.pyplot as plt

from benchmarks.results import load

results = load()
growth = results["growth"].values
sizes = [7_500, 15_000, 30_000, 60_000]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.loglog(sizes, [growth[f"seconds_{size}"] for size in sizes], "o-")
left.set(title='fit, kernel="hik", Fashion-MNIST', xlabel="samples of 441 features", ylabel="seconds")
left.set_xticks(sizes, [f"{size:,}" for size in sizes])
left.minorticks_off()
fashion = results["defaults_fashion"].values
names = {"ours": "histogp, default", "svc_1": "SVC", "svc_10": "SVC, C=10"}
for name, title in names.items():
    seconds, accuracy = fashion[f"{name}_seconds"], fashion[f"{name}_accuracy"]
    right.plot(seconds, accuracy, "o", color="C1" if name == "ours" else "C0")
    right.annotate(title, (seconds, accuracy), xytext=(6, 0), textcoords="offset points", va="center")
right.set(title="60,000 samples by default", xlabel="seconds of a fit", ylabel="test accuracy")
right.margins(x=0.3, y=0.2)
plt.show()
