"""ACLs in the store: Kafka's paths and JSON, the controller's decisions, and how every broker gets the ACLs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker.cluster.corrections import correction
from pybroker.cluster.decisions import acl_changes
from pybroker.cluster.metadata import acl_nodes, journal, znodes
from pybroker.cluster.metadata.image import MetadataImage
from pybroker.cluster.nodes import folders
from pybroker.cluster.nodes.loading import load_acls
from pybroker.cluster.tests.harness import Members, run
from pybroker.security.acls import UNREADABLE, AccessControlEntry, AclBinding, AclFilter, Entries, ResourcePattern
from pybroker.store.interface import CoordinationStore, Create, Delete, Set
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from pyclient.protocol.errors import InvalidRequest, NotController

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
FLIGHTS = ResourcePattern(TOPIC, "flights")
ALICE = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
BOB = AccessControlEntry("User:bob", "10.0.0.1", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY)
KAFKAS = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"},'
    b'{"principal":"User:bob","permissionType":"Deny","operation":"DescribeConfigs","host":"10.0.0.1"}]}'
)


def with_acls(acls: dict[ResourcePattern, Entries]) -> MetadataImage:
    return MetadataImage(version=1, acls=acls)


async def by_hand(members: Members, path: str, data: bytes) -> None:
    store = await members.server.connect()
    await (store.set(path, data) if await store.exists(path) else store.create(path, data))
    await store.close()


# -- nodes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (FLIGHTS, "/kafka-acl/Topic/flights"),
        (ResourcePattern(TOPIC, "*"), "/kafka-acl/Topic/*"),
        (ResourcePattern(AclResourceType.CLUSTER, "kafka-cluster"), "/kafka-acl/Cluster/kafka-cluster"),
        (ResourcePattern(AclResourceType.USER, "User:a=b"), "/kafka-acl/User/User:a=b"),
        (ResourcePattern(GROUP, "my/app 50%", PatternType.PREFIXED), "/kafka-acl-extended/prefixed/Group/my%2Fapp 50%"),
        (ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "grün"), "/kafka-acl/TransactionalId/grün"),
        (ResourcePattern(AclResourceType.DELEGATION_TOKEN, ".."), "/kafka-acl/DelegationToken/%2E%2E"),
        (ResourcePattern(GROUP, "a%2Fb"), "/kafka-acl/Group/a%252Fb"),
    ],
)
def test_an_acl_node_has_the_path_that_kafka_gives_it(pattern: ResourcePattern, path: str) -> None:
    assert acl_nodes.path(pattern) == path
    assert acl_nodes.name_of(path.rpartition("/")[2]) == pattern.name


@given(st.text(min_size=1))
def test_every_resource_name_has_its_own_acl_node(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return  # no request can have it
    entity = acl_nodes.path(ResourcePattern(GROUP, name)).removeprefix("/kafka-acl/Group/")
    assert "/" not in entity
    assert entity not in (".", "..")
    assert acl_nodes.name_of(entity) == name


def test_a_node_has_kafkas_json() -> None:
    assert acl_nodes.encode([ALICE, BOB]) == KAFKAS
    assert acl_nodes.decode(KAFKAS) == (ALICE, BOB)
    assert acl_nodes.decode(b"") == ()
    spaced = json.dumps({"acls": [*json.loads(KAFKAS)["acls"]] * 2, "version": 1}, indent=1)
    assert acl_nodes.decode(spaced.encode()) == (ALICE, BOB)


@pytest.mark.parametrize("change", [("Read", "Fly"), ("Allow", "Perhaps"), ('"*"', "7"), ("User:", ""), ("1,", "2,")])
def test_a_malformed_node_is_ignored(change: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        acl_nodes.decode(KAFKAS.decode().replace(*change, 1).encode())


# -- decisions ---------------------------------------------------------------------------------------


def test_new_acls_need_one_write_per_resource() -> None:
    plan = acl_changes.create(MetadataImage(), [AclBinding(FLIGHTS, ALICE), AclBinding(FLIGHTS, BOB)])
    assert plan.results == [None, None]
    ((operations, delta),) = plan.steps
    assert operations == [Create("/kafka-acl/Topic/flights", KAFKAS)]
    assert delta.acls == {FLIGHTS: (ALICE, BOB)}


def test_a_new_acl_rewrites_the_node_and_an_existing_acl_writes_nothing() -> None:
    image = with_acls({FLIGHTS: (ALICE,)})
    plan = acl_changes.create(image, [AclBinding(FLIGHTS, BOB), AclBinding(FLIGHTS, ALICE)])
    assert plan.results == [None, None]
    assert plan.steps[0].operations == [Set("/kafka-acl/Topic/flights", KAFKAS)]
    again = acl_changes.create(image, [AclBinding(FLIGHTS, ALICE)])
    assert (again.results, again.steps) == ([None], [])


def test_an_invalid_acl_does_not_stop_the_others() -> None:
    wrong = AclBinding(FLIGHTS, ALICE._replace(principal="alice"))
    plan = acl_changes.create(MetadataImage(), [wrong, AclBinding(FLIGHTS, ALICE)])
    assert isinstance(plan.results[0], InvalidRequest)
    assert plan.results[1] is None
    assert plan.steps[0].delta.acls == {FLIGHTS: (ALICE,)}


def test_many_acls_are_split_into_writes_that_zookeeper_accepts() -> None:
    bindings = [AclBinding(ResourcePattern(TOPIC, f"t{n}"), ALICE) for n in range(3_000)]
    plan = acl_changes.create(MetadataImage(), bindings)
    assert len(plan.steps) > 1
    sizes = [sum(len(each.data) for each in step.operations if isinstance(each, Create)) for step in plan.steps]
    assert max(sizes) <= acl_changes.BYTES_PER_STEP
    image = MetadataImage()
    for step in plan.steps:
        image = image.apply(step.delta)
    assert len(image.acls) == 3_000


def test_the_acls_of_a_resource_are_limited_by_the_size_of_its_node() -> None:
    bindings = [AclBinding(FLIGHTS, ALICE._replace(principal=f"User:{n:0100}")) for n in range(4_000)]
    plan = acl_changes.create(MetadataImage(), bindings)
    refused = [error for error in plan.results if error is not None]
    assert refused
    assert str(refused[0]).startswith("Topic:LITERAL:flights has too many ACLs")
    ((operations, delta),) = plan.steps
    assert isinstance(operations[0], Create)
    assert len(operations[0].data) <= acl_changes.MOST_BYTES
    assert len(operations[0].data) + len(journal.encode(delta, MetadataImage(), 1)) < 1_000_000
    full = MetadataImage().apply(delta)
    assert acl_changes.create(full, bindings[:1]).results == [None]
    assert acl_changes.create(full, bindings[-1:]).results != [None]


def test_a_filter_deletes_matching_acls_and_returns_them() -> None:
    image = with_acls({FLIGHTS: (ALICE, BOB), ResourcePattern(GROUP, "g"): (ALICE,)})
    plan = acl_changes.delete(image, AclFilter(principal="User:alice"), image.acls)
    assert plan.results == [AclBinding(FLIGHTS, ALICE), AclBinding(ResourcePattern(GROUP, "g"), ALICE)]
    ((operations, delta),) = plan.steps
    assert [type(each) for each in operations] == [Set, Delete]
    assert image.apply(delta).acls == {FLIGHTS: (BOB,)}


def test_one_of_several_acls_is_deleted_and_the_others_stay() -> None:
    """CVE-2024-27309: together with one ACL, all ACLs of the resource were deleted."""
    image = with_acls({FLIGHTS: (ALICE, BOB)})
    plan = acl_changes.delete(image, AclFilter(TOPIC, "flights", PatternType.LITERAL, *ALICE), [FLIGHTS])
    assert image.apply(plan.steps[0].delta).acls == {FLIGHTS: (BOB,)}


def test_a_filter_that_finds_nothing_writes_nothing() -> None:
    image = with_acls({FLIGHTS: (ALICE,)})
    for wanted in (AclFilter(TOPIC, "other", PatternType.LITERAL), AclFilter(host="10.0.0.1")):
        plan = acl_changes.delete(image, wanted, image.acls)
        assert (plan.results, plan.steps) == ([], [])
    with pytest.raises(InvalidRequest):
        acl_changes.delete(image, AclFilter(AclResourceType.UNKNOWN), image.acls)


def test_a_filter_that_names_a_resource_examines_no_other_resource() -> None:
    """Otherwise a request with thousands of filters would read thousands of ACLs for each filter."""
    prefix, group = FLIGHTS._replace(pattern_type=PatternType.PREFIXED), FLIGHTS._replace(resource_type=GROUP)
    other = FLIGHTS._replace(name="other")
    image = with_acls({FLIGHTS: (ALICE,), prefix: (ALICE,), group: (BOB,), other: (BOB,)})
    for wanted, expected in (
        (AclFilter(name="flights"), {FLIGHTS, prefix, group}),
        (AclFilter(TOPIC, "flights"), {FLIGHTS, prefix}),
        (AclFilter(TOPIC, "flights", PatternType.PREFIXED), {prefix}),
        (AclFilter(name="flights", pattern_type=PatternType.LITERAL), {FLIGHTS, group}),
        (AclFilter(name="none"), set()),
        (AclFilter(name="x" * 9, pattern_type=PatternType.MATCH), set(image.acls)),
        (AclFilter(TOPIC), set(image.acls)),
    ):
        assert set(acl_changes.candidates(image.acls, wanted)) == expected
        found = {pattern for pattern in image.acls if wanted.matches_pattern(pattern)}
        assert found <= expected


def test_a_filter_for_all_that_matches_a_name_looks_up_the_prefixes_of_the_name() -> None:
    patterns = [
        ResourcePattern(kind, name, pattern_type)
        for kind in (TOPIC, GROUP)
        for name in ("*", "f", "fl", "flights", "flights2", *(f"other{number}" for number in range(20)))
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    ]
    acls = with_acls(dict.fromkeys(patterns, (ALICE,))).acls
    for name in ("f", "flights", "fly", "*", "other1", "none"):
        for kind in (AclResourceType.ANY, TOPIC):
            wanted = AclFilter(kind, name, PatternType.MATCH)
            found = list(acl_changes.candidates(acls, wanted))
            assert len(found) == len(set(found)) <= 2 * len(wanted.name or "") + 20 < len(acls)
            assert set(filter(wanted.matches_pattern, found)) == set(filter(wanted.matches_pattern, acls))
    long = "f" * (acl_changes.MOST_PREFIXES + 1)
    assert acl_changes.candidates(acls, AclFilter(TOPIC, long, PatternType.MATCH)) is acls


# -- brokers -----------------------------------------------------------------------------------------


def test_every_broker_gets_acl_changes_and_a_new_broker_loads_all_acls(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        prefix = ResourcePattern(GROUP, "my/app", PatternType.PREFIXED)
        assert await service.create_acls([AclBinding(FLIGHTS, ALICE), AclBinding(prefix, BOB)]) == [None, None]
        assert (await members.settled()).acls == {FLIGHTS: (ALICE,), prefix: (BOB,)}
        assert await service.create_acls([AclBinding(FLIGHTS, BOB)]) == [None]
        assert (await members.start(3)).image.acls[FLIGHTS] == (ALICE, BOB)
        found = [AclBinding(FLIGHTS, ALICE), AclBinding(FLIGHTS, BOB)]
        assert await service.delete_acls(AclFilter(name="flights"), [FLIGHTS]) == found
        assert (await members.settled()).acls == {prefix: (BOB,)}
        assert await service.create_acls([AclBinding(FLIGHTS, ALICE)]) == [None]

    run(tmp_path / "db", scenario)


def test_the_next_controller_has_the_acls(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        await members.controller.node.controller.create_acls([AclBinding(FLIGHTS, ALICE)])
        await members.settled()
        await members.die(members.controller.id)
        await members.settled()
        await members.controller.node.controller.create_acls([AclBinding(FLIGHTS, BOB)])
        assert (await members.settled()).acls == {FLIGHTS: (ALICE, BOB)}

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("change", ["create", "delete"])
def test_a_replaced_controller_answers_not_controller_even_if_no_acl_would_change(tmp_path: Path, change: str) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        service = members.controller.node.controller
        await service.create_acls([AclBinding(FLIGHTS, ALICE)])
        await by_hand(members, znodes.CONTROLLER_EPOCH, b"9")
        with pytest.raises(NotController):
            await (
                service.create_acls([AclBinding(FLIGHTS, ALICE)])
                if change == "create"
                else service.delete_acls(AclFilter(name="routes"), [])
            )

    run(tmp_path / "db", scenario)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"version":2,"acls":[]}', KAFKAS.replace(b"Deny", b"Maybe")])
def test_unreadable_acls_deny_everything_and_are_logged_in_one_line(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        service = members.controller.node.controller
        other = ResourcePattern(TOPIC, "routes")
        await service.create_acls([AclBinding(FLIGHTS, ALICE), AclBinding(other, ALICE)])
        await by_hand(members, acl_nodes.path(FLIGHTS), data)
        await members.die(1)
        caplog.clear()
        image = (await members.start(1)).image
        assert image.acls == {FLIGHTS: UNREADABLE, other: (ALICE,)}
        lines = [record.getMessage() for record in caplog.records if "kafka-acl" in record.getMessage()]
        assert len(lines) == 1
        assert lines[0].startswith("all access to Topic:LITERAL:flights is denied, because /kafka-acl/Topic/fl")

    run(tmp_path / "db", scenario)


def test_an_administrator_repairs_a_node_by_deleting_the_denying_acl(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        await members.controller.node.controller.create_acls([AclBinding(FLIGHTS, ALICE)])
        await by_hand(members, acl_nodes.path(FLIGHTS), b"{")
        await members.die(1)
        await members.start(1)
        service = members.controller.node.controller
        assert await service.delete_acls(AclFilter(name="flights"), [FLIGHTS]) == [AclBinding(FLIGHTS, UNREADABLE[0])]
        assert await service.create_acls([AclBinding(FLIGHTS, ALICE)]) == [None]

    run(tmp_path / "db", scenario)


def test_acl_nodes_that_kafka_has_written_are_loaded_and_unknown_nodes_are_not(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        await members.controller.node.controller.create_acls([AclBinding(FLIGHTS, ALICE)])
        store: CoordinationStore = await members.server.connect()
        await store.create("/kafka-acl/Topic/*", KAFKAS)
        await store.create("/kafka-acl/Planes", b"")
        await store.create("/kafka-acl/Group/a%41", KAFKAS)
        loaded = await load_acls(store)
        await store.close()
        assert loaded == {
            FLIGHTS: (ALICE,),
            ResourcePattern(TOPIC, "*"): (ALICE, BOB),
            ResourcePattern(GROUP, "a%41"): UNREADABLE,
        }
        correct = correction(members.controller.image, with_acls(loaded))
        assert correct.delta.acls == {pattern: acls for pattern, acls in loaded.items() if pattern != FLIGHTS}
        for path in ("/kafka-acl/Topic/*", "/kafka-acl/Planes", "/kafka-acl/Group/a%41"):
            store = await members.server.connect()
            await store.delete(path)
            await store.close()

    run(tmp_path / "db", scenario)


def test_an_acl_node_that_another_program_has_created_is_found_and_changed(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        await service.create_acls([AclBinding(ResourcePattern(TOPIC, "routes"), ALICE)])
        await by_hand(members, acl_nodes.path(FLIGHTS), acl_nodes.encode([BOB]))
        assert await service.create_acls([AclBinding(FLIGHTS, ALICE)]) == [None]
        assert (await members.settled()).acls[FLIGHTS] == (BOB, ALICE)

    run(tmp_path / "db", scenario)


def test_an_acl_node_that_another_program_has_removed_is_created_again(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1, 2)
        service = members.controller.node.controller
        store: CoordinationStore = await members.server.connect()
        await service.create_acls([AclBinding(FLIGHTS, ALICE)])
        await store.delete(acl_nodes.path(FLIGHTS))
        assert await service.create_acls([AclBinding(FLIGHTS, BOB)]) == [None]
        assert (await members.settled()).acls == {FLIGHTS: (BOB,)}
        await store.delete(acl_nodes.path(FLIGHTS))
        assert await service.delete_acls(AclFilter(), [FLIGHTS]) == []
        assert (await members.settled()).acls == {}
        await store.close()

    run(tmp_path / "db", scenario)


def test_a_cluster_without_acls_has_no_parent_nodes_for_acls(tmp_path: Path) -> None:
    async def scenario(members: Members) -> None:
        await members.start(1)
        store: CoordinationStore = await members.server.connect()
        assert not [name for name in await store.children("/") if name.startswith("kafka-acl")]
        await store.close()

    run(tmp_path / "db", scenario)


def test_brokers_may_create_the_parent_nodes_of_acls_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of several brokers stores the ACLs of ``--add-acl`` when it starts."""

    async def scenario(members: Members) -> None:
        faster, slower = await members.server.connect(), await members.server.connect()
        look = folders.missing

        async def look_too_early(store: CoordinationStore, paths: Sequence[str]) -> list[Create]:
            found = await look(store, paths)
            if store is slower and found:
                await folders.make(faster, paths)
            return found

        monkeypatch.setattr(folders, "missing", look_too_early)
        await folders.make(slower, acl_nodes.FOLDERS)
        assert await look(slower, acl_nodes.FOLDERS) == []
        await faster.close()
        await slower.close()

    run(tmp_path / "db", scenario)
