"""load and export: Parquet and CSV both ways, and files with bad rows."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import perdure
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_rows import contents, fill, octets

# --- round trips --------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("key_bytes", "value_bytes"), [(8, 16), (4, 8), (20, 5), (None, None), (8, None), (None, 16)]
)
def test_round_trip(cli, pool, tmp_path, key_bytes, value_bytes, suffix):
    truth = fill(pool, key_bytes, value_bytes)
    file = tmp_path / f"table.{suffix}"
    exported = cli("export", pool, file, "--json", "-")
    assert exported.status == 0 and exported.json()["records"] == 200
    sizes = ["--key-bytes", key_bytes or "var", "--value-bytes", value_bytes or "var"]
    assert cli("create", pool, "--overwrite", *sizes).status == 0
    loaded = cli("load", pool, file, "--json", "-")
    assert loaded.status == 0, loaded.err
    assert loaded.json()["stored"] == 200 and loaded.json()["rejected"] == 0
    assert contents(pool) == truth


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_round_trip_of_packed_columns(cli, pool, tmp_path, suffix):
    truth = fill(pool, 8, 16)
    truth = {
        key: value[:8] + struct.pack("<d", 1.5) for key, value in truth.items()
    }  # no NaN: its text has no payload
    with perdure.open(pool) as store:
        store.put(list(truth), list(truth.values()))
    file = tmp_path / f"table.{suffix}"
    columns = "a:int32,b:uint16,c:uint8,d:int8,e:float64"
    assert cli("export", pool, file, "--value-columns", columns).status == 0
    assert cli("create", pool, "--overwrite", "--value-bytes", 16).status == 0
    assert cli("load", pool, file).status == 0
    assert contents(pool) == truth


@pytest.mark.parametrize("form", ["hex", "text"])
def test_round_trip_of_forms(cli, pool, tmp_path, form):
    truth = fill(pool, None, None)
    file = tmp_path / "table.csv"
    assert cli("export", pool, file, "--key-format", form, "--value-format", form).status == 0
    assert file.read_text().startswith(f'"key:{form}","value:{form}"')
    cli("create", pool, "--overwrite", "--key-bytes", "var")
    assert cli("load", pool, file).status == 0
    assert contents(pool) == truth


def test_line_breaks_in_cells(cli, pool, tmp_path):
    file = tmp_path / "table.csv"
    cli("create", pool, "--key-bytes", "var")
    cli("put", pool, "poem", "text:two\nlines")
    cli("export", pool, file)
    cli("create", pool, "--key-bytes", "var", "--overwrite")
    assert cli("load", pool, file, "--multiline").status == 0
    assert contents(pool) == {b"poem": b"two\nlines"}


# --- loading ------------------------------------------------------------------------------------


def test_columns_of_a_parquet_file(cli, pool, tmp_path):
    table = pa.table(
        {"x": pa.array([1.5, 2.5], pa.float32()), "id": [10, -1], "y": pa.array([3, 4], pa.int32())}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    cli("create", pool, "--value-bytes", 8)
    assert cli("load", pool, tmp_path / "t.parquet", "--key-column", "id").status == 0
    assert contents(pool) == {
        octets(10): struct.pack("<fi", 1.5, 3),
        octets(-1): struct.pack("<fi", 2.5, 4),
    }
    assert (
        cli(
            "load", pool, tmp_path / "t.parquet", "--key-column", "id", "--value-columns", "y,x"
        ).status
        == 0
    )
    assert contents(pool)[octets(10)] == struct.pack("<if", 3, 1.5)
    assert (
        cli(
            "load", pool, tmp_path / "t.parquet", "--key-column", "id", "--value-columns", "y:int64"
        ).status
        == 0
    )
    assert contents(pool)[octets(10)] == struct.pack("<q", 3)


def test_csv_types_are_told_from_the_cells(cli, pool, tmp_path):
    (tmp_path / "t.csv").write_text("id,count,share\n1,2,0.5\n2,3,1\n")
    cli("create", pool, "--value-bytes", 16)
    assert cli("load", pool, tmp_path / "t.csv").status == 0
    assert contents(pool) == {
        octets(1): struct.pack("<qd", 2, 0.5),
        octets(2): struct.pack("<qd", 3, 1.0),
    }
    assert (
        cli(
            "load", pool, tmp_path / "t.csv", "--value-columns", "count:float64,share:float64"
        ).status
        == 0
    )
    assert contents(pool)[octets(1)] == struct.pack("<dd", 2, 0.5)


def test_large_keys_and_signed_keys(cli, pool, tmp_path):
    (tmp_path / "t.csv").write_text(f"id,v\n{2**64 - 1},1\n-2,2\n0x10,3\n 7 ,4\n")
    cli("create", pool, "--value-bytes", 8)
    assert cli("load", pool, tmp_path / "t.csv").status == 0
    assert contents(pool) == {
        octets(-1): octets(1),
        octets(-2): octets(2),
        octets(16): octets(3),
        octets(7): octets(4),
    }


def test_compressed_csv(cli, pool, tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"id,v\n1,2\n"))
    cli("create", pool, "--value-bytes", 8)
    assert cli("load", pool, tmp_path / "t.csv.gz").status == 0
    assert contents(pool) == {octets(1): octets(2)}


def test_other_delimiter_and_format(cli, pool, tmp_path):
    (tmp_path / "t.txt").write_text("id;v\n1;2\n")
    cli("create", pool, "--value-bytes", 8)
    assert cli("load", pool, tmp_path / "t.txt", "--delimiter", ";;").status == 2
    assert cli("load", pool, tmp_path / "t.txt", "--format", "csv", "--delimiter", ";").status == 0
    assert contents(pool) == {octets(1): octets(2)}


def test_many_blocks(cli, pool, tmp_path, monkeypatch):
    """Lines are numbered right across blocks that the parser reads ahead."""
    from perdure.tables import lines as blocks

    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1000)
    lines = [f"{number},{number}" for number in range(2, 3002)]
    bad = {10: "10", 500: "x,1", 501: "", 1500: "1,2,3", 2999: "2999,y"}
    for line, text in bad.items():
        lines[line - 2] = text
    (tmp_path / "t.csv").write_text("id,v\n" + "\n".join(lines) + "\n")
    cli("create", pool, "--value-bytes", 8)
    loaded = cli("load", pool, tmp_path / "t.csv", "--json", "-")
    assert loaded.status == 1
    assert [one["line"] for one in loaded.json()["rejected_rows"]] == [10, 500, 1500, 2999]
    assert loaded.json()["stored"] == 2995
    expected = {octets(n): octets(n) for n in range(2, 3002) if n not in bad}
    assert contents(pool) == expected


# --- bad rows and bad files ---------------------------------------------------------------------


def test_bad_lines_are_told_and_the_rest_is_loaded(cli, pool, tmp_path):
    text = (
        "id,a,b\n1,10,0.5\noops,1,2\n3,1\n\n5,x,2\n6,1,\n99999999999999999999,1,1\n,1,1\n9,90,4.5\n"
    )
    (tmp_path / "t.csv").write_text(text)
    cli("create", pool, "--value-bytes", 16)
    loaded = cli("load", pool, tmp_path / "t.csv", "--json", "-")
    assert loaded.status == 1
    assert loaded.json()["stored"] == 2 and loaded.json()["rejected"] == 6
    assert {one["line"]: one["why"] for one in loaded.json()["rejected_rows"]} == {
        3: "key: not a whole number of 8 bytes",
        4: "2 columns instead of 3",
        6: "value: a not an int64",
        7: "value: b not a float64",
        8: "key: not a whole number of 8 bytes",
        9: "key: not a whole number of 8 bytes",
    }
    assert "line 3: key: not a whole number" in loaded.err
    assert sorted(contents(pool)) == [octets(1), octets(9)]


def test_values_of_the_wrong_length(cli, pool, tmp_path):
    pq.write_table(
        pa.table({"k": [1, 2, 3], "v": [b"1234", b"12345", None]}), tmp_path / "t.parquet"
    )
    cli("create", pool, "--value-bytes", 4)
    loaded = cli("load", pool, tmp_path / "t.parquet", "--json", "-")
    assert loaded.status == 1
    assert loaded.json()["rejected_rows"] == [
        {"row": 2, "why": "value: 5 bytes instead of 4"},
        {"row": 3, "why": "value: empty"},
    ]
    assert contents(pool) == {octets(1): b"1234"}


def test_null_keys_and_keys_too_long(cli, pool, tmp_path):
    keys = pa.array(["fits", None, "k" * 70_000])
    pq.write_table(pa.table({"k": keys, "v": ["1", "2", "3"]}), tmp_path / "t.parquet")
    cli("create", pool, "--key-bytes", "var")
    loaded = cli("load", pool, tmp_path / "t.parquet", "--json", "-")
    assert loaded.status == 1
    assert loaded.json()["rejected_rows"] == [
        {"row": 2, "why": "key: empty"},
        {"row": 3, "why": "too_large"},
    ]
    assert contents(pool) == {b"fits": b"1"}


def test_damaged_row_group(cli, pool, tmp_path):
    table = pa.table({"k": np.arange(300), "v": np.random.default_rng(1).integers(0, 1 << 60, 300)})
    file = tmp_path / "t.parquet"
    pq.write_table(
        table,
        file,
        row_group_size=100,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    column = pq.ParquetFile(file).metadata.row_group(1).column(1)
    data = bytearray(file.read_bytes())
    data[column.data_page_offset : column.data_page_offset + 30] = bytes(30)
    file.write_bytes(data)
    cli("create", pool, "--value-bytes", 8)
    loaded = cli("load", pool, file, "--json", "-")
    assert loaded.status == 1
    assert loaded.json()["stored"] == 200 and loaded.json()["rejected"] == 100
    assert loaded.json()["rejected_rows"][0]["row"] == 101
    assert "row group 1 cannot be read" in loaded.json()["rejected_rows"][0]["why"]


def test_hex_cells(cli, pool, tmp_path):
    (tmp_path / "t.csv").write_text("k,v:hex\n1,00ff\n2,0x\n3,abc\n4,ABCD\n")
    cli("create", pool, "--value-bytes", 2)
    loaded = cli("load", pool, tmp_path / "t.csv", "--json", "-")
    assert [one["line"] for one in loaded.json()["rejected_rows"]] == [3, 4]
    assert contents(pool) == {octets(1): b"\x00\xff", octets(4): b"\xab\xcd"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--value-columns", "zz"], "--value-columns zz: no such column; the file has id, a, b"),
        (["--key-column", "zz"], "--key zz: no such column"),
        (
            ["--value-columns", "a"],
            "--value-columns: a int64 have 8 bytes, but this pool's values have 16",
        ),
        (["--value-columns", "a:text,b"], "--value-columns: cannot pack text or hex"),
        (["--key-format", "decimal"], "--key-format"),
        (["--format", "parquet"], "not a readable parquet file"),
        (["--device", "tpu"], "--device"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_options_that_do_not_fit(cli, pool, tmp_path, options, message):
    (tmp_path / "t.csv").write_text("id,a,b\n1,2,3\n")
    cli("create", pool, "--value-bytes", 16)
    answer = cli("load", pool, tmp_path / "t.csv", *options)
    assert answer.status == 2 and message in answer.err


def test_integers_for_keys_that_are_none(cli, pool, tmp_path):
    (tmp_path / "t.csv").write_text("id,a\n1,2\n")
    cli("create", pool, "--key-bytes", "var")
    answer = cli("load", pool, tmp_path / "t.csv", "--key-format", "int")
    assert (
        answer.status == 2 and "--key-format: integers are keys of 1, 2, 4 or 8 bytes" in answer.err
    )


def test_files_that_are_none(cli, pool, tmp_path):
    cli("create", pool, "--value-bytes", 8)
    missing = cli("load", pool, tmp_path / "no.csv")
    assert missing.status == 2 and "no.csv: no such file" in missing.err
    (tmp_path / "bad.parquet").write_text("junk")
    assert (
        "bad.parquet: not a readable parquet file"
        in cli("load", pool, tmp_path / "bad.parquet").err
    )
    (tmp_path / "empty.csv").write_text("")
    assert "empty.csv: not a readable csv file" in cli("load", pool, tmp_path / "empty.csv").err
    (tmp_path / "one.csv").write_text("id\n1\n")
    assert "1 column; it needs one for keys" in cli("load", pool, tmp_path / "one.csv").err
    (tmp_path / "head.csv").write_text("id,v:int64\n")
    assert cli("load", pool, tmp_path / "head.csv").status == 0


def test_full_pool(cli, pool, tmp_path):
    rows = 60_000
    pq.write_table(
        pa.table({"k": np.arange(rows), "v": [bytes(128)] * rows}), tmp_path / "t.parquet"
    )
    cli("create", pool, "--value-bytes", 128, "--records", 100, "--max-bytes", "4MiB")
    answer = cli("load", pool, tmp_path / "t.parquet")
    assert answer.status == 2 and pool in answer.err and "loaded before this batch" in answer.err
    assert cli("verify", pool).status == 0


def test_export_leaves_nothing_half_done(cli, pool, tmp_path):
    cli("create", pool, "--key-bytes", "var")
    cli("put", pool, "k", "hex:ff")
    file = tmp_path / "t.csv"
    file.write_text("what was there before")
    answer = cli("export", pool, file, "--force")
    assert answer.status == 2 and "--value-format: a value is not UTF-8" in answer.err
    assert file.read_text() == "what was there before"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    assert cli("export", pool, tmp_path / "none" / "t.csv").status == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--value-columns", "a"], "--value-columns a: write NAME:TYPE"),
        (["--value-columns", "a:int64"], "a:int64 have 8 bytes, but this pool's values have 16 B"),
        (["--value-format", "int"], "--value-format int: this pool's values have 16 B"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_export_options_that_do_not_fit(cli, pool, tmp_path, options, message):
    fill(pool, 8, 16)
    answer = cli("export", pool, tmp_path / "t.csv", *options)
    assert answer.status == 2 and message in answer.err


def test_bytes_that_are_no_text_spoil_their_own_line_alone(cli, pool, tmp_path):
    file = tmp_path / "table.csv"
    file.write_bytes(b"key,value\na\x8ab,\xff\n1,2,\x8a3\nx,\xc3\xaf\n")
    assert cli("create", pool, "--key-bytes", "var", "--value-bytes", "var").status == 0
    loaded = cli("load", pool, file, "--json", "-")
    assert loaded.status == 1 and loaded.json()["rejected_rows"] == [
        {"line": 3, "why": "3 columns instead of 2"}
    ]
    assert contents(pool) == {b"a\x8ab": b"\xff", b"x": b"\xc3\xaf"}


def test_a_header_alone_has_no_types(cli, pool, tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("key,value\n")
    assert cli("create", pool, "--value-bytes", 8).status == 0
    refused = cli("load", pool, file)
    assert (
        refused.status == 2
        and "no rows to tell the type of value from; name it value:TYPE" in refused.err
    )
    file.write_text("key:uint64,value:int64\n")
    assert cli("load", pool, file).status == 0
