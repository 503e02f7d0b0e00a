"""Bad input to perdure.rocks and `perdure rocks`, for error_cases.py: what is wrong, and what is
tried.

Invariant: none of them opens a database, for opening one writes to it. test_rocks.py has the
others.
"""

from __future__ import annotations

import importlib.util

IS_BUILT = importlib.util.find_spec("perdure._rocks") is not None
if IS_BUILT:
    pass  # `perdure.rocks` is there for the cases' Python

WITHOUT_GPU = [
    ("a GPU that this machine lacks", "perdure rocks create new.db --device cuda"),
]
CASES = [
    ("nothing is there", "perdure rocks get missing.db 7"),
    ("a file where a directory should be", "perdure rocks create table.pool"),
    ("no such directory to make it in", "perdure rocks create no/such.db"),
    ("an option that RocksDB lacks", "perdure rocks create new.db --options levels=3"),
    ("a value that RocksDB refuses", "perdure rocks create new.db --options num_levels=few"),
    ("options that are none", "perdure rocks create new.db --options num_levels"),
    ("a merge operator that is none", "perdure rocks create new.db --merge-operator plus"),
    ("a length that is none", "perdure rocks get missing.db 7 --key-bytes few"),
    ("a word where keys are numbers", "perdure rocks get missing.db abc --key-bytes 8"),
    ("no such file", "perdure rocks load new.db missing.csv"),
    ("a format that is none", "perdure rocks export missing.db rows.xls"),
    ("JSON into the database", "perdure rocks stats new.db --json new.db/CURRENT --overwrite"),
    ("a program without RocksDB", "perdure rocks run -- /bin/ls"),
    ("a program that is none", "perdure rocks run -- ./table.pool"),
    ("nothing is there", 'perdure.rocks.open("missing.db", create=False)'),
    ("a number that is negative", 'perdure.rocks.open("new.db", threshold=-1)'),
    ("a device that is none", 'perdure.rocks.open("new.db", device="tpu")'),
    ("a log inside the database", 'perdure.rocks.open("new.db", log_dir="new.db/log")'),
    ("a family as a text", 'perdure.rocks.open("new.db", families="users")'),
    ("an option that RocksDB lacks", 'perdure.rocks.open("new.db", options={"levels": 3})'),
]
