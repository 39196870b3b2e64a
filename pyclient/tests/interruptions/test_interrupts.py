"""Ctrl-C ends each wait for a broker that is halted by SIGSTOP and never answers."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyclient import Producer
from pyclient.tests.brokers import unique
from pyclient.tests.support import PATIENCE_S

REPOSITORY = Path(__file__).parents[3]
PROGRAM = '''
import asyncio, os, re, signal, sys
from pyclient import Admin, Consumer, Producer, TopicPartition, aio

bootstrap, topic, group, broker = sys.argv[1:]
place = TopicPartition(topic, 0)
{prepare}
os.kill(int(broker), signal.SIGSTOP)

def wait(name, work):
    try:
        print(name, flush=True)
        work()
        print("not interrupted", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)

{waits}
print("end", flush=True)
os._exit(0)
'''
CONSUMER = (
    '''
consumer = Consumer(bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
consumer.assign([place])
while not consumer.poll(timeout=0.1):
    pass
seeker = Consumer(bootstrap)
seeker.connect(90)
leaver = Consumer(bootstrap, group_id=group + "-2", topics=[topic], auto_offset_reset="earliest")
while not leaver.poll(timeout=0.1):
    pass
closer = Consumer(bootstrap, group_id=group + "-4", topics=[topic], auto_offset_reset="earliest")
while not closer.poll(timeout=0.1):
    pass
iterator = Consumer(bootstrap)
iterator.assign([place])
iterator.seek(place, 10**6)
subscriber = Consumer(bootstrap, group_id=group + "-3")
subscriber.connect(90)
''',
    {
        "poll": "consumer.poll()",
        "poll_arrow": "consumer.poll_arrow()",
        "iteration": "next(iter(iterator))",
        "commit": "consumer.commit()",
        "committed": "consumer.committed([place])",
        "position": "(seeker.assign([place]), seeker.position(place))",
        "beginning_offsets": "consumer.beginning_offsets([place])",
        "end_offsets": "consumer.end_offsets([place])",
        "offsets_for_times": "consumer.offsets_for_times({place: 0})",
        "list_topics": "consumer.list_topics()",
        "partitions_for": "consumer.partitions_for('another')",
        "subscribe": "subscriber.subscribe(re.compile('x.*'))",
        "connect": "Consumer(bootstrap).connect(1000)",
        "unsubscribe": "leaver.unsubscribe()",
        "close": "closer.close(1000)",
    },
)
PRODUCER = (
    '''
settings = {"linger_ms": 10**6, "delivery_timeout_ms": 10**8, "buffer_memory": 65536, "batch_size": 10**6}
producer = Producer(bootstrap, **settings)
report = producer.send(topic, value=b"first")
many = producer.send_many(topic, [b"second", b"third"])
full = Producer(bootstrap, **settings)
full.partitions_for(topic)
closed = Producer(bootstrap, **settings)
closed.send(topic, value=b"v")
''',
    {
        "flush": "producer.flush()",
        "result": "report.result()",
        "results": "many.result()",
        "room": "[full.send(topic, value=bytes(1000)) for _ in range(1000)]",
        "room of many": "full.send_many(topic, [bytes(1000)] * 1000)",
        "partitions_for": "producer.partitions_for('another')",
        "metadata": "producer.send('another', value=b'v')",
        "connect": "Producer(bootstrap).connect(1000)",
        "close": "closed.close()",
    },
)
TRANSACTIONS = (
    '''
made = [Producer(bootstrap, transactional_id=f"{group}-{number}") for number in range(4)]
for producer in made[:3]:
    producer.begin_transaction()
    producer.send(topic, value=b"v").result(90)
''',
    {
        "send_offsets": "made[0].send_offsets({place: 1}, group)",
        "commit": "made[1].commit_transaction()",
        "abort": "made[2].abort_transaction()",
        "begin": "made[3].begin_transaction()",
    },
)
ADMIN = (
    '''
admin = Admin(bootstrap)
admin.connect(90)
''',
    {
        "create": "admin.create_topics(topic + '-2')",
        "list": "admin.list_topics()",
        "groups": "admin.list_groups()",
        "connect": "Admin(bootstrap).connect(1000)",
    },
)
ASYNCIO = (
    '''
async def read():
    async with aio.Consumer(bootstrap) as consumer:
        await consumer.assign([place])
        await consumer.poll()

async def write():
    async with aio.Producer(bootstrap) as producer:
        await (await producer.send(topic, value=b"v"))
''',
    {"read": "asyncio.run(read())", "write": "asyncio.run(write())"},
)


def told(process: subprocess.Popen[bytes]) -> str:
    """Returns the next line of the program's output."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE_S)[0], "it hangs"
    return process.stdout.readline().decode().strip()


def interrupted(process: subprocess.Popen[bytes], names: list[str]) -> dict[str, str]:
    """Returns the outcome of each wait."""
    found = {}
    for name in names:
        assert told(process) == name
        give_time()
        process.send_signal(signal.SIGINT)
        found[name] = told(process)
    assert told(process) == "end"
    return found


def give_time() -> None:
    """Gives the program time to get from its line to its wait. If it is late, the signal arrives before the wait."""
    select.select([], [], [], 0.1)


@pytest.mark.parametrize("client", ["consumer", "producer", "transactions", "admin", "asyncio"])
def test_ctrl_c_ends_every_wait(paused_broker, client):
    prepare, waits = globals()[client.upper()]
    topic = unique("waits")
    with Producer(paused_broker.bootstrap) as producer:
        producer.send(topic, value=b"v").result(PATIENCE_S)
    lines = "\n".join(f"wait({name!r}, lambda: {work})" for name, work in waits.items())
    text = PROGRAM.replace("{prepare}", prepare).replace("{waits}", lines)
    arguments = [paused_broker.bootstrap, topic, unique("group"), str(paused_broker.pid)]
    process = subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    with process:
        try:
            assert interrupted(process, list(waits)) == dict.fromkeys(waits, "interrupted")
        finally:
            process.kill()
            os.kill(paused_broker.pid, signal.SIGCONT)
