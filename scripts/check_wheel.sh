#!/usr/bin/env bash
# Builds the wheel without any CUDA, installs it away from the sources and uses it there.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$PWD/.venv/bin/python
wheels=$PWD/build/wheel/dist
site=$PWD/build/wheel/site
pool=$(mktemp -u -p /dev/shm perdure-wheel.XXXXXX)
log=$PWD/build/wheel/log
trap 'rm -rf "$pool" "$log"' EXIT

rm -rf "$wheels" "$site"
# No nvcc is in reach of this build, wherever it would look.
env -u CUDACXX PATH=/usr/local/bin:/usr/bin:/bin "$python" -m pip wheel -q --disable-pip-version-check . \
  --no-build-isolation --no-deps -w "$wheels" --config-settings build-dir=build/wheel --config-settings cmake.define.PERDURE_CUDA=OFF
"$python" -m pip install -q --disable-pip-version-check --no-deps --target "$site" "$wheels"/perdure-*.whl

# -S keeps out the editable install of .venv, but its dependencies are wanted.
libraries=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cd /
PYTHONPATH=$site:$libraries "$python" -S - "$pool" "$log" "$site" <<'PYTHON'
import sys

import numpy as np
import perdure

pool, log, site = sys.argv[1:]
assert perdure.__file__.startswith(site), f"imported from {perdure.__file__}"
assert not perdure.built_with_cuda, "PERDURE_CUDA=OFF built CUDA"
keys = np.arange(1000, dtype=np.uint64)
with perdure.create(pool, 8, 8, durability="power", log_dir=log, log_bytes=1 << 20) as store:
    store.put(keys, keys * 3)
with perdure.open(pool, log_dir=log) as store:
    values = store.get(keys, dtype=np.uint64)[0]
assert (np.asarray(values).ravel() == keys * 3).all()
print(f"perdure {perdure.__version__}: {len(keys)} records there and back")
PYTHON
PYTHONPATH=$site:$libraries "$python" -S "$site/bin/perdure" --version
