"""A package of tiny cases, and checkouts of something that is called histogp."""

from textwrap import dedent

import pytest


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The name of a package with cases, which child processes find as well."""
    package = tmp_path / "tiny_cases"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "speed.py").write_text(
        dedent('''
        from benchmarks.registry import case

        @case("tiny_fit", group="tiny", bar={"seconds": "<= 1.5"}, smoke={"factor": 10})
        def tiny_fit(factor=1):
            """As long as the imported histogp says."""
            import histogp
            print("not a result")
            return {"seconds": factor * histogp.SECONDS, "accuracy": 1 / 3}

        @case("tiny_failure", group="tiny")
        def tiny_failure():
            raise RuntimeError("nothing to measure")
        ''')
    )
    (package / "other.py").write_text(
        dedent("""
        from benchmarks.registry import case

        @case("tiny_needs", group="other", needs=("sys", "no_such_module_or_command"), bar={"absent": "> 0"})
        def tiny_needs():
            return {"present": 1}
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "tiny_cases"


@pytest.fixture
def checkout(tmp_path):
    """Makes a checkout in which histogp is a module with a number of seconds."""

    def make(name, seconds):
        package = tmp_path / name / "src" / "histogp"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f'__version__ = "{name}"\nSECONDS = {seconds}\n')
        return tmp_path / name

    return make
