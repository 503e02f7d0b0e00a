"""lineitem of TPC-H, made by DuckDB's dbgen, as a folder of columns.

    python examples/tpch_q1/lineitem.py FOLDER SCALE

Needs examples/tpch_q1/requirements.txt. The extension comes from its wheel: nothing is fetched.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import column_files
import duckdb

COLUMNS = """
select (l_extendedprice * 100)::uinteger l_extendedprice, (l_quantity * 100)::usmallint l_quantity,
  (l_shipdate - date '1970-01-01')::usmallint l_shipdate, (l_discount * 100)::utinyint l_discount,
  (l_tax * 100)::utinyint l_tax, ascii(l_returnflag)::utinyint l_returnflag,
  ascii(l_linestatus)::utinyint l_linestatus
from lineitem"""


def connect() -> duckdb.DuckDBPyConnection:
    """With TPC-H's generator."""
    package = importlib.util.find_spec("duckdb_extension_tpch")
    if package is None or package.origin is None:
        raise SystemExit(
            "no duckdb_extension_tpch: pip install -r examples/tpch_q1/requirements.txt"
        )
    found = list(Path(package.origin).parent.glob("extensions/*/tpch.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.load_extension(str(found[0]))
    return connection


def make(folder: Path, scale: float) -> int:
    """How many rows there are."""
    connection = connect()
    connection.execute(f"call dbgen(sf={scale})")
    columns = connection.execute(COLUMNS).fetchnumpy()
    column_files.write(folder, columns)
    return len(columns["l_quantity"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    print(f"{make(Path(sys.argv[1]), float(sys.argv[2])):,} rows")
