"""ACLs of brokers: the three requests about them, and when they take effect."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from pybroker.config import rights
from pybroker.handlers import delete_acls
from pybroker.handlers.common import broker_loggers, forwarding
from pybroker.handlers.tests.harness import OneItemTurns
from pybroker.security.acls import AclBinding, AclFilter, ResourcePattern
from pybroker.security.audit import LOGGER
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pybroker.tests.several_brokers.test_forwarding import ask, others
from pyclient.protocol import CreateAcls, CreateTopics, DeleteAcls, DescribeAcls, Metadata, errors
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

AUTHORIZED: Any = {"authorizer.class.name": rights.STANDARD, "super.users": "User:ANONYMOUS"}
"""The tests' clients are anonymous, and may do everything."""
VERSION = 3
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
READ, WRITE = AclOperation.READ, AclOperation.WRITE
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


def creation(name: str, principal: str = "User:alice", **fields: Any) -> CreateAcls.Request.AclCreation:
    given = {"resource_type": TOPIC, "host": "*", "operation": READ, "permission_type": ALLOW, **fields}
    return CreateAcls.Request.AclCreation(resource_name=name, principal=principal, **given)


async def create(broker: Broker, *creations: CreateAcls.Request.AclCreation) -> list[tuple[int, str | None]]:
    answer = await ask(broker, CreateAcls, VERSION, CreateAcls.Request(creations=list(creations)))
    return [(each.error_code, each.error_message) for each in answer.results]


def wanted(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": AclResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermissionType.ANY,
        **fields,
    }


async def describe(broker: Broker, **fields: Any) -> Any:
    return await ask(broker, DescribeAcls, VERSION, DescribeAcls.Request(**wanted(**fields)))


async def described(broker: Broker, **fields: Any) -> dict[str, list[str]]:
    """Returns the principals by resource."""
    answer = await describe(broker, **fields)
    assert (answer.error_code, answer.error_message) == (0, None)
    return {each.resource_name: [acl.principal for acl in each.acls] for each in answer.resources}


async def delete(broker: Broker, *filters: dict[str, Any]) -> Any:
    request = DeleteAcls.Request(filters=[DeleteAcls.Request.DeleteAclsFilter(**each) for each in filters])
    return (await ask(broker, DeleteAcls, VERSION, request)).filter_results


def may(broker: Broker, name: str, principal: str = "User:alice", operation: AclOperation = READ) -> bool:
    assert broker.authorizer is not None
    return broker.authorizer.authorize(principal, "10.0.0.1", operation, TOPIC, name)


def test_an_acl_counts_from_its_answer_on_and_later_at_other_brokers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            (other,) = others(cluster)
            assert not may(other, "flights")
            assert await create(other, creation("flights")) == [(0, None)]
            assert may(other, "flights")
            await cluster.until(lambda: all(may(each, "flights") for each in cluster.brokers.values()))
            (result,) = await delete(other, wanted(resource_name_filter="flights"))
            assert [each.principal for each in result.matching_acls] == ["User:alice"]
            assert not may(other, "flights")
            await cluster.until(lambda: not any(may(each, "flights") for each in cluster.brokers.values()))

    in_loop(scenario)


def test_acls_are_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            await create(await cluster.start(1), creation("fl", resource_pattern_type=PatternType.PREFIXED))
            await cluster.stop(1)
            broker = await cluster.start(1)
            assert (may(broker, "flights"), may(broker, "routes")) == (True, False)
            assert may(broker, "routes", "User:ANONYMOUS")

    in_loop(scenario)


def test_acls_are_described_by_resource_and_deleted_by_filter(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            twice = creation("flights")
            ones = [twice, creation("flights", "User:bob"), creation("routes"), creation("g", resource_type=GROUP)]
            assert await create(broker, *ones, twice) == [(0, None)] * 5
            assert await described(broker, resource_type_filter=TOPIC) == {
                "flights": ["User:alice", "User:bob"],
                "routes": ["User:alice"],
            }
            assert await described(broker, principal_filter="User:bob") == {"flights": ["User:bob"]}
            assert await described(broker, resource_name_filter="nothing") == {}
            answer = await delete(
                broker,
                wanted(principal_filter="User:bob"),
                wanted(resource_name_filter="nothing"),
                wanted(operation=AclOperation.UNKNOWN),
            )
            assert [[acl.resource_name for acl in each.matching_acls] for each in answer] == [["flights"], [], []]
            assert [each.error_code for each in answer] == [0, 0, errors.InvalidRequest.code]
            assert (await described(broker))["flights"] == ["User:alice"]

    in_loop(scenario)


def test_an_invalid_acl_does_not_stop_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            wrong = [
                creation("t", "alice"),
                creation("t", operation=77),
                creation("t", resource_type=AclResourceType.ANY),
                creation("other", resource_type=AclResourceType.CLUSTER),
            ]
            results = await create(broker, *wrong, creation("t"))
            assert [code for code, _ in results] == [errors.InvalidRequest.code] * 4 + [0]
            assert results[3][1] == "The only valid name for the CLUSTER resource is kafka-cluster"
            assert await described(broker) == {"t": ["User:alice"]}
            unknown = await describe(broker, pattern_type_filter=99)
            assert unknown.error_code == errors.InvalidRequest.code

    in_loop(scenario)


def test_a_long_request_is_answered_in_its_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            names = [f"t{number}" for number in range(250)]
            results = await create(broker, *(creation(name, "alice" if name == "t201" else "User:a") for name in names))
            assert [n for n, (code, _) in enumerate(results) if code] == [201]
            assert len(await described(broker)) == 249
            answer = await delete(broker, *(wanted(resource_name_filter=name) for name in names[:25]))
            assert [each.matching_acls[0].resource_name for each in answer] == names[:25]

    in_loop(scenario)


def test_a_filter_that_finds_many_acls_takes_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_acls, "PIECE", 4)
    monkeypatch.setattr(delete_acls, "ACLS_AT_ONCE", 5)

    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            names = [f"t{number}" for number in range(24)]
            await create(broker, *map(creation, names), creation("t3", "User:bob"))
            broker.turns = turns = OneItemTurns()
            (result,) = await delete(broker, wanted(principal_filter="User:alice"))
            assert [each.resource_name for each in result.matching_acls] == names
            assert turns.count >= len(names) / 4
            assert await described(broker) == {"t3": ["User:bob"]}

    in_loop(scenario)


def test_filters_without_a_name_walk_the_acls_once_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[AclFilter] = []
    matches = AclFilter.matches_pattern

    def matches_pattern(self: AclFilter, pattern: ResourcePattern) -> bool:
        looks.append(self)
        return matches(self, pattern)

    monkeypatch.setattr(AclFilter, "matches_pattern", matches_pattern)

    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            users = [f"User:{number}" for number in range(50)]
            await create(broker, *(creation(f"t{user}", user) for user in users))
            found = await delete(broker, *(wanted(principal_filter=user) for user in users))
            assert [[acl.principal for acl in each.matching_acls] for each in found] == [[user] for user in users]
            assert len(looks) == len(users)
            assert await described(broker) == {}

    in_loop(scenario)


def test_an_acl_that_several_filters_match_is_deleted_by_the_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            await create(broker, *(creation("t", user) for user in ("User:a", "User:b", "User:c")), creation("u"))
            found = await delete(
                broker,
                wanted(principal_filter="User:b", pattern_type_filter=PatternType.MATCH),
                wanted(principal_filter="User:b"),
                wanted(resource_name_filter="t", principal_filter="User:c"),
                wanted(resource_type_filter=GROUP),
                wanted(resource_type_filter=TOPIC, host_filter="*"),
                wanted(),
            )
            told = [[acl.principal for acl in each.matching_acls] for each in found]
            assert told == [["User:b"], [], ["User:c"], [], ["User:a", "User:alice"], []]

    in_loop(scenario)


def test_an_acl_that_the_store_kept_is_deleted_by_the_next_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the second result would say that no such ACL is left."""

    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            await create(broker, creation("t"), creation("t", "User:bob"), creation("u"))
            remove = broker.controller.delete_acls

            async def refuse_first(wanted: AclFilter, among: Collection[ResourcePattern]) -> list[AclBinding]:
                monkeypatch.undo()
                raise errors.UnknownServerError("the store is away")

            monkeypatch.setattr(broker.controller, "delete_acls", refuse_first)
            found = await delete(
                broker, wanted(resource_type_filter=TOPIC), wanted(principal_filter="User:alice"), wanted()
            )
            assert broker.controller.delete_acls == remove
            assert [each.error_code for each in found] == [errors.UnknownServerError.code, 0, 0]
            told = [[(acl.resource_name, acl.principal) for acl in each.matching_acls] for each in found]
            assert told == [[], [("t", "User:alice"), ("u", "User:alice")], [("t", "User:bob")]]
            assert await described(broker) == {}

    in_loop(scenario)


def test_turns_end_by_the_number_of_acls_even_of_one_resource(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_acls, "PIECE", 4)

    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            broker = await cluster.start(1)
            names = [f"t{number}" for number in range(8)]
            users = [f"User:{number}" for number in range(4)]
            await create(broker, *(creation(name, user) for name in names for user in users))
            broker.turns = turns = OneItemTurns()
            (result,) = await delete(broker, wanted(principal_filter="User:nobody"))
            assert result.matching_acls == []
            assert turns.count >= len(names)

    in_loop(scenario)


def test_without_a_controller_a_broker_does_not_report_that_no_acl_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **AUTHORIZED) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            (other,) = others(cluster)
            (found,) = await delete(other, wanted(resource_name_filter="flights"))
            assert (found.error_code, found.matching_acls) == (0, [])
            monkeypatch.setattr(forwarding, "PATIENCE_S", 0.0)
            (refused,) = await delete(other, wanted(resource_name_filter="flights"))
            assert refused.error_code == errors.NotController.code

    in_loop(scenario)


def test_without_an_authorizer_there_are_no_acls(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path) as cluster:
            broker = await cluster.start(1)
            refused = (errors.SecurityDisabled.code, "No Authorizer is configured.")
            assert await create(broker, creation("a"), creation("b")) == [refused, refused]
            (result,) = await delete(broker, wanted())
            assert (result.error_code, result.error_message) == refused
            answer = await describe(broker)
            assert (answer.error_code, answer.error_message) == refused

    in_loop(scenario)


@pytest.mark.parametrize("everyone", ["true", "false"])
def test_the_settings_of_an_authorizer_are_obeyed(tmp_path: Path, everyone: str) -> None:
    async def scenario() -> None:
        settings: Any = {
            "authorizer.class.name": rights.BUILT[1],
            "super.users": "User:admin; User:CN=kafka-1,O=x",
            "allow.everyone.if.no.acl.found": everyone,
        }
        async with Cluster(tmp_path, **settings) as cluster:
            broker = await cluster.start(1)
            assert may(broker, "t", "User:CN=kafka-1,O=x")
            assert may(broker, "t", "User:admin", AclOperation.ALTER)
            assert may(broker, "t") is (everyone == "true")
            assert LOGGER in broker_loggers.levels()

    in_loop(scenario)


def test_the_audit_log_names_forwarded_requests_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with Cluster(tmp_path, **{**AUTHORIZED, "super.users": ""}) as cluster:
            for node_id in (1, 2):
                await cluster.start(node_id)
            (other,) = others(cluster)
            await ask(other, Metadata, 8, Metadata.Request(topics=[Metadata.Request.MetadataRequestTopic(name="t")]))
            wanted = CreateTopics.Request.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            await ask(other, CreateTopics, 5, CreateTopics.Request(topics=[wanted]))

    with caplog.at_level(logging.INFO, LOGGER):
        in_loop(scenario)
    lines = {each.getMessage() for each in caplog.records if each.name == LOGGER}
    begin = "Principal = User:ANONYMOUS is Denied operation = "
    asked = " from host = 127.0.0.1 on resource = Topic:LITERAL:t for request = "
    end = " with resourceRefCount = 1 based on rule DefaultDeny"
    assert f"{begin}DESCRIBE{asked}Metadata{end}" in lines
    assert f"{begin}CREATE{asked}CreateTopics{end}" in lines
