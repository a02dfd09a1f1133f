# make quickstart: environment, the quick suite, the board.   make test: environment, tests.   make lint: formatting and types.
# make speed: how fast we are beside other libraries; some eight minutes, on an otherwise idle machine.
PYTHON ?= python3
BIN := .venv/bin
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
.PHONY: quickstart test speed lint format clean

quickstart: .venv/.runtime
	$(BIN)/lprime run quick; code=$$?; $(BIN)/lprime board quick && exit $$code  # a board even where a run failed

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 tests $(if $(CHROMIUM),,-m 'not browser')
	$(if $(CHROMIUM),,@echo "NOT TESTED: the HTML page, for want of Chromium (apt-get install chromium)")

speed: .venv/.dev
	$(BIN)/python -m bench.speed

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist *.egg-info

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("lprime needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

# Stamps: installed again only when the requirements change.
.venv/.runtime: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ .venv/.runtime
