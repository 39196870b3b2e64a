"""Reports why a call is still waiting, once per call: it raises the reason only when its time is over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyclient.core.reports.outages import FIRST_S

if TYPE_CHECKING:
    from pyclient.core.reports.rare import RareLog
    from pyclient.errors import KafkaError


class Patience:
    """The patience of one call that began at ``now``. Has no clock: ``now`` is in seconds."""

    def __init__(self, log: RareLog, now: float) -> None:
        self._log = log
        self._due = now + FIRST_S

    def tell(self, why: KafkaError, now: float) -> None:
        """Logs the reason if the call has waited for ``FIRST_S``. Calls that wait for the same reason share a line."""
        if now >= self._due:
            self._due = math.inf
            self._log.warning("still trying: %s", why, error=str(why))
