# All commands run in .venv, which is created by PYTHON.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-fast lint types bench bench-quick clean

demo: .venv/demo-installed
	$(BIN)/python examples/demo.py

test: lint types
	$(BIN)/python -m pytest -n auto --dist worksteal

# The inner loop of development: about a minute.
test-fast: .venv/test-installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

lint: .venv/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test-installed
	$(BIN)/mypy

.venv/%-installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

# The packages that lincode is compared with have a separate environment.
bench: .venv-bench/installed
	.venv-bench/bin/python benchmarks/bench.py

bench-quick: .venv-bench/installed
	.venv-bench/bin/python benchmarks/bench.py --quick

.venv-bench/installed: pyproject.toml
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --editable ".[bench]"
	touch $@

clean:
	rm -rf .venv .venv-bench demo-output bench-output
