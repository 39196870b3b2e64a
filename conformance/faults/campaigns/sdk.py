"""The campaign of our SDK: its producers and consumers against a broker and a network that fail, to the last record.

All clients reach the broker through the fault proxy only. They write and read millions of records (``sdk_load``).
Meanwhile the campaign kills the broker (also during its start) and freezes it. The proxy resets connections, cuts them
within a request or reply, half-closes them, slows them down, refuses them, and drops their bytes silently. The campaign
also freezes and kills clients.

The number of records decides when the campaign ends, not the time: a slow machine runs the same campaign slowly::

    python -m conformance.faults.campaigns.sdk --records 10000000 --faults 400
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.faults.campaigns.chaos import Chaos
from conformance.faults.loads.sdk_load import AHEAD, EAGER, Plan, Report, Streams
from harness.faults.proxy import FaultProxy
from harness.servers.brokers import KINDS, Broker, free_port


class Campaign(Streams):
    """Puts workers and faults on a broker that is not started yet."""

    def __init__(self, broker: Broker, seed: int, plan: Plan, folder: Path) -> None:
        broker.config.update(EAGER)
        broker.port = free_port()
        self.broker = broker
        self.proxy = FaultProxy(lambda: broker.address)
        super().__init__(broker, self.proxy.bootstrap, seed, plan, folder)
        self.chaos = Chaos(broker, self.proxy, self.random, self.pids, self.kill_one)
        self.report.faults = self.chaos.counts

    def run(self) -> Report:
        """Runs the plan, then checks everything; ends everything that it has started."""
        with self.proxy:
            self.broker.config["advertised.listeners"] = f"PLAINTEXT://{self.proxy.bootstrap}"
            try:
                self.broker.start()
                self._open()
                share = self.plan.records / (self.plan.faults + 2)
                for turn in range(self.plan.faults):
                    self.permit((turn + 1) * share + max(3 * share, AHEAD))
                    self.await_acks(round((turn + 1) * share))
                    self._strike()
                self.proxy.heal()
                self.end()
                self.broker.crash()
                return self.check()
            finally:
                self.close()

    def _open(self) -> None:
        self.begin()

    def _strike(self) -> None:
        self.chaos.strike()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="our SDK under faults of broker, network and clients")
    parser.add_argument("--broker", choices=sorted(KINDS), default="ours")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--faults", type=int, default=400)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--folder", type=Path, help="keeps data and journals here")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        broker = KINDS[chosen.broker](folder / "broker")
        begun = time.monotonic()
        try:
            report = Campaign(broker, chosen.seed, Plan(chosen.records, chosen.faults), folder).run()
        finally:
            broker.kill()
        print(f"{report}\nseconds: {time.monotonic() - begun:.0f}")
    return bool(report.anomalies)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
