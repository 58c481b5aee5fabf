# `make help` prints this menu. CI calls `make test`.
.DEFAULT_GOAL := help
.PHONY: help build demo test lint unit web-test deny bench docs-figures clean
CARGO ?= cargo
TARE := target/release/tare

help: ## This menu
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

build: ## Build the release binary, target/release/tare
	$(CARGO) build --release --locked

demo: build ## The main job: weigh Envoy sidecars on this machine (about 3 minutes)
	$(TARE) run

test: lint unit web-test ## All tests: format, lints, unit, end to end on real Envoys, web front end

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit:
	$(CARGO) test --workspace --locked

web-test:
	cd web && npm run --silent check && npm test --silent

deny: ## Licences, sources and bans of the dependencies (needs cargo-deny)
	$(CARGO) deny --locked check licenses bans sources

bench: ## Cost and truth of the load engine beside wrk, oha and fortio, interleaved
	$(CARGO) build --release --locked --workspace --examples
	$(CARGO) bench --locked -p tare-load --bench peers

clean: ## Remove what was built (run directories stay)
	$(CARGO) clean
	rm -rf web/node_modules
