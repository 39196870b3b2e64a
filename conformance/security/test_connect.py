"""Runs Kafka Connect with the least rights that docs/acls.md names."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.applications import connect
from conformance.applications.connect import WAIT_S, DistributedWorker
from conformance.data import dataset
from conformance.drivers.logins import Login
from conformance.security.confluent import ConfluentClient
from conformance.security.conftest import Grant
from harness.servers.brokers import Broker
from harness.waiting import until
from harness.witnesses import used

LINES = 300
OF_STORAGE = ("READ", "WRITE", "CREATE", "DESCRIBE_CONFIGS")
OF_CONNECTORS = ("producer", "consumer", "admin")


def worker_of(
    broker: Broker, folder: Path, user: Login, group: str, topics: dict[str, str], support: str
) -> DistributedWorker:
    """Starts a worker whose connectors log in as the same user."""
    login = user.java()
    settings = {**login, "group.id": group, "exactly.once.source.support": support}
    settings |= {f"{kind}.{key}": text for kind in OF_CONNECTORS for key, text in login.items()}
    settings |= {f"{kind}.storage.topic": topic for kind, topic in topics.items()}
    return DistributedWorker(broker, folder, settings=settings)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_s112_connect_moves_a_file_there_and_back_with_the_least_rights(
    guarded: Broker, user: Login, admin: Login, grant: Grant, tmp_path: Path, support: str
) -> None:
    group, topic, sink = f"workers-{user.user}", f"lines-{user.user}", f"sink-{user.user}"
    topics = {kind: f"connect-{kind}-{user.user}" for kind in ("config", "offset", "status")}
    guarded.make_topic(topic)
    there, back = tmp_path / "in", tmp_path / "out"
    lines = dataset.flights().decode().splitlines()[:LINES]
    there.write_text("".join(f"{line}\n" for line in lines))
    grant(
        *((operation, "TOPIC", each) for each in topics.values() for operation in OF_STORAGE),
        ("READ", "GROUP", group),
        ("WRITE", "TOPIC", topic),
        ("READ", "TOPIC", topic),
    )
    if support == "enabled":
        grant(
            ("WRITE", "TRANSACTIONAL_ID", f"connect-cluster-{group}"),
            ("WRITE", "TRANSACTIONAL_ID", f"{group}-", "PREFIXED"),
        )
    used("Java")
    with worker_of(guarded, tmp_path, user, group, topics, support) as worker:
        worker.configure("source", connect.source(there, topic))
        values = ConfluentClient().read(admin, topic, f"reader-{user.user}", LINES)
        assert [value.decode() for value in values] == lines
        worker.put(sink, connect.sink(back, topic))  # Its task fails, perhaps before anybody sees it run.
        until(lambda: "GroupAuthorizationException" in worker.failure(sink), "a refusal of the group", WAIT_S)
        worker.delete(sink)
        grant(("READ", "GROUP", f"connect-{sink}"))
        worker.configure(sink, connect.sink(back, topic))
        until(lambda: back.exists() and back.read_bytes() == there.read_bytes(), "the file", WAIT_S)
