"""Files that were written once load forever: what they hold answers by dense formulas, whatever wrote them."""

from pathlib import Path

import numpy as np
import pytest
from golden_models import (
    COPIES,
    GOLDEN,
    MANY,
    NAMES,
    NOISE,
    PREPARED,
    REPEATED,
    REPEATED_NAMES,
    TEST,
    VALUES,
    WEIGHTS,
    X,
)
from mutations import packed
from oracles import alike
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics.pairwise import additive_chi2_kernel, chi2_kernel

import histogp
from histogp.io import container

FOLDER = Path(__file__).parents[1] / "golden"
pytestmark = pytest.mark.portable


def golden(name):
    return histogp.load(FOLDER / f"{name}.histogp")


def intersection(A, B, weights=1.0):
    return (weights * np.minimum(A[:, None], B[None])).sum(axis=2)


def chi2(A, B):
    """``sum_d 2 x y / (x + y)``, by scikit-learn's ``-sum_d (x - y)^2 / (x + y)``."""
    return (A.sum(axis=1)[:, None] + B.sum(axis=1) + additive_chi2_kernel(A, B)) / 2


def exp_chi2(A, B):
    return chi2_kernel(A, B, gamma=1.0)  # half of beta


def mean(kernel, targets, noise=NOISE, train=X, test=TEST):
    """``k(x)^T (K + noise)^-1 y`` for the test rows."""
    return kernel(test, train) @ np.linalg.solve(kernel(train, train) + noise * np.eye(len(train)), targets)


def variance(kernel, noise=NOISE, train=X, test=TEST):
    cross = kernel(test, train)
    explained = cross * np.linalg.solve(kernel(train, train) + noise * np.eye(len(train)), cross.T).T
    return kernel(test, test).diagonal() - explained.sum(axis=1)


def test_every_file_is_known():
    assert {path.stem for path in FOLDER.glob("*.histogp")} == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_file_says_what_it_holds_and_can_be_saved_again(name, tmp_path):
    facts = histogp.describe(FOLDER / f"{name}.histogp")
    model = golden(name)
    assert facts["class"] == type(model).__name__
    assert facts["notes"] == GOLDEN[name][1].get("notes", [])
    model.save(tmp_path / "again", **GOLDEN[name][1])
    assert type(histogp.load(tmp_path / "again")) is type(model)


def test_classifier():
    model = golden("classifier")
    np.testing.assert_array_equal(model.classes_, np.unique(NAMES))
    expected = mean(intersection, np.where(NAMES[:, None] == np.unique(NAMES), 1.0, -1.0))
    np.testing.assert_allclose(model.decision_function(TEST), expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(TEST), np.unique(NAMES)[expected.argmax(axis=1)])
    further = model.partial_fit(TEST, ["bee"] * len(TEST))
    both, names = np.concatenate([X, TEST]), np.concatenate([NAMES, ["bee"] * len(TEST)])
    targets = np.where(names[:, None] == np.unique(names), 1.0, -1.0)
    # The solver goes on to its tolerance, a hundredth of the targets.
    np.testing.assert_allclose(further.decision_function(TEST), mean(intersection, targets, train=both), atol=0.02)


def test_classifier_without_training_samples():
    model = golden("classifier-predicts")
    expected = mean(intersection, np.where(MANY[:, 0] > MANY[:, 1], 1.0, -1.0), train=MANY)
    assert np.all(np.abs(model.decision_function(TEST) - expected) <= model.quantization_error_bound() + 1e-9)
    # Their error is known as a root mean square: single ones are further off.
    precise = variance(intersection, train=MANY)
    np.testing.assert_allclose(
        model.predict_variance(TEST, "calibrated", include_noise=False), precise, rtol=4 * model.variance_error_
    )
    np.testing.assert_array_equal(model.predict_proba(TEST)[:, 1] > 0.5, model.decision_function(TEST) > 0)
    with pytest.raises(ValueError, match="without its training samples"):
        model.set_params(prediction="exact").predict(TEST)


def test_regressor_with_variances():
    model = golden("regressor")

    def roots(A, B):
        return intersection(A**0.5, B**0.5)

    center, unit = VALUES.mean(), VALUES.std()
    np.testing.assert_allclose(model.predict(TEST), mean(roots, (VALUES - center) / unit) * unit + center, rtol=1e-9)
    precise = variance(roots) * unit**2
    np.testing.assert_allclose(model.predict_variance(TEST, include_noise=False), precise, rtol=1e-6)
    assert set(model.posterior_.prepared) == {"sampled", "coarse-quantized"}
    for bound in ("fine", "coarse-quantized"):
        assert np.all(model.predict_variance(TEST, bound, include_noise=False, **PREPARED[bound]) >= precise - 1e-9)
    # Four draws: a relative error of sqrt(2 / 4) each.
    assert 0.2 < np.median(model.predict_variance(TEST, "sampled", include_noise=False, n_samples=4) / precise) < 3


def test_optimized_regressor():
    model = golden("regressor-optimized")
    assert len(model.optimization_path_["noise"]) > 1
    weights = model.kernel_.weights

    def weighted(A, B):
        return intersection(A, B, weights)

    np.testing.assert_allclose(model.predict(TEST), mean(weighted, VALUES, model.noise_), rtol=1e-6, atol=1e-9)


def test_samples_that_are_equal():
    model = golden("equal-samples")
    rows, names, weights = (np.delete(one, 1, axis=0) for one in (REPEATED, REPEATED_NAMES, COPIES))
    np.testing.assert_array_equal(model.ids_, np.delete(np.arange(24), 1))
    classes = np.unique(names)
    shares = np.array([weights[names == name].sum() for name in classes]) / weights.sum()
    for k, name in enumerate(classes):
        side = np.where(names == name, shares[k], 1 - shares[k])
        targets = np.where(names == name, 1.0, -1.0)
        A = intersection(rows, rows) + np.diag(2 * NOISE * side / weights)
        np.testing.assert_allclose(model.alpha_[:, k], np.linalg.solve(A, targets), rtol=1e-6)
        expected = intersection(TEST, rows) @ np.linalg.solve(A, targets)
        np.testing.assert_allclose(model.decision_function(TEST)[:, k], expected, atol=1e-9)
    found, labels, _ = model.posterior_.training_data()
    np.testing.assert_array_equal(found.toarray(), rows)
    np.testing.assert_array_equal(labels, names)
    assert model.partial_fit(rows[:2], names[:2]).n_samples_ == 25
    assert model.n_nonzeros_ == np.count_nonzero(np.unique(rows, axis=0))


def test_one_class():
    model = golden("one-class")
    expected = mean(intersection, np.ones(len(X)))
    np.testing.assert_allclose(model.score_samples(TEST), expected, rtol=1e-9)
    np.testing.assert_array_equal(model.predict(TEST), np.where(expected < model.offset_, -1, 1))


@pytest.mark.parametrize("name", ["chi2", "chi2-predicts", "exp-chi2"])
def test_features_approximate_their_kernel(name):
    # Three terms for each feature are good to half a percent; random ones to a tenth.
    kernel, tol = (exp_chi2, 0.1) if name == "exp-chi2" else (chi2, 0.03)
    np.testing.assert_allclose(golden(name).predict(TEST), mean(kernel, VALUES), atol=tol * np.abs(VALUES).max())


def absolute(A, B):
    return np.abs(A[:, None] - B[None]).sum(axis=2)


def four_parts(A, B):
    A, B = WEIGHTS * np.sqrt(A), WEIGHTS * np.sqrt(B)
    squared = ((A[:, None] - B[None]) ** 2).sum(axis=2)
    return 0.5 * intersection(A, B) + np.exp(-2 * absolute(A, B) / 0.7) + np.exp(-squared / 0.5) + 0.3


def two_blocks(A, B):
    return intersection(A[:, [0, 2]], B[:, [0, 2]]) + 2 * intersection(A[:, [1]] ** 0.5, B[:, [1]] ** 0.5) + 0.3


def three_operators(A, B):
    return intersection(A, B) + np.exp(-absolute(A, B) / 0.7) + 0.3


EXACT = {
    "exp-chi2-exact": exp_chi2,
    "sum": four_parts,
    "sum-of-blocks": two_blocks,
    "sum-of-operators": three_operators,
}


@pytest.mark.parametrize("name", EXACT)
def test_kernels_of_pairs_and_sums(name):
    model, kernel = golden(name), EXACT[name]
    np.testing.assert_allclose(model.predict(TEST), mean(kernel, VALUES), rtol=1e-7)
    np.testing.assert_allclose(model.predict_variance(TEST, include_noise=False), variance(kernel), rtol=1e-6)
    both, values = np.concatenate([X, TEST]), np.concatenate([VALUES, np.ones(len(TEST))])
    model.set_params(tol=1e-10).partial_fit(TEST, np.ones(len(TEST)))
    np.testing.assert_allclose(model.predict(TEST), mean(kernel, values, train=both), rtol=1e-6)


def test_a_sum_that_only_predicts():
    """From support samples, in single precision."""
    model = golden("sum-predicts")
    np.testing.assert_allclose(model.predict(TEST), mean(four_parts, VALUES), atol=1e-5)
    with pytest.raises(ValueError, match="without its training samples"):
        model.predict_variance(TEST)


def test_landmarks():
    """The features of a file are those of its landmarks, with or without training samples."""
    _, arrays = container.read(FOLDER / "landmarks.histogp")
    sizes = np.diff(arrays["value.landmarks.indptr"])
    Z = np.zeros((len(sizes), X.shape[1]))
    Z[np.repeat(np.arange(len(Z)), sizes), arrays["value.landmarks.column_of"]] = arrays["value.landmarks.values"]

    def kernel(A, B):
        k = lambda A, B: np.exp(-absolute(A, B) / 0.7)  # noqa: E731
        return k(A, Z) @ np.linalg.solve(k(Z, Z), k(Z, B))

    for name in ("landmarks", "landmarks-predict"):
        model = golden(name)
        np.testing.assert_allclose(model.predict(TEST), mean(kernel, VALUES), rtol=1e-7)
        # What landmarks leave of the prior is in the variance, too.
        left = 1 - kernel(TEST, TEST).diagonal()
        found = model.predict_variance(TEST, include_noise=False)
        np.testing.assert_allclose(found, variance(kernel) + left, rtol=1e-6, atol=1e-9)


def test_a_sum_that_was_found():
    model = golden("sum-found")
    assert len(model.optimization_path_["loss"]) > 1
    parts = model.kernel_.named_parts()
    laplacian = parts["laplacian"]

    def kernel(A, B):
        distances = absolute(A, B) * laplacian.beta / laplacian.unit
        return parts["histogram_intersection"].scale * intersection(A, B) + laplacian.scale * np.exp(-distances)

    targets = np.where(NAMES[:, None] == np.unique(NAMES), 1.0, -1.0)
    expected = mean(kernel, targets, model.noise_)
    np.testing.assert_allclose(model.decision_function(TEST), expected, atol=1e-9)


def waves(document, arrays):
    """The random features of a file from when these were all that there was, as a function of rows."""

    def evaluate(A):
        remainder, terms = 1.0, []
        for k in arrays["value.additive.points"]:
            terms.append(remainder * 2 * np.sqrt(k) * A / (A + k))
            remainder = remainder * (A - k) / (A + k)
        angles = np.hstack(terms) @ arrays["value.frequencies"]
        weight = document["kernel"]["parameters"]["weights"]
        scale = np.sqrt((1.0 if weight is None else weight) / angles.shape[1])
        return scale * np.hstack([np.cos(angles), np.sin(angles)])

    return evaluate


@pytest.mark.parametrize("weight", [None, 2.5])
def test_random_features_of_a_file_stay(weight, tmp_path):
    """The kernel has a scale now in place of a weight, and is exact if nobody says otherwise."""
    document, arrays = container.parse((FOLDER / "exp-chi2.histogp").read_bytes())
    for parameters in (document["kernel"]["parameters"], document["parameters"]["kernel"]["parameters"]):
        assert parameters["weights"] is None
        parameters["weights"] = weight
    phi = waves(document, arrays)

    def products(A, B):
        return phi(A) @ phi(B).T

    # The solution that goes with the weight.
    arrays = {**arrays, "alpha": np.linalg.solve(products(X, X) + NOISE * np.eye(len(X)), VALUES)[:, None]}
    (tmp_path / "m").write_bytes(packed(document, arrays, tmp_path))
    model = histogp.load(tmp_path / "m")
    for kernel in (model.kernel, model.kernel_):
        assert (kernel.scale, kernel.approximation) == (weight or 1.0, "fourier")
    model.save(tmp_path / "again")
    for one in (model, histogp.load(tmp_path / "again")):
        np.testing.assert_allclose(one.predict(TEST), mean(products, VALUES), rtol=1e-8)
        found, covariance = one.predict(TEST, return_cov=True)
        np.testing.assert_allclose(found, mean(products, VALUES), rtol=1e-8)
        np.testing.assert_allclose(covariance.diagonal(), variance(products) + NOISE, rtol=1e-6)
        cross = products(TEST, X)
        expected = products(TEST, TEST) - cross @ np.linalg.solve(products(X, X) + NOISE * np.eye(len(X)), cross.T)
        np.testing.assert_allclose(covariance, expected + NOISE * np.eye(len(TEST)), atol=1e-8)
        np.testing.assert_allclose(one.predict_variance(TEST, include_noise=False), variance(products), rtol=1e-6)
        one.partial_fit(TEST, np.ones(len(TEST)))
        assert one.kernel_.approximation == "fourier"
        assert one._posterior.operator.n_components == 256


def test_without_training_samples_features_predict_as_with_them():
    alike(golden("chi2-predicts").predict(TEST), golden("chi2").predict(TEST))
    alike(golden("chi2-predicts").predict_variance(TEST), golden("chi2").predict_variance(TEST))


def test_ridge():
    expected = Ridge(alpha=0.5).fit(np.sqrt(X), VALUES)
    model = golden("ridge")
    np.testing.assert_allclose(model.predict(TEST), expected.predict(np.sqrt(TEST)), rtol=1e-9)
    both = Ridge(alpha=0.5).fit(np.sqrt(np.concatenate([X, TEST])), np.concatenate([VALUES, np.ones(len(TEST))]))
    model.partial_fit(TEST, np.ones(len(TEST)))
    np.testing.assert_allclose(model.predict(X), both.predict(np.sqrt(X)), rtol=1e-9)


def test_ridge_classifier():
    expected = RidgeClassifier(alpha=0.5).fit(X, NAMES)
    np.testing.assert_allclose(golden("ridge-classifier").decision_function(TEST), expected.decision_function(TEST))
    np.testing.assert_array_equal(golden("ridge-classifier").predict(TEST), expected.predict(TEST))


def test_components():
    _, _, vectors = np.linalg.svd(X - X.mean(axis=0))
    expected = (TEST - X.mean(axis=0)) @ vectors[:2].T
    np.testing.assert_allclose(np.abs(golden("components").transform(TEST)), np.abs(expected), atol=1e-9)


def test_statistics():
    found = golden("statistics")
    np.testing.assert_allclose(found.gram, X.T @ X)
    np.testing.assert_allclose(found.cross[:, 0], X.T @ VALUES)
    assert found.count == len(X)


def set_entry(name, at, value):
    return lambda _, arrays: arrays[name].__setitem__(at, value)


def set_array(name, make):
    return lambda _, arrays: arrays.__setitem__(name, make(arrays[name]))


def of_prepared(name, **values):
    return lambda document, _: document["prepared"][name].update(values)


FORGED = [
    ("regressor", lambda d, _: d.update(prepared=3), "'prepared' is damaged"),
    ("regressor", lambda d, _: d["prepared"].update(other={}), "what it has prepared is damaged"),
    ("regressor", lambda d, _: d["prepared"].update(sampled=3), r"'prepared\.sampled' is damaged"),
    ("regressor", of_prepared("sampled", n_samples=0), r"prepared\.sampled\.n_samples"),
    ("regressor", of_prepared("sampled", n_samples=10**12), r"prepared\.sampled\.table"),
    ("regressor", of_prepared("sampled", extra=1), r"unknown entry 'prepared\.sampled\.extra'"),
    ("regressor", set_entry("prepared.sampled.spreads", 0, -1.0), "values below 0"),
    ("regressor", set_entry("prepared.sampled.starts", 1, 2**62), "nodes of its table are damaged"),
    ("regressor", set_entry("prepared.sampled.heights", 1, 1e9), "nodes of its table are damaged"),
    ("regressor", of_prepared("coarse-quantized", n_bins=7), r"prepared\.coarse-quantized\.values"),
    ("regressor", of_prepared("coarse-quantized", n_bins=2**52), r"prepared\.coarse-quantized\.values"),
    ("regressor", of_prepared("coarse-quantized", n_bins=None), r"prepared\.coarse-quantized\.n_bins"),
    ("regressor", set_entry("prepared.coarse-quantized.per_bin", 0, -1.0), "values below 0"),
    ("regressor", of_prepared("spectrum", n_vectors=-1), r"prepared\.spectrum\.n_vectors"),
    ("regressor", set_entry("prepared.spectrum.ceilings", 0, 0.0), "eigenvectors are damaged"),
    ("regressor", set_entry("prepared.spectrum.values", 0, 0.0), "eigenvectors are damaged"),
    ("regressor", set_array("prepared.spectrum.vectors", lambda a: a[:-1]), r"prepared\.spectrum\.vectors"),
    ("regressor", lambda _, a: a.update(feature_weights=np.zeros((3, 1))), "weights are not those of its kernel"),
    ("classifier-predicts", set_entry("prepared.calibrated.left_out", 0, 300), "left-out samples do not exist"),
    ("classifier-predicts", set_array("prepared.calibrated.table", lambda a: a[:, :0]), "its table is damaged"),
    (
        "classifier-predicts",
        set_array("prepared.calibrated.weights", lambda a: a[:2]),
        r"prepared\.calibrated\.weights",
    ),
    ("classifier-predicts", set_entry("prepared.calibrated.error", 0, -1.0), "values below 0"),
    ("classifier-predicts", set_entry("temperature", 0, -1.0), "'temperature' has values below 0"),
    ("classifier-predicts", set_array("prepared.calibrated.left_out", lambda a: a[::-1]), "are not in order"),
    ("equal-samples", set_entry("samples.row_of", 0, -1), r"samples\.row_of"),
    ("equal-samples", set_entry("samples.row_of", 0, 23), "the rows of its samples are damaged"),
    ("equal-samples", set_entry("samples.row_of", 0, 2**62), "the rows of its samples are damaged"),
    ("equal-samples", set_array("samples.row_of", lambda a: a * 2 % 22), "the rows of its samples are damaged"),
    ("equal-samples", set_array("samples.row_of", lambda a: a[:-1]), r"samples\.row_of"),
    ("equal-samples", lambda _, a: a.pop("samples.row_of"), "alpha"),
    ("chi2", set_array("feature_weights", lambda a: a[:-1]), "feature_weights"),
    ("chi2-predicts", set_entry("features.factor", (0, 0), 0.0), "factor of its features is damaged"),
    ("chi2-predicts", set_array("features.weights", lambda a: a[:-1]), r"features\.weights"),
]


@pytest.mark.parametrize("case", range(len(FORGED)))
def test_forged_contents_with_a_valid_checksum(case, tmp_path):
    name, change, message = FORGED[case]
    document, arrays = container.read(FOLDER / f"{name}.histogp")
    change(document, arrays)
    (tmp_path / "forged").write_bytes(packed(document, arrays, tmp_path))
    with pytest.raises(histogp.ModelFileError, match=message) as caught:
        histogp.load(tmp_path / "forged")
    assert "is not an intact histogp model: " in str(caught.value)
