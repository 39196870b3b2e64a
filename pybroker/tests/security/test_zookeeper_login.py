"""Two brokers log in at ZooKeeper as the same user, and only this user can read their secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import pybroker
from harness.servers.ensemble import Ensemble
from pyclient import Producer

PATIENCE_S = 120.0
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[Ensemble]:
    with Ensemble(tmp_path / "zookeeper", users={"kafka": "kafka-secret"}) as running:
        yield running


@pytest.mark.parametrize("is_sasl", [True, False])
def test_brokers_share_their_secrets_with_nobody_who_is_another_user(zookeeper: Ensemble, is_sasl: bool) -> None:
    def login(password: str) -> dict[str, str]:
        if is_sasl:
            return {"zookeeper_sasl_jaas_config": f'{MODULE} username="kafka" password="{password}";'}
        return {"zookeeper_auth_digest": f"kafka:{password}"}

    place = f"{zookeeper.hosts}/kafka"
    given: dict[str, Any] = {"zookeeper_connect": place, "zookeeper_set_acl": True, **login("kafka-secret")}
    given |= {"default_replication_factor": 2, "sasl": "SCRAM-SHA-256", "users": {"alice": "secret"}, "processes": 2}
    with pybroker.run(**given) as cluster, Producer(**cluster.client_settings(), acks="all") as producer:
        producer.send("t", b"hello").result(timeout=PATIENCE_S)
        stranger = KazooClient(place)
        stranger.start()
        assert sorted(stranger.get_children("/brokers/ids")) == ["1", "2"]
        for path in ("/config/users/alice", "/pybroker/secret"):
            with pytest.raises(NoAuthError):
                stranger.get(path)
        with pytest.raises(NoAuthError):
            stranger.set("/brokers/topics/t", b"{}")
        stranger.stop()
        stranger.close()
        assert "Traceback" not in cluster.log
        assert "kafka-secret" not in cluster.log
    refused = r"does not accept the login of kafka \(zookeeper.sasl"
    why = refused if is_sasl else "brokers with another certificate or login"
    with pytest.raises(pybroker.BrokerFailed, match=why) as failed:
        pybroker.run(**given | login("wrong"))
    assert "wrong" not in str(failed.value)
