"""The systems that Q1 is run on beside Perdure, over the same columns in memory. Each answers with
rows as `answer_of` of Perdure's has them: flag, status, four sums in whole units of their last
digit, three averages, the count."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np

Columns = dict[str, np.ndarray]
Answer = list[tuple[str, str, int, int, int, int, float, float, float, int]]
Query = Callable[[], Answer]

DIGITS = {"sum_qty": 2, "sum_base_price": 2, "sum_disc_price": 4, "sum_charge": 6}
AVERAGES = ("avg_qty", "avg_price", "avg_disc")

# TPC-H's schema; and the integers that the files, and Perdure's pool, have.
TPCH = """
select (l_extendedprice::bigint * 0.01)::decimal(15,2) l_extendedprice,
  (l_quantity::bigint * 0.01)::decimal(15,2) l_quantity,
  date '1970-01-01' + l_shipdate::integer l_shipdate,
  (l_discount::bigint * 0.01)::decimal(15,2) l_discount,
  (l_tax::bigint * 0.01)::decimal(15,2) l_tax,
  chr(l_returnflag::integer) l_returnflag, chr(l_linestatus::integer) l_linestatus from columns"""
TPCH_Q1 = """
select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
  sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
  avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
from lineitem where l_shipdate <= date '1970-01-01' + {day}
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"""
NARROW = "select * from columns"
NARROW_Q1 = """
select chr(l_returnflag::integer), chr(l_linestatus::integer), sum(l_quantity),
  sum(l_extendedprice), sum(l_extendedprice::bigint * (100 - l_discount)),
  sum(l_extendedprice::bigint * (100 - l_discount) * (100 + l_tax)), avg(l_quantity) / 100,
  avg(l_extendedprice) / 100, avg(l_discount) / 100, count(*)
from lineitem where l_shipdate <= {day}
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"""


def whole(value: object, digits: int) -> int:
    """A decimal of so many digits in units of the last one; integers are in them already."""
    return int(value.scaleb(digits)) if isinstance(value, Decimal) else int(str(value))


def duckdb(columns: Columns, threads: int, day: int, narrow: bool) -> Query:
    import duckdb as package

    connection = package.connect(config={"threads": threads})
    connection.register("columns", columns)
    connection.execute(f"create table lineitem as {NARROW if narrow else TPCH}")
    query = (NARROW_Q1 if narrow else TPCH_Q1).format(day=day)

    def run() -> Answer:
        return [
            (row[0], row[1], *map(whole, row[2:6], DIGITS.values()), *row[6:9], row[9])
            for row in connection.execute(query).fetchall()
        ]

    return run


def acero(columns: Columns, threads: int, day: int) -> Query:
    """PyArrow's engine, with 64-bit integers: its decimals have no room for charges. Exact up to
    scale factor 50 or so, where a group's charges pass 2^63."""
    import pyarrow as pa
    import pyarrow.acero as ac
    import pyarrow.compute as pc

    pa.set_cpu_count(threads)
    keys = ["l_returnflag", "l_linestatus"]
    table = pa.table(
        {
            name: pa.array(values if name in keys else values.astype(np.int64))
            for name, values in columns.items()
        }
    )
    field = pc.field
    price, discount = field("l_extendedprice"), field("l_discount")
    disc_price = price * (pc.scalar(100) - discount)
    charge = disc_price * (pc.scalar(100) + field("l_tax"))
    projected = {
        **{key: field(key) for key in keys},
        "qty": field("l_quantity"),
        "price": price,
        "disc_price": disc_price,
        "charge": charge,
        "disc": discount,
    }
    sums = ("qty", "price", "disc_price", "charge", "disc")
    aggregates = [([name], "hash_sum", None, name) for name in sums]
    plan = ac.Declaration.from_sequence(
        [
            ac.Declaration("table_source", ac.TableSourceNodeOptions(table)),
            ac.Declaration("filter", ac.FilterNodeOptions(field("l_shipdate") <= day)),
            ac.Declaration(
                "project", ac.ProjectNodeOptions(list(projected.values()), list(projected))
            ),
            ac.Declaration(
                "aggregate",
                ac.AggregateNodeOptions([*aggregates, ([], "hash_count_all", None, "n")], keys),
            ),
        ]
    )

    def run() -> Answer:
        found = plan.to_table(use_threads=True).to_pylist()
        return sorted(
            (
                *(chr(row[key]) for key in keys),
                *(row[name] for name in sums[:4]),
                *(row[name] / row["n"] / 100 for name in ("qty", "price", "disc")),
                row["n"],
            )
            for row in found
        )

    return run
