"""What a step over several processes asks of its host and its links, whatever its tables."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perdure
import pytest

pytestmark = pytest.mark.framework("torch")


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """A process group of this process; of NCCL in tests that need a GPU."""
    import torch.distributed as dist

    kind = "nccl" if request.node.get_closest_marker("gpu") else "gloo"
    dist.init_process_group(kind, init_method=f"file://{tmp_path}/one", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def training(path: Path, dims: list[int], **more: Any) -> tuple[perdure.Store, Any, Any]:
    import torch
    from perdure import torch as pt

    rule = pt.Adagrad(lr=0.1)
    tables = [pt.TableConfig(f"t{n}", dim) for n, dim in enumerate(dims)]
    store = pt.create(path, tables, rule, **more)
    bags = pt.ShardedEmbeddingBagCollection(store, tables, rule)
    none = torch.nn.Linear(3, 3)
    trainer = pt.ShardedTrainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0.1))
    trainer.resume()
    return store, bags, trainer


def step_of(bags: Any, trainer: Any, first: int, size: int = 20) -> None:
    import torch

    ids = torch.arange(first, first + size, device=bags.store.device)
    with trainer.step():
        features = {c.name: (ids, torch.ones_like(ids)) for c in bags.configs}
        torch.cat(list(bags(features).values()), 1).square().sum().backward()


def count(patch: pytest.MonkeyPatch, to: Any, owner: Any, name: str, what: str) -> None:
    usual = getattr(owner, name)

    def counting(*arguments: Any, **named: Any) -> Any:
        to[what] += 1
        return usual(*arguments, **named)

    patch.setattr(owner, name, counting)


def costs(store: perdure.Store, bags: Any, trainer: Any, first: int) -> dict[str, int]:
    """Of a step: collectives, batches of the pool, and when a host waits for a GPU's answer."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: collections.Counter[str] = collections.Counter()

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = str(op)
            found["collectives"] += name.startswith("c10d.")
            found["reads"] += name.startswith("perdure.get_rows")
            masks = name.startswith(("aten.index.", "aten.index_put")) and any(
                one is not None and one.dtype == torch.bool for one in args[1]
            )
            waits = ("aten._local_scalar_dense", "aten.nonzero", "aten.bincount", "aten._unique")
            asks = name.startswith(waits) and not name.startswith("aten.nonzero_static")
            found["waits"] += masks or asks
            return op(*args, **(kwargs or {}))

    with pytest.MonkeyPatch.context() as patch, Counting():
        count(patch, found, perdure.Store, "_put_whole", "puts")
        count(patch, found, perdure.Store, "_get_rows", "reads")
        count(patch, found, torch.Tensor, "tolist", "waits")
        step_of(bags, trainer, first)
    return dict(found)


@pytest.mark.parametrize("tables", [1, 8])
def test_a_step_is_five_messages_one_read_and_one_put_however_many_tables(
    pools: Path, tables: int
) -> None:
    store, bags, trainer = training(pools / "p", [8] * tables)
    step_of(bags, trainer, 0)
    found = costs(store, bags, trainer, 0)
    assert (found["collectives"], found["reads"], found["puts"]) == (5, 1, 1)
    assert found["waits"] == 4, "for distinct ids, counts, flags of gradients, and the others' step"


def test_tables_of_three_widths_take_a_read_each_and_no_more_messages_or_puts(
    pools: Path,
) -> None:
    store, bags, trainer = training(pools / "p", [8, 16, 32])
    step_of(bags, trainer, 0)
    found = costs(store, bags, trainer, 0)
    assert (found["collectives"], found["reads"], found["puts"]) == (5, 3, 1)


def test_new_rows_add_no_put_and_a_step_with_old_and_new_ones_can_be_taken_back(
    pools: Path,
) -> None:
    store, bags, trainer = training(pools / "p", [8, 16])
    step_of(bags, trainer, 0)
    names = [config.name for config in bags.configs]
    before = [sorted(page for ids, _ in store.table(n).scan() for page in ids) for n in names]
    assert costs(store, bags, trainer, 10)["puts"] == 1
    assert len(store.table("t0").get(range(30)).found.nonzero()[0]) == 30
    trainer._take_back()
    after = [sorted(page for ids, _ in store.table(n).scan() for page in ids) for n in names]
    assert after == before == [list(range(20))] * 2


def test_two_collections_are_one_put_and_train_as_those_of_one_process(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    rule = pt.Adam(lr=0.1)
    tables = [[pt.TableConfig("a", 8)], [pt.TableConfig("b", 12), pt.TableConfig("c", 8)]]
    none = torch.nn.Linear(3, 3)
    dense = torch.optim.SGD(none.parameters(), lr=0.1)
    found, puts = [], []
    for kind in ("", "Sharded"):
        store = pt.create(pools / f"p{kind}", [*tables[0], *tables[1]], rule)
        make = getattr(pt, f"{kind}EmbeddingBagCollection")
        both = [make(store, some, rule) for some in tables]
        trainer = getattr(pt, f"{kind}Trainer")(store, both, none, dense)
        trainer.resume()
        for size in (5, 40, 3, 17):  # so that rows of a step lie where more were before
            ids = torch.arange(size) * 7 % 50
            features = (ids, torch.ones(size, dtype=torch.int64))
            batches: collections.Counter[str] = collections.Counter()
            with pytest.MonkeyPatch.context() as patch:
                count(patch, batches, perdure.Store, "_put_whole", "puts")
                with trainer.step():
                    for bags in both:
                        pooled = bags({config.name: features for config in bags.configs})
                        sum(one.square().sum() for one in pooled.values()).backward()
            puts.append(batches["puts"])
        found.append({n: store.table(n).get(range(50)).values.tobytes() for n in "abc"})
    assert found[0] == found[1]
    assert puts[5:] == [1, 1, 1], "but for the first, which makes notes"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
def test_on_a_gpu_no_message_and_no_old_row_goes_through_the_host(pools: Path) -> None:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    crossing = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            answer = op(*args, **(kwargs or {}))
            if str(op).startswith(("aten._to_copy", "aten.copy_")):
                given = args[1] if str(op).startswith("aten.copy_") else args[0]
                if given.device.type != answer.device.type:
                    crossing.append((str(op), given.nbytes))
            return answer

    store, bags, trainer = training(pools / "p", [8, 16], device="cuda")
    step_of(bags, trainer, 0, 3000)
    with Watching():
        step_of(bags, trainer, 1000, 3000)
    assert crossing, "counts, at least"
    assert [one for one in crossing if one[1] >= 16_000] == [], "keys have 48,000 bytes"
    ids = torch.arange(4000, device="cuda")
    assert store.table("t0").get(ids).found.all()


def test_pools_of_any_length_train_alike_and_a_step_there_can_be_taken_back(pools: Path) -> None:
    import torch
    from perdure import torch as pt

    tables, rule = [pt.TableConfig("wide", 64), pt.TableConfig("narrow", 2)], pt.Adam(lr=0.1)
    rows: list[list[Any]] = []
    for name in ("one", "any"):
        if name == "one":
            store = pt.create(pools / name, tables, rule)
        else:
            store = perdure.create(pools / name, key_bytes=16, value_bytes=None)
        bags = pt.ShardedEmbeddingBagCollection(store, tables, rule)
        none = torch.nn.Linear(3, 3)
        trainer = pt.ShardedTrainer(store, bags, none, torch.optim.SGD(none.parameters(), lr=0.1))
        trainer.resume()

        def held(store: perdure.Store = store) -> Any:
            return [store.table(one.name).get(range(40)).values.tolist() for one in tables]

        for first in (0, 10, 0):
            before = held() if first else None
            step_of(bags, trainer, first)
            if before is not None:
                after = held()
                trainer._take_back()
                assert held() == before
                assert trainer.resume() == 1
                step_of(bags, trainer, first)
                assert held() == after
        rows.append(held())
    assert rows[0] == rows[1]
