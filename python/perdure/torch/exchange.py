"""What processes of a group send to one another.

Invariant: all processes of the group make the same calls in the same order; a call's answer is the
same whatever arrives first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Exchange:
    """A process group as embeddings use it.

    Attributes
    ----------
    rank, ranks : int
        Of this process, and how many there are.
    device : torch.device
        Where what is sent has to be.
    """

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "process_group: call torch.distributed.init_process_group(...) first"
            )
        self.group = group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("process_group: this process is not in it")
        on_gpu = "nccl" in dist.get_backend(group)
        self.device = (
            torch.device("cuda", torch.cuda.current_device()) if on_gpu else (torch.device("cpu"))
        )
        self._beside: Exchange | None = None

    def beside(self) -> Exchange:
        """The same processes in a group of its own, over gloo, whose calls may be made in another
        thread: they have an order for themselves. All processes ask for it, between the same other
        calls; the first time makes it."""
        if self._beside is None:
            among = {}
            if self.group not in (None, dist.group.WORLD):  # processes of no other group need come
                members = dist.get_process_group_ranks(self.group)
                among = {"ranks": members, "use_local_synchronization": True}
            made = dist.new_group(backend="gloo", **among)
            self._beside = Exchange(made)
        return self._beside

    def close_beside(self) -> None:
        """Its connections, if it was made; in all processes after the same calls."""
        made, self._beside = self._beside, None
        if made is not None:
            with suppress(ValueError, AssertionError):  # the program has destroyed all groups
                dist.destroy_process_group(made.group)

    def objects(self, mine: Any) -> list[Any]:
        """What each process gave, in the order of ranks; small things, rarely."""
        every: list[Any] = [None] * self.ranks
        dist.all_gather_object(every, mine, group=self.group)
        return every

    def numbers(self, mine: Sequence[int]) -> list[list[int]]:
        """Integers of each process, in the order of ranks."""
        given = torch.tensor(list(mine), dtype=torch.int64, device=self.device)
        every = given.new_empty(self.ranks * given.numel())
        dist.all_gather_into_tensor(every, given, group=self.group)
        return every.reshape(self.ranks, -1).tolist()

    def all_to_all(
        self, sent: Tensor, sizes: Sequence[int], coming: Sequence[int]
    ) -> Callable[[], Tensor]:
        """Begins to send sizes[r] elements of `sent` to each rank r, of which coming[r] come.

        Returns
        -------
        callable
            Waits for what comes, in the order of ranks.
        """
        sent = sent.to(self.device).contiguous()
        got = torch.empty(sum(coming), dtype=sent.dtype, device=self.device)
        work = dist.all_to_all_single(
            got, sent, list(coming), list(sizes), group=self.group, async_op=True
        )

        def wait() -> Tensor:
            nonlocal sent
            assert work is not None
            work.wait()
            del sent  # which had to stay until now
            return got

        return wait
