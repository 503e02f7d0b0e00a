"""What steps and lookups cost the host: operators of PyTorch, each a launch on a GPU, and questions
that the host waits for there. They do not creep back unnoticed."""

from __future__ import annotations

import warnings
from typing import Any

import perdure
import pytest
from torch_counts import Counts, counted
from torch_ops import one_thread

pytestmark = pytest.mark.framework("torch")
_one_thread = pytest.fixture(autouse=True)(one_thread)

IDS = 50
LAUNCHES = 28


class Steps:
    """A training over some tables of one width, whose rows are all there."""

    def __init__(
        self, tables: int, *, bags: bool = True, device: str = "cpu", **options: Any
    ) -> None:
        import torch
        from perdure import torch as pt

        rule, self.device = pt.RowWiseAdagrad(lr=0.1), device
        configs = [pt.TableConfig(f"t{n}", 8) for n in range(tables)]
        self.store = pt.create("memfd:counts", configs, rule, overwrite=True, device=device)
        kind = pt.EmbeddingBagCollection if bags else pt.EmbeddingCollection
        self.collection, self.bags = kind(self.store, configs, rule), bags
        for table in self.collection._tables:
            rows = torch.ones(IDS, table.value_bytes // 4, device=device)
            table.put(torch.arange(IDS, device=device), rows)
        self.model = torch.nn.Linear(8, 1).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.trainer = pt.Trainer(
            self.store, self.collection, self.model, self.optimizer, **options
        )

    def batch(self, number: int, long: bool = False) -> dict[str, Any]:
        """Bags of one id each, or, where `long`, of several."""
        import torch

        chance = torch.Generator().manual_seed(number)
        features: dict[str, Any] = {}
        for config in self.collection.configs:
            ids = torch.randint(0, IDS, (12,), generator=chance).to(self.device)
            lengths = torch.tensor([3, 0, 9] if long else [1] * 12, device=self.device)
            features[config.name] = (ids, lengths) if self.bags else (ids,)
        return features

    def step(self, number: int, long: bool = False) -> Counts:
        features = self.batch(number, long)
        with counted() as counts, self.trainer.step():
            loss = self.model(sum(self.collection(features).values())).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.trainer.wait()
        return counts

    def later(self, long: bool = False) -> Counts:
        """Counts of a step in the middle of the training."""
        for number in range(4):
            self.step(number, long)
        return self.step(4, long)


@pytest.fixture(params=[2, 26])
def tables(request: pytest.FixtureRequest) -> int:
    return request.param


def test_a_step_launches_as_little_for_many_tables_and_asks_once(tables: int) -> None:
    counts = Steps(tables).later()
    assert counts.questions == {"tolist": 1, "numpy": 1}, "beside the statuses of the lookup"
    assert sum(counts.launches.values()) == LAUNCHES, counts.launches
    assert counts.launches["get_rows"] == 1 and counts.launches["sort"] == 1


def test_bags_of_several_ids_cost_a_few_launches_and_no_question_more(tables: int) -> None:
    counts = Steps(tables).later(long=True)
    assert counts.questions == {"tolist": 1, "numpy": 1}
    assert sum(counts.launches.values()) == LAUNCHES + 13, counts.launches


def test_a_dense_state_whose_shape_stays_is_copied_by_one_call() -> None:
    counts = Steps(2).later()
    assert counts.launches["_foreach_copy_"] == 1
    assert counts.launches["cat"] == 2, "of ids, and of lengths"


def test_a_lookup_of_inference_sorts_nothing_and_asks_only_for_lengths(tables: int) -> None:
    import torch

    bags, rows = Steps(tables), Steps(tables, bags=False)
    for one, questions, launches in (
        (bags, {"tolist": 1, "numpy": 1}, 7),
        (rows, {"numpy": 1}, 4),
    ):
        one.collection.eval()
        features = one.batch(1)
        with torch.no_grad():
            one.collection(features)
            with counted() as counts:
                answer = one.collection(features)
        assert counts.questions == questions
        assert sum(counts.launches.values()) == launches, counts.launches
        assert answer["t1"].equal(torch.ones(12, 8))


def test_a_call_over_tables_makes_keys_by_one_launch_and_zeroes_nothing() -> None:
    import torch

    store = perdure.create("memfd:calls", 16, 64, overwrite=True)
    both = [store.table("a", 64), store.table("b", 64)]
    store.put_tables(both, torch.arange(8), torch.ones(8, 16), [0, 4, 8])
    for _ in range(2):
        with counted() as counts:
            rows = store.get_tables(both, torch.arange(8), [0, 4, 8], dtype=torch.float32)
    assert rows.values.equal(torch.ones(8, 16))
    assert counts.launches == {"stack": 1} or counts.launches == {"cat": 1}, counts.launches
    assert not counts.questions


@pytest.mark.parametrize("dtype", ["float32", "uint16", "bfloat16", "bool", "complex64"])
def test_rows_of_absent_ids_are_zeros_whatever_the_memory_held(dtype: str) -> None:
    import torch

    store = perdure.create("memfd:absent", 16, 64, overwrite=True)
    table, kind = store.table("t", 64), getattr(torch, dtype)
    table.put(torch.tensor([1, 5]), torch.ones(2, 64, dtype=torch.uint8))
    for _ in range(50):  # PyTorch answers memory that was freed a moment ago
        dirty = torch.full((3, 64), 255, dtype=torch.uint8)
        del dirty
        found = table.get(torch.tensor([1, 2, 5]), dtype=kind)
        octets = found.values.view(3, -1).view(torch.uint8)
        assert octets.sum(dim=1).tolist() == [64, 0, 64]
        column = table.get(torch.tensor([2]), dtype=kind, shape=(4, 16 // kind.itemsize))
        assert column.values.shape == (1, 4, 16 // kind.itemsize) and not column.values.any()
    none = table.get(torch.tensor([], dtype=torch.int64), dtype=kind)
    assert none.values.shape == (0, 64 // kind.itemsize)


def test_batches_that_are_cut_alike_are_told_apart_by_their_tables_and_their_offsets() -> None:
    import numpy as np

    store = perdure.create("memfd:cut", 16, 64, overwrite=True)
    a, b, c = (store.table(name, 64) for name in "abc")
    for number, table in enumerate((a, b, c)):
        table.put([1, 2], np.full((2, 64), number + 1, np.uint8))
    for _ in range(3):
        for tables, offsets, expected in (
            ([a, b], [0, 1, 2], [1, 2]),
            ([b, a], [0, 1, 2], [2, 1]),
            ([a, b], np.array([0, 2, 2]), [1, 1]),
            ([a, b], (0, 0, 2), [2, 2]),
            ([a, b, c], [0, 1, 1, 2], [1, 3]),
        ):
            found = store.get_tables(tables, [1, 2], offsets)
            assert found.values[:, 0].tolist() == expected
        for wrong in ([[0, 1, 2]], [0, 1], [0, 2, 1], [1, 1, 2], [0, 1, 3], 2):
            with pytest.raises(ValueError, match="offsets: for 2 tables and 2 ids"):
                store.get_tables([a, b], [1, 2], wrong)


@pytest.mark.parametrize("wide", [False, True])
def test_rows_that_a_commit_has_under_way_are_laid_over_without_a_question(
    wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where all rows are written, and as on the host: losses and rows are the same.
    `wide`: of ids that take more than one number with their tables."""
    import torch
    from perdure import torch as pt
    from perdure.torch import overlap

    monkeypatch.setattr(overlap, "_PATIENCE_SECONDS", 60)
    results = []
    for waits in (False, True):
        monkeypatch.setattr(overlap, "_host_waits", lambda keys, waits=waits: waits)
        rule, configs = pt.Adagrad(lr=0.5), [pt.TableConfig("t", 4, max_rows=16)]
        store = pt.create("memfd:over", configs, rule, overwrite=True)
        rows, model = pt.EmbeddingCollection(store, configs, rule), torch.nn.Linear(1, 1)
        sgd = torch.optim.SGD(model.parameters(), lr=0)
        trainer = pt.Trainer(store, rows, model, sgd, overlap=True)
        seen, gone = [], 0
        for number in range(30):
            chance = torch.Generator().manual_seed(number)
            ids = torch.randint(0, 24, (6,), generator=chance) << (50 if wide else 0)
            with trainer.step():
                weights = rows({"t": (ids,)})["t"]
                weights.square().sum().backward()
            seen.append(weights.detach().clone())
            gone += sum(map(len, trainer.evicted.values()))
        trainer.wait()
        assert gone > 0, "rows that begin anew are laid over, too"
        results.append((torch.stack(seen), sorted(store.table("t").scan(), key=str)))
        store.close()
    assert results[0][0].equal(results[1][0]) and str(results[0][1]) == str(results[1][1])


def test_a_step_beside_a_commit_asks_once_where_the_host_would_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from perdure.torch import overlap

    monkeypatch.setattr(overlap, "_PATIENCE_SECONDS", 60)
    monkeypatch.setattr(overlap, "_host_waits", lambda keys: True)
    steps = Steps(2, overlap=True)
    steps.step(0)
    with steps.trainer.step():
        sum(steps.collection(steps.batch(1)).values()).sum().backward()
    with counted() as counts, steps.trainer.step():
        sum(steps.collection(steps.batch(2)).values()).sum().backward()
    assert counts.questions == {"tolist": 1, "numpy": 1}
    assert counts.launches["where"] == 1 and counts.launches["searchsorted"] == 1
    steps.trainer.wait()


@pytest.mark.parametrize(
    "kinds",
    [[kind] * 2 for kind in ("uint8", "int16", "int32", "uint16", "uint32", "uint64")]
    + [["int64", "int32"], ["uint64", "int64"], ["int8", "uint32"]],
    ids="-".join,
)
def test_ids_and_lengths_may_be_of_any_integers(kinds: list[str]) -> None:
    import torch

    steps = Steps(2)
    of_int64 = steps.batch(3, long=True)
    of_kind = {
        name: tuple(one.to(getattr(torch, kind)) for one in both)
        for kind, (name, both) in zip(kinds, of_int64.items(), strict=True)
    }
    with torch.no_grad():
        expected = steps.collection(of_int64)
        for name, pooled in steps.collection(of_kind).items():
            assert pooled.equal(expected[name])


@pytest.mark.gpu
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
def test_on_a_gpu_pytorch_itself_sees_the_host_wait_once_a_step(long: bool, overlap: bool) -> None:
    import torch

    steps = Steps(26, device="cuda", overlap=overlap)
    for number in range(4):
        steps.step(number, long)
    features = steps.batch(4, long)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")  # PyTorch 2.11 warns of that, too
        try:
            with steps.trainer.step():
                loss = steps.model(sum(steps.collection(features).values())).square().mean()
                steps.optimizer.zero_grad()
                loss.backward()
                steps.optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    steps.trainer.wait()
    waits = [str(one.message) for one in seen if "called a synchronizing" in str(one.message)]
    assert len(waits) == 1, [f"{one.filename}:{one.lineno}" for one in seen]
