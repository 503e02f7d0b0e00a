#!/usr/bin/env bash
# Fuzzes the opening of pools with libFuzzer, ASan and UBSan. What it finds stays in build/fuzz/found,
# what it learnt in build/fuzz/corpus.
#   scripts/fuzz.sh [SECONDS]     default 60
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
cmake -G Ninja -S . -B build/fuzz -DCMAKE_CXX_COMPILER=clang++-19 -DPERDURE_FUZZ=ON \
  -DPERDURE_SANITIZE="address;undefined" -DPERDURE_CUDA=OFF -DPERDURE_BENCH=OFF -DPERDURE_TESTS=ON \
  -DPERDURE_PYTHON=OFF >build/fuzz-configure.log || {
  tail -n 30 build/fuzz-configure.log >&2
  exit 1
}
cmake --build build/fuzz --target perdure_fuzz_open
program=$(find build/fuzz -name perdure_fuzz_open -type f -executable)
mkdir -p build/fuzz/corpus build/fuzz/found
# Each kind of pool (tests/fuzz/fuzz_open.cpp), whole and with four words damaged.
for kind in {0..13}; do
  # shellcheck disable=SC2059  # the format is made of bytes
  printf "$(printf '\\x%02x' "$kind")" >"build/fuzz/corpus/whole-$kind"
  # shellcheck disable=SC2059
  printf "$(printf '\\x%02x' "$kind" 3 8 0 1 5 16 0 64 6 24 1 7 136 0 2 128)" >"build/fuzz/corpus/damaged-$kind"
done
"$program" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=20 -max_len=257 -artifact_prefix=build/fuzz/found/ \
  -print_final_stats=1 build/fuzz/corpus
