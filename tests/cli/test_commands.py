"""The commands, run as a user runs them."""

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from oracles import alike
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import histogp
import histogp.datasets
from cli.colors import CODES, FEATURES, NAMES, X, assert_same_table, write_csv
from histogp._sklearn import HAS_CALLBACKS
from histogp.cli.console import in_words
from histogp.cli.main import main
from histogp.streaming import StreamingStatistics


def reference(**parameters):
    return histogp.HistogramGPClassifier("hik", noise=0.05, **parameters).fit(X, NAMES)


@pytest.mark.portable
def test_fit_writes_the_model_that_the_library_makes(run, model):
    assert list(model.feature_names_in_) == FEATURES
    np.testing.assert_array_equal(model.classes_, np.unique(NAMES))
    vars(model).pop("feature_names_in_")
    alike(model.decision_function(X), reference().decision_function(X))
    said = run("fit", "train.csv", "--label", "-1", "-o", "again.histogp")
    assert "80 rows, 6 features, 3 classes" in said


def test_fit_reads_every_format_alike(run):
    import pyarrow as pa
    import pyarrow.parquet as pq

    np.save("X.npy", X)
    np.save("y.npy", CODES)
    np.savez("data.npz", X=X, y=CODES)
    sparse.save_npz("sparse.npz", sparse.csr_array(X))
    dump_svmlight_file(X, CODES, "data.svm", zero_based=True)
    pq.write_table(pa.table({**dict(zip(FEATURES, X.T, strict=True)), "y": CODES}), "data.parquet")
    write_csv("data.csv", X, CODES)
    commands = [
        ("X.npy", "--labels", "y.npy"),
        ("data.npz",),
        ("sparse.npz", "--labels", "y.npy"),
        ("data.svm",),
        ("data.parquet", "--label", "y"),
        ("data.csv", "--label", "color"),
    ]
    alphas = []
    for command in commands:
        run("fit", *command, "--kernel", "hik", "--noise", "0.1", "-o", "model.histogp")
        alphas.append(histogp.load("model.histogp").alpha_)
        assert histogp.load("model.histogp").classes_.dtype == np.int64
    for alpha in alphas[1:]:
        np.testing.assert_allclose(alpha, alphas[0], rtol=1e-9)


def test_options_reach_the_model(run):
    options = "--kernel hik-exp --eta 2 --noise 0.3 --class-weight balanced --solver cg --tol 1e-3 --n-bins 50 --jobs 1"
    run("fit", "train.csv", "--label", "color", "-o", "m", *options.split())
    model = histogp.load("m")
    assert model.kernel_.transform.eta == 2
    expected = {"noise": 0.3, "class_weight": "balanced", "solver": "cg", "tol": 1e-3, "n_bins": 50, "n_jobs": 1}
    assert expected.items() <= model.get_params().items()


def test_the_default_is_found_on_the_rows_and_told_in_words(run):
    said = run("fit", "train.csv", "--label", "color", "-o", "m").splitlines()
    model = histogp.load("m")
    assert (model.kernel, model.noise) == ("auto", "auto")
    plain = histogp.HistogramGPClassifier().fit(X, NAMES)
    assert said[0] == f"learned: {plain.in_words()}" == f"learned: {model.in_words()}"
    assert json.loads(run("inspect", "m", "--json"))["in words"] == plain.in_words()
    assert f"in words             {plain.in_words()}" in run("inspect", "m")
    run("fit", "train.csv", "--label", "color", "--kernel", "auto", "--noise", "0.3", "-o", "m")
    assert histogp.load("m").noise_ == 0.3
    run("fit", "train.csv", "--label", "color", "--kernel", "hik", "--noise", "auto", "-o", "m")
    assert histogp.load("m").in_words().startswith("intersection kernel, noise ")


def test_the_default_takes_features_of_any_sign(run, tmp_path):
    centered = X - X.mean(axis=0)
    write_csv("signed.csv", centered, NAMES)
    run("fit", "signed.csv", "--label", "color", "-o", "m")
    scores = json.loads(run("evaluate", "m", "signed.csv", "--label", "color", "--json", "--report", "r.html"))
    assert scores["accuracy"] > 0.9
    assert histogp.load("m").in_words() in (tmp_path / "r.html").read_text()
    run("fit", "signed.csv", "--label", "color", "--one-class", "-o", "usual")
    run("novelty", "usual", "signed.csv")
    run("fit", "signed.csv", "--label", "f1", "--ignore", "color", "--task", "regression", "-o", "values")
    run("predict", "values", "signed.csv", "--ignore", "color", "--variance", "precise")


def test_predict_writes_a_line_for_each_row(run, model, tmp_path):
    expected = reference().predict(X[:20])
    table = list(csv.DictReader(run("predict", "model.histogp", "test.csv").splitlines()))
    assert [row["prediction"] for row in table] == expected.tolist()
    run("predict", "model.histogp", "test.csv", "--scores", "-o", "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    scores = np.array([[row[f"score_{label}"] for label in model.classes_] for row in rows])
    alike(scores, reference().decision_function(X[:20]))
    import pyarrow.parquet as pq

    run("predict", "model.histogp", "test.csv", "-o", "out.parquet")
    assert pq.read_table("out.parquet")["prediction"].to_pylist() == expected.tolist()


def test_predict_finds_its_columns_by_name(run, model):
    write_csv("shuffled.csv", X[:20, ::-1], ["unknown"] * 20, FEATURES[::-1])
    assert run("predict", "model.histogp", "shuffled.csv") == run("predict", "model.histogp", "test.csv")


@pytest.mark.portable
def test_prediction_in_pieces_is_prediction_as_a_whole(run, model, monkeypatch):
    command = ("predict", "model.histogp", "train.csv", "--scores")
    whole = run(*command)
    monkeypatch.setattr("histogp.cli.predict.CHUNK_ROWS", 7)
    assert_same_table(run(*command), whole)


def test_two_classes_have_one_score(run):
    np.savez("two.npz", X=X, y=CODES == 1)
    run("fit", "two.npz", "-o", "m")
    first = run("predict", "m", "two.npz", "--scores").splitlines()[:2]
    assert first[0] == "prediction,score_True"
    label, score = first[1].split(",")
    assert (label == "True") == (float(score) > 0)


def test_regression_from_fit_to_report(run, tmp_path):
    write_csv("data.csv", X, X[:, 1] * 10)
    run("fit", "data.csv", "--label", "color", "--task", "regression", "-o", "m")
    values = [float(line) for line in run("predict", "m", "data.csv").splitlines()[1:]]
    assert np.corrcoef(values, X[:, 1])[0, 1] > 0.9
    scores = json.loads(run("evaluate", "m", "data.csv", "--label", "color", "--json", "--report", "r.html"))
    assert scores["R2"] > 0.8
    page = (tmp_path / "r.html").read_text()
    assert "furthest off" in page
    assert "standard deviations" in page


def test_a_predict_only_model(run, tmp_path):
    options = ("--prediction", "quantized", "--predict-only", "--kernel", "hik", "--noise", "0.05")
    run("fit", "train.csv", "--label", "color", "-o", "small.histogp", *options)
    expected = reference(prediction="quantized").predict(X[:20]).tolist()
    rows = csv.DictReader(run("predict", "small.histogp", "test.csv").splitlines())
    assert [row["prediction"] for row in rows] == expected
    assert "it only predicts" in run("inspect", "small.histogp")
    run("evaluate", "small.histogp", "test.csv", "--label", "color", "--report", "r.html")
    assert "without its training samples" in (tmp_path / "r.html").read_text()
    said = run("predict", "small.histogp", "test.csv", "--prediction", "exact", code=2)
    assert "without its training samples" in said


def test_evaluate_scores_and_reports(run, model, tmp_path):
    said = run("evaluate", "model.histogp", "test.csv", "--label", "color")
    accuracy = np.mean(reference().predict(X[:20]) == NAMES[:20])
    assert f"accuracy                 {accuracy:.4f}" in said
    run("evaluate", "model.histogp", "test.csv", "--label", "color", "--report", "r.html", "--image-shape", "2x3")
    page = (tmp_path / "r.html").read_text()
    for part in (
        "At a glance",
        "taken for",
        "least sure",
        "probabilities are worth",
        "not seen before",
        "more data",
        "Exact or quantized",
        "against N",
        "green, or so",
    ):
        assert part in page
    assert "http" not in page.replace("http-equiv", "")


def test_numbers_among_texts_stay_texts(run):
    labels = np.array(["1", "2", "x"])[CODES]
    write_csv("mixed.csv", X, labels)
    run("fit", "mixed.csv", "--label", "color", "-o", "m")
    numeric = labels != "x"
    write_csv("numbers.csv", X[numeric], labels[numeric])
    assert json.loads(run("evaluate", "m", "numbers.csv", "--label", "color", "--json"))["accuracy"] > 0.5


def test_inspect_tells_what_is_in_the_file(run, model):
    facts = json.loads(run("inspect", "model.histogp", "--json"))
    assert facts["samples"] == 80
    assert facts["noise"] == 0.05
    assert facts["labels"] == model.classes_.tolist()
    assert len(facts["sha256"]) == 64
    text = run("inspect", "model.histogp")
    for name in ("kernel", "noise", "classes", "features", "residual", "iterations", "sha256", "written by"):
        assert name in text


@pytest.mark.parametrize("command", ["inspect", "predict"])
def test_statistics_are_no_model(command, run, model):
    StreamingStatistics.of(np.eye(3)).save("sums.histogp")
    message = run(command, "sums.histogp", *(["train.csv"] if command == "predict" else []), code=2)
    assert "holds a StreamingStatistics, which is no model" in message


def test_hyperparameters_are_found_and_their_path_is_shown(run):
    options = ("--label", "color", "--kernel", "hik-poly", "--optimize", "gradient")
    said = run("fit", "train.csv", *options, "-o", "found.histogp")
    model = histogp.load("found.histogp")
    assert f"noise {model.noise_:.4g}, eta {model.kernel_.transform.eta:.4g}" in said
    text = run("inspect", "found.histogp")
    assert "optimized by         gradient" in text
    assert "optimization path" in text
    assert text.splitlines()[-1].split()[-1] == f"{model.optimization_path_['transform__eta'][-1]:.6g}"
    facts = json.loads(run("inspect", "found.histogp", "--json"))
    assert facts["optimization path"]["noise"] == model.optimization_path_["noise"].tolist()
    said = run("fit", "train.csv", *options, "--ard", "-o", "found.histogp")
    assert "features with a weight" in said
    assert "most relevant" in run("inspect", "found.histogp")
    said = run("fit", "train.csv", "--label", "color", "--kernel", "hik", "--ard", "-o", "x", code=2)
    assert "needs --optimize" in said


@pytest.mark.slow
@pytest.mark.skipif(not HAS_CALLBACKS, reason="progress of a search needs callbacks of scikit-learn 1.9")
def test_an_interrupt_of_the_search_still_writes_the_best_model(run):
    X, y = histogp.datasets.make_bags_of_words(8000, random_state=0)
    sparse.save_npz("many.npz", sparse.csr_matrix(X))
    np.save("y.npy", y)
    # A terminal, so that progress tells when the search has begun.
    command = "fit many.npz --labels y.npy --optimize bound --kernel hik-poly -o best.histogp"
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "histogp.cli.main", *command.split()],
        stderr=slave,
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(slave)
    shown = ""
    while "evaluation 3" not in shown:
        shown += os.read(master, 1000).decode()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    os.close(master)
    assert process.returncode == 0
    assert "found in" in said
    model = histogp.load("best.histogp")
    path = model.optimization_path_["log_marginal_likelihood"]
    assert model.log_marginal_likelihood_ in path


@pytest.mark.slow
def test_demo_writes_one_page(run, tmp_path, monkeypatch):
    monkeypatch.setattr("histogp.cli.demo.SIZES", (100, 200))
    said = run("demo")
    assert "by HistogramGPClassifier() as it stands\nIt found: " in said
    assert "features carry half the weight" in said
    assert "accuracy of 0.99" in said
    assert "Of 5 kernels" in said
    page = (tmp_path / "histogp-demo.html").read_text()
    assert "<td>auto</td>" in page
    assert page.count("data:image/png") == 2 * 12
    assert os.listdir(tmp_path).count("histogp-demo.html") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("fit none.csv --label y -o m", "none.csv cannot be read"),
        ("fit train.csv --label nothing -o m", "no column 'nothing'"),
        ("fit train.csv -o m", "--label"),
        ("fit train.csv --ignore color -o m", "--label"),
        ("fit train.csv --label color --labels test.csv -o m", "exclude each other"),
        ("fit train.csv --label color --noise -1 -o m", "noise"),
        ("fit train.csv --label color --noise loud -o m", "'loud' is neither auto nor a number above 0"),
        ("fit train.csv --label color --kernel rbf -o m", "Unknown kernel 'rbf'; known names are 'auto', 'hik'"),
        ("fit train.csv --label color --kernel auto+hik -o m", "'auto' is a sum already, and no part of one"),
        ("fit train.csv --label color --ard -o m", "--ard is not for --kernel auto"),
        ("fit train.csv --label color --components 50 -o m", "--components is for --kernel exp-chi2"),
        ("fit train.csv --label color --stream -o m", "--stream needs --kernel chi2 or exp-chi2"),
        ("fit negative.csv --one-class --kernel hik -o m", "Negative values in data"),
        ("fit train.csv --label color --eta 2 -o m", "--eta is for --kernel hik-poly or hik-exp"),
        ("fit train.csv --label color --predict-only -o m", "--predict-only needs"),
        ("fit train.csv --label color --task regression -o m", "finite numbers are needed"),
        ("fit train.csv --label f1 --ignore color -o m", "--task regression"),
        ("fit train.csv --label color --task regression --class-weight balanced -o m", "needs --task classification"),
        ("fit train.csv --label color -o missing/m", "There is no folder"),
        ("predict train.csv train.csv", "not an intact histogp model"),
        ("predict none.histogp train.csv", "There is no file 'none.histogp'"),
        ("predict model.histogp narrow.csv", "lacks 5 of the 6 columns"),
        ("predict model.histogp negative.csv", "Negative values in data"),
        ("predict model.histogp nan.csv", "Input X contains NaN in column 0: fill such values in"),
        ("predict model.histogp test.csv --ignore nothing", "no column 'nothing'"),
        ("predict model.histogp test.csv --ignore f1", "needs the column 'f1' and cannot leave it out"),
        ("predict model.histogp test.csv --prediction quantized --n-bins 100000000", "n_bins"),
        ("predict model.histogp test.csv -o out.xlsx", "no known ending"),
        ("predict model.histogp test.csv -o test.csv", "test.csv is an input"),
        ("predict model.histogp test.csv -o ./model.histogp", "input"),
        ("fit train.csv --label color -o train.csv", "train.csv is an input"),
        ("evaluate model.histogp test.csv", "--label"),
        ("evaluate model.histogp test.csv --label color --image-shape 5x5 --report r.html", "5 x 5 pixels"),
        ("evaluate model.histogp test.csv --label color --report none/r.html", "There is no folder"),
        ("inspect train.csv", "not an intact histogp model"),
        ("evaluate model.histogp test.csv --label color --image-shape 28", "28x28"),
        ("nonsense", "invalid choice"),
        ("", "required"),
    ],
)
def test_bad_input_is_answered_by_one_sentence_and_code_2(run, model, arguments, sentence, tmp_path):
    write_csv("narrow.csv", X[:5, :1], names=FEATURES[:1])
    write_csv("negative.csv", X[:5] - 0.5)
    write_csv("nan.csv", np.where(X[:5] > 0.2, np.nan, X[:5]))
    before = sorted(os.listdir(tmp_path))
    said = run(*arguments.split(), code=2)
    assert sentence in said
    assert "Traceback" not in said
    if not said.startswith("usage"):
        assert said.startswith("histogp: ")
        assert said.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_no_row_of_a_headerless_file_is_lost(run):
    rows = [[f"id{k}", *row, label] for k, (row, label) in enumerate(zip(X.tolist(), NAMES, strict=True))]
    with open("bare.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert "80 rows, 6 features" in run("fit", "bare.csv", "--label", "-1", "--ignore", "0", "-o", "m")
    assert (
        len(list(csv.DictReader(run("predict", "m", "bare.csv", "--ignore", "0", "--ignore", "-1").splitlines()))) == 80
    )


def test_a_damaged_sparse_matrix_is_refused(run, model):
    for name, at, value in (("indices", 3, 2_000_000_000), ("indices", 3, -7), ("indptr", 5, 2**30)):
        matrix = sparse.csr_array(X)
        getattr(matrix, name)[at] = value
        sparse.save_npz("bad.npz", matrix)
        assert "damaged sparse matrix" in run("predict", "model.histogp", "bad.npz", code=2)


def test_a_solver_that_did_not_converge_says_so_in_one_line(run, capsys):
    run("fit", "train.csv", "--label", "color", "--solver", "cg", "--tol", "1e-14", "--max-iter", "2", "-o", "m")
    main(["fit", "train.csv", "--label", "color", "--solver", "cg", "--tol", "1e-14", "--max-iter", "2", "-o", "m"])
    said = capsys.readouterr().err
    assert said.startswith("histogp: The solver stopped after 2 iterations")
    assert said.count("\n") == 1


def test_one_row_of_a_regression_has_no_r2(run):
    write_csv("data.csv", X, X[:, 1])
    write_csv("row.csv", X[:1], X[:1, 1])
    run("fit", "data.csv", "--label", "color", "--task", "regression", "-o", "m")
    assert json.loads(run("evaluate", "m", "row.csv", "--label", "color", "--json"))["R2"] is None


def test_an_error_in_the_middle_leaves_no_output(run, model, tmp_path, monkeypatch):
    monkeypatch.setattr("histogp.cli.predict.CHUNK_ROWS", 5)
    broken = X[:20].copy()
    broken[12, 3] = -1
    write_csv("broken.csv", broken)
    (tmp_path / "out.csv").write_text("old")
    run("predict", "model.histogp", "broken.csv", "-o", "out.csv", code=2)
    assert (tmp_path / "out.csv").read_text() == "old"


def test_help_has_examples(run):
    for command in ("fit", "predict", "novelty", "evaluate", "inspect", "demo"):
        assert f"examples:\n  histogp {command}" in run(command, "--help")
    assert "histogp fit train.csv --label" in run("--help")
    assert run("--version").strip() == f"histogp {histogp.__version__}"


def shell(*arguments, **options):
    return subprocess.Popen([sys.executable, "-m", "histogp.cli.main", *arguments], text=True, **options)


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(run, model):
    np.save("many.npy", np.tile(X, (2000, 1)))
    process = shell("predict", "model.histogp", "many.npy", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == "prediction\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.slow
def test_an_interrupt_ends_with_a_sentence_and_no_file(run, model, tmp_path):
    np.save("many.npy", np.tile(X, (20000, 1)))
    process = shell("predict", "model.histogp", "many.npy", "-o", "out.csv", stderr=subprocess.PIPE)
    while not any(name.endswith(".tmp") for name in os.listdir(tmp_path)):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.stderr.read() == "histogp: interrupted; nothing was written.\n"
    process.stderr.close()
    assert process.wait() == 130
    assert not [name for name in os.listdir(tmp_path) if name.startswith((".out", "out"))]


@pytest.mark.slow
def test_a_pipe_is_quiet_and_a_terminal_shows_progress(run, model):
    done = shell("predict", "model.histogp", "test.csv", "-o", "out.csv", stderr=subprocess.PIPE)
    assert done.communicate()[1] == ""
    ours, theirs = pty.openpty()
    process = shell("predict", "model.histogp", "test.csv", "-o", "out.csv", stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            some = os.read(ours, 4096)
        except OSError:  # how Linux says that the other side is closed
            break
        if not some:
            break
        shown += some
    os.close(ours)
    assert process.wait() == 0
    assert b"predicting" in shown


def test_a_hyperparameter_has_its_short_name_unless_that_is_taken():
    assert in_words("transform__eta", ("noise", "scale", "transform__eta")) == "eta"
    assert in_words("transform__scale", ("noise", "scale", "transform__scale")) == "transform scale"
    assert in_words("n_products", ("n_products",)) == "n products"


def test_rows_of_classes_that_the_model_does_not_know_are_counted(run, model):
    write_csv("other.csv", X[:4], ["red", "ten", "ten", "red"])
    assert re.search(r"rows of unknown classes +2\n", run("evaluate", "model.histogp", "other.csv", "--label", "color"))
    assert "unknown" not in run("evaluate", "model.histogp", "test.csv", "--label", "color")
