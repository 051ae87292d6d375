"""The examples of the README run as they stand there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_the_examples_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 9
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert names["search"].best_score_ > 0.9
    assert (names["same"].predict(names["X_test"]) == names["clf"].predict(names["X_test"])).all()
    first = capsys.readouterr().out.splitlines()[0]
    assert float(first.split()[0]) > 0.98
    assert "features carry half the weight" in first
