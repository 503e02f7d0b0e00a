"""Durability power and snapshots, from Python and from the command line, bad input included.

A power loss is played by what it does: the pool file goes, the log directory stays as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import perdure
import pytest
from pool_bytes import set_version

LOG_BYTES = 4 << 20
POWER = {"durability": "power", "log_bytes": LOG_BYTES}


def rows(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 16), dtype=np.uint8)


@pytest.fixture
def other(pool):
    """The path of a second pool."""
    path = f"{pool}.other"
    yield path
    Path(path).unlink(missing_ok=True)


@pytest.fixture(params=["word", "log"])
def powered(pool, log_dir, request):
    """A closed pool of durability power: 100 records."""
    index = perdure.GPHash(layout=request.param)
    with perdure.create(pool, 8, 16, index=index, log_dir=log_dir, **POWER) as store:
        store.put(np.arange(100), rows(100))
    return pool


@pytest.fixture
def snapshot(pool, tmp_path):
    """A snapshot of 100 records, of a pool of durability process that is gone."""
    file = str(tmp_path / "snapshot")
    with perdure.create(pool, 8, 16) as store:
        store.put(np.arange(100), rows(100))
        store.snapshot(file)
    os.unlink(pool)
    return file


def flip(path: str, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        octet = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([octet ^ 4]))


# --- durability power ---------------------------------------------------------------------------


def test_outlives_a_power_loss(pool, log_dir):
    """A child is killed with the log open; the pool file goes too. What was acknowledged is
    there."""
    program = f"""
        import numpy as np, os, perdure, signal
        how = dict(durability="power", log_dir={log_dir!r}, log_bytes={LOG_BYTES})
        store = perdure.create({pool!r}, 8, 8, **how)
        store.put(np.arange(300), np.arange(300))
        store.erase(np.arange(100))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    os.unlink(pool)
    with perdure.open(pool, log_dir=log_dir) as store:
        found = store.recovery()
        assert not found.clean and not found.lost_acknowledged
        assert (found.replayed, found.records) == (2, 200)
        assert "image A of LSN 0" in found.log_report and found.replay_seconds > 0
        assert store.get(np.arange(300)).found.tolist() == [False] * 100 + [True] * 200
        assert store.survives().power_loss and store.survives().basis.name == "asserted"
        assert store.verify().fault_count == 0


def test_stats_of_the_log(pool, log_dir):
    with perdure.create(pool, 8, 16, log_dir=Path(log_dir), **POWER) as store:
        before = store.stats()
        assert before.checkpoints == 1 and before.log_used_bytes == 0
        assert "O_DIRECT" in before.log_method or "page cache" in before.log_method
        store.put(np.arange(100), rows(100))
        assert store.stats().log_used_bytes >= 100 * 24
    with perdure.open(pool, log_dir=log_dir) as store:
        assert store.recovery().clean and store.recovery().replayed == 0
    with perdure.create(pool, 8, 16, overwrite=True) as store:
        assert (store.stats().log_method, store.stats().checkpoints) == ("", 0)
        assert store.recovery().log_report == ""


def test_lost_batches_are_told(pool, log_dir, tmp_path, cli):
    kept = str(tmp_path / "kept")
    with perdure.create(pool, 8, 16, log_dir=log_dir, **POWER) as store:
        store.put(np.arange(100), rows(100))
        shutil.copytree(log_dir, kept)
    shutil.rmtree(log_dir)
    with perdure.open(pool, log_dir=kept):  # knows now how far the log had come
        shutil.copytree(kept, log_dir)
    flip(f"{log_dir}/redo.log", 8192 + 200)
    verify = ("verify", pool, "--log-dir", log_dir, "--json", "-")
    for _ in range(2):
        refused = cli(*verify)
        assert refused.status == 1 and refused.json()["recovery"] is None
        assert (
            "acknowledged batches, number 1 and those after it, are lost"
            in refused.json()["faults"][0]
        )
        assert "bit 2 of byte 200" in refused.json()["faults"][0]
        with pytest.raises(perdure.Corrupt, match="repair=True"):
            perdure.open(pool, log_dir=log_dir)
    repaired = cli(*verify, "--repair")
    assert repaired.status == 1 and repaired.json()["recovery"]["lost_acknowledged"]
    assert "lost: acknowledged batches, number 1" in repaired.err
    assert cli(*verify).status == 1
    assert cli(*verify, "--acknowledge").status == 0
    assert cli(*verify).status == 0


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"durability": "power"}, perdure.Unsupported, "needs a log_dir"),
        ({"log_dir": "/var/tmp/x"}, perdure.InvalidArgument, "needs durability power"),
        ({"log_bytes": 1 << 20}, ValueError, "log_bytes needs log_dir"),
        (
            {**POWER, "log_dir": "/nowhere/log"},
            perdure.SystemFailure,
            "/nowhere/log: cannot make it",
        ),
        ({**POWER, "log_dir": "/dev/shm"}, perdure.Unsupported, "lies in memory"),
        ({**POWER, "log_dir": "LOG", "log_bytes": 4096}, perdure.InvalidArgument, "log_bytes 4096"),
        ({**POWER, "log_dir": "LOG", "log_bytes": 0}, ValueError, "log_bytes: 0 is out of range"),
        (
            {**POWER, "log_dir": "LOG", "log_bytes": "1"},
            TypeError,
            "log_bytes: expected a whole number",
        ),
    ],
)
def test_logs_that_cannot_be(pool, log_dir, options, kind, message):
    if options.get("log_dir") == "LOG":
        options = options | {"log_dir": log_dir}
    with pytest.raises(kind, match=message):
        perdure.create(pool, 8, 16, **options)
    assert not os.path.exists(pool)


def test_opening_with_the_wrong_log(powered, log_dir, other, tmp_path):
    with pytest.raises(perdure.InvalidArgument, match="name its log_dir"):
        perdure.open(powered)
    with pytest.raises(perdure.NotFound, match=f"log directory {tmp_path}/none"):
        perdure.open(powered, log_dir=tmp_path / "none")
    with pytest.raises(perdure.InvalidArgument, match="for writing only"):
        perdure.open(powered, log_dir=log_dir, read_only=True)
    with perdure.create(other, 8, 16) as store:
        store.put(np.arange(7), rows(7))
    with pytest.raises(
        perdure.InvalidArgument, match=f"is not the one whose log lies in {log_dir}"
    ):
        perdure.open(other, log_dir=log_dir)
    with perdure.open(other) as store:
        assert len(store) == 7, "the wrong log cost it nothing"


# --- snapshots ----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["process", "power"])
@pytest.mark.parametrize("after", [None, "none", "process", "power"])
def test_snapshots_change_durability(pool, other, log_dir, tmp_path, before, after):
    first, second = f"{log_dir}/first", f"{log_dir}/second"
    os.mkdir(log_dir)
    powers = (before == "power", (after or before) == "power")
    options = {"log_dir": first, **POWER} if powers[0] else {}
    with perdure.create(pool, 8, 16, **options) as store:
        store.put(np.arange(100), rows(100))
        store.snapshot(tmp_path / "s")
        store.erase(np.arange(50))
    log = {"log_dir": second, "log_bytes": LOG_BYTES} if powers[1] else {}
    with perdure.restore(tmp_path / "s", other, durability=after, **log) as store:
        assert store.recovery().clean and store.recovery().records == 100
        assert (store.get(np.arange(100)).values == rows(100)).all()
        assert store.survives().power_loss == powers[1]
        store.put(np.arange(100, 200), rows(100, seed=2))
    if powers[1]:
        os.unlink(other)
    with perdure.open(other, log_dir=second if powers[1] else None) as store:
        assert len(store) == 200 and store.verify().fault_count == 0


def test_snapshot_of_varying_lengths(pool, other, tmp_path):
    keys = [b"k" * n for n in range(1, 200)]
    values = [bytes([n % 256]) * (n * 37 % 5000) for n in range(1, 200)]
    with perdure.create(pool, None, None, index=perdure.GPHash(layout="in_place")) as store:
        store.put(keys, values)
        store.snapshot(tmp_path / "s")
    with perdure.restore(tmp_path / "s", other) as store:
        assert store.get(keys).values.to_pylist() == values


def test_a_snapshot_that_is_there(pool, tmp_path):
    with perdure.create(pool, 8, 16) as store:
        store.snapshot(tmp_path / "s")
        with pytest.raises(perdure.AlreadyExists, match="pass overwrite"):
            store.snapshot(tmp_path / "s")
        store.put(np.arange(5), rows(5))
        store.snapshot(tmp_path / "s", overwrite=True)
        for how in ({}, {"overwrite": True}, {"force": True}):
            with pytest.raises(
                perdure.InvalidArgument, match="is the pool itself; name another file"
            ):
                store.snapshot(pool, **how)
    with pytest.raises(perdure.AlreadyExists, match=pool):
        perdure.restore(tmp_path / "s", pool)
    with perdure.restore(tmp_path / "s", pool, overwrite=True) as store:
        assert len(store) == 5
    with pytest.raises(perdure.Closed):
        store.snapshot(tmp_path / "late")


def test_snapshot_of_another_version(snapshot, other, cli):
    set_version(snapshot, 2)
    with pytest.raises(perdure.Corrupt, match="image format version 2; this build reads version 1"):
        perdure.restore(snapshot, other)
    refused = cli("restore", snapshot, other)
    assert refused.status == 1 and "open it with the build that made it" in refused.err
    assert not os.path.exists(other)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (3, "not an image of a Perdure pool"),
        (8, "its header is damaged"),
        (56, "its header is damaged"),
        (4096, r"chunk 0 \(bytes 4096 to 1052672\) is damaged"),
        (4096 + (1 << 20) + 5, r"chunk 1 \(bytes 1052672 to 2101248\) is damaged"),
        (-4096, "the list of its checksums is damaged"),
    ],
)
def test_flipped_bit_in_a_snapshot(snapshot, other, offset, message):
    flip(snapshot, offset % os.path.getsize(snapshot))
    with pytest.raises(perdure.Corrupt, match=message):
        perdure.restore(snapshot, other)
    assert not os.path.exists(other)


@pytest.mark.parametrize("left", [0, 100, 4096, 1 << 20, -1, -4096])
def test_truncated_snapshot(snapshot, other, left):
    os.truncate(snapshot, left if left >= 0 else os.path.getsize(snapshot) + left)
    with pytest.raises(
        perdure.Corrupt, match="truncated" if abs(left) > 100 or left < 0 else "not an image"
    ):
        perdure.restore(snapshot, other)
    assert not os.path.exists(other)


def test_restore_that_cannot_be(snapshot, other, log_dir, tmp_path):
    with pytest.raises(perdure.NotFound, match="no such file"):
        perdure.restore(tmp_path / "none", other)
    with pytest.raises(perdure.Unsupported, match="needs a log_dir"):
        perdure.restore(snapshot, other, durability="power")
    with pytest.raises(perdure.InvalidArgument, match="needs durability power"):
        perdure.restore(snapshot, other, log_dir=log_dir)
    with pytest.raises(perdure.InvalidArgument, match="key_bytes 8, not 16"):
        perdure.restore(snapshot, other, expect_key_bytes=16)
    with pytest.raises(ValueError, match="durability: 'disk' is not one of"):
        perdure.restore(snapshot, other, durability="disk")
    assert not os.path.exists(other) and not os.path.exists(log_dir)


# --- the command line ---------------------------------------------------------------------------


def test_every_command_takes_a_log_dir(cli, pool, log_dir, tmp_path):
    log = ["--log-dir", log_dir]
    made = cli(
        *[
            "create",
            pool,
            "--value-bytes",
            16,
            "--durability",
            "power",
            *log,
            "--log-bytes",
            "4MiB",
        ],
        *["--json", "-"],
    )
    assert (
        made.status == 0
        and made.json()["survives"]["power_loss"]
        and made.json()["log_dir"] == log_dir
    )
    assert f"log in {log_dir} (" in made.err and "power loss (asserted)" in made.err
    assert cli("put", pool, 7, "0123456789abcdef", *log).status == 0
    assert cli("put", pool, 8, "0123456789abcdef", *log).status == 0
    assert cli("get", pool, 7, *log).out == "0123456789abcdef\n"
    assert cli("del", pool, 8, *log).status == 0
    assert len(cli("scan", pool, *log).out.splitlines()) == 1
    assert cli("verify", pool, *log).status == 0
    stats = cli("stats", pool, *log, "--json", "-").json()
    assert stats["records"] == 1 and stats["survives"]["power_loss"] and stats["log_method"]
    assert stats["recovery"]["clean"] and stats["recovery"]["replayed"] == 0
    assert cli("export", pool, tmp_path / "t.csv", *log).status == 0
    assert cli("load", pool, tmp_path / "t.csv", *log).status == 0
    assert cli("snapshot", pool, tmp_path / "s", *log).status == 0


def test_replay_with_a_log(cli, pool, log_dir, tmp_path):
    trace = tmp_path / "trace"
    trace.write_text("".join(f"{n % 50}\n" for n in range(500)))
    arguments = [
        "replay",
        trace,
        "--pool",
        pool,
        "--log-dir",
        log_dir,
        "--log-bytes",
        "4MiB",
        "--json",
        "-",
    ]
    first = cli(*arguments)
    assert first.status == 0 and first.json()["survives"]["power_loss"]
    os.unlink(pool)
    again = cli(*arguments)
    assert again.status == 0 and again.json()["hits"] == 500, "what the first run put is there"


def test_snapshot_and_restore_commands(cli, pool, other, log_dir, tmp_path):
    file = tmp_path / "s"
    with perdure.create(pool, 8, 16) as store:
        store.put(np.arange(100), rows(100))
    taken = cli("snapshot", pool, file, "--json", tmp_path / "s.json")
    facts = json.loads((tmp_path / "s.json").read_text())
    assert taken.status == 0 and "wrote 100 records" in taken.out
    assert (facts["records"], facts["bytes"], facts["snapshot"]) == (
        100,
        file.stat().st_size,
        str(file),
    )
    refused = cli("snapshot", pool, file)
    assert refused.status == 2 and "pass overwrite" in refused.err
    assert cli("snapshot", pool, file, "--overwrite").status == 0

    power = ["--durability", "power", "--log-dir", log_dir, "--log-bytes", "4MiB"]
    restored = cli("restore", file, other, *power, "--json", "-")
    facts = restored.json()
    assert restored.status == 0 and "restored 100 records" in restored.err
    assert (
        facts["records"] == 100 and facts["survives"]["power_loss"] and facts["recovery"]["clean"]
    )
    assert (facts["snapshot"], facts["pool"], facts["log_dir"]) == (str(file), other, log_dir)
    there = cli("restore", file, other)
    assert there.status == 2 and other in there.err and "exists already" in there.err
    assert cli("restore", file, other, "--overwrite").status == 0
    assert not cli("stats", other, "--json", "-").json()["survives"]["power_loss"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "NEW", "--durability", "power"], "--durability power needs --log-dir DIR"),
        (
            ["create", "NEW", "--log-dir", "LOG.2"],
            "--log-dir LOG.2 needs --durability power",
        ),
        (["create", "NEW", "--log-bytes", "4MiB"], "--log-bytes needs --log-dir"),
        (["create", "NEW", "--durability", "power", "--log-dir", "/dev/shm"], "lies in memory"),
        (
            ["create", "NEW", "--durability", "power", "--log-dir", "LOG.2", "--log-bytes", "few"],
            "--log-bytes few: not a size",
        ),
        (["get", "POOL", "1"], "name its log_dir"),
        (["stats", "POOL"], "name its log_dir"),
        (["get", "POOL", "1", "--log-dir", "/nowhere"], "log directory /nowhere"),
        (["snapshot", "POOL", "NEW"], "name its log_dir"),
        (["snapshot", "POOL", "/nowhere/s", "--log-dir", "LOG"], "/nowhere/s"),
        (["restore", "/nowhere/s", "NEW"], "/nowhere/s"),
        (["restore", "LOG/image-a", "NEW"], "is a checkpoint of a log directory"),
        (["restore", "LOG/image-a", "NEW", "--durability", "power"], "needs --log-dir DIR"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_wrong_usage(cli, powered, log_dir, other, arguments, message):
    def named(text: str) -> str:
        return text.replace("POOL", powered).replace("LOG", log_dir).replace("NEW", other)

    answer = cli(*map(named, arguments))
    assert answer.status == 2, answer.err
    assert named(message) in answer.err and "Traceback" not in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not os.path.exists(other)
