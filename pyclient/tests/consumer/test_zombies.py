"""A member is evicted from its group while it processes records: its later commits are refused, whatever its state is
by then."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from pyclient import Consumer, Producer, TopicPartition
from pyclient.admin.types import AlterConfigOp, ConfigResource, ResourceType
from pyclient.consumer.errors import CommitFailed
from pyclient.errors import KafkaError
from pyclient.tests.brokers import unique
from pyclient.tests.support import read_all, take, until

pytestmark = pytest.mark.nightly

COUNT = 10
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])
LISTENER = pytest.mark.parametrize("listens", [True, False], ids=["listener", "none"])


class Listener:
    """A listener that does nothing."""

    def on_partitions_revoked(self, partitions):
        pass


@pytest.fixture
def target(new_topic):
    return new_topic()


@pytest.fixture
def join(broker, topic, group, protocol, listens):
    """Makes a member of the test's group that reads the test's topic."""
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(COUNT)])
    with ExitStack() as stack:

        def make(**settings):
            first = {"auto_offset_reset": "earliest", "group_id": group, "enable_auto_commit": False}
            if protocol == "classic":
                first["heartbeat_interval_ms"] = 200
            member = stack.enter_context(
                Consumer(broker.bootstrap, group_protocol=protocol, **{**first, **settings})
            )
            member.subscribe([topic], listener=Listener() if listens else None)
            return member

        yield make


@pytest.fixture
def work(broker, target):
    """Returns a function that copies a batch and commits the positions in one transaction, as the tutorial does."""
    with ExitStack() as stack:
        producers = {}

        def copy(consumer, records):
            producer = producers.get(consumer)
            if producer is None:
                made = Producer(broker.bootstrap, transactional_id=unique("txn"))
                producer = producers[consumer] = stack.enter_context(made)
            with producer.transaction():
                for record in records:
                    producer.send(target, bytes(record.value))
                producer.send_offsets(consumer.positions(), consumer.group_metadata())

        yield copy


def values(broker, topic):
    """Returns the committed records once no transaction is open."""
    place = TopicPartition(topic, 0)
    with Consumer(broker.bootstrap) as everything, Consumer(
        broker.bootstrap, isolation_level="read_committed"
    ) as committed:
        until(lambda: committed.end_offsets([place]) == everything.end_offsets([place]), "the markers")
    return sorted(bytes(record.value) for record in read_all(broker.bootstrap, topic, isolation_level="read_committed"))


EXPECTED = sorted(b"%d" % number for number in range(COUNT))


def is_out(consumer):
    return consumer._core.membership.is_out


@BOTH
@LISTENER
def test_records_of_a_member_that_polled_too_late_are_processed_once(broker, join, work, target):
    slow = join(max_poll_interval_ms=1000)
    records = take(slow, COUNT)
    heir = join()
    work(heir, take(heir, COUNT))
    with pytest.raises(KafkaError):
        work(slow, records)
    assert values(broker, target) == EXPECTED
    again = []
    until(lambda: again.extend(slow.poll(timeout=0.1)) or slow.assignment() == set())
    assert again == []


@BOTH
@LISTENER
def test_records_of_a_lone_member_that_polled_too_late_are_processed_once(broker, join, work, target):
    alone = join(max_poll_interval_ms=1000)
    records = take(alone, COUNT)
    until(lambda: is_out(alone), "the end of its membership")
    for _ in range(2):
        with pytest.raises(KafkaError):
            work(alone, records)
    work(alone, take(alone, COUNT))
    assert values(broker, target) == EXPECTED


@BOTH
@LISTENER
def test_a_member_that_polled_too_late_cannot_commit_until_it_polls(join):
    slow = join(max_poll_interval_ms=1000)
    take(slow, COUNT)
    held, who = slow.positions(), slow.group_metadata()
    until(lambda: is_out(slow), "the end of its membership")
    time.sleep(0.5)  # time to join again, if it did so without a poll
    assert (slow.positions(), slow.group_metadata()) == (held, who)
    with pytest.raises(CommitFailed):
        slow.commit()
    assert [record.offset for record in take(slow, COUNT)] == list(range(COUNT))
    slow.commit()


PAUSED = '''
import sys
from pyclient import Consumer, Producer

bootstrap, topic, target, group, protocol, transactional_id = sys.argv[1:]
settings = {"heartbeat_interval_ms": 200, "session_timeout_ms": 2000} if protocol == "classic" else {}
consumer = Consumer(bootstrap, group_id=group, group_protocol=protocol, auto_offset_reset="earliest",
    enable_auto_commit=False, topics=[topic], **settings)
producer = Producer(bootstrap, transactional_id=transactional_id)
records = []
while not records:
    records = consumer.poll(timeout=0.2)
producer.begin_transaction()
for record in records:
    producer.send(target, bytes(record.value))
producer.flush()
print(len(records), flush=True)
sys.stdin.readline()
try:
    producer.send_offsets(consumer.positions(), consumer.group_metadata())
    producer.commit_transaction()
except Exception as error:
    producer.abort_transaction()
    print("refused", flush=True)
else:
    print("committed", flush=True)
'''


@BOTH
@pytest.mark.parametrize("listens", [False], ids=["none"])
@pytest.mark.parametrize("waits", [0.0, 1.0], ids=["at once", "later"])
def test_records_of_a_halted_process_are_processed_once(
    broker, admin, join, work, topic, target, group, protocol, waits
):
    """The process is halted for longer than its session timeout. Then it continues its work at once, or only after it
    has learned of its eviction.
    """
    if protocol == "consumer":
        resource = ConfigResource(ResourceType.GROUP, group)
        admin.incremental_alter_configs({resource: [AlterConfigOp("consumer.session.timeout.ms", "2000")]})
    arguments = [broker.bootstrap, topic, target, group, protocol, unique("halted")]
    command = [sys.executable, "-c", PAUSED, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            assert int(process.stdout.readline()) == COUNT
            process.send_signal(signal.SIGSTOP)
            heir = join()
            records = take(heir, COUNT)
            process.send_signal(signal.SIGCONT)
            time.sleep(waits)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "refused\n"
        finally:
            process.kill()
    work(heir, records)
    assert values(broker, target) == EXPECTED
