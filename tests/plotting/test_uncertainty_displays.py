"""The displays of the variance, without a screen."""

import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from oracles import histograms
from scipy import sparse
from sklearn.exceptions import NotFittedError

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.gp import VARIANCE_METHODS
from histogp.plotting import TightnessDisplay, UncertaintyDisplay

X = histograms(80, 6)
CODES = np.argmax(X[:, 1:4], axis=1)
NAMES = [f"word {k}" for k in range(6)]
METHODS = list(VARIANCE_METHODS)


@pytest.fixture(scope="module")
def regressor():
    return HistogramGPRegressor("hik", noise=0.02, normalize_y=False).fit(X, X[:, 1])


def edges(band, n):
    """Lower and upper edge of n points: the polygon goes there, back, and closes."""
    corners = band.get_paths()[0].vertices
    return corners[1 : n + 1, 1], corners[n + 2 : 2 * n + 2, 1][::-1]


def line_through(row, feature, values):
    rows = np.tile(row, (len(values), 1))
    rows[:, feature] = values
    return rows


@pytest.mark.parametrize("include_noise", [False, True])
def test_band_of_one_feature_is_mean_and_deviation_of_the_regressor(include_noise):
    x = np.concatenate([np.linspace(0.1, 1, 9), [2.0]])[:, None]
    y = np.sin(3 * x[:, 0])
    reg = HistogramGPRegressor(noise=0.05, normalize_y=True).fit(x, y)
    display = UncertaintyDisplay.from_estimator(reg, n_std=3, include_noise=include_noise, grid_resolution=21)
    values = np.linspace(0, 2.5, 21)
    np.testing.assert_allclose(display.line_.get_xdata(), values)
    mean = reg.predict(values[:, None])
    np.testing.assert_allclose(display.line_.get_ydata(), mean)
    width = 3 * np.sqrt(reg.predict_variance(values[:, None], include_noise=include_noise))
    np.testing.assert_allclose(edges(display.band_, 21), [mean - width, mean + width], atol=1e-12)
    np.testing.assert_allclose(display.points_.get_xydata(), np.column_stack([x[:, 0], y]))
    assert display.outlines_ == {}
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("feature 0", "target")
    assert "± 3 standard deviations" in [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_other_features_stay_at_the_mean_or_at_a_reference(regressor):
    values = np.linspace(0, 1.25 * X[:, 2].max(), 200)
    display = UncertaintyDisplay.from_estimator(regressor, feature=2)
    rows = line_through(X.mean(axis=0), 2, values)
    np.testing.assert_allclose(display.values, values)
    np.testing.assert_allclose(display.mean, regressor.predict(rows))
    variance = regressor.predict_variance(rows, include_noise=False)
    np.testing.assert_allclose(display.deviations["precise"], np.sqrt(variance))
    np.testing.assert_allclose(display.points, X[:, 2])
    display = UncertaintyDisplay.from_estimator(regressor, feature=2, reference=X[7])
    np.testing.assert_allclose(display.mean, regressor.predict(line_through(X[7], 2, values)))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix])
def test_rows_of_ones_own_take_the_place_of_the_line(regressor, container):
    rows = X[:30]
    display = UncertaintyDisplay.from_estimator(regressor, feature=1, X=container(rows), method="coarse")
    rows = rows[np.argsort(rows[:, 1], kind="stable")]
    np.testing.assert_array_equal(display.line_.get_xdata(), rows[:, 1])
    np.testing.assert_allclose(display.line_.get_ydata(), regressor.predict(rows))
    expected = np.sqrt(regressor.predict_variance(rows, "coarse", include_noise=False))
    np.testing.assert_allclose(display.deviations["coarse"], expected)


def test_two_classes_are_two_levels_and_either_can_be_the_positive_one():
    labels = np.where(X[:, 1] > np.median(X[:, 1]), "much", "little")
    clf = HistogramGPClassifier().fit(sparse.csr_array(X), labels)
    display = UncertaintyDisplay.from_estimator(clf, feature=1)
    rows = line_through(X.mean(axis=0), 1, display.values)
    np.testing.assert_allclose(display.line_.get_ydata(), clf.decision_function(rows))
    np.testing.assert_array_equal(display.points_.get_ydata(), np.where(labels == "much", 1, -1))
    assert display.ax_.get_ylabel() == "score of class much"
    other = UncertaintyDisplay.from_estimator(clf, feature=1, class_=0)
    np.testing.assert_allclose(other.mean, -display.mean)
    np.testing.assert_allclose(other.targets, -display.targets)
    np.testing.assert_allclose(other.deviations["precise"], display.deviations["precise"])


@pytest.mark.parametrize("class_weight", [None, "balanced-ovr"])
def test_one_of_several_classes_against_the_rest(class_weight):
    clf = HistogramGPClassifier(class_weight=class_weight).fit(pd.DataFrame(X, columns=NAMES), CODES)
    for class_, number in ((None, 0), (2, 2)):
        display = UncertaintyDisplay.from_estimator(clf, feature=3, class_=class_)
        rows = pd.DataFrame(line_through(X.mean(axis=0), 3, display.values), columns=NAMES)
        np.testing.assert_allclose(display.mean, clf.decision_function(rows)[:, number])
        np.testing.assert_array_equal(display.targets, np.where(number == CODES, 1, -1))
        variance = clf.predict_variance(rows, include_noise=False)
        np.testing.assert_allclose(display.deviations["precise"], np.sqrt(variance))
        assert display.ax_.get_xlabel() == "word 3"
    assert hasattr(clf, "feature_names_in_")
    UncertaintyDisplay.from_estimator(clf, X=rows)


def test_one_of_several_outputs():
    y = np.column_stack([X[:, 1], 100 * X[:, 2]])
    reg = HistogramGPRegressor("hik", noise=0.1).fit(X, y)
    display = UncertaintyDisplay.from_estimator(reg, feature=2, output=1, method=["precise", "fine"])
    rows = line_through(X.mean(axis=0), 2, display.values)
    np.testing.assert_allclose(display.mean, reg.predict(rows)[:, 1])
    np.testing.assert_allclose(display.targets, y[:, 1])
    for method in ("precise", "fine"):
        variance = reg.predict_variance(rows, method, include_noise=False)[:, 1]
        np.testing.assert_allclose(display.deviations[method], np.sqrt(variance))
    assert display.ax_.get_ylabel() == "output 1"


def test_several_methods_have_an_outline_each(regressor):
    display = UncertaintyDisplay.from_estimator(
        regressor, method=["precise", "fine", "coarse"], n_eigenvectors=[1, 4], grid_resolution=50
    )
    assert list(display.outlines_) == ["precise", "fine, k=1", "fine, k=4", "coarse"]
    rows = line_through(X.mean(axis=0), 0, display.values)
    fine = regressor.predict_variance(rows, "fine", False, n_eigenvectors=[1, 4])
    precise, coarse = (regressor.predict_variance(rows, method, False) for method in ("precise", "coarse"))
    mean = regressor.predict(rows)
    for pair, variance in zip(display.outlines_.values(), [precise, *fine.T, coarse], strict=True):
        for line, side in zip(pair, (-2, 2), strict=True):
            np.testing.assert_allclose(line.get_ydata(), mean + side * np.sqrt(variance))
    np.testing.assert_allclose(edges(display.band_, 50)[1], mean + 2 * np.sqrt(precise))


def test_the_line_of_a_feature_with_signs_begins_below_its_smallest_value():
    signed = X - X.mean(axis=0)
    clf = HistogramGPClassifier().fit(signed, CODES)
    display = UncertaintyDisplay.from_estimator(clf, feature=2, grid_resolution=50)
    np.testing.assert_allclose(display.values[[0, -1]], 1.25 * np.array([signed[:, 2].min(), signed[:, 2].max()]))
    rows = line_through(signed.mean(axis=0), 2, display.values)
    np.testing.assert_allclose(display.mean, clf.decision_function(rows)[:, 0], atol=1e-12)
    methods = clf.posterior_.variance_methods
    assert {"precise", "fine"} <= set(methods) < set(VARIANCE_METHODS)
    assert list(TightnessDisplay.from_estimator(clf, signed).lines_) == list(methods)


def test_a_feature_that_no_example_has_still_has_a_line():
    reg = HistogramGPRegressor().fit(np.array([[1.0, 0.0], [2.0, 0.0]]), [1.0, 2.0])
    display = UncertaintyDisplay.from_estimator(reg, feature=1)
    assert display.values[-1] == 1
    np.testing.assert_array_equal(display.points, 0)


def test_uncertainty_from_arrays_in_axes_that_are_there():
    ax = Figure().subplots()
    display = UncertaintyDisplay([0, 1], [0, 1], [1, 2], feature_name="height")
    assert display.plot(n_std=1, ax=ax) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.points_ is None
    np.testing.assert_array_equal(edges(display.band_, 2), [[-1, -1], [1, 3]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["posterior mean", "± 1 standard deviation"]
    again = UncertaintyDisplay([0, 1], [0, 1], {"a": [1, 2], "b": [2, 3]}, [0.5], [0.7]).plot(ax=ax)
    assert again.ax_ is ax
    assert list(again.outlines_) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"feature": 6}, "feature must be a whole number from 0 to 5; got 6"),
        ({"feature": -1}, "feature must be a whole number from 0 to 5; got -1"),
        ({"feature": "word 1"}, "feature must be a whole number from 0 to 5; got 'word 1'"),
        ({"output": 1}, "output must be a whole number from 0 to 0; got 1"),
        ({"reference": [1, 2]}, r"reference must be one sample of 6 features; got the shape \(2,\)"),
        ({"reference": -X[0]}, "Negative values in data"),
        ({"grid_resolution": 1}, "grid_resolution must be a whole number above 1; got 1"),
        ({"method": "best"}, "Unknown method 'best'"),
        ({"method": []}, "Give at least one method"),
        ({"X": X[:, :2]}, "X has 2 features"),
    ],
)
def test_uncertainty_refuses_in_a_sentence(regressor, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        UncertaintyDisplay.from_estimator(regressor, **options)
    assert not pyplot.get_fignums()


def test_a_class_that_does_not_exist_is_refused():
    clf = HistogramGPClassifier().fit(X, CODES)
    with pytest.raises(ValueError, match="class_ must be a whole number from 0 to 2; got 3"):
        UncertaintyDisplay.from_estimator(clf, class_=3)


@pytest.mark.parametrize("from_estimator", [UncertaintyDisplay.from_estimator, TightnessDisplay.from_estimator])
def test_displays_need_a_fitted_model_with_its_training_examples(from_estimator, tmp_path):
    with pytest.raises(NotFittedError, match="HistogramGPRegressor instance is not fitted yet"):
        from_estimator(HistogramGPRegressor(), X=X)
    small = HistogramGPRegressor("hik", noise=0.1, prediction="quantized").fit(X, X[:, 1])
    small.predict_variance(X, "sampled")
    small.save(tmp_path / "small.histogp", include_training=False)
    with pytest.raises(ValueError, match="saved without its training samples"):
        from_estimator(histogp.load(tmp_path / "small.histogp"), X=X)


def test_uncertainty_is_not_for_detectors():
    with pytest.raises(ValueError, match="needs a classifier or a regressor; got HistogramGPOneClass"):
        UncertaintyDisplay.from_estimator(HistogramGPOneClass().fit(X))


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_tightness_has_each_method_in_the_order_of_the_precise_variance(container):
    many = histograms(300, 6)
    clf = HistogramGPClassifier("hik", noise=0.1).fit(many, np.argmax(many[:, 1:4], axis=1))
    display = TightnessDisplay.from_estimator(clf, container(X))
    assert list(display.lines_) == METHODS
    order = np.argsort(clf.predict_variance(X, include_noise=False))
    for method, line in display.lines_.items():
        np.testing.assert_array_equal(line.get_xdata(), np.arange(80))
        expected = clf.predict_variance(X, method, include_noise=False)[order]
        np.testing.assert_allclose(line.get_ydata(), expected, err_msg=method)
    assert display.ax_.get_yscale() == "log"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == METHODS


def test_tightness_scaled_to_compare_the_order(regressor):
    ax = Figure().subplots()
    display = TightnessDisplay.from_estimator(
        regressor, X, methods=["fine", "coarse"], normalize=True, n_eigenvectors=[2, 4], ax=ax
    )
    assert display.ax_ is ax
    assert list(display.lines_) == ["fine, k=2", "fine, k=4", "coarse"]
    assert ax.get_yscale() == "linear"
    order = np.argsort(regressor.predict_variance(X, include_noise=False))
    expected = regressor.predict_variance(X, "coarse", include_noise=False)[order]
    expected = (expected - expected.min()) / (expected.max() - expected.min())
    np.testing.assert_allclose(display.lines_["coarse"].get_ydata(), expected)
    for line in display.lines_.values():
        assert (line.get_ydata().min(), line.get_ydata().max()) == (0, 1)


def test_tightness_of_several_outputs_and_of_a_detector():
    reg = HistogramGPRegressor("hik", noise=0.1).fit(X, np.column_stack([100 * X[:, 1], X[:, 2]]))
    display = TightnessDisplay.from_estimator(reg, X, methods="coarse")
    expected = reg.predict_variance(X, "coarse", include_noise=False)[:, 0]
    np.testing.assert_allclose(np.sort(display.lines_["coarse"].get_ydata()), np.sort(expected))
    detector = HistogramGPOneClass().fit(X)
    display = TightnessDisplay.from_estimator(detector, X, methods=["precise"])
    assert np.all(np.diff(display.lines_["precise"].get_ydata()) >= 0)


def test_tightness_from_arrays_and_wrong_methods(regressor):
    display = TightnessDisplay([3, 1, 2], {"mine": [6, 2, 4], "flat": [1, 1, 1]}).plot(normalize=True)
    np.testing.assert_allclose(display.lines_["mine"].get_ydata(), [0, 0.5, 1])
    np.testing.assert_array_equal(display.lines_["flat"].get_ydata(), 0)
    with pytest.raises(ValueError, match="Unknown method 'best'"):
        TightnessDisplay.from_estimator(regressor, X, methods=["best"])
    with pytest.raises(ValueError, match="Give at least one method"):
        TightnessDisplay.from_estimator(regressor, X, methods=[])
    with pytest.raises(ValueError, match="n_eigenvectors must be one or several whole numbers"):
        TightnessDisplay.from_estimator(regressor, X, n_eigenvectors=2.5)


@pytest.mark.parametrize("display", [UncertaintyDisplay([0], [0], [0]), TightnessDisplay([1], {"a": [1]})])
def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch, display):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=rf'{type(display).__name__} needs Matplotlib: pip install "histogp\[plot\]"'):
        display.plot()
