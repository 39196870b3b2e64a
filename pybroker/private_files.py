"""Only the broker's user may access data and secrets: files have mode 0600, folders 0700, whatever the umask.

A user who can read the coordination store knows the brokers' secret and can act as a broker. Files get their modes when
they are created (``Storage``, ``NodeTree``, ``DataFolder``). The umask of the process covers files that a library
creates. An earlier version or a copy may have left looser modes. A start tightens these, under the folder's lock. It
tightens a folder after all files in it. So if a folder is tight, a later start skips its files.

A data folder may contain foreign files (``--data-dir .``). Their modes stay, and so does the folder's.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cy.counted import counted

FILE: Final = 0o600
FOLDER: Final = 0o700
UMASK: Final = 0o077
NOT_OURS: Final = frozenset({"lost+found"})
"""Names of folders that a file system itself creates."""

logger = logging.getLogger("pybroker.start")


def by_default() -> None:
    """Sets the umask, so that only this user may access new files of this process and its children."""
    os.umask(UMASK)


def mend(folder: str, is_ours: Callable[[str], bool]) -> None:
    """Tightens the folder and all in it whose name ``is_ours`` accepts; logs how many were open to other users."""
    if not _is_open(folder):
        return
    entries = [entry for entry in _entries(folder) if entry.name not in NOT_OURS]
    ours = [entry.path for entry in entries if is_ours(entry.name)]
    mended = sum(map(_tighten, _with_contents(ours)))
    if len(ours) == len(entries) and not _is_shared(folder):
        mended += _tighten(folder)
    if mended:
        found = counted(mended, "file was open to other users", "files and folders were open to other users")
        logger.warning("%s: %s; now only this user has access", folder, found)


def _with_contents(paths: Iterable[str]) -> Iterator[str]:
    """Yields the contents of a folder before the folder."""
    for path in paths:
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _with_contents([entry.path for entry in _entries(path)])
        yield path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        logger.warning("%s cannot be scanned: %s", folder, error.strerror)
        return []


def _is_open(path: str) -> bool:
    """Returns whether other users have any access to the path."""
    try:
        return bool(os.lstat(path).st_mode & UMASK)
    except OSError:
        return False


def _is_shared(folder: str) -> bool:
    """Returns whether the folder is for everybody's files, like /tmp."""
    return bool(os.stat(folder).st_mode & stat.S_ISVTX)


def _tighten(path: str) -> bool:
    """Tightens the mode; returns whether it was open to other users."""
    if os.path.islink(path) or not _is_open(path):
        return False
    try:
        os.chmod(path, FOLDER if os.path.isdir(path) else FILE)
    except OSError as error:
        logger.error("%s remains open to other users: %s", path, error.strerror)
        return False
    return True
