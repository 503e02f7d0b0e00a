"""The C++ library of Perdure as a package: where it lies, for builds and for programs.

`python -m libperdure --prefix` prints what to add to CMAKE_PREFIX_PATH, so that
`find_package(perdure)` finds it; builds by scikit-build-core find it by themselves.
"""

from __future__ import annotations

import ctypes
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

__all__ = ["__version__", "library", "load_library", "prefix"]

_HERE = Path(__file__).resolve().parent
__version__ = distribution(packages_distributions()["libperdure"][0]).version


def prefix() -> Path:
    """The folder that has include/ and lib/."""
    return _HERE


def library() -> Path:
    """libperdure.so itself."""
    return _HERE / "lib" / "libperdure.so"


def load_library() -> ctypes.CDLL:
    """Loads it into this process; what is loaded later and needs libperdure.so has it there."""
    return ctypes.CDLL(str(library()), mode=ctypes.RTLD_LOCAL)
