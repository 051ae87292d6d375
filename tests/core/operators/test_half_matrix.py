"""One half of a matrix in single precision, against the matrix of the kernel."""

import pickle

import numpy as np
import pytest
from kernel_operators import kernel_operator
from oracles import close, histograms
from scipy import sparse

from core.operators.test_pair_kernels import formula
from histogp import (
    ApproximationWarning,
    HistogramGPClassifier,
    HistogramGPOneClass,
    HistogramGPRegressor,
    VarianceWarning,
    load,
)
from histogp._core import probability as left_out
from histogp._core.data import Rows
from histogp._core.operators import half_matrix, pair_operators
from histogp._core.operators.half_matrix import HalfMatrix, half_bytes
from histogp._core.operators.pair_operators import DenseOperator, HalfOperator
from histogp._core.solvers import problem
from histogp._core.solvers.iterative import IterativeSystem, solve_cg
from histogp._core.solvers.preconditioner import make_preconditioner
from histogp._core.variance import nearest
from histogp.kernels import Constant, Gaussian, HistogramIntersection, Laplacian, Sum

N, D, NOISE = 70, 6, 0.2
X, TEST = histograms(N, D), histograms(9, D, seed=4)
LABELS = np.argmax(X[:, :3], axis=1)
# Of entries of the matrix, relative to the largest one.
ROUNDING = 1e-6
KERNELS = {
    "one": Laplacian(unit=0.7),
    "sum": Sum(
        [HistogramIntersection(scale=0.5), Laplacian(unit=0.7), Gaussian(unit=0.4), Constant(0.3)],
        weights=np.linspace(0.5, 2, D),
    ),
    "apart": Laplacian(unit=0.7, columns=slice(3)) + Gaussian(unit=0.4, columns=slice(3, None)),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Several tiles of several pieces, of which the last are not full; single precision from 51 samples on."""
    monkeypatch.setattr(half_matrix, "SIDE", 16)
    monkeypatch.setattr(half_matrix, "PIECE_ROWS", 5)
    monkeypatch.setattr(pair_operators, "MOST_EXACT_SAMPLES", 50)


@pytest.fixture
def no_factors(monkeypatch):
    """Samples count as many."""
    monkeypatch.setattr(problem, "MOST_DENSE_SAMPLES", 10)
    monkeypatch.setattr(problem, "LARGEST_FACTOR", 10)
    monkeypatch.setattr(left_out, "FEWEST_SAMPLES", 10)


def half_operator(rows, kernel, n_threads=1):
    operator = kernel_operator(rows, kernel.set_params(approximation="exact"), n_threads)
    assert isinstance(operator, HalfOperator)
    return operator


def model(**options):
    kernel = KERNELS["sum"].set_params(approximation="single")
    return HistogramGPClassifier(**{"kernel": kernel, "noise": NOISE, "tol": 1e-7} | options)


@every_kernel
@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_it_is_the_matrix_up_to_rounding(kernel, n_threads, make):
    K, V = formula(X, X, kernel), np.random.default_rng(0).standard_normal((N, 3))
    operator = half_operator(make(X), kernel, n_threads)
    whole = operator.matrix()
    assert operator.half().tiles[0][0].dtype == np.float32
    close(whole, K, rtol=ROUNDING)
    np.testing.assert_array_equal(whole, whole.T)
    of_products = np.abs(K).max() * np.abs(V).sum(axis=0)
    close(operator.matmat(V), whole @ V, of_products, rtol=1e-13)  # the rounded one is the model
    close(operator.matmat(V, "single"), K @ V, of_products, rtol=ROUNDING)
    for index in ([3, 20, -1, 3], [69], []):
        columns = operator.columns(np.array(index, int))
        np.testing.assert_array_equal(columns, whole[:, index])
        np.testing.assert_array_equal(operator.columns(np.array(index, int), "single") * operator.scale, columns)
    close(
        operator.table(V).evaluate(Rows.from_array(TEST), 2), formula(TEST, X, kernel) @ V, of_products, rtol=ROUNDING
    )
    close(operator.diagonal(), K.diagonal())
    close(operator.cross(Rows.from_array(TEST)), formula(TEST, X, kernel))


@every_kernel
def test_derivatives_are_asked_of_the_kernel_itself(kernel):
    half = half_operator(X, kernel)
    with pytest.raises(ValueError, match="on some samples"):
        half.gradient(np.ones((N, 1)), np.ones((N, 1)))
    for name, expected in DenseOperator(half.rows, half.kernel).trace_gradient().items():
        close(half.trace_gradient()[name], expected)
    other = half.with_kernel(half.kernel.scaled(2.0))
    close(other.matrix(), 2 * formula(X, X, kernel), rtol=ROUNDING)


def test_the_diagonal_is_not_made_of_distances():
    """Distances of zero come out as roundings, which a narrow kernel sees."""
    rows = 1 + 0.01 * np.random.default_rng(0).standard_normal((N, D))
    operator = half_operator(rows, Gaussian(unit=1e-3))
    np.testing.assert_array_equal(operator.matrix().diagonal(), np.ones(N))


def test_the_error_is_measured():
    """A kernel of narrow clusters far from zero rounds a hundred times as much as others."""
    rng = np.random.default_rng(0)
    clustered = rng.integers(0, 3, (N, 1)) + 1e-3 * rng.standard_normal((N, 2))
    for rows, unit, most in ((X, 0.7, 1e-6), (clustered, 1e-3, 1e-2)):
        kernel = Gaussian(unit=unit)
        operator, K = half_operator(rows, kernel), formula(rows, rows, kernel)
        expected = np.linalg.norm(operator.matrix() - K) / np.linalg.norm(K)
        assert operator.approximation_error() == pytest.approx(max(expected, np.finfo(np.float32).eps), rel=0.01)
        assert expected < most


def test_samples_that_come_and_go():
    operator = half_operator(X[:60], KERNELS["one"])
    operator.half()
    longer = operator.extend(Rows.from_array(X[60:]))
    close(longer.matrix(), formula(X, X, KERNELS["one"]), rtol=ROUNDING)
    fewer = longer.remove([0, 5])
    close(fewer.matrix(), formula(*[np.delete(X, [0, 5], axis=0)] * 2, KERNELS["one"]), rtol=ROUNDING)
    assert isinstance(longer.remove(np.arange(30)), DenseOperator)


@pytest.mark.parametrize("noise", [4e-6, 1e-5, 2e-5, 1e-4, 1e-3])
def test_noise_near_the_rounding_of_the_matrix(noise):
    """Products in single precision would lead the iteration astray; predictions are summed up in double precision."""
    rows = np.random.default_rng(0).standard_normal((900, 2))
    kernel = Gaussian(unit=3.0)
    K = formula(rows, rows, kernel)
    sides = np.column_stack([np.where(rows[:, 0] > limit, 1.0, -1.0) for limit in (-1, 0, 1)])
    operator = half_operator(rows, kernel)
    given = problem.Noise(np.full(len(rows), noise))
    found = solve_cg(
        operator,
        given,
        sides,
        tol=1e-2,
        max_iter=300,
        preconditioner=make_preconditioner(
            operator, given, 3, problem.SolverOptions(preconditioner_rank=100), np.random.default_rng(0)
        ),
    )
    assert found.converged
    assert found.n_iterations < 100
    means = operator.table(found.values).evaluate(operator.rows)
    close(means, K @ found.values, np.abs(K @ np.abs(found.values)).max(), rtol=3e-8)


def test_a_larger_kernel_value_is_another_unit():
    kernel = HistogramIntersection() + Laplacian(unit=0.7)
    operator = half_operator(X[:60], kernel)
    operator.half()
    more = 9 * X[60:]
    longer = operator.extend(Rows.from_array(more))
    assert longer.scale > operator.scale
    everything = np.vstack([X[:60], more])
    close(longer.matrix(), formula(everything, everything, kernel), rtol=ROUNDING)


def test_it_takes_two_bytes_a_pair_and_goes_when_released(monkeypatch):
    operator = half_operator(X, KERNELS["one"])
    monkeypatch.setattr(half_matrix, "SIDE", 4)
    n_bytes = sum(tile.nbytes for row in operator.half().tiles for tile in row)
    assert half_bytes(N) <= n_bytes <= half_bytes(N) + 2 * 4 * N
    copied = pickle.loads(pickle.dumps(operator))
    assert copied._half is None
    close(copied.matrix(), operator.matrix())
    first = operator.half()
    operator.release()
    assert operator.half() is not first


@pytest.mark.usefixtures("no_factors")
def test_a_model_with_it_is_that_of_the_matrix(tmp_path, monkeypatch):
    found = model().fit(X, LABELS)
    assert isinstance(found._posterior.operator, HalfOperator)
    assert found.n_iter_ > 1
    assert found.approximation_ == {"float32": np.finfo(np.float32).eps}
    with monkeypatch.context() as changed:
        changed.setattr(pair_operators, "MOST_EXACT_SAMPLES", N)
        expected = model().fit(X, LABELS)
    found.save(tmp_path / "model")
    for one in (found, load(tmp_path / "model")):
        close(one.decision_function(TEST), expected.decision_function(TEST), rtol=1e-5)
        close(one.predict_variance(TEST), expected.predict_variance(TEST), rtol=1e-5)
        # All training samples are nearest ones.
        close(one.predict_variance(TEST, "auto"), expected.predict_variance(TEST), rtol=1e-6)
        close(one.predict_proba(TEST), found.predict_proba(TEST))
        close(one.novelty(TEST), expected.novelty(TEST), rtol=1e-6)
    assert found.posterior_.quick_method == "nearest"


@pytest.mark.usefixtures("no_factors")
@pytest.mark.parametrize("weights", [None, "balanced-ovr"])
@pytest.mark.parametrize("probability", ["link", "temperature"])
def test_probabilities_are_fitted_to_samples_that_are_left_out_together(monkeypatch, weights, probability):
    monkeypatch.setattr(left_out, "LEFT_OUT_PART", 2)
    monkeypatch.setattr(left_out, "LEFT_OUT_TOL", 1e-8)
    found = model(class_weight=weights, probability=probability).fit(X, LABELS)
    posterior = found._posterior
    assert posterior.operator._half is None
    found.predict_proba(TEST)
    assert posterior.operator._half is None  # what was needed of the matrix is there
    rows = left_out.leave_rows_out(posterior, found._variance_options())
    rest = np.setdiff1d(np.arange(N), rows.index)
    assert len(rows.index) == N // 2
    K = formula(X, X, KERNELS["sum"])
    diagonals = np.broadcast_to(posterior.noise.diagonals(), posterior.targets.shape)
    for output, (diagonal, targets) in enumerate(zip(diagonals.T, posterior.targets.T, strict=True)):
        alpha = np.linalg.solve(K[np.ix_(rest, rest)] + np.diag(diagonal[rest]), targets[rest])
        close(rows.means[:, output], K[np.ix_(rows.index, rest)] @ alpha, 1.0, rtol=1e-5)
    fit = {"link": left_out.fit_link, "temperature": left_out.fit_temperature}[probability]
    expected = fit(rows.means, LABELS[rows.index], np.ones(len(rows.index)))
    value = posterior.lazy.present(probability)
    if probability == "link":
        value, expected = (np.array([one.temperature, one.bend]) for one in (value, expected))
    close(value, expected, rtol=1e-4)


@pytest.mark.usefixtures("no_factors")
def test_updates_go_from_one_matrix_to_the_other(monkeypatch):
    changing = model().fit(X[:45], LABELS[:45])
    with pytest.warns(ApproximationWarning, match=r"With 60 distinct training samples the kernel is .*float32"):
        changing.partial_fit(X[45:60], LABELS[45:60])
    changing.partial_fit(X[60:], LABELS[60:]).relabel([3], [0])
    labels = np.where(np.arange(N) == 3, 0, LABELS)
    close(changing.decision_function(TEST), model().fit(X, labels).decision_function(TEST), rtol=1e-5)
    changing.forget([3, 68])
    kept = np.delete(np.arange(N), [3, 68])
    close(changing.decision_function(TEST), model().fit(X[kept], LABELS[kept]).decision_function(TEST), rtol=1e-5)
    with pytest.warns(ApproximationWarning, match="With 48 distinct training samples the kernel is exact"):
        changing.forget(np.arange(4, 24))
    monkeypatch.setattr(pair_operators, "MOST_SINGLE_SAMPLES", 60)
    with pytest.warns(ApproximationWarning, match=r"With 68 .*approximated \(nystroem\)"):
        changing.partial_fit(X[4:24], LABELS[4:24])  # "single" goes on with landmarks


@pytest.mark.usefixtures("no_factors")
def test_it_is_solved_by_iteration_with_a_preconditioner():
    """Rows that vary on a line have a kernel with few large eigenvalues."""
    rows = np.linspace(0, 1, 600)[:, None] * np.ones(3)
    kernel = Laplacian(unit=5.0, approximation="single")
    found = HistogramGPClassifier(kernel, noise=1e-3, preconditioner_rank=50).fit(rows, rows[:, 0] > 0.4)
    assert found.preconditioner_rank_ == 50
    assert found._posterior.operator.column_cost == 600  # numbers that are there
    plain = HistogramGPClassifier(kernel, noise=1e-3, preconditioner_rank=0).fit(rows, rows[:, 0] > 0.4)
    assert found.n_iter_ < plain.n_iter_ / 2
    assert isinstance(found._posterior.system(1, found._solver_options()), IterativeSystem)


@pytest.mark.parametrize("n_neighbors", [1, 12, 200])
@pytest.mark.parametrize("matrices", [1, 3])
def test_the_nearest_samples_bound_the_variance(monkeypatch, n_neighbors, matrices):
    monkeypatch.setattr(nearest, "NEIGHBORS", n_neighbors)
    kernel = KERNELS["sum"]
    operator = half_operator(X, kernel)
    noise = np.random.default_rng(0).uniform(0.1, 0.5, (N, matrices))
    K, k, prior = formula(X, X, kernel), formula(TEST, X, kernel), formula(TEST, TEST, kernel).diagonal()

    def left(row, index, diagonal):
        return row[index] @ np.linalg.solve(K[np.ix_(index, index)] + np.diag(diagonal[index]), row[index])

    found = nearest.nearest_variance(operator, noise, Rows.from_array(TEST))
    of_training = nearest.nearest_variance(operator, noise, operator.rows.take([5, 9]), np.array([5, 9]))
    for m, diagonal in enumerate(noise.T):
        for i, row in enumerate(k):
            best = np.argsort(-(row**2) / (K.diagonal() + noise.min(axis=1)))[:n_neighbors]
            close(found[i, m], prior[i] - left(row, best, diagonal), prior[i])
            assert found[i, m] >= prior[i] - left(row, np.arange(N), diagonal) - 1e-12
        for place, i in enumerate((5, 9)):
            others = np.delete(np.arange(N), i)
            least = K[i, i] - left(K[i], others, diagonal)
            assert of_training[place, m] >= least - 1e-12
            if n_neighbors > N:
                close(of_training[place, m], least, K[i, i])


def test_one_sample_has_no_neighbors():
    operator = DenseOperator(Rows.from_array(X[:1]), half_operator(X, KERNELS["one"]).kernel)
    close(nearest.nearest_variance(operator, np.ones((1, 1)), operator.rows, np.array([0])), [[1.0]])


@pytest.mark.usefixtures("no_factors")
def test_a_fit_makes_the_matrix_once(monkeypatch):
    """Whatever it does with it."""
    made = []
    original = HalfMatrix.of.__func__
    monkeypatch.setattr(HalfMatrix, "of", classmethod(lambda cls, *given: made.append(1) or original(cls, *given)))
    found = model().fit(X, LABELS)
    found.predict_proba(TEST)
    found.predict_variance(TEST, "auto")
    assert len(made) == 1


@pytest.mark.usefixtures("no_factors")
def test_who_asks_for_a_variance_gets_the_quick_one(monkeypatch):
    monkeypatch.setattr(nearest, "NEIGHBORS", 10)
    kernel = KERNELS["sum"].set_params(approximation="single")
    values = np.sin(5 * X[:, 0])
    found = HistogramGPRegressor(kernel, noise=NOISE, normalize_y=False).fit(X, values)
    quick = found.predict_variance(TEST, "nearest")
    np.testing.assert_array_equal(found.predict_variance(TEST), quick)
    close(found.predict(TEST, return_std=True)[1] ** 2, quick)
    assert np.all(quick > found.predict_variance(TEST, "precise"))
    few = HistogramGPRegressor(kernel, noise=NOISE, normalize_y=False).fit(X[:40], values[:40])
    np.testing.assert_array_equal(few.predict_variance(TEST), few.predict_variance(TEST, "precise"))


@pytest.mark.usefixtures("no_factors")
def test_it_predicts_from_a_file_without_training_samples(tmp_path):
    found = model(prediction="quantized").fit(X, LABELS)
    found.save(tmp_path / "model", include_training=False)
    restored = load(tmp_path / "model")
    np.testing.assert_array_equal(restored.predict_proba(TEST), found.predict_proba(TEST))
    close(found.decision_function(TEST), model().fit(X, LABELS).decision_function(TEST), rtol=1e-5)


@pytest.mark.parametrize("unit", [1e-200, 1e-42, 1.0, 1e60, 1e150])
def test_features_and_kernels_of_any_magnitude(unit):
    """Single precision holds neither: the matrix is in units of the kernel, vectors in their own."""
    parts = [HistogramIntersection(), Constant(unit)]
    options = {"noise": 0.1 * unit, "tol": 1e-7, "solver": "cg"}
    found = HistogramGPClassifier(Sum(parts, approximation="single"), **options).fit(X * unit, LABELS)
    assert isinstance(found._posterior.operator, HalfOperator)
    K, k = (formula(A, X, HistogramIntersection()) + 1 for A in (X, TEST))
    targets = np.where(LABELS[:, None] == np.arange(3), 1.0, -1.0)
    expected = k @ np.linalg.solve(K + 0.1 * np.eye(N), targets)
    close(found.decision_function(TEST * unit), expected, rtol=1e-5)
    close(found.predict_variance(TEST * unit, "nearest") / unit, found.predict_variance(TEST * unit) / unit, rtol=1e-6)


@pytest.mark.parametrize("options", [{"noise": 1e-6}, {"noise": 0.1, "sample_weight": 1e8}, {"scale": 1e8}])
def test_left_out_samples_say_nothing_whatever_the_noise(monkeypatch, options):
    monkeypatch.setattr(left_out, "LEFT_OUT_PART", 2)
    monkeypatch.setattr(left_out, "LEFT_OUT_TOL", 0.03)
    kernel = Laplacian(unit=0.1, scale=options.get("scale", 1.0), approximation="single")
    found = HistogramGPClassifier(kernel, noise=options.get("noise", NOISE), solver="cg", tol=1e-6)
    found.fit(X, LABELS, sample_weight=np.full(N, options.get("sample_weight", 1.0)))
    rows = left_out.leave_rows_out(found._posterior, found._variance_options())
    rest = np.setdiff1d(np.arange(N), rows.index)
    K = formula(X, X, Laplacian(unit=0.1))
    expected = K[np.ix_(rows.index, rest)] @ np.linalg.solve(K[np.ix_(rest, rest)], found._posterior.targets[rest])
    close(rows.means, expected, 1.0, rtol=0.05)  # a tolerance of scores


@pytest.mark.usefixtures("no_factors")
def test_a_part_of_a_sum_may_be_half_a_matrix():
    kernel = Sum([HistogramIntersection(), Laplacian(unit=0.7, approximation="single")], approximation="parts")
    found = HistogramGPClassifier(kernel, noise=NOISE, tol=1e-7).fit(X, LABELS)
    operator = found._posterior.operator
    assert operator.has_large_matrix
    assert operator.parts[1]._half is None  # what probabilities need is there
    K, k = (sum(formula(A, X, part) for part in (HistogramIntersection(), Laplacian(unit=0.7))) for A in (X, TEST))
    targets = np.where(LABELS[:, None] == np.arange(3), 1.0, -1.0)
    close(found.decision_function(TEST), k @ np.linalg.solve(K + NOISE * np.eye(N), targets), 1.0, rtol=1e-5)
    found.predict_proba(TEST)
    assert operator.parts[1]._half is None


def test_too_little_memory_is_told_in_words(monkeypatch):
    def fails(*given):
        raise MemoryError("Unable to allocate 16 MiB")

    monkeypatch.setattr(HalfMatrix, "of", fails)
    with pytest.raises(
        MemoryError, match=r"Half of the kernel matrix of 70 samples needs 0\.0 GB; learn from fewer, or"
    ):
        half_operator(X, KERNELS["one"]).half()


def test_less_noise_than_rounding_is_refused_in_words():
    rows = np.random.default_rng(0).normal(size=(400, 2))
    model = HistogramGPClassifier(Gaussian(unit=20.0, approximation="single"), noise=1e-8, solver="cg")
    with pytest.raises(ValueError, match="is not positive definite in float32; use a larger noise, at least about"):
        model.fit(rows, rows[:, 0] > 0)


@pytest.mark.usefixtures("no_factors")
@pytest.mark.parametrize("probability", ["temperature", "dirichlet"])
def test_no_matrix_is_kept(probability):
    found = model(solver="cg").fit(X, LABELS)
    found.set_params(probability=probability).predict_proba(TEST)
    assert found._posterior.operator._half is None
    dirichlet = found._posterior.lazy.present("dirichlet")
    assert dirichlet is None or dirichlet.posterior.operator._half is None
    inside = HistogramGPOneClass(KERNELS["sum"].set_params(approximation="single"), noise=NOISE, solver="cg").fit(X)
    assert inside._posterior.operator._half is None


@pytest.mark.filterwarnings("ignore::histogp.NotConvergedWarning")
def test_a_second_solution_that_falls_short_is_warned_of():
    with pytest.warns(VarianceWarning, match="before probabilities were clear"):
        model(solver="cg", max_iter=2, preconditioner_rank=0).fit(X, LABELS)


@pytest.mark.parametrize("rank", [0, 40])
def test_a_solution_without_some_rows(rank):
    """As if they were not there."""
    operator, K = half_operator(X, KERNELS["sum"]), formula(X, X, KERNELS["sum"])
    index, noise = np.array([3, 20, 64]), problem.Noise(np.full(N, 1e-2))
    sides = np.random.default_rng(0).standard_normal((N, 2))
    options = problem.SolverOptions(preconditioner_rank=rank)
    preconditioner = make_preconditioner(operator, noise, 2, options, np.random.default_rng(0))
    if preconditioner is not None:
        preconditioner = preconditioner.without(index)
    found = solve_cg(operator, noise, sides, tol=1e-8, max_iter=500, preconditioner=preconditioner, left_out=index)
    rest = np.delete(np.arange(N), index)
    expected = np.linalg.solve(K[np.ix_(rest, rest)] + 1e-2 * np.eye(len(rest)), sides[rest])
    assert found.converged
    assert not found.values[index].any()
    close(found.values[rest], expected, rtol=1e-4)


@pytest.mark.usefixtures("no_factors")
def test_leaving_samples_out_takes_no_more_iterations_than_learning(monkeypatch):
    """Samples with very much noise in their place would take many more."""
    counts = []

    def counted(*given, **options):
        found = solve_cg(*given, **options)
        counts.append(found.n_iterations)
        return found

    monkeypatch.setattr(left_out, "solve_cg", counted)
    rows = np.random.default_rng(0).standard_normal((600, 3))
    kernel = Sum([Laplacian(unit=2.0), Gaussian(unit=2.0)], approximation="single")
    found = HistogramGPClassifier(kernel, noise=1e-2, preconditioner_rank=60).fit(rows, rows[:, 0] > rows[:, 1])
    assert 0 < counts[0] <= found.n_iter_
