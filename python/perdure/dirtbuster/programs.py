"""The program to look at: found, and refused early where no step could work on it.

Invariant: what is refused is named with the way out; what works only in part (no symbols) is a
note, which the report carries.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from perdure.cli_support import Failure

# pyenv's shims, and those of managers after its example (rbenv, nodenv): scripts that start the
# program of the version in force, by a hundred small programs.
_SHIM = re.compile(r'^exec "(?P<manager>/[^"]+)" exec "\$program" "\$@"$', re.MULTILINE)
_SHIM_BYTES = 4096  # longer ones are none


@dataclass
class Program:
    command: list[str]
    path: Path
    notes: list[str] = field(default_factory=list)


def find(command: list[str]) -> Program:
    if not command:
        raise Failure("dirtbuster: no program; write it after --, as in: -- ./program arguments")
    name = command[0]
    found = shutil.which(name)
    if found is None:
        why = "is not executable: chmod +x it" if Path(name).is_file() else "no such program"
        raise Failure(f"{name}: {why}")
    program = Program(command, Path(found).resolve())
    if shim := _shim_in(program.path):
        program = _behind_shim(command, program.path, shim["manager"])
    _check(program)
    return program


def _shim_in(path: Path) -> re.Match[str] | None:
    """None: not a shim, or a file that cannot be read, which is told later."""
    try:
        with path.open("rb") as file:
            text = file.read(_SHIM_BYTES + 1)
    except OSError:
        return None
    if len(text) > _SHIM_BYTES or not text.startswith(b"#!"):
        return None
    return _SHIM.search(text.decode(errors="replace"))


def _behind_shim(command: list[str], shim: Path, manager: str) -> Program:
    asked = [manager, "which", shim.name]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        why = told.stderr.strip() or f"exit status {told.returncode}"
    except OSError as error:
        told, why = None, str(error)
    if told is None or told.returncode != 0 or not told.stdout.strip():
        raise Failure(
            f"{shim}: a shim, and {' '.join(asked)} does not say of what ({why});"
            " name the program itself by its path"
        )
    real = Path(told.stdout.strip())
    note = f"{command[0]} is a shim ({shim}): {real} is looked at"
    return Program([str(real), *command[1:]], real.resolve(), [note])


def _check(program: Program) -> None:
    mode = program.path.stat().st_mode
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise Failure(
            f"{program.path}: setuid or setgid, which neither perf nor Valgrind may look into;"
            " run a copy without the bit"
        )
    if not os.access(program.path, os.R_OK):
        raise Failure(f"{program.path}: not readable, and its instructions have to be read")
    with program.path.open("rb") as file:
        if file.read(2) == b"#!":
            program.notes.append(f"{program.path.name} is a script: its interpreter is looked at")
            return
        file.seek(0)
        try:
            _check_elf(program, ELFFile(file))
        except ELFError:
            raise Failure(f"{program.path}: neither an ELF program nor a script with #!") from None


def _check_elf(program: Program, elf: ELFFile) -> None:
    if elf["e_machine"] != "EM_X86_64" or elf.elfclass != 64:
        machine = str(elf["e_machine"]).removeprefix("EM_")
        raise Failure(f"{program.path}: made for {machine}; dirtbuster looks at x86-64 programs")
    if elf.get_section_by_name(".symtab") is None:
        program.notes.append(
            f"{program.path.name} is stripped: functions without a name are given by address"
            " (compile with -g and do not strip, for files and lines)"
        )
    elif elf.get_section_by_name(".debug_line") is None:
        program.notes.append(
            f"{program.path.name} has no lines of code: compile with -g to be told files and lines"
        )
    segments = [segment["p_type"] for segment in elf.iter_segments()]
    if "PT_INTERP" not in segments:
        program.notes.append(f"{program.path.name} is static: its own copy of the C library counts")
