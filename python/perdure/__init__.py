"""Perdure: a durable key-value store that CPU SIMD warps and GPU kernels read and write themselves.

`create`, `open` and `restore` make a `Store`; batches of arrays go in and out of it, each key with
a status:

>>> import numpy as np
>>> import perdure
>>> with perdure.create("/dev/shm/table", key_bytes=8, value_bytes=128, overwrite=True) as store:
...     done, statuses = store.put(np.arange(1000), np.zeros((1000, 32), np.float32))
...     values, found, statuses = store.get(np.arange(10), dtype=np.float32)
>>> values.shape, bool(found.all())
((10, 32), True)

What fails raises a class of `perdure.Error`. Opens, recoveries, repairs, losses, fallbacks, growth
and closes are told to the logger "perdure", which prints nothing unless it is given a handler
(`logging.getLogger("perdure")`).
`perdure.typing` has the types of what is taken, for annotations.
"""

from perdure import _log
from perdure._named import Table
from perdure._native import (
    CacheReport,
    DeviceInfo,
    Glance,
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
from perdure.outside import devices, glance
from perdure.pools import create, restore
from perdure.pools import open as open
from perdure.results import Outcome, Result
from perdure.store import Store

_log.begin()

__all__ = [  # but `open`, which a star import would put in the place of Python's own
    "AlreadyExists",
    "Busy",
    "CacheReport",
    "Closed",
    "Corrupt",
    "DeviceFailure",
    "DeviceInfo",
    "Error",
    "GPHash",
    "Glance",
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
    "Table",
    "Unsupported",
    "VerifyReport",
    "__version__",
    "built_with_cuda",
    "create",
    "devices",
    "glance",
    "restore",
]
