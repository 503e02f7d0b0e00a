#!/usr/bin/env bash
# Runs RocksDB's own tests on perdure::rocks: the distribution's source package gives the tests, its
# installed librocksdb the database, and the preload library takes their DB::Open(). A case counts
# where it passes with plain RocksDB; those that look into RocksDB's memtables are in
# tests/rocks/rocksdb_cases.txt, with the reason. Needs apt and its network; fetches 11 MB.
# PERDURE_PRELOAD names a preload library that is built already.
#   scripts/rocksdb_tests.sh [TEST ...]     default: the five of docs/rocks.md
set -euo pipefail
cd "$(dirname "$0")/.."

tests=("$@")
[ $# -gt 0 ] || tests=(merge_test db_merge_operator_test db_iterator_test transaction_test optimistic_transaction_test)
build=$PWD/build/rocksdb-tests
kept=$PWD/tests/rocks/rocksdb_cases.txt
mkdir -p "$build"

# The source package of the installed version, by apt, which checks its signature; into lists of
# our own, so that the system's sources stay as they are.
fetch() {
  local version mirror suite apt=$build/apt
  version=$(dpkg-query -W -f '${source:Version}' librocksdb-dev)
  mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  echo "deb-src $mirror $suite main" >"$apt/sources.list"
  local own=(-o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache")
  (cd "$apt" && apt-get "${own[@]}" -qq update && apt-get "${own[@]}" -qq source --download-only "rocksdb=$version")
  mkdir -p "$build/source"
  tar -C "$build/source" --strip-components 1 -xf "$apt"/rocksdb_*.orig.tar.gz
  route
}

# Their databases are on an Env of theirs, which perdure::rocks leaves to RocksDB; and they take what
# DB::Open() gives for RocksDB's implementation. They get the usual Env; what DB has is called there,
# and only what is for tests alone in the implementation.
route() {
  local calls='Put|Get|Delete|Merge|Write|Flush|CompactRange|NewIterator|GetSnapshot|ReleaseSnapshot'
  calls+='|GetProperty|GetIntProperty|SetOptions|MultiGet|CreateColumnFamily|GetLiveFiles|GetOptions'
  (
    cd "$build/source/db"
    sed -i 's/return static_cast_with_check<DBImpl>(db_);/return static_cast_with_check<DBImpl>(db_->GetRootDB());/' \
      db_test_util.h
    sed -i 's/options\.env = env;/options.env = Env::Default();/' ../utilities/transactions/*_test.h
    sed -i -E -e 's/options\.env = env_;/options.env = Env::Default();/' -e "s/dbfull\(\)->($calls)\(/db_->\1(/" \
      -e 's/dbfull\(\)->NewIteratorImpl\(read_options, cfd, seq, read_callback\)/db_->NewIterator(read_options, column_family)/' \
      ./*_test.cc db_test_util.cc
  )
}

# compile SOURCE ...: objects beside each other; plain C++17, as RocksDB's own build.
compile() {
  local source=$build/source
  local flags=(-std=c++17 -O0 -w -DOS_LINUX -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DROCKSDB_USE_RTTI
    -DGFLAGS=1 "-I$source" "-I$source/include" -isystem "$source/third-party/gtest-1.8.1/fused-src")
  local launcher=
  if command -v ccache >/dev/null; then launcher=ccache; fi
  for one in "$@"; do
    local object=$build/$(basename "$one" .cc).o
    [ -s "$object" ] || printf '%s\0' "$launcher c++ ${flags[*]} -c $source/$one -o $object"
  done | xargs -0 -r -P "$(nproc)" -I{} sh -c '{}'
}

# cases TEST: Suite.Name of each. Of transactions those of write-committed ones, once: the other
# policies are RocksDB's alone.
cases() {
  local which=.
  [ "$1" != transaction_test ] || which='^DBAsBaseDB/TransactionTest.*/0$'
  "$build/$1" --gtest_list_tests 2>/dev/null | sed 's/ *#.*//' |
    awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }' | grep -E "$which"
}

# source_of TEST: where RocksDB has it.
source_of() {
  case $1 in
    *transaction_test) echo "utilities/transactions/$1.cc" ;;
    *) echo "db/$1.cc" ;;
  esac
}

# passes TEST CASE [VARIABLE=VALUE ...]: whether the case does, in an environment with those.
passes() {
  env "${@:3}" TEST_TMPDIR="$scratch" timeout 120 "$build/$1" --gtest_filter="$2" >"$build/last.log" 2>&1
}

[ -d "$build/source" ] || fetch
support=(db/db_test_util.cc test_util/mock_time_env.cc test_util/testharness.cc test_util/testutil.cc
  utilities/agg_merge/test_agg_merge.cc utilities/fault_injection_env.cc test_util/transaction_test_util.cc
  table/mock_table.cc third-party/gtest-1.8.1/fused-src/gtest/gtest-all.cc)
sources=()
for test in "${tests[@]}"; do sources+=("$(source_of "$test")"); done
compile "${support[@]}" "${sources[@]}"
objects=()
for one in "${support[@]}"; do objects+=("$build/$(basename "$one" .cc).o"); done
for test in "${tests[@]}"; do
  c++ -o "$build/$test" "$build/$test.o" "${objects[@]}" -lrocksdb -lgflags -lpthread -ldl
done

preload=${PERDURE_PRELOAD:-}  # one that is built already
if [ -z "$preload" ]; then
  cmake -G Ninja -S . -B build/rocks -DPERDURE_CUDA=OFF -DPERDURE_BENCH=OFF -DPERDURE_TESTS=ON \
    -DPERDURE_PYTHON=OFF -DPERDURE_ROCKS=ON -DCMAKE_BUILD_TYPE=Release >build/rocks-configure.log
  cmake --build build/rocks --target perdure_rocks_preload
  preload=$PWD/build/rocks/src/lsm/libperdure_rocks_preload.so
fi
ours=(LD_PRELOAD="$preload" PERDURE_ROCKS_DEVICE=cpu PERDURE_ROCKS_THRESHOLD=1
  PERDURE_ROCKS_TRANSACTIONS=perdure)

scratch=$(mktemp -d -p /dev/shm perdure-rocksdb-tests.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
passed=0 left_out=0 failed=()
for test in "${tests[@]}"; do
  while read -r name; do
    if grep -qE "^$test $name( |\$)" "$kept" || ! passes "$test" "$name"; then
      left_out=$((left_out + 1))
    elif passes "$test" "$name" "${ours[@]}"; then
      passed=$((passed + 1))
    else
      failed+=("$test $name")
      cp "$build/last.log" "$build/$test-${name//\//-}.log"
    fi
  done < <(cases "$test")
done
echo "RocksDB's tests on perdure::rocks: $passed passed, ${#failed[@]} failed, $left_out left out"
[ ${#failed[@]} -eq 0 ] || { printf '  FAILED %s\n' "${failed[@]}"; exit 1; }
