"""Logs of deleted topics whose folders still have their names, because DeleteTopics does not wait for the renames.

A topic's deletion is durable in the metadata, with a note of the brokers that have its logs. So if a broker dies before
it has renamed the folders, it renames them at its next start. Until then a new log of such a name has to wait.

Thread-safety: ``add`` on the loop's thread; any thread may call the other methods.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from pybroker.log.log import Log
from pybroker.topic_partition import TopicPartition

DELETED_AT_ONCE: Final = 500
"""How many logs are deleted with one sync of their log dirs."""


class Leaving:
    """The logs that are taken out, but whose folders are not deleted yet. The object is true while it has any."""

    def __init__(self, delete: Callable[[list[Log]], object]) -> None:
        """``delete(logs)`` deletes logs durably; it blocks."""
        self._delete = delete
        self._logs: dict[TopicPartition, Log] = {}
        self._deleting = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._logs)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._logs

    def add(self, logs: Iterable[Log]) -> None:
        """Adds logs that were taken out."""
        for log in logs:
            self._logs[log.topic_partition] = log

    def delete_some(self) -> None:
        """Deletes the first ``DELETED_AT_ONCE`` logs; blocks. When it returns, the deletion is durable."""
        with self._deleting:
            logs = list(self._logs.values())[:DELETED_AT_ONCE]
            self._delete(logs)
            for log in logs:
                del self._logs[log.topic_partition]

    def delete_all(self) -> None:
        """Deletes all logs; blocks, until those are deleted too that another thread is deleting."""
        while self:
            self.delete_some()
