# `make help` prints this menu. CI calls `make test`.
.DEFAULT_GOAL := help
.PHONY: help web build image demo test test-quick lint unit web-test deny fuzz bench bench-peers witness testbed testbed-down testbed-test cluster-test cluster-faults clean
CARGO ?= cargo
FUZZ_SECONDS ?= 60
TARE := target/release/tare
PEERS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tare/bench

help: ## This menu
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

build: ## Build the release binary, target/release/tare
	$(CARGO) build --release --locked

STATIC := $(shell uname -m)-unknown-linux-musl
image: ## tare-image.tar, an OCI archive of the static program for Kubernetes
	rustup target add $(STATIC)
	CC_$(subst -,_,$(STATIC))=$(or $(shell command -v musl-gcc),gcc) $(CARGO) build --release --locked -p tare --target $(STATIC)
	target/$(STATIC)/release/tare image --out tare-image.tar

demo: build ## The main job: weigh Envoy sidecars on this machine (about 2 minutes after the build)
	$(TARE) run

test: ## All tests; on a real Kubernetes with Istio, too, where root and Go are there (CLUSTER=no: without)
	$(MAKE) test-quick
	$(MAKE) cluster-test-if-possible

test-quick: web/node_modules/typescript/package.json lint unit web-test web-browser-test-if-there ## All but the cluster: format, lints, unit, end to end on real Envoys, web front end

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit:
	$(CARGO) test --workspace --locked

web/node_modules/typescript/package.json: web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

web: web/node_modules/typescript/package.json ## Bundle the front end of the report page into web/dist (Node.js 20 or later)
	cd web && npm run --silent build

web-test: web/node_modules/typescript/package.json
	cd web && npm run --silent check && npm test --silent

REPORTS := $(CURDIR)/target/browser-test
BROWSER := $(or $(CHROMIUM),$(shell for b in chromium chromium-browser google-chrome; do command -v $$b && break; done))

.PHONY: web-browser-test web-browser-test-if-there
web-browser-test: web/node_modules/typescript/package.json ## The report page in a real Chromium (CHROMIUM names its binary)
	@test -n "$(BROWSER)" || { echo "web-browser-test: found no Chromium; install it (apt-get install chromium) or set CHROMIUM" >&2; exit 1; }
	rm -rf $(REPORTS)
	for kind in quick doubts hostile; do \
	  $(CARGO) run --quiet --locked -p tare-report --example synthetic -- $(REPORTS)/$$kind $$kind >/dev/null || exit 1; \
	done
	cp -r $(REPORTS)/quick $(REPORTS)/quick-without-5-16
	$(CARGO) run --quiet --locked -p tare -- report $(REPORTS)/quick-without-5-16 --exclude 5,16 >/dev/null
	cd web && CHROMIUM="$(BROWSER)" REPORTS=$(REPORTS) node --test browser/*.test.mjs

web-browser-test-if-there:
	@if test -n "$(BROWSER)"; then $(MAKE) web-browser-test; \
	else echo "make test: found no Chromium, so the page was NOT tested in a browser (make web-browser-test)" >&2; fi

.PHONY: grafana-test
grafana-test: ## Every query of docs/grafana on a real Prometheus (PROMETHEUS names its binary)
	@test -n "$(or $(PROMETHEUS),$(shell command -v prometheus))" || { echo "grafana-test: found no Prometheus; install it or set PROMETHEUS" >&2; exit 1; }
	PROMETHEUS="$(or $(PROMETHEUS),$(shell command -v prometheus))" $(CARGO) test --locked -p tare-report --test grafana -- --ignored

deny: ## Licences, sources and bans of the dependencies (needs cargo-deny)
	$(CARGO) deny --locked check licenses bans sources

fuzz: ## Feed every parser with mutated input, FUZZ_SECONDS each (coverage-guided: cd fuzz; cargo +nightly fuzz run TARGET --features libfuzzer)
	$(CARGO) run --locked --profile fuzz -p tare-fuzz --bin mutate -- $(FUZZ_SECONDS)

bench: ## Cost and accuracy of the load engine beside wrk, oha, fortio, h2load and ghz, interleaved
	$(CARGO) build --release --locked --workspace --bins --examples
	$(CARGO) build --release --locked -p tare-load --example counting --features unrecorded
	$(CARGO) bench --locked -p tare-load --bench peers

bench-peers: ## Install oha, fortio and ghz for `make bench` (apt-get install wrk nghttp2-client)
	$(CARGO) install oha --version 1.16.0 --locked --root $(PEERS)
	GOBIN=$(PEERS)/bin go install fortio.org/fortio@v1.68.0
	GOBIN=$(PEERS)/bin go install github.com/bojand/ghz/cmd/ghz@v0.121.0

witness: ## Reported service times beside a packet capture on loopback (root, tcpdump, tshark)
	$(CARGO) build --release --locked -p tare -p tare-load --bins --examples
	scripts/witness

testbed: ## A real Kubernetes with three nodes on this machine, without Docker (root; builds 7 minutes once)
	testbed/testbed up

testbed-down: ## End it, and check that nothing is left
	testbed/testbed down

testbed-test: ## Unit tests and go vet of the testbed's own programs (Go)
	cd testbed && go vet ./... && go test ./...

cluster-test: image ## Weigh Istio on the testbed and assert what it finds (root, Go; 15 minutes, 22 from cold)
	testbed/cluster-test tare-image.tar target/$(STATIC)/release/tare

CLUSTER := $(if $(filter 0,$(shell id -u)),$(if $(shell command -v go),yes,no: found no go),no: not root)
.PHONY: cluster-test-if-possible
cluster-test-if-possible:
	@if test "$(CLUSTER)" != yes; then why="$(CLUSTER)"; \
	elif testbed/testbed check; then exec $(MAKE) cluster-test; else why="see above"; fi; \
	echo "make test: NOT tested on a real Kubernetes ($$why); make cluster-test does it" >&2

cluster-faults: image ## Kill tare, servers, pods and a node in mid-run on the testbed, evict pods, fill memory and disk: what comes of it (root, Go; 18 minutes)
	testbed/cluster-test tare-image.tar target/$(STATIC)/release/tare faults

clean: ## Remove what was built (run directories stay)
	$(CARGO) clean
	rm -rf web/node_modules
