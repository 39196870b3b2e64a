"""What brokers keep in their coordination store, read from outside: with kazoo, or from a copy of the SQLite file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.support import until

ROOT_AND_NODE = "SELECT data FROM nodes WHERE parent || name = '' OR parent = ? AND name = ? ORDER BY parent"


class Tree(ABC):
    """The nodes of a cluster."""

    @abstractmethod
    def data(self, path: str) -> bytes | None:
        """A node's data, None where there is no node."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""


class ZooKeeperTree(Tree):
    """On ZooKeeper."""

    def __init__(self, hosts: str) -> None:
        self.client = KazooClient(hosts)
        self.client.start()

    def data(self, path: str) -> bytes | None:
        try:
            found: bytes = self.client.get(path)[0]
        except NoNodeError:
            return None
        return found

    def close(self) -> None:
        self.client.stop()
        self.client.close()


class SqliteTree(Tree):
    """In the file of the embedded store, which its owner has locked: a copy of it and of its log is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def data(self, path: str) -> bytes | None:
        parent, _, name = path.rpartition("/")
        rows = until(lambda: self._rows(parent or "/", name), "a copy of the store that can be read")
        return rows[1][0] if len(rows) > 1 else None

    def close(self) -> None:
        """Holds nothing."""

    def _rows(self, parent: str, name: str) -> list[tuple[bytes]]:
        """The root's row, and that of the node; nothing from a copy that was torn."""
        with tempfile.TemporaryDirectory() as scratch, contextlib.suppress(sqlite3.DatabaseError):
            copy = Path(scratch, self.file.name)
            for suffix in ("-wal", ""):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(f"{self.file}{suffix}", f"{copy}{suffix}")
            with contextlib.closing(sqlite3.connect(copy)) as store:
                return list(store.execute(ROOT_AND_NODE, (parent, name)))
        return []
