"""What was found, in words."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import histograms
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import estimator_html_repr

import histogp
from histogp import HistogramGPClassifier, HistogramGPOneClass, HistogramGPRegressor
from histogp.gp._words import in_words, short
from histogp.kernels import (
    Chi2,
    Constant,
    ExpChi2,
    Gaussian,
    HistogramIntersection,
    Laplacian,
    Power,
    Sum,
)

X = histograms(60, 6)
Y = np.argmax(X[:, 1:4], axis=1)
SUM = Sum([HistogramIntersection(), Laplacian(unit=1.0), Gaussian(unit=1.0), Constant()])
SHARES = {"histogram_intersection": 0.06, "laplacian": 0.58, "gaussian": 0.31, "constant": 0.05}
MODELS = {
    "classifier": (HistogramGPClassifier, Y),
    "regressor": (HistogramGPRegressor, X[:, 1]),
    "one class": (HistogramGPOneClass, None),
}


def fitted(kind="classifier", **parameters):
    make, y = MODELS[kind]
    return make(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.08, ".08"), (0.5, ".5"), (0.0551, ".055"), (1.0, "1"), (1.52, "1.5"), (10.0, "10"), (99.6, "100")),
        *((12345.0, "12,000"), (3.1e-7, "3.1e-7"), (1e-9, "1e-9"), (2.5e8, "2.5e8"), (-0.25, "-.25"), (0.0, "0")),
    ],
)
def test_numbers_are_short(value, text):
    assert short(value) == text


@given(st.floats(1e-300, 1e300))
def test_a_short_number_has_two_digits_of_the_number(value):
    assert float(short(value).replace(",", "")) == pytest.approx(value, rel=0.051)


def test_a_sum_is_told_by_what_it_sees():
    relevance = np.repeat([0.5 / 14, 0.5 / 50], [14, 50])
    assert in_words(SUM, 0.08, shares=SHARES, relevance=relevance) == (
        "mostly interactions (Laplacian .6, Gaussian .3), some single features (intersection .06), constant .05, "
        "noise .08, 14 of 64 features carry half the weight"
    )


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        (
            (0.7, 0.2, 0.1, 0.0),
            "mostly single features (intersection .7), some interactions (Laplacian .2, Gaussian .1)",
        ),
        ((0.4, 0.0, 0.5, 0.1), "interactions (Gaussian .5) and single features (intersection .4), constant .1"),
        ((0.997, 0.001, 0.001, 0.001), "mostly single features (intersection 1)"),
        ((0.0, 0.0, 0.0, 1.0), "constant kernel"),
        ((0.0, 0.0, 0.0, 0.0), "single features (intersection) and interactions (Laplacian, Gaussian)"),
        ((np.nan, 0.0, 0.0, 0.0), "single features (intersection) and interactions (Laplacian, Gaussian)"),
        ((), "single features (intersection) and interactions (Laplacian, Gaussian)"),
    ],
)
def test_shares_decide_what_comes_first_and_what_is_left_out(shares, text):
    assert in_words(SUM, 1.0, shares=dict(zip(SHARES, shares, strict=False))) == f"{text}, noise 1"


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (HistogramIntersection(), "intersection kernel, noise .1"),
        (HistogramIntersection(Power(0.5)), "intersection kernel, noise .1, features transformed by power .5"),
        (
            HistogramIntersection(Power([0.5, 2.0])),
            "intersection kernel, noise .1, features transformed by power .5 to 2",
        ),
        (Chi2(), "chi-squared kernel, noise .1"),
        (ExpChi2(), "exponential chi-squared kernel, noise .1"),
        (Laplacian(), "Laplacian kernel, noise .1"),
        (Gaussian(), "Gaussian kernel, noise .1"),
        (Constant(), "constant kernel, noise .1"),
        (
            Sum([Laplacian(), Laplacian()], normalize="l1"),
            "interactions (Laplacian, laplacian_2), noise .1, rows normalized",
        ),
        (Sum(wide=Laplacian(), fine=Gaussian()), "interactions (wide, fine), noise .1"),
        (Sum(a=Sum([Laplacian()]), b=Chi2()), "interactions (a__laplacian) and single features (b), noise .1"),
    ],
)
def test_every_kernel_has_a_name(kernel, text):
    assert in_words(kernel, 0.1) == text


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40))
def test_features_that_carry_half_the_weight_are_as_few_as_can_be(weights):
    relevance = np.array(weights, float)
    text = in_words(HistogramIntersection(), 1.0, relevance=relevance)
    found = re.search(r"(\d+) of (\d+) features? carr(?:y|ies) half the weight(?: and (\d+) none)?$", text)
    if not relevance.any():
        assert found is None
        return
    needed, n_features, none = (int(number or 0) for number in found.groups())
    ordered = sorted(weights, reverse=True)
    assert 2 * sum(ordered[:needed]) >= sum(weights)
    assert 2 * sum(ordered[: needed - 1]) < sum(weights)
    assert n_features == len(weights)
    assert none == weights.count(0)


def test_weights_that_a_search_has_all_but_switched_off_count_as_none():
    text = in_words(Laplacian(), 1.0, relevance=np.array([1.0, 1e-12, 0.5, 0.0]))
    assert text.endswith("1 of 4 features carries half the weight and 2 none")


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            {"approximation": "nystroem", "n_components": 6000, "error": 0.009},
            "approximated by 6,000 landmarks, error .9%",
        ),
        (
            {"approximation": "fourier", "n_components": 2000, "error": 0.18},
            "approximated by 2,000 random waves, error 18%",
        ),
        ({"approximation": "nystroem", "n_components": 60}, "approximated by 60 landmarks"),
        (
            {"approximation": "expansion", "n_components": 192, "error": 2e-4},
            "approximated by an expansion, error .02%",
        ),
        (
            {"approximation": "nystroem + fourier", "error": 0.02},
            "approximated by landmarks and random waves, error 2%",
        ),
        ({"approximation": "float32", "error": 1e-7}, "in single precision"),
    ],
)
def test_an_approximation_is_told_with_its_error(facts, text):
    assert in_words(Laplacian(), 0.1, **facts) == f"Laplacian kernel, noise .1, {text}"


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_tells_what_its_attributes_say(kind):
    model = fitted(kind)
    assert model.in_words() == in_words(
        model.kernel_, model.noise_, shares=model.kernel_shares_, relevance=model.feature_relevance_
    )
    assert f"noise {short(model.noise_)}, " in model.in_words()
    assert "interactions (" in fitted("one class").in_words()


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ("hik", "intersection kernel"),
        (Laplacian(approximation="nystroem", n_components=20), "approximated by 20 landmarks, error "),
        (ExpChi2(20, approximation="fourier"), "approximated by 20 random waves, error "),
        ("chi2", "approximated by an expansion, error "),
        (
            Sum([HistogramIntersection(), Laplacian(approximation="nystroem", n_components=20)], approximation="parts"),
            "approximated by landmarks, error ",
        ),
        (HistogramIntersection(columns=[0, 1]) + HistogramIntersection(columns=[2, 3]), "histogram_intersection_2 ."),
        (Sum(a=Laplacian() + Gaussian(), b=HistogramIntersection()), "a__laplacian ."),
    ],
)
def test_models_of_all_kinds_of_kernels_tell(kernel, text):
    assert text in fitted(kernel=kernel, noise=0.1).in_words()


def test_samples_that_are_all_zero_have_no_shares():
    model = HistogramGPClassifier("hik + hik-poly", noise=0.1).fit(np.zeros((4, 2)), [0, 0, 1, 1])
    assert model.in_words() == "single features (intersection, histogram_intersection_2), noise .1"


def test_landmarks_of_a_model_have_the_error_that_it_states():
    model = fitted(kernel=Laplacian(approximation="nystroem", n_components=20), noise=0.1)
    found = float(re.search(r"error ([\d.]+)%$", model.in_words())[1])
    assert found / 100 == pytest.approx(model.approximation_["nystroem"], rel=0.5, abs=0.005)


@pytest.mark.parametrize("kind", MODELS)
def test_models_of_files_tell_the_same_or_what_they_still_know(kind, tmp_path):
    options = {"criterion": "mean"} if kind == "one class" else {}
    model = fitted(kind, prediction="quantized", **options)
    model.save(tmp_path / "m")
    assert histogp.load(tmp_path / "m").in_words() == model.in_words()
    model.save(tmp_path / "m", include_training=False)
    small = histogp.load(tmp_path / "m").in_words()
    assert small == in_words(model.kernel_, model.noise_, relevance=model.feature_relevance_)


def test_landmarks_of_a_file_that_only_predicts_are_counted(tmp_path):
    model = fitted(kernel=Laplacian(approximation="nystroem", n_components=20), noise=0.1)
    model.save(tmp_path / "m", include_training=False)
    assert histogp.load(tmp_path / "m").in_words().endswith("approximated by 20 landmarks")


@pytest.mark.parametrize("kind", MODELS)
def test_who_wants_to_be_told_is_told_once_a_fit(kind, capsys):
    model = fitted(kind, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"[{type(model).__name__}] {model.in_words()}"
    assert lines.count(lines[-1]) == 1
    fitted(kind)
    assert capsys.readouterr().out == ""


def test_a_model_that_knows_nothing_has_nothing_to_tell():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        HistogramGPClassifier().in_words()


@pytest.mark.parametrize("kind", MODELS)
def test_notebooks_show_what_was_found(kind, tmp_path):
    options = {"criterion": "mean"} if kind == "one class" else {}
    model = fitted(kind, prediction="quantized", **options)
    assert f'<div class="caption">{model.in_words()}</div>' in estimator_html_repr(model)
    assert model.in_words() in estimator_html_repr(make_pipeline(MaxAbsScaler(), model))
    assert '<div class="caption">' not in estimator_html_repr(MODELS[kind][0]())
    model.save(tmp_path / "m", include_training=False)
    small = histogp.load(tmp_path / "m")
    assert f'<div class="caption">{small.in_words()}</div>' in estimator_html_repr(small)


def test_a_notebook_computes_nothing_that_nobody_asked_for():
    model = HistogramGPClassifier("hik", noise=0.1).fit(histograms(300, 6), np.arange(300) % 2)
    html = estimator_html_repr(model)
    assert model.posterior_.prepared == ()
    assert "variance_error_" not in html
