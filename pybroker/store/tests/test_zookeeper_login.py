"""A real ZooKeeper that knows users: by SASL's DIGEST-MD5, and by its own scheme ``digest``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harness.servers.ensemble import Ensemble
from pybroker.config.zookeeper_login import Login
from pybroker.store.interface import ConnectionLoss, NotAllowed, SessionExpired, SessionState, ensure_path
from pybroker.store.stores import StoreOptions, open_store
from pybroker.store.tests import test_zookeeper
from pybroker.store.tests.suite import Connect
from pybroker.tests.waiting import until_async

KEY = "zookeeper.sasl.jaas.config"
KAFKA = Login("kafka", "a 'pass\\word'", is_sasl=True, source=KEY)
OTHER = Login("other", "other-secret", is_sasl=True, source=KEY)
DIGEST = Login("kafka", "digest:secret", is_sasl=False, source="zookeeper.auth.digest")
USERS = {each.user: each.password.replace("\\", "\\\\") for each in (KAFKA, OTHER)}

pytestmark = test_zookeeper.pytestmark


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("sasl"), users=USERS) as running:
        yield running


class TestZooKeeperBySasl(test_zookeeper.ZooKeeperSuite):
    """``is_guarded``, with nodes that a broker has for itself."""

    @pytest.fixture(autouse=True)
    def _on(self, zookeeper: Ensemble) -> None:
        self.hosts = zookeeper.hosts

    @asynccontextmanager
    async def cluster(self, folder: Path) -> AsyncIterator[Connect]:
        async with test_zookeeper.stores(self.hosts, StoreOptions(login=KAFKA, is_guarded=True)) as connect:
            yield connect


@pytest.mark.parametrize("login", [KAFKA, DIGEST])
def test_only_clients_with_the_same_login_may_change_nodes_and_read_secrets(zookeeper: Ensemble, login: Login) -> None:
    others = (OTHER, replace(DIGEST, password="x"), DIGEST if login.is_sasl else KAFKA)
    place = f"{zookeeper.hosts}/guarded-{login.is_sasl}"

    async def scenario() -> None:
        def options(login: Login | None) -> StoreOptions:
            return StoreOptions(zookeeper=place, login=login, is_guarded=login is not None)

        mine, same = [await open_store(options(login)) for _ in range(2)]
        await ensure_path(mine, "/config/users/alice")
        await mine.set("/config/users/alice", b"secret")
        await ensure_path(mine, "/config/topics/t")
        assert (await same.get("/config/users/alice"))[0] == b"secret"
        await same.set("/config/topics/t", b"open")
        strangers = [await open_store(options(each)) for each in (None, *others)]
        for store in strangers:
            assert (await store.get("/config/topics/t"))[0] == b"open"
            with pytest.raises(NotAllowed, match="brokers with another certificate or login have made it"):
                await store.get("/config/users/alice")
            with pytest.raises(NotAllowed, match="brokers with another certificate or login have made it"):
                await store.set("/config/topics/t", b"x")
            for path in ("/config/topics/u", "/config/users/eve"):
                with pytest.raises(NotAllowed, match="brokers with another certificate or login have made it"):
                    await store.create(path)
        await asyncio.gather(*(store.close() for store in (mine, same, *strangers)))

    asyncio.run(scenario())


@pytest.mark.parametrize("login", [replace(KAFKA, password="secret"), replace(KAFKA, user="nobody", password="secret")])
def test_a_refused_login_at_zookeeper_raises_an_error_without_the_password(zookeeper: Ensemble, login: Login) -> None:
    async def scenario() -> None:
        wrong = "it does not accept the user or the password"
        why = f"127.0.0.1 does not accept the login of {login.user} ({KEY}): {wrong}"
        with pytest.raises(NotAllowed) as refused:
            await open_store(StoreOptions(zookeeper=f"{zookeeper.hosts}/refused", login=login))
        assert str(refused.value) == why

    asyncio.run(scenario())


def test_secrets_written_before_zookeeper_set_acl_are_reported_as_readable(
    zookeeper: Ensemble, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        options = StoreOptions(zookeeper=f"{zookeeper.hosts}/older")
        before = await open_store(options)
        await ensure_path(before, "/pybroker/secret")
        await before.close()
        for _ in range(2):
            store = await open_store(options._replace(login=KAFKA, is_guarded=True))
            await ensure_path(store, "/config/users/alice")
            await store.close()

    asyncio.run(scenario())
    assert caplog.text.count("everybody may read /pybroker,") == 2
    assert caplog.text.count("everybody may read") == 2


def test_the_error_for_a_zookeeper_without_sasl_names_the_missing_jaas_section(tmp_path: Path) -> None:
    async def scenario(hosts: str) -> None:
        with pytest.raises(NotAllowed, match="it has no passwords, because its JAAS section Server is missing"):
            await open_store(StoreOptions(zookeeper=f"{hosts}/kafka", login=KAFKA))
        store = await open_store(StoreOptions(zookeeper=f"{hosts}/kafka", login=DIGEST, is_guarded=True))
        await store.close()

    with Ensemble(tmp_path) as alone:
        asyncio.run(scenario(alone.hosts))


def test_a_temporarily_wrong_password_is_reported_once_and_the_store_recovers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def restart(zookeeper: Ensemble, users: dict[str, str]) -> None:
        zookeeper.servers[0].kill()
        zookeeper.servers[0].let_in(users)
        await asyncio.to_thread(zookeeper.start)

    async def scenario(zookeeper: Ensemble) -> None:
        store = await open_store(StoreOptions(zookeeper=f"{zookeeper.hosts}/kafka", login=OTHER, is_guarded=True))
        await store.create("/a", b"mine")
        await restart(zookeeper, {"other": "changed"})
        await until_async(lambda: store.session.state is SessionState.EXPIRED)
        renewing = asyncio.ensure_future(store.new_session())
        await until_async(lambda: "does not accept the login of other" in caplog.text)
        seen = store._generation
        await until_async(lambda: store._generation > seen + 1)
        assert not renewing.done()
        await restart(zookeeper, {"other": OTHER.password})
        await asyncio.wait_for(renewing, 60)
        while True:
            try:
                assert (await store.get("/a"))[0] == b"mine"
                break
            except (ConnectionLoss, SessionExpired):
                await store.new_session()
        await store.create("/after", ephemeral=True)
        await store.close()
        assert caplog.text.count("does not accept the login of other") == 1
        assert caplog.text.count("has expired") == 1

    with Ensemble(tmp_path, users={"other": OTHER.password}) as zookeeper:
        asyncio.run(scenario(zookeeper))
