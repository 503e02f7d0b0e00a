# Perdure by two commands: `make demo` and `make test`. Each installs what is missing first.
#
#   make demo       set up, build, run the main job on a real trace; leaves .venv/bin/perdure
#   make test       everything CI checks
#   make test-all   the same, and what takes hours (docs/testing.md)
#   make test-gpu   the same, and the GPU tests; needs a GPU
#   make test-kv    the KV cache's plugins, with LMCache and vLLM around them (6 GB more to install)
#   make test-torch embeddings beside torchrec's own (5 GB more to install)
#   make bench      the figures of docs/benchmarks.md, beside RocksDB, with RECORDS (16000000)
#   make bench-gpu  builds, checks and measures what a GPU reaches, beside the targets
#   make bench-rocks
#                   perdure::rocks beside RocksDB's Release build, with targets; on a GPU where
#                   there is one
#   make docs       the documentation's site, in build/docs/html
#   make fuzz       fuzz pools, logs, images, snapshots, a server's requests, tables and traces for
#                   FUZZ_SECONDS (60) each
#   make explore    crash simulated runs until EXPLORE_STATES (1000000) distinct states of each kind
#   make soak       kill a loading store SOAK_KILLS (1000) times and check each time; on a GPU, trap
#                   kernels too
#   make rocks-fuzz ROCKS_OPERATIONS (10000000) on perdure::rocks and on plain RocksDB, compared, and
#                   ROCKS_KILLS (200) kills of a process that writes through it
#   make example-bindings
#                   builds and runs examples/rust and examples/go over the C interface (cargo, go),
#                   and examples/java where there is a Java 22
#   make test-serve-clients
#                   Jedis, go-ycsb and the dashboard in Chromium against perdure serve (java, mvn,
#                   go, node, redis-tools)
#   make wheels     the Python wheels perdure and perdure-cu13, in dist/
#   make packages   the wheel libperdure, the source package, vcpkg's port and Conan's recipe, tried
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

.PHONY: demo test test-all test-gpu test-kv test-torch bench bench-gpu bench-rocks fuzz explore soak rocks-fuzz example-bindings test-serve-clients wheels packages docs format build setup clean distclean
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

test-kv:
	@scripts/setup.sh --kv
	@scripts/build.sh PERDURE_BENCH=OFF
	.venv-kv/bin/python -m pytest -q -c python/engine_tests/pytest.ini python/engine_tests

test-torch:
	@scripts/setup.sh --torchrec
	@scripts/build.sh PERDURE_BENCH=OFF
	.venv-torchrec/bin/python -m pytest -q python/tests/test_torchrec.py

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

example-bindings: setup
	scripts/example_bindings.sh

test-serve-clients: build
	scripts/serve_clients.sh

wheels:
	@PERDURE_CUDA=ON scripts/setup.sh
	scripts/wheels.sh

packages: setup
	scripts/packages.sh

docs:
	scripts/docs.sh

format: setup
	scripts/format.sh --fix

clean:
	rm -rf build dist

distclean: clean
	rm -rf .venv .venv-docs .venv-frameworks .venv-kv .venv-torchrec .deps
