"""A plain CPU must never run a copy of a function that was compiled for AVX-512.

The linker keeps one of several weak definitions, whichever it meets first. So the object that holds
AVX-512 code may define no weak symbol that another object of the library defines too.
"""

import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WEAK = set("WVu")  # nm's letters: weak, weak object, unique global
WIDE = "avx512"


def library() -> Path:
    """The archive named in PERDURE_LIBRARY, or that of `make`; the test is skipped where neither
    is."""
    named = os.environ.get("PERDURE_LIBRARY")
    path = Path(named) if named else ROOT / "build/release/src/libperdure.a"
    if not path.exists():
        assert not named, f"PERDURE_LIBRARY={named}: no such file"
        pytest.skip(
            f"{path} is not built: run `make build`, or name a libperdure.a in PERDURE_LIBRARY"
        )
    return path


def symbols() -> dict[str, list[tuple[str, str]]]:
    """Object -> (nm's letter, symbol) of every global definition."""
    if not shutil.which("nm"):
        pytest.skip("nm (package binutils) is not installed")
    command = ["nm", "--defined-only", "--extern-only", "-A", str(library())]
    found = defaultdict(list)
    for line in subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.splitlines():
        match = re.fullmatch(r".*?\.a:([^:]+):[0-9a-f]+ (\S) (.+)", line)
        assert match, f"nm printed what this test does not understand: {line}"
        found[match[1]].append((match[2], match[3]))
    return found


def test_avx512_object_shares_no_weak_symbol() -> None:
    objects = symbols()
    wide = [name for name in objects if WIDE in name]
    assert wide, f"no object of the library names {WIDE}: {sorted(objects)}"
    elsewhere = {
        symbol
        for name, held in objects.items()
        if name not in wide
        for letter, symbol in held
        if letter in WEAK
    }
    leaked = [
        symbol
        for name in wide
        for letter, symbol in objects[name]
        if letter in WEAK and symbol in elsewhere
    ]
    assert not leaked, f"{len(leaked)} weak symbols of {wide} are elsewhere too: {leaked[:5]}"


def test_avx512_object_has_no_weak_symbol_for_users() -> None:
    """A user's program may instantiate the same standard templates as the library."""
    leaked = [
        f"{name}: {symbol}"
        for name, held in symbols().items()
        if WIDE in name
        for letter, symbol in held
        if letter in WEAK
    ]
    assert not leaked, f"weak symbols compiled for AVX-512: {leaked[:5]}"
