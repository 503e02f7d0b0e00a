"""Operators of PyTorch over pools, which torch.compile knows.

`perdure::get_rows` is native (native/torch_ops.cpp) and may be used by itself. `perdure::look_up`
and `perdure::look_up_backward` are a collection's forward pass and its gradients, as one node of a
graph each: what they note for the step is Python's.

Invariant: a graph has no rows of the pool as constants, and no shape that follows from them. Of two
passes the second takes what the first answers, its number, so no compiler makes one of them or
reverses them; and a backward pass answers the gradient of a tensor that requires one, so none
leaves it out.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

import perdure
from perdure import _arrays, _native
from perdure.errors import Unsupported
from perdure.results import OK, Result, checked, done_mask, worst_of
from perdure.torch.passes import Part, Request, gradients_of

if TYPE_CHECKING:
    from perdure.torch.embeddings import _Collection
    from perdure.torch.follower import Follower

_LEAST_TORCH = (2, 10)  # TORCH_TARGET_VERSION of torch_ops.cmake
_LIBRARY = Path(_native.__file__).with_name("_torch_ops.so")


def _load() -> bool:
    """Loads the library of native operators, and hands it the engine. False: this build of perdure
    has none, or PyTorch is older than its ABI."""
    if not _LIBRARY.exists() or torch.torch_version.TorchVersion(torch.__version__) < _LEAST_TORCH:
        return False
    torch.ops.load_library(_LIBRARY)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    connect = ctypes.CDLL(str(_LIBRARY)).perdure_torch_ops_connect
    connect.restype, connect.argtypes = ctypes.c_bool, [ctypes.c_void_p]
    if not connect(pointer(_native.row_calls(), b"perdure.row_calls")):
        raise ImportError(f"{_LIBRARY}: it is of another build of perdure; install perdure anew")
    return True


native: bool = _load()


# --- rows of a pool


def number_of(store: perdure.Store | Follower) -> int:
    """What `torch.ops.perdure.get_rows` names a store by.

    Parameters
    ----------
    store : perdure.Store or Follower
        Of a pool of named tables. The number is its until it is closed; a follower has another one
        once it went over to a pool that was made anew.

    Returns
    -------
    int

    Raises
    ------
    Closed
        The store is closed.
    Unsupported
        This build of perdure has no native operators, or PyTorch is older than 2.10.

    Examples
    --------
    >>> import torch                                                      # doctest: +SKIP
    >>> from perdure.torch import ops                                     # doctest: +SKIP
    >>> number, users = ops.number_of(store), store.table("user")         # doctest: +SKIP
    >>> keys = torch.tensor([[7, users.number], [8, users.number]])       # doctest: +SKIP
    >>> rows, statuses = torch.ops.perdure.get_rows(keys, number, 32)     # doctest: +SKIP
    """
    if not native:
        raise Unsupported(
            "perdure.torch.ops: this build of perdure has no operators of its own, which needs"
            f" PyTorch {_LEAST_TORCH[0]}.{_LEAST_TORCH[1]} or later here and where perdure is"
            " built; collections work, and torch.compile knows them"
        )
    return store._row_number()


def rows_of(
    store: perdure.Store | Follower, keys: Tensor, row_bytes: int, *, whole: bool = False
) -> tuple[Tensor, Any]:
    """Rows of float32 where the keys are, and which are there: a bool array in host memory, or
    None for all. With `whole` rows may be as wide as the pool's, which saves a copy. Raises as
    `Store.get`."""
    if keys.is_cuda:
        _arrays.check_near("keys", "cuda", keys.get_device(), "cuda")
    if not native:
        got = store._get_rows(keys, row_bytes, dtype=torch.float32)
        return got.values, got.found
    number = store._row_number()
    octets = row_bytes
    if whole and store._value_width is not None and store._value_width % 4 == 0:
        octets = store._value_width
    try:
        rows, each = torch.ops.perdure.get_rows(keys, number, octets // 4, False)
    except RuntimeError:
        _native.raise_row_error()
        raise
    statuses = each.numpy()
    worst = worst_of(statuses)
    if worst == OK:
        return rows, None
    result = Result(rows, done_mask(statuses), statuses)
    return rows, checked(store._path, "get", result, worst, True).found


def _rows_made(keys: Tensor, store: int, columns: int, check: bool = True) -> tuple[Tensor, Tensor]:
    rows = keys.new_empty((keys.shape[0], columns), dtype=torch.float32)
    return rows, keys.new_empty((keys.shape[0],), dtype=torch.uint8, device="cpu")


if native:
    torch.library.register_fake("perdure::get_rows", _rows_made)


# --- passes of collections

_collections: weakref.WeakValueDictionary[int, _Collection] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
# PyTorch keeps what it compiled on the disk, and knows it by an operator's name and arguments. So
# shapes follow from the arguments alone; and whoever changes what goes backward (_go_backward)
# gives look_up another name.
_LOOK_UP = (
    "(Tensor hook, Tensor[] ids, Tensor[] lengths, Tensor? of_ids, Tensor number, int collection,"
    " int[] features, int[] dims, bool remember) -> (Tensor[], Tensor[], Tensor)"
)
_LOOK_UP_BACKWARD = (
    "(Tensor[] gradients, int[] which, Tensor[] lengths, Tensor? of_ids, Tensor[] weights,"
    " Tensor following, int collection, int[] features, int[] dims, bool remember)"
    " -> (Tensor, Tensor)"
)


def by_dim(dims: Sequence[int]) -> list[list[int]]:
    """Features of tables of one dim together, where these are the dims of features."""
    found: dict[int, list[int]] = {}
    for at, dim in enumerate(dims):
        found.setdefault(dim, []).append(at)
    return list(found.values())


class Passes:
    """Passes of a collection in compiled code, by numbers that graphs count up.

    `of_dims` are its features: those of tables of one dim together."""

    def __init__(
        self, collection: _Collection, of_dims: Mapping[int, Sequence[str]], bags: bool
    ) -> None:
        self.collection = next(_numbers)
        _collections[self.collection] = collection
        self.names = [name for names in of_dims.values() for name in names]
        self._dims = [dim for dim, names in of_dims.items() for _ in names]
        self._bags = bags
        self._number = torch.zeros((), dtype=torch.int64, device="cpu")
        self._of_step: dict[int, list[Part]] = {}

    def __call__(
        self,
        hook: Tensor,
        features: Mapping[str, tuple[Tensor, ...]],
        names: Sequence[str],
        of_ids: Tensor | None,
        remember: bool,
    ) -> Sequence[Tensor]:
        """Of tables of each dim the answer. It is traced: the number of a pass is a tensor, and
        follows from the pass before, so that a graph keeps their order."""
        which = [self.names.index(name) for name in names]
        dims = [self._dims[number] for number in which]
        ids = [features[name][0] for name in names]
        lengths = [features[name][1] for name in names] if self._bags else []
        number = self._number.clone()
        answers, _, following = look_up(
            hook, ids, lengths, of_ids, number, self.collection, which, dims, remember
        )
        self._number.copy_(following)
        return answers

    def request(
        self,
        ids: Sequence[Tensor],
        lengths: Sequence[Tensor],
        of_ids: Tensor | None,
        features: Sequence[int],
        dims: Sequence[int],
        remember: bool,
    ) -> Request:
        """What an operator's arguments ask for."""
        names = [self.names[number] for number in features]
        of_each = zip(ids, lengths, strict=True) if self._bags else ((one,) for one in ids)
        of_dims = [[names[at] for at in several] for several in by_dim(dims)]
        return Request(dict(zip(names, of_each, strict=True)), of_dims, of_ids, remember)

    # --- for the trainer's steps

    def keep(self, number: int, parts: list[Part]) -> None:
        if number in self._of_step:
            raise RuntimeError(
                "look_up: a pass of a step came twice: two threads go forward in one compiled"
                " collection, or activation checkpointing recomputes it; keep lookups out of both"
            )
        self._of_step[number] = parts

    def of_step(self, number: int) -> list[Part]:
        try:
            return self._of_step[number]
        except KeyError:
            raise RuntimeError(
                "a gradient of embeddings that this trainer.step() did not look up: look up and go"
                " backward within one step, or call eval()"
            ) from None

    def forget(self) -> None:
        self._of_step = {}


def _collection_of(number: int) -> _Collection:
    try:
        return _collections[number]
    except KeyError:
        raise RuntimeError(
            f"collection {number}: it is gone; keep the module for as long as what was compiled"
            " of it"
        ) from None


@torch.library.custom_op("perdure::look_up", mutates_args=(), schema=_LOOK_UP)
def look_up(
    hook: Tensor,
    ids: Sequence[Tensor],
    lengths: Sequence[Tensor],
    of_ids: Tensor | None,
    number: Tensor,
    collection: int,
    features: Sequence[int],
    dims: Sequence[int],
    remember: bool,
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """A forward pass: of tables of each dim rows of the ids or bags of `features`; weights of each
    id, where `of_ids` are given; and the number of the pass that follows. `hook` requires a
    gradient, so that rows have one."""
    module = _collection_of(collection)
    module.check_compiled()
    request = module.compiled.request(ids, lengths, of_ids, features, dims, remember)
    parts, answers, weights = module.pass_of(request)
    following = number + 1
    if remember and module.in_step:
        module.compiled.keep(int(following), parts)
    return answers, weights, following


@look_up.register_fake
def _(
    hook: Tensor,
    ids: Sequence[Tensor],
    lengths: Sequence[Tensor],
    of_ids: Tensor | None,
    number: Tensor,
    collection: int,
    features: Sequence[int],
    dims: Sequence[int],
    remember: bool,
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    answers, weights = [], []
    for several in by_dim(dims):
        dim, of_each = dims[several[0]], sum(ids[at].shape[0] for at in several)
        rows = sum(lengths[at].shape[0] for at in several) if lengths else of_each
        answers.append(ids[0].new_empty((rows, dim), dtype=torch.float32))
        if of_ids is not None:
            weights.append(ids[0].new_empty((of_each, dim), dtype=torch.float32))
    return answers, weights, torch.empty_like(number)


@torch.library.custom_op("perdure::look_up_backward", mutates_args=(), schema=_LOOK_UP_BACKWARD)
def look_up_backward(
    gradients: Sequence[Tensor],
    which: Sequence[int],
    lengths: Sequence[Tensor],
    of_ids: Tensor | None,
    weights: Sequence[Tensor],
    following: Tensor,
    collection: int,
    features: Sequence[int],
    dims: Sequence[int],
    remember: bool,
) -> tuple[Tensor, Tensor]:
    """Notes gradients of a pass's answers `which`, and answers those of `hook` and `of_ids`."""
    module = _collection_of(collection)
    hook = torch.zeros(1, dtype=torch.float32, device="cpu")
    if not remember and of_ids is None:
        return hook, gradients[0].new_empty(0)
    parts = (
        module.compiled.of_step(int(following))
        if remember
        else _parts_again(module, lengths, of_ids, weights, features, dims)
    )
    of_each: list[Tensor | None] = [None] * len(parts)
    for at, gradient in zip(which, gradients, strict=True):
        of_each[at] = gradient
    answer = gradients_of(parts, of_each, of_ids, weights, remember)
    return hook, gradients[0].new_empty(0) if answer is None else answer


def _parts_again(
    module: _Collection,
    lengths: Sequence[Tensor],
    of_ids: Tensor | None,
    weights: Sequence[Tensor],
    features: Sequence[int],
    dims: Sequence[int],
) -> list[Part]:
    """Of a pass that no step knows: enough for a gradient of `of_ids`."""
    assert of_ids is not None
    parts = []
    pieces = of_ids.split([len(one) for one in weights])
    for several, piece in zip(by_dim(dims), pieces, strict=True):
        names = [module.compiled.names[features[at]] for at in several]
        bags = module.bags(names, [lengths[at] for at in several], piece)
        parts.append(Part([], len(piece), bags))
    return parts


@look_up_backward.register_fake
def _(
    gradients: Sequence[Tensor],
    which: Sequence[int],
    lengths: Sequence[Tensor],
    of_ids: Tensor | None,
    weights: Sequence[Tensor],
    following: Tensor,
    collection: int,
    features: Sequence[int],
    dims: Sequence[int],
    remember: bool,
) -> tuple[Tensor, Tensor]:
    hook = torch.empty(1, dtype=torch.float32, device="cpu")
    return hook, gradients[0].new_empty(0) if of_ids is None else torch.empty_like(of_ids)


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, ids, lengths, of_ids, _, *ctx.numbers = inputs
    ctx.of_ids, ctx.lists = of_ids is not None, ([None] * len(ids), [None] * len(lengths))
    _, weights, following = output
    ctx.bags, ctx.constants = len(lengths), [None] * len(ctx.numbers)
    # A pass is known by the number that follows: a compiler may keep that of the pass itself as the
    # collection's, which goes on.
    ctx.save_for_backward(following, of_ids, *lengths, *weights)
    ctx.set_materialize_grads(False)


def _go_backward(ctx: Any, gradients: Sequence[Tensor | None], *_: Any) -> tuple[Any, ...]:
    following, of_ids, *rest = ctx.saved_tensors
    lengths, weights = rest[: ctx.bags], rest[ctx.bags :]
    there = [dim for dim, one in enumerate(gradients) if one is not None]
    hook = of_ids_gradient = None
    if there:
        hook, of_ids_gradient = look_up_backward(
            [gradients[dim] for dim in there],
            there,
            lengths,
            of_ids,
            weights,
            following,
            *ctx.numbers,
        )
    return hook, *ctx.lists, of_ids_gradient if ctx.of_ids else None, None, *ctx.constants


look_up.register_autograd(_go_backward, setup_context=_keep_for_backward)
