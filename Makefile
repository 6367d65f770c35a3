# Set-up is part of every target: `make run` and `make test` work in a fresh clone.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e
JAVA_SETUP := scripts/java.sh
BROWSER_SETUP := scripts/chromium.sh
CLIENTS_SETUP := scripts/clients.sh

.PHONY: help setup run test test-capacity test-cluster test-systems test-pages lint bench torture docs wheel clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.installed java $(VENV)/spark-classes.jsa  ## virtual environment, packages, a Java runtime for Spark

.PHONY: java
java:
	@$(JAVA_SETUP)

.PHONY: browser
browser:
	@$(BROWSER_SETUP)

# After the Java runtime, which runs one of the clients.
.PHONY: clients
clients: setup
	@$(CLIENTS_SETUP) $(BIN)

$(VENV)/.installed: pyproject.toml constraints.txt
	@scripts/venv.sh $(PYTHON) $(VENV)
	$(PIP) '.[dev]'
	@$(PIP) '.[systems]' || echo "no client libraries of Kafka, JMS and AMQP 1.0 here: their tests are left out" >&2
	@touch $@

# Spark starts without it too, some seconds later.
$(VENV)/spark-classes.jsa: $(VENV)/.installed | java
	@echo "making an archive of Spark's classes"
	@$(BIN)/python -m mqlab.pipeline.java.class_archive || touch $@

run: setup  ## the studies, quick, on the embedded broker, to a finished report
	$(BIN)/mqlab run --scale quick $(ARGS)

test: setup browser clients lint  ## everything that must hold, in some minutes
	$(BIN)/python -m pytest -n 2 $(ARGS)

test-cluster: setup  ## gets servers of HDFS and S3, and measures a run folder on each
	$(PIP) '.[dev,cluster]'
	MQLAB_TEST_CLUSTER=1 $(BIN)/python -m pytest tests/cluster $(ARGS)

test-systems: setup  ## gets every system there is, and tests each with its driver
	$(PIP) '.[dev,systems]'
	$(BIN)/mqlab systems install --all
	MQLAB_TEST_SYSTEMS=all $(BIN)/python -m pytest tests/systems $(ARGS)

test-capacity: setup  ## capacity on a system with a known limit, and the pages about sizing and choosing, on a quiet machine
	MQLAB_TEST_CAPACITY=1 $(BIN)/python -m pytest tests/cli/test_capacity.py tests/cli/test_howto_size.py \
		tests/cli/test_howto_compare.py $(ARGS)

test-pages: setup browser  ## every report and page in a browser, and every command of the tutorial
	$(BIN)/mqlab systems install nats
	MQLAB_TEST_PAGES=all $(BIN)/python -m pytest tests/report/browser tests/cli/test_documented.py $(ARGS)

lint: setup  ## style, types and the arrows between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy bench/drivers.py bench/pipeline.py
	$(BIN)/lint-imports

bench: setup browser  ## every benchmark, one after the other
	@set -e; for script in bench/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script $(ARGS); done

torture: setup  ## the long forms of docs/trust.md, some hours: ARGS="--list", ARGS="--only kill"
	$(BIN)/python tests/torture/run.py $(ARGS)

docs: setup  ## the documentation site, into the package: `mqlab docs` opens it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

wheel: docs  ## the package with its documentation, in dist/
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .

clean:  ## remove what was made here, but no run
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info
