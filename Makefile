PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread a test process: the processes already fill the cores.
TEST_ENV := OMP_NUM_THREADS=1

.PHONY: setup demo test lint proto browser audit chaos bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: setup
	$(BIN)/tacit train

lint: setup
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

# What sites say to each other, as Python: kept in the repository, so that an installation needs no compiler.
proto: setup
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src tacit/sites/wire.proto

# The report page is tested in a real browser; without one those tests are skipped, and say so.
browser:
	@if command -v chromium >/dev/null; then :; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null \
			|| echo "chromium could not be installed: the tests of the page in a browser will be skipped"; \
	else echo "there is no chromium here: the tests of the page in a browser will be skipped"; fi

test: lint browser
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal

# Every method and the whole gallery attacked at length; what each reaches is printed.
audit: setup
	$(TEST_ENV) $(BIN)/python -m pytest -m full -rA -n 2 --dist worksteal tests/audit/test_full.py

# Sites at length: hundreds of kills, lost messages, frozen sites, thousands of lies and of connections without a right.
chaos: setup
	$(TEST_ENV) $(BIN)/python -m pytest -m full -rA -n 2 --dist worksteal tests/sites

# Opacus is measured beside Tacit; other peers get environments of their own under benchmarks/.venv.
bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) runs build .pytest_cache .mypy_cache .ruff_cache
