"""Imports point downwards only."""

import ast
from pathlib import Path

import histogp

# From the bottom to the top; a module may import from its own layer and from those before it.
LAYERS = [
    ["_sklearn", "exceptions"],
    ["_numba", "threads"],
    ["blas"],
    ["atomic", "storage"],
    ["container", "sources"],
    ["primal"],
    ["intersection", "maps"],
    ["kernels"],
    ["hyperparameters"],
    ["operators"],
    ["solvers"],
    ["posterior"],
    ["datasets", "estimators"],
    ["active", "feature_maps", "streaming"],
    ["plotting", "reports"],
    ["cli"],
]
ROOT = Path(histogp.__file__).parent
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported_parts(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("histogp."))


def sources():
    return [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def test_every_module_has_a_layer():
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in sources()} == set(LEVEL)


def test_imports_point_downwards():
    upward = [
        f"{path.relative_to(ROOT)} imports {part}"
        for path in sources()
        for part in imported_parts(path)
        if LEVEL[part] > LEVEL[path.relative_to(ROOT).parts[0].removesuffix(".py")]
    ]
    assert not upward


def test_numerics_know_nothing_of_estimators():
    for layer in ("operators", "solvers", "posterior", "_numba"):
        for path in (ROOT / layer).rglob("*.py"):
            assert "sklearn" not in path.read_text(), path


def test_solvers_and_posteriors_know_operators_by_their_contract_only():
    for layer in ("solvers", "posterior"):
        for path in (ROOT / layer).rglob("*.py"):
            assert path.read_text().count("histogp.operators.") == path.read_text().count("histogp.operators.base"), (
                path
            )


def test_leaves_call_no_leaf_of_another_file():
    for path in (ROOT / "_numba").glob("*.py"):
        assert set(imported_parts(path)) <= {"_numba"}
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        ours = {node.module for node in imports if node.module.startswith("histogp")}
        assert ours <= {"histogp._numba.jit", "histogp._numba.memory"}


def test_files_stay_short():
    assert not [path for path in sources() if len(path.read_text().splitlines()) > 400]


def test_what_depends_on_the_version_of_scikit_learn_is_in_one_file():
    for path in sources():
        if path != ROOT / "_sklearn.py":
            text = path.read_text()
            assert "sklearn.callback" not in text, path
            assert "_check_sample_weight" not in text, path
            assert "warnings.warn" not in text, path
            assert "stacklevel" not in text, path
