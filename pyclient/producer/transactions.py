"""Transactions (KIP-98, KIP-360, KIP-447), of version 2 (KIP-890) where the cluster has finalized it.

Version 1: each partition is added by AddPartitionsToTxn before the first batch goes to it, and the
epoch stays unless something failed. Version 2: Produce and TxnOffsetCommit add by themselves, and
EndTxn answers with the next epoch, so nothing of an old transaction can reach a later one.

    UNINITIALIZED -init-> READY -begin-> OPEN -commit, abort-> READY
    OPEN -a batch or a call fails-> FAILED -abort-> READY
    OPEN -commit-> ENDING -no answer in max.block.ms-> ENDING -commit again, abort-> READY
    OPEN -prepare-> PREPARED: a client that has its name, producer id and epoch ends it, not this producer
    any -fenced, not authorized-> FATAL

When a commit was asked for and not answered, the transaction may be committed, or be so any time from now. An abort
would be refused, or worse, meet the next transaction. InitProducerId with the current epoch resolves it. The
coordinator completes a commit that it has begun, and aborts an open transaction. It answers with a new epoch, which
fences everything sent under the old one (KIP-360).
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
from pyclient.producer.lane import Identity, Lane
from pyclient.producer.settings import Settings
from pyclient.protocol.errors import InvalidTxnState
from pyclient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyclient.core.client import Client

log = logging.getLogger("pyclient.producer")


ENDED_BY_OTHERS: Final = frozenset(
    {"INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"}
)
"""What a broker may answer if somebody else has ended the transaction, such as its coordinator."""


class State(Enum):
    """The state of the producer's transaction."""

    UNINITIALIZED = "init_transactions() has not been called"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    ENDING = "the transaction is being ended"
    FAILED = "the transaction has failed and can only be aborted"
    PREPARED = "the transaction is prepared, and someone else ends it"
    FATAL = "the producer can do nothing more"


class Transactions(Identities):
    """The transactions of one producer; one at a time."""

    def __init__(self, client: Client, settings: Settings) -> None:
        super().__init__(client, settings)
        self.coordinator = Coordinator(client, settings)
        self._state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        """Why it is FAILED or FATAL."""
        self._touched = False
        """The coordinator knows, or may know, of the open transaction."""
        self._gap = False
        """Sequences were given to batches that may never have been written."""
        self._asked = False
        """A commit was asked for; nobody knows yet whether it happened."""
        self._needs_epoch = False
        """The transaction is ended; what is left of the abort is InitProducerId. That may have been served, so
        another EndTxn would be under an old epoch, and the producer fenced by itself.
        """
        self.is_left = False
        """A ``transaction()`` block is over, and its transaction could not be ended."""
        self._begun_at = 0.0
        """When the open transaction was begun, by the client's clock."""
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
        """Partitions are added before anything is sent to them."""
        return self.coordinator.is_version_1

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """Nothing is sent again in this transaction."""
        return self.state in (State.FAILED, State.FATAL)

    # -- what the sender asks ----------------------------------------------------------------------

    def admits(self, lane: Lane, batch: ProducerBatch) -> bool:
        """Whether batches may be sent: while the transaction is open; in version 1 once their partition was added."""
        if self.current is None or self.state not in (State.OPEN, State.ENDING):
            return False
        if self.is_version_1 and not lane.added:
            self._add(lane)
            return False
        self._touched = True
        self._lanes[lane] = None
        return self._adopt(lane, self.current)

    def renew(self, lane: Lane) -> None:
        """There is a gap in the sequences: only an abort cures it, by the identity that it gives."""
        if self.current is not None and lane.identity != self.current:
            lane.reset(self.current)

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """The transaction cannot be committed."""
        self._gap = self._gap or batch.attempts > 0 or batch.has_sequence
        if isinstance(error, TransactionAborted):
            return
        if error.name in FATAL_TO_PRODUCER:
            self._fail(error, State.FATAL)
        elif self.state in (State.OPEN, State.ENDING):
            self._fail(error, State.FAILED)

    def _fail(self, error: KafkaError, state: State) -> None:
        """What still waits to be sent will never be, so its waiting callers get an error now."""
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
        """There is a transaction, and it may be aborted."""
        return self.state in (State.OPEN, State.ENDING, State.FAILED)

    def check_open(self) -> None:
        """Raises what ``send`` raises outside of a transaction."""
        if self.state in (State.UNINITIALIZED, State.READY):
            how = "send within `with producer.transaction():`, or after begin_transaction()"
            raise TransactionError(f"{State.READY.value}: {how}")
        self._require(State.OPEN)

    def _require(self, *states: State) -> None:
        if self.state in states:
            return
        if self.error is not None and self.is_over:
            raise TransactionError(f"{self.state.value}: {self.error}") from self.error
        raise TransactionError(self.state.value)

    def _dated(self, error: KafkaError) -> KafkaError:
        """The error, which says so if the transaction was open for too long."""
        limit, setting = self.settings.transaction_timeout_ms, "transaction.timeout.ms"
        open_ms = (self.client.clock() - self._begun_at) * 1000
        if error.name not in ENDED_BY_OTHERS or open_ms < limit or setting in str(error):
            return error
        why = (
            f"the transaction was open for {open_ms:.0f} ms, longer than {setting}={limit}, after which the broker "
            "aborts it: end it sooner, or raise this setting of the producer"
        )
        return type(error)(f"{why} ({error})")

    # -- partitions of version 1 -------------------------------------------------------------------

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
        """Nothing that is asked again and again is asked once more behind the end of the transaction."""
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
        """A call of the open transaction has failed."""
        self._fail(error, State.FATAL if error.name in FATAL_TO_TRANSACTIONS else State.FAILED)

    # -- what applications call --------------------------------------------------------------------

    async def init(self) -> None:
        """Gets the producer id, after ending what an earlier producer of this id left open; that
        one is fenced. Raises KafkaError.
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
        """Opens a transaction; brokers learn of it by what it does."""
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
        """Sends everything, then commits. Raises TransactionError if the transaction has failed:
        abort it. If the error is retriable, the outcome is unknown: call again, or abort.
        """
        self._require(State.OPEN, State.ENDING)
        self.state = State.ENDING
        await flush()
        self._require(State.ENDING)
        await self._end(self._commit)

    async def prepare(self, flush: Callable[[], Awaitable[None]]) -> PreparedTransaction | None:
        """Sends everything and leaves the transaction open; None where brokers know of none, as nothing
        was sent. Raises TransactionError if the transaction has failed: abort it.
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
        """Drops what was not sent, waits for what was, and aborts. After a commit of unknown
        outcome the transaction may turn out to be committed, which is logged.
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
        """Whether the next transaction needs an epoch that InitProducerId gives."""
        try:
            await self._ask_to_end(False)
        except InvalidTxnState:
            if not self._asked and not self.is_version_1:
                raise
            if self._asked:
                log.warning("%s: the unanswered commit succeeded", self.coordinator.id)
            return True  # in version 1 also where nothing was added: what is late would be
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
        """Ends the transaction that this producer id and epoch, perhaps another process's, has open
        under this transactional id. Needs no ``init``, which would abort it.
        """
        if self.state is State.UNINITIALIZED:
            await self.coordinator.find_version()
        await self.coordinator.end(Identity(producer_id, epoch), commit)
