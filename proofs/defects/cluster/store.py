"""Defects of the coordination stores."""

from __future__ import annotations

from typing import Any

from proofs.defects import Patch, defect
from pybroker.store.embedded import EmbeddedServer
from pybroker.store.loop_guard import LoopGuard
from pybroker.store.remote import RemoteStore
from pybroker.store.tree import NodeTree
from pybroker.store.wire import Verb
from pybroker.store.zookeeper import ZooKeeperStore


@defect(
    "pybroker/store/tests/test_zookeeper.py"
    "::test_a_broker_whose_event_loop_hangs_loses_its_session_and_opens_another"
)
def heartbeats_keep_the_session_of_a_hanging_broker() -> list[Patch]:
    """kazoo's thread sends heartbeats although the event loop hangs."""
    return [(LoopGuard, "_is_stuck", lambda self: False)]


@defect("pybroker/store/tests/test_remote.py::test_a_session_expires_as_soon_as_its_connection_ends")
def a_session_outlives_its_connection_until_its_keeper_runs() -> list[Patch]:
    """A client that asks meanwhile gets a lost connection, although nothing was sent."""

    async def ask(self: RemoteStore, verb: Verb, argument: Any) -> Any:
        assert self._connection is not None
        return await self._connection.send(verb, argument)

    return [(RemoteStore, "_ask", ask)]


@defect(
    "pybroker/store/tests/test_embedded.py"
    "::test_ephemeral_nodes_of_an_ended_session_are_deleted_once_the_disk_is_writable"
)
def the_end_of_a_session_is_written_once_or_never() -> list[Patch]:
    """If the disk is full, the nodes of a dead broker stay as if it lived."""

    async def write_ends(self: EmbeddedServer) -> None:
        self._unwritten.clear()

    return [(EmbeddedServer, "_write_ends", write_ends)]


@defect("pybroker/store/tests/test_embedded.py::test_every_call_of_a_failed_store_raises_connection_loss")
def children_of_a_store_that_fails_raise_what_nobody_expects() -> list[Patch]:
    """The store raises SQLite's own error, which no caller handles."""

    def children(self: NodeTree, path: str) -> list[str]:
        query = "SELECT name FROM nodes WHERE parent = ? ORDER BY name"
        return [row[0] for row in self._database.execute(query, (path,))]

    return [(NodeTree, "children", children)]


@defect(
    "pybroker/store/tests/test_zookeeper.py"
    "::test_clients_reconnect_to_a_zookeeper_that_was_restored_from_an_older_backup[False]"
)
def what_was_seen_of_zookeeper_is_never_forgotten() -> list[Patch]:
    """A ZooKeeper restored from a backup refuses every broker until other clients have written as much."""
    return [(ZooKeeperStore, "_forget_what_was_seen", lambda self: None)]
