"""Imports point downwards only."""

import ast
from pathlib import Path

import histogp

# From the bottom to the top; a module may import from its own layer and from those before it.
LAYERS = [
    ["exceptions"],
    ["_sklearn"],
    ["io"],
    ["_core"],
    ["sources"],
    ["kernels"],
    ["_classes", "_estimator"],
    ["feature_maps"],
    ["gp", "streaming", "datasets", "_encoding"],
    ["_load"],
    ["active"],
    ["plotting"],
    ["reports"],
    ["cli"],
]
ROOT = Path(histogp.__file__).parent
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports_of(path):
    """The full names of all that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_parts(path):
    return [name.split(".")[1] for name in imports_of(path) if name.startswith("histogp.")]


def sources():
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_module_has_a_layer():
    assert {part_of(path) for path in sources()} == set(LEVEL)


def test_imports_point_downwards():
    upward = [
        f"{path.relative_to(ROOT)} imports {part}"
        for path in sources()
        for part in imported_parts(path)
        if LEVEL[part] > LEVEL[part_of(path)]
    ]
    assert not upward


def test_numerics_know_nothing_of_scikit_learn():
    for path in [*(ROOT / "_core").rglob("*.py"), *(ROOT / "io").rglob("*.py")]:
        assert not any(name.startswith("sklearn") for name in imports_of(path)), path


def test_solvers_and_variances_know_operators_by_their_contract_only():
    for package in ("solvers", "variance"):
        for path in (ROOT / "_core" / package).rglob("*.py"):
            known = {name for name in imports_of(path) if name.startswith("histogp._core.operators.")}
            assert all(name.startswith("histogp._core.operators.contract") for name in known), path


def test_leaves_call_no_leaf_of_another_file():
    for path in (ROOT / "_core" / "_numba").glob("*.py"):
        ours = {name for name in imports_of(path) if name.startswith("histogp")}
        assert ours <= {"histogp._core.threads.leaf", "histogp._core._numba.column_loops.prefetch"}


def test_what_depends_on_the_version_of_scikit_learn_is_in_one_file():
    for path in sources():
        if path != ROOT / "_sklearn.py":
            text = path.read_text()
            assert "sklearn.callback" not in text, path
            assert "_check_sample_weight" not in text, path
            assert "warnings.warn" not in text, path
            assert "stacklevel" not in text, path
