# Everything runs in .venv, which `make setup` builds from nothing but Python (3.11 or later) and make.
PYTHON ?= python3
SCALE ?= paper
MODULE ?=
JOBS ?= 2
BIN := .venv/bin
LIGHT := .venv-light/bin
SOURCES := porism theory sims kernels

# matrices here are small: more threads only wait for each other, and the more so on a busy machine
export OMP_NUM_THREADS ?= 1

.PHONY: setup reproduce test test-light test-full lint types notebooks bench docs clean

setup: .venv/done

.venv/done .venv-light/done: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("porism needs Python 3.11 or later; set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		$(if $(findstring light,$@),-e . pytest pytest-xdist hypothesis,-e '.[all,dev]')
	touch $@

reproduce: setup
	$(BIN)/porism reproduce $(MODULE) --scale $(SCALE) --out report

test: lint types test-light test-full

lint: setup
	$(BIN)/ruff check .

# on the installed wheel: the folders of the checkout are not laid out as the package is
types: setup
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/types .
	cd build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p porism

test-light: .venv-light/done
	PORISM_JOB=light $(LIGHT)/python -m pytest -q -n $(JOBS) --dist loadfile -m "not full and not slow"

test-full: setup
	PORISM_JOB=full $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --durations=15

notebooks: setup
	$(BIN)/porism notebooks --scale $(SCALE)

bench: setup
	PORISM_BENCH=1 $(BIN)/python -m pytest -q tests/benchmarks

# the site, from docstrings, notebooks and the ledger; no network, warnings are errors
docs: setup
	$(BIN)/python docs/build.py

clean:
	rm -rf build dist report *.egg-info .hypothesis .pytest_cache .mypy_cache .ruff_cache
	find $(SOURCES) tests notebooks -name __pycache__ -prune -exec rm -rf {} +
