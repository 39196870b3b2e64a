"""The report that the demo prints at its end."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from pybroker.cli.demo.copying import Copied, target_of
from pybroker.cli.demo.dataset import Dataset
from pybroker.cli.demo.latency import Latencies
from pybroker.cli.demo.speed import Speed
from pybroker.cli.demo.streaming import Streamed

MEGA = 1e6


class Report(NamedTuple):
    """The figures that one run of the demo has measured."""

    title: str
    chosen: str
    started_s: float
    streamed: Streamed
    copied: Copied
    speed: Speed
    latencies: Latencies

    @property
    def is_exact(self) -> bool:
        """Whether each record was read once and each chosen one is visible once."""
        return sum(self.streamed.shares) == self.streamed.records and self.copied.visible == self.streamed.copied

    def as_json(self) -> str:
        """Returns one document with times in seconds and latencies in milliseconds."""
        streamed, copied = self.streamed, self.copied
        document: dict[str, Any] = {
            "data": self.title,
            "start_s": self.started_s,
            "records": streamed.records,
            "bytes": streamed.size,
            "sent_per_s": streamed.records / streamed.sent_s,
            "read_per_s": streamed.records / streamed.read_s,
            "shares": streamed.shares,
            "found": streamed.found,
            "chosen": streamed.copied,
            "copies": {"written": copied.written, "visible": copied.visible},
            "transactions": {"committed": copied.transactions, "aborted": copied.aborted},
            "read_again_per_s": self.speed.read / self.speed.read_s,
            "sent_again_per_s": self.speed.sent / self.speed.sent_s,
            "acked_ms": self.latencies.acked._asdict(),
            "end_to_end_ms": self.latencies.end_to_end._asdict(),
            "exact": self.is_exact,
        }
        return json.dumps(document, indent=2) + "\n"

    def as_text(self) -> str:
        """Returns a line per figure."""
        width = max(len(name) for name, _ in self._lines())
        return "\n" + "".join(f"  {name.ljust(width)}  {text}\n" for name, text in self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        streamed, copied, again, (acked, through) = self.streamed, self.copied, self.speed, self.latencies
        size = f"{streamed.size / MEGA:,.1f} MB"
        shares = " + ".join(f"{share:,}" for share in streamed.shares)
        reads, sends = _rate(again.read, again.read_s), _rate(again.sent, again.sent_s)
        return [
            ("broker", f"ready after {self.started_s:.2f} s"),
            ("produced", f"{streamed.records:,} records, {size}: {_rate(streamed.records, streamed.sent_s)}, acks=all"),
            ("consumed", f"{shares} while it was produced, by two members: {_rate(streamed.records, streamed.read_s)}"),
            ("they found", streamed.found),
            ("transactions", f"{copied.transactions} committed, {copied.aborted} aborted, in {copied.seconds:.1f} s"),
            ("exactly once", f"{copied.visible:,} {self.chosen}; {copied.written:,} written, counting aborted ones"),
            ("client", f"reads {reads}, sends {sends}, without application code"),
            ("acknowledged", f"p50 {acked.p50:.2f} ms, p99 {acked.p99:.2f} ms, one record at a time"),
            ("end to end", f"p50 {through.p50:.2f} ms, p99 {through.p99:.2f} ms, at 1,000 records/s"),
            ("verdict", "nothing lost, nothing doubled" if self.is_exact else "RECORDS LOST OR DOUBLED"),
        ]


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f} records/s"


def next_steps(dataset: Dataset, bootstrap: str | None) -> str:
    """Returns commands to type next: for the broker if it stays, otherwise to start one."""
    if bootstrap is None:
        return "\nNext: `pybroker demo --keep` lets the broker run for a look inside, `pybroker` starts one that stays."
    commands = (
        f"pybroker topic describe {dataset.topic}",
        f"pybroker consume {dataset.topic} --from-beginning -n 3 -o jsonl",
        f"pybroker consume {target_of(dataset)} --from-beginning --to end --committed",
        "pybroker group describe readers",
    )
    lines = "".join(f"  {command}\n" for command in commands)
    return f"\nThe broker runs until Ctrl-C. In another terminal:\n\n  export PYBROKER_BOOTSTRAP={bootstrap}\n{lines}"
