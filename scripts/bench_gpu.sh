#!/usr/bin/env bash
# Builds, checks and measures what docs/benchmarks.md says of a GPU; the table of all figures comes
# last, with the time it took, and the runs stay as JSON in build/figures-gpu.
#   scripts/bench_gpu.sh [RECORDS [LARGE]]     default 16000000 and 128000000, which needs 25 GiB of
#                                              /dev/shm
set -euo pipefail
cd "$(dirname "$0")/.."

records=${1:-16000000}
large=${2:-128000000}
nvidia-smi -L >/dev/null 2>&1 || {
  echo "bench-gpu: no GPU here (nvidia-smi -L); make bench measures a CPU" >&2
  exit 2
}
tree=build/bench-gpu
figures=build/figures-gpu
rm -rf "$figures"
mkdir -p "$tree" "$figures"
cmake -G Ninja -S . -B "$tree" -DCMAKE_BUILD_TYPE=Release -DPERDURE_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native \
  -DPERDURE_TESTS=ON -DPERDURE_BENCH=ON -DPERDURE_PYTHON=OFF -DPERDURE_BENCH_ROCKSDB=OFF >"$tree/configure.log" || {
  tail -n 30 "$tree/configure.log" >&2
  exit 1
}
cmake --build "$tree" --target perdure-bench perdure_conformance perdure_mirror_test >"$tree/build.log" || {
  tail -n 40 "$tree/build.log" >&2
  exit 1
}
echo "built in $SECONDS s"
check() {
  local shards=8 shard pids=() pid passed
  rm -f "$tree"/check-*.log
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "$tree/tests/conformance/perdure_conformance" --gtest_brief=1 \
      --gtest_filter='*/cuda_mirrored_key8_*:*/cuda_inplace_key8_*' >"$tree/check-$shard.log" 2>&1 &
    pids+=($!)
  done
  "$tree/tests/mirror/perdure_mirror_test" --gtest_brief=1 --gtest_filter='*cuda*' >"$tree/check-mirror.log" 2>&1 &
  pids+=($!)
  for pid in "${pids[@]}"; do
    wait "$pid" || {
      tail -n 20 "$tree"/check-*.log >&2
      return 1
    }
  done
  passed=$(sed -n 's/.*PASSED *\] *\([0-9]*\) test.*/\1/p' "$tree"/check-*.log | awk '{n += $1} END {print n}')
  [ "${passed:-0}" -gt 0 ] || {
    echo "bench-gpu: no test ran" >&2
    return 1
  }
  echo "$passed tests passed"
}
check
echo "checked after $SECONDS s"

bench() {
  local name=$1
  shift
  echo "== $*"
  "$tree/bench/perdure-bench" "$@" --device cuda --json "$figures/$name.json" >"$figures/$name.log" || {
    tail -n 5 "$figures/$name.log" >&2
    return 1
  }
  echo "   done after $SECONDS s"
}
"$tree/bench/perdure-bench" limits --json "$figures/limits.json" >"$figures/limits.log"
bench none batches --records "$records" --batches 12,16,20,24
bench fifth batches --records "$records" --batches 12,20,24 --cache 0.2
bench all batches --records "$records" --batches 12,16,20,24 --cache 1.02
bench host batches --records "$records" --batches 20 --arrays host
bench log batches --records "$records" --batches 20 --layout log --steady 1000000000 --fill 0.8
bench log_large batches --records "$large" --batches 20,22 --write-batch 22 --layout log
bench in_place batches --records "$records" --batches 20 --layout in_place --repeats 3
bench in_place_fifth batches --records "$records" --batches 12,16,20 --layout in_place --cache 0.2 --repeats 3
bench calls calls --records $((records / 4)) --batches 256,4096,65536,1048576 --steady 3000
bench fill fill --records "$records" --batch 1048576 --system word
bench load_factor load-factor --layout word --top-levels 22 --seeds 1 --value-bytes 128
bench reopen reopen --records "$large" --batch 1048576 --layout log
bench baselines baselines --records $((records / 4)) --ops 65536 --batch 65536 --repeat 3 --arrays near --no-count-accesses \
  --workload ycsb-a,ycsb-b,ycsb-d,ycsb-f --system word,in_place,slabhash-gpm,clevel-gpm
python3 scripts/gpu_table.py "$figures"
echo "all of it took $SECONDS s"
