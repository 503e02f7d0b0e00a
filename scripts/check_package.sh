#!/usr/bin/env bash
# Installs a build as a C++ user would have it, then builds and runs tests/package and the README's C++
# against it, and examples/, of which those with kernels where the build has CUDA.
#   scripts/check_package.sh [BUILD]      BUILD defaults to build/release
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:-build/release}")
work=$(mktemp -d -p "$build" package.XXXXXX)
pool=$(mktemp -u -p /dev/shm perdure-package.XXXXXX)
trap 'rm -rf "$work" "$pool" "$pool-readme" "$pool-example"' EXIT

cmake --install "$build" --component cpp --prefix "$work/prefix" >"$work/install.log"
# Moved after the install, so that no path of the build or of the first prefix can be in use.
mv "$work/prefix" "$work/moved"
sed -n '/^```cpp$/,/^```$/{/^```/d;p}' README.md | sed "s|/dev/shm/table.pool|$pool-readme|" >"$work/readme.cpp"
cmake -G Ninja -S tests/package -B "$work/build" -DCMAKE_PREFIX_PATH="$work/moved;$PWD/.deps/usr;${CMAKE_PREFIX_PATH:-}" \
  -DREADME_CPP="$work/readme.cpp" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build"
"$work/build/consumer" "$pool" "$work/log"
"$work/build/consumer_gpm" "$pool"
"$work/build/readme"
[ -s "$pool-readme" ] || { echo "the README's C++ left no pool" >&2; exit 1; }

cuda=()
if grep -q '^set(perdure_WITH_CUDA ON)' "$work"/moved/lib*/cmake/perdure/perdureConfig.cmake "$work"/moved/lib/*/cmake/perdure/perdureConfig.cmake 2>/dev/null; then
  of_build() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
  cuda=(-DCMAKE_CUDA_COMPILER="$(of_build CMAKE_CUDA_COMPILER)"
    -DCMAKE_CUDA_ARCHITECTURES="$(of_build CMAKE_CUDA_ARCHITECTURES)")
fi
cmake -G Ninja -S examples -B "$work/examples" -DCMAKE_PREFIX_PATH="$work/moved;$PWD/.deps/usr;${CMAKE_PREFIX_PATH:-}" \
  -DCMAKE_BUILD_TYPE=Release "${cuda[@]}" >"$work/examples.log" || { cat "$work/examples.log"; exit 1; }
cmake --build "$work/examples"
"$work/examples/training_step" "$pool-example"
if [ ${#cuda[@]} -gt 0 ]; then
  for example in device_kernel gpm_counters; do
    "$work/examples/$example" "$pool-example" || [ $? -eq 77 ]  # no GPU here
  done
fi
