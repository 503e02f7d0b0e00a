"""The extension module over perdure/rocks.h, call for call. Users go through perdure.rocks."""

import enum
from typing import Any

import numpy as np
import numpy.typing as npt

from perdure._native import Column, MutableColumn

_Strings = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]

class Device(enum.Enum):
    auto = 0
    cpu = 1
    cuda = 2

class Durability(enum.Enum):
    process = 0
    power = 1

class Opening:
    options: dict[str, str]
    families: dict[str, dict[str, str]]
    merge_operator: str
    create: bool
    read_only: bool
    device: Device
    threads: int
    log_dir: str
    durability: Durability
    power_log_dir: str
    power_log_bytes: int
    memtable_bytes: int
    memtable_value_bytes: int
    immutable_memtables: int
    threshold: int
    block_cache_bytes: int
    block_cache_entry_bytes: int
    flushed_memtable_bytes: int
    idle_millis: int
    hand_overs_a_second: int
    def __init__(self) -> None: ...

class Snapshot:
    def release(self) -> None: ...

class Cursor:
    def next(self, limit: int) -> tuple[_Strings, _Strings]: ...

class Database:
    @staticmethod
    def open(path: str, opening: Opening) -> Database: ...
    def put(
        self, keys: Column, values: Column, family: str, sync: bool, log: bool, stream: int
    ) -> None: ...
    def merge(
        self, keys: Column, operands: Column, family: str, sync: bool, log: bool, stream: int
    ) -> None: ...
    def erase(self, keys: Column, family: str, sync: bool, log: bool, stream: int) -> None: ...
    def get(
        self,
        keys: Column,
        values: MutableColumn,
        statuses: npt.NDArray[np.uint8],
        family: str,
        snapshot: Snapshot | None,
        stream: int,
    ) -> None: ...
    def get_variable(
        self,
        keys: Column,
        statuses: npt.NDArray[np.uint8],
        family: str,
        snapshot: Snapshot | None,
        stream: int,
    ) -> _Strings: ...
    def get_one(self, key: bytes, family: str, snapshot: Snapshot | None) -> tuple[bool, bytes]: ...
    def put_one(self, key: bytes, value: bytes, family: str) -> None: ...
    def range(
        self,
        begins: Column,
        ends: Column,
        limit: int,
        family: str,
        snapshot: Snapshot | None,
        stream: int,
    ) -> tuple[npt.NDArray[np.int64], _Strings, _Strings]: ...
    def apply(
        self,
        keys: Column,
        kinds: npt.NDArray[np.uint8],
        values: Column,
        out: MutableColumn,
        statuses: npt.NDArray[np.uint8],
        family: str,
        sync: bool,
        log: bool,
        stream: int,
    ) -> _Strings: ...
    def snapshot(self) -> Snapshot: ...
    def cursor(
        self,
        begin: bytes | None,
        end: bytes | None,
        prefix: bytes | None,
        reverse: bool,
        family: str,
        snapshot: Snapshot | None,
    ) -> Cursor: ...
    def flush(self, family: str) -> None: ...
    def compact(self, family: str) -> None: ...
    def checkpoint(self, path: str) -> None: ...
    def verify_checksums(self) -> None: ...
    def property(self, name: str, family: str) -> str | None: ...
    def create_family(self, name: str, options: dict[str, str]) -> None: ...
    def drop_family(self, name: str) -> None: ...
    def families(self) -> list[str]: ...
    def path(self) -> str: ...
    def close(self) -> None: ...

def split_options(text: str) -> dict[str, str]: ...
def numbers_of_memtables() -> list[dict[str, Any]]: ...
