"""Imports point downwards only, and what is private to a package stays there."""

import ast
from pathlib import Path

import pytest

import histogp

# From the bottom to the top; a module may import from its own layer and from those before it.
LAYERS = [
    ["errors"],
    ["exceptions"],
    ["_sklearn"],
    ["io"],
    ["_core"],
    ["sources"],
    ["kernels"],
    ["_classes", "_estimator"],
    ["feature_maps"],
    ["gp", "streaming", "datasets"],
    ["active"],
    ["plotting"],
    ["reports"],
    ["cli"],
    ["__main__"],
]
# Built on top of the library, as a user's own code would be.
ON_TOP = ("active", "cli", "plotting", "reports")
# Base classes whose private methods are a contract between their package and the packages above it.
CONTRACTS = {"io/schema.py": "Saved", "kernels/_base.py": "Kernel", "feature_maps/expansions.py": "FeatureMap"}
# Not ours, but Python's, scikit-learn's and Numba's for those who build on them.
OF_OTHERS = {"_cache", "_getframe", "_parameter_constraints", "_validate_params"}
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


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def is_own(node):
    """Whether an object is that of the method: ``self``, ``cls`` or ``super()``."""
    if isinstance(node, ast.Call):
        node = node.func
        return isinstance(node, ast.Name) and node.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def members_of(tree):
    """The private names that classes define: methods, attributes of the class and of ``self``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.FunctionDef | ast.ClassDef):
                    yield one.name
                elif isinstance(one, ast.Assign | ast.AnnAssign):
                    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                    yield from (target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            yield node.attr


def private_uses(tree):
    """Private attributes of objects other than ``self``, also those asked for by their names, and all of ``vars``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_own(node.value):
            if is_private(node.attr) or node.attr == "__dict__":
                yield node.attr, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id == "vars" and not is_own(node.args[0]):
                yield "__dict__", node.lineno
            if node.func.id in ("getattr", "hasattr", "setattr", "delattr") and not is_own(node.args[0]):
                name = node.args[1]
                if isinstance(name, ast.Constant) and is_private(name.value):
                    yield name.value, node.lineno


def tree_of(path):
    return ast.parse(path.read_text())


def foreign_uses(paths, allowed=frozenset()):
    """Uses of private attributes that no class of the same package defines."""
    own = {}
    for path in sources():
        own.setdefault(part_of(path), set()).update(members_of(tree_of(path)))
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for name, line in private_uses(tree_of(path))
        if name not in own[part_of(path)] | allowed
    ]


def test_packages_on_top_import_public_names_only():
    private = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources()
        if part_of(path) in ON_TOP
        for name in imports_of(path)
        if name.startswith("histogp.") and name.split(".")[1] != part_of(path) and any(map(is_private, name.split(".")))
    ]
    assert not private


def test_packages_on_top_use_public_attributes_only():
    assert not foreign_uses([path for path in sources() if part_of(path) in ON_TOP])


def test_private_attributes_of_another_package_are_those_of_a_contract():
    allowed = set(OF_OTHERS) | {"__dict__"}
    for file, name in CONTRACTS.items():
        (base,) = (
            node for node in ast.walk(tree_of(ROOT / file)) if isinstance(node, ast.ClassDef) and node.name == name
        )
        allowed |= set(members_of(base))
    assert not foreign_uses([path for path in sources() if part_of(path) not in ON_TOP], allowed)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("model._posterior", ["_posterior"]),
        ("self.model._posterior.x", ["_posterior"]),
        ("make()._posterior = 1", ["_posterior"]),
        ("vars(model).pop('a')", ["__dict__"]),
        ("model.__dict__", ["__dict__"]),
        ("getattr(model, '_scale', None)", ["_scale"]),
        ("self._own, cls._own, super()._own, vars(self), model.public, model.__class__", []),
    ],
)
def test_back_doors_are_seen(code, found):
    assert [name for name, _ in private_uses(ast.parse(code))] == found


def kinds():
    """The classes of operators, kernels, systems, maps, means and objectives."""
    files = [*(ROOT / "kernels").glob("*.py"), *(ROOT / "feature_maps").glob("*.py"), *(ROOT / "_core").rglob("*.py")]
    data = {"Rows", "StreamingStatistics"}  # which are containers
    return {node.name for file in files for node in tree_of(file).body if isinstance(node, ast.ClassDef)} - data


def names_in(node):
    """All names and attributes below a node."""
    return {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node)} - {""}


def questions(tree, classes):
    """The lines that ask whether something is of one of these classes."""
    for node in ast.walk(tree):
        named = set()
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            named = names_in(node.args[1])
        elif isinstance(node, ast.Compare) and any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops):
            sides = [node.left, *node.comparators]
            named = {getattr(one, "id", getattr(one, "attr", "")) for one in sides}
        elif isinstance(node, ast.MatchClass):
            named = names_in(node.cls)
        if named & classes:
            yield node.lineno


def test_nobody_asks_of_which_kind_a_thing_is():
    """What users give is checked where it comes in; the rest is asked what it offers, which is in `contract.py`."""
    entrances = {"kernels/_base.py", "kernels/sums.py", "gp/_model_file.py", "feature_maps/_adapters.py"}
    entrances |= {"_core/variance/__init__.py"}  # which finds methods in modules
    classes, given = kinds(), {"Kernel", "Transform", "FeatureMap", "VarianceMethod"}
    asking = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources()
        for line in questions(tree_of(path), classes - given if str(path.relative_to(ROOT)) in entrances else classes)
    ]
    assert not asking


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("isinstance(x, Sum)", 1),
        ("isinstance(x, pair_kernels.Constant | float)", 1),
        ("issubclass(x, (int, Landmarks))", 1),
        ("type(x) is DenseOperator", 1),
        ("type(x) is not operators.DenseOperator", 1),
        ("match x:\n    case Sum():\n        pass", 1),
        ("isinstance(x, int | str), x is None, Sum([x]), type(x) is type(y)", 0),
    ],
)
def test_questions_are_seen(code, found):
    assert len(list(questions(ast.parse(code), kinds()))) == found


def test_file_names_are_unique():
    names = [path.name for path in sources() if path.name != "__init__.py"]
    assert not {name for name in names if names.count(name) > 1}


# Beginnings of a docstring that only a reader of the line before it understands.
LEANING = (
    "The same",
    "The inverse",
    "The other",
    "Those ",
    "These ",
    "As before",
    "As above",
    "Its ",
    "Their ",
    "Likewise",
)


@pytest.mark.parametrize("part", sorted(LEVEL))
def test_functions_are_documented_and_no_docstring_refers_to_another(part):
    for path in sources():
        if part_of(path) != part or "_numba" in path.parts:
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                assert text or node.end_lineno - node.lineno < 10, f"{path.name}:{node.lineno}: no docstring"
                assert not text.startswith(LEANING), f"{path.name}:{node.lineno}: {text}"
