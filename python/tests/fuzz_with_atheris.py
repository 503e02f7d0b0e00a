"""Fuzzes one target of fuzzing.py with libFuzzer; scripts/fuzz.sh runs it.

python python/tests/fuzz_with_atheris.py TARGET [libFuzzer's arguments]
"""

import sys

import atheris

with atheris.instrument_imports(include=["perdure", "fuzzing"]):
    import fuzzing  # and with it the package

if __name__ == "__main__":
    target = fuzzing.TARGETS[sys.argv[1]]
    folder = fuzzing.Folder()  # which the script removes: libFuzzer ends the process
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: target(folder, data))
    atheris.Fuzz()
