"""The command line: every command, its JSON, its exit status, and what bad input gets."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import perdure
import pytest
from perdure import _text
from pool_bytes import log_segment, taken_slot

RECORD = {"a": "hex:" + "ab" * 16, "b": "0123456789abcdef"}


COMMANDS = [
    *["create", "load", "get", "put", "del", "scan", "export", "verify", "stats"],
    *["snapshot", "restore", "replay", "bench", "doctor", "demo", "dirtbuster"],
]


@pytest.fixture
def filled(pool):
    """A pool of 100 records, key i holding sixteen bytes i."""
    with perdure.create(pool, 8, 16) as store:
        store.put(np.arange(100), np.repeat(np.arange(100, dtype=np.uint8), 16).reshape(100, 16))
    return pool


def flip(path: str, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        octet = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([octet ^ 1]))


def break_record(path: str, value: bytes) -> None:
    with open(path, "rb") as file:
        flip(path, file.read().index(value))


# --- what commands do ---------------------------------------------------------------------------


def test_version_and_help(cli):
    assert perdure.__version__ in cli("--version").out
    listed = cli("--help")
    assert listed.status == 0
    for command in COMMANDS:
        assert f"\n  {command} " in listed.out
    assert cli("-h").out == listed.out and cli("get", "-h").out == cli("get", "--help").out


def test_the_list_says_of_each_command_what_it_says_of_itself():
    import typer
    from perdure.cli import app

    group = typer.main.get_command(app)
    context = typer.Context(group)
    for name in group.list_commands(context):
        listed = group.get_command(context, name)
        assert listed.help == group.resolve_command(context, [name])[1].help


def test_man_pages_and_completions_are_those_of_the_commands():
    """They are written by scripts/share.py, and installed as they are."""
    script = Path(__file__).parents[2] / "scripts" / "share.py"
    checked = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_completion_knows_commands_options_and_choices():
    def complete(line: str) -> list[str]:
        words = line.split(" ")
        environment = os.environ | {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        environment["_PERDURE_COMPLETE"] = "complete_bash"
        code = "import sys; sys.argv = ['perdure']; from perdure.cli import main; main()"
        run = [sys.executable, "-c", code]
        return subprocess.run(
            run, env=environment, capture_output=True, text=True, check=False
        ).stdout.split()

    assert complete("perdure st") == ["stats"]
    assert set(complete("perdure ")) >= set(COMMANDS)
    assert complete("perdure get /dev/shm/x --dev") == ["--device"]
    assert complete("perdure create /dev/shm/x --layout ") == ["word", "in_place", "log"]
    assert "--rejects" in complete("perdure load --r")


QUICK = [
    ("-h",),
    ("get", "-h"),
    ("get", "POOL", "1"),
    ("put", "POOL", "1", "0123456789abcdef"),
    ("stats", "POOL"),
]


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_commands_are_quick(filled, arguments):
    """Processor time, for this machine has other work; and of several runs the best."""
    run = [sys.executable, "-m", "perdure.cli", *(one.replace("POOL", filled) for one in arguments)]
    spent = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(run, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(spent) < 0.25, "about 0.1 s; with NumPy and Arrow 0.4 s and more"


def test_listing_and_single_keys_import_nothing_large(filled):
    heavy = {"numpy", "pyarrow", "rich", "pydantic", "matplotlib"}
    for arguments in QUICK:
        run = [sys.executable, "-X", "importtime", "-m", "perdure.cli"]
        run += [one.replace("POOL", filled) for one in arguments]
        told = subprocess.run(run, capture_output=True, check=True, text=True).stderr
        imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.splitlines()}
        assert "typer" in imported and not heavy & imported, arguments


@pytest.mark.parametrize("built", [False, True])
def test_explore_is_offered_where_it_can_run(cli, monkeypatch, tmp_path, built):
    from perdure import _native

    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    if built:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "perdure-explore").touch()
    assert ("\n  explore " in cli("--help").out) == built


def test_bench_lists_its_figures_either_way(cli):
    listed = cli("bench", "--list")
    assert listed.status == 0 and listed.out == cli("bench", "figure", "--list").out
    assert (
        cli("bench", "--list", "--json", "-").json()
        == cli("bench", "figure", "--list", "--json", "-").json()
    )


def test_life_of_a_record(cli, pool):
    created = cli("create", pool, "--value-bytes", 16, "--json", "-")
    assert created.status == 0
    assert created.json()["key_bytes"] == 8 and created.json()["survives"]["process_kill"]
    assert "created" in created.err, "with --json - the summary goes to standard error"
    assert cli("put", pool, 7, RECORD["a"]).status == 0
    assert cli("put", pool, -1, RECORD["b"]).status == 0
    assert cli("get", pool, 7).out == RECORD["a"] + "\n"
    assert cli("get", pool, 2**64 - 1).out == RECORD["b"] + "\n"
    assert cli("get", pool, 7, "--format", "hex").out == "ab" * 16 + "\n"
    assert cli("get", pool, 7, "--json", "-").json() == {
        "key": "7",
        "found": True,
        "value": RECORD["a"],
        "value_hex": "ab" * 16,
    }
    assert sorted(cli("scan", pool).out.splitlines()) == [
        f"{2**64 - 1}\t{RECORD['b']}",
        f"7\t{RECORD['a']}",
    ]
    assert cli("del", pool, 7).status == 0
    gone = cli("get", pool, 7)
    assert gone.status == 1 and "key 7 not found" in gone.err and gone.out == ""
    again = cli("del", pool, 7, "--json", "-")
    assert again.status == 1 and again.json() == {"key": "7", "found": False}


def test_numbers_of_any_sign_and_base(cli, pool):
    cli("create", pool, "--value-bytes", 2)
    for key, value in ((-5, -7), ("0xff", "0x10"), ("-0x10", "+3"), ("-1", "65535")):
        assert cli("put", pool, key, value, "--device", "cpu").status == 0
    assert cli("get", pool, -5).out == cli("get", "--", pool, -5).out == f"{2**16 - 7}\n"
    assert cli("get", pool, 255).out == cli("get", pool, "int:0xFF").out == "16\n"
    assert cli("get", pool, 2**64 - 16).out == "3\n"
    assert cli("del", pool, -5).status == 0 and cli("get", pool, -5).status == 1
    assert cli("get", pool, "-x").status == 2
    assert "(-6)" in cli("get", pool, "-5", "-6").err
    assert "'-5' is not one of" in cli("get", pool, "-5", "--format", "-5").err
    assert cli("put", pool, "-0x8000000000000001", 1).status == 2, "less than 8 bytes hold"


def test_a_number_is_text_where_keys_are(cli, pool):
    cli("create", pool, "--key-bytes", "var")
    for key in ("-5", "0x2a", "007"):
        assert cli("put", pool, key, key).status == 0
        assert cli("get", pool, key).out == cli("get", pool, f"text:{key}").out == f"{key}\n"


def test_text_pool(cli, pool):
    cli("create", pool, "--key-bytes", "var")
    cli("put", pool, "name", "Perdure")
    cli("put", pool, "hex:00ff", "text:hex:is text here")
    assert cli("get", pool, "name").out == "Perdure\n"
    assert cli("get", pool, "hex:00ff").out == "text:hex:is text here\n"
    listed = cli("scan", pool, "--limit", 1, "--json", "-")
    assert listed.json()["count"] == 1 and len(listed.json()["records"]) == 1
    assert "1 of 2 records" in listed.err


def test_raw_value(filled):
    run = [sys.executable, "-m", "perdure.cli", "get", filled, "65", "--format", "raw"]
    assert subprocess.run(run, capture_output=True, check=True).stdout == b"A" * 16


def test_verify_of_a_good_pool(cli, filled, tmp_path):
    good = cli("verify", filled, "--json", tmp_path / "v.json")
    assert good.status == 0 and "100 records good" in good.out
    found = json.loads((tmp_path / "v.json").read_text())
    assert (found["records"], found["dropped"], found["faults"]) == (100, 0, [])


def test_stats(cli, filled):
    stats = cli("stats", filled, "--json", "-")
    assert stats.status == 0
    assert stats.json()["records"] == 100 and stats.json()["medium"] == "tmpfs"
    assert stats.json()["shape"] == "2L-2H-8S" and stats.json()["recovery"]["clean"]
    assert "100 records" in cli("stats", filled).out


def test_create_options(cli, pool):
    options = [
        "--layout",
        "in_place",
        "--shape",
        "1L-2H-16S",
        "--max-bytes",
        "1GiB",
        "--durability",
        "none",
    ]
    made = cli(
        "create",
        pool,
        "--key-bytes",
        16,
        "--value-bytes",
        4,
        "--records",
        5000,
        *options,
        "--json",
        "-",
    )
    assert made.status == 0
    assert made.json()["layout"] == "in_place" and made.json()["shape"] == "1L-2H-16S"
    assert made.json()["slots"] >= 5000
    assert cli("create", pool).status == 2
    assert cli("create", pool, "--overwrite").status == 0


def test_recovery_is_said(cli, pool):
    program = (
        f"import perdure, os; store = perdure.create({pool!r}, 8, 8);"
        " store.put([1, 2], [b'12345678'] * 2); os.kill(os.getpid(), 9)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    )
    verified = cli("verify", pool, "--json", "-")
    assert verified.status == 0
    assert "was not closed in order; recovered 2 records, dropped none" in verified.err
    assert not verified.json()["recovery"]["clean"] and verified.json()["records"] == 2
    assert "not closed" not in cli("verify", pool).err


def test_doctor(cli, tmp_path):
    told = cli("doctor", "--json", tmp_path / "d.json")
    facts = json.loads((tmp_path / "d.json").read_text())
    assert told.status == 0 and "stores can run on: cpu" in told.out
    assert facts["version"] == perdure.__version__
    assert [device["device"] for device in facts["devices"]] == ["cpu", "cuda"]
    media = {medium["medium"]: medium for medium in facts["media"]}
    assert set(media) == {"tmpfs", "hugetlbfs", "memfd", "file"}
    assert media["tmpfs"]["survives"]["process_kill"] and media["tmpfs"]["free_bytes"] > 0
    assert not media["memfd"]["survives"]["process_kill"]
    assert "memlock_bytes" in facts["limits"] and "memlock" in told.out


@pytest.mark.parametrize("command", ["bench", "explore"])
def test_programs_get_every_argument(monkeypatch, tmp_path, command):
    """A stand-in for the program shows which arguments reach it, and its exit status comes back."""
    from perdure import _native
    from perdure.cli import app
    from typer.testing import CliRunner

    program = tmp_path / "bin" / f"perdure-{command}"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    result = CliRunner().invoke(app, [command, "ycsb", "--json", "-", "--workload", "c", "--help"])
    assert result.exit_code == 3
    assert (tmp_path / "arguments").read_text() == "ycsb --json - --workload c --help\n"
    assert f"perdure-{command}: exit status 3" in result.stderr


@pytest.mark.parametrize(
    ("command", "way_out"), [("bench", "PERDURE_BENCH=ON"), ("explore", "make explore")]
)
def test_programs_that_were_not_built(cli, monkeypatch, tmp_path, command, way_out):
    from perdure import _native

    monkeypatch.setattr(_native, "__file__", str(tmp_path / "_native.so"))
    missing = cli(command, "--help")
    assert missing.status == 2 and f"perdure-{command} is not there" in missing.err
    assert way_out in missing.err


# --- bad input ----------------------------------------------------------------------------------

READERS = [("get", 1), ("scan",), ("stats",), ("verify",), ("put", 1, "x"), ("del", 1)]


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_missing_pool(cli, pool, command):
    name, *rest = command
    answer = cli(name, pool, *rest)
    assert answer.status == 2
    assert answer.out == "" and pool in answer.err and len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_damaged_header(cli, filled, command):
    flip(filled, 60)
    name, *rest = command
    answer = cli(name, filled, *rest)
    assert answer.status == 1 and filled in answer.err and "checksum" in answer.err


def test_verify_of_damaged_pools(cli, filled):
    break_record(filled, bytes([42]) * 16)
    broken = cli("verify", filled, "--json", "-")
    assert broken.status == 1
    assert broken.json()["records"] == 99 and broken.json()["fault_count"] == 1
    assert "checksum" in broken.json()["faults"][0] and "fault:" in broken.err
    reading = cli("get", filled, 42)
    assert reading.status == 1 and "checksum" in reading.err
    assert cli("get", filled, 41).status == 0
    os.truncate(filled, 1000)
    truncated = cli("verify", filled, "--json", "-")
    assert truncated.status == 1 and "truncated" in truncated.json()["faults"][0]


def test_a_repair_is_a_fault_until_it_is_acknowledged(cli, filled):
    slot = taken_slot(filled)
    flip(filled, slot)
    before = Path(filled).read_bytes()
    for name, *rest in READERS:
        refused = cli(name, filled, *rest)
        assert (
            refused.status == 1 and f"at byte {slot}" in refused.err and "--repair" in refused.err
        )
    with pytest.raises(perdure.Corrupt, match="repair=True"):
        perdure.open(filled, read_only=True)
    assert Path(filled).read_bytes() == before
    repaired = cli("verify", filled, "--repair", "--json", "-")
    assert repaired.status == 1 and repaired.json()["records"] == 100
    assert repaired.json()["recovery"]["repaired"] and repaired.json()["recovery"]["dropped"] == 0
    assert any("put right" in change for change in repaired.json()["recovery"]["changes"])
    again = cli("verify", filled)
    assert again.status == 1 and "not acknowledged" in again.err and f"at byte {slot}" in again.err
    assert cli("verify", filled, "--acknowledge").status == 0
    assert cli("verify", filled).status == 0


def test_a_damaged_log_of_entries_is_repaired(cli, pool):
    with perdure.create(pool, 8, 16, index=perdure.GPHash(layout="log")) as store:
        for version in range(3):
            store.put(np.arange(100), np.full((100, 16), version, np.uint8))
    flip(pool, log_segment(pool) + 64 + 32 + 16 * 70 + 3)  # of the first batch
    before = Path(pool).read_bytes()
    for name, *rest in READERS:
        refused = cli(name, pool, *rest)
        assert refused.status == 1 and "log of entries" in refused.err and "--repair" in refused.err
    assert Path(pool).read_bytes() == before
    repaired = cli("verify", pool, "--repair", "--json", "-")
    assert repaired.status == 1 and repaired.json()["records"] == 100
    assert repaired.json()["recovery"]["repaired"] and repaired.json()["recovery"]["dropped"] == 0
    assert any("of entry 70" in change for change in repaired.json()["recovery"]["changes"])
    assert cli("verify", pool, "--acknowledge").status == 0
    assert cli("verify", pool).status == 0


def test_what_a_repair_of_a_log_drops_is_counted(cli, pool):
    with perdure.create(pool, 8, 16, index=perdure.GPHash(layout="log")) as store:
        store.put(np.arange(50), np.zeros((50, 16), np.uint8))
        store.put(np.arange(50, 60), np.zeros((10, 16), np.uint8))
    first = log_segment(pool) + 64 + 32
    for entry in (3, 20, 40):
        flip(pool, first + 16 * entry + 2)
    repaired = cli("verify", pool, "--repair", "--json", "-")
    report = repaired.json()["recovery"]
    assert repaired.status == 1 and repaired.json()["records"] == 10 and report["dropped"] == 50
    assert any("may have" in change for change in report["changes"])
    assert "nothing vouches for" in report["why_dropped"]


def test_pool_that_is_open_elsewhere(cli, filled):
    with perdure.open(filled):
        for command in READERS:
            name, *rest = command
            answer = cli(name, filled, *rest)
            assert answer.status == 2 and "open" in answer.err and filled in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get", "POOL", "abc"], "KEY abc: not a whole number"),
        (["get", "POOL", str(2**64)], "does not fit in 8 bytes"),
        (["get", "POOL", "hex:12"], "KEY hex:12: has 1 byte, but this pool's have 8"),
        (["get", "POOL", "hex:xy"], "KEY hex:xy: not pairs of hexadecimal digits"),
        (["put", "POOL", "1", "short"], "VALUE short: has 5 bytes, but this pool's have 16"),
        (["get", "POOL"], "KEY"),
        (["get", "POOL", "1", "--device", "tpu"], "--device"),
        (["get", "POOL", "1", "--format", "xml"], "--format"),
        (["scan", "POOL", "--limit", "0"], "--limit"),
        (["scan", "POOL", "--json", "/nowhere/at/all"], "--json /nowhere/at/all: No such file"),
        (["create", "POOL"], "exists already"),
        (
            ["create", "POOL.2", "--key-bytes", "0"],
            "--key-bytes 0: write a number of bytes, or var",
        ),
        (["create", "POOL.2", "--key-bytes", "1000"], "key_bytes 1000"),
        (["create", "POOL.2", "--value-bytes", "many"], "--value-bytes many"),
        (["create", "POOL.2", "--records", "0"], "--records"),
        (["create", "POOL.2", "--shape", "2x2x8"], "--shape 2x2x8: write levels"),
        (["create", "POOL.2", "--shape", "4L-4H-8S"], "4L-4H-8S"),
        (["create", "POOL.2", "--max-bytes", "lots"], "--max-bytes lots: not a size"),
        (["create", "POOL.2", "--max-bytes", "4KiB"], "max_bytes"),
        (["create", "POOL.2", "--durability", "power"], "durability power"),
        (["create", "/nowhere/pool"], "/nowhere/pool"),
        (["create", "POOL.2", "--value-bytes", "65536", "--records", "1000000000"], "POOL.2"),
        (["frobnicate"], "frobnicate"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_wrong_usage(cli, filled, arguments, message):
    answer = cli(*(one.replace("POOL", filled) for one in arguments))
    assert answer.status == 2
    assert message.replace("POOL", filled) in answer.err
    assert "Traceback" not in answer.err
    assert not Path(filled + ".2").exists()


def test_no_gpu(cli, filled):
    if any(device.device.name == "cuda" and device.available for device in perdure.devices()):
        pytest.skip("there is a GPU")
    answer = cli("get", filled, 1, "--device", "cuda")
    assert answer.status == 2 and "CUDA" in answer.err


# --- scans of many records ----------------------------------------------------------------------


def test_a_scan_of_many_pages(cli, pool, monkeypatch):
    """In pages of seven records: what `--limit` cuts, and standard output that is no UTF-8."""
    from perdure import _cli_records as commands

    monkeypatch.setattr(commands, "SCAN_ROWS", 7)
    truth = {b"%d" % number: bytes([number]) * 3 for number in range(100, 150)} | {
        "ü".encode(): "ß".encode()
    }
    with perdure.create(pool, None, None) as store:
        store.put(list(truth), list(truth.values()))
    lines = {f"{_text.show(key, None)}\t{_text.show(value, None)}" for key, value in truth.items()}
    everything = cli("scan", pool).out.splitlines()
    assert len(everything) == 51 and set(everything) == lines
    for limit in (1, 7, 8, 50, 51, 99):
        assert cli("scan", pool, "--limit", limit).out.splitlines() == everything[:limit]
    scan = [sys.executable, "-m", "perdure.cli", "scan", pool]
    latin = subprocess.run(
        scan, capture_output=True, check=True, env=os.environ | {"PYTHONIOENCODING": "latin-1"}
    )
    assert set(latin.stdout.decode("latin-1").splitlines()) == lines


def test_a_reader_that_goes_away_ends_a_scan_quietly(pool):
    with perdure.create(pool, 8, 128) as store:
        store.put(np.arange(200_000), np.zeros((200_000, 128), np.uint8))
    scan = [sys.executable, "-m", "perdure.cli", "scan", pool]
    with subprocess.Popen(scan, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as scanning:
        assert b"\thex:0000" in scanning.stdout.readline()
        scanning.stdout.close()
        assert scanning.stderr.read() == b"" and scanning.wait(60) == 1
