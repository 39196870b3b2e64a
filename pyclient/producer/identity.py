"""The producer id and epoch of idempotence, and which lanes may send under them.

``Identities`` is for a producer without transactions. It requests a producer id before the first send, and increments
the epoch itself if a lane needs new sequences.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from cy.produce.producer_batch import ProducerBatch
from pyclient.core.reports.rights import IDENTIFYING
from pyclient.errors import KafkaError, of_code
from pyclient.producer.in_flight import Identity, Lane
from pyclient.producer.settings import Settings
from pyclient.protocol import InitProducerId

if TYPE_CHECKING:
    from pyclient.core.client import Client

log = logging.getLogger("pyclient.producer")
MAX_EPOCH = 0x7FFF - 1
OR_WRITE = " (or WRITE on any topic)"
"""Brokers since 2.8 accept this for a producer id."""


class Identities:
    """The producer ids of a producer. A lane switches to ``current`` when none of its batches needs an older one."""

    is_version_1 = False
    """True if Produce must not add partitions to transactions by itself."""
    is_over = False
    """True if failed batches must not be sent again."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self.client = client
        self.settings = settings
        self.current: Identity | None = None
        self.resume: Callable[[], None] = lambda: None
        """Called when a batch that had to wait may be sent."""
        self.give_up: Callable[[KafkaError], None] = lambda error: None
        """Called with the error when no batch can ever be sent."""
        self.opened: Callable[[bool], None] = lambda is_open: None
        """Called with True when a transaction opens, and with False when nothing more may be sent in it."""
        self._task: asyncio.Task[None] | None = None

    def admits(self, lane: Lane, batch: ProducerBatch) -> bool:
        """Returns whether the lane's batch may be sent. If not, ``resume`` is called when that may have changed."""
        if not self.settings.idempotent:
            return True
        if self.current is None:
            self._acquire()
            return False
        return self._adopt(lane, self.current)

    def _adopt(self, lane: Lane, current: Identity) -> bool:
        if lane.identity != current and lane.is_idle():
            lane.reset(current)
        return lane.identity is not None

    def renew(self, lane: Lane) -> None:
        """Gives the lane new sequences."""
        if lane.identity == self.current and self.current is not None:
            producer_id, epoch = self.current
            self.current = Identity(producer_id, epoch + 1) if epoch < MAX_EPOCH else None
        if self.current is None:
            self._acquire()
        else:
            lane.reset(self.current)

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Notes that a batch will not be delivered."""

    def refusal(self) -> KafkaError:
        """Returns why waiting batches will not be sent, if ``is_over``."""
        return self.client.closed()

    def _acquire(self) -> None:
        if self._task is None:
            self._task = self.client.loop.create_task(self._get())

    async def _get(self) -> None:
        try:
            self.current = await self.client.retrying(self._ask, deadline=float("inf"))
        except KafkaError as error:
            told = self.client.rights.told(error, IDENTIFYING, more=OR_WRITE)
            log.error("could not get a producer id: %s", told)
            self.give_up(error)
        finally:
            self._task = None
        self.resume()

    async def _ask(self) -> Identity:
        request = InitProducerId.Request(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        response = await self.client.send(self.client.nodes.any_node(), InitProducerId, request)
        if error := of_code(response.error_code):
            raise error
        log.debug("producer id %d, epoch %d", response.producer_id, response.producer_epoch)
        return Identity(response.producer_id, response.producer_epoch)

    def close(self) -> None:
        """Stops the background task."""
        if self._task is not None:
            self._task.cancel()
