"""What commands write: never over a file unasked, never over what they read, nor over a file of
another kind without --force; and who may read it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import perdure
import pytest
import typer
from perdure import _outputs
from perdure.cli import app

LETTER = "Dear Sir, this is no file of yours.\n"

# Every command with --json, with arguments that succeed on the fixture's files. None: it takes too
# long, and only what is refused before it begins is tried.
COMMANDS: dict[str, list[str] | None] = {
    "create": ["create", "NEW"],
    "load": ["load", "POOL", "CSV"],
    "get": ["get", "POOL", "1"],
    "put": ["put", "POOL", "200", "sixteen bytes..."],
    "del": ["del", "POOL", "5"],
    "scan": ["scan", "POOL"],
    "export": ["export", "POOL", "NEW.csv"],
    "verify": ["verify", "POOL"],
    "stats": ["stats", "POOL"],
    "snapshot": ["snapshot", "POOL", "NEW"],
    "restore": ["restore", "SNAPSHOT", "NEW"],
    "replay": ["replay", "TRACE", "--pool", "NEW"],
    "doctor": ["doctor"],
    "demo": None,
    "bench figure": ["bench", "figure", "--list"],
}
# These need another pool, or a program, or go on: test_json_of_others_is_not_replaced_unasked.
OTHERS = {"count", "dirtbuster", "serve"}
FORCEABLE = {"create", "export", "snapshot", "restore", "demo", "bench figure"}


class Files:
    """A folder with a pool, its snapshot, a CSV file and a trace."""

    def __init__(self, folder: Path, pool: str) -> None:
        self.folder, self.pool = folder, pool
        self.result = folder / "result.json"
        with perdure.create(pool, 8, 16) as store:
            store.put(
                np.arange(100), np.repeat(np.arange(100, dtype=np.uint8), 16).reshape(100, 16)
            )
            store.snapshot(folder / "snapshot")
        (folder / "rows.csv").write_text("key:uint64,value:hex\n300," + "ab" * 16 + "\n")
        (folder / "trace.csv").write_text("#time,object,size\n1,2,100\n2,3,100\n")

    def arguments(self, command: str) -> list[str]:
        words = COMMANDS[command]
        assert words is not None
        places = {
            "POOL": self.pool,
            "NEW": f"{self.pool}.new",
            "NEW.csv": str(self.folder / "new.csv"),
        }
        places |= {"SNAPSHOT": str(self.folder / "snapshot"), "CSV": str(self.folder / "rows.csv")}
        places |= {"TRACE": str(self.folder / "trace.csv")}
        return [places.get(word, word) for word in words]

    def intact(self) -> bool:
        with perdure.open(self.pool, read_only=True) as store:
            return len(store) == 100 and not store.verify().fault_count


@pytest.fixture
def files(tmp_path, pool):
    yield Files(tmp_path, pool)
    for left in Path(pool).parent.glob(f"{Path(pool).name}*"):
        left.unlink()


def all_commands() -> dict[str, typer.core.TyperCommand]:
    from perdure_figures.command import app as figures

    group = typer.main.get_command(app)
    context = typer.Context(group)
    found = {
        name: group.resolve_command(context, [name])[1] for name in group.list_commands(context)
    }
    return found | {"bench figure": typer.main.get_command(figures)}


def test_every_command_that_writes_json_is_tried_here():
    with_json = {
        name
        for name, command in all_commands().items()
        if any("--json" in one.opts and not one.is_flag for one in command.params)
    }
    assert with_json == COMMANDS.keys() | OTHERS
    for name in with_json:
        options = {option for one in all_commands()[name].params for option in one.opts}
        assert "--overwrite" in options, name
        assert ("--force" in options) == (name in FORCEABLE), name


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_not_replaced_unasked(cli, files, command):
    begun = ["demo"] if COMMANDS[command] is None else files.arguments(command)
    if command == "bench figure":
        begun = ["bench", "figure", "gphash-5"]
    files.result.write_text('{"mine": 1}')
    refused = cli(*begun, "--json", files.result)
    assert refused.status == 2 and "exists already" in refused.err and "--overwrite" in refused.err
    assert files.result.read_text() == '{"mine": 1}'
    assert not Path(f"{files.pool}.new").exists() and files.intact(), "and nothing was done"
    files.result.write_text(LETTER)
    foreign = cli(*begun, "--json", files.result, "--overwrite")
    assert foreign.status == 2 and "is no JSON file" in foreign.err
    assert files.result.read_text() == LETTER and files.intact()
    assert ("pass --force" in foreign.err) == (command in FORCEABLE)


def test_json_of_others_is_not_replaced_unasked(cli, tmp_path, pool):
    result = tmp_path / "result.json"
    perdure.create(pool, 8, 8, index="btree").close()
    for begun, ended in (
        (["count", pool], []),
        (["dirtbuster", "--steps", "1"], ["--", "true"]),
        (["serve", f"{pool}.new", "--port", "0"], []),
    ):
        result.write_text('{"mine": 1}')
        refused = cli(*begun, "--json", result, *ended)
        assert refused.status == 2 and "exists already" in refused.err
        assert result.read_text() == '{"mine": 1}'
    assert not Path(f"{pool}.new").exists()
    assert cli("count", pool, "--json", result, "--overwrite").status == 0
    assert "mine" not in json.loads(result.read_text())


@pytest.mark.parametrize("command", [name for name, words in COMMANDS.items() if words is not None])
def test_json_is_replaced_when_asked(cli, files, command):
    files.result.write_text('{"older": 1}')
    files.result.chmod(0o604)
    assert cli(*files.arguments(command), "--json", files.result, "--overwrite").status == 0
    assert "older" not in json.loads(files.result.read_text())
    assert stat.S_IMODE(files.result.stat().st_mode) == 0o604
    assert [name for name in os.listdir(files.folder) if "unfinished" in name] == []


@pytest.mark.parametrize(
    "command", [name for name, words in COMMANDS.items() if words and "POOL" in words]
)
def test_json_never_replaces_the_pool(cli, files, command):
    hard, folder = f"{files.pool}.hard", files.folder / "folder"
    os.link(files.pool, hard)
    folder.symlink_to(Path(files.pool).parent)
    asked = ["--overwrite", "--force"] if command in FORCEABLE else ["--overwrite"]
    for name in (files.pool, os.path.relpath(files.pool), hard, folder / Path(files.pool).name):
        refused = cli(*files.arguments(command), "--json", name, *asked)
        assert refused.status == 2 and "which this command works on" in refused.err, name
        assert files.intact()


@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_export_replaces_nothing_unasked(cli, files, name):
    to = files.folder / name
    assert cli("export", files.pool, to).status == 0
    whole = to.read_bytes()
    refused = cli("export", files.pool, to)
    assert refused.status == 2 and "exists already" in refused.err
    assert to.read_bytes() == whole
    assert cli("export", files.pool, to, "--overwrite").status == 0
    to.write_text(LETTER)
    foreign = cli("export", files.pool, to, "--overwrite")
    assert foreign.status == 2 and "and is not replaced" in foreign.err and to.read_text() == LETTER
    assert cli("export", files.pool, to, "--force").status == 0
    assert to.read_bytes() == whole


def test_export_never_replaces_a_pool(cli, files):
    """The one that it reads, by whatever name; nor another that is open."""
    hard = f"{files.pool}.hard"
    os.link(files.pool, hard)
    for name in (files.pool, os.path.relpath(files.pool), hard):
        refused = cli("export", files.pool, name, "--format", "csv", "--force")
        assert refused.status == 2 and "works on" in refused.err
    os.unlink(hard)
    other = f"{files.pool}.other"
    with perdure.create(other, 8, 8):
        refused = cli("export", files.pool, other, "--format", "csv", "--force")
        assert refused.status == 2 and "is in use" in refused.err
    with perdure.open(other) as store:
        assert len(store) == 0
    assert files.intact()


def test_load_and_replay_never_replace_what_they_read(cli, files):
    for begun, read in (
        (["load", files.pool, files.folder / "rows.csv"], files.folder / "rows.csv"),
        (
            ["replay", files.folder / "trace.csv", "--pool", f"{files.pool}.new"],
            files.folder / "trace.csv",
        ),
    ):
        before = read.read_bytes()
        refused = cli(*begun, "--json", read, "--overwrite")
        assert refused.status == 2 and "works on" in refused.err and read.read_bytes() == before
        assert not Path(f"{files.pool}.new").exists()


def test_the_json_of_a_command_never_replaces_its_other_output(cli, files):
    to = files.folder / "new.csv"
    refused = cli("export", files.pool, to, "--json", to, "--force")
    assert refused.status == 2 and "works on" in refused.err and not to.exists()


@pytest.mark.parametrize("option", ["--plot", "--json"])
def test_demo_replaces_nothing_unasked(cli, files, option):
    there = files.folder / "there"
    there.write_text(LETTER)
    others = ["--plot", "none"] if option == "--json" else []
    for asked, why in (([], "exists already"), (["--overwrite"], "and is not replaced")):
        refused = cli("demo", option, there, *others, *asked)
        assert refused.status == 2 and why in refused.err and there.read_text() == LETTER


@pytest.mark.parametrize("name", ["gphash-5.json", "gphash-5.png"])
def test_figures_replace_nothing_unasked(cli, files, monkeypatch, name):
    monkeypatch.setattr(
        "perdure_figures.command.bench_program", lambda: None
    )  # it need not have been built
    there = files.folder / name
    there.write_text(LETTER)
    for asked, why in (([], "exists already"), (["--overwrite"], "and is not replaced")):
        refused = cli("bench", "figure", "gphash-5", "--quick", "--out", files.folder, *asked)
        assert refused.status == 2 and why in refused.err and there.read_text() == LETTER


def test_create_restore_and_snapshot_take_no_others_place(cli, files):
    there = files.folder / "there"
    for begun in (
        ["create", there],
        ["restore", files.folder / "snapshot", there],
        ["snapshot", files.pool, there],
    ):
        there.write_text(LETTER)
        for asked, why in (([], "exists already"), (["--overwrite"], "and is not replaced")):
            refused = cli(*begun, *asked)
            assert refused.status == 2 and why in refused.err and there.read_text() == LETTER, begun
        assert cli(*begun, "--force").status == 0
        there.unlink()
    refused = cli("snapshot", files.pool, files.pool, "--force")
    assert refused.status == 2 and files.intact()
    refused = cli("restore", files.folder / "snapshot", files.folder / "snapshot", "--force")
    assert refused.status == 2 and "is the snapshot itself" in refused.err


@pytest.mark.parametrize("make", ["fifo", "link", "directory"])
def test_only_regular_files_are_replaced(cli, files, make):
    there, target = files.folder / "there.csv", files.folder / "target"
    target.write_text(LETTER)
    {
        "fifo": lambda: os.mkfifo(there),
        "link": lambda: there.symlink_to(target),
        "directory": lambda: there.mkdir(),
    }[make]()
    for arguments in (
        ["export", files.pool, there, "--force"],
        ["create", there, "--force"],
        ["snapshot", files.pool, there, "--force"],
        ["verify", files.pool, "--json", there, "--overwrite"],
        ["verify", there],
    ):
        refused = cli(*arguments)
        assert refused.status == 2, arguments
        assert (
            "a FIFO" in refused.err
            or "a symbolic link" in refused.err
            or "a directory" in refused.err
        )
    assert target.read_text() == LETTER


def test_a_file_that_comes_meanwhile_stays(tmp_path):
    def write(name: str, found: str, **asked: bool) -> None:
        output = _outputs.Output("--json", tmp_path / name, _outputs.JSON, **asked)
        with output.writing() as unfinished:
            unfinished.write_text("{}")
            (tmp_path / name).write_text(found)

    with pytest.raises(_outputs.Refused, match="no JSON file"):
        write("r", LETTER, overwrite=True)
    with pytest.raises(_outputs.Refused, match="exists already"):
        write("s", "{}")
    assert (tmp_path / "r").read_text() == LETTER and (tmp_path / "s").read_text() == "{}"
    assert sorted(os.listdir(tmp_path)) == ["r", "s"]


def test_a_file_that_comes_at_the_last_moment_stays(tmp_path, monkeypatch):
    """Between the last look and the name."""
    link = os.link

    def after_another(unfinished: Path, to: Path) -> None:
        Path(to).write_text(LETTER)
        link(unfinished, to)

    monkeypatch.setattr(os, "link", after_another)
    with pytest.raises(_outputs.Refused, match="by others in the meantime"):
        _outputs.Output("--json", tmp_path / "r", _outputs.JSON, overwrite=True).write_text("{}")
    assert (tmp_path / "r").read_text() == LETTER and os.listdir(tmp_path) == ["r"]


def test_what_fails_leaves_what_was_there(cli, files):
    to = files.folder / "new.csv"
    assert cli("export", files.pool, to).status == 0
    whole = to.read_bytes()
    with perdure.open(files.pool) as store:
        store.put([1], [b"\xff" * 16])
    failed = cli("export", files.pool, to, "--overwrite", "--value-format", "text")
    assert failed.status == 2 and "not UTF-8" in failed.err
    assert to.read_bytes() == whole
    assert [name for name in os.listdir(files.folder) if "unfinished" in name] == []


# --- permissions --------------------------------------------------------------------------------


def mode_of(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_modes(files, log_dir, mask):
    before = os.umask(mask)
    try:
        new = f"{files.pool}.new"
        with perdure.create(
            new, 8, 8, durability="power", log_dir=log_dir, log_bytes=1 << 20
        ) as store:
            store.snapshot(files.folder / "s")
            store.snapshot(files.folder / "wide", mode=0o644)
        assert [mode_of(one) for one in (new, files.folder / "s", f"{log_dir}/redo.log")] == [
            0o600
        ] * 3
        assert mode_of(log_dir) == 0o700
        assert mode_of(files.folder / "wide") == 0o644 & ~mask
        os.chmod(new, 0o640)
        perdure.open(new, log_dir=log_dir).close()
        assert mode_of(new) == 0o640, "made anew at each opening"
        perdure.create(files.pool, 8, 8, overwrite=True, mode=0o660).close()
        assert mode_of(files.pool) == 0o660 & ~mask
        os.chmod(files.pool, 0o644)
        perdure.restore(files.folder / "snapshot", files.pool, overwrite=True).close()
        assert mode_of(files.pool) == 0o644
    finally:
        os.umask(before)


def test_modes_by_the_command_line(cli, files):
    new = f"{files.pool}.new"
    before = os.umask(0o022)
    try:
        assert cli("create", new, "--mode", "0666").status == 0
        assert mode_of(new) == 0o644
        assert cli("snapshot", files.pool, files.folder / "s", "--mode", "640").status == 0
        assert mode_of(files.folder / "s") == 0o640
        assert cli("restore", files.folder / "s", new, "--overwrite", "--mode", "0600").status == 0
        assert mode_of(new) == 0o600
    finally:
        os.umask(before)
    for text, why in (
        ("rw", "--mode rw: write permission bits"),
        ("0400", "mode 0400"),
        ("9", "--mode 9"),
    ):
        refused = cli("create", f"{files.pool}.newer", "--mode", text)
        assert refused.status == 2 and why in refused.err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_none_of_a_commands_files(tmp_path, closed):
    (tmp_path / "table.csv").write_text("key,value\n1,12345678\n")
    for words in ("create pool --value-bytes 8", "load pool table.csv", "stats pool --json out"):
        command = f"{sys.executable} -m perdure.cli {words} {closed}"
        done = subprocess.run(command, shell=True, cwd=tmp_path, stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b""), words
    assert json.loads((tmp_path / "out").read_text())["records"] == 1
    with perdure.open(tmp_path / "pool") as store:
        assert len(store) == 1 and store.verify().fault_count == 0


@pytest.mark.parametrize("mode", [0o400, 0o1600, -1, 1 << 40, "rw", True])
def test_modes_that_cannot_be(pool, mode):
    with pytest.raises((ValueError, TypeError), match="mode"):
        perdure.create(pool, 8, 8, mode=mode)
    assert not Path(pool).exists()


def test_no_durability_power_on_memfd(cli, pool, log_dir):
    with pytest.raises(perdure.Unsupported, match="/dev/shm"):
        perdure.create("memfd:x", 8, 8, durability="power", log_dir=log_dir)
    refused = cli("create", "memfd:x", "--durability", "power", "--log-dir", log_dir)
    assert refused.status == 2 and "memfd:x" in refused.err and "/dev/shm" in refused.err
    assert not Path(log_dir).exists()


def test_a_fifo_does_not_block(files):
    """In a process of its own, which a time limit ends."""
    fifo = files.folder / "fifo"
    os.mkfifo(fifo)
    for call in ("open(p)", "create(p, 8, 8, force=True)", "open(p, read_only=True)"):
        program = (
            f"import perdure, sys\np = sys.argv[1]\ntry:\n  perdure.{call}\n"
            "except perdure.InvalidArgument as error:\n  print(error)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, fifo],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert "is a FIFO" in done.stdout, done.stderr
