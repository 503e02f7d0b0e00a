"""torchrec's batches: a KeyedJaggedTensor goes in, and comes out as from torchrec's modules.

Invariant: torchrec is imported where a batch of its comes, and not before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import Tensor, cat

if TYPE_CHECKING:
    from perdure.torch.features import Feature


def is_keyed(features: Any) -> bool:
    return hasattr(features, "weights_or_none") and hasattr(features, "to_dict")


def features_of(batch: Any, names: Iterable[str]) -> dict[str, Feature]:
    """Ids, lengths and, where it has them, weights of each feature; others of the batch are not
    looked at."""
    jagged = batch.to_dict()
    missing = [name for name in names if name not in jagged]
    if missing:
        raise KeyError(f"feature {missing[0]!r}; the batch has {', '.join(jagged)}")
    features = {}
    for name in names:
        one = jagged[name]
        weights = one.weights_or_none()
        features[name] = (one.values(), one.lengths(), *(() if weights is None else (weights,)))
    return features


def keyed_tensor(batch: Any, pooled: dict[str, Tensor]) -> Any:
    """A KeyedTensor of all features. Of a batch that has each distinct sample once, all samples."""
    from torchrec.sparse.jagged_tensor import KeyedTensor

    inverse = batch.inverse_indices_or_none()
    if inverse is not None:
        keys, indices = inverse
        pooled = {name: one[indices[keys.index(name)]] for name, one in pooled.items()}
    widths = [one.shape[1] for one in pooled.values()]
    return KeyedTensor(list(pooled), widths, cat(list(pooled.values()), dim=1))


def jagged_tensors(features: dict[str, Feature], weights: dict[str, Tensor]) -> dict[str, Any]:
    """A JaggedTensor of each feature."""
    from torchrec.sparse.jagged_tensor import JaggedTensor

    return {name: JaggedTensor(one, lengths=features[name][1]) for name, one in weights.items()}
