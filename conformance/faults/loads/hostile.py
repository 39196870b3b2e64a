"""Sends what strangers and administrators send beside the measured clients, which must not notice it.

It sends compression bombs, huge requests and many small ones in one packet, and creates and deletes topics. ``silence``
checks that brokers answer meanwhile.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import cache

from conformance.data import batches, bombs
from conformance.drivers.base import Place
from conformance.faults.loads.cluster_target import REPLICAS, ClusterTarget
from harness.protocol import error_codes
from harness.protocol.wire_client import Wire, encode_request

TARGET = "hostile"
PASSING = "passing"
NAMES, SMALL, REPEATED = 200_000, 20_000, 2_000
PATIENCE_S = 60.0
ALLOWED = (
    error_codes.NONE,
    error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    error_codes.REQUEST_TIMED_OUT,
    error_codes.TOPIC_ALREADY_EXISTS,
    error_codes.INVALID_REPLICATION_FACTOR,
    error_codes.NOT_CONTROLLER,
)
"""The first two may follow a lost answer; the others mean that the broker cannot do it now."""


@cache
def _bomb(codec: int) -> bytes:
    return bombs.bomb(codec)


class Hostile:
    """Chooses the hostile actions at random."""

    def __init__(self, target: ClusterTarget, chance: random.Random) -> None:
        self.target = target
        self.random = chance
        self.faults: dict[str, Callable[[], None]] = {
            "bursts of zip bombs": self._bombs,
            "the same small bomb many times in a request": self._repeated,
            "huge Metadata requests": self._metadata,
            "many small requests in one packet": self._packet,
            "topics deleted and made again": self._topics,
        }

    def begin(self) -> None:
        """Creates the topic to which the hostile client writes."""
        self.target.make_topic(TARGET, 1)

    def _someone(self) -> tuple[str, int]:
        return self.target.brokers.address(self.random.choice(self.target.brokers.ids))

    def _leader(self) -> tuple[str, int]:
        return self.target.leader_of(Place(TARGET, 0))

    def _bombs(self) -> None:
        """Sends bombs, which the broker refuses one by one; the broker may close the connection."""
        with contextlib.suppress(OSError), Wire(self._leader(), PATIENCE_S) as wire:
            for codec in self.random.choices(list(bombs.BOMBS), k=5):
                wire.produce(TARGET, _bomb(codec))

    def _repeated(self) -> None:
        packed = batches.batch([b"0" * 1_000_000], codec=batches.ZSTD)
        rows = [{"index": 0, "records": packed}] * self.random.randint(10, REPEATED)
        topics = [{"name": TARGET, "partition_data": rows}]
        with contextlib.suppress(OSError), Wire(self._leader(), PATIENCE_S) as wire:
            wire.ask("Produce", 9, transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=topics)

    def _metadata(self) -> None:
        topics = [{"name": f"no-such-topic-{number}"} for number in range(NAMES)]
        with contextlib.suppress(OSError), Wire(self._someone(), PATIENCE_S) as wire:
            wire.ask("Metadata", 9, topics=topics, allow_auto_topic_creation=False)

    def _packet(self) -> None:
        one = encode_request("Metadata", 9, {"topics": None, "allow_auto_topic_creation": False})
        with contextlib.suppress(OSError), Wire(self._someone(), PATIENCE_S) as wire:
            wire.send(one * SMALL)
            for _ in range(SMALL):
                wire.receive()

    def _topics(self) -> None:
        """Creates a topic, writes to it and deletes it, for some rounds."""
        for _ in range(self.random.randint(1, 5)):
            with contextlib.suppress(OSError):
                self._round()

    def _round(self) -> None:
        topic = {
            "name": PASSING,
            "num_partitions": 20,
            "replication_factor": REPLICAS,
            "assignments": [],
            "configs": [],
        }
        with Wire(self._someone(), PATIENCE_S) as wire:
            made = wire.ask("CreateTopics", 4, topics=[topic], timeout_ms=30_000, validate_only=False)
            assert made.topics[0].error_code in ALLOWED, made
            for partition in range(5):
                wire.produce(PASSING, batches.batch([b"x" * 1_000]), partition)
            gone = wire.ask("DeleteTopics", 4, topic_names=[PASSING], timeout_ms=30_000)
            assert gone.responses[0].error_code in ALLOWED, gone
