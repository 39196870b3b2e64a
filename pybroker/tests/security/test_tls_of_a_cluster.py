"""Three brokers with TLS between them: one is killed, all get new certificates, and no record is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import pybroker
from harness.servers.ensemble import Ensemble, Tls
from pybroker.security.tls.certificates import make
from pyclient import Admin
from pyclient import Producer as OurProducer
from pyclient.admin.types import AlterConfigOp, ConfigResource, ResourceType

pytestmark = pytest.mark.nightly

PATIENCE_S = 120.0
RECORDS = 3000
READ_AGAIN = "has reloaded its certificate"
CA = trustme.CA()


def keys(path: Path) -> None:
    """Replaces the key and its certificate by new ones."""
    leaf = CA.issue_cert("localhost", "127.0.0.1", organization_unit_name="brokers")
    leaf.private_key_and_cert_chain_pem.write_to_path(str(path.with_suffix(".new")))
    path.with_suffix(".new").replace(path)


def test_brokers_on_zookeeper_start_with_the_key_stores_that_an_administrator_has_chosen(tmp_path: Path) -> None:
    given: dict[str, Any] = {"ssl_client_auth": "required", "default_replication_factor": 3, "min_insync_replicas": 3}
    with Ensemble(tmp_path / "zookeeper") as zookeeper:
        given |= {"zookeeper_connect": f"{zookeeper.hosts}/kafka", "data_dir": tmp_path / "data"}
        with pybroker.run(processes=3, tls=True, **given) as cluster:
            static, moved = tmp_path / "data" / "tls" / "server.pem", tmp_path / "moved.pem"
            moved.write_bytes(static.read_bytes())
            with Admin(**cluster.client_settings()) as admin:
                for node_id in cluster.node_ids:
                    change = [AlterConfigOp("ssl.keystore.location", str(moved))]
                    admin.incremental_alter_configs({ConfigResource(ResourceType.BROKER, str(node_id)): change})
        static.write_text("nothing")
        with pybroker.run(processes=3, tls=True, **given) as cluster:
            with OurProducer(**cluster.client_settings(), acks="all") as producer:
                producer.send("t", b"hello").result(timeout=PATIENCE_S)
            assert "WARNING" not in cluster.log


def test_brokers_share_their_secrets_on_zookeeper_with_nobody_else(tmp_path: Path) -> None:
    files = make(tmp_path / "certificates")
    given: dict[str, Any] = {
        "zookeeper_ssl_client_enable": True,
        "zookeeper_ssl_truststore_location": files.authority,
        "zookeeper_ssl_keystore_location": files.client,
        "zookeeper_set_acl": True,
        "default_replication_factor": 2,
    }
    with Ensemble(tmp_path / "zookeeper", tls=Tls(files.server, files.authority)) as zookeeper:
        given["zookeeper_connect"] = f"{zookeeper.tls_hosts}/kafka"
        with (
            pybroker.run(processes=2, sasl="SCRAM-SHA-256", users={"alice": "secret"}, **given) as cluster,
            OurProducer(**cluster.client_settings(), acks="all") as producer,
        ):
            producer.send("t", b"hello").result(timeout=PATIENCE_S)
            stranger = KazooClient(f"{zookeeper.hosts}/kafka")
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
        with pytest.raises(pybroker.BrokerFailed, match=r"/kafka: .*brokers with another certificate or login"):
            pybroker.run(**given | {"zookeeper_ssl_keystore_location": files.server})


def test_nothing_acknowledged_is_lost_where_a_broker_dies_and_certificates_change(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer

    authority, own = tmp_path / "ca.pem", tmp_path / "broker.pem"
    CA.cert_pem.write_to_path(str(authority))
    keys(own)
    acknowledged: list[bytes] = []
    given: dict[str, Any] = {
        "listeners": "SSL://localhost:0",
        "security_inter_broker_protocol": "SSL",
        "ssl_keystore_location": str(own),
        "ssl_truststore_location": str(authority),
        "ssl_client_auth": "required",
        "ssl_principal_mapping_rules": "RULE:^.*OU=([a-z]+).*$/$1/,DEFAULT",
        "default_replication_factor": 3,
        "min_insync_replicas": 2,
        "offsets_topic_num_partitions": 1,
    }
    with pybroker.run(processes=3, **given) as cluster:
        client = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority),
            "ssl.certificate.location": str(own),
            "ssl.key.location": str(own),
        }
        producer = Producer({**client, "acks": "all", "enable.idempotence": True})

        def write(first: int, count: int) -> None:
            for number in range(first, first + count):
                producer.produce("t", b"%d" % number, on_delivery=on_delivery)
                producer.poll(0)
            assert producer.flush(PATIENCE_S) == 0

        def on_delivery(error: object, message: object) -> None:
            assert error is None
            acknowledged.append(message.value())  # type: ignore[attr-defined]

        write(0, RECORDS)
        for killed in cluster.node_ids:
            before = cluster.log.count(READ_AGAIN)
            keys(own)
            cluster.kill(killed)
            write(len(acknowledged), RECORDS)
            cluster.restart(killed)
            while cluster.log.count(READ_AGAIN) < before + 2:
                write(len(acknowledged), 1)
        consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found: list[bytes] = []
        while len(found) < len(acknowledged):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"{len(found)} of {len(acknowledged)}"
            assert message.error() is None, message.error()
            found.append(message.value())
        consumer.close()
        assert found == acknowledged
        assert "Traceback" not in cluster.log
        assert "PLAINTEXT" not in cluster.log
