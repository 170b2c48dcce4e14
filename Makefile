# Everything runs in .venv, made here; PYTHON is the interpreter that makes it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types clean

demo: .venv/demo-installed
	$(BIN)/python examples/demo.py

test: lint types
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: .venv/test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test-installed
	$(BIN)/mypy

.venv/%-installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@

clean:
	rm -rf .venv demo-output
