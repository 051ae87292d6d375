"""What CONTRIBUTING says is there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_the_picture_is_that_of_the_imports():
    command = [sys.executable, str(ROOT / "tools" / "draw_packages.py")]
    drawn = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert drawn in TEXT, "run `python tools/draw_packages.py --write`"


def test_every_file_that_it_names_exists():
    named = set(re.findall(r"`((?:[a-z_]+/)+[A-Za-z_]*(?:\.[a-z]+)?)", TEXT)) | set(
        re.findall(r"`([a-z_/]+\.py)`", TEXT)
    )
    named -= {"benchmarks/results/"}  # made by the first benchmark
    roots = (ROOT, ROOT / "src" / "histogp")
    missing = [name for name in named if not any((root / name).exists() for root in roots)]
    known = {path.name for path in (ROOT / "src").rglob("*.py")}
    assert not [name for name in missing if Path(name).name not in known or "/" in name]
