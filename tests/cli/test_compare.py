"""`histogp compare`, and the kernels that it compares, on the command line."""

import json

import numpy as np
import pytest
from sklearn.metrics import top_k_accuracy_score

import histogp
from cli.colors import NAMES, X
from histogp.feature_maps import ExpChi2Sampler
from histogp.reports import comparison


def test_compare_prints_a_line_for_each_kernel_and_an_advice(run):
    out = run("compare", "train.csv", "--label", "color", "--kernels", "hik", "chi2", "exp-chi2").splitlines()
    assert [line.split()[0] for line in out[:4]] == ["kernel", "hik", "chi2", "exp-chi2"]
    assert "predict" in out[-1]
    assert "rows were learned" in out[-1]


def test_compare_for_programs_and_as_a_page(run, tmp_path):
    arguments = ["compare", "train.csv", "--label", "color", "--kernels", "hik", "hik-poly", "--json"]
    found = json.loads(run(*arguments, "--report", "page.html"))
    assert [one["kernel"] for one in found] == ["hik", "hik-poly"]
    assert all(0 <= one["score"] <= 1 and one["loss"] > 0 and one["failure"] is None for one in found)
    assert "Which kernel to use" in (tmp_path / "page.html").read_text()
    scores = [{name: one[name] for name in ("score", "loss", "likelihood")} for one in found]
    again = [{name: one[name] for name in ("score", "loss", "likelihood")} for one in json.loads(run(*arguments))]
    assert scores == again


def test_compare_of_regressions(run):
    np.save("X.npy", X)
    np.save("y.npy", X @ np.arange(X.shape[1]))
    found = json.loads(
        run("compare", "X.npy", "--labels", "y.npy", "--task", "regression", "--kernels", "chi2", "--json")
    )
    assert found[0]["score"] > 0.9


def test_a_kernel_that_fails_is_a_remark_below_the_others(run):
    np.save("X.npy", 1e4 * X)
    np.save("y.npy", NAMES)
    lines = run("compare", "X.npy", "--labels", "y.npy", "--kernels", "hik", "hik-exp").splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["kernel", "hik"]
    assert lines[2].startswith("Without hik-exp: ")
    assert "scale the features" in lines[2]
    assert lines[-1].endswith("Take hik: it predicts these samples best.")


def test_the_default_comes_first_and_stays_alone_where_features_are_negative(run, tmp_path):
    np.save("X.npy", X - X.mean(axis=0))
    np.save("y.npy", NAMES)
    lines = run("compare", "X.npy", "--labels", "y.npy", "--report", "page.html").splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["kernel", "auto"]
    assert lines[2].startswith("Without hik, hik-exp, chi2, exp-chi2: Negative values in data passed to ")
    assert lines[3].endswith("Take auto: it predicts these samples best.")
    assert len(lines) == 4
    page = (tmp_path / "page.html").read_text()
    assert "<td>hik</td>" not in page
    assert '<p class="note">Without hik, hik-exp, chi2, exp-chi2: Negative values' in page
    found = json.loads(run("compare", "X.npy", "--labels", "y.npy", "--json", "--kernels", "hik", "auto"))
    assert [one["failure"] is None for one in found] == [False, True]


def test_the_default_is_compared_as_it_stands(run):
    results = comparison.compare(X[:60], NAMES[:60], X[60:], NAMES[60:], kernels=["auto"])
    plain = histogp.HistogramGPClassifier().fit(X[:60], NAMES[:60])
    assert results[0].score == plain.score(X[60:], NAMES[60:])
    assert comparison.KERNELS[0] == "auto"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rows", "5"], "--rows must be 10 or more"),
        (["--kernels", "rbf"], "invalid choice"),
        (["--report", "missing/page.html"], "missing"),
    ],
)
def test_bad_input_is_answered_by_one_sentence(arguments, sentence, run):
    assert sentence in run("compare", "train.csv", "--label", "color", *arguments, code=2)


def test_real_labels_are_no_classes(run):
    np.save("X.npy", X)
    np.save("y.npy", X[:, 0])
    assert "use --task regression" in run("compare", "X.npy", "--labels", "y.npy", code=2)


def test_advice():
    rng = np.random.default_rng(0)
    good, worse = (rng.random(1000) < 0.9).astype(float), (rng.random(1000) < 0.5).astype(float)
    one = comparison.Compared("hik", good.mean(), microseconds=1.0, hits=good)
    other = comparison.Compared("chi2", worse.mean(), microseconds=1.0, hits=worse)
    assert comparison.advice([one, other]) == "Take hik: it predicts these samples best."
    nearly = good.copy()
    nearly[np.flatnonzero(good)[0]] = 0
    close = comparison.Compared("exp-chi2", nearly.mean(), microseconds=0.5, hits=nearly)
    assert "exp-chi2 is no worse than chance explains. exp-chi2 predicts 2.0 times as fast." in comparison.advice(
        [one, close]
    )
    assert comparison.advice([comparison.Compared("hik", failure="No.")]).startswith("None of the kernels")


def _without_names(path):
    return _without_names_of(histogp.load(path))


def _without_names_of(model):
    del model.feature_names_in_
    return model


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_fit_with_exp_chi2_from_options_to_evaluation(approximation, run):
    options = ["--kernel", "exp-chi2", "--components", "60", "--terms", "2", "--beta", "2.5", "--seed", "3"]
    options += ["--approximation", approximation]
    run("fit", "train.csv", "--label", "color", "-o", "m.histogp", *options)
    model = _without_names("m.histogp")
    expected = {"n_components": 60, "n_terms": 2, "beta": 2.5, "random_state": 3, "approximation": approximation}
    assert model.kernel_.get_params().items() >= expected.items()
    out = run("evaluate", "m.histogp", "test.csv", "--label", "color", "--top-k", "2", "--report", "page.html")
    expected = top_k_accuracy_score(NAMES[:20], model.decision_function(X[:20]), k=2, labels=model.classes_)
    assert f"top-2 accuracy           {expected:.4f}" in out
    assert "frequencies=array" not in run("inspect", "m.histogp")
    run("fit", "train.csv", "--label", "color", "-o", "p.histogp", *options, "--predict-only")
    np.testing.assert_allclose(
        _without_names("p.histogp").decision_function(X), model.decision_function(X), rtol=0, atol=1e-12
    )


def test_an_exact_kernel_needs_its_rows(run):
    options = ["--label", "color", "--kernel", "exp-chi2", "--optimize", "gradient", "-o", "m.histogp"]
    said = run("fit", "train.csv", *options)
    model = histogp.load("m.histogp")
    assert f"beta {model.kernel_.beta:.4g}, scale {model.kernel_.scale:.4g}" in said
    assert not model.posterior_.offers("features")
    sentence = run("fit", "train.csv", *options, "--predict-only", code=2)
    assert "--predict-only needs --prediction quantized: exact prediction reads the training rows." in sentence
    run("fit", "train.csv", *options, "--predict-only", "--prediction", "quantized")
    quantized = _without_names("m.histogp").decision_function(X)
    np.testing.assert_allclose(quantized, _without_names_of(model).decision_function(X), atol=1e-4)


def test_sums_of_kernels_are_named_with_a_plus(run):
    options = ["--label", "color", "--kernel", "hik + laplacian", "--optimize", "loo", "-o", "m.histogp"]
    said = run("fit", "train.csv", *options)
    model = histogp.load("m.histogp")
    assert list(model.kernel_.named_parts()) == ["histogram_intersection", "laplacian"]
    assert f"laplacian beta {model.kernel_.get_params()['laplacian__beta']:.4g}" in said
    assert "likelihood" not in said
    inspected = run("inspect", "m.histogp")
    share = model.kernel_shares_["laplacian"]
    assert f"laplacian {share:.0%}" in inspected
    assert "leave-one-out" in inspected
    assert "laplacian beta" in inspected
    sentence = run("fit", "train.csv", "--label", "color", "--kernel", "hik + rbf", "-o", "m.histogp", code=2)
    assert "Unknown kernel 'rbf'; known names are 'auto', 'hik'" in sentence


def test_streams_with_exp_chi2_and_blocks(run):
    options = ["--kernel", "exp-chi2", "--components", "40", "--alpha", "0.1", "--stream", "-o", "m.histogp"]
    run("fit", "train.csv", "--label", "color", *options)
    model = histogp.load("m.histogp")
    assert isinstance(model.feature_map, ExpChi2Sampler)
    assert model.coef_.shape[1] == 40
    run(
        "fit",
        "train.csv",
        "--label",
        "color",
        *options,
        "--block",
        "0:2",
        "--block",
        "2:",
        "--block-weights",
        "evidence",
    )
    model = histogp.load("m.histogp")
    assert [block[2] for block in model.blocks] == [slice(0, 2), slice(2, None)]
    assert model.coef_.shape[1] == 80
    assert len(model.block_weights_) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kernel", "exp-chi2", "--components", "41"], "must be even"),
        (["--kernel", "exp-chi2", "--beta", "wide"], "neither a number nor median or evidence"),
        (["--kernel", "exp-chi2", "--beta", "-1"], "beta must be a number above 0"),
        (["--kernel", "chi2", "--beta", "1"], "--beta is for --kernel exp-chi2"),
        (["--kernel", "chi2", "--components", "5"], "--components is for --kernel exp-chi2"),
        (["--kernel", "hik", "--terms", "5"], "--terms is for --kernel chi2 or exp-chi2"),
        (["--kernel", "exp-chi2", "--ard", "--optimize", "gradient"], "--ard is not for --kernel exp-chi2, which"),
        (["--kernel", "hik", "--approximation", "exact"], "--approximation is for --kernel exp-chi2"),
        (["--kernel", "exp-chi2", "--stream", "--approximation", "fourier"], "--approximation is not for --stream"),
        (["--kernel", "chi2", "--block", "0:2"], "--block needs --stream"),
        (["--kernel", "chi2", "--stream", "--block", "2"], "not two numbers"),
        (["--kernel", "chi2", "--stream", "--block-weights", "evidence"], "--block-weights needs --block"),
        (["--kernel", "exp-chi2", "--stream", "--components", "0"], "--components must be 1 or more"),
        (["--kernel", "hik", "--stream"], "--stream needs --kernel chi2 or exp-chi2"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_a_sentence(arguments, sentence, run):
    assert sentence in run("fit", "train.csv", "--label", "color", "-o", "m.histogp", *arguments, code=2)


@pytest.mark.parametrize("k", [0, 100])
def test_top_k_of_more_classes_than_there_are(k, run, model):
    sentence = run("evaluate", "model.histogp", "test.csv", "--label", "color", "--top-k", k, code=2)
    assert "--top-k must be from 1 to" in sentence
