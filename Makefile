# `make run` opens the window; `make test` checks everything. Both set up what they need first.
# Rules use relative paths only, so that a checkout in a folder with spaces works.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
PYTHON ?= python3
export PYTHON
# What tests start as processes of their own finds our modules compiled, wherever that was switched off.
unexport PYTHONDONTWRITEBYTECODE

PY := .venv/bin/python
SIZE := 1600x1000
# A process a core; tests/conftest.py brings the long files first.
PYTEST := QT_QPA_PLATFORM=offscreen $(PY) -m pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder --max-worker-restart=0

.PHONY: help run test test-all check attack setup setup-test lint types contracts format guide screenshots demo-weights bench clean

help:
	@echo 'make run           set up, then open the window on the demo project (without a display: render it to a file)'
	@echo 'make test          set up, then lint, types, import contracts and the tests: of the slow ones a twelfth, drawn,'
	@echo '                   and all of the files that belong to what the last commits changed'
	@echo 'make test-all      as make test, with all tests and all sampled cases (THOROUGH=1: 20 times the examples too)'
	@echo 'make check         the quick form: without the tests marked slow'
	@echo 'make attack        open 5 000 damaged files of each kind (KINDS="pt2 tables": some; COUNT=100: fewer), and kill'
	@echo '                   the window, sweeps, searches, workers and trainings 200 times each (KILLS=20: fewer)'
	@echo 'make format        let ruff format and mend the source'
	@echo 'make guide         write the generated pages of the guide again'
	@echo 'make screenshots   render the window, light and dark, to resources/guide/pictures'
	@echo 'make demo-weights  train the weights of the demo projects again'
	@echo 'make bench         run the benchmarks (NAMES="trace edit": some) and compare them with their targets'
	@echo 'make clean         remove build results and caches (not .venv)'

setup:
	@.ci/setup.sh base

setup-test:
	@.ci/setup.sh test

# A display is X11, Wayland or a Mac's; elsewhere the same window is rendered to a file.
run: setup
	@if [ -n "$${DISPLAY:-}$${WAYLAND_DISPLAY:-}" ] || [ "$$(uname -s)" = Darwin ]; then \
	    exec $(PY) main.py demo:reviews; \
	fi; \
	mkdir -p build; \
	QT_QPA_PLATFORM=offscreen $(PY) main.py demo:reviews --screenshot build/espalier.png --size $(SIZE); \
	echo 'No display here: the window was rendered to build/espalier.png.'; \
	echo 'Headless commands: $(PY) main.py --help, for example'; \
	echo '  $(PY) main.py trace demo:reviews'; \
	echo '  $(PY) main.py report demo:reviews'; \
	echo '  $(PY) main.py evaluate demo:reviews'

test: setup-test lint types contracts
	@echo '== tests'
	@$(PYTEST)

test-all: setup-test lint types contracts
	@echo '== all tests'
	@HYPOTHESIS_PROFILE=$(if $(THOROUGH),thorough,whole) $(PYTEST)

check: setup-test lint types contracts
	@echo '== tests (not slow)'
	@$(PYTEST) -m 'not slow'

# The table of the files is printed, and written to build/attack.json. All run, whatever the ones before found.
attack: setup-test
	@failed=0; \
	$(PY) -m tests.attack.mutants $(KINDS) $(if $(COUNT),--count $(COUNT)) -o build/attack.json || failed=1; \
	$(PY) -m tests.attack.window_kills $(if $(KILLS),--kills $(KILLS)) || failed=1; \
	$(PY) -m tests.attack.kills $(if $(KILLS),--kills $(KILLS)) || failed=1; \
	exit $$failed

lint: setup-test
	@echo '== ruff'
	@$(PY) -m ruff format --check --quiet .|| { echo "make format mends this"; exit 1; }
	@$(PY) -m ruff check --quiet .

types: setup-test
	@echo '== types'
	@$(PY) -m basedpyright --level error
	@$(PY) -m basedpyright --level error --project .ci/pyright-app.json

contracts: setup-test
	@echo '== import contracts'
	@.venv/bin/lint-imports --no-logo

format: setup-test
	@$(PY) -m ruff check --fix --quiet . || true
	@$(PY) -m ruff format --quiet .

guide: setup-test
	@$(PY) -m tests.reference

screenshots: setup
	@$(PY) .ci/screenshots.py

demo-weights: setup
	@$(PY) -m tests.demos.train

# NAMES="trace edit" runs some; KEEP=--keep records the figures; the table is tests/benchmarks/results/TABLE.md.
bench: setup-test
	@$(PY) -m tests.benchmarks $(NAMES) $(KEEP)

clean:
	@rm -rf build dist .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	@find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
	@find . -maxdepth 2 -name '*.egg-info' -exec rm -rf {} +
