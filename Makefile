# make run    set up, then show the main job on real logs
# make test   set up, then run every test
# make lint   ruff and mypy --strict
# make grammar the parsers and expressions of the grammars, compiled
# make golden what tests compare with, written anew: golden files, tables of documents, schemas; read the diff
# make bench  speed and memory, as ratios to an earlier revision
# make oracle millions of cases against NVIDIA's own answers
# make bounds the wheel with the lowest and the newest of what it needs, on each Python to be had
# make mutants small faults, planted: which of them the nearest tests notice
# make site   the documents as a site
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
TESTS  := $(VENV)/.tests

.PHONY: run test lint grammar golden bench oracle mutants bounds wheel site fixtures clean

# What running needs, and what tests need besides.
$(RUNS): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e .
	@touch $@

$(TESTS): $(RUNS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

run: $(RUNS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh fixtures/demo/run.sh

# Byte code is kept, whatever the environment says: workers, and what tests start, would compile all of it anew.
test: export PYTHONDONTWRITEBYTECODE =
test: $(TESTS)
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(TESTS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

grammar: $(TESTS)
	PYTHONHASHSEED=0 $(BIN)/python -m spillscan.reading.grammar

golden: $(TESTS)
	$(BIN)/python -m tests.writers

bench: $(TESTS)
	$(BIN)/python -m tests.benchmarks.compare

oracle: $(TESTS)
	$(BIN)/python -m pytest -n auto --hypothesis-profile=oracle
	$(BIN)/python tests/oracle/million.py
	$(BIN)/python -m tests.oracle.run_oracle
	$(BIN)/python -m tests.oracle.adoption_oracle
	$(BIN)/python tests/oracle/identity_oracle.py
	$(BIN)/python -m tests.oracle.names_oracle
	$(BIN)/python -m tests.oracle.healthy_oracle
	$(BIN)/python -m tests.oracle.renames_oracle fixtures/large/kernels5000-13.0.log.zst
	$(BIN)/python tests/oracle/spill_oracle.py
	$(BIN)/python -m tests.oracle.cubin_oracle
	$(BIN)/python -m tests.oracle.roles_oracle
	$(BIN)/python -m tests.oracle.registers_oracle --public
	$(BIN)/python -m tests.oracle.why_oracle
	$(BIN)/python -m tests.oracle.code_oracle
	$(BIN)/python -m tests.oracle.advice_oracle
	$(BIN)/python -m tests.oracle.containers_oracle
	$(BIN)/python -m tests.oracle.binary_oracle
	$(BIN)/python -m tests.oracle.binary_oracle --public --quick
	$(BIN)/python -m tests.oracle.size_oracle
	$(BIN)/python -m tests.oracle.size_oracle --public --disassemble 0
	$(BIN)/python -m tests.oracle.sweep_oracle
	$(BIN)/python -m tests.oracle.audit_oracle
	$(BIN)/python -m tests.oracle.dataset_oracle
	$(BIN)/python -m tests.history.audit.crashes
	$(BIN)/python -m tests.oracle.growth_oracle
	$(BIN)/python -m tests.oracle.history_oracle
	$(BIN)/python -m tests.oracle.attack_oracle

mutants: $(TESTS)
	$(BIN)/python -m tests.mutants

bounds: $(TESTS)
	$(BIN)/python -m tests.bounds

site: $(RUNS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/mkdocs build --quiet -f .ci/mkdocs.yml

wheel: $(TESTS)
	rm -rf dist
	$(BIN)/python -m build --wheel --sdist --outdir dist .

fixtures: $(TESTS)
	$(BIN)/python fixtures/make.py

clean:
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
