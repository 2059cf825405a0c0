# Every target works on all modules of go.work unless it says otherwise.
GOLANGCI_LINT_VERSION := 2.15.0
FUZZTIME  ?= 10s
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1
ROUNDS    ?= 400
ONLY      ?= *

ifneq (,$(findstring -mod=mod,$(shell go env GOFLAGS)))
$(error GOFLAGS must not hold -mod=mod: builds would change go.mod)
endif

.DEFAULT_GOAL := help
.PHONY: help build fmt lint test test-race test-386 bench bench-protection fuzz mutants demo quickstart

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build and vet all packages
	scripts/modules go build ./...
	scripts/modules go vet ./...

fmt: ## format the code (gofumpt, import groups)
	scripts/lint $(GOLANGCI_LINT_VERSION) fmt

lint: ## run golangci-lint, installed into .bin when missing
	scripts/lint $(GOLANGCI_LINT_VERSION) run

test: ## vet and test under the race detector; lists what was skipped
	scripts/test

test-race: ## hunt races: each test several times on 1, 2 and 8 procs (COUNT=1)
	scripts/modules go test -race -count=$(COUNT) -cpu=1,2,8 -timeout=1h ./...

test-386: ## test protection and internal on 32 bits (needs qemu-user)
	scripts/test-386

bench: ## run benchmarks (BENCH=., BENCHTIME=1s, COUNT=1)
	scripts/modules go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime=$(BENCHTIME) -count=$(COUNT) ./...

bench-protection: ## compare the policies with their peers; ends with a line per ratio (ROUNDS=400)
	cd internal/bench && go run ./protection -rounds $(ROUNDS)

fuzz: ## run each fuzz target for FUZZTIME=10s
	scripts/fuzz $(FUZZTIME)

mutants: ## take each mechanism out and require a red test (ONLY=glob)
	go run ./internal/mutants -only '$(ONLY)'

demo: ## run the avalanche demo
	go run ./examples/avalanche

quickstart: ## run the example of the README
	go run ./examples/quickstart
