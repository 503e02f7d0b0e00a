"""Features of a batch: what is checked of their ids and bags before anything is looked up.

Invariant: what passes has ids and lengths of integers, in one dimension, and the lengths of each
feature are none below 0, and the number of its ids together.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

Feature = tuple[Tensor, ...]  # ids, lengths of bags, and weights of ids where there are some

_INTEGERS = frozenset(
    getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)
)


def check_ids(features: Mapping[str, Feature], known: Collection[str]) -> None:
    for name, feature in features.items():
        if name not in known:
            raise KeyError(f"feature {name!r}; there are {', '.join(known)}")
        for one in feature:
            if not isinstance(one, Tensor):
                raise TypeError(f"feature {name!r}: pass tensors")
        ids = feature[0]
        if ids.dim() != 1 or ids.dtype not in _INTEGERS:
            raise TypeError(
                f"feature {name!r}: ids are {ids.dtype} of shape {tuple(ids.shape)}; pass one"
                " dimension of integers"
            )


def check_bags(features: Mapping[str, Feature]) -> None:
    """All but the lengths' sums, which Lengths checks."""
    for name, feature in features.items():
        if len(feature) not in (2, 3):
            raise TypeError(f"feature {name!r}: pass (ids, lengths) or (ids, lengths, weights)")
        if feature[1].dim() != 1 or feature[1].dtype not in _INTEGERS:
            raise _wrong_lengths(name, feature)
        if len(feature) == 3 and feature[2].shape != feature[0].shape:
            raise ValueError(
                f"feature {name!r}: pass a weight for each of the {feature[0].numel()} ids"
            )


def weights_of_ids(feature: Feature) -> Tensor:
    """The weight of each id."""
    if len(feature) == 3:
        return feature[2].to(torch.float32)
    return torch.ones(feature[0].numel(), dtype=torch.float32, device=feature[0].device)


def joined(several: Sequence[Tensor]) -> Tensor:
    """As int64, one after the other. PyTorch joins unsigned integers with no others."""
    if len({one.dtype for one in several}) > 1:
        several = [one.to(torch.int64) for one in several]
    return torch.cat(list(several)).to(torch.int64)


class Lengths:
    """Lengths of the bags of all features at once.

    `asked` are numbers where the lengths are; `are_single` takes them as the host read them, with
    whatever else it asked of that device. Most batches have as many bags as ids, and one id in
    each: of those the least and the greatest length tell all, of others the sums of features."""

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self._features = features
        self.asked: list[Tensor] = []
        each = [feature[1] for feature in features.values()]
        self._as_many = all(one[0].shape == one[1].shape for one in features.values())
        if not any(map(Tensor.numel, each)):
            return
        self._whole = joined(each)
        least, greatest = torch.aminmax(self._whole)
        self.asked = [least, greatest]
        if not self._as_many:
            self.asked += self._sums()

    def are_single(self, told: Sequence[int]) -> bool:
        """Whether each bag has one id. Raises where lengths do not fit the ids."""
        least, greatest, *sums = told or (1, 1, *[0] * len(self._features))
        if self._as_many and least == 1 == greatest:
            return True
        sums = sums or torch.stack(self._sums()).tolist()
        bags = sum(feature[1].numel() for feature in self._features.values())
        wraps = greatest * bags >= 1 << 63  # a sum may be right by that alone
        for (name, feature), count in zip(self._features.items(), sums, strict=True):
            negative = least < 0 and bool((feature[1] < 0).any())
            ids = feature[0].numel()
            longer = wraps and bool((feature[1].to(torch.int64) > ids).any())
            if negative or longer or count != ids:
                raise _wrong_lengths(name, feature)
        return False

    def _sums(self) -> list[Tensor]:
        """Of each feature."""
        sizes = tuple(feature[1].numel() for feature in self._features.values())
        ends = _ends(sizes, self._whole.device)
        upto = torch.nn.functional.pad(self._whole.cumsum(0), (1, 0))
        return list(upto.index_select(0, ends).diff().unbind(0))


@functools.lru_cache(maxsize=8)
def _ends(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Kept, for batches of a training have the same numbers of bags."""
    return torch.tensor([0, *sizes]).cumsum(0).to(device)


def _wrong_lengths(name: str, feature: Feature) -> ValueError:
    return ValueError(
        f"feature {name!r}: lengths are integers of one dimension, none below 0, whose sum is the"
        f" number of ids, {feature[0].numel()}"
    )
