"""Turns the measurements into a table and a plot: medians over the rounds, and the ratio of ours to Kafka's."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from conformance.bench.plot import BLUE, ORANGE, Bar, draw


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of the table. ``goal`` is the most that our broker may take. ``share`` limits our figure as a share of
    Kafka's: from above, or from below if more is better.
    """

    name: str
    title: str
    unit: str
    goal: float | None = None
    share: float | None = None
    more_is_better: bool = False


FIGURES = (
    Figure("first_ack_s", "start to first ack", "s", goal=0.4),
    Figure("idle_rss_mb", "idle memory", "MB", goal=60),
    Figure("idle_cpu_percent", "idle CPU", "%", goal=0.5),
    Figure("produce_cpu_s_per_gb", "produce 1 KB, acks=all: broker CPU", "s/GB", goal=0.8),
    Figure("produce_mb_s", "produce 1 KB, acks=all: throughput", "MB/s", more_is_better=True),
    Figure("fetch_cpu_s_per_gb", "fetch 1 KB: broker CPU", "s/GB", goal=0.17),
    Figure("fetch_mb_s", "fetch 1 KB: throughput", "MB/s", more_is_better=True),
    Figure("small_cpu_us", "one 100 B record a request: broker CPU", "µs", goal=20),
    Figure("small_requests_s", "one 100 B record a request: rate", "/s", more_is_better=True),
    Figure("e2e_p50_ms", "end to end at 1,000/s: p50", "ms"),
    Figure("e2e_p99_ms", "end to end at 1,000/s: p99", "ms", share=0.5),
    Figure("e2e_p999_ms", "end to end at 1,000/s: p99.9", "ms"),
    Figure("commits_s", "OffsetCommit: rate", "/s", share=1, more_is_better=True),
    Figure("commits_cpu_us", "OffsetCommit: broker CPU", "µs", share=1),
    Figure("offset_fetches_s", "OffsetFetch: rate", "/s", share=1, more_is_better=True),
    Figure("offset_fetches_cpu_us", "OffsetFetch: broker CPU", "µs", share=1),
    Figure("heartbeats_s", "Heartbeat: rate", "/s", share=1, more_is_better=True),
    Figure("heartbeats_cpu_us", "Heartbeat: broker CPU", "µs", share=1),
    Figure("consumer_heartbeats_s", "ConsumerGroupHeartbeat: rate", "/s", share=1, more_is_better=True),
    Figure("consumer_heartbeats_cpu_us", "ConsumerGroupHeartbeat: broker CPU", "µs", share=1),
    Figure("joins_s", "groups joined, synced and left: rate", "/s", share=1, more_is_better=True),
    Figure("joins_cpu_us", "groups joined, synced and left: broker CPU", "µs", share=1),
    Figure("transactions_s", "transactions of 16 producers: rate", "/s", share=1, more_is_better=True),
    Figure("transaction_cpu_us", "a transaction: broker CPU", "µs", share=1),
    Figure("classic_rebalance_ms", "1,000 members, 5,000 partitions, classic: a rebalance", "ms", share=1),
    Figure("classic_rebalance_cpu_ms", "… broker CPU", "ms", share=1),
    Figure("consumer_form_ms", "1,000 members, 5,000 partitions, consumer protocol: the group forms", "ms", share=1),
    Figure("consumer_form_cpu_ms", "… broker CPU", "ms", share=1),
    Figure("consumer_rebalance_ms", "… every second member leaves", "ms", share=1),
    Figure("consumer_rebalance_cpu_ms", "… broker CPU", "ms", share=1),
    Figure("compact_1k_mb_s", "compaction of 1 KB records", "MB/s", share=1, more_is_better=True),
    Figure("compact_1k_cpu_s_per_gb", "… broker CPU", "s/GB", share=1),
    Figure("compact_100_mb_s", "compaction of 100 B records", "MB/s", share=1, more_is_better=True),
    Figure("compact_100_cpu_s_per_gb", "… broker CPU", "s/GB", share=1),
    Figure("tls_produce_cpu_s_per_gb", "produce 1 KB by TLS, acks=all: broker CPU", "s/GB", share=0.5),
    Figure("tls_produce_cpu_s_per_gb_extra", "… beyond the plain listener's", "s/GB", goal=1),
    Figure("tls_produce_mb_s", "… throughput", "MB/s", more_is_better=True),
    Figure("tls_fetch_cpu_s_per_gb", "fetch 1 KB by TLS: broker CPU", "s/GB", share=0.5),
    Figure("tls_fetch_cpu_s_per_gb_extra", "… beyond the plain listener's", "s/GB", goal=1),
    Figure("tls_fetch_mb_s", "… throughput", "MB/s", more_is_better=True),
    Figure("tls_full_cpu_s_per_gb", "produce 1 KB in full TLS records (pyclient): broker CPU", "s/GB", share=0.5),
    Figure("tls_full_cpu_s_per_gb_extra", "… beyond the plain listener's", "s/GB", goal=1),
    Figure("tls_small_cpu_us", "one 100 B record a request by TLS: broker CPU", "µs"),
    Figure("tls_small_cpu_us_ratio", "… divided by the plain listener's", "1", goal=2),
    Figure("tls_handshakes_s", "handshakes of 4 clients: rate", "/s", share=1, more_is_better=True),
    Figure("tls_handshake_cpu_us", "… broker CPU for one", "µs", share=1),
    Figure("replicate_cpu_s_per_gb", "produce 1 KB, RF 3, acks=all: CPU of all brokers", "s/GB", goal=3),
    Figure("replicate_mb_s", "produce 1 KB, RF 3, acks=all: throughput", "MB/s", more_is_better=True),
    Figure("failover_p50_ms", "kill -9 of a leader to the next ack, raw client: median", "ms", goal=300),
    Figure("failover_max_ms", "… worst", "ms"),
    Figure("failover_client_p50_ms", "… librdkafka's defaults: median", "ms", goal=300),
    Figure("failover_client_max_ms", "… worst", "ms"),
    Figure("failover_zookeeper_p50_ms", "on ZooKeeper, raw client, beyond the session: median", "ms", goal=1000),
    Figure("failover_zookeeper_max_ms", "… worst", "ms", goal=1000),
    Figure("crowd_connect_s", "5,000 clients at once: connect", "s"),
    Figure("crowd_s", "… each writes and reads 5 times, half a second apart", "s"),
    Figure("crowd_cpu_us", "… CPU of all brokers for a request", "µs", share=1),
    Figure("crowd_kib", "… memory of all brokers for a client", "KiB", share=1),
    Figure("wide_create_s", "10,000 partitions, RF 3: creation", "s", share=1),
    Figure("wide_controller_s", "… kill -9 of the controller to the next controller", "s", goal=2),
    Figure("wide_failover_s", "… to leaders of all partitions", "s", goal=2),
    Figure("wide_stop_s", "… controlled stop of everything", "s"),
    Figure("wide_restart_s", "… start to leaders of all partitions", "s", goal=20),
    Figure("wide_rss_mb", "… memory of all processes", "MB", share=1),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A figure of one broker in one round. ``phase`` is ``cold`` or ``warm``."""

    broker: str
    phase: str
    round: int
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of both brokers in one phase: median, minimum and maximum."""

    figure: Figure
    phase: str
    ours: Sequence[float]
    kafka: Sequence[float]

    @property
    def ratio(self) -> float | None:
        """Returns the ratio of ours to Kafka's, by medians; None if Kafka lacks the feature."""
        return statistics.median(self.ours) / statistics.median(self.kafka) if self.kafka else None

    @property
    def verdict(self) -> str:
        """Returns the goal and says whether ours reaches it; empty without a goal."""
        ours = statistics.median(self.ours)
        if self.figure.goal is not None:
            return f"≤ {self.figure.goal:g}: {'reached' if ours <= self.figure.goal else 'missed'}"
        if self.figure.share is not None and self.ratio is not None:
            least = self.figure.more_is_better
            reached = self.ratio >= self.figure.share if least else self.ratio <= self.figure.share
            return f"{'≥' if least else '≤'} {self.figure.share:g} × Kafka: {'reached' if reached else 'missed'}"
        return ""


def rows(measurements: Iterable[Measurement]) -> list[Row]:
    """Returns the rows with figures of ours, and of Kafka if it has the feature, in the order of ``FIGURES``."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for one in measurements:
        values.setdefault((one.name, one.phase, one.broker), []).append(one.value)
    found = []
    for figure in FIGURES:
        for phase in ("cold", "warm"):
            ours = values.get((figure.name, phase, "ours"))
            kafka = values.get((figure.name, phase, "kafka"), [])
            if ours:
                found.append(Row(figure, phase, ours, kafka))
    return found


def number(value: float) -> str:
    """Formats three significant digits, without an exponent in large numbers: ``0.0123``, ``1.5``, ``32,400``."""
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if "e+" in digits else digits


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    middle = number(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({number(min(values))}–{number(max(values))})"


def table(found: Sequence[Row]) -> str:
    """Returns a Markdown table."""
    lines = [
        "| Figure | State | pybroker | Kafka | Ratio | Goal |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.figure.title}, {row.figure.unit} | {row.phase} | {_cell(row.ours)} | {_cell(row.kafka)} "
        f"| {'–' if row.ratio is None else f'{row.ratio:.2f}'} | {row.verdict} |"
        for row in found
    ]
    return "\n".join(lines)


def machine() -> str:
    """Describes the machine in one line."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    when = datetime.now(UTC).date().isoformat()
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}, Python {platform.python_version()}, {when}"


def plot(found: Sequence[Row], path: Path) -> None:
    """Draws each figure as the factor by which ours is better than Kafka's."""
    bars = [
        Bar(
            f"{row.figure.title} ({row.phase})",
            row.ratio if row.figure.more_is_better else 1 / row.ratio,
            BLUE if row.phase == "cold" else ORANGE,
        )
        for row in found
        if row.ratio
    ]
    draw(bars, "times better than Apache Kafka 4.3.1 (right is better; blue: cold, orange: warm)", path)


def renew(page: Path, name: str, text: str) -> None:
    """Replaces the text on the page between the marks of this name."""
    start, end = f"<!-- {name}: start -->", f"<!-- {name}: end -->"
    head, _, rest = page.read_text().partition(start)
    tail = rest.partition(end)[2]
    page.write_text(f"{head}{start}\n{text}\n{end}{tail}")
