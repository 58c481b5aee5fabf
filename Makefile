# `make help` prints this menu. CI runs the same targets.
.DEFAULT_GOAL := help
.PHONY: help web build image demo dist test test-quick lint unit web-test deny deny-test fuzz worlds soak bench bench-peers witness testbed testbed-down testbed-test cluster-test cluster-faults nightly clean
CARGO ?= cargo
FUZZ_SECONDS ?= 60
WORLDS ?= 100000
TARE := target/release/tare
PEERS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tare/bench

help: ## Print this menu
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

build: ## Build target/release/tare
	$(CARGO) build --release --locked -p tare

STATIC := $(shell uname -m)-unknown-linux-musl
image: ## Build the static program and write tare-image.tar, an OCI archive for Kubernetes
	test -d "$$(rustc --print sysroot)/lib/rustlib/$(STATIC)" || rustup target add $(STATIC)
	CC_$(subst -,_,$(STATIC))=$(or $(shell command -v musl-gcc),gcc) $(CARGO) build --release --locked -p tare --target $(STATIC)
	target/$(STATIC)/release/tare image --out tare-image.tar

dist: ## Build all release files for x86-64 and ARM64 in target/packages, and run them
	scripts/dist

demo: build ## Compare Envoy sidecars, with and without mutual TLS, with no mesh on this machine: 2 minutes after the build
	$(TARE) run --set load.duration=2s --set load.warmup=500ms

test: ## Run all tests; installs what they use (SETUP=no: not); CLUSTER=no omits Kubernetes, which needs root and Go
	scripts/setup
	$(MAKE) test-quick BESIDE="lint $(if $(filter yes,$(CLUSTER)),image)"
	$(MAKE) cluster-test-if-possible

test-quick: web/node_modules/typescript/package.json ## Run all tests but those on Kubernetes
	$(CARGO) fmt --all --check
	$(CARGO) test --workspace --locked --no-run
	$(MAKE) -j2 unit beside
	$(MAKE) web-test web-browser-test-if-there datastores-if-there

# The end-to-end tests mostly wait: the linters, and the build of the image, run meanwhile.
BESIDE ?= lint
.PHONY: beside
beside:
	@scripts/beside target/beside.log $(MAKE) -j1 $(BESIDE)

SHELL_SCRIPTS = $(shell grep -rlE '^\#!.*\b(ba)?sh$$' scripts testbed .ci)
lint: ## Check the format, and run the linters for Rust and for shell scripts
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@set -e; for script in $(SHELL_SCRIPTS); do bash -n $$script; \
	  if command -v shellcheck >/dev/null; then shellcheck --severity=warning $$script; fi; done

unit: ## Run the Rust tests: unit tests, and end-to-end tests with real Envoys
	$(CARGO) test --workspace --locked

web/node_modules/typescript/package.json: web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

web: web/node_modules/typescript/package.json ## Bundle the front end of the pages into web/dist (needs Node.js 20 or later)
	cd web && npm run --silent build

web-test: web/node_modules/typescript/package.json ## Check and test the front end of the pages
	$(CARGO) test --workspace --locked --quiet --test web_types # writes the types; all features, as `make unit`
	cd web && npm run --silent check && npm test --silent

REPORTS := $(CURDIR)/target/browser-test
BROWSER := $(or $(CHROMIUM),$(shell for b in chromium chromium-browser google-chrome; do command -v $$b && break; done))

.PHONY: web-browser-test web-browser-test-if-there
web-browser-test: web/node_modules/typescript/package.json ## Test the pages in a real Chromium (CHROMIUM names its binary)
	@test -n "$(BROWSER)" || { echo "web-browser-test: found no Chromium; install it (apt-get install chromium) or set CHROMIUM" >&2; exit 1; }
	rm -rf $(REPORTS)
	# With the features of the whole workspace, as the Rust tests: nothing is built twice.
	$(CARGO) build --quiet --locked --workspace --bins --examples
	for kind in quick doubts hostile; do \
	  target/debug/examples/synthetic $(REPORTS)/$$kind $$kind >/dev/null || exit 1; \
	done
	cp -r $(REPORTS)/quick $(REPORTS)/quick-without-5-16
	target/debug/tare report $(REPORTS)/quick-without-5-16 --exclude 5,16 >/dev/null
	mkdir -p $(REPORTS)/entries
	cp data/history/*/entries/*.json web/browser/hostile-entry.json $(REPORTS)/entries
	target/debug/tare history $(REPORTS) --site $(REPORTS)/history >/dev/null
	cd web && CHROMIUM="$(BROWSER)" REPORTS=$(REPORTS) node --test browser/*.test.mjs

web-browser-test-if-there:
	@if test -n "$(BROWSER)"; then $(MAKE) web-browser-test; \
	else echo "make test: found no Chromium, so the page was NOT tested in a browser (make web-browser-test)" >&2; fi

VALKEY := $(shell command -v valkey-server || command -v redis-server)
POSTGRESQL := $(or $(shell command -v postgres),$(wildcard /usr/lib/postgresql/*/bin/postgres))

.PHONY: datastores-if-there
datastores-if-there:
	@test -n "$(VALKEY)" || echo "make test: found no Valkey or Redis, so they were NOT tested as datastores (scripts/setup, as root)" >&2
	@test -n "$(POSTGRESQL)" || echo "make test: found no PostgreSQL, so it was NOT tested as a datastore (scripts/setup, as root)" >&2

.PHONY: grafana-test
grafana-test: ## Run every query of docs/grafana on a real Prometheus (PROMETHEUS names its binary)
	@test -n "$(or $(PROMETHEUS),$(shell command -v prometheus))" || { echo "grafana-test: found no Prometheus; install it or set PROMETHEUS" >&2; exit 1; }
	PROMETHEUS="$(or $(PROMETHEUS),$(shell command -v prometheus))" $(CARGO) test --locked -p tare-report --test pages grafana -- --ignored

deny: ## Check licences, sources and security advisories of the dependencies (needs cargo-deny)
	$(CARGO) deny --locked check licenses bans sources
	scripts/advisories

deny-test: ## Test that an advisory fails `make deny` (needs cargo-deny)
	$(CARGO) test --locked -p tare --test tools -- --ignored advisor

fuzz: ## Send mutated input to every parser, FUZZ_SECONDS each (coverage-guided: cd fuzz; cargo +nightly fuzz run TARGET --features libfuzzer)
	$(CARGO) run --locked --profile fuzz -p tare-fuzz --bin mutate -- $(FUZZ_SECONDS)

worlds: ## Run the load engine in WORLDS simulated faulty worlds: resets, stalls, partial responses
	TARE_WORLDS=$(WORLDS) $(CARGO) test --locked --profile fuzz -p tare-load --lib -- faulty_worlds

soak: build ## Test that memory, files and threads do not grow in long use (15 minutes)
	$(CARGO) build --release --locked -p tare-fake --example virtual
	scripts/soak

bench: ## Measure cost and accuracy of the load engine beside wrk, oha, fortio, h2load and ghz, interleaved
	$(CARGO) build --profile dist --locked --workspace --bins --examples
	$(CARGO) build --profile dist --locked -p tare-load --example counting --features unrecorded
	$(CARGO) bench --profile dist --locked -p tare-load --bench peers

bench-peers: ## Install oha, fortio and ghz for `make bench` (Debian has the others: wrk, nghttp2-client)
	$(CARGO) install oha --version 1.16.0 --locked --root $(PEERS)
	GOBIN=$(PEERS)/bin go install fortio.org/fortio@v1.68.0
	GOBIN=$(PEERS)/bin go install github.com/bojand/ghz/cmd/ghz@v0.121.0

witness: ## Compare reported service times with a packet capture on loopback (needs root, tcpdump, tshark)
	$(CARGO) build --release --locked -p tare -p tare-load --bins --examples
	scripts/witness

testbed: ## Start a Kubernetes cluster with three nodes on this machine (needs root and Go; the first build takes 7 minutes)
	testbed/testbed up

testbed-down: ## Stop that cluster, and check that nothing is left
	testbed/testbed down

testbed-test: ## Test the testbed's own programs: go vet and unit tests (needs Go)
	cd testbed && go vet ./... && go test ./...

cluster-test: image ## Compare Istio with no mesh on a Kubernetes cluster of its own and check the results (needs root and Go; about 20 minutes)
	testbed/cluster-test tare-image.tar target/$(STATIC)/release/tare

CLUSTER := $(if $(filter 0,$(shell id -u)),$(if $(shell command -v go),yes,no: found no go),no: not root)
.PHONY: cluster-test-if-possible
cluster-test-if-possible:
	@if test "$(CLUSTER)" != yes; then why="$(CLUSTER)"; \
	elif testbed/testbed check; then exec $(MAKE) cluster-test; else why="see above"; fi; \
	echo "make test: NOT tested on a real Kubernetes ($$why); make cluster-test does it" >&2

cluster-faults: image ## Kill tare, servers, pods and a node during runs on such a cluster (needs root and Go; about 25 minutes)
	testbed/cluster-test tare-image.tar target/$(STATIC)/release/tare faults

nightly: ## Run the long tests: all tests, cluster faults, fuzzing, simulated worlds, release files
	$(MAKE) test
	$(MAKE) cluster-faults
	$(MAKE) fuzz
	$(MAKE) worlds
	$(MAKE) dist

clean: ## Remove build results; run directories stay
	$(CARGO) clean
	rm -rf web/node_modules
