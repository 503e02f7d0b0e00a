"""All state of a training but its embeddings, as bytes of one length: the model, its optimizer, the
scheduler, the random numbers, the position in the data.

Bytes: length of the head u64, bytes of all u64, the head, and from a multiple of 16 on tensors,
each from such a multiple on. The head is what torch.save writes and torch.load reads with
weights_only: the state, with numbers in place of tensors, and their dtypes and shapes. First come
tensors of another device than the bytes', then those of that device, which so never pass through
the host. Invariant: the room is chosen once, by the first commit of a pool, and is there for good.
"""

from __future__ import annotations

import io
import math
import pickle
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

_ROOM = 1 << 16  # rounded up to this
_ALIGN = 16
_LENGTHS = 16  # bytes, before the head
_TENSOR = "a tensor of perdure.torch"
_PICKLED = pickle.HIGHEST_PROTOCOL
# Types that torch.load reads with weights_only, whatever their values.
_LEAVES = frozenset(
    (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
)
_CONTAINERS = frozenset((dict, OrderedDict, Counter, list, tuple))


@dataclass
class Content:
    """What a step keeps."""

    head: bytes
    others: list[Tensor]
    tensors: list[Tensor]  # on the device of the bytes
    # Contents that have the same one have heads and tensors of the same sizes; None: nobody knows.
    shape: bytes | None = None

    @cached_property
    def octets(self) -> int:
        return self.front + sum(_aligned(one.nbytes) for one in self.tensors)

    @cached_property
    def front(self) -> int:
        """Of the lengths, the head and tensors of other devices."""
        others = sum(_aligned(one.nbytes) for one in self.others)
        return _aligned(_LENGTHS + len(self.head)) + others


class _Parted:
    """A state with numbers in place of its tensors."""

    def __init__(self, state: Any, device: torch.device) -> None:
        self.others: list[Tensor] = []
        self.tensors: list[Tensor] = []
        self.loads = True  # for certain; else torch.load may refuse it
        self._device = device
        self.rest = self._without(state)

    def _without(self, state: Any) -> Any:
        if isinstance(state, Tensor):
            return self._taken(state.detach())
        self.loads &= type(state) in _CONTAINERS or _is_leaf(state)
        if isinstance(state, dict):
            self.loads &= all(map(_is_leaf, state))
            return _like(state, {key: self._without(one) for key, one in state.items()})
        if isinstance(state, list) or type(state) is tuple:
            return type(state)(self._without(one) for one in state)
        return state

    def _taken(self, tensor: Tensor) -> Any:
        if not _is_plain(tensor):
            self.loads &= type(tensor) is Tensor
            return tensor
        to = self.tensors if tensor.device == self._device else self.others
        to.append(tensor)
        return (_TENSOR, to is self.tensors, len(to) - 1)


class _Walk(pickle.Pickler):
    """A state's tensors, in the order of _Parted, and the shape of its content: bytes that say all
    but what is in the tensors, with order and types, and of floats each bit. Pickle's own code goes
    through the state, so that a step calls Python for tensors alone."""

    def __init__(self, state: Any, device: torch.device) -> None:
        to = io.BytesIO()
        super().__init__(to, _PICKLED)
        self.others: list[Tensor] = []
        self.tensors: list[Tensor] = []
        self._device, self._all_plain = device, True
        self.dump(state)
        self.shape = to.getvalue() if self._all_plain else None

    def reducer_override(self, one: Any) -> Any:
        if not isinstance(one, Tensor):
            return NotImplemented
        self._all_plain &= _is_plain(one)
        to = self.tensors if one.device == self._device else self.others
        to.append(one)
        return tuple, ((to is self.tensors, one.dtype, *one.shape),)

    def is_like(self, parted: _Parted) -> bool:
        """Whether it found the same tensors; not where one stands in a state twice, or within what
        is no dictionary or list."""
        return len(self.others) == len(parted.others) and len(self.tensors) == len(parted.tensors)


def _is_leaf(state: Any) -> bool:
    """Whether it has no tensors, and torch.load reads it for certain."""
    return type(state) in _LEAVES or (type(state) is set and all(map(_is_leaf, state)))


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized


def _like(state: Any, items: dict[Any, Any]) -> dict[Any, Any]:
    """Those items as `state` has its own: in an OrderedDict, with a module's versions; in a
    Counter, as a scheduler's milestones are."""
    if type(state) is Counter:
        return Counter(items)
    if not isinstance(state, OrderedDict):
        return items
    whole: OrderedDict[Any, Any] = OrderedDict(items)
    if hasattr(state, "_metadata"):
        whole._metadata = state._metadata  # type: ignore[attr-defined]
    return whole


def _kinds(tensors: list[Tensor]) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    return [(one.dtype, tuple(one.shape)) for one in tensors]


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Any) -> Any: ...


class Dense:
    """Named parts with `state_dict` and `load_state_dict`, and PyTorch's random numbers."""

    def __init__(self, parts: dict[str, Stateful]) -> None:
        self.parts = parts
        self._runs: list[Tensor] = []  # of the next step, and of those after it; the last stays
        self._head = b""  # of the last content
        self._shape: bytes | None = None

    def begin_run(self, last: int, this: int) -> None:
        """Steps from now on are of run `this`; the one that they follow is of run `last`."""
        self._runs = [torch.tensor([last, this]), torch.tensor([this, this])]

    def save(self, device: torch.device) -> Content:
        """For bytes on that device. Each call is a step of its own."""
        state: dict[str, Any] = {
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
            "kinds": self._kinds(),
            "random": torch.get_rng_state(),
        }
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["random of GPUs"] = torch.cuda.get_rng_state_all()
        if self._runs:
            state["runs"] = self._runs[0]
            self._runs = self._runs[-1:]
        try:
            walk = _Walk(state, device)
        except Exception:
            self.check()  # which names it
            raise
        if walk.shape is not None and walk.shape == self._shape:
            return Content(self._head, walk.others, walk.tensors, self._shape)
        parted = _Parted(state, device)
        if not parted.loads:
            self.check()  # a number may have become one of NumPy's since the first step
        self._shape = walk.shape if walk.is_like(parted) else None
        content = _content(parted, self._shape)
        self._head = content.head
        return content

    def check(self) -> None:
        """Whatever is saved can be loaded again."""
        for name, part in self.parts.items():
            state = part.state_dict()
            if not _loads(state):
                raise TypeError(
                    f"{name}: its state_dict has {_unloadable(state)}, which torch.load does not"
                    " read with weights_only; let it have tensors, Python's own numbers, strings,"
                    " lists and dictionaries"
                )

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


def _content(parted: _Parted, shape: bytes | None = None) -> Content:
    kinds = {"others": _kinds(parted.others), "tensors": _kinds(parted.tensors)}
    head = _as_bytes({"state": parted.rest, **kinds})
    return Content(head, parted.others, parted.tensors, shape)


def _as_bytes(state: Any) -> bytes:
    to = io.BytesIO()
    torch.save(state, to)
    return to.getvalue()


def _from_bytes(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _loads(state: Any) -> bool:
    """Whether torch.load reads it with weights_only."""
    try:
        _from_bytes(_as_bytes(state))
    except Exception:
        return False
    return True


def _unloadable(state: Any, at: str = "") -> str:
    """What of a state that does not load that is, and where."""
    inside = list(state.items()) if isinstance(state, dict) else []
    if isinstance(state, (list, tuple)):
        inside = list(enumerate(state))
    for key, one in inside:
        if not _loads(one):
            return _unloadable(one, f"{at}[{key!r}]")
    kind = type(state)
    return f"a {kind.__module__}.{kind.__qualname__}{at and f' at {at}'}"


def _with_tensors(state: Any, of_each: tuple[list[Tensor], list[Tensor]]) -> Any:
    if isinstance(state, dict):
        return _like(state, {key: _with_tensors(one, of_each) for key, one in state.items()})
    if isinstance(state, tuple) and len(state) == 3 and state[0] == _TENSOR:
        return of_each[state[1]][state[2]]
    if isinstance(state, (list, tuple)):
        return type(state)(_with_tensors(one, of_each) for one in state)
    return state


def _octets(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(tensor.numel()).view(torch.uint8)


def _aligned(octets: int) -> int:
    return -(-octets // _ALIGN) * _ALIGN


def parts_in(filled: Tensor) -> dict[str, Any]:
    """States of the named parts that `fill` wrote; their tensors are on the host."""
    parts: dict[str, Any] = _state_of(filled)["parts"]
    return parts


def with_parts(filled: Tensor, parts: dict[str, Any], device: torch.device) -> Content:
    """What `fill` wrote, with other states of these parts; for bytes on that device."""
    state = _state_of(filled)
    state["parts"].update(parts)
    return _content(_Parted(state, device))


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
    head = torch.frombuffer(bytearray(lengths + content.head), dtype=torch.uint8)
    front = torch.cat(_padded([head, *(_octets(one.cpu()) for one in content.others)]))
    to[: content.front].copy_(front)
    if content.tensors:
        tensors = _padded([_octets(one) for one in content.tensors])
        torch.cat(tensors, out=to[content.front : content.octets])


class Room:
    """Bytes that take one content after the other. Of one that has the shape of the last the
    tensors alone are copied, each to where it was, all of a device by one call.

    Invariant: nobody else writes the bytes; who does makes a new Room."""

    def __init__(self, to: Tensor) -> None:
        self.bytes = to
        self._shape: bytes | None = None  # None: the next content is written whole
        self._front: Tensor | None = None  # in host memory; of bytes there a view
        self._others: list[Tensor] = []
        self._tensors: list[Tensor] = []

    def fill(self, content: Content) -> None:
        if content.shape is None or content.shape is not self._shape:
            self._shape = self._front = None
            fill(self.bytes, content)
            self._shape = content.shape
            return
        front = self._lay_out(content) if self._front is None else self._front
        if content.tensors:
            torch._foreach_copy_(self._tensors, content.tensors)
        if content.others:
            torch._foreach_copy_(self._others, content.others)
            if self.bytes.is_cuda:  # which nobody waits for: the driver has its own copy
                self.bytes[: content.front].copy_(front, non_blocking=True)

    def _lay_out(self, content: Content) -> Tensor:
        self._front = self.bytes[: content.front].cpu()
        at = _aligned(_LENGTHS + len(content.head))
        self._others = _views(self._front, at, content.others)
        self._tensors = _views(self.bytes, content.front, content.tensors)
        return self._front


def _views(to: Tensor, at: int, tensors: list[Tensor]) -> list[Tensor]:
    """Where these tensors lie in bytes, from `at` on."""
    views = []
    for one in tensors:
        views.append(to[at : at + one.nbytes].view(one.dtype).view(one.shape))
        at += _aligned(one.nbytes)
    return views


def _padded(pieces: list[Tensor]) -> list[Tensor]:
    """With what is between them."""
    gap = torch.zeros(_ALIGN, dtype=torch.uint8, device=pieces[0].device)
    padded = []
    for one in pieces:
        padded.append(one)
        if one.numel() % _ALIGN:
            padded.append(gap[: -one.numel() % _ALIGN])
    return padded


def is_filled(filled: Tensor) -> bool:
    return bool(filled[:_LENGTHS].any())


def runs_in(filled: Tensor) -> tuple[int, int]:
    """Of the step before, and of the one that is kept; zeros where it has no runs."""
    if not is_filled(filled):
        return 0, 0
    runs = _state_of(filled).get("runs")
    return (0, 0) if runs is None else tuple(runs.tolist())


def run_of(step: int, last: int, runs: Sequence[int]) -> int:
    """Which run made that step, by what a pool has whose last step is `last`, it or the next."""
    return runs[1] if last == step else runs[0]


def _state_of(filled: Tensor) -> Any:
    told, of_each = _parts_of(filled)
    return _with_tensors(told["state"], of_each)


def _parts_of(filled: Tensor) -> tuple[Any, tuple[list[Tensor], list[Tensor]]]:
    """The head, and the tensors, on the host."""
    head, octets = filled[:_LENGTHS].cpu().view(torch.int64).tolist()
    whole = filled[:octets].cpu()
    told = _from_bytes(whole[_LENGTHS : _LENGTHS + head].numpy().tobytes())
    at, tensors = _aligned(_LENGTHS + head), []
    for dtype, shape in (*told["others"], *told["tensors"]):
        octets = math.prod(shape) * dtype.itemsize
        tensors.append(whole[at : at + octets].clone().view(dtype).reshape(shape))
        at += _aligned(octets)
    others = len(told["others"])
    return told, (tensors[:others], tensors[others:])
