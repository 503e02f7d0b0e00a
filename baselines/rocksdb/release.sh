#!/usr/bin/env bash
# Builds librocksdb.so.7.8 as a Release: the distribution's library has assertions and sync points
# on, which make it 1.3 to 2 times slower. It is the same version with the same SONAME and the same
# ABI (C++11 strings, RTTI), so what was linked to the distribution's library runs on either:
#   LD_LIBRARY_PATH=build/rocksdb-release perdure-bench-rocks
# db_bench of the same build lies beside it, and so do the small libraries that both need, so that
# the directory can be brought to a machine without a network. The library wants AVX2, as RocksDB's
# own checksums and filters do for their best speed.
#
# The source is Debian's upstream tarball. It takes 15 to 30 minutes of one core; JOBS (default 1)
# says how many compilers run. A second run finds the library and does nothing.
# Needs curl, cmake, ninja and the codecs' headers, which come with librocksdb-dev.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly version=7.8.3 soname=librocksdb.so.7.8
readonly sha256=b85408a374770897332bf15e51620a5f35720dd416a4749e3899057f9cfaf84d
readonly tarball=rocksdb_$version.orig.tar.gz
readonly url=http://deb.debian.org/debian/pool/main/r/rocksdb/$tarball
readonly into=${1:-build/rocksdb-release}
readonly source=$into/source tree=$into/tree
# What the result depends on: a library that was built otherwise is built again.
readonly recipe="$version x86-64-v3 O2 1"

fail() {
  printf 'build rocksdb: %s\n' "$*" >&2
  exit 1
}
is_whole() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

fetch() {
  if ! is_whole "$into/$tarball"; then
    curl -fsSL --retry 3 -o "$into/$tarball" "$url" || fail "cannot fetch $url"
    is_whole "$into/$tarball" || fail "$into/$tarball is not the file this script was written for (SHA-256 differs)"
  fi
  rm -rf "$source"
  mkdir -p "$source"
  tar -xzf "$into/$tarball" -C "$source" --strip-components=1
  # The distributions' SONAME has the minor version too.
  sed -i "s/SOVERSION \${rocksdb_VERSION_MAJOR}/SOVERSION ${version%.*}/" "$source/CMakeLists.txt"
}

configure() {
  cmake -G Ninja -S "$source" -B "$tree" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS=-march=x86-64-v3 -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH='$ORIGIN' \
    -DPORTABLE=ON -DFORCE_SSE42=ON -DUSE_RTTI=ON -DFAIL_ON_WARNINGS=OFF \
    -DWITH_SNAPPY=ON -DWITH_LZ4=ON -DWITH_ZSTD=ON -DWITH_ZLIB=ON -DWITH_BZ2=ON -DWITH_LIBURING=OFF \
    -DWITH_GFLAGS=ON -DWITH_BENCHMARK_TOOLS=ON -DWITH_TESTS=OFF -DWITH_TOOLS=OFF -DWITH_CORE_TOOLS=OFF \
    -DWITH_TRACE_TOOLS=OFF -DROCKSDB_BUILD_SHARED=ON
}

mkdir -p "$into"
if [ -f "$into/$soname" ] && [ "$(cat "$into/recipe" 2>/dev/null)" = "$recipe" ]; then
  echo "$into/$soname"
  exit 0
fi
for command in curl cmake ninja strip nm; do
  command -v $command >/dev/null || fail "no $command here"
done
fetch
configure >"$into/build.log" 2>&1 || fail "cmake refused (see $into/build.log)"
ninja -C "$tree" -j "${JOBS:-1}" rocksdb-shared db_bench >>"$into/build.log" 2>&1 ||
  fail "the build failed (see $into/build.log)"
strip -o "$into/$soname" "$tree/librocksdb.so.$version"
strip -o "$into/db_bench" "$tree/db_bench"
nm -D --undefined-only "$into/$soname" | grep -q __assert_fail && fail "$into/$soname has assertions on"
# Of what both need, what a bare machine may lack.
ldd "$into/$soname" "$into/db_bench" | awk '$3 ~ /lib(snappy|gflags|lz4|zstd|bz2|z)\.so/ {print $3}' | sort -u |
  xargs cp -L -t "$into"
rm -rf "$source" "$tree"
echo "$recipe" >"$into/recipe"
echo "$into/$soname"
