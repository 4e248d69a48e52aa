# `make demo` and `make test` need Python 3.11, its venv module, pip and make, nothing else: the environment is made in
# .venv on the first call and brought up to date when pyproject.toml or constraints.txt change.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Two workers for two cores; one thread each, since the workers already fill the cores.
WORKERS ?= 2
PYTEST  := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile
ARGS    ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test fuzz lint types check bench clean

help:
	@echo "make demo    extract data from real texts with the default model"
	@echo "make test    run the tests (ARGS='-m \"not slow\"' for the quick ones)"
	@echo "make fuzz    the property tests on examples that no run has seen"
	@echo "make lint    ruff and the import arrows;  make types   mypy"
	@echo "make check   lint, types and test"
	@echo "make bench   the benchmarks (benchmarks/RESULTS.md)"

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "making $(VENV) (once)"; $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt --config-settings editable_mode=compat -e '.[dev]'
	@touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py $(ARGS)

# Tests that need the default model are skipped where it cannot be fetched.
test: $(STAMP)
	@$(BIN)/constrained models fetch >/dev/null || echo "no default model: its tests are skipped" >&2
	$(PYTEST) $(ARGS)

# Property tests draw the same examples at every `make test`; here they draw new ones.
fuzz: $(STAMP)
	CONSTRAINED_EXAMPLES=fuzz $(PYTEST) -m "not slow" $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

check: lint types test

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find constrained engine grammars tests -name __pycache__ -type d -prune -exec rm -rf {} +
