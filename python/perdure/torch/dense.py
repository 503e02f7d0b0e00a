"""All state of a training but its embeddings, as bytes of one length: the model, its optimizer, the
scheduler, the random numbers, the position in the data.

Bytes: length u64, then what torch.save writes, which torch.load reads with weights_only. Invariant:
the room for them is chosen once, by the first commit of a pool, and is there for good.
"""

from __future__ import annotations

import io
from typing import Any, Protocol

import torch
from torch import Tensor

_ROOM = 1 << 16  # rounded up to this


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any) -> Any: ...


class Dense:
    """Named parts with `state_dict` and `load_state_dict`, and PyTorch's random numbers."""

    def __init__(self, parts: dict[str, Stateful]) -> None:
        self.parts = parts

    def save(self) -> bytes:
        state: dict[str, Any] = {name: part.state_dict() for name, part in self.parts.items()}
        state["random"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["random of GPUs"] = torch.cuda.get_rng_state_all()
        to = io.BytesIO()
        torch.save(state, to)
        return to.getvalue()

    def load(self, content: bytes) -> None:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        torch.set_rng_state(state.pop("random"))
        of_gpus = state.pop("random of GPUs", None)
        if of_gpus is not None and len(of_gpus) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(of_gpus)
        if set(state) != set(self.parts):
            raise ValueError(
                f"this pool's steps have {sorted(state)}; the trainer was given"
                f" {sorted(self.parts)}: pass the same"
            )
        for name, part in self.parts.items():
            part.load_state_dict(state[name])


def room_for(content: bytes) -> int:
    """With some to spare: what is saved differs in length by a little."""
    return (len(content) + len(content) // 8 + 2 * _ROOM) // _ROOM * _ROOM


def fill(to: Tensor, content: bytes) -> None:
    if len(content) + 8 > to.numel():
        raise ValueError(
            f"the dense state takes {len(content)} bytes, and this pool has room for"
            f" {to.numel() - 8}: the model or an optimizer has grown; begin a new pool"
        )
    whole = len(content).to_bytes(8, "little") + content
    to[: len(whole)] = torch.frombuffer(bytearray(whole), dtype=torch.uint8).to(to.device)


def content_of(filled: Tensor) -> bytes:
    length = int.from_bytes(filled[:8].cpu().numpy().tobytes(), "little")
    return filled[8 : 8 + length].cpu().numpy().tobytes()
