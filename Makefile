PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread per test process: the processes already use all cores.
TEST_ENV := OMP_NUM_THREADS=1

.PHONY: setup demo test lint docs proto browser wheel audit chaos mutants results bench notebooks clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: setup
	$(BIN)/tacit train

lint: setup
	$(BIN)/ruff check src tests benchmarks examples notebooks docs/hooks
	$(BIN)/ruff format --check src tests benchmarks examples notebooks docs/hooks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Build the documentation into site/, without a network; every warning is an error. Open site/index.html.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(TEST_ENV) $(BIN)/mkdocs build --strict

# Compile the messages of the site protocol. The result is kept in the repository, so that installing needs no compiler.
proto: setup
	$(BIN)/python -m grpc_tools.protoc -Isrc --descriptor_set_out=src/tacit/sites/wire.binpb tacit/sites/wire.proto

# The report pages are tested in a real browser. Without one, those tests are skipped.
browser:
	@if command -v chromium >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null \
			|| echo "chromium could not be installed: the browser tests of the report pages will be skipped"; \
	else echo "chromium is not installed: the browser tests of the report pages will be skipped"; fi

test: lint browser
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal

# Build the wheel into dist/, install it into an environment of its own, and use it outside the checkout.
wheel: setup
	TACIT_DIST=dist $(TEST_ENV) $(BIN)/python -m pytest -m full -rA tests/test_wheel.py

# Long audits of every method and of the gallery of broken mechanisms, and long runs of methods. Prints the ε lower bound of each.
audit: setup
	$(TEST_ENV) $(BIN)/python -m pytest -m full -rA -n 2 --dist worksteal tests/audit tests/algorithms tests/reproduce

# Long tests of sites and of several processes: hundreds of kills, lost messages, frozen sites, malformed messages, unauthorised connections.
chaos: setup
	$(TEST_ENV) $(BIN)/python -m pytest -m full -rA -n 2 --dist worksteal tests/sites tests/cli

# Privacy mistakes of one line, made one by one in copies of the tree. Each must make a test fail.
mutants: setup
	$(TEST_ENV) $(BIN)/python -m tests.mutants

# Make the tables and charts of docs/experiments, and its summary, from the results in experiments/results.
results: setup
	$(BIN)/python -m tacit.reports.results_pages docs/experiments/*.md

# Measure every row of docs/benchmarks.md and write its tables, about 25 minutes. An interrupted run continues.
# Libraries other than Opacus are installed into environments of their own under benchmarks/.venv.
bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m benchmarks

# Write notebooks for Jupyter from their sources. They are not kept in the repository.
notebooks: setup
	$(BIN)/jupytext --to ipynb notebooks/*.py

clean:
	rm -rf $(VENV) runs build dist site .pytest_cache .mypy_cache .ruff_cache notebooks/*.ipynb
