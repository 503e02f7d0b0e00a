"""What a database of perdure.rocks says of itself: properties, numbers, Prometheus' text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure._rocks_reads import DEFAULT

if TYPE_CHECKING:
    from perdure import _rocks

_ROCKS_NUMBERS = (
    *("estimate-num-keys", "estimate-live-data-size", "total-sst-files-size"),
    *("num-files-at-level0", "cur-size-all-mem-tables", "estimate-pending-compaction-bytes"),
    *("num-running-compactions", "num-running-flushes", "block-cache-usage", "num-snapshots"),
    *("background-errors", "is-write-stopped"),
)


class Counts:
    """What a database counts."""

    _native: _rocks.Database

    def get_property(self, name: str, *, family: str = DEFAULT) -> str | None:
        """One of RocksDB's properties, or of perdure's.

        Parameters
        ----------
        name : str
            For example "rocksdb.stats", "rocksdb.levelstats" or "perdure.device".
        family : str
            The column family.

        Returns
        -------
        str or None
            None where there is no property of the name.

        Raises
        ------
        NotFound, Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/property") as db:
        ...     db.get_property("rocksdb.num-snapshots"), db.get_property("rocksdb.weather")
        ('0', None)
        """
        return self._native.property(name, family)

    def stats(self, *, family: str = DEFAULT) -> dict[str, int]:
        """What the database counts: properties that are numbers, by their names.

        Parameters
        ----------
        family : str
            The column family.

        Returns
        -------
        dict of str to int
            "perdure.*" are of the whole database.

        Raises
        ------
        NotFound, Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/stats") as db:
        ...     db["a"] = "1"
        ...     db.stats()["rocksdb.estimate-num-keys"]
        1
        """
        own = (self._native.property("perdure.stats", family) or "").splitlines()
        told = dict(line.split(" COUNT : ") for line in own)
        for name in (f"rocksdb.{name}" for name in _ROCKS_NUMBERS):
            if (text := self._native.property(name, family)) is not None:
                told[name] = text
        return {name: int(text) for name, text in told.items()}

    def prometheus(self) -> str:
        """What the database counts, in Prometheus' text format, for an HTTP handler to answer with.

        Returns
        -------
        str
            The `perdure.*` of `stats` as counters and gauges `perdure_rocks_*`, with the database's
            path as the label `db`.

        Raises
        ------
        Closed
            As in `get`.

        Examples
        --------
        >>> import perdure.rocks
        >>> with perdure.rocks.open("/dev/shm/prometheus") as db:
        ...     db.prometheus().splitlines()[2]
        'perdure_rocks_table_batches_total{db="/dev/shm/prometheus"} 0'
        """
        return self._native.property("perdure.prometheus", DEFAULT) or ""
