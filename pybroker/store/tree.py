"""The tree of the embedded store: one SQLite file, written by one thread of one process.

SQLite makes the tree durable: it syncs its write-ahead log at every commit (``synchronous=FULL``), so that a commit
that returned survives kill -9 and power loss. The file is locked as long as it is open (``locking_mode=EXCLUSIVE``). So
the next process that opens the file knows that all earlier sessions are dead, and expires them.

    nodes   (parent, name) → data, version, created, created_ms, owner, next_sequence
    counters                 transaction (of the last commit), session (last assigned id)

The root is ``("", "")``. A node's children are the rows whose ``parent`` is its path, so the primary key serves both
look-up and listing.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence

from pybroker.store.interface import (
    ANY_VERSION,
    BadVersion,
    Check,
    ConnectionLoss,
    CoordinationError,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Set,
    Stat,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS nodes (
    parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, version INTEGER NOT NULL,
    created INTEGER NOT NULL, created_ms INTEGER NOT NULL, owner INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ephemerals ON nodes (owner) WHERE owner != 0;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counters VALUES ('transaction', 0), ('session', 0);
INSERT OR IGNORE INTO nodes VALUES ('', '', x'', 0, 0, 0, 0, 0);
"""
_INSERT = "INSERT INTO nodes VALUES (?, ?, ?, 0, ?, ?, ?, 0)"
_STAT = "SELECT version, created, created_ms, owner FROM nodes WHERE parent = ? AND name = ?"
_DATA = "SELECT data, version, created, created_ms, owner FROM nodes WHERE parent = ? AND name = ?"
_UPDATE = "UPDATE nodes SET data = ?, version = version + 1 WHERE parent = ? AND name = ?"
_BUMP = "UPDATE nodes SET next_sequence = next_sequence + 1 WHERE parent = ? AND name = ?"


class StoreInUse(ConnectionLoss):
    """Raised if another process has the file open."""


def split(path: str) -> tuple[str, str]:
    """Returns parent and name of ``path``. Raises ValueError if it is not a path."""
    if path == "/":
        return "", ""
    parent, slash, name = path.rpartition("/")
    if not slash or not path.startswith("/") or not name or "//" in path:
        raise ValueError(f"{path!r} is not a path: /a/b")
    return parent or "/", name


def _make_private(file: str) -> None:
    """Creates the file, if it is missing, with access for this user only, because it contains the brokers' secret.
    SQLite's other files get the same mode.
    """
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.chmod(file, 0o600)
    except OSError as error:
        raise ConnectionLoss(f"{file}: {error.strerror}") from error


class NodeTree:
    """The nodes of one file. Not thread-safe; every method blocks and may raise ConnectionLoss."""

    def __init__(self, file: str) -> None:
        self._file = file
        try:
            _make_private(file)
            self._database = sqlite3.connect(
                file, isolation_level=None, check_same_thread=False, timeout=0
            )
            self._prepare()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreInUse(f"{file} is in use by another process") from error
            raise self._loss(error) from error
        except sqlite3.Error as error:
            raise self._loss(error) from error

    def _prepare(self) -> None:
        database = self._database
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";\n"):
            database.execute(statement)
        database.execute("DELETE FROM nodes WHERE owner != 0")
        database.execute("COMMIT")

    def _loss(self, error: sqlite3.Error) -> ConnectionLoss:
        return ConnectionLoss(f"{self._file}: {error}")

    def close(self) -> None:
        """Releases the file."""
        self._database.close()

    def new_session(self) -> int:
        """Returns an id that no session of this file has had before."""
        try:
            rows = self._database.execute(
                "UPDATE counters SET value = value + 1 WHERE name = 'session' RETURNING value"
            ).fetchall()
        except sqlite3.Error as error:
            raise self._loss(error) from error
        return int(rows[0][0])

    def get_many(self, paths: Iterable[str]) -> list[tuple[bytes, Stat] | None]:
        """Returns data and Stat of each path, None if the node does not exist."""
        execute = self._database.execute
        try:
            rows = [execute(_DATA, split(path)).fetchone() for path in paths]
        except sqlite3.Error as error:
            raise self._loss(error) from error
        return [(row[0], Stat(*row[1:])) if row else None for row in rows]

    def children(self, path: str) -> list[str]:
        """Returns the names of the children, sorted. Raises NoNode."""
        query = "SELECT name FROM nodes WHERE parent = ? ORDER BY name"
        try:
            self._stat(path)
            return [row[0] for row in self._database.execute(query, (path,))]
        except sqlite3.Error as error:
            raise self._loss(error) from error

    def apply(
        self, operations: Sequence[Operation], session: int, now_ms: int
    ) -> tuple[list[OperationResult], list[str]]:
        """Performs all operations or none; returns their results and the paths that changed."""
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            try:
                outcome = self._perform(operations, session, now_ms)
                database.execute("COMMIT")
                return outcome
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._loss(error) from error

    def _perform(
        self, operations: Sequence[Operation], session: int, now_ms: int
    ) -> tuple[list[OperationResult], list[str]]:
        created = self._next_transaction()
        results: list[OperationResult] = []
        changed: list[str] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._one(operation, session, now_ms, created, changed))
            except CoordinationError as error:
                error.index = index
                raise
        return results, changed

    def _next_transaction(self) -> int:
        query = "UPDATE counters SET value = value + 1 WHERE name = 'transaction' RETURNING value"
        return int(self._database.execute(query).fetchall()[0][0])

    def _one(
        self, operation: Operation, session: int, now_ms: int, created: int, changed: list[str]
    ) -> OperationResult:
        if isinstance(operation, Check):
            self._expect(operation.path, operation.version)
            return None
        if isinstance(operation, Set):
            return self._set(operation, changed)
        if isinstance(operation, Create):
            return self._create(operation, session, now_ms, created, changed)
        self._delete(operation, changed)
        return None

    def _create(
        self, operation: Create, session: int, now_ms: int, created: int, changed: list[str]
    ) -> str:
        parent, name = split(operation.path)
        if self._stat(parent).owner:
            raise NoChildrenForEphemerals(parent)
        if operation.sequence:
            name += f"{self._next_sequence(parent):010d}"
        owner = session if operation.ephemeral else 0
        path = f"{parent.rstrip('/')}/{name}"
        try:
            self._database.execute(
                _INSERT, (parent, name, operation.data, created, now_ms, owner)
            )
        except sqlite3.IntegrityError:
            raise NodeExists(path) from None
        changed += (path, parent)
        return path

    def _next_sequence(self, parent: str) -> int:
        query = f"{_BUMP} RETURNING next_sequence - 1"
        return int(self._database.execute(query, split(parent)).fetchall()[0][0])

    def _set(self, operation: Set, changed: list[str]) -> Stat:
        stat = self._expect(operation.path, operation.version)
        self._database.execute(_UPDATE, (operation.data, *split(operation.path)))
        changed.append(operation.path)
        return stat._replace(version=stat.version + 1)

    def _delete(self, operation: Delete, changed: list[str]) -> None:
        self._expect(operation.path, operation.version)
        parent, name = split(operation.path)
        if not name:
            raise NotEmpty("/")
        query = "SELECT 1 FROM nodes WHERE parent = ? LIMIT 1"
        if self._database.execute(query, (operation.path,)).fetchone():
            raise NotEmpty(operation.path)
        self._database.execute("DELETE FROM nodes WHERE parent = ? AND name = ?", (parent, name))
        changed += (operation.path, parent)

    def _stat(self, path: str) -> Stat:
        row = self._database.execute(_STAT, split(path)).fetchone()
        if row is None:
            raise NoNode(path)
        return Stat(*row)

    def _expect(self, path: str, version: int) -> Stat:
        stat = self._stat(path)
        if version not in (ANY_VERSION, stat.version):
            raise BadVersion(f"{path} has version {stat.version}, not {version}")
        return stat

    def expire(self, session: int) -> list[str]:
        """Deletes the session's ephemeral nodes; returns the paths that changed."""
        query = "DELETE FROM nodes WHERE owner = ? AND owner != 0 RETURNING parent, name"
        try:
            rows = self._database.execute(query, (session,)).fetchall()
        except sqlite3.Error as error:
            raise self._loss(error) from error
        paths = [(f"{parent.rstrip('/')}/{name}", parent) for parent, name in rows]
        return [path for pair in paths for path in pair]
