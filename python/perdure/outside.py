"""What can be told without opening a pool: what its file says, and what this machine offers."""

from __future__ import annotations

from perdure import _checks, _native
from perdure.options import PathLike


def glance(path: PathLike) -> _native.Glance:
    """Looks at a pool from outside, beside the process that has it open, or when nobody has.

    It reads a part of the file that does not grow with the pool, locks nothing and waits for
    nobody. What only the owner counts, such as gets, is not in it (`Store.stats` has that); records
    of index "gphash" are estimated from a sample. `perdure top` shows it again and again.

    Parameters
    ----------
    path : str or path-like
        Of the pool.

    Returns
    -------
    Glance

    Raises
    ------
    NotFound
        There is no pool at `path`.
    Corrupt
        It is no pool, or its head is damaged.
    Busy
        Its head changed each time it was read.
    SystemFailure
        The operating system refused.

    Examples
    --------
    >>> import perdure
    >>> with perdure.create("/dev/shm/table.pool", 8, 8, overwrite=True) as store:
    ...     store[1] = 5
    ...     perdure.glance("/dev/shm/table.pool").use.name
    'writing'
    """
    return _native.glance(_checks.path("path", path))


def devices() -> list[_native.DeviceInfo]:
    """The machines this build and this computer offer.

    Returns
    -------
    list of DeviceInfo
        One a kind; `available`, and why not.

    Examples
    --------
    >>> import perdure
    >>> [one.device.name for one in perdure.devices()]
    ['cpu', 'cuda']
    """
    return _native.devices()
