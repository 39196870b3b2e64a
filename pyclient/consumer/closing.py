"""How a consumer ends: in order, and completely, whatever is raised, or cancelled, on the way.

The remaining work is then done without waiting: the member tells the group that it leaves, and ignores the answer. A
member that stayed would keep its partitions, which then would not be read. Nobody waits for brokers that have been
out of reach for a few seconds.
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
"""The commit's share of the time for a close: the rest is left to say goodbye to the group."""


async def close(core: ConsumerCore, *, commit: bool, timeout: float = 30.0) -> None:
    """Commits what is settled (with auto-commit), leaves the group, ends the connections; all in ``timeout``
    seconds, and while a broker can be reached. What could not be done until then is logged. On the loop.
    """
    clock, while_reached = core.client.clock, core.client.outages.while_reached
    deadline = clock() + timeout
    left = 0.0
    missed: list[str] = []
    try:
        await core.stop()
        if commit and core.subscription.states:
            missed += await _missed("commit", while_reached(core.commits.commit_or_raise(COMMIT_SHARE * timeout)))
        left = max(0.0, deadline - clock())
    finally:
        try:
            goodbye = core.membership.leave("the consumer is being closed", left)
            missed += await _missed("leave", while_reached(goodbye))
        finally:
            if missed:
                group = core.config.group_id
                log.warning("group %s: closed, but could not %s", group, "; could not ".join(missed))
            await core.end()


async def commit_first(core: ConsumerCore, timeout: float) -> None:
    """Commits settled records before the listener hears of the last revocation. Runs on the loop, like ``close``."""
    try:
        await core.client.outages.while_reached(core.commits.commit_or_raise(timeout))
    except KafkaError as error:
        core.commits.on_failed(error)


async def _missed(what: str, work: Awaitable[None]) -> list[str]:
    try:
        await work
    except KafkaError as error:
        return [f"{what}: {error}"]
    return []
