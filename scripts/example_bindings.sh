#!/usr/bin/env bash
# Builds examples/rust and examples/go against the C interface of an installed package, and runs
# them. Needs cargo and go (found in PATH, ~/.cargo/bin and /usr/local/go/bin), pkg-config, and
# libclang, by which bindgen reads the header. Cargo fetches the crates that Cargo.lock
# names. examples/java runs where there is a Java 22 or later.
#   scripts/example_bindings.sh [BUILD]   a tree with libperdure.so; default: build/bindings, which
#                                         is made: the library alone, without GPU code
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "bindings: $*" >&2
  exit 1
}
PATH=$PATH:$HOME/.cargo/bin:/usr/local/go/bin
command -v cargo >/dev/null || fail "no cargo: install Rust 1.77 or later (https://rustup.rs)"
command -v go >/dev/null || fail "no go: install Go 1.21 or later (https://go.dev/dl)"
command -v pkg-config >/dev/null || fail "no pkg-config: run scripts/setup.sh"
find "${LIBCLANG_PATH:-/usr/lib}" -name 'libclang*.so*' -print -quit 2>/dev/null | grep -q . ||
  fail "no libclang, which bindgen needs: apt-get install libclang-dev, or name its folder in LIBCLANG_PATH"

build=${1:-build/bindings}
if [ $# -eq 0 ]; then
  cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DPERDURE_CUDA=OFF -DPERDURE_ROCKS=OFF -DPERDURE_TESTS=OFF \
    -DPERDURE_BENCH=OFF -DPERDURE_EXAMPLES=OFF -DPERDURE_TOGETHER=ON -DPERDURE_SHARED=ON >/dev/null
  cmake --build "$build" --target perdure perdure_shared
fi
build=$(realpath "$build")
work=$(mktemp -d -p "$build" bindings.XXXXXX)
pool=$(mktemp -u -p /dev/shm perdure-bindings.XXXXXX)
trap 'rm -rf "$work" "$pool"' EXIT
cmake --install "$build" --component cpp --prefix "$work/prefix" >"$work/install.log" || {
  cat "$work/install.log" >&2
  fail "cmake --install"
}
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name perdure.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH LD_LIBRARY_PATH

# What cargo compiled stays in the build folder, for a second run.
(cd examples/rust && cargo fmt --check && CARGO_TARGET_DIR="$build/rust" cargo build --locked --quiet)
"$build/rust/debug/perdure-example" "$pool"
rm -f "$pool"
(cd examples/go && gofmt -l . | diff /dev/null - && go vet ./... && go build -o "$work/go-example" .)
GODEBUG=cgocheck=1 "$work/go-example" "$pool"
rm -f "$pool"
java=$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' || true)
if [ "${java:-0}" -ge 22 ]; then
  java --enable-native-access=ALL-UNNAMED examples/java/Example.java "$LD_LIBRARY_PATH/libperdure.so" "$pool"
else
  echo "bindings: examples/java needs Java 22 or later, and was not run: found ${java:+Java }${java:-none}"
fi
