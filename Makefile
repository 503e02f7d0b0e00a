# Perdure by two commands: `make demo` and `make test`. Each installs what is missing first.
#
#   make demo       set up, build, run the main job on a real trace; leaves .venv/bin/perdure
#   make test       everything CI checks
#   make test-all   the same, and what takes hours (docs/testing.md)
#   make test-gpu   the same, and the GPU tests; needs a GPU
#   make bench      the figures of docs/benchmarks.md, beside RocksDB, with RECORDS (16000000)
#   make bench-gpu  builds, checks and measures what a GPU reaches, beside the targets
#   make bench-rocks
#                   perdure::rocks beside RocksDB's Release build, with targets; on a GPU where
#                   there is one
#   make docs       the documentation's site, in build/docs/html
#   make fuzz       fuzz pools, logs, images, snapshots, tables and traces for FUZZ_SECONDS (60)
#                   each
#   make explore    crash simulated runs until EXPLORE_STATES (1000000) distinct states of each kind
#   make soak       kill a loading store SOAK_KILLS (1000) times and check each time; on a GPU, trap
#                   kernels too
#   make rocks-fuzz ROCKS_OPERATIONS (10000000) on perdure::rocks and on plain RocksDB, compared, and
#                   ROCKS_KILLS (200) kills of a process that writes through it
#   make wheels     the Python wheels perdure and perdure-cu13, in dist/
#   make format     lay out C++ and Python as .clang-format and ruff have it
#   make build      set up and build only
#   make clean      remove what was built (`make distclean`: the virtual environments, too)
#
# PERDURE_CUDA=OFF leaves the GPU code out, PERDURE_OFFLINE=1 installs nothing (scripts/offline.sh).

PERDURE_CUDA ?= AUTO
FUZZ_SECONDS ?= 60
EXPLORE_STATES ?= 1000000
SOAK_KILLS ?= 1000
ROCKS_OPERATIONS ?= 10000000
ROCKS_KILLS ?= 200
RECORDS ?= 16000000
export PERDURE_CUDA

.PHONY: demo test test-all test-gpu bench bench-gpu bench-rocks fuzz explore soak rocks-fuzz wheels docs format build setup clean distclean
.NOTPARALLEL:

demo: build
	.venv/bin/perdure demo --overwrite

build: setup
	@scripts/build.sh PERDURE_BENCH=OFF

setup:
	@scripts/setup.sh

test:
	@scripts/setup.sh --test
	.venv/bin/python scripts/test.py

test-all:
	@scripts/setup.sh --test --frameworks --fuzz
	.venv/bin/python scripts/test.py --all

test-gpu:
	@scripts/setup.sh --test --frameworks
	.venv/bin/python scripts/test.py --gpu

bench:
	@scripts/setup.sh --bench
	@scripts/build.sh PERDURE_BENCH=ON
	scripts/bench.sh $(RECORDS)

bench-gpu: setup
	scripts/bench_gpu.sh

bench-rocks: setup
	scripts/bench_rocks.sh

fuzz:
	@scripts/setup.sh --fuzz
	scripts/fuzz.sh $(FUZZ_SECONDS)

explore: setup
	scripts/explore.sh $(EXPLORE_STATES)

soak: setup
	scripts/soak.sh $(SOAK_KILLS)

rocks-fuzz: setup
	scripts/rocks.sh $(ROCKS_OPERATIONS) $(ROCKS_KILLS)

wheels:
	@PERDURE_CUDA=ON scripts/setup.sh
	scripts/wheels.sh

docs:
	scripts/docs.sh

format: setup
	scripts/format.sh --fix

clean:
	rm -rf build dist

distclean: clean
	rm -rf .venv .venv-docs .venv-frameworks .deps
