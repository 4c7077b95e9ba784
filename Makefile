# One command each: `make help` lists them.  Everything stands on `make env`, which takes a second once .venv is there.
PYTHON ?= python3
K8S ?= 1.37
SEED ?= 1
MINUTES ?= 10
BIN := .venv/bin
STAMP := .venv/.installed
COMPILED := .venv/.compiled

.PHONY: help env demo sandbox test check fix lint types imports unit envtest compat e2e-upstream chaos requeue soak bench clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## / - /'

env: $(COMPILED) ## .venv with all that a developer needs
	@$(BIN)/python -m compileall -q src
# A scheduler that starts where no bytecode may be written would compile all that it imports, which takes longer than the
# rest of its start.  So that is done once, for what it imports and nothing else.
$(COMPILED): $(STAMP)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import berth.cli.run, berth.runtime.serving.certificate_maker; \
		from berth.kube.session import cheapest_transport; cheapest_transport()'
	@touch $@
# Without --no-compile pip would compile a hundred megabytes of which most is never imported.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: env ## a cluster in a box, the real scheduler, and where each pod went
	@$(BIN)/berth demo

sandbox: env ## the demo's cluster, kept running
	@$(BIN)/berth sandbox

test: check unit ## all that CI runs

check: lint types imports ## style, types, import contracts

lint: env
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: env
	$(BIN)/mypy

imports: env
	$(BIN)/lint-imports

fix: env ## what can be mended by machine
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

unit: env ## the tests; `make unit ARGS="-k taint"` for some of them
	K8S=$(K8S) $(BIN)/python -m pytest $(ARGS)

envtest: env ## build the real control plane once; prints its folder
	@$(BIN)/python -m e2e.controlplane.build $(K8S)

compat: env ## the whole scheduler against the older real control plane
	K8S=1.36 $(BIN)/python -m pytest -m real tests/integration tests/support

e2e-upstream: env ## the reference's own end-to-end suite with Berth, and with kube-scheduler beside it
	@$(BIN)/python -m e2e.upstream --k8s $(K8S) $(ARGS)

chaos: env ## kill, cut off, delay and lie, and see that no pod is lost; `make chaos SEED=7`
	@$(BIN)/python -m tests.chaos --seed $(SEED) --kubernetes $(K8S) $(ARGS)

requeue: env ## what wakes a waiting pod, and what must not, on both API servers
	@$(BIN)/python -m tests.requeue --kubernetes $(K8S) $(ARGS)

soak: env ## churn for MINUTES, and nothing grows
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --kubernetes $(K8S) $(ARGS)

bench: env ## Berth and kube-scheduler side by side; `make bench ARGS="--pods 1000"`
	@$(BIN)/python -m bench.run --kubernetes $(K8S) $(ARGS)

clean: ## what can be made again
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
