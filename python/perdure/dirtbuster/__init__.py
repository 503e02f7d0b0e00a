"""DirtBuster: where a program's writes would gain by pre-stores, and by which (docs/dirtbuster.md).

In three steps: `sampling` finds the functions that write most, `tool` runs the program under
Valgrind and counts how those write, and `advice` says what to do. `command` puts them together.
Invariant: a program that does not write much is told so, and is not run again.
"""
