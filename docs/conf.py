"""The site of these pages: Sphinx, MyST for Markdown, Breathe for C++, autodoc for Python.

scripts/docs.sh builds it. The extension modules are not built for that: their stubs,
python/perdure/_native.pyi and _rocks.pyi, are valid Python and stand in for them.
"""

import __future__

import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "perdure"


def import_stub(name: str, stub: Path) -> None:
    """Makes a module of a stub, so that importing the package needs no compiler."""
    module = ModuleType(name)
    module.__file__ = str(stub)
    flags = __future__.annotations.compiler_flag
    exec(compile(stub.read_text(encoding="utf-8"), str(stub), "exec", flags), module.__dict__)
    sys.modules[name] = module


def version_of(cmake: Path) -> str:
    found = re.search(r"project\(PERDURE VERSION ([0-9.]+)", cmake.read_text(encoding="utf-8"))
    assert found, f"{cmake} names no version"
    return found[1]


project = "Perdure"
author = "The Perdure authors"
release = version = version_of(ROOT / "CMakeLists.txt")

sys.path.insert(0, str(PACKAGE.parent))
import_stub("perdure._native", PACKAGE / "_native.pyi")
import_stub("perdure._rocks", PACKAGE / "_rocks.pyi")
sys.modules["perdure._native"].__version__ = release
sys.modules["perdure._native"].built_with_cuda = False

extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "Doxyfile"]
source_suffix = {".md": "markdown"}
default_role = "code"  # what docstrings put in single backticks

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# perdure/gpm.h and perdure/libgpm.cuh declare functions of the same names; programs include one.
suppress_warnings = ["duplicate_declaration.cpp"]

breathe_projects = {"perdure": str(ROOT / "build" / "docs" / "doxygen" / "xml")}
breathe_default_project = "perdure"
breathe_default_members = ("members",)
breathe_show_include = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False

html_theme = "furo"
html_title = f"Perdure {release}"
html_static_path = ["_static"]
html_css_files = ["perdure.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
