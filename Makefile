# make run      set up, then show the main commands on real logs
# make test     set up, then run the tests
# make lint     ruff and mypy --strict
# make grammar  compile the grammars into spillscan/reading/compiled
# make golden   rewrite golden files, tables in docs and schemas; read the diff
# make bench    CPU time and memory, compared with an earlier revision
# make oracle   millions of comparisons with NVIDIA's tools (hours)
# make bounds   the wheel with the lowest and newest dependencies, on each Python found
# make mutants  add small faults and count those that the nearest tests detect
# make site     build the docs as a site
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
TESTS  := $(VENV)/.tests

.PHONY: run test lint grammar golden bench oracle mutants bounds wheel site fixtures clean

# The environment for running, then for testing.
$(RUNS): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e .
	@touch $@

$(TESTS): $(RUNS)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

run: $(RUNS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh fixtures/demo/run.sh

# Keep byte code, whatever the environment says: test workers and child processes would compile everything again.
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
	$(BIN)/python -m tests.oracle.adoption_oracle
	$(BIN)/python -m tests.oracle.identity_oracle
	$(BIN)/python -m tests.oracle.healthy_oracle
	$(BIN)/python -m tests.oracle.renames_oracle fixtures/large/kernels5000-13.0.log.zst
	$(BIN)/python -m tests.oracle.ptxas_oracle
	$(BIN)/python -m tests.oracle.ptxas_oracle --public --builds 4
	$(BIN)/python -m tests.oracle.roles_oracle
	$(BIN)/python -m tests.oracle.registers_oracle --public
	$(BIN)/python -m tests.oracle.why_oracle
	$(BIN)/python -m tests.oracle.advice_oracle
	$(BIN)/python -m tests.oracle.binary_oracle
	$(BIN)/python -m tests.oracle.binary_oracle --public --quick
	$(BIN)/python -m tests.oracle.size_oracle
	$(BIN)/python -m tests.oracle.size_oracle --public --disassemble 0
	$(BIN)/python -m tests.history.audit.crashes
	$(BIN)/python -m tests.oracle.growth_oracle
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
