"""What the commands of `perdure rocks` have in common: their options, and how they open a
database.

Invariants: no command but `create` and `load` makes a database; those that only read change no
file of it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.cli_support import Failure, JsonResult

if TYPE_CHECKING:
    from perdure.rocks import Database


class RocksDevice(StrEnum):
    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class RocksDurability(StrEnum):
    process = "process"
    power = "power"


DatabaseArgument = Annotated[
    str, typer.Argument(metavar="DB", help="The database's directory, for example /data/db.")
]
KeyInDatabase = Annotated[
    str,
    typer.Argument(
        metavar="KEY",
        help="Text, or hex:..., text:..., int:...; with --key-bytes 1, 2, 4 or 8 a whole number.",
    ),
]
FamilyOption = Annotated[str, typer.Option("--family", metavar="NAME", help="The column family.")]
OptionsOption = Annotated[
    str | None,
    typer.Option(
        "--options",
        metavar="TEXT",
        help="RocksDB's own options, as NAME=VALUE;NAME=VALUE.",
    ),
]
MergeOperatorOption = Annotated[
    str | None,
    typer.Option(
        "--merge-operator", metavar="NAME", help="For example uint64add, stringappend or max."
    ),
]
RocksDeviceOption = Annotated[
    RocksDevice, typer.Option("--device", help="Who sorts and searches memtables.")
]
LogDirOption = Annotated[
    str | None,
    typer.Option(
        "--log-dir",
        metavar="DIR",
        help="Directory of the memtables' log; DB.gwal, of durability power DB.power.",
    ),
]
DurabilityOption = Annotated[
    RocksDurability,
    typer.Option("--durability", help="What a write outlives: a killed process, or a power loss."),
]
KeyBytesOption = Annotated[
    str, typer.Option("--key-bytes", metavar="N|var", help="Length of every key.")
]
ValueBytesOption = Annotated[
    str, typer.Option("--value-bytes", metavar="N|var", help="Length of every value.")
]
BeginOption = Annotated[
    str | None, typer.Option("--begin", metavar="KEY", help="The first key to print.")
]
EndOption = Annotated[
    str | None, typer.Option("--end", metavar="KEY", help="The key before which it ends.")
]
PrefixOption = Annotated[
    str | None, typer.Option("--prefix", metavar="KEY", help="Only keys that begin so.")
]


def result_for(
    db: str,
    log_dir: str | None,
    json_file: str | None,
    overwrite: bool,
    *inputs: str,
    force: bool | None = None,
) -> JsonResult:
    """Where the JSON of a command goes."""
    if json_file is not None and json_file != "-":
        check_outside("--json", json_file, db, log_dir)
    return JsonResult(json_file, overwrite, db, *inputs, force=force)


def check_outside(option: str, file: str, db: str, log_dir: str | None) -> None:
    """A database's directories are its own: whatever file is in them, or comes to be, is no
    output."""
    parent = Path(file).resolve().parent
    for own in (db, *([log_dir] if log_dir else [f"{db}.gwal", f"{db}.power"])):
        if parent.is_relative_to(Path(own).resolve()):
            raise Failure(
                f"{option} {file}".strip() + f": lies in {own}, which this command works on; name "
                "another file"
            )


def width(option: str, text: str) -> int | None:
    if text == "var":
        return None
    if not text.isdecimal() or int(text) == 0:
        raise Failure(f"{option} {text}: write a number of bytes, or var for varying length")
    return int(text)


def opened(
    db: str,
    device: RocksDevice,
    log_dir: str | None,
    options: str | None,
    merge_operator: str | None,
    *,
    durability: RocksDurability = RocksDurability.process,
    families: list[str] | None = None,
    create: bool = False,
    is_new: bool = False,
    read_only: bool = False,
) -> Database:
    """Opens a database; with `create` it is made where it is not there, with `is_new` it must not
    be there."""
    try:
        from perdure import rocks
        from perdure._rocks_options import texts_of
    except ImportError as error:
        raise Failure(str(error)) from None
    texts = texts_of("--options", options)
    if is_new:
        texts["error_if_exists"] = "true"
    return rocks.open(
        db,
        options=texts,
        merge_operator=merge_operator,
        create=create or is_new,
        read_only=read_only,
        families=families,
        device=device.value,
        log_dir=None if durability is RocksDurability.power else log_dir,
        durability=durability.value,
        power_log_dir=log_dir if durability is RocksDurability.power else None,
    )
