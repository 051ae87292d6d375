"""What histogp and its estimators load: it must stay cheap. `tools/import_time.py` measures how cheap."""

import json
import subprocess
import sys

import pytest

# What histogp is built on, with all that these load themselves, pandas and rich for instance.
BASE = ("numpy", "scipy", "sklearn", "joblib", "threadpoolctl")
# Compiled loops are declared when modules are imported, hence Numba.
OWN_NEEDS = {"histogp", "numba", "llvmlite", "safetensors"}


def modules_after(names):
    """All modules that a fresh interpreter has after importing some."""
    code = f"import importlib, json, sys\nfor name in {names!r}: importlib.import_module(name)\n"
    command = [sys.executable, "-c", code + "print(json.dumps(list(sys.modules)))"]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return set(json.loads(printed))


@pytest.fixture(scope="module")
def loaded():
    return modules_after(["histogp", "histogp.gp"])


def test_importing_histogp_alone_loads_nothing_of_it():
    assert {name for name in modules_after(["histogp"]) if name.startswith("histogp")} == {"histogp"}


def test_importing_histogp_loads_nothing_else_that_is_large(loaded):
    base = sorted(name for name in loaded if name.partition(".")[0] in BASE and "._" not in name)
    beyond = loaded - modules_after(base)
    packages = {name.partition(".")[0] for name in beyond} - set(sys.stdlib_module_names)
    assert packages <= OWN_NEEDS
    assert "histogp" in packages
    assert not {name for name in beyond if name.startswith("safetensors.")} - {
        "safetensors.numpy",
        "safetensors._safetensors_rust",
    }


@pytest.mark.parametrize("package", ["active", "cli", "datasets", "plotting", "reports", "sources"])
def test_importing_histogp_leaves_out_what_few_need(loaded, package):
    assert not {name for name in loaded if (name + ".").startswith(f"histogp.{package}.")}


def test_public_packages_need_no_plots_tables_or_terminals(loaded):
    public = [f"histogp.{package}" for package in ("active", "datasets", "feature_maps", "kernels", "streaming")]
    beyond = modules_after(public) - loaded
    assert set(public) <= beyond | loaded
    packages = {name.partition(".")[0] for name in beyond} - set(sys.stdlib_module_names)
    packages = {name for name in packages if not name.startswith("_")}  # compiled parts of older scikit-learn
    assert packages <= OWN_NEEDS | set(BASE)
    assert not {name for name in beyond if (name + ".").startswith(("histogp.cli.", "histogp.plotting."))}


def test_packages_are_attributes_of_histogp():
    names = ("active", "datasets", "exceptions", "feature_maps", "gp", "kernels", "plotting", "streaming")
    code = f"import histogp\nfor name in {names!r}: getattr(histogp, name)\nassert set({names!r}) <= set(dir(histogp))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numerics_and_files_know_no_scikit_learn():
    loaded = modules_after(["histogp._core.posterior", "histogp.io.schema", "histogp.sources"])
    assert "sklearn" not in loaded
