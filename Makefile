# `make demo` and `make test` work on a fresh clone: each makes .venv and installs what it needs first.

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --no-compile -c constraints.txt
# What pip would do on one core; files that are no Python, such as templates, are passed over.
COMPILE = $(BIN)/python -m compileall -qq -j 0 .venv/lib || true
# One thread per process: parallel tests on few cores lose far more to spinning threads than they gain.
ONE_THREAD = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE
# Tests start a hundred processes that import the package, whatever the environment says of byte code.
KEEP_BYTECODE = PYTHONDONTWRITEBYTECODE=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test slow faults audit lint format install wheel clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-9s %s\n' "$$name" "$$text"; done

demo: .venv/installed ## train on imbalanced digits, ERM against MFW: a table and a picture in under two minutes
	$(BIN)/procrustean demo

test: lint ## lint, then every test but those of `make slow`
	$(ONE_THREAD) $(KEEP_BYTECODE) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not alone and not slow"
	$(ONE_THREAD) $(KEEP_BYTECODE) $(BIN)/python -m pytest -m alone $$(grep -rl --include='*.py' 'mark\.alone' tests)

slow: .venv/installed-dev ## tests that take long: several processes, compiled graphs, kernels without a GPU, long pages
	$(ONE_THREAD) $(KEEP_BYTECODE) $(BIN)/python -m pytest -n $(WORKERS) -m slow

faults: .venv/installed-dev ## kill, damage and fuzz by the hundred (six to twenty minutes); figures into docs/reliability.md
	$(ONE_THREAD) nice $(BIN)/python tests/faults/campaign.py --output results/faults.json
	$(BIN)/python tests/faults/table.py

audit: .venv/installed-dev ## ask for known vulnerabilities of the pinned dependencies; needs a network
	$(BIN)/python tools/audit.py

lint: .venv/installed-dev ## ruff, mypy and the order of the rooms
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: .venv/installed-dev ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

install: .venv/installed-dev ## make .venv with everything for development

wheel: .venv/installed-dev ## build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation

clean: ## remove .venv, caches and builds (runs and data stay)
	rm -rf .venv dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "$(PYTHON) is not on the PATH. Install Python 3.11 or newer, or name one: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Procrustean needs Python 3.11 or newer; $(PYTHON) is $$("$(PYTHON)" -V 2>&1)." \
			"Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e '.[pretrained]'
	$(COMPILE)
	@touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e '.[test,dev]'
	$(COMPILE)
	@touch $@ .venv/installed
