#!/usr/bin/env bash
# Fetches a Release build of RocksDB 7.8.3, the one its project publishes for Java, and leaves
# librocksdbjni-linux64.so in the directory given (default: build/rocksdb). The benchmark links it
# against Debian's headers of the same version (librocksdb-dev): Debian's own library is built with
# assertions on, so a speed-up measured against it says too much.
#
# Needs mvn, unzip and sha256sum. A second run finds the library and does nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly version=7.8.3
readonly member=librocksdbjni-linux64.so
readonly sha256=8006acf5f8869abadcc1ebe378e8ec1c77a60dc432900ce74d0ca8036dfa4f35
readonly into=${1:-build/rocksdb}

fail() {
  printf 'fetch rocksdb: %s\n' "$*" >&2
  exit 1
}
is_whole() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

if is_whole "$into/$member"; then
  echo "$into/$member"
  exit 0
fi
command -v mvn >/dev/null || fail "no mvn: apt-get install maven"
command -v unzip >/dev/null || fail "no unzip: apt-get install unzip"
mkdir -p "$into"
jar=rocksdbjni-$version-linux64.jar
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
  -Dartifact=org.rocksdb:rocksdbjni:$version:jar:linux64 -DoutputDirectory="$PWD/$into" >"$into/mvn.log" 2>&1 ||
  fail "mvn could not copy org.rocksdb:rocksdbjni:$version (see $into/mvn.log)"
unzip -o -q "$into/$jar" "$member" -d "$into"
rm "$into/$jar"
is_whole "$into/$member" || fail "$into/$member is not the file this script was written for (SHA-256 differs)"
echo "$into/$member"
