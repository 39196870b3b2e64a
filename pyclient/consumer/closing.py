"""Closes a consumer: in order and completely, whatever is raised or cancelled meanwhile.

After an error or a cancellation, the remaining steps do not wait: the member leaves the group and ignores the answer.
If it stayed, nobody would read its partitions until its session expires. A close does not wait for brokers that have
been unreachable for a few seconds.
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
"""The commit's share of a close's time. The rest is for leaving the group."""


async def close(core: ConsumerCore, *, commit: bool, timeout: float = 30.0) -> None:
    """Commits settled offsets (with auto-commit), leaves the group and ends the connections, within ``timeout`` seconds
    and only while a broker can be reached. Logs what could not be done. Runs on the loop.
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
                log.warning("group %s: the consumer is closed, but could not %s", group, "; could not ".join(missed))
            await core.end()


async def commit_first(core: ConsumerCore, timeout: float) -> None:
    """Commits settled records before the listener is told about the last revocation. Runs on the loop, like ``close``.
    """
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
