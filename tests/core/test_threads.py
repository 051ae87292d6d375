"""Threads, forks, interrupts."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from discovery import given
from joblib import Parallel, delayed
from oracles import alike, histograms

from histogp import HistogramGPClassifier
from histogp._core import threads

pytestmark = pytest.mark.usefixtures("two_blas_threads")
X = histograms(400, 20)
Y = np.argmax(X[:, 1:5], axis=1)


def test_one_and_two_threads_agree_to_rounding():
    options = dict(solver="cg", tol=1e-10, random_state=0)
    one, two = (given(HistogramGPClassifier, n_jobs=n, **options).fit(X, Y) for n in (1, 2))
    np.testing.assert_allclose(one.alpha_, two.alpha_, atol=1e-7)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-9)


@pytest.mark.portable
@pytest.mark.slow
def test_many_threads_may_predict_with_one_model():
    clf = HistogramGPClassifier("hik", noise=0.1, n_jobs=2).fit(X, Y)
    expected = HistogramGPClassifier("hik", noise=0.1, n_jobs=2).fit(X, Y).decision_function(X)
    with ThreadPoolExecutor(8) as pool:
        for scores in pool.map(lambda _: clf.decision_function(X), range(40)):
            alike(scores, expected)


@pytest.mark.slow
def test_joblib_workers_and_threads_fit():
    for backend in ("loky", "threading"):
        fits = Parallel(2, backend=backend)(
            delayed(HistogramGPClassifier("hik", noise=0.1).fit)(X, Y) for _ in range(3)
        )
        assert all(np.allclose(fit.alpha_, fits[0].alpha_) for fit in fits)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_after_use_neither_hangs_nor_differs():
    clf = HistogramGPClassifier("hik", noise=0.1, n_jobs=2, solver="cg").fit(X, Y)
    expected = clf.predict(X)
    child = os.fork()
    if child == 0:
        same = np.array_equal(
            HistogramGPClassifier("hik", noise=0.1, n_jobs=2, solver="cg").fit(X, Y).predict(X), expected
        )
        os._exit(0 if same and np.array_equal(clf.predict(X), expected) else 1)
    for _ in range(600):
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        pytest.fail("the forked child hangs")
    assert os.waitstatus_to_exitcode(status) == 0


def test_an_error_in_one_part_stops_the_others_and_is_raised():
    done = []

    def work(part, step):
        if part == 0 and step == 1:
            raise KeyboardInterrupt
        done.append((part, step))
        time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        threads.run(work, [[(part, step) for step in range(200)] for part in range(3)])
    count = len(done)
    assert count < 100
    time.sleep(0.05)
    assert len(done) == count


def test_parts_run_in_order_on_their_own_thread():
    seen = {}

    def work(part, step):
        seen.setdefault(part, []).append((step, threading.get_ident()))

    threads.run(work, [[(part, step) for step in range(5)] for part in range(3)])
    for steps in seen.values():
        assert [step for step, _ in steps] == list(range(5))
        assert len({thread for _, thread in steps}) == 1


@pytest.mark.slow
def test_predicting_while_the_interpreter_shuts_down():
    code = """
import atexit, numpy as np
from histogp import HistogramGPRegressor
X = np.random.default_rng(0).random((50, 4))
reg = HistogramGPRegressor(n_jobs=2).fit(X, X[:, 0])
atexit.register(lambda: print(reg.predict(X).shape))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("(50,)\n", "")


LONG_FITS = {
    "an iteration": (
        "HistogramGPClassifier('hik', noise=100.0, tol=1e-1, preconditioner_rank=0, max_iter=10**6)",
        {"noise": 1e-6, "tol": 1e-12},
    ),
    "the default": ("HistogramGPClassifier()", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG_FITS)
def test_ctrl_c_ends_a_long_fit_at_once_and_keeps_the_old_model(name):
    model, changed = LONG_FITS[name]
    code = f"""
import sys, time, numpy as np
from histogp import HistogramGPClassifier
rng = np.random.default_rng(0)
X, y = rng.random((20_000, 60)), rng.integers(2, size=20_000)
clf = {model}.set_params(n_jobs=int(sys.argv[1])).fit(X[:1000], y[:1000])
before = clf.predict(X[:100])
clf.set_params(**{changed})
print("ready", flush=True)
try:
    clf.fit(X[:, :30], y)
except KeyboardInterrupt:
    print("interrupted", time.time(), bool(np.array_equal(clf.predict(X[:100]), before)), flush=True)
"""
    for n_jobs in (1, 2):
        process = subprocess.Popen([sys.executable, "-c", code, str(n_jobs)], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        answer, _ = process.communicate(timeout=60)
        word, when, same = answer.split()
        assert (word, same) == ("interrupted", "True")
        # A generous bound for a busy machine; a slice of work lasts 0.2 s at most.
        assert float(when) - sent < 5
