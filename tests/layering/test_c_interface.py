"""perdure.h, the C interface: what it declares is tested, and its structures can grow."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALLS = ROOT / "include" / "perdure" / "perdure.h"
TYPES = ROOT / "include" / "perdure" / "perdure_types.h"


def declared() -> set[str]:
    text = CALLS.read_text(encoding="utf-8")
    names = re.findall(r"^PERDURE_API [^(;]*?(perdure_\w+)\(", text, re.MULTILINE)
    assert len(names) == text.count("PERDURE_API ") and len(set(names)) == len(names)
    return set(names)


def test_each_function_is_called_by_a_test_in_c() -> None:
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "capi").glob("*.c")
    )
    called = set(re.findall(r"\b(perdure_\w+)\(", tests))
    assert not declared() - called


def test_each_function_takes_its_error_last() -> None:
    """All that answer a perdure_code, but those that only fill options."""
    text = CALLS.read_text(encoding="utf-8")
    calls = re.findall(r"^PERDURE_API perdure_code (\w+)\(([^;]*)\);", text, re.MULTILINE)
    assert len(calls) > 25
    faults = [
        name
        for name, arguments in calls
        if not name.endswith("_init") and not arguments.endswith("perdure_error** error")
    ]
    assert not faults


def test_structures_begin_with_their_size() -> None:
    """But columns, which never grow."""
    text = TYPES.read_text(encoding="utf-8")
    structures = re.findall(r"^typedef struct (\w+) \{\n\s*(.*)$", text, re.MULTILINE)
    assert len(structures) > 10
    faults = [
        name
        for name, first in structures
        if not name.endswith("_column") and first != "size_t struct_bytes;"
    ]
    assert not faults
