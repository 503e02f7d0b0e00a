"""Where perdure.otel looks on at stores that come to be. Nobody does unless it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.store import Store

# Called with what is done ("create", "open", "restore") and the pool's path; around it, and with
# the store once it is there.
around: Callable[[str, str], AbstractContextManager[Callable[[Store], None]]] | None = None
