"""Where an array lies, and the CUDA stream on which it is made ready.

Invariant: a library is looked at only once the caller has imported it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from perdure import _native

_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's device types
_LEGACY_STREAM = 1  # how DLPack and CUDA both name the legacy default stream


def library_of(array: Any) -> str:
    return _library_of_type(type(array))


@functools.lru_cache(maxsize=64)
def _library_of_type(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def device_of(name: str, array: Any) -> tuple[str, int]:
    """The device of an array that speaks DLPack, and its number."""
    kind, number = array.__dlpack_device__()
    if int(kind) in (_CPU, _CUDA_HOST):
        return "cpu", 0
    if int(kind) in (_CUDA, _CUDA_MANAGED):
        return "cuda", int(number)
    raise TypeError(
        f"{name}: the array lies on DLPack device type {int(kind)}; copy it to the host or to a "
        "CUDA device"
    )


def _on_cuda(array: Any) -> bool:
    if not hasattr(array, "__dlpack_device__"):
        return False
    if hasattr(array, "__arrow_c_array__"):
        return False  # before version 26 pyarrow raises for types that DLPack lacks
    return int(array.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED)


def _current_stream(array: Any) -> int:
    library = library_of(array)
    if library == "torch":
        torch = sys.modules["torch"]
        return torch.cuda.current_stream(array.device).cuda_stream or _LEGACY_STREAM
    if library == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr or _LEGACY_STREAM
    return _LEGACY_STREAM


def stream_of(stream: Any, device: str, *arrays: Any) -> int:
    """The CUDA stream of a call as an integer handle; 0 when no array is on a GPU, or the store's
    device is not one, which then refuses such arrays.

    `stream` is the user's: None (the current stream of the first CUDA array's library), an integer
    handle, or a PyTorch or CuPy stream.
    """
    if stream is not None:
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))
        if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
            raise TypeError(
                f"stream: {stream!r} is neither a cudaStream_t as an integer nor a PyTorch or "
                "CuPy stream"
            )
        return handle or _LEGACY_STREAM
    if device == "cpu":
        return 0
    for array in arrays:
        if isinstance(array, np.ndarray):
            continue
        known = _native.work_stream(array)
        if known is None and _on_cuda(array):
            return _current_stream(array)
        if known:
            return known
    return 0
