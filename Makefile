PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread a test process: the processes already fill the cores.
TEST_ENV := OMP_NUM_THREADS=1

.PHONY: setup demo test lint clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: setup
	$(BIN)/tacit train

lint: setup
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/mypy

test: lint
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal

clean:
	rm -rf $(VENV) runs build .pytest_cache .mypy_cache .ruff_cache
