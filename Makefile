# Two commands do everything, set-up included:   make demo   and   make test
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-again test-fast test-gpu test-clients test-exchange docs release-check lint format setup clean help

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1  /p' $(MAKEFILE_LIST) | awk '{name=$$1; $$1=""; printf "  make %-14s%s\n", name, $$0}'

demo: $(STAMP) ## the policy acts in a real Chromium: small web tasks, two in web apps; ends with a report to look at
	$(BIN)/python -m holotron demo --out runs/demo

test: lint ## everything: lint, types, all tests that this machine can run
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-again: $(STAMP) ## what failed last time, one after the other
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-fast: $(STAMP) ## without a browser and without the slow tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not browser and not slow"

test-gpu: $(STAMP) ## only the tests that need a CUDA GPU
	$(BIN)/python -m pytest -m gpu

test-clients: $(STAMP) ## clients people use (LangChain, browser-use, ...), each in an environment of its own
	HOLOTRON_TEST_CLIENTS=1 $(BIN)/python -m pytest tests/clients

test-exchange: $(STAMP) ## with the real packages of other frameworks, each in an environment of its own (Python 3.12)
	bash tools/exchange.sh
	HOLOTRON_EXCHANGE=.exchange $(BIN)/python -m pytest tests/exchange

docs: $(STAMP) ## the documentation as a site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html   (with search: $(BIN)/python -m http.server -d site)"

release-check: $(STAMP) ## what a release must pass: wheel, extras, metadata, docs, licences, SBOM (needs a package index)
	$(BIN)/python tools/release_check.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

setup: $(STAMP) ## virtual environment, packages, browser

$(STAMP): pyproject.toml tools/setup.sh
	PYTHON="$(PYTHON)" VENV="$(VENV)" bash tools/setup.sh
	@touch $@

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .cache/clients .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
