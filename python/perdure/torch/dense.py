"""All state of a training but its embeddings, as bytes of one length: the model, its optimizer, the
scheduler, the random numbers, the position in the data.

Bytes: length of the head u64, bytes of all u64, the head, and from a multiple of 16 on tensors,
each from such a multiple on. The head is what torch.save writes and torch.load reads with
weights_only: the state, with numbers in place of those tensors, and their dtypes and shapes. They
are those on the device of the bytes, so that they never pass through the host. Invariant: the room
is chosen once, by the first commit of a pool, and is there for good.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

_ROOM = 1 << 16  # rounded up to this
_ALIGN = 16
_LENGTHS = 16  # bytes, before the head
_TENSOR = "a tensor of perdure.torch"


@dataclass(frozen=True)
class Content:
    """What a step keeps."""

    head: bytes
    tensors: list[Tensor]  # of uint8, in one dimension

    @property
    def octets(self) -> int:
        return _aligned(_LENGTHS + len(self.head)) + sum(_aligned(len(t)) for t in self.tensors)


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any) -> Any: ...


class Dense:
    """Named parts with `state_dict` and `load_state_dict`, and PyTorch's random numbers."""

    def __init__(self, parts: dict[str, Stateful]) -> None:
        self.parts = parts

    def save(self, device: torch.device) -> Content:
        """For bytes on that device."""
        state: dict[str, Any] = {
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "kinds": self._kinds(),
            "random": torch.get_rng_state(),
        }
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["random of GPUs"] = torch.cuda.get_rng_state_all()
        tensors: list[Tensor] = []
        rest = _without_tensors(state, tensors, device)
        kinds = [(one.dtype, tuple(one.shape)) for one in tensors]
        head = _as_bytes({"state": rest, "tensors": kinds})
        return Content(head, [_octets(one) for one in tensors])

    def check(self) -> None:
        """Whatever is saved can be loaded again."""
        for name, part in self.parts.items():
            try:
                _from_bytes(_as_bytes(part.state_dict()))
            except Exception as error:
                raise TypeError(
                    f"{name}: its state_dict has what torch.load does not read with weights_only"
                    f" ({str(error).splitlines()[0]}); let it have tensors, numbers, strings, lists"
                    " and dictionaries"
                ) from error

    def load(self, filled: Tensor) -> None:
        """What `fill` wrote."""
        state = _state_of(filled)
        if state["kinds"] != self._kinds():
            raise ValueError(
                f"this pool's steps have {state['kinds']}; the trainer was given {self._kinds()}:"
                " pass the same"
            )
        for name, part in self.parts.items():
            part.load_state_dict(state["parts"][name])
        torch.set_rng_state(state["random"])
        of_gpus = state.get("random of GPUs")
        if of_gpus is not None and len(of_gpus) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(of_gpus)

    def _kinds(self) -> dict[str, str]:
        return {name: type(part).__name__ for name, part in sorted(self.parts.items())}


def _as_bytes(state: Any) -> bytes:
    to = io.BytesIO()
    torch.save(state, to)
    return to.getvalue()


def _from_bytes(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _without_tensors(state: Any, tensors: list[Tensor], device: torch.device) -> Any:
    """The state with numbers in place of the tensors of that device, which are appended."""
    if isinstance(state, Tensor):
        if state.device != device or state.layout != torch.strided or state.is_quantized:
            return state
        tensors.append(state.detach())
        return (_TENSOR, len(tensors) - 1)
    if isinstance(state, dict):
        return {key: _without_tensors(one, tensors, device) for key, one in state.items()}
    if isinstance(state, list) or type(state) is tuple:
        return type(state)(_without_tensors(one, tensors, device) for one in state)
    return state


def _with_tensors(state: Any, tensors: list[Tensor]) -> Any:
    if isinstance(state, dict):
        return {key: _with_tensors(one, tensors) for key, one in state.items()}
    if isinstance(state, tuple) and len(state) == 2 and state[0] == _TENSOR:
        return tensors[state[1]]
    if isinstance(state, (list, tuple)):
        return type(state)(_with_tensors(one, tensors) for one in state)
    return state


def _octets(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(tensor.numel()).view(torch.uint8)


def _aligned(octets: int) -> int:
    return -(-octets // _ALIGN) * _ALIGN


def with_rows(filled: Tensor, rows: dict[str, int]) -> Content:
    """What `fill` wrote, of a pool with so many rows of each table."""
    told, tensors = _parts_of(filled)
    told["state"]["parts"]["rows"] = rows
    return Content(_as_bytes(told), [_octets(one) for one in tensors])


def room_for(content: Content, parameters: int) -> int:
    """With some to spare: an optimizer has up to two numbers more for each parameter once it has
    made a step, which the first commit may not see."""
    octets = content.octets
    return (octets + octets // 8 + 2 * parameters + 2 * _ROOM) // _ROOM * _ROOM


def fill(to: Tensor, content: Content) -> None:
    if content.octets > to.numel():
        raise ValueError(
            f"the dense state takes {content.octets} bytes, and this pool has room for"
            f" {to.numel()}: the model or an optimizer has grown; export the tables and begin a"
            " new pool, with dense_bytes= for the trainer"
        )
    lengths = len(content.head).to_bytes(8, "little") + content.octets.to_bytes(8, "little")
    front = lengths + content.head
    behind = _aligned(len(front))
    front += bytes(behind - len(front))
    to[:behind] = torch.frombuffer(bytearray(front), dtype=torch.uint8).to(to.device)
    gap = torch.zeros(_ALIGN, dtype=torch.uint8, device=to.device)
    pieces = []
    for one in content.tensors:
        pieces += [one, gap[: _aligned(len(one)) - len(one)]]
    if pieces:
        torch.cat(pieces, out=to[behind : content.octets])


def is_filled(filled: Tensor) -> bool:
    return bool(filled[:_LENGTHS].any())


def _state_of(filled: Tensor) -> Any:
    told, tensors = _parts_of(filled)
    return _with_tensors(told["state"], tensors)


def _parts_of(filled: Tensor) -> tuple[Any, list[Tensor]]:
    """The head, and the tensors, on the host."""
    head, octets = filled[:_LENGTHS].cpu().view(torch.int64).tolist()
    whole = filled[:octets].cpu()
    told = _from_bytes(whole[_LENGTHS : _LENGTHS + head].numpy().tobytes())
    at, tensors = _aligned(_LENGTHS + head), []
    for dtype, shape in told["tensors"]:
        octets = math.prod(shape) * dtype.itemsize
        tensors.append(whole[at : at + octets].clone().view(dtype).reshape(shape))
        at += _aligned(octets)
    return told, tensors
