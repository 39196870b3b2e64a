"""Interrupts our SDK at any moment by signals, cancellations and closes: it must not hang, leak or lose consistency.

    python -m conformance.faults.campaigns.interruptions --signals 100000 --cancellations 10000 --closes 1000
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.faults.loads.cancelled import Cancelled
from conformance.faults.loads.closed import Closed
from harness.servers.brokers import KINDS

REPOSITORY = Path(__file__).parents[3]
START_S, SIGNAL_S = 120.0, 0.02
"""The signalled program may take this long to start, and for each signal: many times what a busy machine needs."""


def signalled(bootstrap: str, topic: str, signals: int, seed: int) -> str:
    """Returns the output of the signalled program; raises AssertionError with its threads' stacks if it hangs."""
    command = [sys.executable, "-m", "conformance.faults.loads.signalled", bootstrap, topic, str(signals), str(seed)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        told, trouble = process.communicate(timeout=START_S + signals * SIGNAL_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR2)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        raise AssertionError(f"it hangs: {process.communicate()[1]}") from None
    finally:
        process.kill()
    assert process.returncode == 0, trouble
    return told.strip()


def cancelled(bootstrap: str, topic: str, cancellations: int) -> str:
    """Cancels this many calls; raises AssertionError."""
    work = Cancelled(bootstrap, topic, f"{topic}-group")
    asyncio.run(work.run(cancellations))
    sent, committed = len(work.sent), len(work.committed)
    return f"{work.cancellations} calls were cancelled, {sent} records accepted, {committed} transactions committed"


def closed(bootstrap: str, topic: str, rounds: int, seed: int) -> str:
    """Closes many clients, one per round, while others call them. Raises AssertionError."""
    work = Closed(bootstrap, topic, seed)
    work.run(rounds)
    return f"{rounds} clients were closed, {work.calls} calls of other threads ended"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="our SDK under signals, cancellations and closes at any moment")
    parser.add_argument("--broker", choices=sorted(KINDS), default="ours")
    parser.add_argument("--signals", type=int, default=100_000)
    parser.add_argument("--cancellations", type=int, default=10_000)
    parser.add_argument("--closes", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    chosen = parser.parse_args(arguments)
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        broker = KINDS[chosen.broker](Path(folder) / "broker")
        try:
            broker.start()
            print(cancelled(broker.bootstrap, "cancelled", chosen.cancellations), flush=True)
            print(closed(broker.bootstrap, "closed", chosen.closes, chosen.seed), flush=True)
            print(signalled(broker.bootstrap, "signalled", chosen.signals, chosen.seed), flush=True)
        finally:
            broker.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
