# Everything runs in .venv, which is made on demand; nothing outside this folder is changed.

FIND_PYTHON = for python in python3.13 python3.12 python3.11 python3.14 python3 python; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		&& { echo $$python; break; }; done
PYTHON ?= $(shell $(FIND_PYTHON))
LOWEST_PYTHON ?= python3.11
PIP = .venv/bin/python -m pip --disable-pip-version-check --quiet
RUN = .venv/bin/python

.PHONY: demo test lint types unit quick lowest wheel portable bench fuzz docs site clean

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

# Less than 90 seconds on two processes, once Numba's cache is warm: without slow tests, and with fewer examples.
quick: .venv/tested
	HYPOTHESIS_PROFILE=quick $(RUN) -m pytest --numprocesses 2 --dist loadfile -m 'not slow'

# The contract tests and the quick ones, with the lowest versions that pyproject.toml allows.
lowest: export NUMBA_CACHE_DIR = $(CURDIR)/.venv-lowest/numba
lowest: .venv-lowest/tested
	.venv-lowest/bin/python -m pytest --numprocesses 2 tests/test_contract.py
	HYPOTHESIS_PROFILE=quick .venv-lowest/bin/python -m pytest --numprocesses 2 --dist loadfile -m 'not slow'

# The built wheel, without extras and outside of the source tree, imports, fits and shows its demo.
wheel: .venv/tested
	rm -rf dist .venv-wheel
	$(PIP) wheel --no-deps --wheel-dir dist .
	$(RUN) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt dist/*.whl
	cd dist && ../.venv-wheel/bin/python -W error ../.ci/check_wheel.py && ../.venv-wheel/bin/histogp demo

# The site, with the gallery run in full; every warning is an error, and links inside are checked.
SITE = $(RUN) -m sphinx --fail-on-warning --keep-going --quiet --jobs auto docs docs/_build/html
docs: .venv/documented
	$(RUN) docs/get_mathjax.py
	$(SITE)
	$(RUN) docs/check_links.py docs/_build/html

# The same without running the gallery.
site: .venv/documented
	HISTOGP_GALLERY=no $(SITE)
	$(RUN) docs/check_links.py docs/_build/html

# What compares bits, files and solvers, with the loops that BLAS has for other processors, then also with compiled loops
# for any processor at all.
CORES = $(shell grep -qs avx512vl /proc/cpuinfo && echo SkylakeX) Haswell Zen Nehalem
PORTABLE = HYPOTHESIS_PROFILE=quick $(RUN) -m pytest -m portable -k 'not common_checks' --numprocesses 2 --dist loadfile --quiet -r fE tests
portable: .venv/tested
	set -e; for core in $(CORES); do echo "OPENBLAS_CORETYPE=$$core"; OPENBLAS_CORETYPE=$$core $(PORTABLE); done
	OPENBLAS_CORETYPE=Nehalem NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$(CURDIR)/.pytest_cache/numba-generic $(PORTABLE)

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

.venv/documented: .venv/tested
	$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

.venv-lowest/tested: pyproject.toml constraints-lowest.txt
	$(LOWEST_PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints-lowest.txt \
		--editable '.[activeml,parquet,plot]' hypothesis pandas polars pytest pytest-xdist
	@touch $@

clean:
	rm -rf .venv .venv-lowest .venv-wheel build dist docs/_build docs/_static/mathjax docs/api/generated docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
