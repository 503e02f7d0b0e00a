"""Keys and values as text on the command line.

`hex:0a0b`, `text:abc` and `int:42` say what they are; without a prefix, a whole number of either
sign, decimal or as 0x..., stands for 1, 2, 4 or 8 little-endian bytes where the pool's keys (or
values) have that length, and anything else is its UTF-8 bytes. Invariant: `parse(show(x)) == x`.
"""

from __future__ import annotations

import re

from perdure._single import INTEGER_WIDTHS
from perdure.cli_support import Failure, plural

_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)")


def parse(what: str, text: str, width: int | None) -> bytes:
    """The bytes of a key or value; `what` is KEY or VALUE, `width` None where lengths vary."""
    octets = _octets(what, text, width)
    if width is not None and len(octets) != width:
        raise Failure(
            f"{what} {text}: has {plural(len(octets), 'byte')}, but this pool's have {width}; "
            "write hex: and"
            f" {2 * width} digits"
        )
    return octets


def _octets(what: str, text: str, width: int | None) -> bytes:
    form, colon, rest = text.partition(":")
    if colon and form == "hex":
        return _from_hex(what, rest)
    if colon and form == "text":
        return rest.encode()
    if colon and form == "int":
        return _from_integer(what, rest, 8 if width is None else width)
    if width in INTEGER_WIDTHS:
        return _from_integer(what, text, width)
    return text.encode()


def _from_hex(what: str, digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise Failure(f"{what} hex:{digits}: not pairs of hexadecimal digits") from None


def _from_integer(what: str, digits: str, width: int) -> bytes:
    if not _INTEGER.fullmatch(digits):
        raise Failure(
            f"{what} {digits}: not a whole number; this pool's have {width} bytes, so write one "
            "(42, -5,"
            " 0x2a), or hex: or text:"
        )
    number = int(digits, 16 if "x" in digits.lower() else 10)
    if not -(1 << (8 * width - 1)) <= number < 1 << (8 * width):
        raise Failure(f"{what} {digits}: does not fit in {width} bytes")
    return (number & ((1 << (8 * width)) - 1)).to_bytes(width, "little")


def decodes(octets: bytes) -> bool:
    """Whether they are UTF-8."""
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def show(octets: bytes, width: int | None, signed: bool = False) -> str:
    if width in INTEGER_WIDTHS:
        return str(int.from_bytes(octets, "little", signed=signed))
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return f"hex:{octets.hex()}"
    if not text.isprintable():
        return f"hex:{octets.hex()}"
    return f"text:{text}" if re.match(r"(hex|text|int):", text) else text
