"""Log dirs that a broker had and that are not there: a disk that is not mounted, that was replaced, or taken out.

A broker registers with the ids of its log dirs (``meta_properties``). An id that it does not find at its next start is
*missing*: its logs may come back. So nothing new starts in their place:

* an unused folder of ``log.dirs``, beside others that have their ids, may be the mount point of a missing dir. It
  stays offline like a failed disk: it is not marked, and gets no logs;
* a replica without a log, of which this broker alone may have the records, stays offline too.

The ids stay missing over further starts, until they are there again, or a person gives them up by
``log.dirs.given.up``. Where all dirs are new the broker begins with empty disks; what other replicas have it fetches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

GONE = "!"
"""Before an id that is missing, in what a broker registers."""


class Directories(NamedTuple):
    """The log dirs at a start. ``unused``: paths that wait for what is missing."""

    missing: frozenset[str] = frozenset()
    unused: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """What a person can do."""
        ids = ",".join(sorted(self.missing))
        return f"mount it and start again, or, if its logs are lost for good, start with --set log.dirs.given.up={ids}"


def compare(known: Iterable[str], found: Mapping[str, str], given_up: Collection[str]) -> Directories:
    """``known``: the last registered ids; ``found``: ids by path, "" for an unused folder."""
    ids = set(found.values()) - {""}
    missing = frozenset(id.removeprefix(GONE) for id in known if id) - ids - set(given_up)
    unused = tuple(path for path, id in found.items() if not id)
    return Directories(missing, unused if missing and ids else ())


def registered(ids: Iterable[str], missing: Iterable[str]) -> list[str]:
    """The ids as a broker registers them."""
    return sorted([*filter(None, ids), *(GONE + id for id in missing)])
