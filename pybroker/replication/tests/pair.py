"""A follower and its leader, without a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pybroker.cluster.decisions.isr_changes import IsrChange, IsrOutcome
from pybroker.cluster.metadata.image import BrokerRegistration, MetadataDelta
from pybroker.handlers import fetch
from pybroker.handlers.common.call import Call
from pybroker.log.log import Log
from pybroker.replication.following.fetchers import key_of as key
from pybroker.replication.following.leader_session import FetchLimits, Source
from pybroker.replication.following.throttled import ReplicationThrottle
from pybroker.replication.partition import Partition
from pybroker.replication.tests.harness import NOW, Node, values
from pyclient.protocol import Fetch, errors

LEADER, FOLLOWER = 1, 2


VERSION = Fetch.max_version


EPOCH = 5


class Pair:
    """Broker 1 and broker 2, both with a replica of every topic, and the fetch session by which 2 follows 1."""

    def __init__(self, make_node: Callable[..., Node], root: Path) -> None:
        self.leader = self.node(make_node, root, LEADER)
        self.follower = self.node(make_node, root, FOLLOWER)
        throttle = ReplicationThrottle("follower", FOLLOWER, self.follower.config, lambda: self.follower.metadata.image)
        self.source = Source(LEADER, FOLLOWER, lambda: EPOCH, FetchLimits(wait_max_ms=0), throttle.delay_ms)
        self.proposals: list[IsrChange] = []
        self.requests: list[Any] = []
        self.now_ms = 0
        self.leader.replicas.connect(
            SimpleNamespace(), self._alter, lambda: self.leader.metadata.image, lambda: EPOCH  # type: ignore[arg-type]
        )

    def node(self, make_node: Callable[..., Node], root: Path, id: int) -> Node:
        node: Any = make_node(node_id=id, root=root / str(id))
        node.connection = SimpleNamespace(broker_id=FOLLOWER, listener_name="PLAINTEXT")
        node.endpoint_for = lambda connection: {}
        brokers = {each: BrokerRegistration(each, EPOCH, ()) for each in (LEADER, FOLLOWER)}
        node.publish(MetadataDelta(brokers=brokers))
        return node  # type: ignore[no-any-return]

    async def _alter(self, broker_epoch: int, changes: Sequence[IsrChange]) -> list[IsrOutcome]:
        self.proposals += changes
        raise errors.NetworkException

    def create(self, name: str = "t", *, epoch: int = 0, leader: int = LEADER, **options: Any) -> Partition:
        """Makes a topic that broker 1 leads, and lets broker 2 follow; returns the leader's replica."""
        made = [
            node.create(name, replicas=(1, 2), epoch=epoch, leader=leader, partition_epoch=epoch, **options)
            for node in (self.leader, self.follower)
        ]
        for partition in made:
            if not partition.is_leader:
                self.source.follow(partition, NOW)
        return made[0]

    def ask(self) -> tuple[int, Any]:
        """Returns the next request, encoded and decoded."""
        number, request = self.source.next_request()
        data = Fetch.request_codec.encode(VERSION, request)
        self.requests.append(Fetch.decode_request(VERSION, data, 0, len(data)))
        return number, self.requests[-1]

    def answer(self, request: Any) -> Any:
        """Returns the leader's response, or the future that waits for it."""
        call = Call(self.leader, VERSION, "pybroker", self.leader.connection)  # type: ignore[attr-defined, arg-type]
        return fetch.handle(request, call)

    def hear(self, number: int, response: Any) -> list[Partition]:
        return self.source.on_response(number, self.sent(response), self.now_ms, NOW)

    def sent(self, response: Any) -> Any:
        """Returns the response, encoded and decoded."""
        frame = Fetch.encode_response(VERSION, 0, response)
        pieces = frame if isinstance(frame, list) else [frame]
        data = b"".join(piece if isinstance(piece, bytes) else piece.read() for piece in pieces)[9:]
        return Fetch.decode_response(VERSION, data, 0, len(data))

    def round(self) -> list[Partition]:
        """Exchanges one request and its response; returns the partitions that changed."""
        assert self.source.may_ask(self.now_ms)
        number, request = self.ask()
        return self.hear(number, self.answer(request))

    def keep_starts(self) -> None:
        """Does the work that ``Fetchers`` would give to a thread."""
        for partition in self.source.take_starts_to_keep():
            partition.log.keep_start()
            self.source.on_kept(key(partition))

    def log(self, name: str = "t") -> Log:
        """Returns the follower's log."""
        return self.follower.replicas.partitions.topics[name][0].log


def contents(log: Log) -> list[bytes | None]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20)
        found += values(part.read())
        offset = part.next_offset
    return found


def named(request: Any) -> list[tuple[int, int]]:
    """Returns the (partition, offset) pairs of a request."""
    return [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]
