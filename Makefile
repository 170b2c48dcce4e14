# All commands run in .venv, which is created by PYTHON.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-fast fuzz lint types docs bench bench-quick clean

demo: .venv/demo-installed
	$(BIN)/python examples/demo.py

test: lint types
	$(BIN)/python -m pytest -n auto --dist worksteal

# The inner loop of development: about a minute.
test-fast: .venv/test-installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# A long search for inputs that break the library; FUZZ is the number of cases per test.
fuzz: .venv/test-installed
	$(BIN)/python -m tests.fuzz $(FUZZ)

lint: .venv/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test-installed
	$(BIN)/mypy

.venv/%-installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

# The site is docs/_build/html/index.html. Warnings are errors. The examples are run every time.
docs: .venv-docs/installed
	rm -rf docs/_build docs/api docs/gallery
	.venv-docs/bin/python -m sphinx -W --keep-going -q docs docs/_build/html

.venv-docs/installed: pyproject.toml
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --editable ".[docs]"
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
	rm -rf .venv .venv-bench .venv-docs demo-output bench-output
	rm -rf docs/_build docs/api docs/gallery
