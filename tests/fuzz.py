"""``make fuzz``: load many damaged model files, in processes that are watched for crashes, hangs and memory.

``python tests/fuzz.py [number of files]``. Half of them are damaged as by accident; the other half is forged:
it has a valid checksum, so that the checks behind it are reached. Whatever loads must also predict. At the end come
the reasons of the refusals with their numbers: a check that is never reached any more shows there.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from mutations import damaged_bytes, forged_contents, packed

import histogp
import histogp.kernels
from histogp.io import container

BATCH = 2_500
SECONDS_A_BATCH = 600
SLOWEST_SECONDS = 5.0
MEMORY_ABOVE_START = 200_000_000
MOST_CHARACTERS = 110
# Before reasons for which a model that was loaded does not predict.
LATE = "when predicting: "


def main() -> None:
    n_files = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    refusals: Counter[str] = Counter()
    loaded, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        make_models(Path(folder))
        for seed in range(-(-n_files // BATCH)):
            count = min(BATCH, n_files - seed * BATCH)
            command = [sys.executable, __file__, "--batch", str(seed), str(count), folder]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_A_BATCH, check=False)
            if done.returncode:
                sys.exit(f"Batch {seed} ended with code {done.returncode}:\n{done.stderr[-3000:]}")
            found = json.loads(done.stdout)
            refusals.update(found["refusals"])
            loaded, slowest = loaded + found["loaded"], max(slowest, found["slowest"])
            print(f"\r{min((seed + 1) * BATCH, n_files):>7} files", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for reason, number in sorted(refusals.items(), key=lambda one: (-one[1], one[0])):
        print(f"{number:>7} {reason}")
    of_files = [number for reason, number in refusals.items() if not reason.startswith(LATE)]
    refused = sum(of_files)
    print(
        f"{refused + loaded} damaged files: {refused} refused with a sentence, for {len(of_files)} reasons, {loaded} "
        f"harmless and predicting; no crash, no hang (slowest {slowest:.2f} s), never "
        f"{MEMORY_ABOVE_START / 1e6:.0f} MB more memory"
    )


def reason_of(error: Exception) -> str:
    """The sentence without what differs from file to file: paths, names, numbers, and what a library adds."""
    text = " ".join(str(error).split())
    text = re.sub(r"^'.*?' is not an intact histogp model: ", "", text)
    text = re.sub(r"\{.*\}|\[.*\]|\(.*\)", "(...)", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text)
    text = re.sub(r"\b(bool|float|uint|int)\d*\.$", "...", text)
    text = re.sub(r"parameter of \w+ must be .* Got .* instead", "parameter must be another one", text)
    text = re.sub(r"in header: .*", "in header", text)
    text = re.sub(r"[-+]?\b(\d[\d_,.]*(e[-+]?\d+)?|nan|inf)\b", "#", text)
    return text[:MOST_CHARACTERS]


def make_models(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((40, 5)) * (rng.random((40, 5)) < 0.7)
    names = np.array(["apple", "pear", "plum"])[X[:, :3].argmax(axis=1)]
    kernel = histogp.kernels.HistogramIntersection(histogp.kernels.Power(0.5), np.arange(5.0))
    learned = histogp.kernels.HistogramIntersection(weights="ard", groups=["a", "a", "b", "b", "b"])
    optimizer = histogp.Optimizer("exact", parameters=["weights", "noise"])
    for k, model in enumerate(
        [
            histogp.HistogramGPClassifier("hik", noise=0.1, class_weight="balanced-ovr", random_state=0).fit(X, names),
            histogp.HistogramGPClassifier(kernel, noise=0.1, class_weight={0: 1, 1: 2}, random_state=0).fit(
                X, X[:, 0] > 0.3
            ),
            histogp.HistogramGPRegressor("hik-exp", noise=0.1, normalize_y=True, random_state=0).fit(X, X[:, :2]),
            histogp.HistogramGPClassifier(learned, optimize=optimizer, random_state=0).fit(X, names),
            histogp.HistogramGPOneClass("hik", noise=0.1, contamination=0.1, criterion="mean", random_state=0).fit(X),
            histogp.HistogramGPClassifier("hik", noise=0.1, class_weight="balanced-ovr", random_state=0).fit(
                np.vstack([X, X[::2]]), np.concatenate([names, names[:20]])
            ),
            prepared(
                histogp.HistogramGPClassifier(kernel, noise=0.1, random_state=0).fit(
                    rng.random((300, 5)), rng.random(300) > 0.5
                )
            ),
        ]
    ):
        model.save(folder / f"{k}-full.histogp")
        model.set_params(prediction="quantized", n_bins=4).save(folder / f"{k}-table.histogp", include_training=False)


def prepared(model: histogp.HistogramGPClassifier) -> histogp.HistogramGPClassifier:
    """With everything that can be prepared."""
    for method in ("fine", "coarse-quantized", "sampled", "calibrated"):
        model.predict_variance(np.ones((1, 5)), method, n_samples=4, n_eigenvectors=3)
    model.predict_proba(np.ones((1, 5)))
    return model


def run_batch(seed: int, count: int, folder: Path) -> None:
    contents = [path.read_bytes() for path in sorted(folder.glob("?-*.histogp"))]
    # In an order of names, so that the same seed forges the same files.
    parsed = [(document, dict(sorted(arrays.items()))) for document, arrays in map(container.parse, contents)]
    rng = np.random.default_rng(seed)
    refusals: Counter[str] = Counter()
    loaded, slowest = 0, 0.0
    test = np.abs(rng.standard_normal((3, 5)))
    start_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "damaged.histogp"
        for k in range(count):
            which = rng.integers(len(contents))
            if k % 2:
                content = damaged_bytes(contents[which], rng)
            else:
                content = packed(*forged_contents(*parsed[which], rng), Path(scratch))
            path.write_bytes(content)
            start = time.perf_counter()
            try:
                model = histogp.load(path)
            except histogp.ModelFileError as error:
                refusals[reason_of(error)] += 1
            else:
                model.set_params(n_jobs=1)
                # A forged parameter of prediction is refused like one that a user sets wrongly.
                try:
                    rows = np.ones((3, model.n_features_in_)) if model.n_features_in_ != 5 else test
                    model.predict(rows)
                    kept = model._posterior.tables()
                    for method in ("fine", "coarse-quantized", "sampled", "calibrated"):
                        if (method if method != "fine" else "spectrum") in kept:
                            model.predict_variance(rows, method, n_samples=4, n_eigenvectors=3)
                    if "temperature" in kept:
                        model.predict_proba(rows)
                except (ValueError, TypeError) as error:
                    refusals[LATE + reason_of(error)] += 1
                loaded += 1
            slowest = max(slowest, time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - start_memory
    assert slowest < SLOWEST_SECONDS, f"one file took {slowest:.1f} s"
    assert memory < MEMORY_ABOVE_START, f"memory grew by {memory / 1e6:.0f} MB"
    print(json.dumps({"refusals": refusals, "loaded": loaded, "slowest": slowest}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--batch"]:
        run_batch(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
