"""Where records go, when the sender is woken, and what memory they take."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise

import pytest

from cy.batch import iterate
from cy.batch.record_headers import size_of_headers
from cy.produce.deliveries import Deliveries
from cy.produce.murmur2 import partition_for_key
from cy.produce.record_queues import RecordQueues


def make(partitions=3, **settings):
    queues = RecordQueues(clock=lambda: 0.0, **settings)
    queues.set_partitions("t", partitions)
    queues.direct = True
    wakes = []
    queues.attach(lambda: wakes.append(1))
    return queues, wakes


def taken(queue):
    """Removes the batch that is next to be sent from the queue, and returns it."""
    batch = queue.first()
    queue.remove(batch)
    return batch


def drained(queue):
    """Removes all batches from the queue, and returns them."""
    return [taken(queue) for _ in queue.batches()]


def records_of(queues, partitions=3):
    """Returns the values of all waiting records by partition."""
    found = {}
    for number in range(partitions):
        for batch in drained(queues.topic("t").queues[number]):
            batch.seal()
            batch.assign()
            values = [bytes(record.value) for record in iterate(batch.records)]
            found.setdefault(number, []).extend(values)
    return found


def test_an_explicit_partition_is_honoured():
    queues, _ = make()
    assert queues.send("t", b"a", partition=2).partition == 2
    assert records_of(queues) == {2: [b"a"]}


@pytest.mark.parametrize("partition", ["0", 1.5])
def test_a_partition_that_is_not_an_int_is_refused(partition):
    queues, _ = make()
    with pytest.raises(TypeError, match=f"partition is {type(partition).__name__}, not int"):
        queues.send("t", b"a", partition=partition)
    assert queues.send("t", b"a", partition=True).partition == 1


def test_a_topic_is_forgotten_once_its_queues_are_empty():
    queues, _ = make()
    queues.send("t", b"a", partition=2)
    before = list(queues.topic("t").queues)
    queues.forget_topic("t")
    assert records_of(queues) == {2: [b"a"]}
    queues.forget_topic("t")
    queues.forget_topic("u")
    assert queues.topic("t") is None
    assert queues.try_send("t", b"b", None, 0, None, None, None) is None
    queues.set_partitions("t", 2)
    assert queues.topic("t").partition_count == 2
    assert all(old is new for old, new in zip(before, queues.topic("t").queues, strict=True))


def test_nothing_is_appended_to_an_unknown_partition_or_a_full_memory():
    queues, _ = make(buffer_memory=20000)
    assert queues.try_send("t", b"", None, 3, None, None, None) is None
    assert queues.try_send("t", b"", None, -1, None, None, None) is None
    assert queues.try_send("u", b"", None, None, None, None, None) is None
    assert queues.try_send("t", b"", None, 0, None, None, None) is not None
    assert queues.try_send("t", b"", None, 1, None, None, None) is None
    assert queues.used <= 20000


def test_keys_go_to_the_same_partition_as_in_kafka():
    queues, _ = make(partitions=7)
    for number in range(1000):
        key = b"key-%d" % number
        assert queues.send("t", b"", key).partition == partition_for_key(key, 7)


def test_round_robin_skips_unavailable_partitions():
    queues, _ = make(round_robin=True)
    queues.topic("t").queues[1].available = False
    assert [queues.send("t", b"").partition for _ in range(4)] == [0, 2, 0, 2]


def test_the_partitioner_stays_on_a_partition_until_its_batch_is_full():
    queues, _ = make(batch_size=1000)
    chosen = [queues.send("t", b"v" * 100).partition for _ in range(600)]
    runs = sum(a != b for a, b in pairwise(chosen))
    assert 600 / 10 - 5 < runs < 600 / 6
    assert len(set(chosen[:7])) == 1


def test_the_partitioner_stays_on_a_partition_until_its_batch_is_taken():
    queues, _ = make()
    first = queues.send("t", b"").partition
    taken(queues.topic("t").queues[first])
    assert queues.send("t", b"").partition != first


def test_partitions_with_long_queues_are_chosen_less_often():
    queues, _ = make(partitions=2, batch_size=100)
    for _ in range(100):
        queues.send("t", b"v" * 100, partition=0)
    queues.set_partitions("t", 3)
    chosen = Counter()
    for _ in range(300):
        number = queues.send("t", b"v" * 100).partition
        chosen[number] += 1
        drained(queues.topic("t").queues[number]) if number else None
    assert chosen[0] < 30
    assert min(chosen[1], chosen[2]) > 100


def test_records_of_a_partition_keep_their_order():
    queues, _ = make(batch_size=500)
    for number in range(300):
        queues.send("t", b"%d" % number, partition=0)
    assert records_of(queues)[0] == [b"%d" % number for number in range(300)]


def test_the_sender_is_woken_once_and_again_for_a_full_batch():
    queues, wakes = make(batch_size=1000)
    for _ in range(50):
        queues.send("t", b"v" * 100, partition=0)
    assert len(wakes) == 1
    assert [queue.partition for queue in queues.take_news()] == [0]
    queues.send("t", b"v", partition=0)
    assert len(wakes) == 1
    drained(queues.topic("t").queues[0])
    queues.send("t", b"v", partition=0)
    assert len(wakes) == 2
    queues.take_news()
    for _ in range(10):
        queues.send("t", b"v" * 100, partition=0)
    assert len(wakes) == 3
    assert queues.topic("t").queues[0].full


def test_a_waiting_batch_grows_beyond_batch_size_but_not_beyond_a_request():
    queues, _ = make(batch_size=1000, max_request_size=10_000)
    for _ in range(300):
        queues.send("t", b"v" * 100, partition=0)
    batches = queues.topic("t").queues[0].batches()
    assert len(batches) == 4 or len(batches) == 5
    assert all(batch.size <= 10_000 for batch in batches)


def test_batch_size_0_gives_a_batch_to_every_record():
    queues, _ = make(batch_size=0)
    for _ in range(5):
        queues.send("t", b"v", partition=0)
    assert len(queues.topic("t").queues[0].batches()) == 5


def test_memory_is_free_again_after_release():
    queues, _ = make(batch_size=1000)
    for _ in range(100):
        queues.send("t", b"v" * 100)
    assert queues.used > 10_000
    for queue in queues.topic("t").queues:
        for batch in drained(queue):
            queues.release(batch)
            queues.release(batch)
    assert queues.used == 0


def full_batch(queues, value):
    """Returns the records of a batch of some 100 KB, and the batch, taken from its queue and sealed."""
    for _ in range(1000):
        queues.send("t", value * 100, partition=0)
    batch = taken(queues.topic("t").queues[0])
    batch.seal()
    batch.assign()
    return batch.records, batch


def test_the_memory_of_a_completed_batch_is_reused_by_the_next():
    queues, _ = make()
    _, batch = full_batch(queues, b"a")
    size = batch.charged
    assert queues.spare < size
    del _
    queues.release(batch)
    assert queues.spare >= size
    records, batch = full_batch(queues, b"b")
    assert queues.spare < size
    assert {bytes(record.value) for record in iterate(records)} == {b"b" * 100}
    queues.release(batch)
    queues.trim()
    assert queues.spare == 0


def test_a_batch_starts_with_the_size_of_the_last_one_if_memory_is_plentiful():
    for memory, plentiful in ((1 << 20, True), (1 << 18, False)):
        queues, _ = make(buffer_memory=memory)
        _, first = full_batch(queues, b"a")
        queues.send("t", b"", partition=0)
        assert (queues.used - first.charged == first.charged) is plentiful


def test_memory_that_is_still_referenced_is_not_reused():
    queues, _ = make()
    records, batch = full_batch(queues, b"a")
    held = memoryview(records)
    del records
    queues.release(batch)
    full_batch(queues, b"b")
    assert {bytes(record.value) for record in iterate(held)} == {b"a" * 100}


def test_spare_memory_is_limited_and_kept_while_batches_are_in_flight():
    queues, _ = make(buffer_memory=1 << 20)
    batches = [full_batch(queues, b"a")[1] for _ in range(4)]
    queues.send("t", b"", partition=0)
    for batch in batches:
        queues.release(batch)
    queues.trim()
    assert 0 < queues.spare <= 1 << 18


@pytest.mark.parametrize("data", [bytearray(b"ab"), memoryview(b"ab")])
def test_keys_and_values_in_buffers_are_copied(data):
    queues, _ = make()
    queues.send("t", data, data, partition=0)
    assert records_of(queues)[0] == [b"ab"]


@pytest.mark.parametrize("data", ["text", 5, 1.5])
def test_keys_and_values_that_are_not_bytes_are_refused(data):
    queues, _ = make()
    with pytest.raises(TypeError, match="value is"):
        queues.send("t", data)
    with pytest.raises(TypeError, match="key is"):
        queues.send("t", b"", data)


def test_callbacks_get_metadata_in_order():
    queues, _ = make()
    seen = []
    for number in range(3):
        queues.send(
            "t", b"", partition=0, timestamp=number,
            on_delivery=lambda metadata, error: seen.append((metadata.offset, error)),
        )
    batch = taken(queues.topic("t").queues[0])
    batch.complete(7)
    batch.run_callbacks(pytest.fail)
    assert seen == [(7, None), (8, None), (9, None)]


@pytest.mark.parametrize("keyed", [False, True])
def test_add_many_appends_the_same_records_as_single_sends(keyed):
    queues, _ = make(batch_size=1000)
    values = [b"%d" % number * 20 for number in range(500)]
    keys = [b"%d" % (number % 7) for number in range(500)] if keyed else None
    deliveries = Deliveries(500, 1)
    assert queues.add_many("t", values, keys, 0, None, 1, deliveries) == 500
    assert len(deliveries) == 500
    found = records_of(queues)
    assert Counter(chain(*found.values())) == Counter(values)
    if keyed:
        for number in range(3):
            wanted = [v for v, k in zip(values, keys, strict=True) if partition_for_key(k, 3) == number]
            assert found[number] == wanted


MIXED = [b"%d" % number * 20 for number in range(3000)]
MIXED[50] = None
MIXED[1500] = bytearray(b"not bytes")


@pytest.mark.parametrize("max_request_size", [20_000, 100_000, 1 << 20])
@pytest.mark.parametrize("partition", [None, 1])
def test_add_many_of_a_tuple_fills_separate_batches_in_order(max_request_size, partition):
    queues, _ = make(batch_size=1000, max_request_size=max_request_size)
    queues.send("t", b"before", partition=1)
    deliveries = Deliveries(len(MIXED), 1)
    assert queues.add_many("t", tuple(MIXED), None, 0, partition, 1, deliveries) == len(MIXED)
    queues.send("t", b"after", partition=1)
    for queue in queues.topic("t").queues:
        assert all(batch.size <= max_request_size for batch in queue.batches())
    places = {}
    for at in range(len(MIXED)):
        places.setdefault(deliveries[at].partition, []).append(MIXED[at] and bytes(MIXED[at]))
    places[1] = [b"before", *places.get(1, []), b"after"]
    assert places == values_of(queues)


def values_of(queues):
    """Does what ``records_of`` does, with nulls."""
    found = {}
    for queue in queues.topic("t").queues:
        for batch in drained(queue):
            batch.seal()
            batch.assign()
            values = [record.value and bytes(record.value) for record in iterate(batch.records)]
            found.setdefault(queue.partition, []).extend(values)
    return found


def test_add_many_of_a_tuple_stops_before_a_value_that_is_too_large():
    queues, _ = make(max_request_size=50_000)
    values = (b"v" * 100,) * 400 + (b"v" * 60_000,) + (b"v",)
    deliveries = Deliveries(len(values), 1)
    assert queues.add_many("t", values, None, 0, 0, 1, deliveries) == 400
    assert len(records_of(queues)[0]) == 400


def test_a_batch_of_add_many_without_room_takes_no_memory():
    queues, _ = make(partitions=1, buffer_memory=200_000)
    values = (b"v" * 100,) * 3000
    deliveries = Deliveries(3000, 1)
    at = queues.add_many("t", values, None, 0, None, 1, deliveries)
    assert 0 < at < 3000
    assert queues.used <= 200_000
    assert queues.used == sum(batch.charged for batch in queues.topic("t").queues[0].batches())


def test_add_many_stops_when_memory_is_full_and_can_be_resumed():
    queues, _ = make(partitions=1, buffer_memory=30_000)
    values = [b"v" * 100] * 1000
    deliveries = Deliveries(1000, 1)
    at, rounds = 0, 0
    while at < 1000:
        at = queues.add_many("t", values, None, at, None, 1, deliveries)
        rounds += 1
        for batch in drained(queues.topic("t").queues[0]):
            batch.complete(0)
            queues.release(batch)
    assert rounds > 2
    assert deliveries.result(0) == 1000
    assert deliveries[0].metadata.offset == 0


def test_deliveries_raise_the_first_error():
    queues, _ = make(partitions=1)
    deliveries = Deliveries(2, 1)
    queues.add_many("t", [b"a", None], None, 0, 0, 1, deliveries)
    with pytest.raises(TimeoutError):
        deliveries.result(0)
    taken(queues.topic("t").queues[0]).fail(KeyError("lost"))
    with pytest.raises(KeyError):
        deliveries.result(0)
    assert isinstance(deliveries[1].error, KeyError)


def test_a_record_is_accepted_as_long_as_has_room_is_true():
    """Otherwise a sender that asks ``has_room`` in a loop would never end."""
    for headers in (None, [("h", b"x" * 500)]):
        queues, _ = make(partitions=1, buffer_memory=100_000)
        size = 1000 + size_of_headers(headers)
        while queues.has_room(size):
            assert queues.try_send("t", bytes(1000), None, None, None, headers, None) is not None
        assert 80_000 <= queues.used <= 100_000


def test_small_memory_accepts_records_that_fit():
    queues, _ = make(partitions=1, buffer_memory=5_000)
    assert queues.fits(4_000)
    assert not queues.fits(5_000)
    assert queues.try_send("t", bytes(4_000), None, None, None, None, None) is not None


def test_deliveries_refuse_more_records_than_expected():
    queues, _ = make()
    deliveries = Deliveries(2, 0)
    values = [b"a", b"b"]
    assert queues.add_many("t", values, None, 0, 0, 1, deliveries) == 2
    values.extend([b"c"] * 100_000)
    assert queues.add_many("t", values, None, 2, 0, 1, deliveries) == 2
    assert records_of(queues) == {0: [b"a", b"b"]}
    report = queues.send("t", b"c", partition=0)
    with pytest.raises(ValueError, match="record 3 of 2"):
        deliveries.keep(report)
    assert len(deliveries) == 2


def test_a_list_of_keys_that_shrinks_is_an_error():
    queues, _ = make()
    with pytest.raises(IndexError):
        queues.add_many("t", [b"a"] * 3, [b"k"] * 2, 0, None, 1, Deliveries(3, 0))


def test_nothing_is_appended_to_closed_queues():
    queues, wakes = make()
    queues.send("t", b"a", partition=0)
    queues.closed = True
    wakes.clear()
    assert queues.try_send("t", b"b", None, 0, None, None, None) is None
    assert queues.try_send("t", b"b", None, 1, None, None, None) is None
    assert queues.add_many("t", [b"b"] * 3, None, 0, 0, 1, Deliveries(3, 0)) == 0
    assert queues.add_many("t", [b"b"] * 3, [b"k"] * 3, 0, None, 1, Deliveries(3, 0)) == 0
    assert records_of(queues) == {0: [b"a"]}
    assert wakes == []


def test_a_batch_begun_while_the_queues_close_is_dropped():
    """The allocation of a batch may run Python code, and so let another thread close the queues."""

    def clock():
        queues.closed = True
        return 0.0

    queues = RecordQueues(clock=clock)
    queues.set_partitions("t", 1)
    queues.attach(lambda: None)
    assert queues.try_send("t", b"b", None, 0, None, None, None) is None
    assert queues.topic("t").queues[0].empty
    assert queues.used == 0
