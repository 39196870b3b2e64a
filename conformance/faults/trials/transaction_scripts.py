"""Trials of transactions: cases 33, 36, 43, and what readers of committed records see."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from conformance.drivers import opened
from conformance.drivers.base import ClientError, Place
from conformance.faults.checkers import transactions
from conformance.faults.checkers.committed import end_offset, read_committed
from conformance.faults.checkers.history import WENT_BACK, Anomaly
from conformance.faults.checkers.transactions import COMMITTED, OPEN, Transaction
from conformance.faults.trials.trial import PLACE, QUICK_LAG, Trial, quietly


class TransactionTrial(Trial):
    """Runs transactions over three partitions by librdkafka, and reads all committed records back."""

    client = "confluent"
    places = tuple(Place("ledger", number) for number in range(3))

    def run(self) -> list[Anomaly]:
        self.target.make_topic("ledger", len(self.places))
        self.told: list[Transaction] = []
        return super().run()

    def producer(self) -> Any:
        """Makes a new producer with the only transactional id."""
        made = opened(self.client).producer(self.cluster.bootstrap, transactional_id="trial")
        made.init_transactions()
        return made

    def begin(self, producer: Any) -> Transaction:
        """Begins a transaction with a written record in every partition."""
        transaction = Transaction(f"trial.{len(self.told)}")
        self.told.append(transaction)
        producer.begin()
        for place in self.places:
            value = f"{transaction.name}.{place.partition}".encode()
            transaction.sent.append((place, value))
            producer.send(place.topic, value, partition=place.partition)
        producer.flush()
        return transaction

    def look(self) -> None:
        self.until(lambda: quietly(self.is_stable), "no transaction is open")
        logs = {place: read_committed(self.target, place) for place in self.places}
        self.found += transactions.check(self.told, logs)

    def is_stable(self) -> bool:
        """Returns whether the last stable offset of every partition is its high watermark."""
        return all(end_offset(self.target, each, 0) == end_offset(self.target, each, 1) for each in self.places)


class CommitAndAbort(TransactionTrial):
    """Some transactions commit, some abort, one stays open, while a consumer reads committed records."""

    def script(self) -> None:
        with self.producer() as producer:
            for turn in range(6):
                transaction = self.begin(producer)
                if turn % 2:
                    producer.abort()
                    continue
                producer.commit()
                transaction.outcome = COMMITTED
            open_one = self.begin(producer)
            seen = {place: self.shown(place) for place in self.places}
            shown = {value for rows in seen.values() for _, value in rows}
            open_values = [row for row in open_one.sent if row[1] in shown]
            self.found += [Anomaly(transactions.ABORTED_READ, f"{row} of an open transaction") for row in open_values]
            producer.abort()
            assert open_one.outcome == OPEN

    def shown(self, place: Place) -> list[tuple[int, bytes]]:
        return read_committed(self.target, place)


class Offsets(TransactionTrial):
    """The group continues from the offsets that a transaction committed (case 43)."""

    def script(self) -> None:
        self.write(10)
        options = {"group_id": "copier", "isolation_level": "read_committed"}
        with self.producer() as producer, opened(self.client).consumer(self.cluster.bootstrap, **options) as consumer:
            consumer.assign({PLACE: 0})
            producer.begin()
            producer.send_offsets(consumer, {PLACE: 7})
            producer.commit()
            self.until(lambda: quietly(self.is_stable), "no transaction is open")
            found = consumer.committed([PLACE])[PLACE]
        if found != 7:
            self.found.append(Anomaly(WENT_BACK, f"the group is at {found} after 7 was committed"))


class Zombie(TransactionTrial):
    """A producer sleeps while another takes its id; readers must never see what the first one does then (case 33)."""

    def script(self) -> None:
        with self.producer() as zombie:
            self.begin(zombie)
            zombie.commit()
            self.told[-1].outcome = COMMITTED
            with self.producer() as heir:
                self.begin(heir)
                heir.commit()
                self.told[-1].outcome = COMMITTED
                with contextlib.suppress(ClientError):
                    self.begin(zombie)
                    zombie.commit()


class Prepared(TransactionTrial):
    """The coordinator dies after it has written the outcome, and before a halted broker has its marker (case 36)."""

    config = QUICK_LAG

    def script(self) -> None:
        with self.producer() as producer:
            self.begin(producer)
            where = self.broker_at(self.target.coordinator("trial", 1))
            leaders = {row.leader for row in self.cluster.partitions("ledger").values()}
            sleeper = next(broker for broker in sorted(leaders) if broker != where)
            with self.halted(sleeper):
                producer.commit()
                self.told[-1].outcome = COMMITTED
                self.crash(where)
                time.sleep(0.1)

    def broker_at(self, address: tuple[str, int]) -> int:
        return next(broker for broker in self.cluster.ids if self.cluster.address(broker) == address)
