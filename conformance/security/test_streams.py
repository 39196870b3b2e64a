"""Runs Kafka Streams with the least rights that docs/acls.md names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from conformance.applications.process import Application
from conformance.data import dataset
from conformance.drivers.logins import Login
from conformance.scenarios.pipelines.test_plugin_streams import SETTINGS, WAIT_S, route_of
from conformance.security.confluent import ConfluentClient
from conformance.security.conftest import Grant
from harness import peers
from harness.clients.librdkafka import write
from harness.servers.brokers import Broker
from harness.waiting import until
from harness.witnesses import used

LINES = 500


def test_s112_streams_counts_exactly_once_with_the_least_rights(
    guarded: Broker, user: Login, admin: Login, grant: Grant, tmp_path: Path
) -> None:
    name = f"least-{user.user}"
    source, sink = f"flights-{user.user}", f"counts-{user.user}"
    for topic in (source, sink):
        guarded.make_topic(topic)
    lines = dataset.flights().decode().splitlines()[1 : LINES + 1]
    write(guarded, source, [line.encode() for line in lines])
    grant(
        ("READ", "TOPIC", source),
        ("WRITE", "TOPIC", sink),
        ("ALL", "TOPIC", f"{name}-", "PREFIXED"),
        ("READ", "GROUP", name),
    )
    login = [f"{key}={text}" for key, text in user.java().items()]
    arguments = (user.bootstrap, str(tmp_path / "state"), name, source, sink, *SETTINGS, *login)
    used("Java")
    with Application(peers.program("FlightsPerRoute", *arguments), tmp_path / "streams.log") as application:

        def refused() -> bool:
            application.check()
            return "TransactionalIdAuthorizationException" in application.logged()

        until(refused, "a refusal of the transactional id", WAIT_S)
        grant(("WRITE", "TRANSACTIONAL_ID", name, "PREFIXED"))
        values = ConfluentClient().read(admin, sink, f"reader-{user.user}", LINES)
    assert Counter(map(int, values)) == counts_of(lines)


def counts_of(lines: list[str]) -> Counter[int]:
    """Counts how often the application emits each count: 1 for each route, 2 for each with two flights, and so on."""
    return Counter(count for total in Counter(map(route_of, lines)).values() for count in range(1, total + 1))
