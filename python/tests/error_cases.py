"""The cases of bad input: what is wrong, how it is prepared, what is tried.

Invariant: a case prepares and tries in the working directory, and undoes `during` by itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import rocks_error_cases
from error_preparations import (
    IN_A_TRANSACTION,
    Prepare,
    a_socket,
    as_nobody,
    cut,
    cut_off_repair,
    cut_snapshot,
    damaged_store,
    exported_once,
    files_end_at,
    flip,
    flip_both_roots,
    flip_entry,
    flip_record,
    flip_slot,
    gz_of_pool,
    held,
    nothing,
    older_log_directory,
    open_store,
    random_bytes,
    snapshot,
    tar,
    text,
    two_logs,
    version,
    zero_head,
)


@dataclass(frozen=True)
class Case:
    what: str  # is wrong
    tried: str  # a command line, or Python
    prepare: Prepare = nothing
    during: Prepare = nothing  # undone before what is there is compared
    shell: bool = False  # run by a shell, or by a Python of its own
    stores: bool = False  # the rest, which is good
    gpu: bool = True  # says the same on a machine with a GPU
    rocks: bool = False  # needs RocksDB in this build

    @property
    def is_command(self) -> bool:
        return self.tried.startswith("perdure ")


STORE = open_store()
TEXT = open_store(path="text.pool")
ROWS = "key,value\n300," + "a" * 16 + "\n"
GOOD = "".join(f"{key}," + "a" * 16 + "\n" for key in range(300, 310))
CASES: dict[str, list[Case]] = {
    "Where a pool should be": [
        Case("nothing is there", "perdure get missing.pool 7"),
        Case("a directory", "perdure stats ."),
        Case("a FIFO", "perdure get pipe 7", lambda stack: os.mkfifo("pipe")),
        Case("a device", "perdure get /dev/null 7"),
        Case("a socket", "perdure get socket 7", a_socket),
        Case("a symbolic link", "perdure get link 7", lambda _: os.symlink("table.pool", "link")),
        Case("a file in the place of a directory", "perdure get table.pool/part 7"),
        Case("an empty path", "perdure get '' 7"),
        Case("a path that is no UTF-8", r"perdure.open(b'table\xff.pool')"),
        Case("no permission to read", "perdure get table.pool 7", during=as_nobody("table.pool")),
        Case("no permission to write", "perdure create table2.pool", during=as_nobody(".")),
        Case("no such directory", "perdure create nowhere/table.pool"),
        Case("open for writing in another process", "perdure get table.pool 7", held(False)),
        Case(
            "a live look while it is changed", "perdure stats table.pool --live", IN_A_TRANSACTION
        ),
        Case("a live look that is to repair", "perdure verify table.pool --live --repair"),
        Case("a live look at a Dash index", "perdure stats dash.pool --live"),
        Case("a live view without a pause", "perdure top table.pool --interval 0"),
        Case("a live view of nothing", "perdure top missing.pool --once"),
        Case(
            "open for reading in another process",
            "perdure put table.pool 7 0123456789abcdef",
            held(True),
        ),
        Case("a pool that died with its process", "perdure get memfd:table 7"),
    ],
    "What is no pool, or no whole one": [
        Case(
            "a text",
            "perdure stats letter.txt",
            text("letter.txt", "Dear Sir, this is no pool of yours.\n" * 900),
        ),
        Case("a short text", "perdure stats letter.txt", text("letter.txt", "Dear Sir,\n")),
        Case("random bytes", "perdure stats noise", random_bytes),
        Case("a compressed pool", "perdure stats table.pool.gz", gz_of_pool),
        Case("a snapshot", "perdure stats snapshot", snapshot),
        Case("an empty file", "perdure stats table.pool", cut(0)),
        Case("the first 100 bytes of a pool", "perdure stats table.pool", cut(100)),
        Case("the first 1000 bytes of a pool", "perdure stats table.pool", cut(1000)),
        Case(
            "half a pool",
            "perdure stats table.pool",
            lambda stack: cut(os.path.getsize("table.pool") // 2)(stack),
        ),
        Case(
            "a pool without its last byte",
            "perdure stats table.pool",
            lambda stack: cut(os.path.getsize("table.pool") - 1)(stack),
        ),
        Case("a pool whose head was overwritten", "perdure stats table.pool", zero_head),
        Case("a pool of an older version", "perdure stats table.pool", version(2)),
        Case("a pool of another version", "perdure stats table.pool", version(9)),
        Case("a damaged byte in the header", "perdure get table.pool 7", flip(60)),
        Case("damaged bytes in both roots", "perdure get table.pool 7", flip_both_roots),
        Case("a damaged byte in the index", "perdure get table.pool 7", flip_slot),
        Case("a damaged byte in a log of entries", "perdure get log.pool 7", flip_entry),
        Case("a damaged byte in a record that is sought", "perdure get table.pool 42", flip_record),
        Case("a damaged byte in a record", "perdure verify table.pool", flip_record),
        Case("a repair that was cut off", "perdure get log.pool 7", cut_off_repair),
    ],
    "Making a pool": [
        Case("a pool is there", "perdure create table.pool"),
        Case(
            "a file of another kind is there",
            "perdure create rows.csv --overwrite",
            text("rows.csv", ROWS),
        ),
        Case("keys of no length", "perdure create new.pool --key-bytes 0"),
        Case("keys that are too long", "perdure create new.pool --key-bytes 1000"),
        Case("values of no number", "perdure create new.pool --value-bytes many"),
        Case("values that are too long", "perdure create new.pool --value-bytes 10000000"),
        Case("no records", "perdure create new.pool --records 0"),
        Case("an unknown index", "perdure create new.pool --index rtree"),
        Case("logs for an index without", "perdure create new.pool --values log"),
        Case("a shape that is none", "perdure create new.pool --shape 2x2x8"),
        Case("a shape that is too large", "perdure create new.pool --shape 4L-4H-8S"),
        Case("a size that is none", "perdure create new.pool --max-bytes lots"),
        Case("a size that is too small", "perdure create new.pool --max-bytes 4KiB"),
        Case("a full disk", "perdure create new.pool", during=files_end_at(1 << 20)),
        Case("permission bits that are none", "perdure create new.pool --mode rw"),
        Case("permission bits that lock the owner out", "perdure create new.pool --mode 0077"),
        Case("no place for the log", "perdure create new.pool --durability power"),
        Case("a log for nothing", "perdure create new.pool --log-dir log"),
        Case("a log size for nothing", "perdure create new.pool --log-bytes 1MiB"),
        Case(
            "durability power without a file",
            "perdure create memfd:new --durability power --log-dir log",
        ),
        Case("another pool's log", "perdure stats a.pool --log-dir log-b", two_logs),
        Case("no log where one is needed", "perdure stats a.pool", two_logs),
        Case(
            "a pool's log, as an earlier close left it",
            "perdure stats power.pool --log-dir log",
            older_log_directory,
        ),
    ],
    "Keys, values and options": [
        Case("a key that is not there", "perdure get table.pool 700"),
        Case("a word where keys are numbers", "perdure get table.pool abc"),
        Case("a number that is too large", "perdure get table.pool 18446744073709551616"),
        Case("too few bytes of hex", "perdure get table.pool hex:12"),
        Case("hex that is none", "perdure get table.pool hex:xy"),
        Case("a value that is too short", "perdure put table.pool 7 short"),
        Case("no key", "perdure get table.pool"),
        Case("a device that is none", "perdure get table.pool 7 --device tpu"),
        Case(
            "a device that this machine lacks", "perdure get table.pool 7 --device cuda", gpu=False
        ),
        Case("a format that is none", "perdure get table.pool 7 --format xml"),
        Case("a limit of 0", "perdure scan table.pool --limit 0"),
        Case("an unknown option", "perdure scan table.pool --lines 7"),
        Case("an unknown command", "perdure fetch table.pool 7"),
    ],
    "Files in and out": [
        Case("no such file", "perdure load table.pool missing.csv"),
        Case("a directory", "perdure load table.pool ."),
        Case(
            "an archive",
            "perdure load table.pool rows.tar",
            lambda stack: (text("rows.csv", ROWS)(stack), tar(stack)),
        ),
        Case(
            "a quote that does not close",
            "perdure load table.pool rows.csv",
            text("rows.csv", f'key,value\n{GOOD}310,"aaaaaaaaaaaaaaa\n'),
            stores=True,
        ),
        Case(
            "a row of the wrong length",
            "perdure load table.pool rows.csv",
            text("rows.csv", f"key,value\n{GOOD}310,a,b,c\n"),
            stores=True,
        ),
        Case(
            "a cell that is no number",
            "perdure load table.pool rows.csv",
            text("rows.csv", f"key,value\n{GOOD}3l0,{'a' * 16}\n"),
            stores=True,
        ),
        Case(
            "a value of the wrong length",
            "perdure load table.pool rows.csv",
            text("rows.csv", f"key,value\n{GOOD}310,short\n"),
            stores=True,
        ),
        Case(
            "a single row, with a quote that does not close",
            "perdure load table.pool rows.csv",
            text("rows.csv", 'key,value\n300,"aaaaaaaaaaaaaaa\n'),
        ),
        Case(
            "a column of an unknown type",
            "perdure load table.pool rows.csv",
            text("rows.csv", f"key:uint65,value\n{GOOD}"),
        ),
        Case(
            "a column that is not there",
            "perdure load table.pool rows.csv --key id",
            text("rows.csv", ROWS),
        ),
        Case(
            "values of the wrong length",
            "perdure load table.pool rows.csv",
            text("rows.csv", "key,value\n300,short\n"),
        ),
        Case(
            "a file of what is no JSON",
            "perdure load table.pool rows.jsonl",
            text("rows.jsonl", "{key: 300}\n"),
        ),
        Case(
            "a file of what is no Parquet",
            "perdure load table.pool rows.parquet",
            text("rows.parquet", ROWS),
        ),
        Case(
            "an export onto the pool itself",
            "perdure export table.pool table.pool --format csv --force",
        ),
        Case("an export into an unknown format", "perdure export table.pool rows.xls"),
        Case(
            "an export onto a file that is there",
            "perdure export table.pool rows.csv",
            text("rows.csv", ROWS),
        ),
        Case(
            "an export onto a file of another kind",
            "perdure export table.pool notes.csv --overwrite",
            text("notes.csv", "Dear Sir,\n"),
        ),
        Case(
            "an export into a directory without permission",
            "perdure export table.pool rows.csv",
            exported_once,
            during=as_nobody("."),
        ),
        Case("a snapshot onto the pool itself", "perdure snapshot table.pool table.pool --force"),
        Case(
            "an export to a full disk",
            "perdure export table.pool rows.csv",
            during=files_end_at(1000),
        ),
        Case(
            "a snapshot to a full disk",
            "perdure snapshot table.pool snapshot",
            during=files_end_at(1 << 20),
        ),
        Case(
            "JSON to a full disk",
            "perdure stats table.pool --json stats.json",
            during=files_end_at(100),
        ),
        Case("JSON into no directory", "perdure stats table.pool --json nowhere/stats.json"),
        Case("JSON onto the pool", "perdure stats table.pool --json table.pool --overwrite"),
        Case("standard output is full", "perdure scan table.pool > /dev/full", shell=True),
        Case(
            "a snapshot onto a file that is there",
            "perdure snapshot table.pool rows.csv --overwrite",
            text("rows.csv", ROWS),
        ),
        Case(
            "a snapshot that is none", "perdure restore rows.csv new.pool", text("rows.csv", ROWS)
        ),
        Case("half a snapshot", "perdure restore snapshot new.pool", cut_snapshot),
        Case(
            "a trace of an unknown format",
            "perdure replay letter.txt --pool new.pool",
            text("letter.txt", "Dear Sir, this is no trace.\n" * 9),
        ),
        Case(
            "a format of traces that is none",
            "perdure replay trace.csv --format vhs --pool new.pool",
            text("trace.csv", "#time,object,size\n1,2,100\n"),
        ),
        Case(
            "a torn trace",
            "perdure replay trace.bin --format u64le --pool new.pool",
            lambda stack: Path("trace.bin").write_bytes(b"123456789"),
        ),
    ],
    "Python": [
        Case("nothing is there", 'perdure.open("missing.pool")'),
        Case("a pool is there", 'perdure.create("table.pool", 8, 16)'),
        Case("a size that is none", 'perdure.create("new.pool", key_bytes=-8)'),
        Case("a device that is none", 'perdure.open("table.pool", device="tpu")'),
        Case(
            "durability power without a file",
            'perdure.create("memfd:new", durability="power", log_dir="log")',
        ),
        Case("a key that is not there", "store[700]", STORE),
        Case("keys that are fractions", "store.get(np.array([1.5]))", STORE),
        Case("keys of another length", 'store.get([b"ten bytes."])', STORE),
        Case("a number that is too large", "store.get([2**64])", STORE),
        Case("keys in two dimensions", "store.get(np.zeros((2, 2), np.uint64))", STORE),
        Case("texts where keys are numbers", 'store.get(["seven"])', STORE),
        Case("a key that is too long", 'store[b"long" * 100000] = b"2"', TEXT),
        Case("values of another length", "store.put([1], [b'short'])", STORE),
        Case(
            "values of another shape",
            "store.put(np.arange(3), np.zeros((3, 5), np.float32))",
            STORE,
        ),
        Case(
            "more keys than values", "store.put(np.arange(4), np.zeros((3, 16), np.uint8))", STORE
        ),
        Case("an operation that is none", "store.update([1], [bytes(16)], op='sub')", STORE),
        Case("arithmetic of texts", "store.update([b'a'], [b'text'], op='add')", TEXT),
        Case("a type that values do not fit", "store.get([1], dtype=np.dtype('V5'))", STORE),
        Case("a damaged byte in a record", "store.get([41, 42])", damaged_store),
        Case(
            "a write to what is read only",
            "store.put([1], [bytes(16)])",
            open_store(read_only=True),
        ),
        Case("a closed store", "store.close(); store.get([1])", STORE),
        Case("a step inside a transaction", "with store.transaction(), store.step(1): pass", STORE),
        Case(
            "a transaction of Dash", "with store.transaction(): pass", open_store(path="dash.pool")
        ),
        Case("a commit to take back where there is none", "store.revert()", STORE),
        Case("a cache that was not asked for", "store.load_cache()", STORE),
        Case("a snapshot onto the pool itself", 'store.snapshot("table.pool", force=True)', STORE),
        Case(
            "a forked child",
            'store = perdure.open("table.pool")\nif os.fork() == 0: store.get([1])\nelse: '
            "os.wait()",
            shell=True,
        ),
    ],
    "Databases of RocksDB": [
        *(Case(*case, rocks=True) for case in rocks_error_cases.CASES),
        *(Case(*case, rocks=True, gpu=False) for case in rocks_error_cases.WITHOUT_GPU),
    ],
}
ALL = [(group, case) for group, cases in CASES.items() for case in cases]
