"""Gives a campaign's loads several brokers as their target, and answers the campaign's questions about them."""

from __future__ import annotations

from conformance.drivers.base import Place
from harness.protocol.wire_client import Wire
from harness.servers.clusters import Cluster
from harness.servers.machines import Machines
from harness.waiting import until

REPLICAS = 3
#: Brokers write checkpoints all the time, and notice silent brokers soon.
EAGER: dict[str, object] = {
    "min_insync_replicas": 2,
    "default_replication_factor": REPLICAS,
    "offsets_topic_replication_factor": REPLICAS,
    "transaction_state_log_replication_factor": REPLICAS,
    "transaction_state_log_min_isr": 2,
    "offsets_topic_num_partitions": 3,
    "transaction_state_log_num_partitions": 3,
    "zookeeper_session_timeout_ms": 3_000,
    "replica_lag_time_max_ms": 4_000,
    "log_flush_offset_checkpoint_interval_ms": 100,
    "replica_high_watermark_checkpoint_interval_ms": 100,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 500,
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1_000,
    "group_consumer_min_session_timeout_ms": 1_000,
    "group_consumer_session_timeout_ms": 6_000,
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 300,
    "log_cleaner_enable": "false",
}
#: Everything that must happen may take this long.
PATIENCE_S = 180.0


class ClusterTarget:
    """Three brokers. The target remembers created topics, because all of them are checked at the end."""

    def __init__(self, brokers: Cluster | Machines) -> None:
        self.brokers = brokers
        self.topics: dict[str, int] = {}

    @property
    def bootstrap(self) -> str:
        return self.brokers.bootstrap

    def make_topic(self, name: str, partitions: int, **config: object) -> None:
        """Creates a topic; names of settings have ``_`` for ``.``."""
        self.brokers.create_topic(name, partitions, REPLICAS, **config)
        self.topics[name] = partitions

    def leader_of(self, place: Place) -> tuple[str, int]:
        """Waits for a leader of the partition, and returns its address."""
        found = until(lambda: self._leader(place), f"a leader of {place}", PATIENCE_S)
        return self.brokers.address(found)

    def _leader(self, place: Place) -> int | None:
        row = self.brokers.partitions(place.topic).get(place.partition)
        return row.leader if row is not None and row.leader in self.brokers.ids else None

    def coordinator(self, key: str, key_type: int = 0) -> tuple[str, int]:
        """Returns the address of the coordinator of a group, or (1) of a transactional id, as a live broker knows it.

        Raises:
            ConnectionError: no broker knows it now.
        """
        for broker in self.brokers.ids:
            try:
                with Wire(self.brokers.address(broker), 2.0) as wire:
                    reply = wire.ask("FindCoordinator", 3, key=key, key_type=key_type)
            except OSError:
                continue
            if reply.error_code == 0:
                return reply.host, reply.port
        raise ConnectionError(f"no broker knows the coordinator of {key}")

    def is_whole(self) -> bool:
        """Returns whether every replica of every partition is in sync."""
        registered = self.brokers.brokers() == list(self.brokers.ids)
        return registered and all(self.brokers.is_in_sync(topic) for topic in self.everything())

    def everything(self) -> list[str]:
        """Returns the created topics, and the brokers' internal topics that exist by now."""
        with Wire(self.leader_of(Place(next(iter(self.topics)), 0))) as wire:
            reply = wire.ask("Metadata", 9, topics=None)
        return sorted({*self.topics, *(row.name for row in reply.topics if row.is_internal)})

    def heal(self) -> None:
        """Waits until every replica of every partition is in sync."""
        until(self._is_whole, "all replicas to be in sync", PATIENCE_S)

    def _is_whole(self) -> bool:
        self.brokers.keep()
        try:
            return self.is_whole()
        except OSError:
            return False

    def crash(self) -> None:
        """Kills all brokers at once by kill -9, and restarts them."""
        for broker in self.brokers.ids:
            self.brokers.kill(broker)
        for broker in self.brokers.ids:
            self.brokers.revive(broker)
        self.heal()
