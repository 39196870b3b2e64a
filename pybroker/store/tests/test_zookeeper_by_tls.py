"""A real ZooKeeper that is reached by TLS, and knows brokers by their certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.servers.ensemble import Ensemble, Tls
from pybroker.config import BrokerConfig
from pybroker.security.tls.zookeeper_tls import context_of
from pybroker.store.interface import ConnectionLoss, NotAllowed, ensure_path
from pybroker.store.stores import StoreOptions, open_store
from pybroker.store.tests import test_zookeeper
from pybroker.store.tests.suite import Connect
from pybroker.store.zookeeper import ZooKeeperStore
from pyclient.security.authority import Authority

pytestmark = test_zookeeper.pytestmark


class Secured(NamedTuple):
    """An ensemble that also accepts TLS, and the TLS contexts of its clients."""

    ensemble: Ensemble
    broker: ssl.SSLContext
    other: ssl.SSLContext
    """The context of a client that has another certificate than the broker's."""
    stranger: ssl.SSLContext
    """The context of a client that trusts another authority."""


@pytest.fixture(scope="module")
def by_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder, authority = tmp_path_factory.mktemp("tls"), Authority("test")

    def written(name: str, *parts: bytes) -> Path:
        path = folder / f"{name}.pem"
        path.write_bytes(b"".join(parts))
        return path

    trusted = written("ca", authority.issued.certificate)
    server = authority.server(["127.0.0.1"])

    def client(name: str, trusts: Path) -> ssl.SSLContext:
        issued = authority.client(name)
        settings = {"truststore.location": trusts, "keystore.location": written(name, issued.key, issued.certificate)}
        given = {f"zookeeper.ssl.{name}": str(path) for name, path in settings.items()}
        found = context_of(BrokerConfig(given | {"zookeeper.ssl.client.enable": "true"}))
        assert found is not None
        return found

    tls = Tls(written("server", server.key, server.certificate), trusted)
    elsewhere = written("elsewhere", Authority("another").issued.certificate)
    with Ensemble(folder, tls=tls) as running:
        yield Secured(running, client("broker", trusted), client("other", trusted), client("stranger", elsewhere))


class TestZooKeeperByTls(test_zookeeper.ZooKeeperSuite):
    """``is_guarded``, with nodes that a broker has for itself."""

    @pytest.fixture(autouse=True)
    def _on(self, by_tls: Secured) -> None:
        self.secured = by_tls

    @asynccontextmanager
    async def cluster(self, folder: Path) -> AsyncIterator[Connect]:
        options = StoreOptions(tls=self.secured.broker, is_guarded=True)
        async with test_zookeeper.stores(self.secured.ensemble.tls_hosts, options) as connect:
            yield connect


def test_only_clients_with_the_same_certificate_may_change_nodes_and_read_secrets(by_tls: Secured) -> None:
    async def scenario() -> None:
        place = f"{by_tls.ensemble.tls_hosts}/guarded"
        mine, same, other = [
            await open_store(StoreOptions(zookeeper=place, tls=tls, is_guarded=True))
            for tls in (by_tls.broker, by_tls.broker, by_tls.other)
        ]
        plain = await open_store(StoreOptions(zookeeper=f"{by_tls.ensemble.hosts}/guarded"))
        await ensure_path(mine, "/config/users/alice")
        await mine.set("/config/users/alice", b"secret")
        await ensure_path(mine, "/config/topics/t")
        assert (await same.get("/config/users/alice"))[0] == b"secret"
        await same.set("/config/topics/t", b"open")
        for store in (other, plain):
            assert (await store.get("/config/topics/t"))[0] == b"open"
            with pytest.raises(NotAllowed, match="brokers with another certificate or login have made it"):
                await store.get("/config/users/alice")
            with pytest.raises(NotAllowed, match="brokers with another certificate or login have made it"):
                await store.set("/config/topics/t", b"x")
            for path in ("/config/topics/u", "/config/users/eve"):
                with pytest.raises(NotAllowed, match="brokers with another certificate or login have made it"):
                    await store.create(path)
        await asyncio.gather(*(store.close() for store in (mine, same, other, plain)))

    asyncio.run(scenario())


def test_acls_on_nodes_are_refused_if_zookeeper_knows_no_certificate(by_tls: Secured) -> None:
    async def scenario() -> None:
        options = StoreOptions(zookeeper=f"{by_tls.ensemble.hosts}/unknown", is_guarded=True)
        with pytest.raises(NotAllowed, match="/unknown: ZooKeeper knows no certificate or login of this broker"):
            await open_store(options)

    asyncio.run(scenario())


def test_a_failed_tls_connection_to_zookeeper_raises_connection_loss_with_the_cause(by_tls: Secured) -> None:
    by_name = by_tls.ensemble.tls_hosts.replace("127.0.0.1", "localhost")

    async def scenario() -> None:
        for hosts, tls, why in (
            (by_tls.ensemble.tls_hosts, by_tls.stranger, "the TLS handshake fails: unable to get local issuer"),
            (by_name, by_tls.broker, "Hostname mismatch.*localhost"),
            (by_tls.ensemble.hosts, by_tls.broker, "closes the connection: is that its secureClientPort"),
            (by_tls.ensemble.tls_hosts, None, "listens, but serves no session"),
        ):
            with pytest.raises(ConnectionLoss, match=why):
                await ZooKeeperStore.open(hosts, 6_000, 3_000, tls=tls)

    asyncio.run(scenario())
