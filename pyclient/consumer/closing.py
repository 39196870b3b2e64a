"""How a consumer ends: in order, and completely, whatever is raised, or cancelled, on the way.

The remaining work is then done without waiting: the member tells the group that it leaves, and ignores the answer. A
member that stayed would keep its partitions, which then would not be read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from pyclient.errors import KafkaError

if TYPE_CHECKING:
    from pyclient.consumer.core import ConsumerCore

log = logging.getLogger(__name__)

COMMIT_SHARE: Final = 0.8
"""Of the time for a close: the rest is left to say goodbye to the group."""


async def close(core: ConsumerCore, *, commit: bool, timeout: float = 30.0) -> None:
    """Commits what is settled (with auto-commit), leaves the group, ends the connections; all in ``timeout``
    seconds. What could not be done until then is logged. On the loop.
    """
    clock = core.client.clock
    deadline = clock() + timeout
    left = 0.0
    missed: list[str] = []
    try:
        await core.stop()
        if commit and core.subscription.states:
            missed += await _missed("commit", core.commit_or_raise(COMMIT_SHARE * timeout))
        left = max(0.0, deadline - clock())
    finally:
        try:
            missed += await _missed("leave", core.membership.leave("the consumer is being closed", left))
        finally:
            if missed:
                group = core.config.group_id
                log.warning("group %s: closed, but could not %s", group, "; could not ".join(missed))
            await core.end()


async def _missed(what: str, work: Awaitable[None]) -> list[str]:
    try:
        await work
    except KafkaError as error:
        return [f"{what}: {error}"]
    return []
