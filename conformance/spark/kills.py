"""Kills a Python worker, the driver or the broker at every stage of a batch, while a stream writes exactly once.

    python -m conformance.spark.kills --kills 200 [--seed N] [--mutant NAME]

``pipeline`` is the program under test; ``hooks.stages`` kills in its processes. The campaign restarts a killed process,
and the next kill waits until a batch has been committed since. At the end a reader of committed records (librdkafka)
must find every number in the topic once. The table that the data source has read from the topic must also hold it once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from pyarrow import parquet  # type: ignore[import-untyped,unused-ignore]

from conformance.applications.committed import read_all
from conformance.data.spark_tables import committed_files
from conformance.spark.hooks import environment
from conformance.spark.hooks.planted import MUTANTS
from conformance.spark.hooks.stages import CLAIM_STAGES, STAGES, VICTIMS
from conformance.spark.pipeline import PER_BATCH, TOPIC
from conformance.spark.session import REPOSITORY
from harness.clients.librdkafka import present
from harness.protocol.wire_client import Wire
from harness.servers.brokers import Broker, OurBroker

PARTITIONS = 3
STALLED_S = 900.0
"""A kill may go without progress for this long; a cold JVM on a busy machine takes minutes."""


class Strike(NamedTuple):
    """A process to kill, and the stage at which it is killed."""

    stage: str
    victim: str


class Verdict(NamedTuple):
    """The contents of topic and table, compared with ``rows`` numbers that were certainly written."""

    rows: int
    lost: int
    doubled: int
    table_lost: int
    table_doubled: int

    @property
    def is_clean(self) -> bool:
        """Returns whether both the topic and the table hold each number once."""
        return self.rows > 0 and not any(self[1:])


class Campaign:
    """Runs a broker and the Spark program, and kills them at the planned stages."""

    def __init__(self, folder: Path, mutant: str | None = None, broker: Broker | None = None) -> None:
        self.folder = folder
        self.mutant = mutant
        self.control = folder / "control"
        self.control.mkdir(parents=True)
        self.broker = broker or OurBroker(folder / "broker")
        self.driver: subprocess.Popen[bytes] | None = None
        self.struck: list[Strike] = []

    def __enter__(self) -> Self:
        self.broker.start()
        self._tell_broker()
        with Wire(self.broker.address) as wire:
            wire.create_topic(TOPIC, PARTITIONS, {})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill_driver()
        self.broker.kill()

    # -- what is kept alive ------------------------------------------------------------------------

    def keep_alive(self) -> None:
        """Restarts the broker or the program if it was killed."""
        if not self.broker.alive:
            self.broker.kill()
            self.broker.start()
            self._tell_broker()
        if self.driver is None or self.driver.poll() is not None:
            if self.driver is not None and (self.folder / "done").exists():
                return
            self._start_driver()

    def _tell_broker(self) -> None:
        (self.control / "broker").write_text(str(self.broker.pid))

    def _start_driver(self) -> None:
        command = [sys.executable, "-m", "conformance.spark.pipeline", self.broker.bootstrap, str(self.folder)]
        with (self.folder / "driver.log").open("ab") as log:
            self.driver = subprocess.Popen(
                command,
                env={**os.environ, **environment(self.control, self.mutant)},
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                start_new_session=True,
            )
        (self.control / "driver").write_text(str(self.driver.pid))

    def _kill_driver(self) -> None:
        if self.driver is not None and self.driver.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()

    def wait(self, what: str, happened: Callable[[], object]) -> None:
        """Returns when ``happened()``; restarts killed processes meanwhile."""
        deadline = time.monotonic() + STALLED_S
        while not happened():
            self.keep_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not in {STALLED_S:.0f} s; {self.told()}")
            time.sleep(0.1)

    def told(self) -> str:
        """Returns the end of the program's output."""
        return (self.folder / "driver.log").read_text(errors="replace")[-3000:]

    # -- kills -------------------------------------------------------------------------------------

    def committed(self) -> int:
        """Counts the batches that Spark considers done."""
        found = (path.name for path in (self.folder / "checkpoint" / "commits").glob("[0-9]*"))
        return max((int(name) + 1 for name in found if name.isdigit()), default=0)

    def strike(self, strike: Strike) -> None:
        """Kills, and waits until a batch has been committed since."""
        self.wait("the first batch", lambda: self.committed() > 0)
        fired = self.control / "fired"
        (self.control / "new").write_text("\n".join(strike))
        (self.control / "new").rename(self.control / "armed")
        if strike.stage in CLAIM_STAGES:  # A query claims its ledger when it starts.
            self._kill_driver()
        self.wait(f"{strike}", fired.exists)
        fired.unlink()
        self.struck.append(strike)
        before = self.committed()
        self.wait(f"a batch after {strike}", lambda: self.committed() > before)

    def finish(self) -> Verdict:
        """Stops the Spark program and checks all records that it has written."""
        (self.folder / "stop").touch()
        self.wait("the table", (self.folder / "done").exists)
        rows = self.committed() * PER_BATCH
        topic = Counter(int(present(message.value())) for message in read_all(self.broker, TOPIC, PARTITIONS))
        table = table_of(self.folder / "table")
        return Verdict(rows, *_missing_and_doubled(topic, rows), *_missing_and_doubled(table, rows))


def _missing_and_doubled(found: Counter[int], rows: int) -> tuple[int, int]:
    """Finds missing and doubled numbers; the batch after the last committed one may be there or not, but as a whole."""
    whole = rows + PER_BATCH if any(number >= rows for number in found) else rows
    missing = sum(number not in found for number in range(whole))
    return missing, sum(count - 1 for count in found.values())


def table_of(folder: Path) -> Counter[int]:
    """Returns the rows that a stream has written, with their counts."""
    values = (parquet.read_table(path)["value"].to_pylist() for path in committed_files(folder))
    return Counter(int(value) for each in values for value in each)


def plan(kills: int, seed: int) -> list[Strike]:
    """Returns every stage with every victim again and again, in a seeded order; a driver's kill costs a JVM."""
    lots = random.Random(seed)
    every = [Strike(stage, victim) for stage in STAGES for victim in VICTIMS]
    strikes: list[Strike] = []
    while len(strikes) < kills:
        lots.shuffle(every)
        strikes += every
    return strikes[:kills]


def campaign(folder: Path, strikes: Sequence[Strike], mutant: str | None = None) -> Verdict:
    """Runs a whole campaign."""
    with Campaign(folder, mutant) as running:
        for number, strike in enumerate(strikes, 1):
            running.strike(strike)
            print(f"{number}/{len(strikes)} {strike.victim} {strike.stage}: batch {running.committed()}", flush=True)
        return running.finish()


def main() -> int:
    """Returns the exit code: 0 if nothing is lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="spark-kills-"))
    verdict = campaign(folder, plan(given.kills, given.seed), given.mutant)
    print(f"{given.kills} kills: {verdict._asdict()}")
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
