#!/usr/bin/env bash
# Builds wheels (scripts/wheels.sh) and tries each in a clean venv, away from the sources, under
# every Python here that it says it is for: one for the stable ABI under later Pythons too. Nothing
# of the system's but glibc, libstdc++ and libgcc may be in use.
#   scripts/check_wheel.sh [cpu] [cu13]     cpu unless named
set -euo pipefail
cd "$(dirname "$0")/.."

variants=("$@")
[ $# -gt 0 ] || variants=(cpu)
scripts/wheels.sh "${variants[@]}"

work=$(mktemp -d -p build wheel.XXXXXX)
work=$(realpath "$work")
pool=$(mktemp -u -p /dev/shm perdure-wheel.XXXXXX)
trap 'rm -rf "$work" "$pool"*' EXIT
fail() {
  echo "wheel: $*" >&2
  exit 1
}

# Pythons of 3.11 and later in PATH and in pyenv's folder, one of each version.
pythons() {
  local python
  for python in $(compgen -c python3. | grep -xE 'python3\.[0-9]+' | sort -u) "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python; do
    python=$(command -v "$python") || continue
    "$python" -c 'import sys; sys.version_info >= (3, 11) and print("%d.%d" % sys.version_info[:2], sys.executable)' 2>/dev/null || true
  done | sort -u -k1,1
}

# Uses the package of wheel $2 in venv $1; the rest is what the wheel ought to be.
use() {
  (cd / && "$1/bin/python" - "$pool" "$work/log" "$1" "$2" "$3" <<'PYTHON'
import socket
import sys
from importlib.metadata import files, version
from pathlib import Path

import numpy as np
import perdure
import perdure.serve

pool, log, venv, name, with_cuda = sys.argv[1:]
assert perdure.__file__.startswith(venv), f"imported from {perdure.__file__}"
assert version(name) == perdure.__version__
assert perdure.built_with_cuda == (with_cuda == "yes"), perdure.built_with_cuda
tops = {str(file).split("/")[0] for file in files(name)}
assert tops <= {"perdure", f"{name.replace('-', '_')}.libs", "..", f"{name.replace('-', '_')}-{version(name)}.dist-info"}, tops
papers = [str(file) for file in files(name) if "figures" in str(file)]
assert not papers, f"what reproduces the papers' figures is no part of a wheel: {papers}"
texts = {Path(file).name for file in files(name) if "licenses" in str(file)}
others = ("asio", "highway", "hiredis", "isa-l", "liburing", "nanobind", "openssl", "robin-map")
assert {"LICENSE", "NOTICE", *(f"{name}.txt" for name in others)} <= texts, texts
keys = np.arange(1000, dtype=np.uint64)
with perdure.create(pool, 8, 8, durability="power", log_dir=log, log_bytes=1 << 20) as store:
    store.put(keys, keys * 3)
with perdure.open(pool, log_dir=log) as store:
    values = store.get(keys, dtype=np.uint64)[0]
assert (np.asarray(values).ravel() == keys * 3).all()
with perdure.serve.Server(f"{pool}-served", port=0) as server:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as client:
        client.sendall(b"SET key value\r\nGET key\r\n")
        said = b""
        while len(said) < 16 and (more := client.recv(64)):
            said += more
    assert said == b"+OK\r\n$5\r\nvalue\r\n", said
mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
strays = [so for so in mapped if any(part in so for part in ("libhwy", "libisal", "liburing", "libssl", "libcrypto")) and not so.startswith(venv)]
assert not strays, f"the system's libraries are in use: {strays}"
print(f"{name} {perdure.__version__} under Python {sys.version.split()[0]}: {len(keys)} records there and back")
PYTHON
  )
  rm -rf "$work/log" "$pool"*
  "$1/bin/perdure" --version
  ! (cd / && "$1/bin/perdure" bench figure --list) 2>"$work/figure" || fail "$2 lists figures"
  grep -q 'clone' "$work/figure" || fail "$2: perdure bench figure says: $(cat "$work/figure")"
}

tried=0
for variant in "${variants[@]}"; do
  name=perdure with_cuda=no
  [ "$variant" = cpu ] || { name=perdure-$variant with_cuda=yes; }
  abi3=$(ls dist/"${name//-/_}"-*-cp312-abi3-manylinux*.whl) || fail "no wheel of $name for the stable ABI"
  while read -r version python; do
    wheel=$abi3
    [ "$version" != 3.11 ] || wheel=$(ls dist/"${name//-/_}"-*-cp311-cp311-manylinux*.whl)
    "$python" -m venv --clear "$work/venv"
    "$work/venv/bin/python" -m pip install -q --disable-pip-version-check --no-input "$wheel"
    use "$work/venv" "$name" "$with_cuda"
    tried=$((tried + 1))
  done < <(pythons)
done
[ "$tried" -gt 0 ] || fail "no Python of 3.11 or later here"
