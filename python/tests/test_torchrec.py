"""perdure.torch beside torchrec's own collections, over the same weights; `make test-torch`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytestmark = [
    pytest.mark.framework("torchrec"),
    pytest.mark.filterwarnings("ignore"),  # torchrec warns of much
]

IDS, DIMS = 20, {"t": 4, "u": 6}
FEATURES = {"t": ["a", "b"], "u": ["c"]}


def collections(kind: str, rule: Any, weighted: bool = False, pooling: str = "sum") -> Any:
    """Ours with its trainer, and torchrec's of the same weights."""
    import torch
    import torchrec
    from perdure import torch as pt

    tables = [pt.TableConfig(name, DIMS[name], FEATURES[name], pooling) for name in DIMS]
    if kind == "EmbeddingCollection":  # which has one dim
        tables = [pt.TableConfig(name, 4, FEATURES[name]) for name in DIMS]
    store = pt.create("memfd:torchrec", tables, rule, overwrite=True)
    ours = getattr(pt, kind)(store, tables, rule)
    none = torch.nn.Linear(1, 1)
    trainer = pt.Trainer(store, ours, none, torch.optim.SGD(none.parameters(), lr=0))
    named = {"num_embeddings": IDS}
    configs: list[Any] = []
    for table in tables:
        of_table = {"name": table.name, "embedding_dim": table.dim, "feature_names": table.features}
        if kind == "EmbeddingBagCollection":
            how = getattr(torchrec.PoolingType, pooling.upper())
            configs.append(torchrec.EmbeddingBagConfig(**named, **of_table, pooling=how))
        else:
            configs.append(torchrec.EmbeddingConfig(**named, **of_table))
    options = {"is_weighted": weighted} if kind == "EmbeddingBagCollection" else {}
    theirs = getattr(torchrec, kind)(tables=configs, **options)
    every, one = torch.arange(IDS), torch.ones(IDS, dtype=torch.int64)
    for table in tables:
        rows = ours({table.features[0]: (every, one)})[table.features[0]].detach()
        weight_of(theirs, table.name).data.copy_(rows)
    return trainer, ours, theirs


def weight_of(theirs: Any, name: str) -> Any:
    of_tables = getattr(theirs, "embedding_bags", None) or theirs.embeddings
    return of_tables[name].weight


def batch(seed: int, weighted: bool = False) -> Any:
    """Of three features and four samples, one of which nobody knows, with some ids twice."""
    import torch
    from torchrec import KeyedJaggedTensor

    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, 5, (16,), generator=random)
    count = int(lengths.sum())
    return KeyedJaggedTensor(
        keys=["unknown", "c", "a", "b"],
        values=torch.randint(0, IDS, (count,), generator=random),
        lengths=lengths,
        weights=torch.rand(count, generator=random) if weighted else None,
    )


@pytest.mark.parametrize(("pooling", "weighted"), [("sum", 0), ("mean", 0), ("sum", 1)])
def test_bags_and_their_gradients_are_torchrecs(pooling: str, weighted: int) -> None:
    import torch
    from perdure import torch as pt
    from torchrec import KeyedTensor

    trainer, ours, theirs = collections(
        "EmbeddingBagCollection", pt.SGD(lr=0.5), bool(weighted), pooling
    )
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for step in range(4):
        given = batch(step, bool(weighted))
        sgd.zero_grad()
        other = theirs(given)
        other.values().square().sum().backward()
        with trainer.step():
            mine = ours(given)
            assert isinstance(mine, KeyedTensor)
            mine.values().square().sum().backward()
        sgd.step()
        assert mine.keys() == other.keys() == ["a", "b", "c"]
        assert mine.length_per_key() == other.length_per_key()
        assert torch.allclose(mine.values(), other.values(), atol=1e-5)
        assert torch.allclose(mine["c"], other["c"], atol=1e-5)
    for name, dim in DIMS.items():
        rows = ours.store.table(name).get(torch.arange(IDS), dtype=torch.float32)
        there = torch.from_numpy(rows.found)
        assert there.any()
        assert torch.allclose(
            rows.values[there, :dim], weight_of(theirs, name)[there].detach(), atol=1e-5
        )


def test_rows_and_their_gradients_are_torchrecs() -> None:
    import torch
    from perdure import torch as pt
    from torchrec import JaggedTensor

    trainer, ours, theirs = collections("EmbeddingCollection", pt.SGD(lr=0.5))
    given = batch(7)
    other = theirs(given)
    sum(one.values().square().sum() for one in other.values()).backward()
    with trainer.step():
        mine = ours(given)
        sum(one.values().square().sum() for one in mine.values()).backward()
    assert list(mine) == list(other)
    for name, one in mine.items():
        assert isinstance(one, JaggedTensor)
        assert torch.equal(one.values(), other[name].values())
        assert torch.equal(one.lengths(), other[name].lengths())
        assert torch.equal(one.offsets(), other[name].offsets())
    for name in DIMS:
        rows = ours.store.table(name).get(torch.arange(IDS), dtype=torch.float32)
        weight = weight_of(theirs, name)
        there = torch.from_numpy(rows.found)
        expected = (weight - 0.5 * weight.grad).detach()
        assert torch.allclose(rows.values[there, :4], expected[there], atol=1e-5)


def test_a_batch_of_distinct_samples_answers_all_of_them() -> None:
    import torch
    from perdure import torch as pt
    from torchrec import KeyedJaggedTensor

    _, ours, theirs = collections("EmbeddingBagCollection", pt.SGD(lr=0.5))
    given = KeyedJaggedTensor(
        keys=["a", "b", "c"],
        values=torch.tensor([1, 2, 3, 4, 5, 6]),
        lengths=torch.tensor([2, 1, 1, 0, 1, 1]),
        stride_per_key_per_rank=[[2], [1], [3]],
        inverse_indices=(
            ["a", "b", "c"],
            torch.tensor([[0, 1, 1, 0], [0, 0, 0, 0], [2, 1, 0, 2]]),
        ),
    )
    mine, other = ours(given), theirs(given)
    assert mine.values().shape == (4, 14)
    assert torch.allclose(mine.values(), other.values())


def test_a_batch_without_a_feature_is_refused() -> None:
    import torch
    from perdure import torch as pt
    from torchrec import KeyedJaggedTensor

    _, ours, _ = collections("EmbeddingBagCollection", pt.SGD(lr=0.5))
    given = KeyedJaggedTensor(["a"], torch.tensor([1]), lengths=torch.tensor([1]))
    with pytest.raises(KeyError, match="feature 'b'; the batch has a"):
        ours(given)


def test_torchrec_is_imported_by_its_batches_alone() -> None:
    program = "import sys, perdure.torch; assert 'torchrec' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
