"""Which programs `perdure rocks run` refuses, and what it gives the others."""

import shutil
import stat
from pathlib import Path

import pytest
from perdure import _rocks_run

DB_BENCH = shutil.which("db_bench")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The loader lists nothing of it."""
    made = tmp_path / _rocks_run.LIBRARY
    made.touch()
    return made


def why(program: Path, library: Path) -> str:
    with pytest.raises(_rocks_run.CannotServe) as refused:
        _rocks_run.check(program, library)
    return str(refused.value)


def copied(name: str, tmp_path: Path, tail: bytes = b"") -> Path:
    program = tmp_path / name
    program.write_bytes(Path(shutil.which(name) or "").read_bytes() + tail)
    program.chmod(0o755)
    return program


def test_a_program_that_is_not_linked_to_rocksdb_is_refused(tmp_path: Path, library: Path) -> None:
    assert "is not linked to librocksdb.so" in why(copied("true", tmp_path), library)


def test_a_program_with_rocksdb_inside_is_refused_with_the_way_out(
    tmp_path: Path, library: Path
) -> None:
    static = copied("true", tmp_path, b"_ZN7rocksdb2DB4OpenE")
    assert "statically" in why(static, library) and "link it to" in why(static, library)


def test_a_program_that_runs_as_another_user_is_refused(tmp_path: Path, library: Path) -> None:
    program = copied("true", tmp_path)
    program.chmod(0o755 | stat.S_ISUID)
    assert "another user" in why(program, library)


def test_a_library_or_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "perdure_rocks_preload" in why(Path("/bin/true"), tmp_path / "no.so")
    with pytest.raises(_rocks_run.CannotServe, match="no such program"):
        _rocks_run.find_program("no-such-program-here")


def test_a_script_may_run_anything(tmp_path: Path, library: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    _rocks_run.check(script, library)


@pytest.mark.skipif(DB_BENCH is None, reason="rocksdb-tools is not installed")
def test_rocksdbs_own_tools_are_served_unless_another_rocksdb_is_meant(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Path(DB_BENCH or "")
    _rocks_run.check(program, library)
    real = _rocks_run._rocksdb_of
    monkeypatch.setattr(
        _rocks_run,
        "_rocksdb_of",
        lambda file: {"librocksdb.so.99.1"} if file == library else real(file),
    )
    assert "librocksdb.so.99.1" in why(program, library)


def test_the_environment_has_the_options_and_what_was_preloaded_before(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/first.so")
    given = _rocks_run.environment(library, device="cpu", threshold=0)
    assert given["LD_PRELOAD"] == f"{library}:/first.so"
    assert (given["PERDURE_ROCKS_DEVICE"], given["PERDURE_ROCKS_THRESHOLD"]) == ("cpu", "0")
    assert "PERDURE_ROCKS_LOG_DIR" not in given
