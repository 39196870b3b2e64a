"""Reads the brokers' coordination store from outside: with kazoo, or from a copy of the SQLite file."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.waiting import until

ROOT_AND_NODE = "SELECT data FROM nodes WHERE parent || name = '' OR parent = ? AND name = ? ORDER BY parent"


class Tree(ABC):
    """The nodes of a cluster's coordination store."""

    @abstractmethod
    def data(self, path: str) -> bytes | None:
        """Returns a node's data, or None if there is no node."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection to the store."""


class ZooKeeperTree(Tree):
    """Reads the nodes from ZooKeeper."""

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
    """Reads the embedded store's file; its owner has locked it, so the tree reads a copy of file and log."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def data(self, path: str) -> bytes | None:
        parent, _, name = path.rpartition("/")
        rows = until(lambda: self._rows(parent or "/", name), "a copy of the store that can be read")
        return rows[1][0] if len(rows) > 1 else None

    def close(self) -> None:
        """Closes nothing, because the tree holds nothing."""

    def _rows(self, parent: str, name: str) -> list[tuple[bytes]]:
        """Returns the rows of root and node; returns nothing from a torn copy."""
        with tempfile.TemporaryDirectory() as scratch, contextlib.suppress(sqlite3.DatabaseError):
            copy = Path(scratch, self.file.name)
            for suffix in ("-wal", ""):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(f"{self.file}{suffix}", f"{copy}{suffix}")
            with contextlib.closing(sqlite3.connect(copy)) as store:
                return list(store.execute(ROOT_AND_NODE, (parent, name)))
        return []
