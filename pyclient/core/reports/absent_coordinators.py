"""Reports groups and transactions without a coordinator, from time to time, even if logging is not configured.

A consumer whose group has no coordinator waits in ``poll``, which raises nothing, because the cluster may recover. The
broker's answer has the reason, for example too few brokers to create ``__consumer_offsets``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyclient.core.reports.last_resort import URGENT
from pyclient.core.reports.outages import AGAIN_S, FIRST_S

if TYPE_CHECKING:
    from pyclient.errors import KafkaError

LOG: Final = logging.getLogger("pyclient")


class AbsentCoordinators:
    """Keeps the absent coordinators of one client. Has no clock: ``now`` is in seconds."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        """The time of the next report about each group or transactional id."""

    def tell(self, key: str, error: KafkaError, now: float) -> None:
        """Logs that ``key``, a group or a transactional id, has no coordinator: after a while, then once a minute."""
        due = self._due.setdefault(key, now + FIRST_S)
        if now >= due:
            self._due[key] = now + AGAIN_S
            LOG.warning("%s has no coordinator yet: %s; still trying", key, error, extra={URGENT: True})

    def end(self, key: str) -> None:
        """Notes that ``key`` has a coordinator."""
        self._due.pop(key, None)
