# make quickstart: environment, the quick suite, the board.   make test: environment, tests.
# make lint: formatting, types, import rules.
# make test-slurm: tests of the launcher on a real SLURM, which it starts on this machine; as root, on Debian or Ubuntu.
# make faults: kills processes of grids a thousand times; some half an hour.
# make site: the web page of the published board, and the documentation, as GitHub Pages hosts them; in site/.
# make speed: our speed next to other libraries'; some 10 minutes on an otherwise idle machine.
PYTHON ?= python3
BIN := .venv/bin
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
BUBBLEWRAP := $(shell bwrap --unshare-all --ro-bind / / true 2>/dev/null && echo yes)
TESTCLUSTER := slurm/testcluster/testcluster.sh
.PHONY: quickstart test test-slurm faults speed site lint format clean

quickstart: .venv/.runtime
	$(BIN)/lprime run quick; code=$$?; $(BIN)/lprime board quick && exit $$code  # a board even if a run failed
	@echo
	@echo "You have just seen six encodings trained on five tasks at short lengths, each"
	@echo "tested at up to five times its training length. One seed is a first look; the"
	@echo "full comparison is leaderboard/published/README.md. Next, in $(BIN):"
	@echo "  lprime board --html page   these results as an interactive page"
	@echo "  lprime show alibi          what an encoding is: formula, source, cost"
	@echo "  lprime new my_encoding     a template for yours; CONTRIBUTING.md leads on"

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --durations 15 tests -m 'not slurm and not faults$(if $(CHROMIUM),, and not browser)$(if $(BUBBLEWRAP),, and not sandbox)'
	@echo "NOT TESTED: the launcher on a SLURM cluster; make test-slurm does that"
	$(if $(CHROMIUM),,@echo "NOT TESTED: the HTML page; needs Chromium (apt-get install chromium)")
	$(if $(BUBBLEWRAP),,@echo "NOT TESTED: sealed runs of submissions; need bubblewrap (apt-get install bubblewrap) and user namespaces, which most containers lack")

# Starts four clusters of its own, leaving any other alone, and stops them however the tests end.
test-slurm: SHELL := /bin/bash
test-slurm: .venv/.dev
	@export TESTCLUSTERS=/tmp/lprime-testcluster-$$$$; trap 'for c in $$TESTCLUSTERS-*; do $(TESTCLUSTER) stop $$c; done' EXIT; \
	$(BIN)/python -m pytest -n 4 --dist worksteal --durations 15 -m slurm tests/slurm || \
	{ code=$$?; for c in $$TESTCLUSTERS-*; do $(TESTCLUSTER) logs $$c; done; exit $$code; }

faults: .venv/.dev
	$(BIN)/python -m pytest -s -m faults tests/slurm/test_faults.py

speed: .venv/.dev
	$(BIN)/python benchmarks/cpu.py

site: .venv/.dev
	$(BIN)/lprime board --published --html site
	$(BIN)/sphinx-build -q -W --keep-going docs site/docs

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python .ci/bounds

format: .venv/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist site docs/parts *.egg-info

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("lprime needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

# Stamp files: packages are installed again only when the requirements change.
.venv/.runtime: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ .venv/.runtime
