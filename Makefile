# Retrograde. `make help` says what there is.
#
#   make train ARGS="--seed 1"      passes arguments on
#   make setup PYTHON=python3.12    chooses the Python of a new .venv (3.11, 3.12 or 3.13)

PYTHON ?= python3
ARGS ?=
MUTANTS ?= $(or $(TMPDIR),/tmp)/retrograde-mutants

python := .venv/bin/python
pip := $(python) -m pip --disable-pip-version-check install -qq
# All that is looked at again once everything has been installed.
healthy := $(python) -c "import sys, torch, transformers; sys.exit(not (3, 11) <= sys.version_info < (3, 14))"
supported := $(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))"
# npm as the pinned Node.js of requirements/dev.txt brings it.
npm := PATH="$(CURDIR)/.venv/bin:$$PATH" npm --prefix ui --no-audit --no-fund --no-update-notifier
special := slow or vllm or ray or browser or oracle

# $(call needs,LEVEL,FILES,COMMANDS): run the commands unless LEVEL was installed from these very
# files, for this very folder. The tools' settings in pyproject.toml are no reason to reinstall.
define needs
	@now="$$( (sed '/^\[tool\./,$$d' pyproject.toml; cat $(2); pwd) | cksum)"; \
	if [ "$$(cat .venv/.installed-$(1) 2>/dev/null)" != "$$now" ]; then \
		echo "Installing $(2) into .venv"; \
		$(3) && echo "$$now" > .venv/.installed-$(1); \
	fi
endef

# $(call apart,NAME,COMMANDS): make .venv-NAME with them unless it was made from this very file, for
# this very folder.
define apart
	@now="$$( (cat requirements/$(1).txt; pwd) | cksum)"; \
	if [ "$$(cat .venv-$(1)/.installed 2>/dev/null)" != "$$now" ]; then \
		echo "Installing requirements/$(1).txt into .venv-$(1)"; \
		rm -rf .venv-$(1) && $(python) -m venv .venv-$(1) && into=.venv-$(1)/bin/python && \
		$(2) && echo "$$now" > .venv-$(1)/.installed; \
	fi
endef
apart-pip := $$into -m pip --disable-pip-version-check install -qq

.PHONY: help
help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: train
train: setup ## train an agent with RTPO, from nothing; ARGS="--seed 1" passes arguments on
	@.venv/bin/retrograde train $(ARGS)

.PHONY: test
test: lint ## check style, types, floors and limits, then run the tests
	$(python) -m pytest -q -m "not ($(special))" $(ARGS)

.PHONY: test-slow
test-slow: setup-oracle setup-verifiers setup-browser setup-loggers setup-docs ## run the tests that take long, fetch a pretrained model, compare with verl or use a browser
	$(python) -m pytest -q -m "$(special)" $(ARGS) || [ $$? -eq 5 ] # 5: there are none

.PHONY: ui
ui: setup-ui ## build the page of reports from ui/ into the package
	$(npm) run check
	$(npm) run build

.PHONY: docs
docs: setup-docs ## build the documentation into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --strict --quiet
	$(python) scripts/check_site.py site

.PHONY: mutants
mutants: setup-mutants ## plant faults in a copy, count how many the tests find; takes an hour
	rm -rf $(MUTANTS) && mkdir -p $(MUTANTS)
	cp -R src tests docs scripts pyproject.toml *.md $(MUTANTS)
	cd $(MUTANTS) && RETROGRADE_EXAMPLES=10 $(CURDIR)/.venv/bin/mutmut run --max-children 1
	$(python) scripts/quality_page.py $(MUTANTS)

.PHONY: lint
lint: setup-dev ## check style, types, floors and limits
	.venv/bin/ruff check --quiet
	.venv/bin/ruff format --check --quiet
	.venv/bin/basedpyright
	@.venv/bin/lint-imports --no-cache > .venv/floors.txt || { cat .venv/floors.txt; exit 1; }
	.venv/bin/codespell
	$(python) scripts/lint_limits.py

.PHONY: setup
setup: .venv-works ## make .venv, or repair it; leave it alone if it is current
	$(call needs,cpu,requirements/cpu.txt,\
		$(pip) "$$(grep '^torch==' requirements/cpu.txt)" && \
		$(pip) -r requirements/cpu.txt && \
		$(pip) --no-deps --editable .)

.PHONY: setup-worlds
setup-worlds: setup ## add what every environment, tool and adapter needs
	$(call needs,worlds,requirements/worlds.txt requirements/bfcl.txt,\
		$(pip) -r requirements/worlds.txt && $(pip) --no-deps -r requirements/bfcl.txt)

.PHONY: setup-dev
setup-dev: setup-worlds
	$(call needs,dev,requirements/dev.txt,$(pip) -r requirements/dev.txt)

.PHONY: setup-oracle
setup-oracle: setup-dev ## add verl, for the tests that compare with it; nothing else changes
	$(call needs,oracle,requirements/oracle.txt,$(pip) --no-deps -r requirements/oracle.txt)

.PHONY: setup-verifiers
setup-verifiers: setup ## a Python of its own, .venv-verifiers, for the library verifiers
	$(call apart,verifiers,$(apart-pip) -r requirements/verifiers.txt)

.PHONY: setup-trl
setup-trl: setup ## a Python of its own, .venv-trl, for TRL, which a benchmark is held against
	$(call apart,trl,$(apart-pip) "$$(grep '^torch==' requirements/trl.txt)" && \
		$(apart-pip) -r requirements/trl.txt && $(apart-pip) --no-deps --editable .)

.PHONY: setup-vllm
setup-vllm: setup ## a Python of its own, .venv-vllm, for vLLM, which a benchmark is held against
	$(call apart,vllm,$(apart-pip) --no-deps -r requirements/vllm.txt)

.PHONY: setup-docs
setup-docs: setup
	$(call needs,docs,requirements/docs.txt,$(pip) -r requirements/docs.txt)

.PHONY: setup-loggers
setup-loggers: setup-dev ## add trackio, wandb and mlflow, which `--log` can tell
	$(call needs,loggers,requirements/loggers.txt,$(pip) --no-deps -r requirements/loggers.txt)

.PHONY: setup-ui
setup-ui: setup-dev
	@[ ui/node_modules/.package-lock.json -nt ui/package-lock.json ] || \
		$(npm) ci --ignore-scripts --loglevel=error

.PHONY: setup-browser
setup-browser: setup-dev ## add playwright, and Chromium where the system has no browser
	@$(MAKE) --no-print-directory setup-ui || echo "npm failed: tests that need it are skipped"
	$(call needs,browser,requirements/browser.txt,$(pip) -r requirements/browser.txt)
	@for name in chromium chromium-browser google-chrome; do \
		! command -v $$name > /dev/null || exit 0; \
	done; \
	as=; [ "$$(id -u)" = 0 ] || as="sudo -n"; \
	echo "Installing chromium with apt-get"; \
	{ $$as apt-get install -y -qq --no-install-recommends chromium || { \
		$$as apt-get update -qq && \
		$$as apt-get install -y -qq --no-install-recommends chromium; }; } > /dev/null 2>&1 || \
	echo "It could not be installed: tests that need a browser are skipped"

.PHONY: setup-mutants
setup-mutants: setup-dev
	$(call needs,mutants,requirements/mutants.txt,$(pip) -r requirements/mutants.txt)

.PHONY: .venv-works
.venv-works:
	@if ! $(healthy) 2>/dev/null; then \
		$(supported) || { echo "Python 3.11, 3.12 or 3.13 is needed: make setup PYTHON=python3.12"; exit 2; }; \
		[ ! -e .venv ] || echo "The .venv does not work; making a new one"; \
		rm -rf .venv && $(PYTHON) -m venv .venv; \
	fi

.PHONY: clean
clean: ## remove .venv, caches and build outputs; runs are kept
	rm -rf .venv .venv-verifiers .venv-trl .venv-vllm ui/node_modules dist site .hypothesis \
		.pytest_cache .ruff_cache .import_linter_cache
	find src tests scripts -name __pycache__ -prune -exec rm -rf {} +
