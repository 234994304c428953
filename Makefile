# All the set-up there is: `make demo` and `make test` work on a machine with git, make and Python >= 3.11 with pip.
# Everything is installed into .venv, from locked and hashed requirements; after the first time no network is needed.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check coverage lint format site perf fuzz kills batch-kills ray-faults lock clean

help:  ## Say what can be made.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.installed  ## See it work: two ways of asking the embedded model, and chance.
	@$(BIN)/python run_benchmarks.py demo

PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses 4

test: $(VENV)/.installed-dev  ## Run the fast tests; they need nothing but Python. ARGS=... chooses.
	@$(PYTEST) -m "not slow" $(ARGS)

test-all: $(VENV)/.installed-full test  ## Run all tests: the fast ones, then the rest.
	@$(PYTEST) -m slow $(ARGS)

check: lint test  ## What to run before a pull request.

coverage: $(VENV)/.installed-dev  ## Run the fast tests and say how much of every room they reach.
	@mkdir -p build
	@$(PYTEST) -m "not slow" --cov --cov-report=json:build/coverage.json $(ARGS)
	@$(BIN)/python tests/covered_rooms.py build/coverage.json

lint: $(VENV)/.installed-dev  ## Check style and types.
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(VENV)/.installed-dev  ## Format the code.
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

site: $(VENV)/.installed-dev  ## Build the documentation into build/site; a warning is an error.
	@$(BIN)/zensical build --strict

perf: $(VENV)/.installed-full  ## Measure the speed, against a bare loop doing the same requests.
	@failed=0; $(BIN)/python perf/run.py $(ARGS) || failed=1; \
	for part in sandbox streams gateway pages large batches; do $(BIN)/python perf/$$part.py || failed=1; done; exit $$failed

fuzz: $(VENV)/.installed-dev  ## Feed the parsers garbage for FUZZ_SECONDS (600).
	@PYTHONPATH=.:tests $(BIN)/python tests/fuzz_parsers.py $(ARGS)

kills: $(VENV)/.installed-dev  ## Kill 300 runs and 30 chains of five at random moments.
	@RANDOM_KILLS=$${RANDOM_KILLS:-300} KILL_CHAINS=$${KILL_CHAINS:-30} $(BIN)/python -m pytest -s tests/test_random_kills.py

ray-faults: $(VENV)/.installed-full  ## Disturb a Ray cluster of three nodes 30 times, and kill 10 drivers (as root).
	@RAY_FAULTS=$${RAY_FAULTS:-30} RAY_DRIVER_KILLS=$${RAY_DRIVER_KILLS:-10} RAY_QUESTIONS=$${RAY_QUESTIONS:-600} \
		RAY_TASKS=$${RAY_TASKS:-60} $(BIN)/python -m pytest -s tests/cluster/test_ray_faults.py

batch-kills: $(VENV)/.installed-dev  ## Kill runs with batches at every second moment of their requests and writes.
	@BATCH_KILLS_EVERY=$${BATCH_KILLS_EVERY:-2} $(BIN)/python -m pytest -s tests/test_batch_kills.py

lock:  ## Update the lock files (needs uv).
	@for what in "requirements-full.lock:--group embedded --group dev --group full --all-extras" \
		"requirements-dev.lock:--group dev --extra excel -c requirements-full.lock" \
		"requirements.lock:--group embedded -c requirements-full.lock"; do \
		file=$${what%%:*}; \
		uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header $${what#*:} pyproject.toml -o $$file && \
		awk '/^[a-zA-Z0-9]/ {skip = /sys_platform == .never./} !skip' $$file > $$file.new && mv $$file.new $$file || exit 1; \
	done

clean:  ## Remove the environment, the caches and the built site.
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* build .cache

# pip is told which environment to fill: some systems ship Python without the means to put pip into a new one.
define install
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none was found on the PATH." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	@echo "Installing into $(VENV) ..."
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(1)
	@touch $@
endef

$(VENV)/.installed: requirements.lock
	$(call install,requirements.lock)

$(VENV)/.installed-dev: requirements-dev.lock
	$(call install,requirements-dev.lock)

$(VENV)/.installed-full: requirements-full.lock
	$(call install,requirements-full.lock)
