"""`perdure rocks`: every command, what it prints, its JSON and its exit status; files of each
format there and back; which programs `run` takes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rocks_world import rocks


@pytest.fixture
def made(cli: Any, pools: Path) -> Path:
    assert cli("rocks", "create", pools / "db", "--family", "users").status == 0
    return pools / "db"


def test_a_database_is_made_once(cli: Any, made: Path) -> None:
    again = cli("rocks", "create", made)
    assert again.status == 2 and "is there already; open it, or name another" in again.err
    told = cli("rocks", "stats", made, "--json", "-")
    assert told.status == 0 and told.json()["families"] == ["default", "users"]
    assert told.json()["rocksdb.estimate-num-keys"] == 0 and "perdure.memtables" in told.err


def test_what_is_put_is_got_and_scanned(cli: Any, made: Path) -> None:
    for key, value in (("ada", "1815"), ("hex:00ff", "hex:80"), ("int:5", "text:hex:1")):
        assert cli("rocks", "put", made, key, value, "--family", "users").status == 0
    users = ("--family", "users")
    assert cli("rocks", "get", made, "ada", *users).out == "1815\n"
    assert cli("rocks", "get", made, "hex:00ff", *users, "--json", "-").json()["value"] == "hex:80"
    listed = cli("rocks", "scan", made, *users)
    five = "hex:0500000000000000"
    assert listed.out == f"hex:00ff\thex:80\n{five}\ttext:hex:1\nada\t1815\n"
    assert "3 records" in listed.err
    assert cli("rocks", "scan", made, *users, "--prefix", "a").out == "ada\t1815\n"
    assert cli("rocks", "scan", made, *users, "--begin", "a", "--reverse").out == "ada\t1815\n"
    some = cli("rocks", "scan", made, *users, "--end", "a", "--limit", 1, "--json", "-").json()
    assert some["count"] == 1 and some["records"] == [{"key": "hex:00ff", "value": "hex:80"}]
    absent = cli("rocks", "get", made, "ada")
    assert absent.status == 1 and "key ada not found" in absent.err and not absent.out
    assert cli("rocks", "get", made, "ada", "--json", "-").json() == {"key": "ada", "found": False}


def test_durability_power_has_a_log_of_its_own_on_a_disk(
    cli: Any, log_dir: str, pools: Path
) -> None:
    os.mkdir(log_dir)
    power = ("--durability", "power", "--log-dir", f"{log_dir}/log")
    assert cli("rocks", "create", f"{log_dir}/db", *power).status == 0
    assert cli("rocks", "put", f"{log_dir}/db", "ada", "1815", *power).status == 0
    assert os.path.exists(f"{log_dir}/log/redo.log")
    assert cli("rocks", "get", f"{log_dir}/db", "ada").out == "1815\n"
    in_memory = cli("rocks", "create", pools / "db", "--durability", "power")
    assert in_memory.status == 2 and "lies in memory" in in_memory.err


def test_numbers_are_keys_where_keys_have_a_width(cli: Any, made: Path) -> None:
    widths = ("--key-bytes", 8, "--value-bytes", 4)
    assert cli("rocks", "put", made, "-5", "-1", *widths).status == 0
    assert cli("rocks", "get", made, "-5", *widths).out == f"{2**32 - 1}\n"
    wrong = cli("rocks", "put", made, "five", "1", *widths)
    assert wrong.status == 2 and "not a whole number" in wrong.err
    assert "write a number of bytes" in cli("rocks", "get", made, "a", "--key-bytes", "x").err


ROWS = 3000


@pytest.fixture
def table(pools: Path) -> Path:
    keys = np.random.default_rng(5).permutation(ROWS).astype(np.uint64)
    pq.write_table(pa.table({"id": keys, "half": keys / 2}), pools / "table.parquet")
    return pools / "table.parquet"


@pytest.mark.parametrize("name", ["o.csv", "o.parquet", "o.npz", "o.jsonl.gz"])
def test_rows_come_back_from_files(cli: Any, pools: Path, table: Path, name: str) -> None:
    widths = ("--key-bytes", 8, "--value-bytes", 8)
    loaded = cli("rocks", "load", pools / "db", table, *widths, "--json", "-")
    assert loaded.status == 0 and loaded.json()["stored"] == ROWS
    split = () if name.endswith("npz") else ("--value-columns", "half:float64")
    out = cli("rocks", "export", pools / "db", pools / name, *widths, *split)
    assert out.status == 0 and f"exported {ROWS:,} records" in out.out
    assert "exists already" in cli("rocks", "export", pools / "db", pools / name).err
    back = cli("rocks", "load", pools / "back", pools / name, *widths, "--family", "copy")
    assert back.status == 0, back.err
    with rocks.open(pools / "back") as copy, rocks.open(pools / "db") as source:
        assert list(copy.scan(family="copy")) == list(source.scan())
        out_of = np.zeros(1)
        assert source.get(np.array([7]), out=out_of).found.all() and out_of[0] == 3.5


def test_byte_strings_of_any_length_come_back_from_an_archive(cli: Any, pools: Path) -> None:
    pairs = {b"": b"nothing", b"a" * 70: b"", b"\xff\0": b"\0" * 5}
    with rocks.open(pools / "db") as db:
        db.put(list(pairs), list(pairs.values()))
    assert cli("rocks", "export", pools / "db", pools / "o.npz").status == 0
    assert cli("rocks", "load", pools / "back", pools / "o.npz").status == 0
    with rocks.open(pools / "back") as back:
        assert dict(back.scan()) == pairs


def test_archives_that_are_none(cli: Any, pools: Path) -> None:
    def load(**arrays: Any) -> str:
        np.savez(pools / "a.npz", **arrays)
        answer = cli("rocks", "load", pools / "db", pools / "a.npz")
        assert answer.status == 2
        return answer.err

    ones = np.ones(3, np.uint8)
    assert "no array values in it (there is keys)" in load(keys=ones)
    assert "3 keys and 2 values" in load(keys=ones, values=ones[:2])
    assert "no dimensions" in load(keys=np.uint8(1), values=ones)
    assert "pickle" in load(keys=np.array([{}]), values=ones[:1])
    for offsets in ([0, 4], [2, 1], [-1, 2], []):
        ends = np.array(offsets, np.int64)
        assert "array key_offsets is not" in load(keys=ones, key_offsets=ends, values=ones)
    (pools / "a.npz").write_text("no archive")
    assert "not a readable NPZ" in cli("rocks", "load", pools / "db", pools / "a.npz").err


def test_rejected_rows_are_told(cli: Any, pools: Path) -> None:
    (pools / "t.csv").write_text("key:uint64,value:int32\n1,5\ntwo,6\n3,7\n")
    loaded = cli("rocks", "load", pools / "db", pools / "t.csv", "--key-bytes", 8)
    assert loaded.status == 1 and "line 3" in loaded.err and "1 row rejected" in loaded.out
    integers = cli("rocks", "load", pools / "db", pools / "t.csv")
    assert integers.status == 2 and "perdure rocks load DB FILE --key-bytes 8" in integers.err


def test_verify_finds_a_flipped_bit(cli: Any, pools: Path, table: Path) -> None:
    assert cli("rocks", "load", pools / "db", table, "--key-bytes", 8).status == 0
    good = cli("rocks", "verify", pools / "db", "--json", "-")
    assert good.status == 0 and good.json()["records"] == {"default": ROWS}
    file = next((pools / "db").glob("*.sst"))
    octets = bytearray(file.read_bytes())
    octets[len(octets) // 4] ^= 1
    file.write_bytes(octets)
    bad = cli("rocks", "verify", pools / "db")
    assert bad.status == 1 and "fault: " in bad.err and "checksum" in bad.err


def test_verify_compares_walks_and_look_ups(
    cli: Any, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("rocks", "put", made, "a", "1")
    real = rocks.Snapshot.get
    monkeypatch.setattr(
        rocks.Snapshot, "get", lambda self, keys, **more: real(self, ["b"] * len(keys), **more)
    )
    bad = cli("rocks", "verify", made)
    assert bad.status == 1 and "default: key a: a look-up does not answer" in bad.err


def test_what_commands_refuse(cli: Any, pools: Path, made: Path) -> None:
    for said, arguments in (
        ("is not there; make it with `perdure rocks create`", ("get", pools / "no", "a")),
        ("no column family x; it has default, users", ("scan", made, "--family", "x")),
        ("option x: RocksDB has none", ("stats", made, "--options", "x=1")),
        ("NAME=VALUE", ("stats", made, "--options", "x")),
        ("RocksDB has none of the name x", ("verify", made, "--merge-operator", "x")),
        ("no such file", ("load", made, pools / "none.csv")),
        ("ends in none of", ("export", made, pools / "rows")),
        ("name a file for the JSON", ("export", made, "-", "--json", "-")),
    ):
        answer = cli("rocks", *arguments)
        assert answer.status == 2 and said in answer.err, (arguments, answer.err)
    assert not (pools / "no").exists()


def test_bench_runs_its_program(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure import _native

    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    missing = cli("rocks", "bench", "--help")
    assert missing.status == 2 and "PERDURE_BENCH=ON" in missing.err
    program = tmp_path / "bin" / "perdure-bench-rocks"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ntest "$*" = "--records 5" && exit 3\n')
    program.chmod(0o755)
    assert cli("rocks", "bench", "--records", 5).status == 3


# Every command with --json, with arguments that succeed.
COMMANDS = {
    "create": ["NEW"],
    "put": ["DB", "b", "some"],
    "get": ["DB", "a"],
    "scan": ["DB"],
    "load": ["DB", "CSV"],
    "export": ["DB", "NEW.csv"],
    "stats": ["DB"],
    "verify": ["DB"],
}


@pytest.fixture
def arguments(cli: Any, made: Path, pools: Path) -> Any:
    cli("rocks", "put", made, "a", "1")
    (pools / "rows.csv").write_text("key,value\nc,3\n")
    places = {"DB": made, "NEW": pools / "new", "NEW.csv": pools / "new.csv"}
    places["CSV"] = pools / "rows.csv"
    return lambda command: ["rocks", command, *(places.get(w, w) for w in COMMANDS[command])]


def test_all_commands_that_write_json_are_tried_here() -> None:
    import typer
    from perdure.cli import app

    group: Any = typer.main.get_command(app)
    below = group.resolve_command(typer.Context(group), ["rocks"])[1].commands
    with_json = {name for name, one in below.items() if any("--json" in p.opts for p in one.params)}
    assert with_json == COMMANDS.keys() and set(below) - with_json == {"bench", "run"}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_replaced_when_asked_alone(
    cli: Any, arguments: Any, made: Path, pools: Path, command: str
) -> None:
    there, begun = pools / "result.json", arguments(command)
    there.write_text('{"older": 1}')
    refused = cli(*begun, "--json", there)
    assert refused.status == 2 and "exists already" in refused.err
    for name in ("IDENTITY", "json"):
        inside = begun[2] / name
        for asked in (["--overwrite"], ["--overwrite", "--force"]):
            within = cli(*begun, "--json", inside, *(asked if command == "export" else asked[:1]))
            assert within.status == 2 and "works on; name another" in within.err
    assert not (pools / "new").exists() and not (pools / "new.csv").exists()
    assert cli(*begun, "--json", there, "--overwrite").status == 0
    assert "older" not in json.loads(there.read_text())


# --- run ----------------------------------------------------------------------------------------


def test_run_refuses_what_would_go_on_with_plain_rocksdb(cli: Any, pools: Path) -> None:
    script, text = pools / "script", pools / "text"
    script.write_text("#!/bin/sh\n")
    text.write_text("hello")
    for path in (script, text):
        path.chmod(0o755)
    for program, said in (
        (script, "is a script; name the program"),
        (text, "is no program of this system"),
        ("/bin/ls", "does not load librocksdb.so when it starts"),
        ("no-such-program", "no such program"),
    ):
        answer = cli("rocks", "run", "--", program, "-l")
        assert answer.status == 2 and said in answer.err, answer.err


def test_run_hands_its_options_to_the_library(
    cli: Any, pools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perdure import _cli_rocks_run

    library = pools / "lib.so"
    user = Path(sys.modules["perdure._rocks"].__file__ or "")  # it loads librocksdb.so
    begun: list[Any] = []
    monkeypatch.setattr(_cli_rocks_run, "_program", lambda name: str(user))
    monkeypatch.setattr(_cli_rocks_run.os, "execve", lambda *what: begun.append(what))
    missing = cli("rocks", "run", "--", "user", "-x")
    if not (user.parent / "libperdure_rocks_preload.so").exists():
        assert missing.status == 2 and "was built without it" in missing.err
    monkeypatch.setattr(_cli_rocks_run, "preloaded_library", lambda: library)
    monkeypatch.setenv("LD_PRELOAD", "libother.so")
    options = ("--device", "cpu", "--threshold", 5, "--memtable-bytes", "1MiB", "--log-dir", "/l")
    options += ("--memtable-value-bytes", 100)
    options += ("--block-cache-bytes", "2MiB", "--block-cache-entry-bytes", 192)
    options += ("--flushed-memtable-bytes", "3MiB")
    options += ("--idle-millis", 0, "--hand-overs-a-second", 7)
    options += ("--durability", "power")
    assert cli("rocks", "run", *options, "--", "user", "-x", "--device").status == 0
    program, command, environment = begun[-1]
    assert program == str(user) and command == ["user", "-x", "--device"]
    assert environment["LD_PRELOAD"] == f"{library}:libother.so"
    assert {
        name.removeprefix("PERDURE_ROCKS_"): value
        for name, value in environment.items()
        if name.startswith("PERDURE_ROCKS_")
    } == {
        "DEVICE": "cpu",
        "THRESHOLD": "5",
        "MEMTABLE_BYTES": str(1 << 20),
        "MEMTABLE_VALUE_BYTES": "100",
        "BLOCK_CACHE_BYTES": str(2 << 20),
        "BLOCK_CACHE_ENTRY_BYTES": "192",
        "FLUSHED_MEMTABLE_BYTES": str(3 << 20),
        "IDLE_MILLIS": "0",
        "HAND_OVERS_A_SECOND": "7",
        "LOG_DIR": "/l",
        "DURABILITY": "power",
    }
