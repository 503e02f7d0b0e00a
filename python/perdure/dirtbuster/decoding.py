"""Which instructions store, told by Capstone.

perf's clock interrupts a program after an instruction has ended, so the instruction before the one
that it names was running; but one that repeats (rep stos) is interrupted in the middle, and names
itself. Invariant: what cannot be decoded is no store.
"""

from __future__ import annotations

from functools import cache

import capstone
from capstone import x86_const

from perdure.dirtbuster import objects

_LONGEST = 15  # bytes of an instruction
_NEAR = 1 << 16  # bytes of a function that are decoded at once
_JUMPS = ("jmp", "ret", "hlt", "ud2")  # nothing falls through these
_ALWAYS = ("push", "call", "enter")
_VECTOR_READS = ("vldmxcsr", "vgatherpf", "vscatterpf", "verr", "verw", "vmptrld", "vmclear")


@cache
def _machine() -> capstone.Cs:
    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    machine.detail = True
    return machine


def _stores(instruction: capstone.CsInsn) -> bool:
    name = instruction.mnemonic.split()[-1]
    if name.startswith(_ALWAYS):
        return True
    memory = [one for one in instruction.operands if one.type == x86_const.X86_OP_MEM]
    if any(one.access & capstone.CS_AC_WRITE for one in memory):
        return True
    # Capstone calls the memory that vector instructions write read. It is their first operand, as
    # that of no other vector instruction but those of the list.
    first = instruction.operands[0] if instruction.operands else None
    return (
        first is not None
        and first.type == x86_const.X86_OP_MEM
        and name.startswith(("v", "mov"))
        and not name.startswith(_VECTOR_READS)
    )


@cache
def is_store(path: str, offset: int) -> bool:
    """Whether a store was running when perf's clock found the program at this offset of a file."""
    code = objects.load(path)
    if code is None:
        return False
    here = next(_machine().disasm(code.bytes[offset : offset + _LONGEST], offset, 1), None)
    if here is None:
        return False
    if here.prefix[0] in (x86_const.X86_PREFIX_REP, x86_const.X86_PREFIX_REPNE) and any(
        part in here.mnemonic for part in ("stos", "movs", "cmps", "scas", "lods")
    ):
        return _stores(here)
    before = _before(code, offset)
    return _stores(before or here)


def _before(code: objects.Object, offset: int) -> capstone.CsInsn | None:
    """The instruction that falls through to this one, or None at the begin of a function and after
    a jump."""
    found = code.function_at(offset)
    start = code.offset_of(found[0]) if found else None
    if found is None or start is None:
        return None
    before = _ends(code, *_near(start, start + found[1] - found[0], offset)).get(offset)
    return None if before is None else next(_machine().disasm(code.bytes[before:offset], before, 1))


def _near(start: int, end: int, offset: int) -> tuple[int, int]:
    """The part of a function to decode: all of it, but of a long one only what is around the
    offset. Libraries in assembly have megabytes without an entry in the table of functions. Such a
    part may begin within an instruction; a few instructions on, decoding is in step with the code.
    """
    if offset - start < 2 * _NEAR:
        return start, min(end, start + 2 * _NEAR)
    first = (offset // _NEAR - 1) * _NEAR
    return first, min(end, first + 2 * _NEAR)


@cache
def _ends(code: objects.Object, start: int, end: int) -> dict[int, int]:
    """Where each instruction of a function that falls through ends, and where it begins."""
    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    machine.skipdata = True  # goes on behind what is no instruction
    return {
        address + size: address
        for address, size, name, _ in machine.disasm_lite(code.bytes[start:end], start)
        if not name.startswith((*_JUMPS, ".byte"))
    }


@cache
def is_non_temporal(path: str, address: int) -> bool:
    code = objects.load(path)
    offset = code.offset_of(address) if code else None
    if code is None or offset is None:
        return False
    one = next(_machine().disasm_lite(code.bytes[offset : offset + _LONGEST], offset, 1), None)
    return one is not None and one[2].removeprefix("v").startswith("movnt")
