"""Perdure: a durable key-value store that CPU SIMD warps and GPU kernels read and write themselves.

import numpy as np
import perdure

with perdure.create("/dev/shm/table", key_bytes=8, value_bytes=128) as store:
    store.put(np.arange(1000), np.zeros((1000, 32), np.float32))
    values, found, statuses = store.get(np.arange(10), dtype=np.float32)
"""

from perdure._native import (
    CacheReport,
    DeviceInfo,
    KeyStatus,
    OpKind,
    RecoveryReport,
    Stats,
    Survival,
    VerifyReport,
    __version__,
    built_with_cuda,
)
from perdure.errors import (
    AlreadyExists,
    Busy,
    Closed,
    Corrupt,
    DeviceFailure,
    Error,
    InvalidArgument,
    LockedMemory,
    NoSpace,
    NotFound,
    SystemFailure,
    Unsupported,
)
from perdure.options import GPHash, Options
from perdure.pools import create, devices, open, restore
from perdure.results import Outcome, Result
from perdure.store import Store

__all__ = [
    "AlreadyExists",
    "Busy",
    "CacheReport",
    "Closed",
    "Corrupt",
    "DeviceFailure",
    "DeviceInfo",
    "Error",
    "GPHash",
    "InvalidArgument",
    "KeyStatus",
    "LockedMemory",
    "NoSpace",
    "NotFound",
    "OpKind",
    "Options",
    "Outcome",
    "RecoveryReport",
    "Result",
    "Stats",
    "Store",
    "Survival",
    "SystemFailure",
    "Unsupported",
    "VerifyReport",
    "__version__",
    "built_with_cuda",
    "create",
    "devices",
    "open",
    "restore",
]
