#!/usr/bin/env bash
# Compiles all that includes RocksDB's headers against those of several versions: syntax, types and
# warnings, two minutes of one core a version. The installed version's headers are there; the others
# come from the sources that crates of crates.io carry, by cargo, 10 MB each, once.
#   scripts/rocksdb_versions.sh [VERSION ...]     default: installed, and all in `crates` below
set -euo pipefail
cd "$(dirname "$0")/.."

# The least and the newest of what cmake/dependencies.cmake takes, what Ubuntu 24.04 and Debian 13
# have, and versions between them. Of 7.8 there is no crate.
declare -A crates=(
  [7.9.2]='librocksdb-sys 0.10.0' [8.1.1]='librocksdb-sys 0.11.0' [8.9.1]='librocksdb-sys 0.15.0'
  [9.2.1]='rust-librocksdb-sys 0.22.0' [9.10.0]='rust-librocksdb-sys 0.32.0'
  [10.4.2]='librocksdb-sys 0.17.3' [10.7.5]='rust-librocksdb-sys 0.40.0' [11.8.1]='librocksdb-sys 0.19.0')
build=$PWD/build/rocksdb-versions
jobs=${JOBS:-$(nproc)}

versions=("$@")
[ $# -gt 0 ] || mapfile -t versions < <(echo installed; printf '%s\n' "${!crates[@]}" | sort -V)

# headers VERSION: prints their directory, once it is there.
headers() {
  local crate number at=$build/$1
  read -r crate number <<<"${crates[$1]}"
  if [ ! -d "$at/include/rocksdb" ]; then
    command -v cargo >/dev/null || { echo "RocksDB $1: no cargo to fetch its headers (apt-get install cargo)" >&2; exit 2; }
    mkdir -p "$at/src"
    echo >"$at/src/lib.rs"
    printf '[package]\nname = "headers"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' \
      "$crate" "$number" >"$at/Cargo.toml"
    (cd "$at" && cargo fetch --quiet) >&2
    cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate-$number+$1/rocksdb/include" "$at/include"
  fi
  echo "$at/include"
}

# All but what needs CUDA's headers.
sources() {
  ls src/lsm/rocks/*.cpp tests/rocks/*.cpp tests/rocks/*/*.cpp tests/package/rocks.cpp bench/rocks/*.cpp \
    bench/tests/test_rocks.cpp baselines/rocksdb/adapter.cpp | grep -v _cuda_
  [ -z "$nanobind" ] || ls python/native/rocks*.cpp
}
nanobind=$(.venv/bin/python -c 'import nanobind; print(nanobind.include_dir())' 2>/dev/null || true)

failed=0
for version in "${versions[@]}"; do
  flags=(-std=c++20 -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wconversion -Wpedantic -Werror -Isrc -Iinclude -Itests -Ibench -Ibench/rocks
    -DPERDURE_PRELOAD='""' -DPERDURE_PRELOAD_PROGRAM='""')
  if [ -n "$nanobind" ]; then
    flags+=(-fvisibility=hidden -isystem "$nanobind" -isystem "$nanobind/../ext/robin_map/include"
      -isystem "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("include"))')")
  fi
  at=$build/$version
  mkdir -p "$at"
  if [ "$version" != installed ]; then
    [ -n "${crates[$version]:-}" ] || { echo "no crate is known to have RocksDB $version" >&2; exit 2; }
    directory=$(headers "$version")
    flags+=(-isystem "$directory")
  fi
  # What all of them read first, once.
  printf '#include <%s>\n' algorithm functional map memory span string thread vector \
    rocksdb/db.h rocksdb/utilities/stackable_db.h >"$at/first.hpp"
  c++ "${flags[@]}" -x c++-header "$at/first.hpp" -o "$at/first.hpp.gch"
  if sources | xargs -P "$jobs" -I{} c++ "${flags[@]}" -fsyntax-only -include "$at/first.hpp" {} 2>"$at/log"; then
    echo "RocksDB $version: compiles"
  else
    failed=$((failed + 1))
    echo "RocksDB $version: FAILED, $at/log"
    grep -m 5 -E 'error:' "$at/log" || true
  fi
done
[ "$failed" -eq 0 ]
