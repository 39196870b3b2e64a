"""Finds log dirs that a broker had before and that are missing now: their disk is not mounted, or was replaced.

A broker registers with the ids of its log dirs (``meta_properties``). An id that it does not find at its next start is
*missing*: its logs may come back. So no empty logs are created in their place:

* an unused folder of ``log.dirs``, beside others that have their ids, may be the mount point of a missing dir. It
  stays offline like a failed disk: it gets no id and no logs;
* a replica without a log stays offline too, if this broker alone may have its records.

The ids stay missing over further starts, until they are found again, or an operator gives them up with
``log.dirs.given.up``. If all dirs are new, the broker begins with empty disks, and fetches what other replicas have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

GONE = "!"
"""The prefix of a missing id in a broker's registration."""


class Directories(NamedTuple):
    """The ids of log dirs that a start did not find, and the ``unused`` paths where those dirs may belong."""

    missing: frozenset[str] = frozenset()
    unused: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """The text that tells an operator how to bring the log dirs back, or how to give them up."""
        ids = ",".join(sorted(self.missing))
        return f"mount it and start again, or, if its logs are lost for good, start with --set log.dirs.given.up={ids}"


def compare(known: Iterable[str], found: Mapping[str, str], given_up: Collection[str]) -> Directories:
    """Compares the last registered ids, ``known``, with those ``found`` by path ("" for an unused folder)."""
    ids = set(found.values()) - {""}
    missing = frozenset(id.removeprefix(GONE) for id in known if id) - ids - set(given_up)
    unused = tuple(path for path, id in found.items() if not id)
    return Directories(missing, unused if missing and ids else ())


def registered(ids: Iterable[str], missing: Iterable[str]) -> list[str]:
    """Returns the ids in the form in which a broker registers them."""
    return sorted([*filter(None, ids), *(GONE + id for id in missing)])
