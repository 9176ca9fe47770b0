# The two commands a newcomer needs: `make run` and `make test`.

SCENARIO ?= t0-optic
ARGS ?=
BIN := .venv/bin
PYTEST_ARGS ?=
FUZZ ?=

.PHONY: run test fuzz-inputs list doctor bench p4 lint clean setup setup-dev

run: setup       ## one scenario (SCENARIO=name or file, ARGS=flags): builds, breaks, judges
	@$(BIN)/mrc-testbed run "$(SCENARIO)" $(ARGS)

test: setup-dev  ## every test this machine can run; says what it leaves out
	@$(BIN)/pytest $(PYTEST_ARGS)

fuzz-inputs: setup-dev  ## guided fuzzing of every parser, 5 minutes each (FUZZ="TARGET --seconds N")
	@$(BIN)/python -m tests.fuzz.run $(FUZZ)

list: setup      ## the scenarios there are, and what each shows
	@$(BIN)/mrc-testbed list

doctor: setup    ## what this machine lacks, and its ceiling
	@$(BIN)/mrc-testbed doctor

bench: setup     ## ratios of speed, printed and written to runs/bench.json
	@$(BIN)/mrc-testbed bench

p4: setup        ## recompile p4/mrc.p4 with the p4c on the PATH
	@$(BIN)/python -m switches.compile_p4

lint: setup-dev  ## style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

clean:           ## everything made here, but for the run folders
	@rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@scripts/setup.sh run

setup-dev:
	@scripts/setup.sh dev
