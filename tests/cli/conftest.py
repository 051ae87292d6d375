"""Commands in a folder with files, and a model."""

import pytest

import histogp
from cli.colors import NAMES, X, write_csv
from histogp.cli.main import main


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder: its output; other exit codes than the one expected fail."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        try:
            got = main([str(argument) for argument in arguments])
        except SystemExit as exit:
            got = exit.code
        captured = capsys.readouterr()
        assert got == code, captured
        return captured.out if code == 0 else captured.err

    write_csv("train.csv", X, NAMES)
    write_csv("test.csv", X[:20], NAMES[:20])
    return run


@pytest.fixture
def model(run):
    run("fit", "train.csv", "--label", "color", "-o", "model.histogp", "--kernel", "hik", "--noise", "0.05")
    return histogp.load("model.histogp")
