#!/usr/bin/env bash
# Crashes simulated runs (docs/explore.md) until STATES distinct crash states of each kind were
# recovered and judged, then plants every mutant.
#   scripts/explore.sh [STATES]     default 1000000
set -euo pipefail
cd "$(dirname "$0")/.."

states=${1:-1000000}
mkdir -p build
cmake -G Ninja -S . -B build/explore -DPERDURE_CUDA=OFF -DPERDURE_BENCH=OFF -DPERDURE_TESTS=ON -DPERDURE_PYTHON=OFF \
  -DCMAKE_BUILD_TYPE=Release >build/explore-configure.log || {
  tail -n 30 build/explore-configure.log >&2
  exit 1
}
cmake --build build/explore --target perdure-explore
program=build/explore/src/explore/perdure-explore
for kind in "word fence" "word commit" "in_place fence" "word fence --atomic --per-scenario 800" \
  "word commit --atomic --per-scenario 800" "word fence --steps --per-scenario 800" \
  "word commit --steps --per-scenario 800" "word fence --steps --revertible --per-scenario 800" \
  "log fence --steps --revertible --per-scenario 800" "word fence --mirrored" "word fence --mirrored --atomic --per-scenario 800" \
  "word fence --full-medium" \
  "in_place fence --full-medium" "in_place fence --cached" \
  "word fence --mirrored --cached" "log fence" "log commit" "log fence --atomic --per-scenario 800" \
  "log fence --steps --per-scenario 800" "log fence --cached" "log fence --wide-keys" "log fence --any-values" \
  "log fence --any-keys" "log fence --any-keys --atomic --per-scenario 800" "log fence --full-medium" \
  "word fence --device-ops --per-scenario 800" "log fence --device-ops --per-scenario 800" \
  "log fence --device-ops --long-keys --per-scenario 800" "word fence --long-keys" "word fence --power" "log fence --power" \
  "log fence --repair --per-scenario 100" "log commit --repair --per-scenario 100" "log fence --repair --wide-keys --per-scenario 100" \
  "log fence --repair --any-values --per-scenario 100" "log fence --repair --atomic --per-scenario 100" \
  "log fence --repair --any-keys --per-scenario 100" "word fence --repair --per-scenario 100"; do
  read -r layout model more <<<"$kind"
  # shellcheck disable=SC2086  # several words
  "$program" --layout "$layout" --model "$model" $more --states "$states" --jobs "$(nproc)"
done
for index in tables gpm-log gpm-conv gpm-checkpoint gwal; do
  for model in fence commit; do
    "$program" --index "$index" --model "$model" --states "$states" --jobs "$(nproc)"
  done
done
"$program" --index gwal --power --states "$states" --jobs "$(nproc)"
for index in dash-eh dash-lh dash-records; do
  for model in fence flush; do
    "$program" --index "$index" --operations 3 --model "$model" --states "$states" --jobs "$(nproc)"
  done
done
for index in store tables gpm-log gpm-conv gpm-checkpoint gwal dash-eh dash-lh dash-records; do
  "$program" --index "$index" --mutants --states 50000 --seconds 60 --jobs "$(nproc)"
done
