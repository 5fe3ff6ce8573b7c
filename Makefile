# Every target sets up what it needs; a target whose set-up is done starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo serve test check bench format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[spark,service,postgres,kubernetes,sim,dev]"
	touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/python examples/search/demo.py

serve: $(STAMP)
	@$(BIN)/braid serve $(ARGS)

test: $(STAMP)
	@$(BIN)/python -m pytest

check: $(STAMP)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python tools/layers.py
	@$(BIN)/python tools/counters.py
	@$(BIN)/python tools/options.py

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP)
	@$(BIN)/python bench/run.py $(ARGS)

clean:
	rm -rf $(VENV) build dist
