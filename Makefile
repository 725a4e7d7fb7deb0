# Two commands do everything: `make demo` runs the main job, `make test` proves it. Both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.set-up
SHARED := .cache/spark-classes.jsa
KAFKA  := .cache/kafka
VERSITY := .cache/bin/versitygw

.PHONY: help setup setup-kafka broker java test lint kernels faults matrix bench demo docs scheme-pages reproduce mutants clean

help:
	@echo "make setup   a virtual environment in $(VENV), everything pinned by constraints.txt; Java 17+ found or installed"
	@echo "make setup-kafka  the jars of a Kafka broker and of Spark's connector, for tests (43 MB, in .cache)"
	@echo "make broker  a Kafka broker on localhost:9092 (PORT=...) until Ctrl-C, to try things out"
	@echo "make test    set-up, ruff, mypy, import rules, all tests"
	@echo "make faults  streaming queries killed again and again, a cluster that loses executors and files"
	@echo "make matrix  the Spark tests on Spark 4.0 to 4.3, a selection or ALL=1; what works goes to docs/spark/running.md"
	@echo "make lint    the checks without the tests"
	@echo "make bench   every benchmark, as ratios within one run"
	@echo "make reproduce  every figure of the five papers; verdicts compared with docs/reproduction.md"
	@echo "make mutants  every scheme broken in many ways; which claims notice is written to docs/mutants.md"
	@echo "make docs    the documentation as a site (site/index.html), every link checked"
	@echo "make demo    real words and a drifting stream through hashing and through evenflow, on Spark (demo/index.html)"

setup: java $(STAMP)

java:
	@$(PYTHON) scripts/find_java.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "evenflow needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Install one and run: make PYTHON=python3.11 setup")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed; install it with: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(SHARED): $(STAMP) scripts/share_classes.py
	-$(BIN)/python scripts/share_classes.py $(SHARED)

kernels: $(STAMP)
	$(BIN)/python scripts/compile_kernels.py

setup-kafka: $(KAFKA)

$(KAFKA): $(STAMP) scripts/kafka_jars.py
	-$(BIN)/python scripts/kafka_jars.py $(KAFKA)

broker: setup $(KAFKA)
	$(BIN)/python scripts/broker.py $(PORT)

test: setup
	$(MAKE) --no-print-directory --jobs 3 $(KAFKA) lint $(SHARED) kernels
	$(BIN)/pytest -n 2 --dist worksteal

demo: setup
	$(BIN)/evenflow demo --html demo/index.html

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation: site/index.html"

scheme-pages: $(STAMP)
	$(BIN)/python scripts/scheme_pages.py

# an S3 server for make faults; without Go, the tests on it are left out
$(VERSITY): $(STAMP)
	-command -v go >/dev/null && GOBIN=$(abspath .cache/bin) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

faults: setup $(SHARED) $(KAFKA) $(VERSITY)
	EVENFLOW_FAULTS=all $(BIN)/pytest -m faults

# every version in an environment of its own, in .cache/matrix
matrix: setup $(SHARED)
	$(BIN)/python scripts/matrix.py $(if $(ALL),--all --processes 2) $(VERSIONS)

bench: setup
	$(BIN)/evenflow bench all
	$(BIN)/python -m benchmarks all

reproduce: setup
	EVENFLOW_REPRODUCE=all $(BIN)/pytest tests/papers/test_verdicts.py

mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutants $(NAMES)

clean:
	rm -rf $(VENV) build dist site .cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis results
	find . -name __pycache__ -prune -exec rm -rf {} +
