#!/usr/bin/env bash
# Installs a build as a C++ user would have it, then builds and runs tests/package, the README's C++
# and the C guide's program against it: by find_package with the static and the shared library, and
# by pkg-config. Looks at what was installed and what libperdure.so shows, in C function by function;
# then builds examples/, of which those with kernels where the build has CUDA.
#   scripts/check_package.sh [BUILD]      BUILD defaults to build/release
set -euo pipefail
cd "$(dirname "$0")/.."

build=$(realpath "${1:-build/release}")
work=$(mktemp -d -p "$build" package.XXXXXX)
pool=$(mktemp -u -p /dev/shm perdure-package.XXXXXX)
trap 'rm -rf "$work" "$pool" "$pool-readme" "$pool-example" "$pool-c"' EXIT
fail() {
  echo "package: $*" >&2
  exit 1
}

# Everything that is installed unless more is named: no Python package among it.
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
others=$(cd "$work/prefix" && find . -mindepth 1 -maxdepth 1 ! -name include ! -name 'lib*' ! -name share)
[ -z "$others" ] || fail "cmake --install left $others"
# Moved after the install, so that no path of the build or of the first prefix can be in use.
mv "$work/prefix" "$work/moved"
libraries=$(dirname "$(find "$work/moved" -name libperdure.a)")

# What libperdure.so shows is the C++ interface: names in perdure::, and perdure_ of C, none of what
# lies behind it.
shared=$libraries/libperdure.so
[ -e "$shared" ] || fail "no libperdure.so beside $libraries/libperdure.a"
nm --dynamic --defined-only --demangle --format=posix "$shared" | sed -E 's/\[abi:cxx11\]//; s/ [A-Za-z] [0-9a-f ]*$//' |
  sort -u >"$work/shown"
grep -q '^perdure::Store::open(' "$work/shown" || fail "libperdure.so does not show perdure::Store::open"
foreign=$(grep -vE '^perdure::(Store|PoolReader|ValuesView|Transaction|DeviceSession|Survival)::[^:]*(\(|$)|^perdure::[a-z_]+\(|^perdure_[a-z_]+$' "$work/shown" || true)
[ -z "$foreign" ] || fail "libperdure.so shows more than its interface: $(head -n 5 <<<"$foreign")"
# In C: each function that the installed headers declare, and no other.
sed -nE 's/^PERDURE_API .*[ *](perdure_[a-z_]+)\(.*/\1/p' "$work"/moved/include/perdure/{perdure,prestore}.h | sort >"$work/declared"
[ "$(wc -l <"$work/declared")" -ge 60 ] || fail "perdure.h and prestore.h declare hardly a function"
grep '^perdure_' "$work/shown" | diff "$work/declared" - >"$work/differ" ||
  fail "the headers (<) and libperdure.so (>) differ in functions of C: $(head -n 8 "$work/differ")"
readelf --dynamic "$shared" | grep -qE 'SONAME.*\[libperdure\.so\.[0-9]+\.[0-9]+\]' || fail "libperdure.so has no SONAME"
for library in "$libraries/libperdure.a" "$shared"; do
  # nobody asked for it
  if ! grep -q '^CMAKE_CXX_FLAGS_RELEASE:[A-Z]*=.*-g' "$build/CMakeCache.txt"; then
    ! readelf --sections --wide "$library" 2>/dev/null | grep -q '\.debug_info' || fail "$library holds debug information"
  fi
  echo "$(basename "$library"): $(stat -Lc %s "$library") bytes"
done

sed -n '/^```cpp$/,/^```$/{/^```/d;p}' README.md | sed "s|/dev/shm/table.pool|$pool-readme|" >"$work/readme.cpp"
awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' docs/guide/c.md |
  sed "s|/dev/shm/table.pool|$pool-c|" >"$work/guide.c"
other=shared
! grep -q 'perdure::static' "$libraries/cmake/perdure/perdureTargets.cmake" || other=static
for kind in perdure "$other"; do
  cmake -G Ninja -S tests/package -B "$work/build-$kind" -DCMAKE_PREFIX_PATH="$work/moved;$PWD/.deps/usr;${CMAKE_PREFIX_PATH:-}" \
    -DREADME_CPP="$work/readme.cpp" -DGUIDE_C="$work/guide.c" -DPERDURE_TARGET="perdure::$kind" -DCMAKE_BUILD_TYPE=Release >"$work/configure.log" ||
    { cat "$work/configure.log"; exit 1; }
  cmake --build "$work/build-$kind"
  rm -rf "$pool"* "$work/log"
  "$work/build-$kind/consumer" "$pool" "$work/log"
  "$work/build-$kind/consumer_gpm" "$pool"
  "$work/build-$kind/consumer_c"
  "$work/build-$kind/guide_c"
  [ -s "$pool-c" ] || fail "the C guide's program left no pool"
  rm "$pool-c"
  rm -f "$pool"
  if [ -x "$work/build-$kind/consumer_serve" ]; then "$work/build-$kind/consumer_serve" "$pool"; fi
  if [ -x "$work/build-$kind/consumer_rocks" ]; then "$work/build-$kind/consumer_rocks" "$work/rocks-$kind"; fi
  "$work/build-$kind/readme"
  "$work/build-$kind/readme" # once more, over the pool that it left
  [ -s "$pool-readme" ] || fail "the README's C++ left no pool"
done

# The same ten lines by pkg-config: with the shared library, then with nothing but the static one.
by_pkg_config() {
  local flags libraries=$libraries
  read -ra flags < <(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs perdure)
  "${CC:-cc}" -std=c11 -pedantic -Wall -Wextra -Werror "$work/guide.c" "${flags[@]}" -o "$work/guide-c"
  LD_LIBRARY_PATH=$libraries "$work/guide-c"
  [ -s "$pool-c" ] || fail "the C guide's program by pkg-config left no pool"
  "${CXX:-c++}" -std=c++20 "$work/readme.cpp" "${flags[@]}" -o "$work/readme-shared"
  rm -f "$pool-readme"
  LD_LIBRARY_PATH=$libraries "$work/readme-shared"
  [ -s "$pool-readme" ] || fail "the README's C++ by pkg-config left no pool"
  cp -r "$work/moved" "$work/static"
  libraries=$work/static/$(realpath --relative-to "$work/moved" "$libraries")
  rm "$libraries"/libperdure.so*
  read -ra flags < <(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --static --cflags --libs perdure)
  "${CXX:-c++}" -std=c++20 "$work/readme.cpp" "${flags[@]}" -Wl,--gc-sections -o "$work/readme-static"
  rm -f "$pool-readme"
  "$work/readme-static"
  [ -s "$pool-readme" ] || fail "the README's C++ by pkg-config --static left no pool"
}
if command -v pkg-config >/dev/null; then
  by_pkg_config
else  # scripts/setup.sh installs it, but where nothing can be installed
  [ "${PERDURE_OFFLINE:-0}" != 0 ] || fail "no pkg-config: run scripts/setup.sh"
  echo "package: no pkg-config on this machine, so nothing was built by it"
fi

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
