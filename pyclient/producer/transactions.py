"""Transactions (KIP-98, KIP-360, KIP-447), of version 2 (KIP-890) if the cluster has finalized it.

In version 1, AddPartitionsToTxn adds each partition before the first batch goes to it, and the epoch stays unless
something failed. In version 2, Produce and TxnOffsetCommit add partitions and groups themselves, and EndTxn returns the
next epoch. So no late request of an old transaction can reach a later one.

    UNINITIALIZED -init-> READY -begin-> OPEN -commit, abort-> READY
    OPEN -a batch or a call fails-> FAILED -abort-> READY
    OPEN -commit-> ENDING -no answer in max.block.ms-> ENDING -commit again, abort-> READY
    OPEN -prepare-> PREPARED: a client that has its name, producer id and epoch ends it, not this producer
    any -fenced, not authorized-> FATAL

A commit that was not answered may have succeeded, or may still succeed. An abort would then be refused, or hit the next
transaction. InitProducerId with the current epoch resolves this. The coordinator completes a commit that it has begun,
or else aborts the transaction. It answers with a new epoch, which fences everything sent under the old one (KIP-360).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from cy.produce.producer_batch import ProducerBatch
from pyclient.errors import DENIED, FATAL_TO_PRODUCER, FATAL_TO_TRANSACTIONS, KafkaError
from pyclient.prepared_transaction import PreparedTransaction
from pyclient.producer.coordinator import Coordinator, check_offsets, member_of
from pyclient.producer.errors import TransactionAborted, TransactionError
from pyclient.producer.identity import Identities
from pyclient.producer.in_flight import Identity, Lane
from pyclient.producer.settings import Settings
from pyclient.protocol.errors import InvalidProducerEpoch, InvalidTxnState, ProducerFenced
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.client import Client

log = logging.getLogger("pyclient.producer")


ENDED_BY_OTHERS: Final = frozenset(
    {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"}
)
"""Errors that a broker returns if another party, for example the coordinator, has ended the transaction."""
FENCED: Final = "a newer producer or an administrator has fenced this one, of transactional id"


class State(Enum):
    """The state of the producer's transaction."""

    UNINITIALIZED = "init_transactions() has not been called"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    ENDING = "the transaction is being ended"
    FAILED = "the transaction has failed and can only be aborted"
    PREPARED = "the transaction is prepared, and another process ends it"
    FATAL = "the producer can do nothing more"


class Transactions(Identities):
    """The transactions of one producer, one at a time."""

    def __init__(self, client: Client, settings: Settings) -> None:
        super().__init__(client, settings)
        self.coordinator = Coordinator(client, settings)
        self._state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        """Why the state is FAILED or FATAL."""
        self._touched = False
        """True if the coordinator may know of the open transaction."""
        self._gap = False
        """True if batches with sequences may never have been written."""
        self._asked = False
        """True if a commit was requested whose outcome is unknown."""
        self._needs_epoch = False
        """True if the transaction has ended, and the abort only has to send InitProducerId. The coordinator may have
        served an earlier InitProducerId. Then another EndTxn would have an old epoch, and fence the producer.
        """
        self.is_left = False
        """True if the transaction of a finished ``transaction()`` block could not be ended."""
        self._begun_at = 0.0
        """When the open transaction began, by the client's clock."""
        self._lanes: dict[Lane, None] = {}
        self._wanted: dict[Lane, None] = {}

    @property
    def state(self) -> State:
        """The state of the transaction."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        if state is not self._state:
            log.debug("%s: %s, under %s", self.coordinator.id, state.name, self.current)
        self._state = state
        self.opened(state is State.OPEN)

    @property
    def is_version_1(self) -> bool:  # type: ignore[override]
        """True if partitions must be added before batches are sent to them."""
        return self.coordinator.is_version_1

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """True if failed batches of this transaction are not sent again."""
        return self.state in (State.FAILED, State.FATAL)

    # -- for the sender ----------------------------------------------------------------------------

    def admits(self, lane: Lane, batch: ProducerBatch) -> bool:
        """Returns whether the batch may be sent: while the transaction is open, and in version 1 once its partition was
        added.
        """
        if self.current is None or self.state not in (State.OPEN, State.ENDING):
            return False
        if self.is_version_1 and not lane.added:
            self._add(lane)
            return False
        self._touched = True
        self._lanes[lane] = None
        return self._adopt(lane, self.current)

    def renew(self, lane: Lane) -> None:
        """Does nothing for a gap in the current sequences: only an abort gives a new identity."""
        if self.current is not None and lane.identity != self.current:
            lane.reset(self.current)

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Fails the transaction, because a batch failed."""
        self._gap = self._gap or batch.attempts > 0 or batch.has_sequence
        if isinstance(error, TransactionAborted):
            return
        if error.name in FATAL_TO_PRODUCER:
            self._fail(error, State.FATAL)
        elif self.state in (State.OPEN, State.ENDING):
            self._fail(error, State.FAILED)

    def _fail(self, error: KafkaError, state: State) -> None:
        """Sets the state, and fails all waiting batches, so that their callers get an error now."""
        if self.state is not State.FATAL:
            self.state, self.error = state, self._dated(error)
        self.give_up(self.refusal())

    def refusal(self) -> KafkaError:
        if self.state is State.FATAL and self.error is not None:
            return self.error
        aborted = TransactionAborted()
        aborted.__cause__ = self.error
        return aborted

    @property
    def can_abort(self) -> bool:
        """True if there is a transaction that may be aborted."""
        return self.state in (State.OPEN, State.ENDING, State.FAILED)

    def check_open(self) -> None:
        """Raises the error of ``send`` outside of a transaction."""
        if self.state in (State.UNINITIALIZED, State.READY):
            how = "send within `with producer.transaction():`, or after begin_transaction()"
            raise TransactionError(f"{State.READY.value}, transactional id {self.coordinator.id!r}: {how}")
        self._require(State.OPEN)

    def _require(self, *states: State) -> None:
        if self.state in states:
            return
        if self.error is not None and self.is_over:
            raise TransactionError(f"{self.state.value}: {self.error}") from self.error
        raise TransactionError(f"{self.state.value}, transactional id {self.coordinator.id!r}")

    def _dated(self, error: KafkaError) -> KafkaError:
        """Returns the error, with a text that says who has probably ended the transaction.

        The broker ends a transaction that is open too long. Otherwise a newer producer or an administrator has ended
        it. The broker's answer is the same in all cases.
        """
        limit, setting = self.settings.transaction_timeout_ms, "transaction.timeout.ms"
        open_ms = (self.client.clock() - self._begun_at) * 1000
        if error.name not in ENDED_BY_OTHERS or setting in str(error):
            return error
        if open_ms < limit:
            fenced = f"{FENCED} {self.coordinator.id!r}"
            if isinstance(error, ProducerFenced):
                return ProducerFenced(fenced)
            return InvalidProducerEpoch(f"{fenced} ({error})") if isinstance(error, InvalidProducerEpoch) else error
        why = (
            f"the transaction was open for {open_ms:.0f} ms, longer than {setting}={limit}, after which the broker "
            "aborts it: end it sooner, or raise this setting of the producer"
        )
        return type(error)(f"{why} ({error})")

    # -- version 1: partitions ----------------------------------------------------------------------

    def _add(self, lane: Lane) -> None:
        self._wanted[lane] = None
        if self._task is None:
            self._task = self.client.loop.create_task(self._add_wanted())

    async def _add_wanted(self) -> None:
        try:
            await asyncio.sleep(0)
            lanes, self._wanted = list(self._wanted), {}
            self._touched = True
            await self.coordinator.add(
                self._identity, ((lane.queue.topic, lane.queue.partition) for lane in lanes)
            )
            for lane in lanes:
                lane.added = True
                self._lanes[lane] = None
        except KafkaError as error:
            self._failed(error)
        finally:
            self._task = None
        self.resume()

    async def _stop_adding(self) -> None:
        """Cancels the retries of AddPartitionsToTxn: none may come after the transaction's end."""
        self._wanted = {}
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    @property
    def _identity(self) -> Identity:
        if self.current is None:
            raise TransactionError(State.UNINITIALIZED.value)
        return self.current

    def _failed(self, error: KafkaError) -> None:
        """Fails the transaction, because a call failed."""
        self._fail(error, State.FATAL if error.name in FATAL_TO_TRANSACTIONS else State.FAILED)

    # -- for applications --------------------------------------------------------------------------

    async def init(self) -> None:
        """Gets the producer id, ends what an earlier producer of this transactional id left open, and fences that
        producer. Raises KafkaError.
        """
        self._require(State.UNINITIALIZED, State.READY)
        try:
            self.current = await self.coordinator.init(Identity(-1, -1))
        except KafkaError as error:
            if not error.retriable and error.name not in DENIED:
                self._fail(error, State.FATAL)
            raise
        self.state = State.READY

    def begin(self) -> None:
        """Opens a transaction. Brokers learn of it by its first request."""
        self._require(State.READY)
        self._begun_at = self.client.clock()
        self.state = State.OPEN

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commits consumer offsets with the transaction (KIP-447)."""
        member = member_of(group)
        self._require(State.OPEN)
        if not offsets:
            return
        check_offsets(offsets)
        self._touched = True
        try:
            await self.coordinator.send_offsets(self._identity, offsets, member)
        except KafkaError as error:
            self._failed(error)
            raise self._dated(error) from error.__cause__

    async def commit(self, flush: Callable[[], Awaitable[None]]) -> None:
        """Sends all records, then commits. Raises TransactionError if the transaction has failed: then abort it.

        After a retriable error the outcome is unknown: call this again, or abort.
        """
        self._require(State.OPEN, State.ENDING)
        self.state = State.ENDING
        await flush()
        self._require(State.ENDING)
        await self._end(self._commit)

    async def prepare(self, flush: Callable[[], Awaitable[None]]) -> PreparedTransaction | None:
        """Sends all records and leaves the transaction open. Returns None if no broker knows of it, because nothing was
        sent.

        Raises TransactionError if the transaction has failed: then abort it.
        """
        self._require(State.OPEN)
        self.state = State.ENDING
        await flush()
        self._require(State.ENDING)
        self.state = State.PREPARED
        return PreparedTransaction(self.coordinator.id, *self._identity) if self._touched else None

    async def _commit(self) -> None:
        self._asked = True
        try:
            await self._ask_to_end(True)
        except KafkaError as error:
            self._asked = error.retriable
            raise
        self._asked = False

    async def abort(self, drain: Callable[[], Awaitable[None]]) -> None:
        """Drops unsent records, waits for those in flight, and aborts. A commit of unknown outcome may turn out to have
        succeeded, which is logged.
        """
        self._require(State.OPEN, State.ENDING, State.FAILED)
        self.state, self.error = State.FAILED, self.error or TransactionAborted()
        await self._stop_adding()
        await drain()
        self._require(State.FAILED)
        await self._end(self._abort)

    async def _abort(self) -> None:
        if not self._needs_epoch:
            self._needs_epoch = await self._ask_to_abort()
        if self._needs_epoch:
            self.current = await self.coordinator.init(self._identity)
        self._gap = self._asked = self._needs_epoch = False

    async def _ask_to_abort(self) -> bool:
        """Aborts. Returns whether the next transaction needs an epoch from InitProducerId."""
        try:
            await self._ask_to_end(False)
        except InvalidTxnState:
            if not self._asked and not self.is_version_1:
                raise
            if self._asked:
                log.warning("%s: nothing to abort: the commit without an answer has succeeded", self.coordinator.id)
            return True  # in version 1 also if no partition was added: a late request could add one
        return self.is_version_1 and (self._gap or self._asked)

    async def _end(self, how: Callable[[], Awaitable[None]]) -> None:
        if self._touched:
            try:
                await how()
            except KafkaError as error:
                if not error.retriable:
                    self._failed(error)
                raise self._dated(error) from error.__cause__
        for lane in self._lanes:
            lane.added = False
        self._lanes = {}
        self._touched = False
        self.state, self.error, self.is_left = State.READY, None, False

    async def _ask_to_end(self, commit: bool) -> None:
        self.current = await self.coordinator.end(self._identity, commit) or self.current

    async def end_of(self, producer_id: int, epoch: int, commit: bool) -> None:
        """Ends the transaction that this producer id and epoch, perhaps of another process, has open under this
        transactional id.

        Does not need ``init``, which would abort it.
        """
        if self.state is State.UNINITIALIZED:
            await self.coordinator.find_version()
        await self.coordinator.end(Identity(producer_id, epoch), commit)
