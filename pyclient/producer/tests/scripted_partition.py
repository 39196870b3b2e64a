"""One partition of a broker and a producer's only connection to it, both scripted.

Like Kafka's, the log keeps a producer's epoch and its last five batches, of which a restart leaves only the last one
(ProducerStateManager). If a batch is sent again that the log no longer knows, Kafka refuses it as a gap, and our broker
as a duplicate. A script may let a request that the producer lost reach the broker later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cy.batch import iterate, read_header
from pyclient.errors import ConnectionFailed, ConnectionLost
from pyclient.producer.tests.scripted import batches_of, make
from pyclient.protocol import Produce

WINDOW = 5
TIMEOUT_S = 120.0
TOO_LARGE, GAP, DUPLICATE, OLD_EPOCH = 10, 45, 46, 47


@dataclass
class Known:
    """The state of a producer in the log: its batches as (first sequence, last sequence, offset)."""

    epoch: int = -1
    batches: list[tuple[int, int, int]] = field(default_factory=list)


class Log:
    """A log: the values in the order of their offsets."""

    def __init__(self, forgotten: int) -> None:
        """``forgotten``: the error code for a batch that was written and is no longer known."""
        self.values: list[bytes] = []
        self.forgotten = forgotten
        self.producers: dict[int, Known] = {}

    def append(self, records: bytes) -> tuple[int, int]:
        """Appends a batch. Returns error code and offset."""
        header = read_header(records)
        known = self.producers.setdefault(header.producer_id, Known())
        first, last = header.base_sequence, header.base_sequence + header.count - 1
        if header.producer_epoch < known.epoch:
            return OLD_EPOCH, -1
        if header.producer_epoch > known.epoch:
            if first != 0 and known.epoch >= 0:
                return GAP, -1
            known.epoch, known.batches = header.producer_epoch, []
        for earlier in known.batches:
            if earlier[:2] == (first, last):
                return 0, earlier[2]
        end = known.batches[-1][1] if known.batches else first - 1
        if first != end + 1:
            return (self.forgotten if last <= end else GAP), -1
        known.batches = [*known.batches, (first, last, len(self.values))][-WINDOW:]
        self.values += [bytes(record.value) for record in iterate(records)]
        return 0, len(self.values) - header.count

    def restart(self) -> None:
        """Restarts the broker, which then knows only the last batch of each producer."""
        for known in self.producers.values():
            known.batches = known.batches[-1:]


class Partition:
    """A sender with ``count`` batches of two records for it, each created a second after the one before."""

    def __init__(self, count: int, forgotten: int = GAP, **settings: object) -> None:
        self.log = Log(forgotten)
        settings = {"delivery_timeout_ms": 120_000, "retry_backoff_max_ms": 100, **settings}
        self.client, self.queues, self.sender = make(**settings)
        self.lane = self.sender.lane(self.queues.topic("t").queues[0])
        self.told: list[tuple[bytes, int | None]] = []
        self.sent: list[bytes] = []
        self.zombies: list[bytes] = []
        for _ in range(count):
            self._send()
        self.sender.run()

    def _send(self) -> None:
        for _ in range(2):
            value = b"%d" % len(self.sent)
            self.sent.append(value)
            self.queues.send("t", value, partition=0, on_delivery=self._told(value))
        self.queues.close_all()
        self.client.now += 1.0

    def _told(self, value: bytes):
        return lambda metadata, error: self.told.append((value, None if error else metadata.offset))

    def do(self, action: str) -> None:
        """Performs the next action, which takes a second."""
        if self.client.posts or action in ("expire", "late"):
            getattr(self, "_" + action)()
        self.client.now += 1.0
        self.sender.run()

    def finish(self) -> None:
        """Runs without further faults until all batches are done."""
        for _ in range(100):
            if not self.sender.pending() and not self.client.posts:
                return
            self.do("served")
        raise AssertionError(f"no end: {self.told}")

    # -- what may happen to the oldest request ---------------------------------------------------------

    def _next(self):
        _, message, on_done = self.client.posts.pop(0)
        return batches_of(message)[0], on_done

    def _answer(self, on_done, code: int, offset: int = -1) -> None:
        row = Produce.Response.PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
        topic = Produce.Response.TopicProduceResponse(name="t", topic_id=b"t" * 16, partition_responses=[row])
        on_done(Produce.Response(responses=[topic]), None)

    def _served(self) -> None:
        records, on_done = self._next()
        self._answer(on_done, *self.log.append(records))

    def _unreplicated(self, code: int = 7) -> None:
        """Appends the batch, but answers with an error."""
        records, on_done = self._next()
        found, offset = self.log.append(records)
        self._answer(on_done, found or code, -1 if found == 0 else offset)

    def _deposed(self) -> None:
        """Appends and replicates the batch, but the leader has lost its leadership before it answers (DelayedProduce).
        """
        self._unreplicated(6)

    def _refused(self, code: int = 19) -> None:
        self._answer(self._next()[1], code)

    def _invalid(self) -> None:
        """Refuses a batch for good. Later batches are not delayed by it."""
        self.zombies = []
        self._refused(87)

    def _too_large(self) -> None:
        self.zombies = []
        records, on_done = self._next()
        code, offset = self.log.append(records) if read_header(records).count == 1 else (TOO_LARGE, -1)
        self._answer(on_done, code, offset)

    # -- what may happen to the connection -------------------------------------------------------------

    def _lose(self, served: int, *, with_news: bool = False) -> list[bytes]:
        """Ends the connection after ``served`` requests were served. The others are lost. Returns their batches."""
        posts = [self._next() for _ in range(len(self.client.posts))]
        for records, _ in posts[:served]:
            self.log.append(records)
        if with_news:
            self._send()
            self.sender.run()
        for _, on_done in posts:
            on_done(None, ConnectionLost("h:1", "Produce"))
        return [records for records, _ in posts[served:]]

    def _lost(self) -> None:
        self._lose(0)

    def _lost_behind_one(self) -> None:
        self._lose(1)

    def _lost_answers(self) -> None:
        self._lose(WINDOW)

    def _lost_answers_with_news(self) -> None:
        """Sends a batch on the next connection before the end of this one is reported."""
        self._lose(WINDOW, with_news=True)

    def _lost_with_news(self) -> None:
        self._lose(0, with_news=True)

    def _restarted(self) -> None:
        """Restarts the broker cleanly, after it served all requests and answered none."""
        self._lose(WINDOW)
        self.log.restart()

    def _restarted_between(self) -> None:
        self._lose(3)
        self.log.restart()

    def _delayed(self) -> None:
        """Ends the connection, so that the producer counts its requests as lost. They reach the broker later."""
        self.zombies += self._lose(0)

    def _late(self) -> None:
        """Serves the delayed requests."""
        for records in self.zombies:
            self.log.append(records)
        self.zombies = []

    def _unreachable(self) -> None:
        """Fails all waiting requests, because the connection cannot be opened."""
        for _ in range(len(self.client.posts)):
            self._next()[1](None, ConnectionFailed("h:1", "connect"))

    # -- time --------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        """Lets the oldest batch exceed delivery.timeout.ms. No request is delayed for that long."""
        self.zombies = []
        pending = self.sender.pending()
        if pending:
            self.client.now = max(self.client.now, min(batch.created for batch in pending) + TIMEOUT_S + 0.1)
