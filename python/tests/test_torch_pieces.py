"""Digests of checkpoints' pieces, sets of their names, and what they ask of Python."""

from __future__ import annotations

import cProfile
import hashlib
import pstats
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.framework("torch"),
    pytest.mark.filterwarnings("ignore:torch.distributed is"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PIECE = 16 << 10


def plain_digests(pieces: Any, seed: bytes) -> bytes:
    """As pieces.py says, in Python's own whole numbers."""
    columns = np.frombuffer(hashlib.shake_256(seed).digest(16 * PIECE), np.int8)
    sums = pieces.view(np.int8).reshape(-1, PIECE).astype(np.int64) @ columns.reshape(
        PIECE, 16
    ).astype(np.int64)
    drawn = hashlib.shake_256(b"sums" + seed).digest(8 * 4 * (32 * 16 + 1))
    factors = np.frombuffer(drawn, "<u8").reshape(4, -1).tolist()
    found = b""
    for one in sums.reshape(len(pieces), pieces.shape[1] // PIECE * 16).tolist():
        for b, *a in factors:
            whole = b + sum(factor * (x % 2**32) for factor, x in zip(a, one, strict=False))
            found += (whole % 2**64 >> 32).to_bytes(4, "little")
    return found


def test_digests_are_the_same_wherever_they_are_made() -> None:
    import torch
    from perdure.torch.pieces import Digests

    chance = np.random.default_rng(1)
    pieces = chance.integers(0, 256, (3, 2 * PIECE), np.uint8)
    pieces[1] = 128  # the greatest sums, both ways
    plain = plain_digests(pieces, b"seed")
    assert Digests(b"seed").of(torch.from_numpy(pieces)).tobytes() == plain
    assert Digests(b"other").of(torch.from_numpy(pieces)).tobytes() != plain


@pytest.mark.parametrize(("least", "together"), [(1, 1), (17, 1), (17, 20), (90, 100)])
def test_digests_of_many_tensors_are_those_of_each(
    least: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a device multiplies no few rows, and those of small tensors go together."""
    import torch
    from perdure.torch import pieces
    from perdure.torch.pieces import Digests

    monkeypatch.setitem(pieces._LEAST_ROWS, "cpu", least)
    monkeypatch.setitem(pieces._ROWS_TOGETHER, "cpu", together)
    several = [torch.randint(0, 256, (n, PIECE), dtype=torch.uint8) for n in (3, 0, 40, 1, 17, 16)]
    found = Digests(b"seed").of_each(several)
    assert [len(one) for one in found] == [len(one) for one in several]
    monkeypatch.setattr(pieces, "hashed_on_host", pieces.hashed_there)  # as GPUs do
    monkeypatch.setattr(pieces, "_HASHED", 7)
    for one, names in zip(several, Digests(b"seed").of_each(several), strict=True):
        assert names.tobytes() == plain_digests(one.numpy(), b"seed")
    for one, names in zip(several, found, strict=True):
        assert names.tobytes() == plain_digests(one.numpy(), b"seed")


def test_a_device_without_room_for_a_copy_digests_tensors_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch
    from perdure.torch import pieces

    monkeypatch.setitem(pieces._LEAST_ROWS, "cpu", 17)
    monkeypatch.setitem(pieces._ROWS_TOGETHER, "cpu", 100)
    several = [torch.randint(0, 256, (n, PIECE), dtype=torch.uint8) for n in (3, 40, 1)]
    refused = []

    def full(tensors: Any) -> Any:
        refused.append(len(tensors))
        raise torch.OutOfMemoryError("no room, says the test")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "cat", full)
        found = pieces.Digests(b"seed").of_each(several)
    assert refused == [3]
    for one, names in zip(several, found, strict=True):
        assert names.tobytes() == plain_digests(one.numpy(), b"seed")


def test_each_bit_of_a_piece_changes_its_digest() -> None:
    import torch
    from perdure.torch.pieces import Digests

    pieces = torch.zeros((2048, PIECE), dtype=torch.uint8)
    at = torch.randperm(PIECE)[:2047]
    pieces[torch.arange(1, 2048), at] = (1 << torch.arange(2047) % 8).to(torch.uint8)
    assert len({bytes(one) for one in Digests(b"seed").of(pieces)}) == 2048


@pytest.mark.gpu
def test_a_gpus_state_has_the_hosts_digests_and_its_changed_pieces_are_saved(pools: Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp
    from perdure.torch.checkpoint import CheckpointReader, CheckpointWriter
    from perdure.torch.pieces import Digests

    whole = torch.randint(0, 256, (600 * PIECE,), dtype=torch.uint8, device="cuda")
    parts = {
        "small": whole[: 3 * PIECE],
        "begins within a line": whole[PIECE + 4 : 41 * PIECE + 4],
        "large": whole[64 * PIECE :],
    }
    pieces = [one.reshape(-1, PIECE) for one in parts.values()]
    found = Digests(b"seed").of_each(pieces)
    expected = Digests(b"seed").of_each([one.cpu() for one in pieces])
    assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]
    state = {**parts, "bias": torch.randn(7, device="cuda"), "host": torch.randn(5000)}
    state = {name: one.clone() for name, one in state.items()}
    writer = CheckpointWriter(pools / "run", piece_bytes=PIECE)
    dcp.save(state, storage_writer=writer)
    state["large"].view(-1, PIECE)[[3, 90, 500], 0] += 1
    state["bias"] += 1
    dcp.save(state, storage_writer=writer)
    assert writer.pieces_put == 4, "three, and the one that what is small shares"
    loaded = {name: torch.zeros_like(one) for name, one in state.items()}
    dcp.load(loaded, storage_reader=CheckpointReader(pools / "run"))
    assert all(torch.equal(loaded[name], one) for name, one in state.items())


@pytest.mark.parametrize("firsts", [1, 3, 1 << 20])
def test_sets_of_names_are_those_of_python_whatever_halves_they_share(firsts: int) -> None:
    from perdure.torch import piece_names

    chance = np.random.default_rng(firsts)
    a, b, none = (chance.integers(0, [firsts, 9], (n, 2)).astype("<u8") for n in (200, 90, 0))

    def of(names: Any) -> set[tuple[int, ...]]:
        return {tuple(one) for one in names.tolist()}

    for names in (a, none):
        each, first = piece_names.each_once(names)
        assert each.tolist() == sorted(map(list, of(names)))
        assert [names.tolist().index(one) for one in each.tolist()] == first.tolist()
    each, _ = piece_names.each_once(a)
    mask = piece_names.are_among(each, b)
    assert mask.tolist() == [tuple(one) in of(a) for one in b.tolist()]
    assert not piece_names.are_among(none, b).any()
    others, _ = piece_names.each_once(b)
    assert of(piece_names.union(each, none, others)) == of(a) | of(b)
    assert of(piece_names.without(each, others)) == of(a) - of(b)


def test_a_save_of_more_pieces_takes_no_more_steps_of_python(pools: Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp
    from perdure.torch.checkpoint import CheckpointWriter

    def calls(megabytes: int) -> tuple[int, int]:
        """Python calls of a second save, of which a few pieces are new, and those pieces."""
        writer = CheckpointWriter(pools / f"run-{megabytes}", piece_bytes=PIECE)
        whole = torch.arange(megabytes << 18, dtype=torch.int32)
        dcp.save({"a": whole}, storage_writer=writer)
        whole[:10] += 1
        profile = cProfile.Profile()
        profile.runcall(dcp.save, {"a": whole}, storage_writer=writer)
        return pstats.Stats(profile).total_calls, writer.pieces_put  # type: ignore[attr-defined]

    calls(2)  # imports
    (few, put), (many, put_of_many) = calls(1), calls(48)
    assert put == put_of_many == 1
    assert many - few < 300, "48 MiB are 3,072 pieces"
