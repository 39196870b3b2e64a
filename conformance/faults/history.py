"""A checker of histories: what producers were told against what consumers read.

The anomalies are those of the published Jepsen work on Kafka, as far as they concern one log without transactions:

* lost write: a value was acked, a later offset was read, and the value is nowhere;
* duplicate: a value was sent once by an idempotent producer and stands at two offsets;
* phantom: a value was read that nobody sent;
* inconsistent offset: two reads of one offset saw different values, or an ack named another offset than the value has;
* nonmonotonic send: the values of one producer stand in another order than it sent them;
* poll skip and nonmonotonic poll: a reader left offsets out, or went back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Partition = tuple[str, int]
Value = bytes


@dataclass(slots=True)
class History:
    """Everything that clients saw of some partitions."""

    sent: dict[Partition, list[Value]] = field(default_factory=lambda: defaultdict(list))
    acked: dict[Partition, list[tuple[Value, int]]] = field(default_factory=lambda: defaultdict(list))
    reads: dict[Partition, list[Sequence[tuple[int, Value]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def anomalies(self, *, idempotent: bool = True) -> list[str]:
        """What is wrong, in words; empty where all is well."""
        found: list[str] = []
        for partition in {*self.sent, *self.acked, *self.reads}:
            found += self._of(partition, idempotent)
        return found

    def _of(self, partition: Partition, idempotent: bool) -> Iterable[str]:
        places: dict[Value, list[int]] = defaultdict(list)
        values: dict[int, Value] = {}
        for read in self.reads[partition]:
            yield from self._read(partition, read, values)
        for offset, value in values.items():
            places[value].append(offset)
        yield from self._acks(partition, places, values)
        yield from self._sends(partition, places, idempotent)

    def _read(
        self, partition: Partition, read: Sequence[tuple[int, Value]], values: dict[int, Value]
    ) -> Iterable[str]:
        previous = None
        for offset, value in read:
            if previous is not None and offset <= previous:
                yield f"nonmonotonic poll: {partition} {offset} after {previous}"
            if previous is not None and offset > previous + 1:
                yield f"poll skip: {partition} {offset} after {previous}"
            if values.setdefault(offset, value) != value:
                yield f"inconsistent offset: {partition} {offset} was {values[offset]!r}, then {value!r}"
            previous = offset

    def _acks(
        self, partition: Partition, places: dict[Value, list[int]], values: dict[int, Value]
    ) -> Iterable[str]:
        last_offset = max(values, default=-1)
        for value, offset in self.acked[partition]:
            if value not in places:
                yield f"lost write: {partition} {value!r}, acked at {offset}, log read up to {last_offset}"
            elif offset >= 0 and offset not in places[value]:
                yield f"inconsistent offset: {partition} {value!r} acked at {offset}, is at {places[value]}"

    def _sends(
        self, partition: Partition, places: dict[Value, list[int]], idempotent: bool
    ) -> Iterable[str]:
        known = set(self.sent[partition])
        for value in places:
            if value not in known:
                yield f"phantom: {partition} {value!r} at {places[value]}"
            if idempotent and len(places[value]) > 1:
                yield f"duplicate: {partition} {value!r} at {places[value]}"
        previous = -1
        for value in self.sent[partition] if idempotent else ():
            if value in places:
                if places[value][0] < previous:
                    yield f"nonmonotonic send: {partition} {value!r} at {places[value][0]} after {previous}"
                previous = places[value][0]
