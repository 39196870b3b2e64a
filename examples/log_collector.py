"""Log collection: new lines of log files go to a topic, each exactly once, until SIGTERM or Ctrl-C.

    python examples/log_collector.py localhost:9092 logs /var/log/dpkg.log

Files grow and are rotated by renaming (``dpkg.log`` → ``dpkg.log.1`` → …). How far each was read is a record of the
compacted topic ``logs-positions``, written in one transaction with the lines: both are there, or neither. So it may be
killed at any time; its successor fences it and goes on from the last committed position. Lines of a log keep
their order: the log's name is their key. Readers take ``isolation_level="read_committed"``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from pyclient import KafkaError, NewTopic, Producer
from reading import read

LOOK_EVERY_S = 0.2


def topics(name: str) -> list[NewTopic]:
    """The lines, three partitions of them, and the positions."""
    return [NewTopic(name, 3), NewTopic(positions_of(name), 1, configs={"cleanup.policy": "compact"})]


def positions_of(topic: str) -> str:
    """The topic that says how far each file was read."""
    return f"{topic}-positions"


class Collector:
    """Tails logs into ``topic``."""

    def __init__(self, bootstrap: str, topic: str, logs: list[Path], portion: int) -> None:
        self.portion = portion
        self.topic = topic
        self.logs = logs
        self.stopped = False
        self.producer = Producer(bootstrap, transactional_id=f"collector-{topic}", compression_type="zstd")
        self.producer.init_transactions()  # ends what a predecessor left open; from now on it cannot write any more
        self.positions = {record.key: int(record.value) for record in read(bootstrap, positions_of(topic))}

    def run(self) -> None:
        """Until ``stop``."""
        with self.producer:
            while not self.stopped:
                if not any([self.collect(log) for log in self.logs]):
                    time.sleep(LOOK_EVERY_S)

    def collect(self, log: Path) -> int:
        """Sends the next lines of the oldest file of a log that has any; how many."""
        with ExitStack() as opened:  # all before any is read: what is rotated now stays the same file
            files = [opened.enter_context(path.open("rb")) for path in rotated(log)]
            return next(filter(None, (self.send(log.name, file) for file in reversed(files))), 0)

    def send(self, name: str, file: BinaryIO) -> int:
        """The next portion of a file, in a transaction; a last line without its end waits for it."""
        identity = identify(file)
        start = self.positions.get(identity, 0)
        file.seek(start)
        lines = (file.read(self.portion) + file.readline()).split(b"\n")[:-1]
        if not lines:
            return 0
        end = start + sum(map(len, lines)) + len(lines)
        with self.producer.transaction():
            self.producer.send_many(self.topic, lines, [name.encode()] * len(lines))
            self.producer.send(positions_of(self.topic), b"%d" % end, identity)
        self.positions[identity] = end
        return len(lines)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """The handler of a signal: ends it after this transaction."""
        self.stopped = True


def rotated(log: Path) -> Iterator[Path]:
    """The log and what is left of its past, from new to old, as far as it is not compressed."""
    path, number = log, 0
    while path.exists():
        yield path
        number += 1
        path = log.with_name(f"{log.name}.{number}")


def identify(file: BinaryIO) -> bytes:
    """What stays the same when a file is renamed, and differs when another one gets its inode."""
    return b"%d-%08x" % (os.fstat(file.fileno()).st_ino, zlib.crc32(file.readline()))


def main() -> int:
    """Exit code 0 when it was stopped, 1 when it failed."""
    parser = argparse.ArgumentParser(description="New lines of log files go to a topic, each exactly once.")
    parser.add_argument("bootstrap", help="host:port of brokers")
    parser.add_argument("topic")
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--portion", type=int, default=1 << 18, help="bytes of a transaction [%(default)s]")
    options = parser.parse_args()
    try:
        collector = Collector(options.bootstrap, options.topic, options.logs, options.portion)
        signal.signal(signal.SIGTERM, collector.stop)
        signal.signal(signal.SIGINT, collector.stop)
        collector.run()
    except KafkaError as error:
        print(f"log_collector: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
