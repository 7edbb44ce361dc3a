# Every target sets up what it needs: .venv is made again when pyproject.toml is newer than its stamp.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
FUZZ_READY := $(VENV)/.fuzz
CONFORMANCE := ../shared/conformance
STAGE := 5

.PHONY: demo test lint bench fuzz conformance clean

demo: $(READY)
	$(VENV)/bin/trxds demo

test: $(READY)
	$(VENV)/bin/python -m pytest -q -n auto --dist loadfile

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(READY)
	$(VENV)/bin/python tests/bench/run.py

# Every parser for its share of a minute of all cores.
fuzz: $(FUZZ_READY)
	cd tests && ../$(VENV)/bin/python -m fuzz.run

ifneq ($(wildcard $(CONFORMANCE)/run.py),)
conformance: $(READY)
	$(VENV)/bin/python $(CONFORMANCE)/run.py --driver '$(VENV)/bin/python -u tests/peers/driver.py' --stage $(STAGE)
else
conformance:
	@echo "conformance: $(CONFORMANCE)/run.py is not there, so nothing was compared"
	@test -z "$${CI:-}"
endif

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trxds needs Python 3.11 or newer; say make PYTHON=/path/to/python")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(FUZZ_READY): $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]'
	@touch $@

clean:
	rm -rf $(VENV) .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis
