"""The suite of TLS: ``python -m conformance.bench --suite tls``.

Each load runs twice on one broker, by its plain listener and by TLS. Handshakes are complete: no session is resumed.
librdkafka sends each of its buffers as a TLS record, so 1 KB records arrive as two small ones each. ``full_records``
measures what clients cost that fill the records of 16 KiB: pyclient, or a JVM's.
"""

from __future__ import annotations

import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

from conformance.bench import cases
from conformance.bench.cases import Figures, Scale
from harness import processes
from harness.protocol.wire_client import Wire
from harness.servers.encrypted import PLAIN, TLS, Encrypted
from pyclient import Producer

#: Clients that shake hands at the same time, each a thread.
CLIENTS = 4
HANDSHAKES = 2_000
PARTITIONS = 4


def records(broker: Encrypted, scale: Scale) -> Figures:
    """Produces and fetches 1 KB records in large batches. *Extra* is the broker's CPU beyond the plain listener's."""
    plain, encrypted = _both(broker, scale, cases.transfer)
    figures = {f"tls_{name}": value for name, value in encrypted.items()}
    for name in ("produce_cpu_s_per_gb", "fetch_cpu_s_per_gb"):
        figures[f"tls_{name}_extra"] = encrypted[name] - plain[name]
    return figures


def full_records(broker: Encrypted, scale: Scale) -> Figures:
    """Produces 1 KB records in large batches, which arrive in full TLS records."""
    plain, encrypted = _both(broker, scale, _produce_full_records)
    name = "cpu_s_per_gb"
    return {f"tls_full_{name}": encrypted[name], f"tls_full_{name}_extra": encrypted[name] - plain[name]}


def _produce_full_records(broker: Encrypted, scale: Scale) -> Figures:
    settings = dict(broker.librdkafka)
    if ca := settings.pop("ssl.ca.location", None):
        settings |= {"ssl.truststore.location": ca, "ssl.truststore.type": "PEM"}
    topic = cases.create_topic(broker, PARTITIONS)
    before = processes.cpu(broker.pid)
    with Producer(config=settings, acks="all", linger_ms=20, batch_size=cases.BATCH) as producer:
        for number in range(scale.produce_records):
            producer.send(topic, cases.RECORD, partition=number % PARTITIONS)
        producer.flush()
    cpu = processes.cpu(broker.pid) - before
    cases.delete_topic(broker, topic)
    return {"cpu_s_per_gb": cpu.total_s / (scale.produce_records * len(cases.RECORD) / cases.GB)}


def small_requests(broker: Encrypted, scale: Scale) -> Figures:
    """Produces one record of 100 B per request. The ratio compares the broker's CPU with the plain listener's."""
    plain, encrypted = _both(broker, scale, cases.produce_small)
    cpu = "small_cpu_us"
    return {f"tls_{cpu}": encrypted[cpu], f"tls_{cpu}_ratio": encrypted[cpu] / plain[cpu]}


def _both(broker: Encrypted, scale: Scale, case: cases.Case) -> tuple[Figures, Figures]:
    """Returns the figures of the plain listener and those of TLS."""
    found = []
    for protocol in (PLAIN, TLS):
        broker.protocol = protocol
        found.append(case(broker, scale))
    return found[0], found[1]


def handshakes(broker: Encrypted, scale: Scale) -> Figures:
    """Connects by TLS, sends one ApiVersions request and closes, again and again."""
    del scale
    context = ssl.create_default_context(cafile=str(broker.ca))
    host, _, port = broker.encrypted.partition(":")

    def connect(count: int) -> None:
        for _ in range(count):
            with (
                socket.create_connection((host, int(port)), cases.PATIENCE_S) as raw,
                context.wrap_socket(raw, server_hostname=host) as secured,
            ):
                Wire.of(secured).ask("ApiVersions", 0)

    before, start = processes.cpu(broker.pid), time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(connect, [HANDSHAKES // CLIENTS] * CLIENTS))
    seconds = time.monotonic() - start
    cpu = processes.cpu(broker.pid) - before
    return {"tls_handshakes_s": HANDSHAKES / seconds, "tls_handshake_cpu_us": cpu.total_s * 1e6 / HANDSHAKES}


CASES = (records, full_records, small_requests, handshakes)


def warm_up(broker: Encrypted, seconds: float) -> None:
    """Runs load of every kind until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for case in CASES:
            case(broker, cases.QUICK)
