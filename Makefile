# `make demo` and `make test` do all the set-up on a machine with Python and make; README.md has the same as plain commands.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start many processes: without cached byte code each of them would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

# Workers use every processor already: threads of numpy and torch inside them would only wait for each other.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1

# Number of test processes: one more than processors, because some tests wait for processes and time limits.
# Tests that share a part (Ray, PostgreSQL, chromium, a model) run in one of them.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder --ignore=tests/cost

.PHONY: demo test fast-tests test-all all-tests test-random lint package installs lowest docs docs-site golden lock structure mutants faults coverage bench clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Stamps, so that a second call does not install again unless the requirements changed.
$(VENV)/.base: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/auepora demo

# Lint, types and the fast tests, beside each other. Tests of cost (CPU time of an import) run first, with nothing beside
# them.
test: $(VENV)/.dev
	$(PYTEST) -q tests/cost
	@$(MAKE) --no-print-directory -j2 lint fast-tests

fast-tests: $(VENV)/.dev
	$(PYTEST) $(PARALLEL) -m "not slow"

# Everything, with more examples for each property. An empty LINT leaves out lint and types.
LINT = lint
test-all: export AUEPORA_HYPOTHESIS = thorough
test-all: $(VENV)/.dev
	$(PYTEST) -q tests/cost
	@$(MAKE) --no-print-directory -j2 $(LINT) all-tests

all-tests: $(VENV)/.dev
	$(PYTEST) $(PARALLEL)

# The fast tests in random order.
test-random: $(VENV)/.dev
	$(PYTEST) $(PARALLEL) -p randomly -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The sdist and the wheel: built, checked, and the demo run from the wheel in an empty environment.
package: $(VENV)/.dev
	$(BIN)/python -m tools.package

# The wheel in an empty environment of every Python that is here, those of pyenv included, with a part of the tests.
installs: $(VENV)/.dev
	$(BIN)/python -m tools.installs --tests

# The same with the lowest versions of the base packages, .ci/lowest.txt.
lowest: $(VENV)/.dev
	$(BIN)/python -m tools.installs --lowest

# The versions that CI installs, from a fresh environment with every extra.
lock:
	rm -rf .venv-lock
	bash .ci/install .venv-lock
	.venv-lock/bin/python -m pip freeze --exclude-editable | sed 's/+[^ ;]*//' > .ci/constraints.txt
	rm -rf .venv-lock

docs: $(VENV)/.dev
	$(BIN)/python tools/metric_index.py
	$(BIN)/python -m tools.metric_pages
	$(BIN)/python -m tools.cli_reference
	$(BIN)/python -m tools.api_reference
	$(BIN)/python -m tools.help_topics
	$(BIN)/python -m tools.plan_keys
	$(BIN)/python -m tools.bench_page
	$(BIN)/python -m tools.demo_picture

$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

# The documentation site, in build/site. A broken link or anchor, and a page that is in no menu, are errors.
docs-site: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The golden files that are wording (tests/helpers/wording_files.txt) and their hashes. Other golden files are compared, not written: a
# test that fails here changed more than wording.
WORDING_TESTS := $(patsubst %,tests/regression/test_golden_%.py,cli_errors cli_options cli_tables formats judge_openai judge_replies metrics_compare systems)
golden: $(VENV)/.dev
	AUEPORA_WRITE_GOLDEN=wording $(PYTEST) $(PARALLEL) $(WORDING_TESTS)
	cd tests && $(abspath $(BIN))/python -m helpers.golden wording

# Files, imports and loaded modules; statements, lines and the largest parts; repeated code.
structure: $(VENV)/.dev
	@$(BIN)/python -m tools.structure
	@echo
	@$(BIN)/python -m tools.size
	@echo
	@$(BIN)/python -m tools.duplicates

# A hundred seeded faults in the metric kernels: at least 95 must make a test fail.
mutants: $(VENV)/.dev
	AUEPORA_MUTANTS=1 $(BIN)/python -m pytest -s tests/mutation

# Mutated stores and files, writes that fail, too little memory, old schemas: all of them, nothing else.
faults: export AUEPORA_HYPOTHESIS = thorough
faults: $(VENV)/.dev
	$(PYTEST) -q -n $(WORKERS) --dist load tests/faults

# Line and branch coverage of the fast tests, then of all tests. The golden tests are left out: they run much code and check little of it.
coverage: $(VENV)/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -m "not slow" --ignore=tests/regression
	$(BIN)/coverage report --skip-covered --sort=miss | tail -n 40
	$(BIN)/coverage run --append -m pytest -q -m slow --ignore=tests/regression
	$(BIN)/coverage report --skip-covered --sort=miss | tail -n 40

# All but the long simulations (coverage, paired_coverage) and bertscore_gpu, which needs a GPU. The last four need extras, which are large.
bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	$(BIN)/python -m benchmarks.retrieval
	$(BIN)/python -m benchmarks.trec_files
	$(BIN)/python -m benchmarks.files
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.store
	$(BIN)/python -m benchmarks.comparison
	$(BIN)/python -m benchmarks.compare_runs
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.large_runs
	$(BIN)/python -m benchmarks.ui
	$(BIN)/python -m benchmarks.text
	$(BIN)/python -m benchmarks.text --processes
	$(BIN)/python -m benchmarks.dependencies
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[semantic,ray]'
	$(BIN)/python -m benchmarks.judge
	$(BIN)/python -m benchmarks.semantic
	$(BIN)/python -m benchmarks.detectors
	$(BIN)/python -m benchmarks.scale

clean:
	rm -rf $(VENV) .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis auepora-demo
