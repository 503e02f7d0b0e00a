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
        state: dict[str, Any] = {
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "kinds": self._kinds(),
            "random": torch.get_rng_state(),
        }
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["random of GPUs"] = torch.cuda.get_rng_state_all()
        return _as_bytes(state)

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

    def load(self, content: bytes) -> None:
        state = _from_bytes(content)
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


def with_rows(content: bytes, rows: dict[str, int]) -> bytes:
    """The same of a pool with so many rows of each table."""
    state = _from_bytes(content)
    state["parts"]["rows"] = rows
    return _as_bytes(state)


def room_for(content: bytes, parameters: int) -> int:
    """With some to spare: an optimizer has up to two numbers more for each parameter once it has
    made a step, which the first commit may not see."""
    return (len(content) + len(content) // 8 + 2 * parameters + 2 * _ROOM) // _ROOM * _ROOM


def fill(to: Tensor, content: bytes) -> None:
    if len(content) + 8 > to.numel():
        raise ValueError(
            f"the dense state takes {len(content)} bytes, and this pool has room for"
            f" {to.numel() - 8}: the model or an optimizer has grown; export the tables and begin a"
            " new pool, with dense_bytes= for the trainer"
        )
    whole = len(content).to_bytes(8, "little") + content
    to[: len(whole)] = torch.frombuffer(bytearray(whole), dtype=torch.uint8).to(to.device)


def content_of(filled: Tensor) -> bytes:
    length = int.from_bytes(filled[:8].cpu().numpy().tobytes(), "little")
    return filled[8 : 8 + length].cpu().numpy().tobytes()
