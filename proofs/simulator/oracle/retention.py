"""Checks what retention removes: nothing without a limit, and no more than a limit in bytes permits (``retention``).

The oracle reads the limits from the store. Brokers and controllers learn of a change late, so every limit that a topic
has ever had counts.
"""

from __future__ import annotations

from typing import Any

from proofs.simulator.oracle.books import Books
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import ResourceType
from pybroker.cluster.nodes.loading import NOT_OURS
from pybroker.log.log import Log
from pybroker.topic_partition import TopicPartition

CONFIGS = znodes.CONFIG_FOLDERS[ResourceType.TOPIC] + "/"
BY_TIME, BY_SIZE = "retention.ms", "retention.bytes"


class Retention:
    """The limits of each topic name."""

    def __init__(self, oracle: Books) -> None:
        self._oracle = oracle
        self._times: set[str] = set()
        """Topics that have had a limit of time."""
        self._sizes: dict[str, int] = {}
        """The lowest limit of size."""

    def store_changed(self, path: str) -> None:
        """Reacts to a changed node of the store, which may be a configuration."""
        node = self._oracle.cluster.store.tree.nodes.get(path)
        if node is not None and path.startswith(CONFIGS):
            try:
                configs: Any = znodes.decode_configs(node.data)
            except NOT_OURS:
                return
            name = path[len(CONFIGS) :]
            if int(configs.get(BY_TIME, -1)) >= 0:
                self._times.add(name)
            size = int(configs.get(BY_SIZE, -1))
            if size >= 0:
                self._sizes[name] = min(size, self._sizes.get(name, size))

    def check(self, key: TopicPartition, topic: str, log: Log, *, led: bool) -> None:
        """Checks a log that does not begin at 0. ``led`` tells that its own broker led and moved its start. Followers
        may lack records that the leader has counted.
        """
        if topic in self._times:
            return
        if topic not in self._sizes:
            self._oracle.fail("retention", f"{key}: begins at {log.log_start_offset}, but has no limit")
        elif led and log.size < self._sizes[topic]:
            self._oracle.fail("retention", f"{key}: {log.size} bytes are left, although {self._sizes[topic]} may stay")
