#!/usr/bin/env bash
# Installs a build as a C++ user would have it, then builds and runs tests/package against it.
#   scripts/check_package.sh [BUILD]      BUILD defaults to build/release
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:-build/release}")
work=$(mktemp -d -p "$build" package.XXXXXX)
pool=$(mktemp -u -p /dev/shm perdure-package.XXXXXX)
trap 'rm -rf "$work" "$pool"' EXIT

cmake --install "$build" --component cpp --prefix "$work/prefix" >"$work/install.log"
# Moved after the install, so that no path of the build or of the first prefix can be in use.
mv "$work/prefix" "$work/moved"
cmake -G Ninja -S tests/package -B "$work/build" -DCMAKE_PREFIX_PATH="$work/moved;$PWD/.deps/usr;${CMAKE_PREFIX_PATH:-}" \
  -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build"
"$work/build/consumer" "$pool"
