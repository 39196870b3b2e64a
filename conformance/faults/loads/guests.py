"""Grants and revokes clients' right to write all the time, while they write on connections that stay open.

The broker that has answered a change applies it at once. Another broker applies it as soon as it lists the change to an
administrator. So nothing here depends on time. A broker must refuse a guest without the right, and the log must not
hold a refused record. A guest whose visit was interrupted returns much later, when none of its requests can be in
flight.
"""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterator

from conformance.data import batches
from conformance.drivers.base import Place
from conformance.faults.checkers.history import Anomaly, PartitionHistory
from conformance.faults.loads.cluster_target import PATIENCE_S, ClusterTarget
from conformance.faults.loads.load import Load, make_value, name_of, read_back
from conformance.faults.means.secured import ACLS_VERSION, ADMIN, GUESTS, Secured, filtered, grant
from harness.protocol import error_codes
from harness.protocol.kinds import AclOperation, AclResource
from harness.protocol.wire_client import Wire
from harness.waiting import until

TOPIC = "guests"
PARTITIONS = 3
LET_IN, KEPT_OUT = "let in", "kept out"
ANSWER_S = 10.0
PAUSE_S = 0.3
REMEMBERED = 50

Connections = dict[int, Wire]


class Guests(Load):
    """Runs the guests and the administrator. ``done``: complete visits."""

    def __init__(self, target: ClusterTarget, secured: Secured, seed: int) -> None:
        super().__init__(target, "guests", seed)
        self.target = target
        self.secured = secured
        self.histories = {Place(TOPIC, number): PartitionHistory() for number in range(PARTITIONS)}
        self.refused: set[bytes] = set()
        self.counts: Counter[str] = Counter()
        self.anomalies: list[Anomaly] = []
        self._next = deque(GUESTS)
        self._gone: deque[str] = deque(maxlen=REMEMBERED)
        """The guests that certainly have no right."""
        self._number = 0

    def begin(self) -> None:
        """Creates the topic and starts; returns after one visit."""
        self.target.make_topic(TOPIC, PARTITIONS, retention_ms=-1)
        self.start()
        self.goes_on(0)

    def work(self) -> None:
        while not self.stopping.is_set():
            try:
                self._visit(self._next[0])
                self._come_back(self.random.choice(self._gone))
            except OSError as error:
                self.counts[f"visits broken off: {type(error).__name__}"] += 1
            self.stopping.wait(PAUSE_S)

    def _visit(self, guest: str) -> None:
        """Grants a guest the right and revokes it again, while the guest writes. Raises OSError if a broker does not
        answer.
        """
        self._revoke(guest)
        self._until_known(guest, is_allowed=False)
        with self._connected(guest) as there:
            self._try_all(there, guest, is_allowed=False)
            self._try(there[self._grant(guest)], guest, is_allowed=True)
            self._until_known(guest, is_allowed=True)
            self._try_all(there, guest, is_allowed=True)
            self._try(there[self._revoke(guest)], guest, is_allowed=False)
            self._until_known(guest, is_allowed=False)
            self._try_all(there, guest, is_allowed=False)
        self._gone.append(guest)
        self.done += 1

    def _come_back(self, guest: str) -> None:
        """Lets a guest without a right come to a broker on another connection."""
        broker = self.random.choice(self.target.brokers.ids)
        with Wire(self.target.brokers.address(broker), ANSWER_S, self.secured.entrance(guest)) as wire:
            self._try(wire, guest, is_allowed=False)

    @contextlib.contextmanager
    def _connected(self, guest: str) -> Iterator[Connections]:
        """Opens a connection to each broker."""
        entrance = self.secured.entrance(guest)
        with contextlib.ExitStack() as opened:
            yield {
                broker: opened.enter_context(Wire(self.target.brokers.address(broker), ANSWER_S, entrance))
                for broker in self.target.brokers.ids
            }

    # -- the administrator ---------------------------------------------------------------------------------

    def _grant(self, guest: str) -> int:
        """Returns the broker that has answered. The guest's next turn comes after all others."""
        self._next.rotate(-1)
        if guest in self._gone:
            self._gone.remove(guest)
        row = grant(guest, AclOperation.WRITE, AclResource.TOPIC, TOPIC)
        with self._asking() as (broker, wire):
            answered(wire.ask("CreateAcls", ACLS_VERSION, creations=[row]).results[0].error_code)
        return broker

    def _revoke(self, guest: str) -> int:
        """Returns the broker that has answered."""
        row = filtered(guest, AclResource.TOPIC, TOPIC)
        with self._asking() as (broker, wire):
            answered(wire.ask("DeleteAcls", ACLS_VERSION, filters=[row]).filter_results[0].error_code)
        return broker

    @contextlib.contextmanager
    def _asking(self) -> Iterator[tuple[int, Wire]]:
        """Asks any broker as administrator."""
        broker = self.random.choice(self.target.brokers.ids)
        with Wire(self.target.brokers.address(broker), PATIENCE_S, self.secured.entrance(ADMIN)) as wire:
            yield broker, wire
        self.counts["changes"] += 1

    def _until_known(self, guest: str, *, is_allowed: bool) -> None:
        """Waits until every broker knows the change."""
        for broker in self.target.brokers.ids:
            with Wire(self.target.brokers.address(broker), ANSWER_S, self.secured.entrance(ADMIN)) as wire:
                until(
                    lambda wire=wire: is_listed(wire, guest) is is_allowed,  # type: ignore[misc]
                    f"broker {broker} to know that {guest} may{'' if is_allowed else ' not'} write",
                    PATIENCE_S,
                )

    # -- the guest -----------------------------------------------------------------------------------------

    def _try_all(self, there: Connections, guest: str, *, is_allowed: bool) -> None:
        for wire in there.values():
            self._try(wire, guest, is_allowed=is_allowed)

    def _try(self, wire: Wire, guest: str, *, is_allowed: bool) -> None:
        """Writes a record. A broker that does not lead checks the right too."""
        place = self.random.choice(list(self.histories))
        value = make_value(guest, self._number, 20)
        name, self._number = name_of(value), self._number + 1
        self.histories[place].send(f"{guest} {name!r}", name)
        row = wire.produce(TOPIC, batches.batch([value]), place.partition)
        if row.error_code == error_codes.TOPIC_AUTHORIZATION_FAILED:
            self.refused.add(name)
            self.counts["refused"] += 1
            if is_allowed:
                self.anomalies.append(Anomaly(KEPT_OUT, f"{name!r} by {wire.socket.getpeername()}"))
            return
        self.counts["served"] += 1
        if not is_allowed:
            text = f"{name!r} by {wire.socket.getpeername()}, which has answered with error {row.error_code}"
            self.anomalies.append(Anomaly(LET_IN, text))
        if row.error_code == 0:
            self.histories[place].ack(row.base_offset, name)

    # -- the end -------------------------------------------------------------------------------------------

    def check(self) -> tuple[int, list[Anomaly]]:
        """Returns how many records were read back, and all anomalies; the brokers are healthy by then."""
        for guest in self._gone:
            with self._connected(guest) as connections:
                self._try_all(connections, guest, is_allowed=False)
        count, found = 0, list(self.anomalies)
        for place, told in self.histories.items():
            log = read_back(self.target, place)
            count += len(log)
            found += [Anomaly(kind, f"{place}: {text}") for kind, text in told.check(log)]
            there = {name for _, name in log}
            found += [Anomaly(LET_IN, f"{place}: {name!r} was refused, and is there") for name in there & self.refused]
        return count, found


def answered(error_code: int) -> None:
    """Raises ConnectionError if the request failed, or may have failed."""
    if error_code:
        raise ConnectionError(f"error {error_code}")


def is_listed(wire: Wire, guest: str) -> bool:
    """Returns whether the broker lists an ACL of the guest."""
    reply = wire.ask("DescribeAcls", ACLS_VERSION, **filtered(guest, AclResource.TOPIC, TOPIC))
    assert reply.error_code == 0, reply
    return bool(reply.resources)
