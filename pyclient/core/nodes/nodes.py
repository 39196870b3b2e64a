"""All nodes of a client: the brokers that it knows, and its bootstrap servers.

A node's id tells what its connection is used for. ``broker_id`` tells which broker it leads to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from pyclient.config import Config
from pyclient.core.cluster import Cluster
from pyclient.core.nodes.bootstrap import bootstrap
from pyclient.core.nodes.node import Node, NodeSettings
from pyclient.core.nodes.reaper import Reaper
from pyclient.core.nodes.transport import ANY_BROKER, Meant, Transport
from pyclient.core.nodes.versions import Versions
from pyclient.core.reports.outages import Outages
from pyclient.errors import ClientClosed, ConnectionFailed, KafkaError
from pyclient.protocol.apis import Api

COORDINATORS: Final = 1 << 31
"""Plus a broker's id, this is the id of its second connection: for requests to the broker as a coordinator."""
QUESTIONS: Final = 1 << 32
"""Plus a broker's id, this is the id of its third connection: for requests that must not wait behind a fetch."""


class Nodes:
    """The nodes of one client, by id. They are created when first needed, and follow the brokers of ``cluster``."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self.settings = NodeSettings(config, random)
        self.outages = Outages()
        self.recovers = config.metadata_recovery_strategy == "rebootstrap"
        """Whether the client returns to the bootstrap servers if no known broker can be reached."""
        if self.recovers and config.metadata_cluster_check_enable:
            self.settings.meant = self._meant
        self._cluster = cluster
        self._loop = loop
        self._clock = clock
        self._random = random
        self.bootstrap = [self._make(-1 - i, *each) for i, each in enumerate(bootstrap(config))]
        """The servers of bootstrap.servers, without those that are known as brokers now."""
        self.by_id: dict[int, Node] = {node.id: node for node in self.bootstrap}
        self._reaper = Reaper(loop, config.connections_max_idle_ms / 1000, self.by_id.values)

    def _make(self, id: int, host: str, port: int) -> Node:
        return Node(
            id,
            host,
            port,
            self.settings,
            self._loop,
            self._clock,
            on_outage=self._on_outage,
            on_reached=self.outages.end,
            on_left=self.outages.forget,
        )

    def _meant(self, id: int) -> Meant:
        """Returns the broker that must answer on a node's connection. At a bootstrap server it may be any."""
        cluster = self._cluster.cluster_id
        return ANY_BROKER if id < 0 or cluster is None else (cluster, broker_id(id))

    def _on_outage(self, node: Node, error: ConnectionFailed) -> None:
        is_connected = any(other.is_ready for other in self.by_id.values())
        self.outages.tell(node, broker_id(node.id), error, self._clock(), is_connected)

    def find(self, id: int) -> Node | None:
        """Returns the node; creates it if the id belongs to a known broker."""
        node = self.by_id.get(id)
        if node is None and (broker := self._cluster.brokers.get(broker_id(id))) is not None:
            node = self.by_id[id] = self._make(id, broker.host, broker.port)
        return node

    # -- the brokers change ------------------------------------------------------------------------

    def follow(self) -> None:
        """Adopts new addresses from the cluster, and ends connections to removed brokers."""
        brokers = self._cluster.brokers
        self._adopt_bootstrap()
        for id, node in list(self.by_id.items()):
            if (broker := brokers.get(broker_id(id))) is not None:
                node.move(broker.host, broker.port)
            elif id >= 0 and not node.in_flight:
                self.by_id.pop(id).close(ClientClosed("the broker has left the cluster"))
        self._reaper.start()

    def _adopt_bootstrap(self) -> None:
        """Treats a bootstrap server with a broker's address as that broker, and keeps its connection."""
        for index, node in enumerate(self.bootstrap):
            if not node.is_ready:
                continue
            for id, broker in self._cluster.brokers.items():
                if broker[1:3] == (node.host, node.port) and id not in self.by_id:
                    fresh = self._make(node.id, node.host, node.port)
                    self.bootstrap[index] = self.by_id[node.id] = fresh
                    self.by_id[id] = node
                    node.id = id
                    break

    # -- which node --------------------------------------------------------------------------------

    def any_node(self) -> int:
        """Returns the id of a node for a request that any broker can serve: the least loaded one. It is a bootstrap
        server (a negative id) if no broker is known, or none can be reached.
        """
        now = self._clock()
        brokers = [self.find(id) for id in self._cluster.brokers]
        known = [node for node in brokers if node is not None]
        free = [node for node in known if not node.is_backing_off(now)]
        if not free and (not known or self.recovers):
            known = self.bootstrap
            free = [node for node in known if not node.is_backing_off(now)]
        return min(free or known, key=self._load).id

    def _load(self, node: Node) -> tuple[bool, bool, bool, int, float]:
        failed = node.trouble is not None
        return not node.is_ready, failed, not node.is_connecting, node.in_flight, self._random()

    def aside(self, node: int) -> int:
        """Returns the id of a connection on which the broker's answer does not wait behind others. This is the main
        connection if no request is in flight there, otherwise the one for questions.
        """
        return node + QUESTIONS if self.in_flight(node) else node

    # -- information ------------------------------------------------------------------------------

    def in_flight(self, node: int) -> int:
        """Returns the number of requests to the node that wait for their responses, or to be sent."""
        found = self.by_id.get(node)
        return 0 if found is None else found.in_flight

    @property
    def connections(self) -> int:
        """The number of connections. Any thread may read it."""
        return sum(node.is_ready for node in list(self.by_id.values()))

    def is_ready(self, node: int) -> bool:
        """Returns whether a request would be sent at once: connected, and versions known."""
        found = self.by_id.get(node)
        return found is not None and found.is_ready

    def transport(self, node: int) -> Transport | None:
        """Returns the node's connection, if it has one without requests that wait or are in flight."""
        found = self.by_id.get(node)
        return None if found is None else found.unused

    def versions(self, node: int) -> Versions | None:
        """Returns the node's versions and features; None before its first connection."""
        found = self.by_id.get(node)
        return None if found is None else found.versions

    def version(self, node: int, api: Api, max_version: int | None = None) -> int:
        """Returns the version that a request would have now. Before the node's versions are known, it assumes those of
        another node, or else the newest version. Raises UnsupportedByBroker.
        """
        known = self._versions_like(node)
        if known is None:
            return api.max_version if max_version is None else min(max_version, api.max_version)
        return known.choose(api, max_version)

    def features(self, node: int) -> Mapping[str, int]:
        """Returns the finalized levels of features, as the node reported them, else as any other node did."""
        known = self._versions_like(node)
        return {} if known is None else known.features

    def _versions_like(self, node: int) -> Versions | None:
        """Returns the node's versions, else those of any other node that are known."""
        others = (other.versions for other in self.by_id.values())
        return self.versions(node) or next((each for each in others if each is not None), None)

    def hopeless(self) -> ConnectionFailed | None:
        """Returns why no bootstrap server can be reached; None if one may be, or if brokers are known."""
        trouble = [node.trouble for node in self.bootstrap]
        if self._cluster.brokers or not all(each is not None and each.lasts for each in trouble):
            return None
        return trouble[0]

    def trouble(self) -> ConnectionFailed | None:
        """Returns why a node could not be reached; None if another one is connected, or none has failed."""
        if self.connections:
            return None
        return next((node.trouble for node in self.by_id.values() if node.trouble is not None), None)

    # -- the end -----------------------------------------------------------------------------------

    def close(self, error: KafkaError) -> None:
        """Ends all connections and fails all requests with ``error``."""
        self._reaper.stop()
        self.settings.close()
        for node in self.by_id.values():
            node.close(error)


def broker_id(node: int) -> int:
    """Returns the id of the broker that a connection leads to. A bootstrap server has its own id."""
    return node % COORDINATORS if node >= 0 else node
