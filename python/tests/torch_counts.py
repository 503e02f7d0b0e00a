"""Counts what perdure does with PyTorch: operators that would be launches on a GPU, and questions
for which the host would wait there. PyTorch is imported by those that need it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# They launch nothing, beside views.
_MAKE = {"empty", "empty_like", "empty_strided", "new_empty", "detach"}
# What the host learns only once a GPU has come so far.
_ASK = {"tolist", "item", "__bool__", "__int__", "__float__", "numpy", "cpu"}
_ASK |= {"nonzero", "unique", "unique_consecutive", "masked_select", "is_nonzero"}
_PYTORCH = f"{os.sep}torch{os.sep}"


def _is_ours() -> bool:
    """Whether perdure calls PyTorch, and not the model or its optimizer: by the nearest caller that
    is not PyTorch's own."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if f"{os.sep}perdure{os.sep}" in name:
            return True
        if _PYTORCH not in name and not name.startswith("<") and name != __file__:
            return False
        frame = frame.f_back
    return False


@dataclass
class Counts:
    launches: Counter[str] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)


@contextmanager
def counted() -> Iterator[Counts]:
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    counts = Counts()

    class Launches(TorchDispatchMode):
        def __torch_dispatch__(
            self, call: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = call.overloadpacket.__name__
            if not call.is_view and name not in _MAKE and _is_ours():
                counts.launches[name] += 1
            return call(*args, **(kwargs or {}))

    class Questions(TorchFunctionMode):
        def __torch_function__(
            self, call: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = getattr(call, "__name__", "")
            if name in _ASK and _is_ours():
                counts.questions[name] += 1
            return call(*args, **(kwargs or {}))

    assert torch.zeros(1).is_cpu
    with Questions(), Launches():
        yield counts
