"""What the tests of load and export share: pools with rows in them, and what they hold."""

from __future__ import annotations

import numpy as np
import perdure
import pyarrow as pa


def contents(pool: str) -> dict[bytes, bytes]:
    with perdure.open(pool, read_only=True) as store:
        return {
            key: value
            for keys, values in store.scan()
            for key, value in zip(cells(keys), cells(values), strict=True)
        }


def cells(column) -> list[bytes]:
    return column.to_pylist() if isinstance(column, pa.Array) else [row.tobytes() for row in column]


def fill(
    pool: str, key_bytes: int | None, value_bytes: int | None, **options
) -> dict[bytes, bytes]:
    random = np.random.default_rng(3)
    texts = [f'naïve, "quoted" {number}'.encode() for number in range(200)]
    keys = [random.bytes(key_bytes) for _ in texts] if key_bytes else texts
    values = [random.bytes(value_bytes) for _ in texts] if value_bytes else [b"", *texts[1:]]
    with perdure.create(pool, key_bytes, value_bytes, **options) as store:
        store.put(keys, values)
    return dict(zip(keys, values, strict=True))


def octets(number: int, width: int = 8) -> bytes:
    return (number % (1 << 8 * width)).to_bytes(width, "little")
