"""What retention may remove: nothing without a limit, and no more than a limit in bytes says (``retention``).

The oracle reads the limits from the store. Brokers and controllers do not hear of a change at once, so every limit
that a topic has ever had counts.
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
        """Topics that had a limit of time."""
        self._sizes: dict[str, int] = {}
        """The least limit of size."""

    def store_changed(self, path: str) -> None:
        """A node of the store is not what it was: it may be a configuration."""
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
        """The log does not begin at 0. ``led``: it begins later than it did, by its leader's own decision; followers
        may lack what the leader has counted.
        """
        if topic in self._times:
            return
        if topic not in self._sizes:
            self._oracle.fail("retention", f"{key}: begins at {log.log_start_offset}, and nothing limits it")
        elif led and log.size < self._sizes[topic]:
            self._oracle.fail("retention", f"{key}: {log.size} bytes are left, of {self._sizes[topic]} that may stay")
