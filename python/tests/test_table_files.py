"""load and export of files as people have them: delimiters, compression, headers, mixed types."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import feather
from table_rows import contents, fill, octets

# --- files as they are --------------------------------------------------------------------------

ROWS = {octets(1): b"one", octets(2): b"two", octets(3): b"three"}


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("header", ["id{}name\n", "# id{}name\n", ""])
def test_delimiters_and_headers_are_told_from_the_file(cli, pool, tmp_path, delimiter, header):
    text = header.format(delimiter) + "".join(
        f"{n}{delimiter}{w}\n" for n, w in enumerate(("one", "two"), 1)
    )
    (tmp_path / "t.data").write_text(text + f"3{delimiter}three\n")
    cli("create", pool)
    loaded = cli("load", pool, tmp_path / "t.data", "--json", "-")
    assert loaded.status == 0 and contents(pool) == ROWS
    assert ("a header" if header else "no header") in loaded.json()["files"][0]["format"]


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
COMPRESS["zst"] = lambda data: pa.compress(data, "zstd", asbytes=True)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_whole_and_cut_off(cli, pool, tmp_path, suffix):
    lines = "".join(f"{number},{hash((number, 1))}\n" for number in range(20_000)).encode()
    packed = COMPRESS[suffix](lines)
    (tmp_path / f"t.csv.{suffix}").write_bytes(packed)
    cli("create", pool, "--value-bytes", 8)
    assert (
        cli("load", pool, tmp_path / f"t.csv.{suffix}").status == 0
        and len(contents(pool)) == 20_000
    )
    (tmp_path / "cut").write_bytes(packed[: len(packed) // 2])
    cut = cli("load", pool, tmp_path / "cut")
    assert cut.status in (1, 2) and "cut: " in cut.err


def test_standard_input_globs_and_several_files(cli, pool, tmp_path):
    cli("create", pool)
    run = [sys.executable, "-m", "perdure.cli", "load", pool, "-"]
    assert subprocess.run(run, input=b"1;one\n2;two\n", capture_output=True, check=True).stdout
    (tmp_path / "a.csv").write_text("3,three\n")
    (tmp_path / "b.csv").write_text("3,three\n4,four,5\n3,three\n")
    loaded = cli("load", pool, tmp_path / "*.csv", "--json", "-")
    assert loaded.status == 1 and contents(pool) == ROWS
    assert loaded.json()["replaced"] == 2 and len(loaded.json()["files"]) == 2
    assert loaded.json()["rejected_rows"] == [
        {"file": str(tmp_path / "b.csv"), "line": 2, "why": "3 columns instead of 2"}
    ]
    assert cli("load", pool, tmp_path / "*.none").status == 2


def test_a_column_of_keys_alone(cli, pool, tmp_path):
    (tmp_path / "words").write_text("Apfel\nÄpfel\nit's\n")
    cli("create", pool, "--key-bytes", "var")
    assert cli("load", pool, tmp_path / "words").status == 0
    assert contents(pool) == {word.encode(): b"" for word in ("Apfel", "Äpfel", "it's")}


MIXED = 'id,name,share,zip\n1,"a ""b""\n\\c",0.5,012\n2,,1e3,9\n3,ü\\,,7\n'
OBJECTS = [
    {"name": 'a "b"\n\\c', "share": 0.5, "zip": "012"},
    {"name": "", "share": 1000, "zip": "9"},
    {"name": "ü\\", "share": None, "zip": "7"},
]


@pytest.mark.parametrize("form", ["auto", "json", "arrow"])
def test_rows_of_mixed_types(cli, pool, tmp_path, form):
    (tmp_path / "t.csv").write_text(MIXED)
    cli("create", pool)
    assert cli("load", pool, tmp_path / "t.csv", "--rows", form).status == 0
    found = [contents(pool)[octets(key)] for key in (1, 2, 3)]
    if form == "arrow":
        assert [pa.ipc.open_stream(value).read_all().to_pylist()[0] for value in found] == OBJECTS
    else:
        assert [json.loads(value) for value in found] == OBJECTS
    cli("create", pool, "--value-bytes", 16, "--overwrite")
    refused = cli("load", pool, tmp_path / "t.csv", "--rows", "json")
    assert (
        refused.status == 2
        and "perdure create NEWPOOL --key-bytes 8 --value-bytes var" in refused.err
    )


def test_a_quote_that_does_not_close_spoils_its_line_alone(cli, pool, tmp_path):
    text = '1,one\n5,"open\n2,"two"\n6,x"y\n3,three\n,"\n'
    (tmp_path / "t.csv").write_text(text)
    cli("create", pool)
    loaded = cli("load", pool, tmp_path / "t.csv", "--rejects", tmp_path / "bad", "--json", "-")
    assert loaded.status == 1 and contents(pool) == ROWS | {octets(6): b'x"y'}
    assert loaded.json()["rejected_rows"] == [
        {"line": 2, "why": "a quote that is not closed"},
        {"line": 6, "why": "a quote that is not closed"},
    ]
    with open(tmp_path / "bad", newline="") as file:
        told = list(csv.reader(file))
    assert told[0] == ["file", "number", "why", "row"]
    assert [row[1:] for row in told[1:]] == [
        ["2", "a quote that is not closed", '5,"open'],
        ["6", "a quote that is not closed", ',"'],
    ]
    assert cli("load", pool, tmp_path / "t.csv", "--rejects", tmp_path / "bad").status == 2


def test_json_lines_and_arrow(cli, pool, tmp_path):
    lines = [
        '{"id":1,"v":"one"}',
        '{"id":2,"v":',
        '{"id":2,"v":"two"}',
        '{"id":"x","v":1}',
        '{"id":3,"v":"three"}',
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    cli("create", pool)
    loaded = cli("load", pool, tmp_path / "t.jsonl", "--json", "-")
    assert loaded.status == 1 and contents(pool) == ROWS
    assert [one["line"] for one in loaded.json()["rejected_rows"]] == [2, 4]
    table = pa.table({"id": [1, 2, 3], "v": pa.array(["one", "two", "three"]).dictionary_encode()})
    feather.write_feather(table, tmp_path / "t.feather")
    cli("create", pool, "--overwrite")
    assert cli("load", pool, tmp_path / "t.feather").status == 0 and contents(pool) == ROWS


def test_columns_and_sizes_that_do_not_fit_are_told(cli, pool, tmp_path):
    (tmp_path / "t.csv").write_text("city,id,x\nParis,1,0.5\nRom,2,1\n")
    cli("create", pool, "--value-bytes", 8)
    wrong = cli("load", pool, tmp_path / "t.csv", "--value-columns", "x")
    assert wrong.status == 2 and "column city holds no keys" in wrong.err
    assert "city (text), id (int64), x (float64)" in wrong.err
    sizes = cli("load", pool, tmp_path / "t.csv", "--key", "id", "--value-columns", "x,id")
    assert "x float64, id int64 have 16 bytes, but this pool's values have 8" in sizes.err
    assert "perdure create NEWPOOL --key-bytes 8 --value-bytes 16" in sizes.err
    text = cli("load", pool, tmp_path / "t.csv", "--key", "id", "--value-columns", "city:text")
    assert text.status == 2 and "column city (text) has no value of this pool's 8 bytes" in text.err
    assert contents(pool) == {}


@pytest.mark.parametrize("content", [b"\0\1\2" * 100, "1,é\n".encode("utf-16"), b"\n \n"])
def test_what_is_no_file_of_rows(cli, pool, tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    cli("create", pool)
    assert cli("load", pool, tmp_path / "t").status == 2


@pytest.mark.parametrize(
    "suffix", ["tsv", "jsonl", "arrow", "arrows", "csv.gz", "tsv.xz", "jsonl.zst", "csv.bz2"]
)
@pytest.mark.parametrize("sizes", [(8, 16), (None, None), (20, 5)])
def test_round_trip_of_formats(cli, pool, tmp_path, sizes, suffix):
    truth = fill(pool, *sizes)
    file = tmp_path / f"t.{suffix}"
    assert cli("export", pool, file).status == 0
    again = cli("export", pool, file)
    assert again.status == 2 and cli("export", pool, file, "--overwrite").status == 0
    cli(
        "create",
        pool,
        "--overwrite",
        *("--key-bytes", sizes[0] or "var", "--value-bytes", sizes[1] or "var"),
    )
    loaded = cli("load", pool, file)
    assert loaded.status == 0, loaded.err
    assert contents(pool) == truth


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "jsonl"])
def test_export_to_standard_output(cli, pool, tmp_path, form):
    truth = fill(pool, 8, 16)
    run = [sys.executable, "-m", "perdure.cli"]
    piped = subprocess.run(
        [*run, "export", pool, "-", "--format", form], capture_output=True, check=True
    ).stdout
    cli("create", pool, "--overwrite", "--value-bytes", 16)
    subprocess.run(
        [*run, "load", pool, "-", "--format", form], input=piped, capture_output=True, check=True
    )
    assert contents(pool) == truth
