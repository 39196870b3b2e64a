"""Signals a busy consumer and a busy producer at random moments; their signal handler calls ``wakeup()``.

It is a program of its own, because Python runs handlers in the main thread: ``python -m
conformance.faults.loads.signalled BOOTSTRAP TOPIC SIGNALS SEED``. Its last line says how often ``wakeup()`` has ended a
poll. Its parent process notices if it hangs.
"""

from __future__ import annotations

import faulthandler
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence

from pyclient import Consumer, Producer, TopicPartition
from pyclient.errors import WakeupError

RECORDS = 20_000
PAUSE_S = 0.0001
"""The average pause between signals; with a shorter one, only handlers would run."""


class Signalled:
    """Reads a topic again and again and writes to another one, until it has got this many signals."""

    def __init__(self, bootstrap: str, topic: str, signals: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.signals = signals
        self.handled = 0
        self.woken = 0
        self.place = TopicPartition(topic, 0)
        self.written = f"{topic}-written"
        self.producer = Producer(bootstrap)
        self.producer.send_many(topic, [b"%d" % number for number in range(RECORDS)]).result(60)
        self.consumer = Consumer(bootstrap, enable_auto_commit=False)
        self.consumer.assign([self.place])

    def run(self) -> None:
        """Raises AssertionError if a record is passed over, or ``wakeup`` is lost."""
        signal.signal(signal.SIGUSR1, self._handle)
        main, chance = threading.main_thread().ident, random.Random(self.random.random())
        assert main is not None

        def send() -> None:
            for _ in range(self.signals):
                signal.pthread_kill(main, signal.SIGUSR1)
                time.sleep(chance.expovariate(1 / PAUSE_S))

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        while sender.is_alive():
            self._read_all(sender)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        self.consumer.wakeup()
        assert self._is_woken()
        self.producer.close()
        self.consumer.close()

    def _handle(self, *_: object) -> None:
        self.handled += 1
        self.consumer.wakeup()

    def _is_woken(self) -> bool:
        try:
            self.consumer.poll(timeout=60)
        except WakeupError:
            self.woken += 1
            return True
        return False

    def _read_all(self, sender: threading.Thread) -> None:
        """Reads from the first record to the last, in order; counts the polls that a wakeup ended."""
        self.consumer.seek_to_beginning()
        expected = 0
        while expected < RECORDS and sender.is_alive():
            try:
                records = self.consumer.poll(self.random.choice((0, 0.001, 1)), self.random.choice((1, 10, 500)))
            except WakeupError:
                self.woken += 1
                continue
            for record in records:
                assert record.offset == expected, f"{record.offset} came, {expected} was expected"
                expected += 1
            if self.random.random() < 0.01:
                self.producer.send(self.written, b"v").result(60)


def main(arguments: Sequence[str]) -> None:
    bootstrap, topic, signals, seed = arguments
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    work = Signalled(bootstrap, topic, int(signals), int(seed))
    work.run()
    print(f"{work.handled} of {signals} signals were handled one by one, {work.woken} polls were ended")


if __name__ == "__main__":
    main(sys.argv[1:])
