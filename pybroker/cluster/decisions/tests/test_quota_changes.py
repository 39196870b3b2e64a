"""Quotas in the metadata: which changes are refused, what is stored where, and what a description finds."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest

from pybroker.cluster.decisions.quota_changes import (
    ANY,
    BY_DEFAULT,
    EXACT,
    Component,
    Named,
    QuotaChange,
    alter,
    described,
    quotas,
)
from pybroker.cluster.decisions.scram_changes import ScramChange, users
from pybroker.cluster.metadata import journal
from pybroker.cluster.metadata.image import MetadataImage, ResourceType
from pybroker.cluster.nodes.loading import load_image
from pybroker.cluster.tests.harness import Members
from pybroker.quotas.keys import CONNECTIONS, DEFAULT, FETCH, MUTATIONS, PRODUCE, REQUEST, Entity
from pybroker.store.interface import Create, Set
from pyclient.protocol import errors

EMPTY = MetadataImage()
ALICE: Named = (("user", "alice"),)


def change(entity: Named, **values: float | None) -> QuotaChange:
    return QuotaChange(entity, list(values.items()))


def after(image: MetadataImage, *changes: QuotaChange) -> MetadataImage:
    plan = alter(image, changes)
    assert not any(plan.results.values())
    for step in plan.steps:
        image = image.apply(step.delta)
    return image


def refusal(change: QuotaChange, *others: QuotaChange) -> str:
    plan = alter(EMPTY, [change, *others])
    assert plan.steps == []
    error = plan.results[change.key]
    assert isinstance(error, errors.InvalidRequest)
    return str(error)


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (ALICE, "/config/users/alice"),
        ((("user", None),), "/config/users/<default>"),
        ((("user", "CN=a b*/c"),), "/config/users/CN%3Da%20b%2A%2Fc"),
        ((("client-id", "a.b"),), "/config/clients/a.b"),
        ((("client-id", None),), "/config/clients/<default>"),
        ((("client-id", "<default>"),), "/config/clients/%3Cdefault%3E"),
        ((("user", "alice"), ("client-id", "a/b")), "/config/users/alice/clients/a%2Fb"),
        ((("client-id", None), ("user", None)), "/config/users/<default>/clients/<default>"),
    ],
)
def test_quotas_are_stored_where_kafka_stores_them(entity: Named, path: str) -> None:
    (step,) = alter(EMPTY, [change(entity, producer_byte_rate=1024.0, request_percentage=12.5)]).steps
    *above, write = step.operations
    assert all(isinstance(each, Create) for each in above)
    assert isinstance(write, Create)
    assert write.path == path
    assert json.loads(write.data) == {"version": 1, "config": {PRODUCE: "1024", REQUEST: "12.5"}}


def test_the_parent_nodes_of_a_users_client_quota_are_created_once() -> None:
    both: Named = (("user", "alice"), ("client-id", "app"))
    changes = [change(both, consumer_byte_rate=1.0), change(ALICE, consumer_byte_rate=2.0)]
    (step,) = alter(EMPTY, changes).steps
    paths = ["/config/users/alice", "/config/users/alice/clients", "/config/users/alice/clients/app"]
    assert [each.path for each in step.operations if isinstance(each, Create)] == paths
    image = EMPTY.apply(step.delta)
    assert quotas(image) == {Entity("alice"): {FETCH: 2.0}, Entity("alice", "app"): {FETCH: 1.0}}
    (next_step,) = alter(image, [change((("user", "alice"), ("client-id", "b")), consumer_byte_rate=3.0)]).steps
    assert [type(each) for each in next_step.operations] == [Create]
    (last,) = alter(image, [change(both, consumer_byte_rate=None)]).steps
    assert [type(each) for each in last.operations] == [Set]
    assert quotas(image.apply(last.delta)) == {Entity("alice"): {FETCH: 2.0}}


def test_a_change_of_quotas_keeps_the_users_password() -> None:
    from pybroker.cluster.decisions.scram_changes import alter as alter_scram

    (step,) = alter_scram(EMPTY, [ScramChange("alice", 1, 4096, b"salt", b"salted")]).steps
    image = after(EMPTY.apply(step.delta), change(ALICE, producer_byte_rate=1.0))
    assert [user.name for user in users(image)] == ["alice"]
    assert quotas(image) == {Entity("alice"): {PRODUCE: 1.0}}
    image = after(image, QuotaChange(ALICE, [(PRODUCE, None), ("SCRAM-SHA-256", None)]))
    assert [user.name for user in users(image)] == ["alice"]
    assert quotas(image) == {}


def test_an_unchanged_quota_is_not_written() -> None:
    image = after(EMPTY, change(ALICE, producer_byte_rate=1.0))
    assert alter(image, [change(ALICE, producer_byte_rate=1.0, consumer_byte_rate=None)]).steps == []


@pytest.mark.parametrize(
    ("entity", "values", "text"),
    [
        (ALICE, {PRODUCE: 0.0}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {PRODUCE: -1.0}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {REQUEST: math.nan}, "Quota request_percentage must be greater than 0"),
        (ALICE, {REQUEST: math.inf}, "too large for a DOUBLE"),
        (ALICE, {PRODUCE: 1.5}, "producer_byte_rate cannot be a fractional value"),
        (ALICE, {FETCH: 1e19}, "Proposed value for consumer_byte_rate is too large for a LONG"),
        (ALICE, {"bytes": 1.0}, "Invalid configuration key bytes"),
        (ALICE, {"SCRAM-SHA-256": 1.0}, "Invalid configuration key SCRAM-SHA-256"),
        (ALICE, {CONNECTIONS: 1.0}, "Invalid configuration key connection_creation_rate"),
        ((("ip", "10.0.0.1"),), {PRODUCE: 1.0}, "Invalid configuration key producer_byte_rate"),
        ((("ip", "10.0.0.1"),), {CONNECTIONS: 1e10}, "too large for an INT"),
        ((("ip", "nowhere.invalid"),), {CONNECTIONS: 1.0}, "nowhere.invalid is not a valid IP or resolvable host."),
        ((("ip", "10.0.0.1"), ("user", "a")), {CONNECTIONS: 1.0}, "Invalid quota entity combination"),
        ((), {PRODUCE: 1.0}, "Invalid empty client quota entity"),
        ((("user", ""),), {PRODUCE: 1.0}, "Empty user not supported"),
        ((("group", "g"),), {PRODUCE: 1.0}, "Unhandled client quota entity type: group"),
        ((("user", "a"), ("user", "b")), {PRODUCE: 1.0}, "duplicate entity entry user"),
    ],
)
def test_invalid_quotas_are_refused_with_kafkas_text(entity: Named, values: dict[str, float], text: str) -> None:
    assert text in refusal(QuotaChange(entity, list(values.items())))


def test_a_quota_request_that_names_an_entity_or_key_twice_changes_nothing() -> None:
    app: Named = (("user", "alice"), ("client-id", "app"))
    again = change((app[1], app[0]), consumer_byte_rate=1.0)
    assert "Ignoring duplicate entity" in refusal(change(app, producer_byte_rate=1.0), again)
    assert "Duplicate quota key" in refusal(QuotaChange(ALICE, [(PRODUCE, 1.0), (PRODUCE, None)]))


def test_an_invalid_quota_entity_does_not_stop_the_others() -> None:
    plan = alter(EMPTY, [change(ALICE, producer_byte_rate=0.0), change((("user", "bob"),), producer_byte_rate=1.0)])
    assert [error is None for error in plan.results.values()] == [False, True]
    assert quotas(EMPTY.apply(plan.steps[0].delta)) == {Entity("bob"): {PRODUCE: 1.0}}


def test_unreadable_quotas_are_ignored() -> None:
    configs = {PRODUCE: "1.5", FETCH: "many", REQUEST: "0", MUTATIONS: "nan", "SCRAM-SHA-256": "1"}
    image = MetadataImage(resource_configs={(ResourceType.USER, "alice"): configs})
    assert quotas(image) == {Entity("alice"): {PRODUCE: 1.5}}


def test_every_broker_and_a_broker_that_starts_later_have_the_same_quotas(tmp_path: Path) -> None:
    wanted = [
        change(ALICE, producer_byte_rate=1.0),
        change((("user", None),), producer_byte_rate=2.0),
        change((("user", "b c"), ("client-id", "x/y")), producer_byte_rate=3.0),
        change((("user", None), ("client-id", None)), producer_byte_rate=4.0),
        change((("client-id", "*"),), producer_byte_rate=5.0),
        change((("ip", "::1"),), connection_creation_rate=6.0),
        change((("ip", None),), connection_creation_rate=7.0),
    ]
    expected = {
        Entity("alice"): {PRODUCE: 1.0},
        Entity(DEFAULT): {PRODUCE: 2.0},
        Entity("b c", "x/y"): {PRODUCE: 3.0},
        Entity(DEFAULT, DEFAULT): {PRODUCE: 4.0},
        Entity(client="*"): {PRODUCE: 5.0},
        Entity(ip="::1"): {CONNECTIONS: 6.0},
        Entity(ip=DEFAULT): {CONNECTIONS: 7.0},
    }

    async def main() -> None:
        async with asyncio.timeout(60), Members(tmp_path / "store") as members:
            await members.start(1, 2)
            controller = members.controller
            assert not any((await controller.node.controller.alter_quotas(wanted)).values())
            image = await members.settled()
            assert quotas(image) == expected
            stored = await load_image(controller.store, image.cluster_id)
            assert stored.resource_configs == image.resource_configs

    asyncio.run(main())


def test_the_journal_tells_other_brokers() -> None:
    (step,) = alter(EMPTY, [change((("user", "alice"), ("client-id", "app")), producer_byte_rate=1.0)]).steps
    told = journal.decode(journal.encode(step.delta, EMPTY, 1), EMPTY)
    assert quotas(EMPTY.apply(told)) == {Entity("alice", "app"): {PRODUCE: 1.0}}


def test_an_empty_parent_node_of_a_quota_as_kafkas_tools_create_it_is_valid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), Members(tmp_path / "store") as members:
            await members.start(1)
            store = members.controller.store
            quota = b'{"version":1,"config":{"producer_byte_rate":"9"}}'
            await store.create("/config/users/carol")
            await store.create("/config/users/carol/clients")
            await store.create("/config/users/carol/clients/app", quota)
            await store.create("/config/users/carol/clients/a b", quota)
            image = await load_image(store, members.controller.image.cluster_id)
            assert quotas(image) == {Entity("carol", "app"): {PRODUCE: 9.0}}

    asyncio.run(main())
    assert [record.message for record in caplog.records if "is ignored" in record.message] == [
        "/config/users/carol/clients/a b is ignored: a b is not the name of a client"
    ]


STORED = after(
    EMPTY,
    change(ALICE, producer_byte_rate=1.0),
    change((("user", None),), producer_byte_rate=2.0),
    change((("user", "alice"), ("client-id", "app")), producer_byte_rate=3.0),
    change((("user", "alice"), ("client-id", None)), producer_byte_rate=4.0),
    change((("client-id", "app"),), producer_byte_rate=5.0),
    change((("ip", "10.0.0.1"),), connection_creation_rate=6.0),
)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [1, 2, 3, 4, 5, 6]),
        ([], True, []),
        ([Component("user", EXACT, "alice")], False, [1, 3, 4]),
        ([Component("user", EXACT, "alice")], True, [1]),
        ([Component("user", BY_DEFAULT, None)], False, [2]),
        ([Component("user", ANY, None)], True, [1, 2]),
        ([Component("client-id", EXACT, "app")], False, [3, 5]),
        ([Component("client-id", BY_DEFAULT, None)], False, [4]),
        ([Component("user", EXACT, "alice"), Component("client-id", ANY, None)], True, [3, 4]),
        ([Component("ip", ANY, None)], True, [6]),
        ([Component("user", EXACT, "")], False, []),
    ],
)
def test_a_description_has_the_quotas_that_match(components: list[Component], strict: bool, found: list[int]) -> None:
    values = [value for _, rates in described(STORED, components, strict=strict) for value in rates.values()]
    assert sorted(values) == found


@pytest.mark.parametrize(
    ("components", "error", "text"),
    [
        ([Component("", ANY, None)], errors.InvalidRequest, "Invalid empty entity type."),
        ([Component("group", ANY, None)], errors.UnsupportedVersion, "Unsupported entity type group"),
        ([Component("user", ANY, None)] * 2, errors.InvalidRequest, "cannot appear more than once"),
        ([Component("user", EXACT, None)], errors.InvalidRequest, "MATCH_TYPE_EXACT, but set match string to null"),
        ([Component("user", BY_DEFAULT, "a")], errors.InvalidRequest, "MATCH_TYPE_DEFAULT, but also specified"),
        ([Component("user", ANY, "a")], errors.InvalidRequest, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([Component("user", 3, None)], errors.InvalidRequest, "Unknown match type 3"),
        ([Component("ip", ANY, None), Component("user", ANY, None)], errors.InvalidRequest, "should not be used with"),
    ],
)
def test_a_quota_filter_that_contradicts_itself_is_refused(
    components: list[Component], error: type[errors.KafkaError], text: str
) -> None:
    with pytest.raises(error, match=text):
        described(STORED, components, strict=False)
