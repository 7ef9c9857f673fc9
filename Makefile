# The first target lists the targets. Everything runs in a virtual environment in $(VENV).

VENV ?= .venv
# Arguments for pytest and for `penstock demo`, e.g. make test ARGS='-k city'
ARGS ?=
# Processes of pytest. They wait for processes of their own a third of the time, so there is one
# more than there are cores.
JOBS ?= $(shell expr $$(nproc) + 1)

BIN := $(VENV)/bin
STAMP := $(VENV)/.penstock-setup

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' \
	  $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(STAMP) ## Make the virtual environment and install Penstock into it

$(STAMP): pyproject.toml scripts/setup.sh
	PYTHON='$(PYTHON)' scripts/setup.sh '$(VENV)'
	@touch $@

.PHONY: run
run: setup ## Run the demo
	$(BIN)/penstock demo $(ARGS)

.PHONY: examples
examples: setup ## Run the examples and write their pages into docs/gallery
	$(BIN)/python examples/pages.py $(ARGS)

.PHONY: docs
docs: setup ## Build the site of README, docs and docstrings: build/site/index.html
	scripts/site/fetch.sh '$(VENV)'
	$(BIN)/python scripts/types_tree.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

# Where the shell forbids to keep bytecode, each of the many interpreters that tests start would
# compile all of Penstock again, and each worker all tests.
test test-full: export PYTHONDONTWRITEBYTECODE :=

.PHONY: test
test: setup ## Run the tests, without the slow ones
	$(BIN)/pytest -n $(JOBS) --dist loadgroup -m 'not slow' $(ARGS)

.PHONY: mutants
mutants: setup ## Change the hardware in a place at a time: a test must notice each, ARGS="--only kernel"
	$(BIN)/python -m tests.hw.mutants $(ARGS)

.PHONY: test-full
test-full: setup test-board test-spark ## Run all tests
	$(BIN)/pytest -n $(JOBS) --dist loadgroup $(ARGS)

.PHONY: fuzz
fuzz: setup ## Run random queries against a plain evaluator and DuckDB: ARGS="--jobs 2 --device cpu"
	$(BIN)/python -m tests.fuzz $(ARGS)

# PYNQ pins an old NumPy, so it has environments of its own, one for each version that boards need.
BOARD_VENV := .venv-board

.PHONY: test-board
test-board: setup ## Run the tests of boards through PYNQ's own clients on a virtual board
	VENV='$(VENV)' scripts/test_board.sh full $(BOARD_VENV) $(ARGS)

.PHONY: test-board-short
test-board-short: ## Run those of them that continuous integration runs
	scripts/test_board.sh short $(BOARD_VENV) $(ARGS)

# Of each release that the bridge is for, the newest; the newest of all is what `make test` has.
SPARK_VENV := .venv-spark
SPARKS := 4.1.4 4.2.1 4.3.0

.PHONY: test-spark
test-spark: ## Run the tests of the Spark bridge on each release, on no Java but the java extra's
	scripts/test_spark.sh $(SPARK_VENV) $(SPARKS) -- $(ARGS)

# The worker's virtual board is driven from an environment with PYNQ.
CLUSTER_BOARD := $(BOARD_VENV)/4.0.0

.PHONY: cluster
cluster: setup ## Run a Spark cluster whose first worker has a virtual board, until Ctrl-C
	scripts/pinned_env.sh $(CLUSTER_BOARD) rtl,board pynq==4.0.0
	$(BIN)/penstock spark cluster --board zcu104 --board-python $(CLUSTER_BOARD)/bin/python $(ARGS)

.PHONY: cluster-stop
cluster-stop: setup ## Stop it, from another shell
	$(BIN)/penstock spark stop $(ARGS)

.PHONY: bitstream
bitstream: setup ## Build what a board loads with the vendor's tools: BOARD=zcu104
	$(BIN)/penstock board build --board $(BOARD) --out build/bitstream/$(BOARD) $(ARGS)

.PHONY: lint
lint: setup ## Check style, format and types
	@# All checks run, so that one round shows everything there is to mend.
	@status=0; set -x; \
	$(BIN)/ruff check . || status=1; \
	$(BIN)/ruff format --check . || status=1; \
	$(BIN)/python scripts/types_tree.py && \
	  $(BIN)/pyright --pythonpath $(BIN)/python || status=1; \
	{ set +x; } 2>/dev/null; exit $$status

.PHONY: format
format: setup ## Format the code and fix what can be fixed safely
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench-cpu
bench-cpu: setup ## Measure the CPU device against its peers
	$(BIN)/python -m bench.cpu $(ARGS)

.PHONY: bench-peers
bench-peers: setup ## Measure joins that look at few pairs beside peers; more of these with ".[bench]"
	$(BIN)/python -m bench.peers $(ARGS)

.PHONY: bench-hw
bench-hw: setup ## Measure the hardware in simulation and by cell counts
	$(BIN)/python -m bench.hw $(ARGS)

.PHONY: bench-host
bench-host: setup ## Measure throughput, latency and overhead of the host
	$(BIN)/python -m bench.host $(ARGS)

.PHONY: bench-spark
bench-spark: setup ## Measure joins in Spark against Spark's own
	$(BIN)/python -m bench.spark $(ARGS)

.PHONY: soak
soak: setup ## Run a join for long and see that nothing grows
	$(BIN)/python -m bench.host.soak $(ARGS)

.PHONY: chaos
chaos: setup ## Kill processes of streaming joins and lookup nodes: no row is lost or doubled
	$(BIN)/python -m tests.host.lookup.nodes.chaos
	$(BIN)/python -m tests.spark_bridge.kit.chaos $(ARGS)

.PHONY: chaos-workers
chaos-workers: setup ## Kill workers and parents of grouped streams 100 times: no row is lost or doubled
	$(BIN)/python -m tests.host.workers.kit.chaos $(ARGS)

.PHONY: interrupts
interrupts: setup ## Interrupt calls of streams and race them with close, 500 times in each way
	$(BIN)/pytest tests/host/join/stream -m slow -k 'interrupts or push' $(ARGS)

.PHONY: fuzz-wire
fuzz-wire: setup ## Send random messages to a device server and its clients, on from the last run
	$(BIN)/python -m tests.host.devices.remote.fuzz $(ARGS)

.PHONY: damage
damage: setup ## Damage files of streaming joins' checkpoints in Spark, and see that no row is wrong
	$(BIN)/python -m tests.spark_bridge.kit.damage $(ARGS)

.PHONY: bench-window
bench-window: setup ## Redraw the figures of the window-join paper
	$(BIN)/python -m bench.window $(ARGS)

.PHONY: bench-lookup
bench-lookup: setup ## Measure lookups of a stream in a relation larger than memory
	$(BIN)/python -m bench.lookup $(ARGS)

.PHONY: bench-routing
bench-routing: setup ## Measure lanes by key: plans, streams, and the key-splitting paper's figures redrawn
	$(BIN)/python -m bench.routing.plans $(ARGS)
	$(BIN)/python -m bench.routing.streams $(ARGS)
	$(BIN)/python -m bench.routing.figures $(ARGS)

.PHONY: bench-channel
bench-channel: setup ## Measure channels between processes beside memcpy and peers; needs ".[bench]"
	$(BIN)/python -m bench.channel $(ARGS)

.PHONY: bench-workers
bench-workers: setup ## Measure workers beside UpPar, DuckDB, Polars and Spark
	$(BIN)/python -m bench.workers $(ARGS)

.PHONY: bench-boards
bench-boards: setup ## Write what fits on each board into docs/hardware/resources.md
	$(BIN)/python -m bench.boards $(ARGS)

.PHONY: clean
clean: ## Remove what builds and tests leave; keeps the virtual environment
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis spark-warehouse
	rm -rf metastore_db derby.log
	find . -path './$(VENV)' -prune -o -name __pycache__ -type d -exec rm -rf {} +
