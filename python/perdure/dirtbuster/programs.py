"""The program to look at: found, and refused early where no step could work on it.

Invariant: what is refused is named with the way out; what works only in part (no symbols) is a
note, which the report carries.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass, field
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from perdure.cli_support import Failure


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
    _check(program)
    return program


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
