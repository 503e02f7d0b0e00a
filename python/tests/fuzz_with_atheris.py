"""Fuzzes one target of fuzzing.py with libFuzzer; scripts/fuzz.sh runs it.

python python/tests/fuzz_with_atheris.py TARGET [libFuzzer's arguments]
"""

import inspect
import sys
from types import FunctionType, ModuleType

import atheris
import fuzzing
import perdure._trace_csv
import perdure._trace_forms
import perdure._trace_lines
import perdure._trace_sniff
import perdure._trace_tables
import perdure.tables.cells
import perdure.tables.lines
import perdure.tables.records
import perdure.tables.sniffing
import perdure.tables.text
import perdure.tables.typed
import perdure.traces


def instrument(module: ModuleType) -> None:
    """Coverage of its functions. Atheris would do so at the import, but not of what is installed in
    place."""
    classes = [one for _, one in inspect.getmembers(module, inspect.isclass)]
    for owner in (module, *(one for one in classes if one.__module__ == module.__name__)):
        for one in vars(owner).values():
            if isinstance(one, FunctionType) and one.__module__ == module.__name__:
                atheris.instrument_func(one)


if __name__ == "__main__":
    names = ("csv", "forms", "lines", "sniff", "tables")
    readers = (perdure.traces, *(getattr(perdure, f"_trace_{name}") for name in names))
    tables = perdure.tables
    parts = (tables.cells, tables.lines, tables.records, tables.sniffing, tables.text, tables.typed)
    for module in (*parts, *readers):
        instrument(module)
    target = fuzzing.TARGETS[sys.argv[1]]
    folder = fuzzing.Folder()  # which the script removes: libFuzzer ends the process
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: target(folder, data))
    atheris.Fuzz()
