# Everything runs in .venv, which is made on demand; nothing outside this folder is changed.

FIND_PYTHON = for python in python3.13 python3.12 python3.11 python3.14 python3 python; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		&& { echo $$python; break; }; done
PYTHON ?= $(shell $(FIND_PYTHON))
PIP = .venv/bin/python -m pip --disable-pip-version-check --quiet
RUN = .venv/bin/python

.PHONY: demo test lint types unit wheel bench fuzz clean

demo: .venv/installed
	.venv/bin/histogp demo

test: lint types unit wheel

lint: .venv/tested
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: .venv/tested
	$(RUN) -m mypy

# A file of tests stays on one process, in order.
unit: .venv/tested
	$(RUN) -m pytest --numprocesses 2 --dist loadfile

# The built wheel, without extras and outside of the source tree, imports, fits and shows its demo.
wheel: .venv/tested
	rm -rf dist .venv-wheel
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(RUN) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt dist/*.whl
	cd dist && ../.venv-wheel/bin/python -W error ../.ci/check_wheel.py && ../.venv-wheel/bin/histogp demo

# All cases take hours; `.venv/bin/python -m benchmarks run NAME` measures some. A case that fails stops no other.
bench: .venv/tested
	-$(RUN) -m benchmarks run
	$(RUN) -m benchmarks report

# Damaged model files: no crash, no hang, no memory. FILES=1000 for a quick look.
FILES ?= 100000
fuzz: .venv/installed
	$(RUN) tests/fuzz.py $(FILES)

.venv/python:
	@test -n "$(PYTHON)" || { echo "histogp needs Python 3.11 or newer with the venv module (on Debian: apt-get install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/python pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

.venv/tested: .venv/installed
	$(PIP) install --constraint constraints.txt --editable '.[test]'
	@touch $@

clean:
	rm -rf .venv .venv-wheel build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
