"""Modules that are imported when something of them is first used: importing the package, and
commands on single records, do not wait for NumPy."""

from __future__ import annotations

import importlib
from typing import Any


class Deferred:
    """Stands for a module. What has been used of it is kept here, so that it is looked up once."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name), attribute)
        self.__dict__[attribute] = value
        return value
