"""Several brokers on a real ZooKeeper: changes that are larger than one write may be, and the brokers' identities."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.servers.ensemble import Ensemble
from pybroker.cluster.decisions import acl_changes
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.metadata.image import NO_LEADER
from pybroker.cluster.tests.harness import Members, check_agreement
from pybroker.security.acls import AccessControlEntry, AclBinding, AclFilter, ResourcePattern
from pybroker.store.zookeeper import ZooKeeperStore
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

pytestmark = pytest.mark.nightly

LONG_NAME = "t" * 249


class Sessions:
    """Sessions on an ensemble, below a separate chroot."""

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._stores: list[ZooKeeperStore] = []

    async def connect(self) -> ZooKeeperStore:
        self._stores.append(await ZooKeeperStore.open(self._hosts, 6_000, 30_000))
        return self._stores[-1]

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("alone")) as running:
        yield running


def test_topics_of_thousands_of_partitions_fit_and_survive_their_controller(
    alone: Ensemble, tmp_path: Path
) -> None:
    async def sessions() -> Sessions:
        return Sessions(f"{alone.hosts}/large")

    async def main() -> None:
        async with asyncio.timeout(60), Members(tmp_path, open_server=sessions) as members:
            await members.start(1, 2, 3)
            service = members.controller.node.controller
            await service.create_topics([NewTopic(LONG_NAME, 3_000, 3), NewTopic("u", 1, 3)])
            await service.create_partitions([NewPartitions(LONG_NAME, 4_000)])
            image = await members.settled()
            assert len(image.topics[LONG_NAME].partitions) == 4_000
            await members.die(image.controller_id)
            image = await members.settled()
            assert all(p.leader != NO_LEADER for p in image.topics[LONG_NAME].partitions)
            check_agreement(members)
            await members.check_store()
            await members.controller.node.controller.delete_topics([TopicName(LONG_NAME)])
            assert set((await members.settled()).topics) == {"u"}
            await members.check_store()

    asyncio.run(main())


def test_the_most_acls_that_a_resource_may_have_fit_into_zookeeper(alone: Ensemble, tmp_path: Path) -> None:
    names = ["my/app", ".", "..", "50% off", "a%2Fb", "gr\u00fcn", "\U0001f600", "a b ", "\x01\x7f", "*"]
    names += ["\ue000\ufffd"]
    allowed = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
    full = ResourcePattern(AclResourceType.TOPIC, LONG_NAME, PatternType.PREFIXED)

    async def sessions() -> Sessions:
        return Sessions(f"{alone.hosts}/acls")

    async def main() -> None:
        async with asyncio.timeout(60), Members(tmp_path, open_server=sessions) as members:
            await members.start(1, 2)
            service = members.controller.node.controller
            groups = [AclBinding(ResourcePattern(AclResourceType.GROUP, name), allowed) for name in names]
            assert await service.create_acls(groups) == [None] * len(names)
            users = [AclBinding(full, allowed._replace(principal=f"User:{n:0200}")) for n in range(2_000)]
            results = await service.create_acls(users)
            assert None in results
            assert results.count(None) < len(users)
            image = await members.settled()
            assert len(image.acls[full]) * 200 > acl_changes.MOST_BYTES / 2
            check_agreement(members)
            await members.check_store()
            assert len(await service.delete_acls(AclFilter(name=LONG_NAME), image.acls)) == results.count(None)
            assert {pattern.name for pattern in (await members.settled()).acls} == set(names)

    asyncio.run(main())
