# The front door: every target is one or two commands that also work by hand. The real build is CMake's.
PRESET ?= release
JOBS ?= 2
BUILD := build/$(PRESET)
TEST := ctest --test-dir $(BUILD) --output-on-failure -j$(JOBS)
CXX_FILES = $(shell git ls-files '*.cc' '*.h')

.PHONY: help setup configure build demo test test-all bench format lint clean

help:
	@echo "make setup     packages, crates, the model, the text (idempotent, quiet when all is there)"
	@echo "make build     build/release; PRESET=debug|asan|tsan for the others"
	@echo "make demo      talk to a model, fine-tune it, stop and resume to the same bits, serve it (about 5 minutes)"
	@echo "make test      setup, build, all tests but the slow ones;  make test-all: the slow ones too"
	@echo "make bench     side by side with PyTorch and llama.cpp; BENCH=prefill,decode chooses, PEERS=0 leaves them out"
	@echo "make format    clang-format and rustfmt in place;  make lint: format check, rule scripts, clang-tidy"
	@echo "make clean     removes build/, keeps .cache/ (model, text, virtual environments)"

setup:
	@bash tools/setup.sh

configure: setup
	@test -f $(BUILD)/build.ninja || cmake --preset $(PRESET)

build: configure
	cmake --build $(BUILD) -j$(JOBS)

test: build
	$(TEST) -LE slow

test-all: build
	$(TEST)

demo: build
	bash tools/demo.sh

bench: build
	python3 bench/run.py

format:
	clang-format -i $(CXX_FILES)
	cargo fmt --manifest-path crates/text/Cargo.toml

lint: configure
	bash tools/lint.sh $(BUILD)

clean:
	rm -rf build
