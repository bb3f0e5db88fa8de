# `make demo` and `make test` each set up what they need in .venv: all they ask for is Python 3.11 or newer with pip.
# An activated environment may have no pip: then the Python that it was made from is tried, and others.
WITH_PIP = for each in python3 "$$(python3 -c 'import sys; print(sys._base_executable)')" python3.13 python3.12 \
	python3.11 /usr/bin/python3; do "$$each" -m pip --version > /dev/null 2>&1 && \
	"$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo "$$each" && break; done
PYTHON ?= $(or $(shell ($(WITH_PIP)) 2> /dev/null),$(error There is no Python 3.11 or newer with pip: \
	install one, or name it, as in `make PYTHON=/usr/bin/python3`))
VENV := .venv
BIN := $(VENV)/bin
# The environment's own pip is not needed, nor ensurepip, which Debian packages apart.
PIP = $(PYTHON) -m pip --python $(BIN)/python --disable-pip-version-check
# uv takes a quarter of pip's time; where it cannot (an index that only pip was told of), pip goes on. Byte code is made
# of what is imported, when it is: of all that is installed it would take as long as the rest.
WANTED = --quiet --constraint requirements.lock --editable '$(1)' $(2)
INSTALL = $(PIP) install --quiet uv && $(BIN)/uv pip install --python $(BIN)/python $(WANTED) || \
	{ echo "uv could not install $(1): pip tries"; $(PIP) install --no-compile $(WANTED); }

# Byte code is kept, whatever the environment says: without it each of the many processes of the tests reads thousands of
# source files anew, for five seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve test chromium lint docs lock clean

demo: $(VENV)/.core
	$(BIN)/cumulant demo

# The page where you type a goal and watch.
serve: $(VENV)/.web
	$(BIN)/cumulant serve

# What the tests need beside themselves is done side by side first. The tests run whatever a linter or the site says of
# the code; the exit status tells of all.
test: $(VENV)/.dev
	$(MAKE) --jobs 3 --keep-going lint docs chromium; checked=$$?; \
	$(BIN)/pytest || exit; \
	test $$checked = 0 || { echo "The tests pass; what was checked before them does not: see above." >&2; exit 1; }

# For the tests of the page, where apt can install it.
chromium:
	tools/install_chromium.sh

# The documentation as a site, in site/; a broken link or reference is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv --without-pip $(VENV)

$(VENV)/.core: pyproject.toml requirements.lock | $(BIN)/python
	$(call INSTALL,.)
	touch $@

$(VENV)/.web: pyproject.toml requirements.lock | $(BIN)/python
	$(call INSTALL,.[web])
	touch $@ $(VENV)/.core

$(VENV)/.dev: pyproject.toml paper/pyproject.toml requirements.lock | $(BIN)/python
	$(call INSTALL,.[dev],--editable './paper[peers]')
	touch $@ $(VENV)/.core $(VENV)/.web

# Pin every package again, for every platform and Python; but for `cuda`, of which JAX pins what it needs.
lock: | $(BIN)/python
	$(PIP) install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --extra robotics --extra peers \
		--no-header --no-annotate --no-emit-package cumulant pyproject.toml paper/pyproject.toml \
		--output-file requirements.lock

clean:
	rm -rf $(VENV) demo site
