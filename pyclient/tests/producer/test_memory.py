"""A writer takes buffer.memory, and little more memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
MIB = 1 << 20
PROGRAM = """
import sys, threading
from pyclient import Producer

def kib(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

def write(producer):
    for number in range({records}):
        producer.send(topic, value=values[number % 100], key=b"%d" % (number % 64))

bootstrap, topic = sys.argv[1:]
values = [bytes([number]) * (10 * number) for number in range(100)]
with Producer(bootstrap, buffer_memory=8 << 20) as producer:
    producer.connect(90)
    before = kib("VmRSS")
    threads = [threading.Thread(target=write, args=(producer,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print((kib("VmHWM") - before) * 1024)
"""


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_many_writing_threads_use_little_more_memory_than_buffer_memory(broker, new_topic):
    """The buffer has 8 MiB. Without reuse of blocks, fragmentation took 180 MiB and grew."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(records=75_000), broker.bootstrap, new_topic(4)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=True,
    )
    assert int(done.stdout) < 72 * MIB
