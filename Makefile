# Everything a newcomer or CI needs; each target makes its own virtual environment. Only Python >= 3.11 is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo lab test test-fast test-realistic fuzz lint format lock bench clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP) ## carry a simulated cluster through two hops and show it (about a minute)
	@$(BIN)/python -m starter demo $(ARGS)

lab: $(STAMP) ## a real control plane with worker and watcher, to try the guide by hand
	@PYTHONPATH=tests $(BIN)/python -m lab $(ARGS)

test: $(STAMP) ## every test, the real control plane included
	$(BIN)/python -m pytest $(ARGS)

test-fast: $(STAMP) ## the tests that need no control plane and no long-running process
	$(BIN)/python -m pytest -m "not slow and not controlplane" $(ARGS)

test-realistic: $(STAMP) ## a control plane of real processes from Kubernetes 1.35.4 to 1.36.1 under load; prints its figures
	$(BIN)/python -m pytest tests/realistic -s $(ARGS)

fuzz: $(STAMP) ## 10,000 random templates against Go, and as many YAML texts against kubectl's reader
	HOPLINE_FUZZ_CASES=$(or $(CASES),10000) $(BIN)/python -m pytest tests/oracles -s --timeout=0 $(ARGS)

lint: $(STAMP) ## format check, ruff, mypy --strict, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## measure the numbers of benchmarks/README.md on this machine
	PYTHONPATH=tests $(BIN)/python -m benchmarks $(ARGS)

lock: ## resolve requirements/*.in into the lock files (needs uv on the PATH)
	cd requirements && for name in runtime dev; do \
	  uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	    --no-header --quiet $$name.in --output-file $$name.lock; done

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build *.egg-info
