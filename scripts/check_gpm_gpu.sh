#!/usr/bin/env bash
# libGPM on a GPU: builds what it needs with nvcc and g++ alone (minutes less than the whole
# library), runs the tests of its calls, the program in the published dialect, the example and, at
# the sizes of the paper, the applications of GPMbench that know what must come out; a line each.
# Exit status 0 when all were right, 2 without a GPU.
#   scripts/check_gpm_gpu.sh [--build-only] [--no-paper]
# Needs: nvcc 13.0 or later (CUDACXX, PATH or /usr/local/cuda/bin), g++; for the applications
# Highway, CLI11 and nlohmann-json, of the system or in .deps (scripts/offline.sh unpack), and 24
# GiB of /dev/shm. Eight minutes at most.
set -euo pipefail
cd "$(dirname "$0")/.."

build_only=0 paper=1
for option in "$@"; do
  case $option in
    --build-only) build_only=1 ;;
    --no-paper) paper=0 ;;
    *) echo "check-gpm-gpu: unknown option $option" >&2 && exit 2 ;;
  esac
done
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$nvcc" ] || { echo "check-gpm-gpu: no nvcc; name one in CUDACXX" >&2 && exit 2; }
arch=native
if ! nvidia-smi -L >/dev/null 2>&1; then
  [ $build_only = 1 ] || { echo "check-gpm-gpu: no GPU here (nvidia-smi -L); --build-only builds without" >&2 && exit 2; }
  arch=sm_90
fi

tree=build/gpm-gpu
mkdir -p "$tree"
flags=(-std=c++20 -O2 -Iinclude -Isrc -Ibench -Ibench/gpm -isystem .deps/usr/include -DHWY_SHARED_DEFINE
  -DPERDURE_VERSION=\"check\")
cuda_flags=("-arch=$arch" --expt-relaxed-constexpr -diag-suppress=20011,20014)
core=(base/caught.cpp base/process.cpp base/status.cpp exec/cuda/cuda_host.cu exec/workers.cpp gpm/gpm_calls.cpp gpm/gpm_checkpoint_file.cpp gpm/gpm_ddio.cpp
  gpm/gpm_file.cpp gpm/gpm_log_file.cpp pm/flush.cpp pm/mapping.cpp pm/named_file.cpp pm/survival.cpp)
app_sources=(bench/gpm/on_cuda.cu bench/gpm/main.cpp bench/gpm/on_cpu.cpp src/exec/sort.cpp src/exec/cuda/cuda_sort.cu)
apps=1
for header in hwy/highway.h CLI/CLI.hpp nlohmann/json.hpp; do
  [ -e ".deps/usr/include/$header" ] || [ -e "/usr/include/$header" ] || apps=0
done

object_of() { echo "$tree/$(echo "$1" | tr / _).o"; }
compile() {
  local source=$1 more=()
  case $source in
    *.cu | */gpm_calls.cpp) more=(-x cu "${cuda_flags[@]}") ;;&
    tests/gpm/dialect/*) more+=(-Iinclude/perdure/gpm_dialect) ;;
  esac
  if [ ${#more[@]} -gt 0 ]; then
    "$nvcc" "${flags[@]}" "${more[@]}" -c "$source" -o "$(object_of "$source")"
  else
    g++ "${flags[@]}" -c "$source" -o "$(object_of "$source")"
  fi
}
programs=(tests/gpm/cuda/test_calls.cu tests/gpm/dialect/ledger.cu examples/gpm_counters.cu)
sources=("${programs[@]}" "${core[@]/#/src/}")
[ $apps = 0 ] || [ $paper = 0 ] || sources=("${app_sources[@]}" "${sources[@]}")
export -f compile object_of
export nvcc tree
export flags_text="${flags[*]}" cuda_flags_text="${cuda_flags[*]}"
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I {} bash -c '
  set -euo pipefail
  read -ra flags <<<"$flags_text"; read -ra cuda_flags <<<"$cuda_flags_text"
  compile "{}" >"$(object_of "{}").log" 2>&1 || { echo "{}:"; cat "$(object_of "{}").log"; exit 1; }' || exit 1
objects() { for source in "$@"; do object_of "$source"; done; }
link() {
  local program=$1
  shift
  "$nvcc" "${cuda_flags[0]}" -o "$tree/$program" "$@" -Xcompiler -pthread
}
mapfile -t core_objects < <(objects "${core[@]/#/src/}")
for source in "${programs[@]}"; do link "$(basename "$source" .cu)" "$(object_of "$source")" "${core_objects[@]}"; done
if [ $apps = 1 ] && [ $paper = 1 ]; then
  mapfile -t app_objects < <(objects "${app_sources[@]}")
  link gpmbench "${app_objects[@]}" "${core_objects[@]}" -L.deps/usr/lib/x86_64-linux-gnu -lhwy_contrib -lhwy
fi
echo "built in $SECONDS s"
[ $build_only = 0 ] || exit 0

wrong=0
row() { printf '%-48s %-8s %5s s  %s\n' "$1" "$2" "$3" "$4"; }
# NAME, seconds at most, the command.
run() {
  local name=$1 most=$2 began=$SECONDS status=0
  shift 2
  timeout "$most" "$@" >"$tree/$name.log" 2>&1 || status=$?
  local verdict=right
  [ $status = 0 ] || { verdict="WRONG" && wrong=1; }
  [ $status != 124 ] || verdict=SLOW
  row "$name" "$verdict" "$((SECONDS - began))" "$([ $status = 0 ] || tail -n 1 "$tree/$name.log")"
}
scratch=$(mktemp -d -p /dev/shm perdure-gpm-gpu.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export LD_LIBRARY_PATH="$PWD/.deps/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
run calls 60 "$tree/test_calls"
sed 's/^/    /' "$tree/calls.log"
run dialect 60 env PERDURE_PMEM="$scratch/pmem" "$tree/ledger"
sed 's/^/    /' "$tree/dialect.log"
run example 60 "$tree/gpm_counters" "$scratch/counters"
if [ -x "$tree/gpmbench" ] && [ $paper = 1 ]; then
  for app in hotspot db-insert db-update kvs kvs-95-5; do
    if [ $SECONDS -gt 400 ]; then
      row "paper-$app" "not run" 0 "too little of the ten minutes is left"
      continue
    fi
    run "paper-$app" $((560 - SECONDS)) "$tree/gpmbench" "$app" --device cuda --size paper --check --files "$scratch/app"
    sed 's/^/    /' "$tree/paper-$app.log"
  done
elif [ $paper = 1 ]; then
  row "applications at the paper's sizes" "not run" 0 "Highway, CLI11 or nlohmann-json is not here"
fi
echo "$([ $wrong = 0 ] && echo 'all right' || echo 'SOME WRONG') after $SECONDS s"
exit $wrong
