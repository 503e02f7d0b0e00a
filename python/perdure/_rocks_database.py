"""A database of perdure.rocks as Python sees it, and its snapshots.

Thread safety is the engine's: any number of threads may call any method. Signal handlers run while
a long call is under way on the main thread; what they raise comes once the call has ended, and all
of it has been done.

Invariant: what a snapshot or a scan works on is not lost before it is.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from types import TracebackType
from typing import Self

from perdure import _checks, _rocks, errors
from perdure._rocks_counts import Counts
from perdure._rocks_options import Texts, texts_of
from perdure._rocks_reads import DEFAULT, Reads
from perdure._rocks_writes import Writes
from perdure.options import PathLike


def _end(native: _rocks.Database) -> None:
    with suppress(errors.Error):  # nobody is there to be told; the log has what was not flushed
        native.close()


class Snapshot(Reads):
    """A database as it was when `Database.snapshot` was called; a context manager that releases it.

    Examples
    --------
    >>> import perdure.rocks
    >>> with perdure.rocks.open("/dev/shm/snapshot") as db:
    ...     db["a"] = "old"
    ...     with db.snapshot() as then:
    ...         db["a"] = "new"
    ...         then["a"], db["a"]
    (b'old', b'new')
    """

    def __init__(self, database: Database, state: _rocks.Snapshot) -> None:
        self._database = database  # not lost before its snapshots are
        self._native = database._native
        self._taken = self._state = state

    def release(self) -> None:
        """Lets the engine forget the state. Releasing twice is harmless.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/release") as db:
        ...     db.snapshot().release()
        """
        self._taken.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Database(Writes, Counts):
    """An open database. Made by `perdure.rocks.open`; a context manager that closes it.

    Notes
    -----
    A write is atomic: every reader sees all of a batch or nothing. With `sync` it is on the log's
    medium when the call returns, without it survives the process and not a power loss; without
    `log` nothing but an orderly close, or `flush`, keeps it. A database belongs to the process that
    opened it.

    Examples
    --------
    >>> import perdure.rocks
    >>> with perdure.rocks.open("/dev/shm/database") as db:
    ...     db.put(["a", "b"], ["1", "2"])
    ...     db.erase(["a"])
    ...     list(db)
    [b'b']
    """

    def __init__(self, native: _rocks.Database) -> None:
        self._native = native
        self._closed = False
        self._finalizer = weakref.finalize(self, _end, native)

    @property
    def path(self) -> str:
        """The directory, as it was given."""
        return self._native.path()

    @property
    def device(self) -> str:
        """What sorts and searches the memtables."""
        return self._native.property("perdure.device", DEFAULT) or "cpu"

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def snapshot(self) -> Snapshot:
        """The database as it is now, for reads.

        Returns
        -------
        Snapshot
            Release it, or use it in a `with` block: what it sees is kept until then.

        Raises
        ------
        Closed
            As in `get`.

        Examples
        --------
        See `Snapshot`.
        """
        return Snapshot(self, self._native.snapshot())

    def create_family(self, name: str, options: Texts | None = None) -> None:
        """Makes a column family.

        Parameters
        ----------
        name : str
            One that is not there yet.
        options : dict or str, optional
            RocksDB's options of column families, as in `perdure.rocks.open`.

        Raises
        ------
        AlreadyExists
            There is one of this name.
        InvalidArgument
            RocksDB has no such option.
        Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/families") as db:
        ...     db.create_family("users", {"num_levels": 4})
        ...     db.put(["ada"], ["1815"], family="users")
        ...     db.families, list(db.scan(family="users"))
        (('default', 'users'), [(b'ada', b'1815')])
        """
        self._native.create_family(name, texts_of("options", options))

    def drop_family(self, name: str) -> None:
        """Removes a column family and all that is in it.

        Parameters
        ----------
        name : str
            Any but "default".

        Raises
        ------
        InvalidArgument
            It is the default one.
        NotFound, Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/drop", families=["users"]) as db:
        ...     db.drop_family("users")
        ...     db.families
        ('default',)
        """
        self._native.drop_family(name)

    def flush(self, *, family: str = DEFAULT) -> None:
        """Writes the memtables, those of perdure and of RocksDB, to sorted files.

        Parameters
        ----------
        family : str
            Memtables of perdure are flushed for all families, RocksDB's for this one.

        Raises
        ------
        NoSpace, SystemFailure, DeviceFailure, NotFound, Closed
            As in `put`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/flush") as db:
        ...     db["a"] = "1"
        ...     db.flush()
        """
        self._native.flush(family)

    def compact(self, *, family: str = DEFAULT) -> None:
        """Flushes, then lets RocksDB compact a whole column family.

        Parameters
        ----------
        family : str
            The column family.

        Raises
        ------
        NoSpace, SystemFailure, DeviceFailure, Corrupt, NotFound, Closed
            As in `put` and `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/compact") as db:
        ...     db["a"] = "1"
        ...     db.compact()
        """
        self._native.compact(family)

    def checkpoint(self, path: PathLike) -> None:
        """Makes a database of its own of what there is now, of hard links where the disk has them.

        Parameters
        ----------
        path : str or path-like
            A directory that is not there yet. Plain RocksDB opens it, too.

        Raises
        ------
        InvalidArgument
            The directory is there.
        NoSpace, SystemFailure, NotFound, Closed
            As in `put`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/source") as db:
        ...     db["a"] = "1"
        ...     db.checkpoint("/dev/shm/copy")
        >>> with perdure.rocks.open("/dev/shm/copy", create=False) as db:
        ...     db["a"]
        b'1'
        """
        self._native.checkpoint(_checks.path("path", path))

    def verify_checksums(self) -> None:
        """Checks every block of every sorted file.

        Raises
        ------
        Corrupt
            A block fails its checksum.
        SystemFailure, Closed
            As in `put`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/verify") as db:
        ...     db.verify_checksums()
        """
        self._native.verify_checksums()

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the column families."""
        return tuple(self._native.families())

    def close(self) -> None:
        """Flushes the memtables and closes the database. Closing twice is harmless.

        Raises
        ------
        NoSpace, SystemFailure, DeviceFailure
            What could not be flushed is in the log, for the next `perdure.rocks.open`.
        Closed
            It was opened by another process.

        Examples
        --------
        >>> import perdure.rocks
        >>> db = perdure.rocks.open("/dev/shm/close")
        >>> db.close()
        >>> db.closed
        True
        """
        self._native.close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"on {self.device}"
        return f"<perdure.rocks.Database {self.path!r}: {state}>"
