#!/usr/bin/env bash
# Fuzzes with libFuzzer, ASan and UBSan what opens pools, logs, images and snapshots and what a
# server's clients send, and with Atheris what reads tables and traces in Python: each for SECONDS.
# Begins with what is kept in tests/fuzz/corpus and python/tests/corpus; what it learns stays in
# build/fuzz/corpus, what it finds in build/fuzz/found.
#   scripts/fuzz.sh [SECONDS [TARGET ...]]     default 60, all: pool log image snapshot server
#                                              parquet csv trace
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
[ $# -gt 1 ] && targets=("${@:2}") || targets=(pool log image snapshot server parquet csv trace)

# Runs one fuzzer over a target's corpus; its command line is libFuzzer's, whoever calls it.
fuzz() {
  local target=$1 kept=$2
  shift 2
  mkdir -p "build/fuzz/corpus/$target" build/fuzz/found
  echo "== $target"
  "$@" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -artifact_prefix="build/fuzz/found/$target-" \
    -print_final_stats=1 "build/fuzz/corpus/$target" "$kept"
}

build_native() {
  local clang
  clang=$(scripts/clang.sh)
  cmake -G Ninja -S . -B build/fuzz -DCMAKE_CXX_COMPILER="clang++-$clang" -DPERDURE_FUZZ=ON \
    -DPERDURE_SANITIZE="address;undefined" -DPERDURE_CUDA=OFF -DPERDURE_BENCH=OFF -DPERDURE_TESTS=ON \
    -DPERDURE_PYTHON=OFF >build/fuzz-configure.log || {
    tail -n 30 build/fuzz-configure.log >&2
    exit 1
  }
  cmake --build build/fuzz --target perdure_fuzz
}

mkdir -p build
PERDURE_FUZZ_TMP=$(mktemp -d -p /dev/shm perdure-fuzz.XXXXXX)
export PERDURE_FUZZ_TMP
trap 'rm -rf "$PERDURE_FUZZ_TMP"' EXIT
built=
for target in "${targets[@]}"; do
  case $target in
    pool | log | image | snapshot)
      [ -n "$built" ] || build_native
      built=yes
      fuzz "$target" "tests/fuzz/corpus/$target" "build/fuzz/tests/fuzz/perdure_fuzz_$target" -max_len=257
      ;;
    server)
      [ -n "$built" ] || build_native
      built=yes
      fuzz server tests/fuzz/corpus/server build/fuzz/tests/fuzz/perdure_fuzz_server -max_len=4096
      ;;
    parquet | csv | trace)
      fuzz "$target" "python/tests/corpus/$target" .venv/bin/python python/tests/fuzz_with_atheris.py "$target" -max_len=65536
      ;;
    *)
      echo "no such target: $target (pool log image snapshot server parquet csv trace)" >&2
      exit 2
      ;;
  esac
done
