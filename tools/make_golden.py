"""Write the model files of ``tests/golden`` that are not there yet: ``python tools/make_golden.py``.

Files that were ever released stay as they are, since users have such files: only new ones are added.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from golden_models import GOLDEN  # noqa: E402


def main() -> None:
    """Make the models, and save them."""
    folder = TESTS / "golden"
    folder.mkdir(exist_ok=True)
    for name, (make, options) in GOLDEN.items():
        path = folder / f"{name}.histogp"
        if not path.exists():
            model = make()
            model.save(path, **options) if options else model.save(path)
            print(f"{path.name} {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
