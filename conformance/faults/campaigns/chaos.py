"""Strikes a broker, its network and its clients with one fault after another, drawn from a seed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from harness.faults.proxy import FaultProxy
from harness.servers.brokers import Broker

#: A fault lasts at most this long, mostly less; the longest ones exceed a request's time-out.
LONGEST_S = 6.0


class Chaos:
    """``pids``: the running clients. ``kill_client`` kills one of them and starts a replacement."""

    def __init__(
        self,
        broker: Broker,
        proxy: FaultProxy,
        chance: random.Random,
        pids: Callable[[], Sequence[int]],
        kill_client: Callable[[], None],
    ) -> None:
        self.broker = broker
        self.proxy = proxy
        self.random = chance
        self.pids = pids
        self.kill_client = kill_client
        self.counts: Counter[str] = Counter()
        self.faults: dict[str, Callable[[], None]] = {
            "kills of the broker": self._kill_broker,
            "kills of the broker while it starts": self._kill_broker_twice,
            "SIGSTOPs of the broker": self._freeze_broker,
            "rounds of resets": self._reset,
            "rounds of lost acks": self._lose_acks,
            "rounds of requests cut in the middle": self._cut_requests,
            "rounds of replies cut in the middle": self._cut_replies,
            "slow networks": self._slow_down,
            "half-closed connections": self._half_close,
            "black holes": self._black_hole,
            "refused connections": self._refuse,
            "SIGSTOPs of clients": self._freeze_client,
            "kills of clients": kill_client,
        }

    def strike(self) -> None:
        """Causes a fault, sometimes also on a slow network, and repairs everything afterwards."""
        names = self.random.sample(sorted(self.faults), 2)
        self._do(names[0])
        if self.random.random() < 0.3:
            self.proxy.delay_s = self.random.choice((0.005, 0.02, 0.1))
            self._do(names[1])
        self.proxy.heal()

    def _do(self, name: str) -> None:
        self.faults[name]()
        self.counts[name] += 1

    def _wait(self, longest_s: float = LONGEST_S) -> None:
        time.sleep(longest_s * self.random.random() ** 2)

    # -- processes -------------------------------------------------------------------------------------

    def _kill_broker(self) -> None:
        self.broker.crash()

    def _kill_broker_twice(self) -> None:
        self.broker.kill()
        self.broker.start(wait=False)
        time.sleep(self.random.uniform(0.1, 0.6))
        self.broker.crash()

    def _freeze_broker(self) -> None:
        with frozen(self.broker.pid):
            self._wait()

    def _freeze_client(self) -> None:
        with frozen(self.random.choice(self.pids())):
            self._wait()

    # -- the network -----------------------------------------------------------------------------------

    def _reset(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            self.proxy.cut()
            self._wait(0.2)

    def _lose_acks(self) -> None:
        self.proxy.lose_replies(every=self.random.randint(1, 4), count=self.random.randint(1, 20))
        self._wait(2.0)

    def _sizes(self) -> list[int]:
        return [self.random.randint(0, 20_000) for _ in range(self.random.randint(1, 10))]

    def _cut_requests(self) -> None:
        self.proxy.cut_produces(self._sizes())
        self._wait(2.0)

    def _cut_replies(self) -> None:
        self.proxy.cut_replies(self._sizes())
        self._wait(2.0)

    def _slow_down(self) -> None:
        self.proxy.delay_s = self.random.choice((0.005, 0.02, 0.1))
        self._wait(3.0)

    def _half_close(self) -> None:
        self.proxy.half_close(client=self.random.random() < 0.5)
        self._wait(1.0)

    def _black_hole(self) -> None:
        requests, replies = self.random.choice(((True, True), (True, False), (False, True)))
        self.proxy.black_hole(requests=requests, replies=replies)
        self._wait()

    def _refuse(self) -> None:
        self.proxy.refuses = True
        self.proxy.cut()
        self._wait(2.0)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stops a process with SIGSTOP, and resumes it at the end."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
