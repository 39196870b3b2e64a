"""Several brokers: users created at one broker are known to all, and brokers connect to each other by SASL."""

from __future__ import annotations

from pathlib import Path

from pybroker.cluster.decisions.scram_changes import ScramUser, users
from pybroker.handlers.common.security import first_users
from pybroker.security.sasl.first_users import parse
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_forwarding import ask, others
from pyclient.protocol import AlterUserScramCredentials, DescribeUserScramCredentials, errors

BETWEEN = {
    "listeners": "PLAINTEXT://127.0.0.1:0,BETWEEN://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
}
ALICE = AlterUserScramCredentials.Request.ScramCredentialUpsertion(
    name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"salted"
)


def known(broker: Broker) -> list[ScramUser]:
    return users(broker.metadata.image)


def test_a_user_is_known_to_all_brokers_which_reach_each_other_by_sasl(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **BETWEEN) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            (other,) = others(cluster)
            request = AlterUserScramCredentials.Request(upsertions=[ALICE])
            answer = await ask(other, AlterUserScramCredentials, 0, request)
            assert [(each.user, each.error_code) for each in answer.results] == [("alice", 0)]
            assert known(other) == [ScramUser("alice", {1: 4096})]
            await cluster.until(lambda: all(known(each) for each in cluster.brokers.values()))
            peers = [
                (each.listener_name, each.broker_id, each.sasl.is_known)
                for broker in cluster.brokers.values()
                for each in broker.net.connections
                if each.broker_id is not None
            ]
            assert ("BETWEEN", other.node_id, True) in peers
            assert all(listener == "BETWEEN" for listener, *_ in peers)

            request = AlterUserScramCredentials.Request(upsertions=[ALICE, ALICE])
            (told,) = (await ask(other, AlterUserScramCredentials, 0, request)).results
            assert told.error_code == errors.DuplicateResource.code
            everybody = DescribeUserScramCredentials.Request(users=None)
            answer = await ask(other, DescribeUserScramCredentials, 0, everybody)
            assert [each.user for each in answer.results] == ["alice"]

    in_loop(scenario)


def test_a_broker_that_is_not_the_controller_adds_users_as_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            (other,) = others(cluster)
            admin = parse("SCRAM-SHA-512=[name=admin,password=secret]")
            assert await first_users.add([admin], other) == ["admin"]
            assert known(other) == [ScramUser("admin", {2: 4096})]
            assert await first_users.add([admin], other) == []

    in_loop(scenario)
