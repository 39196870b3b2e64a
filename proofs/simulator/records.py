"""Compares the answers to the clients with the logs at the end."""

from __future__ import annotations

from collections.abc import Sequence

from proofs.simulator.clients.readers import Reader, visible
from proofs.simulator.oracle.chain import Chain
from proofs.simulator.oracle.history import SAFE, Acked, History
from proofs.simulator.oracle.oracle import Oracle, Violation
from pybroker.topic_partition import TopicPartition


class Records:
    """The records of one history whose clients have ended."""

    def __init__(self, history: History, oracle: Oracle, readers: Sequence[Reader]) -> None:
        self.history = history
        self.oracle = oracle
        self.readers = readers

    def check(self) -> None:
        """Checks that acknowledged records are there, once and in order, and that transactions are whole."""
        found: dict[TopicPartition, dict[bytes, int]] = {}
        for tp, chain in self.oracle.committed.items():
            if tp.topic != SAFE:
                continue
            offsets = found[tp] = {}
            for offset, value in visible(chain.batches):
                if value in offsets:
                    raise Violation("duplicate", f"{tp}: {value!r} is there twice")
                offsets[value] = offset
        self._check_acks(found)
        self._check_order(found)
        seen = {value: tp for tp, offsets in found.items() for value in offsets}
        for value, guest in self.history.refused.items():
            if value in seen:
                raise guest.let_in(f"{value!r} was refused, but is in {seen[value]}")
        for transaction in self.history.transactions:
            transaction.check(seen)
        for reader in self.readers:
            self._check_reader(reader, found.get(reader.tp, {}))

    def _check_acks(self, found: dict[TopicPartition, dict[bytes, int]]) -> None:
        for ack in self.history.acks:
            if ack.tp.topic != SAFE:
                self._check_elsewhere(ack)
            else:
                self._check_ack(ack, found.get(ack.tp, {}))

    def _check_ack(self, ack: Acked, found: dict[bytes, int]) -> None:
        for offset, value in enumerate(ack.values, ack.offset):
            there = found.get(value)
            if there is None:
                raise Violation("durability", f"{ack.tp}: {value!r} was acknowledged at {ack.offset}, but is lost")
            if ack.offset >= 0 and there != offset:
                raise Violation("durability", f"{ack.tp}: {value!r} was acknowledged at {offset}, but is at {there}")

    def _check_elsewhere(self, ack: Acked) -> None:
        """Checks that the records are in one of the topics of that name. Only retried ones may be in a second topic."""
        there = [key for key in self.oracle.incarnations.all_of(ack.tp) if self._has(key, ack)]
        if not there:
            text = f"{ack.tp}: {ack.values} were acknowledged at {ack.offset}, but are in no topic of that name"
            raise Violation("durability", text)
        if len(there) > 1 and ack.is_first:
            raise Violation("resurrection", f"{ack.tp}: {ack.values} were sent once, but are in {there}")

    def _has(self, key: TopicPartition, ack: Acked) -> bool:
        found = {value: at for at, value in visible(self.oracle.committed.get(key, Chain()).batches)}
        if ack.offset < 0:
            return all(value in found for value in ack.values)
        return all(found.get(value) == at for at, value in enumerate(ack.values, ack.offset))

    def _check_reader(self, reader: Reader, found: dict[bytes, int]) -> None:
        """Checks that a consumer got every committed record, and nothing else."""
        if reader.tp in self.oracle.trimmed:
            return
        got, there = [tuple(each) for each in reader.read], sorted((offset, value) for value, offset in found.items())
        if got != there:
            text = f"{reader.tp}: not in the log {set(got) - set(there)}, not read {set(there) - set(got)}"
            raise Violation("reading", text)

    def _check_order(self, found: dict[TopicPartition, dict[bytes, int]]) -> None:
        for tp, offsets in found.items():
            last: dict[bytes, int] = {}
            for value, _ in sorted(offsets.items(), key=lambda item: item[1]):
                name, _, number = value.partition(b":")
                if int(number) <= last.get(name, 0) and name.decode() not in self.history.given_up:
                    raise Violation("order", f"{tp}: {value!r} comes after {last[name]}")
                last[name] = int(number)
