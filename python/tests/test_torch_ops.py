"""perdure::get_rows, the operator that reads rows of a pool: by itself, in compiled code, and
whatever becomes of its store."""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import perdure
import pytest
from torch_ops import compilations, get_rows, keys_of, one_thread

pytestmark = pytest.mark.framework("torch")
_one_thread = pytest.fixture(autouse=True)(one_thread)


@pytest.fixture
def store() -> Iterator[perdure.Store]:
    """Two tables, of which one is narrower than the pool."""
    with perdure.create("memfd:ops", 16, 64, overwrite=True) as made:
        made.table("wide", 64).put([1, 2, 3], np.arange(48, dtype=np.float32).reshape(3, 16))
        made.table("narrow", 16).put([1, -1], np.float32([[1, 2, 3, 4], [5, 6, 7, 8]]))
        yield made


@pytest.mark.parametrize(("table", "columns"), [("wide", 16), ("narrow", 4), ("wide", 3)])
def test_get_rows_answers_what_the_store_answers(
    store: perdure.Store, table: str, columns: int
) -> None:
    from perdure.torch import ops

    ids = [3, 1, 1, 9, -1]
    rows, statuses = get_rows(keys_of(store, table, *ids), ops.number_of(store), columns)
    expected = store.table(table).get(ids, dtype=np.float32)
    assert rows.tolist() == expected.values[:, :columns].tolist()
    assert statuses.tolist() == expected.statuses.tolist() and rows.is_contiguous()
    none, _ = get_rows(keys_of(store, table, *ids)[:0], ops.number_of(store), columns)
    assert none.shape == (0, columns)
    apart = keys_of(store, table, *ids).T.contiguous().T
    assert get_rows(apart, ops.number_of(store), columns)[0].equal(rows)


def test_get_rows_does_what_pytorch_asks_of_operators(store: perdure.Store) -> None:
    import torch
    from perdure.torch import ops

    for several in (keys_of(store, "narrow", 1, 1, 5), keys_of(store, "narrow", 1)[:0]):
        for check in (True, False):
            arguments = (several, ops.number_of(store), 4, check)
            torch.library.opcheck(torch.ops.perdure.get_rows.default, arguments)


def test_get_rows_is_compiled_for_any_number_of_keys(store: perdure.Store) -> None:
    import torch
    from perdure.torch import ops

    number, counter = ops.number_of(store), compilations()

    @torch.compile(fullgraph=True, backend=counter, dynamic=True)
    def sums(several: Any) -> Any:
        return torch.ops.perdure.get_rows(several, number, 4)[0].sum(dim=1)

    for ids in ([1, 1, 9], [1, -1, 1, 8], [-1] * 70):
        expected = store.table("narrow").get(ids, dtype=np.float32).values.sum(axis=1)
        assert sums(keys_of(store, "narrow", *ids)).tolist() == expected.tolist()
    assert counter.frame_count == 1


def test_get_rows_refuses_what_does_not_fit_and_names_it(store: perdure.Store) -> None:
    import torch
    from perdure.torch import ops

    number, some = ops.number_of(store), keys_of(store, "wide", 1)
    other = perdure.create("memfd:others", 8, 8, overwrite=True)
    odd = perdure.create("memfd:odd", 16, 62, overwrite=True)
    for arguments, says in (
        ((some.int(), number, 4), "keys are int64 of shape"),
        ((some[0], number, 4), "keys are int64 of shape"),
        ((some.reshape(1, 1, 2), number, 4), "keys are int64 of shape"),
        ((torch.zeros(1, 3, dtype=torch.int64), number, 4), "keys are int64 of shape"),
        ((some, number, 0), "columns is the number of float32"),
        ((some, number, -1), "columns is the number of float32"),
        ((some, number, 1 << 62), "columns is the number of float32"),
        ((some, number, 17), "rows of this pool have 64 bytes"),
        ((some, ops.number_of(odd), 4), "rows of this pool have 62 bytes"),
        ((some, ops.number_of(other), 1), "keys of this pool have 8 bytes"),
        ((some, 1 << 40, 4), "no open store has this number"),
        ((some, -1, 4), "no open store has this number"),
    ):
        with pytest.raises(RuntimeError, match=says):
            get_rows(*arguments)


def test_a_batch_that_memory_lacks_for_raises_and_the_next_one_is_answered(
    store: perdure.Store,
) -> None:
    from perdure.torch import ops

    number, some = ops.number_of(store), keys_of(store, "wide", 1)
    for arguments in ((some.expand(1 << 44, 2), number, 4), (some.expand(1 << 59, 2), number, 4)):
        with pytest.raises(RuntimeError):
            get_rows(*arguments)
    assert get_rows(some, number, 2)[0].tolist() == [[0.0, 1.0]]


def test_a_closed_store_has_no_number_and_its_old_one_is_dead(pools: Path) -> None:
    from perdure.torch import ops

    path = str(pools / "pool")
    store = perdure.create(path, 16, 64)
    store.table("wide", 64)
    some, number = keys_of(store, "wide", 1), ops.number_of(store)
    assert ops.number_of(store) == number
    store.close()
    with pytest.raises(RuntimeError, match="no open store has this number"):
        get_rows(some, number, 4)
    with pytest.raises(perdure.Closed):
        ops.number_of(store)
    with perdure.open(path) as again:  # nothing keeps the pool
        assert ops.number_of(again) != number
        assert get_rows(some, ops.number_of(again), 4)[1].tolist() == [1]


def test_a_store_that_nobody_holds_is_freed_though_it_has_a_number(pools: Path) -> None:
    import torch
    from perdure.torch import ops

    path = str(pools / "pool")
    store = perdure.create(path, 16, 64)
    number, seen = ops.number_of(store), weakref.ref(store)
    del store
    gc.collect()
    assert seen() is None
    perdure.open(path).close()
    with pytest.raises(RuntimeError, match="no open store has this number"):
        get_rows(torch.zeros((1, 2), dtype=torch.int64), number, 4)


def test_a_store_is_closed_under_threads_that_look_up(pools: Path) -> None:
    from perdure.torch import ops

    path = str(pools / "pool")
    for _ in range(20):
        store = perdure.create(path, 16, 64, overwrite=True)
        store.table("wide", 64).put([1], np.ones((1, 16), np.float32))
        some, number = keys_of(store, "wide", 1), ops.number_of(store)
        answers: list[str] = []

        def look_up(some: Any = some, number: int = number, answers: Any = answers) -> None:
            try:
                while True:
                    assert get_rows(some, number, 16)[0].sum() == 16
            except RuntimeError as error:
                answers.append(str(error))

        threads = [threading.Thread(target=look_up) for _ in range(3)]
        for one in threads:
            one.start()
        store.close()
        for one in threads:
            one.join()
        assert len(answers) == 3 and all("closed" in one or "no open" in one for one in answers)
        perdure.open(path).close()


def test_damage_is_told_by_the_operator_and_by_a_collection_in_its_own_words(pools: Path) -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    path, tables = pools / "pool", [pt.TableConfig("t", 4)]
    store = pt.create(str(path), tables, pt.SGD(lr=1.0))
    bags = pt.EmbeddingCollection(store, tables, pt.SGD(lr=1.0))
    table = store.table("t")
    row = np.arange(table.value_bytes, dtype=np.uint8) + 40
    table.put([5], row[None])
    with open(path, "r+b") as file:
        at = file.read().index(row.tobytes())
        file.seek(at)
        file.write(b"\xff")
    some = torch.tensor([[5, table.number], [6, table.number]])
    with pytest.raises(RuntimeError, match="key 0 of 2: the stored record fails its checksum"):
        get_rows(some, ops.number_of(store), 4)
    assert get_rows(some, ops.number_of(store), 4, False)[1].tolist() == [3, 1]
    with pytest.raises(perdure.Corrupt, match="key 0 of 2"):
        bags({"t": (torch.tensor([5, 6]),)})


@pytest.mark.parametrize("beside", [False, True], ids=["store", "follower"])
def test_in_a_pool_of_any_length_a_row_has_its_tables_width(pools: Path, beside: bool) -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    store = perdure.create(pools / "pool", 16, None)
    narrow, wide = store.table("narrow", 32), store.table("wide", 48)
    narrow.put([1, 2], np.arange(16, dtype=np.float32).reshape(2, 8))
    wide.put([1], np.ones((1, 12), np.float32))
    some = torch.tensor([[2, narrow.number], [1, wide.number], [3, narrow.number]])
    reader = pt.Follower(pools / "pool") if beside else store
    number = ops.number_of(reader)
    assert get_rows(some[:1], number, 8)[0].tolist() == [[8, 9, 10, 11, 12, 13, 14, 15]]
    assert get_rows(some[1:2], number, 12)[0].tolist() == [[1.0] * 12]
    rows, statuses = get_rows(some, number, 8, False)
    assert statuses.tolist() == [0, 2, 1] and not rows[1:].any()
    with pytest.raises(RuntimeError, match="key 1 of 3: the stored row has another length"):
        get_rows(some, number, 8)
    torch.library.opcheck(torch.ops.perdure.get_rows.default, (some[::2], number, 8))
    with pytest.raises(perdure.InvalidArgument, match=r"key 1 of 3: .*a value is no row"):
        ops.rows_of(reader, some, 32)


# --- other processes, and the end of this one


def _in_child(number: int, some: Any, bags: Any, to: Any) -> None:
    import torch
    from perdure.torch import ops

    answers = []
    for call in (lambda: get_rows(some, number, 4), lambda: bags({"t": (torch.arange(2),)})):
        try:
            call()
            answers.append("answered")
        except (RuntimeError, perdure.Closed) as error:
            answers.append(f"{type(error).__name__}: {error}")
    with perdure.create("memfd:child", 16, 64) as own:
        own.table("t", 64).put([7], np.ones((1, 16), np.float32))
        answers.append(str(get_rows(keys_of(own, "t", 7), ops.number_of(own), 16)[0].sum().item()))
    to.send(answers)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_so_and_may_have_a_pool_of_its_own() -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    tables = [pt.TableConfig("t", 4)]
    store = pt.create("memfd:parent", tables, pt.SGD(lr=1.0))
    bags = pt.EmbeddingCollection(store, tables, pt.SGD(lr=1.0))
    some, number = torch.zeros((1, 2), dtype=torch.int64), ops.number_of(store)
    stop = threading.Event()

    def busy() -> None:  # somebody looks at the list of stores while the process forks
        while not stop.is_set():
            get_rows(some, number, 4)

    def numbers() -> None:
        while not stop.is_set():
            with perdure.create("memfd:numbers", 16, 64) as other:
                ops.number_of(other)

    threads = [threading.Thread(target=one) for one in (busy, busy, numbers)]
    for one in threads:
        one.start()
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        here, there = context.Pipe()
        child = context.Process(target=_in_child, args=(number, some, bags, there))
        child.start()
        assert here.poll(30), "the child waits for a lock of its parent"
        by_number, by_module, own = here.recv()
        child.join()
        assert by_number.startswith("RuntimeError: perdure::get_rows") and "process" in by_number
        assert by_module.startswith("Closed") and own == "16.0"
    stop.set()
    for one in threads:
        one.join()


ENDS = """
import torch
from perdure import torch as pt
from perdure.torch import ops
tables = [pt.TableConfig("t", 4)]
store = pt.create("memfd:ends", tables, pt.SGD(lr=1.0))
bags = pt.EmbeddingCollection(store, tables, pt.SGD(lr=1.0))
print(ops.native, bags({"t": (torch.arange(3),)})["t"].shape)
"""


def test_a_program_that_closes_nothing_ends_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("True")


@pytest.mark.gpu
def test_rows_stay_on_the_gpu_and_wait_for_the_callers_stream() -> None:
    import torch
    from perdure import torch as pt
    from perdure.torch import ops

    with perdure.create("memfd:gpu", 16, 64, device="cuda") as store:
        table = store.table("t", 64)
        table.put(np.arange(5000), np.arange(80000, dtype=np.float32).reshape(5000, 16))
        some = torch.stack([torch.arange(5001), torch.full((5001,), table.number)], dim=1).cuda()
        expected = torch.arange(80000, dtype=torch.float32).reshape(5000, 16).cuda()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            large = torch.rand(4000, 4000, device="cuda")
            late = torch.zeros_like(some)
            for _ in range(20):
                large = large @ large
            late.copy_(some)  # once the products are done
            for columns in (16, 5):
                rows, statuses = get_rows(late, ops.number_of(store), columns)
                assert rows.is_cuda and not statuses.is_cuda
                assert rows[:5000].equal(expected[:, :columns]) and not rows[5000].any()
                assert statuses.tolist() == [0] * 5000 + [1]
        torch.library.opcheck(
            torch.ops.perdure.get_rows.default, (some[:7], ops.number_of(store), 4)
        )
        for _ in range(5):  # PyTorch answers memory that was freed a moment ago
            dirty = torch.full((5001, 16), 7.0, device="cuda")
            del dirty
            assert not get_rows(some, ops.number_of(store), 16)[0][5000].any()
        if torch.cuda.device_count() > 1:
            with pytest.raises(RuntimeError, match="lie on cuda:1, and stores are on the first"):
                get_rows(some.to("cuda:1"), ops.number_of(store), 16)
    with pt.create("memfd:host", [pt.TableConfig("t", 4)], pt.SGD(lr=1.0)) as host:
        number = ops.number_of(host)
        with pytest.raises(RuntimeError, match="this store runs on the CPU"):
            get_rows(some, number, 4)


@pytest.mark.gpu
def test_rows_of_any_length_stay_on_the_gpu() -> None:
    import torch
    from perdure.torch import ops

    with perdure.create("memfd:gpu", 16, None, device="cuda") as store:
        tables = [store.table("narrow", 32), store.table("wide", 64)]
        ids = torch.arange(3000, device="cuda")
        for table in tables:
            made = torch.rand(3000, table.value_bytes // 4, device="cuda")
            assert store.put_tables([table], ids, made).done.all()
            got = store.get_tables([table], ids, dtype=torch.float32)
            assert got.values.is_cuda and got.values.equal(made) and got.found.all()
            some = torch.stack([ids, torch.full_like(ids, table.number)], dim=1)
            assert get_rows(some, ops.number_of(store), made.shape[1])[0].equal(made)
            rows, statuses = get_rows(some, ops.number_of(store), 5, False)
            assert rows.is_cuda and not rows.any() and set(statuses.tolist()) == {2}
