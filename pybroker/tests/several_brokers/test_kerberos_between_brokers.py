"""Several brokers that log in to each other by GSSAPI, with a fake Kerberos library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pybroker.cluster.peer_secret import NotAPeer
from pybroker.config.sasl_listeners import Kerberos
from pybroker.net.peer_connection import PeerConnection, connect
from pybroker.security.sasl import authentication, broker_login
from pybroker.security.sasl.broker_login import BrokerLogin
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_forwarding import others
from pyclient.protocol import ListGroups
from pyclient.protocol.answers import answer_on
from pyclient.security import kerberos
from pyclient.security.tickets import Initiator, tickets_of
from pyclient.tests.security.fake_gssapi import Library

STRANGER = 9
HOST = "localhost"
PRINCIPAL = f"kafka/{HOST}@REALM.COM"
SETTINGS = {
    "listeners": f"PLAINTEXT://{HOST}:0,BETWEEN://{HOST}:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:SASL_PLAINTEXT",
    "inter.broker.listener.name": "BETWEEN",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "listener.name.between.sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "connection.failed.authentication.delay.ms": "1",
}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(kerberos, "library", lambda: made)
    return made


def cluster_of(folder: Path, **more: str) -> Cluster:
    (keytab := folder / "keytab").touch()
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
    login = {"listener.name.between.sasl.jaas.config": f'{module} keyTab="{keytab}" principal="{PRINCIPAL}";'}
    return Cluster(folder, **SETTINGS, **login, **more)


@asynccontextmanager
async def connected(broker: Broker, listener: str = "BETWEEN") -> AsyncIterator[PeerConnection]:
    """Yields a connection that has not sent anything yet."""
    endpoint = broker.metadata.image.brokers[broker.node_id].endpoint(listener)
    assert endpoint is not None
    loop = asyncio.get_running_loop()
    sock = await connect(loop, endpoint.host, endpoint.port)
    connection = PeerConnection(loop, sock, broker.peers.memory, lambda lost: None)
    yield connection
    connection.lose("the test is over")


def login_of(broker: Broker, library: Library, principal: str, folder: Path) -> BrokerLogin:
    tickets = tickets_of({}, str(folder / "keytab"), principal)
    begin = lambda target: Initiator(library, target, tickets)  # noqa: E731
    settings = Kerberos(PRINCIPAL, "", ())
    return BrokerLogin("BETWEEN", settings, begin, frozenset(), broker.pools.broker_logins)


def test_brokers_log_in_by_kerberos_and_then_prove_the_secret(tmp_path: Path, library: Library) -> None:
    async def scenario() -> None:
        async with cluster_of(tmp_path) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            (other,) = others(cluster)
            await other.peers.request(3 - other.node_id, ListGroups.Request())
            told = {
                (each.broker_id, each.principal, each.sasl.mechanism)
                for broker in cluster.brokers.values()
                for each in broker.net.connections
                if each.listener_name == "BETWEEN"
            }
            assert (other.node_id, "User:kafka", "GSSAPI") in told
            assert {principal for _, principal, _ in told} == {"User:kafka"}
            assert all(name.startswith("broker-login") for name in library.client_threads)

    in_loop(scenario)


def test_a_broker_without_a_brokers_ticket_is_refused_although_it_knows_the_secret(
    tmp_path: Path, library: Library
) -> None:
    async def scenario() -> None:
        async with cluster_of(tmp_path) as cluster:
            broker = await cluster.start(1)
            for listener, told in (("PLAINTEXT", "must use the listener BETWEEN"), ("BETWEEN", "not logged in by Ker")):
                async with connected(broker, listener) as stranger:
                    with pytest.raises(NotAPeer, match=told):
                        await stranger.authenticate(broker.peer_secret, STRANGER, 1)
            async with connected(broker) as alice:
                await alice.log_in(login_of(broker, library, "alice@REALM.COM", tmp_path), HOST)
                with pytest.raises(NotAPeer, match="User:alice is neither the broker's own user"):
                    await alice.authenticate(broker.peer_secret, STRANGER, 1)
            async with connected(broker) as absent:
                text = f"no login by Kerberos of {PRINCIPAL} at kafka@{HOST} .*: the keytab .* has no key of absent"
                with pytest.raises(NotAPeer, match=text):
                    await absent.log_in(login_of(broker, library, "absent@REALM.COM", tmp_path), HOST)
            async with connected(broker, "PLAINTEXT") as plain:
                with pytest.raises(NotAPeer, match="its listener has no SASL, not GSSAPI"):
                    await plain.log_in(login_of(broker, library, PRINCIPAL, tmp_path), HOST)

    in_loop(scenario)


def test_a_kdc_that_does_not_answer_is_named(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_login, "LIMIT_S", 0.0)

    async def scenario() -> None:
        async with cluster_of(tmp_path) as cluster:
            broker = await cluster.start(1)
            async with connected(broker) as connection:
                with pytest.raises(NotAPeer, match=f"no login by Kerberos of {PRINCIPAL} .*: the KDC has not answered"):
                    await connection.log_in(login_of(broker, library, PRINCIPAL, tmp_path), HOST)

    in_loop(scenario)


def test_a_broker_logs_in_again_and_its_requests_wait_for_that(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)

    async def scenario() -> None:
        async with cluster_of(tmp_path, **{"connections.max.reauth.ms": "3600000"}) as cluster:
            broker = await cluster.start(1)
            async with connected(broker) as connection:
                login = login_of(broker, library, PRINCIPAL, tmp_path)
                await connection.log_in(login, HOST)
                await connection.authenticate(broker.peer_secret, STRANGER, 1)
                assert connection._renewal is not None, "it knows when its session ends"
                connection._renew_later(login, HOST)
                await asyncio.sleep(0)
                answer, done = answer_on(asyncio.get_running_loop())
                connection.send(ListGroups, 2, ListGroups.Request(), done)
                assert connection._held, "it waits"
                assert (await answer).error_code == 0
                assert connection._held is None
                (served,) = [each for each in broker.net.connections if each.broker_id == STRANGER]
                assert (served.principal, served.sasl.is_known) == ("User:kafka", True)
                renewing = connection._renewing
                library.trouble = library.exceptions.GSSError(why="no KDC")
                connection._renew_later(login, HOST)
                assert connection._renewing is not renewing
                await cluster.until(lambda: connection.is_closed)

    in_loop(scenario)
