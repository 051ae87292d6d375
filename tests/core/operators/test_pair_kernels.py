"""Kernels that are evaluated pair by pair, and their matrix: against dense formulas, and the contract of operators."""

import numpy as np
import pytest
from hypothesis import strategies as st
from kernel_operators import kernel_operator
from oracles import close, dense, histograms
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import additive_chi2_kernel

from core.operators.suite import CoreSuite, D, State, UpdatesTuningSuite, WithoutTablesSuite
from histogp import HistogramGPClassifier, HistogramGPRegressor, ModelFileError, Optimizer, load
from histogp._core.data import Rows
from histogp._core.operators import pair_kernels, pair_measures, pair_operators
from histogp._core.operators.pair_kernels import HeightsKernel, mean_differences
from histogp.kernels import Chi2, Constant, ExpChi2, Gaussian, HistogramIntersection, Laplacian, Power, Sum

pytestmark = pytest.mark.portable
WEIGHTS = np.linspace(0.2, 2, D)
MEASURES = {
    # Positive and negative values apart, as if they were features of their own.
    HistogramIntersection: lambda a, b: sum(
        np.minimum(np.maximum(s * a, 0)[:, None], np.maximum(s * b, 0)).sum(axis=2) for s in (1, -1)
    ),
    Chi2: lambda a, b: (a.sum(axis=1)[:, None] + b.sum(axis=1) + additive_chi2_kernel(a, b)) / 2,
    Laplacian: lambda a, b: cdist(a, b, "cityblock"),
    Gaussian: lambda a, b: cdist(a, b, "sqeuclidean"),
    ExpChi2: lambda a, b: -additive_chi2_kernel(a, b) / 2,
}


def transformed(A, kernel):
    """``g(x)`` of dense or sparse rows, with the sign of x."""
    A = np.asarray(dense(A), float)
    transform = getattr(kernel, "transform", None)
    eta = 1.0 if transform is None else np.asarray(transform.eta, float)
    return np.sign(A) * np.abs(A) ** eta


def heights(A, kernel):
    """``w g(x)``."""
    weights = getattr(kernel, "weights", None)
    return transformed(A, kernel) * (1.0 if weights is None else np.asarray(weights, float))


def parts_of(kernel):
    """The parts of a sum by the prefixes of their parameters, or the kernel alone."""
    if isinstance(kernel, Sum):
        return {f"{name}__": part for name, part in kernel.named_parts().items()}
    return {"": kernel}


def rate(part):
    return part.beta / getattr(part, "unit", 1.0)


def part_formula(left, right, part):
    """A part on heights."""
    if isinstance(part, Constant):
        return np.full((len(left), len(right)), float(part.scale))
    measure = MEASURES[type(part)](left, right)
    if isinstance(part, HistogramIntersection | Chi2):
        return part.scale * measure
    return part.scale * np.exp(-rate(part) * measure)


def seen_by(A, kernel):
    """Rows as the parts of a sum see them: divided by the sums of their absolute values, and shifted."""
    if isinstance(kernel, Sum) and kernel.normalize is not None:
        sums = np.abs(A).sum(axis=1, keepdims=True)
        A = A / np.where(sums > 0, sums, 1.0)
    return A if getattr(kernel, "shift", None) is None else A - np.asarray(kernel.shift)


def formula(A, B, kernel):
    """The kernel, of as few lines as possible."""
    A, B = (seen_by(np.asarray(dense(rows), float), kernel) for rows in (A, B))
    if isinstance(kernel, Sum) and not kernel._own_heights():
        return sum(formula(A, B, part) for part in kernel.named_parts().values())
    columns = slice(None) if kernel.columns is None else kernel.columns
    left, right = heights(A[:, columns], kernel), heights(B[:, columns], kernel)
    return sum(part_formula(left, right, part) for part in parts_of(kernel).values())


def everything(**shared):
    """All kinds of parts on one set of heights."""
    parts = [
        HistogramIntersection(scale=0.4),
        Chi2(scale=0.3),
        Laplacian(0.7, unit=2.0),
        Gaussian(unit=3.0, scale=1.5),
        ExpChi2(beta=0.6),
        Constant(0.8),
    ]
    return Sum(parts, **shared)


class TestDense(CoreSuite, UpdatesTuningSuite, WithoutTablesSuite):
    ways = ("dense", "sparse", "not kept")
    typical = {  # noqa: RUF012
        "everything": everything(weights=WEIGHTS, transform=Power(1.2)),
        "laplacian": Laplacian(0.7, unit=2.0, scale=1.5),
        "gaussian, weights": Gaussian(unit=3.0, weights=WEIGHTS, transform=Power(1.5)),
        "exp-chi2": Sum([ExpChi2(beta=0.7, scale=1.5)], weights=WEIGHTS),
    }
    smooth = {**typical, "each its own": Laplacian(unit=2.0, weights=WEIGHTS, transform=Power(WEIGHTS))}  # noqa: RUF012

    def choose(self, way):
        pair_measures.SPARSE_SHARE = {"dense": 0.0, "sparse": 2.0}.get(way, 0.1)
        pair_measures.BLOCK_NUMBERS = pair_kernels.MOST_KEPT_PAIRS = 50 if way == "not kept" else 2**20

    def make(self, X, kernel, n_threads=1):
        return kernel_operator(X, kernel, n_threads)

    def evaluate(self, A, B, kernel):
        return formula(A, B, kernel)

    def size(self, A, B, kernel):
        """Measures are differences of sums of heights, or of their squares."""
        found = np.zeros((A.shape[0], B.shape[0]))
        left, right = (np.abs(heights(rows, kernel)) for rows in (A, B))
        for part in parts_of(kernel).values():
            power = 2 if isinstance(part, Gaussian) else 1
            sums = (left**power).sum(axis=1)[:, None] + (right**power).sum(axis=1)
            value = part_formula(heights(A, kernel), heights(B, kernel), part)
            found += value * (1 + rate(part) * sums) if hasattr(part, "beta") else part.scale * (1 + sums)
        return found

    def cost(self, X, kernel):
        return X.shape[0] ** 2

    def kernels(self, X):
        size = max(1.0, float(np.max(dense(X), initial=0.0)))
        return st.sampled_from([Laplacian(unit=size), Gaussian(unit=size**2), ExpChi2(beta=1 / size), everything()])

    def hyperparameters(self, kernel):
        found = super().hyperparameters(kernel)
        for prefix, part in parts_of(kernel).items():
            found[f"{prefix}scale"] = np.asarray(part.scale, float)
            if hasattr(part, "beta"):
                found[f"{prefix}beta"] = np.asarray(part.beta, float)
        return found

    def derivatives(self, A, B, kernel):
        left, right = (transformed(rows, kernel).T[:, :, None] for rows in (A, B))
        weights = self.hyperparameters(kernel)["weights"][:, None, None]
        found = {"weights": np.zeros((D, A.shape[0], B.shape[0]))}
        right = right.transpose(0, 2, 1)
        total = np.where(left + right > 0, left + right, 1.0)
        by_weight = {
            HistogramIntersection: np.minimum(left, right),
            Chi2: 2 * left * right / total,
            Laplacian: np.abs(left - right),
            Gaussian: 2 * weights * (left - right) ** 2,
            ExpChi2: (left - right) ** 2 / total / 2,
        }
        for prefix, part in parts_of(kernel).items():
            K = part_formula(heights(A, kernel), heights(B, kernel), part)
            found[f"{prefix}scale"] = K / part.scale
            if hasattr(part, "beta"):
                found[f"{prefix}beta"] = K * np.log(K / part.scale) / part.beta
                found["weights"] -= rate(part) * K * by_weight[type(part)]
            elif not isinstance(part, Constant):
                found["weights"] += part.scale * by_weight[type(part)]
        return found


@pytest.fixture(autouse=True)
def _usual_limits():
    """The suite chooses; hypothesis takes no patch for a single test."""
    yield
    TestDense().choose(None)
    pair_kernels.MOST_KEPT_PAIRS = 2**22


APART = {
    "columns": Laplacian(unit=2.0, columns=[0, 2, 5]),
    "columns, weights": Gaussian(unit=2.0, columns=slice(1, 4), weights=[1.0, 2.0, 0.5], transform=Power(1.5)),
    "weights of their own": Sum([Laplacian(unit=2.0, weights=WEIGHTS), Laplacian(0.3, unit=1.0), Constant(0.2)]),
    "descriptors": HistogramIntersection(columns=[0, 1]) + 0.5 * ExpChi2(beta=1.0, columns=[3, 4]) + Gaussian(unit=1),
    "shifted": Sum([HistogramIntersection(scale=0.5), Laplacian(unit=1.0), Constant(0.2)], shift=WEIGHTS / 3),
    "shifted, weights": Sum([HistogramIntersection(), Gaussian(unit=2.0)], shift=0.4, weights=WEIGHTS),
    "normalized": Sum([HistogramIntersection(), Laplacian(0.5, unit=0.7)], normalize="l1", weights=WEIGHTS),
    "normalized and shifted": Sum([Laplacian(unit=0.7), Gaussian(unit=0.3)], normalize="l1", shift=0.1),
    "a sum in a sum": Sum(inner=Sum([Laplacian(unit=1.0), Gaussian(unit=1.0)], weights=WEIGHTS), outer=Chi2()),
}


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", APART)
def test_kernels_that_share_nothing_add_up(name, container):
    kernel = APART[name]
    rng = np.random.default_rng(4)
    X, Y = (rng.random((n, D)) * (rng.random((n, D)) < 0.7) for n in (30, 7))
    K = formula(X, X, kernel)
    close(kernel(container(X)), K)
    close(kernel(container(X), container(Y)), formula(X, Y, kernel))
    operator = kernel_operator(container(X), kernel, 2)
    rows, few = Rows.from_array(Y), np.array([2, 17])
    close(operator.matrix(), K)
    close(operator.diagonal(), K.diagonal())
    close(operator.diagonal(rows), formula(Y, Y, kernel).diagonal())
    close(operator.cross(rows), formula(Y, X, kernel))
    close(operator.columns(few), K[:, few])
    both = np.concatenate([X, Y])
    close(operator.extend(rows).remove(few).matrix(), np.delete(np.delete(formula(both, both, kernel), few, 0), few, 1))
    close(operator.table(np.eye(30)).evaluate(rows), formula(Y, X, kernel))
    assert operator.relevance().shape == (D,)
    close(operator.relevance().sum(), 1.0)


@pytest.mark.parametrize("name", APART)
def test_derivatives_of_kernels_that_share_nothing(name):
    kernel = APART[name]
    rng = np.random.default_rng(2)
    X = rng.random((9, D))
    G = rng.standard_normal((9, 9))
    G += G.T
    operator = kernel_operator(X, kernel)
    gradient = operator.matrix_gradient(G)
    trace = operator.trace_gradient()
    assert gradient.keys() == trace.keys()
    names = [one.name for one in operator.kernel.hyperparameters(operator.rows, 1.0, 1.0) if one.name != "noise"]
    assert set(names) <= gradient.keys()
    step = 1e-6
    for full in names:
        value = operator.kernel.hyperparameters(operator.rows, 1.0, 1.0)
        start = next(one for one in value if one.name == full)
        up, down = (
            operator.with_kernel(operator.kernel.at({full: start.expand(start.start * (1 + sign * step))})).matrix()
            for sign in (1, -1)
        )
        by_log = operator.kernel.log_gradient(gradient)[full]
        np.testing.assert_allclose(np.sum(by_log), np.sum(G * (up - down)) / (2 * step), rtol=1e-5, atol=1e-7)
        by_log = operator.kernel.log_gradient(trace)[full]
        np.testing.assert_allclose(np.sum(by_log), np.trace(up - down) / (2 * step), rtol=1e-5, atol=1e-7)
    some = operator.matrix_gradient(G, names[:1])
    close(some[names[0]], gradient[names[0]])


def test_what_is_kept_between_kernels_is_what_does_not_change(monkeypatch):
    swept = []
    for name in ("_sweep", "_squared"):
        original = getattr(pair_measures.Pairs, name)

        def counted(self, *arguments, name=name, original=original, **options):
            swept.append(arguments[0] if arguments else name)
            return original(self, *arguments, **options)

        monkeypatch.setattr(pair_measures.Pairs, name, counted)
    X = histograms(40, 6)
    operator = kernel_operator(X, everything())
    operator.matrix()
    assert sorted(swept) == ["_squared", "absolute", "chi2"]  # which serve all parts
    other = operator.with_kernel(operator.kernel.at({"laplacian__beta": 3.0, "gaussian__scale": 2.0}))
    other.matrix()
    other.matrix_gradient(np.eye(40), ["laplacian__beta"])
    assert len(swept) == 3
    operator.with_kernel(operator.kernel.at({"weights": np.full(6, 2.0)})).matrix()
    assert len(swept) == 6


def test_large_and_nearly_equal_values_lose_no_digits():
    X = 1e9 + np.random.default_rng(0).random((20, 5))
    for make in (Laplacian, Gaussian):
        kernel = make(unit=0.5)
        np.testing.assert_allclose(kernel(X), formula(X - 1e9, X - 1e9, kernel), rtol=1e-5)


def test_what_is_left_of_equal_values_is_zero():
    """A shift leaves rounding where values are hardly apart, which would otherwise look like any other feature."""
    X = np.random.default_rng(0).random((20, 2)) * [1.0, 1e-15] + [0.0, 1.0]
    assert np.ptp(X[:, 1]) > 0
    kernel = Sum([Laplacian(unit=1.0)], weights=[1.0, 1e15], shift=X.min(axis=0))
    close(kernel(X), np.exp(-cdist(X[:, :1], X[:, :1], "cityblock")))


@pytest.mark.parametrize("shift", [None, "lowest"])
def test_features_of_any_units_have_their_weight(shift):
    """A feature in a unit a trillion times as large counts as well, and the one that does not vary does not."""
    X = np.random.default_rng(0).random((50, 4)) + 0.5
    X[:, 3] = 1e9
    units = np.array([1.0, 1e12, 1e-12, 1.0])
    found = []
    for rows in (X, X * units):
        kernel = Sum([Laplacian(), Gaussian()], weights="ard", shift=None if shift is None else rows.min(axis=0))
        operator = kernel_operator(rows, kernel)
        weights = next(one for one in operator.kernel.hyperparameters(operator.rows, 0.1, 1.0) if one.name == "weights")
        found.append((weights.start, weights.spread))
    np.testing.assert_allclose(found[0][0][:3], found[1][0][:3] * units[:3])
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-9)
    height = 1e9 if shift is None else 1.0  # what is left of the former is zero
    assert found[0][0][3] * height < 1e-6 * found[0][0][:3].min()
    assert found[0][1][3] == 0


SIGNED = np.random.default_rng(0).standard_normal((40, 5)) * (np.random.default_rng(1).random((40, 5)) < 0.7)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_values_of_any_sign(make, container):
    kernel = make(0.5, unit=2.0, transform=Power(0.5), weights=np.linspace(0.5, 2, 5))
    close(kernel(container(SIGNED)), formula(SIGNED, SIGNED, kernel))
    close(kernel(container(SIGNED), container(SIGNED[:3])), formula(SIGNED, SIGNED[:3], kernel))
    y = SIGNED[:, 0]
    model = HistogramGPRegressor(kernel, normalize_y=False, noise=0.1).fit(container(SIGNED), y)
    K = formula(SIGNED, SIGNED, kernel)
    expected = formula(SIGNED[:7] - 0.5, SIGNED, kernel) @ np.linalg.solve(K + 0.1 * np.eye(40), y)
    close(model.predict(container(SIGNED[:7] - 0.5)), expected)


@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_the_unit_is_the_mean_distance(make):
    kernel = make()._adapt(SIGNED).kernel
    metric = "cityblock" if make is Laplacian else "sqeuclidean"
    distances = cdist(SIGNED, SIGNED, metric)[np.triu_indices(40, 1)]
    np.testing.assert_allclose(kernel.unit, distances.mean(), rtol=1e-12)
    with pytest.raises(ValueError, match=r'unit="mean" is found by an estimator'):
        make()(SIGNED)


@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_files_updates_and_variances(make, tmp_path):
    X, test = histograms(80, 6), histograms(9, 6, seed=4)
    labels = np.where(X[:, 1] > X[:, 2], "yes", "no")
    model = HistogramGPClassifier(make(unit=0.7), noise=0.2).fit(X[:60], labels[:60])
    model.partial_fit(X[60:], labels[60:]).forget([3, 70])
    kept = np.delete(np.arange(80), [3, 70])
    fresh = HistogramGPClassifier(make(unit=0.7), noise=0.2).fit(X[kept], labels[kept])
    close(model.decision_function(test), fresh.decision_function(test))
    kernel = make(unit=0.7)
    K = formula(X[kept], X[kept], kernel) + 0.2 * np.eye(len(kept))
    k = formula(test, X[kept], kernel)
    expected = 1.2 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
    model.save(tmp_path / "model")
    for one in (model, fresh, load(tmp_path / "model")):
        close(one.predict_variance(test), expected)
        close(one.novelty(test), expected - 0.2)
    assert model.predict_proba(test).shape == (9, 2)


@pytest.mark.filterwarnings("ignore:The search for hyperparameters ended")
@pytest.mark.parametrize("make", [Laplacian, Gaussian])
def test_a_search_finds_more_likely_parameters(make):
    X = histograms(60, 4)
    y = np.sin(20 * X[:, 0])
    optimizer = Optimizer("exact", max_steps=30)
    for kernel in (make(), make(weights="ard"), make(transform=Power(1.0))):
        model = HistogramGPRegressor(kernel, normalize_y=False, optimize=optimizer, random_state=0).fit(X, y)
        start = HistogramGPRegressor(clone(kernel).set_params(weights=None), noise=0.1, normalize_y=False).fit(X, y)
        assert model.log_marginal_likelihood_ > start.log_marginal_likelihood(method="exact") + 1


@pytest.mark.parametrize("parameters", [{"beta": 0}, {"scale": -1.0}, {"unit": "median"}, {"beta": "1"}])
def test_parameters_that_make_no_sense_are_refused(parameters):
    with pytest.raises(ValueError, match=f"{next(iter(parameters))} must be a number above 0"):
        HistogramGPRegressor(Laplacian(**parameters), noise=0.1, normalize_y=False).fit(SIGNED, SIGNED[:, 0])


def test_too_many_samples_are_refused_before_the_work_starts(monkeypatch):
    monkeypatch.setattr(pair_operators, "MOST_EXACT_SAMPLES", 20)
    monkeypatch.setattr(pair_operators, "MOST_SINGLE_SAMPLES", 30)
    monkeypatch.setattr(HeightsKernel, "points", None)
    with pytest.raises(ValueError, match="for which 40 samples are too many: learn from at most 30 of them"):
        HistogramGPRegressor(Laplacian(unit=1.0, approximation="exact"), noise=0.1, normalize_y=False).fit(
            SIGNED, SIGNED[:, 0]
        )


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        ("indptr", 0, 1),
        ("indptr", 3, 10**9),
        ("indptr", -1, 0),
        ("column_of", 2, 5),
        ("column_of", 1, 0),
        ("values", 3, 0.0),
    ],
)
def test_a_damaged_state_is_refused(name, entry, value):
    rows, state = Rows.from_array(np.abs(SIGNED) + 1), State()
    rows.to_state(state)
    np.testing.assert_array_equal(Rows.from_state(state, 40, 5).to_dense(), rows.to_dense())
    state.arrays[name] = state.arrays[name].copy()
    state.arrays[name][entry] = value
    with pytest.raises(ModelFileError, match="its samples "):
        Rows.from_state(state, 40, 5)


@pytest.mark.parametrize("density", [1.0, 0.7, 0.3, 0.0])
def test_mean_differences_are_those_of_all_pairs(density):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < density)
    expected = np.abs(values[:, None] - values[None]).sum(axis=(0, 1)) / (40 * 39)
    close(mean_differences(Rows.from_array(values)), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_derivatives_for_weights_know_negative_heights(dtype):
    """Below zero the intersection is that of sizes, as Brownian motion goes on to the left; one value is far away."""
    rng = np.random.default_rng(0)
    values, upstream, start = rng.normal(size=(9, 3)), rng.normal(size=(9, 9)), np.array([0.7, 1.1, 0.9])
    values[2, 0] = -1e3
    upstream += upstream.T
    parts = [HistogramIntersection(scale=0.5), Laplacian(unit=1.0), Gaussian(unit=1.0), Constant(0.5)]

    def dense_value(weights):
        h = values * weights
        smaller = np.minimum(np.abs(h)[:, None], np.abs(h)[None]) * (h[:, None] * h[None] > 0)
        away = h[:, None] - h[None]
        K = 0.5 * smaller.sum(axis=2) + np.exp(-np.abs(away).sum(axis=2)) + np.exp(-(away**2).sum(axis=2)) + 0.5
        return np.sum(upstream * K)

    one = kernel_operator(values, Sum(parts, weights=start))
    close(np.sum(upstream * one.matrix()), dense_value(start), rtol=1e-12)
    one = one if dtype == np.float64 else one.in_single()
    found = one.matrix_gradient(upstream.astype(dtype), None)["weights"]
    expected = [(dense_value(start + step) - dense_value(start - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == np.float64 else 1e-3, atol=1e-3)
