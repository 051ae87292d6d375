"""How much memory there is."""

import subprocess
import sys

import pytest

from histogp._core.memory import memory_of_machine


def test_a_container_has_what_its_limits_say(tmp_path):
    """Those of its own group, and of all that this is in."""
    everything = memory_of_machine("", ())
    assert everything > 2**28
    inner = tmp_path / "slice" / "job"
    inner.mkdir(parents=True)
    limit, groups = f"{tmp_path}{{}}/limit", tmp_path / "groups"
    assert memory_of_machine("", (limit,)) == everything
    groups.write_text("0::/slice/job\n")
    (inner / "limit").write_text("max\n")
    assert memory_of_machine(str(groups), (limit,)) == everything
    (tmp_path / "slice" / "limit").write_text("123456\n")
    assert memory_of_machine(str(groups), (limit,)) == 123456
    (tmp_path / "limit").write_text("1234\n")
    assert memory_of_machine(str(groups), (limit,)) == memory_of_machine("", (limit,)) == 1234


def test_a_process_has_what_it_is_allowed():
    pytest.importorskip("resource")
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
from histogp._core.memory import memory_of_machine
print(memory_of_machine("", ()))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) <= 2**33
