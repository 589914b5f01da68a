# `make test` and `make bench` need Python 3.11 or newer with pip, nothing else: the first run creates .venv.
.DEFAULT_GOAL := help
.PHONY: help venv test lint typecheck schemas-check unit fuzz fuzz-minute fuzz-atheris bench benchmarks pair schemas format clean

# The interpreter that .venv is made of: `make test PYTHON=python3.12` to choose another.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

FUZZ_TESTS := tests/specmeta/files/test_fuzz_files.py tests/specmeta/dialects/test_fuzz_dialects.py

# How long `make fuzz` and `make fuzz-atheris` look for inputs that break a reader, each in all.
SPECMETA_FUZZ_SECONDS ?= 600

# A checkout is tested as it is: nothing of a surrounding environment may reach it.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk 'BEGIN {FS = ":.*## "} {printf "  make %-15s %s\n", $$1, $$2}'

venv: $(STAMP) ## Create .venv and install everything into it (cached).

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "specmeta needs Python 3.11 or newer; none found. Use make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "specmeta needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Use make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Setting up $(VENV) (once; torch is the large part)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: lint typecheck schemas-check unit fuzz-minute ## Run every check: lint, types, schemas, tests, coverage, wheel.

lint: $(STAMP) ## Run ruff (rules and format).
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(STAMP) ## Run mypy --strict over everything, pyright over the packages.
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

schemas-check: $(STAMP) ## Verify that schemas/ matches the models.
	$(BIN)/specmeta schema --check

unit: $(STAMP) ## Run pytest with coverage.
	$(BIN)/python -m pytest --cov --cov-report=term

fuzz: $(STAMP) ## Fuzz the readers for SPECMETA_FUZZ_SECONDS (600).
	SPECMETA_FUZZ_SECONDS=$(SPECMETA_FUZZ_SECONDS) $(BIN)/python -m pytest -q $(FUZZ_TESTS)

fuzz-minute: $(STAMP)
	SPECMETA_FUZZ_SECONDS=60 $(BIN)/python -m pytest -q $(FUZZ_TESTS)

fuzz-atheris: $(STAMP) ## Fuzz the readers by coverage, with atheris, which it installs.
	$(BIN)/python -m pip install --disable-pip-version-check --quiet 'atheris>=3'
	$(BIN)/python -m tests.fuzz.write_seeds build/fuzz/corpus
	cd build/fuzz && ../../$(BIN)/python ../../tests/fuzz/fuzz_readers.py \
		-max_total_time=$(SPECMETA_FUZZ_SECONDS) -max_len=4096 -rss_limit_mb=1024 corpus

bench: $(STAMP) ## Measure accept length with the bundled pair.
	$(BIN)/specmeta bench accept-length

benchmarks: $(STAMP) ## Run the comparisons in benchmarks/.
	@for script in benchmarks/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

pair: $(STAMP) ## Train the bundled models again (about 2.5 hours on two cores; resumable).
	@for stage in corpus tokenizer train_target generate train_dspark train_dflash train_mtp export; do \
		echo "== $$stage"; $(BIN)/python training/$$stage.py || exit 1; done

schemas: $(STAMP) ## Regenerate schemas/ from the models.
	$(BIN)/specmeta schema

format: $(STAMP) ## Format the code and apply ruff's safe fixes.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove .venv, caches and build outputs.
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
