"""The transactional ids of one partition of ``__transaction_state``.

Kafka keeps, beside the state of an id, the state to which a pending write will lead, and until then refuses other
requests with CONCURRENT_TRANSACTIONS. Here there is no pending state: a record in the log counts at once for the next
event, whose records follow it in the log. Only the replies wait until both are durable.

When a transaction has been prepared and its record is durable, an ``Ending`` is an effect. When its markers are
written, ``complete`` is called. Loading repeats the endings of prepared transactions; a marker that is written twice is
harmless.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from pybroker.coordinator.shard import Event, Producer, Record, Result
from pybroker.coordinator.timer_wheel import TimerWheel
from pybroker.coordinator.txn import adding, describing, ending, initialising, records
from pybroker.coordinator.txn.describing import Filter
from pybroker.coordinator.txn.producer_ids import OutOfIds, SpareIds
from pybroker.coordinator.txn.settings import TransactionSettings
from pybroker.coordinator.txn.state import IDLE, ONGOING, PREPARED
from pybroker.coordinator.txn.transaction import (
    NO_EPOCH,
    NO_ID,
    V2,
    Ending,
    Transaction,
)
from pybroker.topic_partition import TopicPartition
from pyclient.protocol import errors

EXPIRE_AT_ONCE: Final = 1_000
_PAUSE_MS: Final = 100

NOBODY: Final = Producer(NO_ID, NO_EPOCH)
"""The producer in the answer to an EndTxn of transactions v1."""

logger = logging.getLogger(__name__)


class IdsWanted:
    """Asks the runtime for producer ids, because there are none left."""


class TransactionShard:
    """The state machine of a partition. ``version()`` returns the finalized ``transaction.version``."""

    unordered = frozenset({records.TRANSACTION_TYPE.to_bytes(2, "big")})

    def __init__(
        self, settings: TransactionSettings, ids: SpareIds, version: Callable[[], int]
    ) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        """The ids with an open transaction."""
        self.timers: TimerWheel[Event] = TimerWheel(10)
        self._ids = ids
        self._version = version
        self._looks_for_timeouts = False
        """True while a timer looks for expired transactions. It runs only while transactions are open."""
        self._written: tuple[Record, Transaction] | None = None
        """The record of the last event with its value, so that replaying it needs no parsing."""

    # Durable state

    def replay(self, record: Record, producer: Producer | None = None) -> None:
        """Sets the state of a transactional id. Raises DecodeError, ValueError."""
        written, self._written = self._written, None
        if written is not None and written[0] == record:
            self._put(written[1])
            return
        transactional_id = records.read_key(record.key)
        if transactional_id is None:
            return
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
        else:
            self._put(records.read_value(transactional_id, record.value))

    def _put(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        self.transactions[transactional_id] = transaction
        if transaction.state is ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)

    def replay_marker(self, producer: Producer, committed: bool) -> None:
        """Does nothing: no record here belongs to a transaction."""

    def _write(self, transaction: Transaction, result: Result) -> None:
        """Writes the transaction's record. Call it once per event, because ``_written`` has only one."""
        record = records.record(transaction, records.value_version(self._version()))
        self._written = (record, transaction)
        result.write(record)

    def loaded(self, result: Result) -> None:
        """Finishes the transactions that an earlier coordinator has prepared, once their records are durable."""
        result.reads = True
        for transaction in self.transactions.values():
            if transaction.state in PREPARED:
                result.effects.append(Ending.of(transaction))
        if self.ongoing:
            self._look_for_timeouts_later(result)
        self._expire_in(self.settings.expiration_check_interval_ms, result)

    def _known(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise errors.InvalidProducerIdMapping(f"the transactional id {transactional_id} has no producer")
        return transaction

    # # Requests. Each may raise OutOfIds; the caller repeats it when there are producer ids again.

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None, result: Result
    ) -> None:
        """Answers with a ``Producer``. Raises InvalidTransactionTimeout, ProducerFenced, ConcurrentTransactions.

        It also raises ConcurrentTransactions after it has begun to abort an open transaction.
        """
        if not 0 < timeout_ms <= self.settings.max_timeout_ms:
            raise errors.InvalidTransactionTimeout(
                f"a transaction timeout must be between 1 and {self.settings.max_timeout_ms} ms"
            )
        now_ms = result.now.wall_ms
        known = self.transactions.get(transactional_id)
        if known is None:
            following = initialising.first(transactional_id, timeout_ms, self._ids, now_ms)
        else:
            initialising.check(known, expected)
            if known.state is ONGOING:
                self._fence(known, result)
                result.answer(errors.ConcurrentTransactions("the open transaction is being aborted"))
                return
            following = initialising.again(known, expected, timeout_ms, self._ids, now_ms)
        self._write(following, result)
        result.answer(Producer(following.producer_id, following.epoch))

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        version: int,
        result: Result,
    ) -> None:
        """Answers with None when the partitions are in the transaction.

        ``version`` is the client's transaction version. Raises the errors of ``adding.check``.
        """
        known = self._known(transactional_id)
        following = adding.add(known, producer, partitions, version, result.now.wall_ms)
        if following is None:
            result.reads = True
        else:
            self._write(following, result)
            self._look_for_timeouts_later(result)
        result.answer(None)

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        result: Result,
    ) -> None:
        """Answers with an ``Admission``. Raises the errors of ``adding.check``."""
        result.reads = True
        result.answer(adding.verify(self._known(transactional_id), producer, partitions))

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        committed: bool,
        version: int,
        result: Result,
    ) -> None:
        """Answers, before any marker is written, with the ``Producer`` to continue with (v2) or NOBODY.

        ``version`` is the client's transaction version. Raises the errors of ``ending.end``.
        """
        known = self._known(transactional_id)
        prepared = ending.end(known, producer, committed, version, self._ids, result.now.wall_ms)
        if prepared is None:
            result.reads = True
        else:
            self._prepare(prepared, result)
        result.answer((prepared or known).following if version >= V2 else NOBODY)

    def _prepare(self, prepared: Transaction, result: Result) -> None:
        self._write(prepared, result)
        result.effects.append(Ending.of(prepared))

    def _fence(self, transaction: Transaction, result: Result) -> None:
        now_ms = result.now.wall_ms
        self._prepare(ending.fence(transaction, self._version(), self._ids, now_ms), result)

    def complete(self, ended: Ending, result: Result) -> None:
        """Completes the transaction: every partition has its marker."""
        known = self.transactions.get(ended.transactional_id)
        if known is not None and known.state in PREPARED and Ending.of(known) == ended:
            self._write(known.completed(result.now.wall_ms), result)
        result.answer(None)

    def describe(self, transactional_id: str, result: Result) -> None:
        """Answers with a DescribeTransactions ``TransactionState``. Raises TransactionalIdNotFound."""
        known = self.transactions.get(transactional_id)
        if known is None:
            raise errors.TransactionalIdNotFound(f"the transactional id {transactional_id} has no producer")
        result.reads = True
        result.answer(describing.describe(known))

    def list(self, wanted: Filter, result: Result) -> None:
        """Answers with a list of ListTransactions ``TransactionState``."""
        now_ms = result.now.wall_ms
        found = (each for each in self.transactions.values() if wanted.matches(each, now_ms))
        result.answer([describing.listed(each) for each in found])

    # # Timers

    def _look_for_timeouts_later(self, result: Result) -> None:
        if not self._looks_for_timeouts:
            self._looks_for_timeouts = True
            deadline_ms = result.now.monotonic_ms + self.settings.timeout_check_interval_ms
            self.timers.schedule(deadline_ms, self._look_for_timeouts)

    def _look_for_timeouts(self, result: Result) -> None:
        """Starts the abort of each expired transaction as an event of its own, so that a refusal does not affect
        others.
        """
        self._looks_for_timeouts = False
        for transactional_id in self.ongoing:
            if self.transactions[transactional_id].has_timed_out(result.now.wall_ms):
                abort = partial(self._abort_timed_out, transactional_id)
                self.timers.schedule(result.now.monotonic_ms, abort)
        if self.ongoing:
            self._look_for_timeouts_later(result)

    def _abort_timed_out(self, transactional_id: str, result: Result) -> None:
        known = self.transactions.get(transactional_id)
        if known is None or not known.has_timed_out(result.now.wall_ms):
            return
        try:
            self._fence(known, result)
        except OutOfIds:
            result.effects.append(IdsWanted())
            abort = partial(self._abort_timed_out, transactional_id)
            self.timers.schedule(result.now.monotonic_ms + _PAUSE_MS, abort)
        else:
            logger.info("the transaction of %s has timed out and is aborted", transactional_id)

    def _expire_in(self, delay_ms: int, result: Result) -> None:
        self.timers.schedule(result.now.monotonic_ms + delay_ms, self._expire)

    def _expire(self, result: Result) -> None:
        """Deletes transactional ids that were not used for a long time, a limited number in each event."""
        latest_ms = result.now.wall_ms - self.settings.id_expiration_ms
        delay_ms = self.settings.expiration_check_interval_ms
        result.atomic = False
        for transactional_id, known in self.transactions.items():
            if known.state in IDLE and known.updated_ms <= latest_ms:
                result.write(records.tombstone(transactional_id))
                if len(result.records) >= EXPIRE_AT_ONCE:
                    delay_ms = min(delay_ms, _PAUSE_MS)
                    break
        self._expire_in(delay_ms, result)
