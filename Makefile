# On a fresh machine, two commands are enough: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# An editable install by path: `import seqwright` works from every folder, also from the parent of this one.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --config-settings editable_mode=compat

.PHONY: install demo test test-all check bench pictures clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) -e '.[dev]'
	touch $@

# Without the dictionary the demo uses a generated task and says so.
$(VENV)/.demo: $(VENV)/.installed
	$(INSTALL) -e '.[demo]' && touch $@ || true

demo: $(VENV)/.demo
	$(BIN)/seqwright demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -q

test-all: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -q -m 'slow or not slow' --hypothesis-profile=thorough

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check seqwright bench tests examples
	$(BIN)/mypy

$(VENV)/.bench: $(VENV)/.installed
	$(INSTALL) -e '.[bench]'
	touch $@

bench: $(VENV)/.bench
	$(BIN)/python -m bench.core

pictures: $(VENV)/.installed
	$(BIN)/python -m examples.pictures

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
