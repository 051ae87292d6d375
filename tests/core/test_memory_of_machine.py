"""How much memory there is."""

from histogp._core.memory import memory_of_machine


def test_a_container_has_what_its_limit_says(tmp_path):
    everything = memory_of_machine(())
    assert everything > 2**28
    limit, none, missing = (str(tmp_path / name) for name in ("limit", "none", "missing"))
    (tmp_path / "limit").write_text("123456\n")
    (tmp_path / "none").write_text("max\n")
    assert memory_of_machine((missing, none)) == everything
    assert memory_of_machine((missing, none, limit)) == 123456
