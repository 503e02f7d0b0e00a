"""Saves of checkpoints that meet others: by threads of one process at once, of which one counts,
whole and by its own name, or both do, one after the other; and of one store in two folders."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import perdure
import pytest
from test_torch_dcp import a_writer, kept, load, refused, save

pytestmark = [
    pytest.mark.framework("torch"),
    pytest.mark.filterwarnings("ignore:torch.distributed is"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("held", ["write_data", "keep"])
@pytest.mark.parametrize("writers", [1, 2])
def test_a_save_that_begins_within_another_is_refused_and_takes_nothing_of_it(
    pools: Path, monkeypatch: pytest.MonkeyPatch, held: str, writers: int
) -> None:
    import torch
    from perdure.torch.checkpoint import CheckpointWriter
    from perdure.torch.checkpoint_list import Catalogue

    first = a_writer(pools / "run")
    second = first if writers == 1 else a_writer(pools / "run")
    save({"t": torch.zeros(9)}, first, checkpoint_id="before")
    there, may_go_on = threading.Event(), threading.Event()
    kind: Any = Catalogue if held == "keep" else CheckpointWriter
    usual = getattr(kind, held)

    def waiting(*arguments: Any) -> Any:
        if threading.current_thread() is thread:
            there.set()
            assert may_go_on.wait(20)
        return usual(*arguments)

    monkeypatch.setattr(kind, held, waiting)
    state = {"t": torch.arange(9.0), "many": torch.randn(10_000)}
    thread = threading.Thread(target=save, args=(state, first), kwargs={"checkpoint_id": "first"})
    thread.start()
    assert there.wait(20)
    other = {"u": torch.ones(5)}
    said = refused(lambda: save(other, second, checkpoint_id="second"))
    may_go_on.set()
    thread.join()

    assert isinstance(said, perdure.Busy), said
    assert str(said) == f"{pools / 'run'}: another save is under way; let it end first"
    got = {name: torch.zeros_like(one) for name, one in state.items()}
    assert load(got, pools / "run").id == "first"
    assert all(torch.equal(got[name], one) for name, one in state.items())
    save(other, second, checkpoint_id="second")
    assert load({"u": torch.zeros(5)}, pools / "run", "second").number == 3
    assert kept(pools / "run") == [2, 3]


def test_a_save_that_failed_on_another_rank_keeps_no_thread_out(pools: Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp
    from perdure.torch.checkpoint_list import Catalogue, Where

    writer, where = a_writer(pools / "run"), Where.of(pools / "run", None)
    save({"t": torch.zeros(9)}, writer)
    Catalogue.of(where).begin(where, 2)  # as of a save of this thread, which nobody ends
    dcp.async_save({"t": torch.ones(9)}, storage_writer=writer).result()
    assert kept(pools / "run") == [1, 2]


def test_saves_of_threads_that_hurry_count_whole_or_not_at_all(pools: Path) -> None:
    import torch
    from perdure.torch.checkpoint import CheckpointReader
    from torch.distributed.checkpoint import CheckpointException

    writer = a_writer(pools / "run", keep=3)
    done: list[str] = []
    refusals: list[str] = []

    def hurry(of: int) -> None:
        for number in range(12):
            state = {f"t{of}": torch.full((700,), float(number)), "number": number}
            try:
                save(state, writer, checkpoint_id=f"{of}/{number}")
                done.append(f"{of}/{number}")
            except CheckpointException as error:
                refusals.append(str(error))

    threads = [threading.Thread(target=hurry, args=(of,)) for of in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done
    assert all("another save is under way" in one for one in refusals)
    for known in CheckpointReader(pools / "run").checkpoints():
        of, of_save = known.id.split("/")
        got: dict[str, Any] = {f"t{of}": torch.zeros(700), "number": -1}
        load(got, pools / "run", number=known.number)
        assert known.id in done
        assert got["number"] == int(of_save)
        assert bool((got[f"t{of}"] == float(of_save)).all())


@pytest.mark.parametrize("removed", [False, True])
def test_a_store_that_saves_to_another_folder_loads_the_first_checkpoint_there(
    pools: Path, removed: bool
) -> None:
    import shutil

    import torch
    from torch_checkpoints import trained

    store, bags, trainer = trained(str(pools / "p"))
    trainer.resume()
    folder = pools / "p.checkpoints"
    writer = a_writer(store)

    def step(number: int) -> None:
        with trainer.step():
            ids, ones = torch.arange(3), torch.ones(3, dtype=torch.int64)
            bags({"t": (ids, ones)})["t"].sum().backward()
            save({"number": number}, writer)

    for number in range(1, 5):
        step(number)
    if removed:
        shutil.rmtree(folder)
    else:
        folder = pools / "another"
        writer = a_writer(store, folder=folder)
    step(5)
    got = {"number": 0}
    assert load(got, store, folder=folder).step == got["number"] == 5
    assert kept(store, folder=folder) == [5]
    step(6)
    assert kept(store, folder=folder) == [5, 6]


def test_a_writer_goes_to_a_process_that_saves_but_for_one_that_has_the_store(
    pools: Path,
) -> None:
    import pickle

    import torch
    from torch_checkpoints import trained

    writer = a_writer(pools / "run")
    save({"t": torch.zeros(3)}, writer)
    other = pickle.loads(pickle.dumps(writer))
    writer.close()
    save({"t": torch.ones(3)}, other)
    assert kept(pools / "run") == [1, 2]
    store, _, trainer = trained(str(pools / "p"))
    trainer.resume()
    with pytest.raises(perdure.Unsupported, match="make the writer with the folder alone"):
        pickle.dumps(a_writer(store))
