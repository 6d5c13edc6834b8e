# `make` alone says what there is. Everything is installed into $(VENV), and only when something it depends on has changed.

# The interpreter that makes the virtual environment; empty: the first one found that is new enough.
PYTHON ?=
VENV ?= .venv
# Passed on to the command that a target starts: make run ARGS="--objects 9000"
ARGS ?=

BIN := $(VENV)/bin
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.10)

# One stamp for each extent of installation. A wider one makes the narrower ones too: `make run` after `make test` has
# nothing to install.
MADE := $(VENV)/.made
RUN := $(VENV)/.installed-run
AUDIT := $(VENV)/.installed-audit
DOCS := $(VENV)/.installed-docs
DEV := $(VENV)/.installed-dev
FUZZ := $(VENV)/.installed-fuzz
BENCH := $(VENV)/.installed-bench

# What an installation follows from. The compiled module is left out if there is no C compiler.
BUILT_FROM := setup.py pyproject.toml bussrv/_speedups.c

# The suites that make test-full runs once more without the compiled module.
BOTH_WAYS := tests/wire tests/bus tests/formats tests/memory tests/net tests/equality 

# A virtual environment holds its own place in its scripts, so it is made again when the directory was moved or copied; also
# when its interpreter is gone, or is not the version of the PYTHON that is asked for.
VERSION_OF := -c 'import sys; print(sys.version_info[:2])' 2>/dev/null
REMAKE := $(shell test "`cat $(MADE) 2>/dev/null`" = "`pwd`" \
	&& has=`$(BIN)/python $(VERSION_OF)` \
	&& $(if $(PYTHON),test "$$has" = "`$(PYTHON) $(VERSION_OF)`",:) \
	|| echo always)

# The tests run make, too, and what was passed to them is not meant for it.
unexport ARGS
MAKEOVERRIDES :=
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help run demo demo-cluster demo-incident check test test-full fuzz soak lint types bench bench-full docs clean java always

help: ## say what there is (what `make` alone does)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s  %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'make run ARGS="--objects 9000"   passes options on; run, demo, check, test, types and bench know ARGS'
	@echo 'make test PYTHON=python3.12      works with that interpreter'

# No pid file: one that a crash left behind would keep the server from starting. `exec`, so that a signal to make gets there.
run: $(RUN) ## start the server, the ports of all wire formats on loopback, journal in ./bussrv-journal
	@exec $(BIN)/twistd -n --pidfile= bussrv $(ARGS)

demo: $(AUDIT) ## show the server at work: clients of every wire format, then the audit
	@exec $(BIN)/python -m examples.demo $(ARGS)

demo-cluster: $(DEV) ## three servers joined by NATS: what one publishes reaches all, also one that was away
	@exec $(BIN)/python -m examples.demo.cluster

demo-incident: $(RUN) ## an incident at three linked servers, and ten questions of an operator, each answered by a command
	@exec $(BIN)/python -m examples.incident $(ARGS)

# Those of the slowest that take too long for it are marked `dear`.
check: $(DEV) ## run the tests that need neither Spark nor processes and are not dear, in under a minute
	TEST_SIZE=small $(BIN)/python -m pytest -m 'not spark and not processes and not dear and not long' --durations=5 --durations-min=0.5 $(ARGS)

test: java $(DEV) ## run every test, the dearest at a fifth of their size (needs Java 17+)
	$(BIN)/python -m pytest $(ARGS)

# TEST_SIZE: see tests/size.py.
test-full: java $(DEV) $(FUZZ) ## the same at full size with other drawn examples each time, the tests of bench, and much once more without the compiled module
	TEST_SIZE=full HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-random} \
		$(BIN)/python -m pytest -m '' -o testpaths='tests bench' $(ARGS)
	BUSSRV_PURE=1 HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-random} $(BIN)/python -m pytest $(BOTH_WAYS)

fuzz: $(FUZZ) ## fuzz every parser for ten minutes, a whole server for an hour, and keep what is new
	$(BIN)/python -m tests.fuzz $(or $(ARGS),all --seconds 600 --server-seconds 3600 --keep)

soak: java $(DEV) ## ten minutes of clients, reloads, cut links and kills at two linked servers, then audit their journals
	$(BIN)/python -m tests.soak $(ARGS)

lint: $(DEV) ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV) ## check types
	$(BIN)/mypy $(ARGS)

bench: $(BENCH) ## compare with mosquitto, Redis and NATS, and the client with nats-py, in under 6 minutes (needs a C compiler)
	$(BIN)/python bench/compare.py --quick $(ARGS)
	$(BIN)/python bench/client.py --messages 20000

bench-full: $(BENCH) ## the same at length, and all scenarios
	$(BIN)/python bench/compare.py $(ARGS)
	$(BIN)/python bench/client.py --rounds 7

docs: $(DOCS) ## build the documentation into docs/_build
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build

clean: ## remove what make, tests and builds left here, but never a journal
	rm -rf $(VENV) .tox build dist docs/_build *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -f twisted/plugins/dropin.cache bussrv/_speedups*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@version=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	test "$${version:-0}" -ge 17 || { \
		echo 'Spark needs Java 17 or newer: install a JRE (Debian, Ubuntu: apt install openjdk-17-jre-headless, or' \
			'openjdk-21-jre-headless) and try again.' >&2; \
		exit 1; \
	}

# Cleared only when it was made here before: somebody's own is added to.
$(MADE): $(REMAKE)
	@python=; old=; \
	for each in $(CANDIDATES); do \
		if "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then python=$$each; break; fi; \
		version=`"$$each" -V 2>&1` && old=" ($$each is $$version)"; \
	done; \
	if test -z "$$python"; then \
		echo "bussrv needs Python 3.10 or newer$$old: install it, or say where it is with make PYTHON=..." >&2; \
		exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$$python cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install" \
			"python3-venv) and try again." >&2; \
		exit 1; \
	fi; \
	echo "Making a virtual environment in $(VENV) with $$python (`"$$python" -V`)." && \
	"$$python" -m venv `test ! -e $@ || echo --clear` $(VENV) && pwd >$@

# $(call install,EXTRAS,STAMPS): editable, so that a change of the code needs no new installation. Afterwards Twisted's list of
# plugins is written anew; whoever starts twistd later may not have the right to.
define install
	@echo 'Installing bussrv$(1) into $(VENV)$(if $(filter %audit] %dev],$(1)), with Spark: about 450 MB).'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.$(1)'
	@$(BIN)/python -c 'from twisted import plugin, plugins; plugin.getCache(plugins)'
	@touch $(2)
endef

$(RUN): $(MADE) $(BUILT_FROM)
	$(call install,,$(RUN))

$(AUDIT): $(MADE) $(BUILT_FROM)
	$(call install,[audit],$(RUN) $(AUDIT))

$(DOCS): $(MADE) $(BUILT_FROM)
	$(call install,[docs],$(RUN) $(DOCS))

$(DEV): $(MADE) $(BUILT_FROM)
	$(call install,[dev],$(RUN) $(AUDIT) $(BENCH) $(DOCS) $(DEV))

$(FUZZ): $(MADE) $(BUILT_FROM)
	$(call install,[fuzz],$(RUN) $(FUZZ))

$(BENCH): $(MADE) $(BUILT_FROM)
	$(call install,[bench],$(RUN) $(BENCH))
