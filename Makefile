# The two commands of the README are `make demo` and `make test`.
PYTHON ?= python3
WORKERS ?= 3
PAIR ?= en-de
SEED ?= 1
BIN := .venv/bin

.PHONY: demo demos test quick walk check format install tables wheel clean

demo: .venv/ready  ## train on the built-in corpus, score, translate: minutes on two cores
	@$(BIN)/heedful demo --pair $(PAIR) --seed $(SEED)

demos: .venv/ready-dev  ## train twelve demos (four pairs, three seeds) and count the sentences that come out right
	$(BIN)/python -m benchmarks.demos --keep

test: .venv/ready-dev  ## the whole test suite, in three processes (WORKERS=8: in eight)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

quick: .venv/ready-dev  ## the tests that take moments, from every package: under a minute
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

walk: .venv/ready-dev  ## which files a sentence passes: text file → gradient, and stdin → stdout
	$(BIN)/python -m benchmarks.walk

check: .venv/ready-dev  ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready-dev  ## bring the code into our format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: .venv/ready-dev  ## all that working on heedful needs, in .venv

tables: .venv/ready-dev  ## docs/results.md and the READMEs' result tables, from the cards in results/
	$(BIN)/python -m benchmarks.tables

wheel: .venv/ready-dev  ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

clean:  ## remove what was built here; runs and demos stay
	rm -rf .venv build dist *.egg-info

# torch goes first and alone: the pinned build, and not whatever another package would pull.
.venv/ready: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "heedful needs Python 3.11 or later; try make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep '^torch==' constraints.txt)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e .
	@touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e '.[dev,ko]'
	@touch $@
