"""Sequences have no gap and no duplicate, whatever fails (cases 31 to 34)."""

from __future__ import annotations

import random

import pytest

from cy.produce.phase import Phase
from cy.produce.record_queues import RecordQueues
from pyclient.producer.in_flight import MAX_SEQUENCE, Identity, Lane, Verdict, after

FIRST = Identity(1, 0)


def make(count=0, identity=FIRST):
    queues = RecordQueues(batch_size=0, clock=lambda: 0.0)
    queues.set_partitions("t", 1)
    queues.direct = True
    queues.attach(lambda: None)
    for _ in range(count):
        queues.send("t", b"v", partition=0)
    lane = Lane(queues.topic("t").queues[0])
    if identity is not None:
        lane.reset(identity)
        lane.acknowledged = True
    return lane, queues


class Sending:
    """Sends batches of a lane as the sender does."""

    def __call__(self, lane):
        batch = lane.next()
        if batch is None:
            return None
        lane.take(batch)
        batch.seal()
        lane.depart(batch)
        return batch


def back(lane, batch):
    lane.arrive(batch)
    lane.wait(batch)


def through(lane, batch, phase=Phase.WRITTEN):
    """Marks a batch as delivered."""
    lane.arrive(batch)
    told = []
    lane.decide(batch, phase, lambda: told.append(batch))
    while (tell := lane.due()) is not None:
        tell()
    return told


def refuse(lane, batch):
    lane.arrive(batch)
    lane.refused(batch)
    through(lane, batch, Phase.FAILED)


def test_five_batches_in_flight_have_consecutive_sequences():
    lane, _ = make(7)
    go = Sending()
    sent = [go(lane) for _ in range(7)]
    assert sent[5:] == [None, None]
    assert [batch.base_sequence for batch in sent[:5]] == [0, 1, 2, 3, 4]


def test_after_a_failure_only_the_oldest_batch_is_sent_again_with_its_sequence():
    lane, _ = make(6)
    go = Sending()
    first, second, third = go(lane), go(lane), go(lane)
    back(lane, second)
    assert go(lane) is None
    through(lane, first)
    assert go(lane) is second
    assert second.base_sequence == 1
    assert go(lane) is None
    through(lane, second)
    assert go(lane).base_sequence == 3
    assert third.base_sequence == 2


def test_an_out_of_order_batch_after_a_failed_one_is_not_a_gap():
    lane, _ = make(2)
    go = Sending()
    first, second = go(lane), go(lane)
    lane.arrive(second)
    assert lane.out_of_order(second) is Verdict.RETRY
    lane.wait(second)
    back(lane, first)
    assert go(lane) is first


def test_an_out_of_order_oldest_batch_is_a_gap_and_resets_sequences():
    lane, _ = make(3)
    go = Sending()
    first, second = go(lane), go(lane)
    lane.arrive(first)
    assert lane.out_of_order(first) is Verdict.HALTED
    lane.wait(first)
    assert go(lane) is None
    assert not lane.wants_reset()
    back(lane, second)
    assert lane.wants_reset()
    lane.reset(Identity(1, 1))
    sent = []
    for _ in range(3):
        sent.append(go(lane))
        through(lane, sent[-1])
    assert sent[:2] == [first, second]
    assert [(batch.producer_epoch, batch.base_sequence) for batch in sent] == [(1, 0), (1, 1), (1, 2)]


def test_a_batch_that_may_be_written_keeps_its_sequence_before_a_reset():
    lane, _ = make(2)
    go = Sending()
    first, second = go(lane), go(lane)
    refuse(lane, first)
    assert lane.halted
    second.maybe_written = True
    back(lane, second)
    assert not lane.wants_reset()
    assert go(lane) is second
    assert second.base_sequence == 1
    assert second.producer_epoch == 0
    second.maybe_written = False
    back(lane, second)
    assert lane.wants_reset()


def test_a_refused_last_batch_leaves_no_gap():
    lane, _ = make(2)
    go = Sending()
    first = go(lane)
    refuse(lane, first)
    assert not lane.halted
    assert go(lane).base_sequence == 0


def test_a_new_epoch_is_used_only_when_nothing_is_in_flight():
    lane, _ = make(3)
    go = Sending()
    first = go(lane)
    assert not lane.is_idle()
    back(lane, first)
    assert not lane.is_idle()
    through(lane, go(lane))
    assert lane.is_idle()


def test_parts_of_a_split_batch_share_its_sequences():
    big = RecordQueues(clock=lambda: 0.0)
    big.set_partitions("t", 1)
    big.direct = True
    big.attach(lambda: None)
    for _ in range(10):
        big.send("t", b"v" * 100, partition=0)
    lane = Lane(big.topic("t").queues[0])
    lane.reset(Identity(1, 0))
    lane.acknowledged = True
    go = Sending()
    batch = go(lane)
    big.send("t", b"later", partition=0)
    later = go(lane)
    assert later.base_sequence == 10
    lane.arrive(batch)
    parts = lane.split(batch, 500)
    through(lane, later)
    assert [go(lane) for _ in parts[:1]] == parts[:1]
    through(lane, parts[0])
    sequence = parts[0].count
    for part in parts[1:]:
        assert go(lane) is part
        assert part.base_sequence == sequence
        sequence += part.count
        through(lane, part)
    assert sequence == 10


def test_sequences_wrap_to_0_after_the_maximum():
    assert after(MAX_SEQUENCE, 1) == 0
    assert after(MAX_SEQUENCE - 1, 5) == 3


def test_without_idempotence_batches_have_no_sequence():
    lane, _ = make(1, identity=None)
    batch = Sending()(lane)
    assert batch.base_sequence == batch.producer_id == -1


def test_the_first_batch_of_a_producer_id_is_sent_alone_until_acknowledged():
    lane, _ = make(3)
    lane.reset(Identity(2, 0))
    go = Sending()
    first = go(lane)
    assert go(lane) is None
    through(lane, first)
    lane.acknowledged = True
    assert go(lane) is not None
    assert go(lane) is not None


class Log:
    """A partition on a broker: it checks sequences and keeps the written batches."""

    def __init__(self):
        self.written = []
        self.epoch = self.last = -1
        self.recent = {}

    def append(self, batch):
        """Returns "ok", "duplicate" or "gap"."""
        key = batch.producer_epoch, batch.base_sequence
        if key in self.recent:
            return "duplicate"
        fresh = batch.producer_epoch > self.epoch
        if batch.base_sequence != (0 if fresh else self.last + 1) and self.epoch >= 0:
            return "gap"
        self.epoch, self.last = batch.producer_epoch, batch.base_sequence + batch.count - 1
        self.recent[key] = None
        self.recent = dict(list(self.recent.items())[-5:])
        self.written.append(batch)
        return "ok"


@pytest.mark.parametrize("seed", range(100))
def test_every_batch_is_written_once_in_order_whatever_is_lost(seed):
    """Requests and responses are lost, and batches are refused. Every accepted batch is written once."""
    dice = random.Random(seed)
    lane, _ = make(40)
    lane.acknowledged = False
    identity, log, go, refused, flying, sent = Identity(1, 0), Log(), Sending(), set(), [], {}
    for _ in range(3000):
        if lane.wants_reset():
            identity = Identity(1, identity.epoch + 1)
            lane.reset(identity)
        batch = go(lane) if dice.random() < 0.6 else None
        if batch is not None:
            flying.append(batch)
            sent[batch] = None
        elif flying and dice.random() < 0.8:
            answer(lane, log, flying.pop(0), dice, refused)
        if not lane.has_waiting() and not flying:
            break
    else:
        pytest.fail("it did not come to an end")
    assert len(set(log.written)) == len(log.written)
    assert log.written == [batch for batch in sent if batch in log.written]
    assert len(log.written) + len(refused) == 40
    assert lane.batches == []


def answer(lane, log, batch, dice, refused):
    chance = dice.random()
    if chance < 0.15:  # the request is lost
        batch.maybe_written = True
        back(lane, batch)
        return
    if chance < 0.2 and not batch.maybe_written:
        refuse(lane, batch)
        refused.add(batch)
        return
    result = log.append(batch)
    if chance > 0.85:  # the response is lost
        batch.maybe_written = True
        back(lane, batch)
        return
    lane.arrive(batch)
    lane.acknowledged = lane.acknowledged or result != "gap"
    if result == "gap":
        batch.maybe_written = False
        lane.out_of_order(batch)
        lane.wait(batch)
    else:
        through(lane, batch)
