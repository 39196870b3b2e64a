"""What a user who knows the protocol can learn or change of others' data, by raw requests with the least rights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

import pyclient.protocol as p
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers.common import identity
from pybroker.handlers.find_coordinator import CoordinatorType
from pybroker.replication import fetch_session
from pybroker.security.sasl import authentication
from pybroker.tests.security.rights import CLUSTER, GROUP, TOPIC, TXN, batch, built, fetch, produce
from pybroker.tests.security.test_delegation_tokens import KEY, RIGHTS
from pybroker.tests.security.test_rights import codes
from pybroker.tests.security.test_sasl import SETTINGS
from pybroker.tests.security.test_sasl_on_the_wire import Raw, joined
from pybroker.tests.security.test_tls import Running, running
from pyclient.protocol import errors
from pyclient.protocol.acls import CLUSTER_NAME, AclOperation, AclPermissionType, AclResourceType, PatternType

THEIRS, OWN = "theirs", "own"
"""The name of alice's topic, group and transactional id; and the name of those of bob, the stranger."""
LOGINS: Final = {"alice": b"\0alice\0alice-secret", "bob": b'\0bob\0b"o b=,'}
NOBODYS: Final = b"x" * 16
"""An id that no topic has."""
KINDS = AclResourceType
REAUTH = {"listener.name.inside.plain.connections.max.reauth.ms": "3600000"}


class Client(Raw):
    """A user's connection; dicts represent the inner structs of a request."""

    def __init__(self, served: Running, user: str | None = None) -> None:
        super().__init__(served, "PLAINTEXT" if user is None else "INSIDE")
        if user is not None:
            assert self.login(LOGINS[user]).error_code == 0

    def __call__(self, api: Any, version: int, **fields: Any) -> Any:
        request = built(api, fields)
        return self.ask(api, version, **{name: getattr(request, name) for name in fields})

    def until_ready(self, api: Any, version: int, **fields: Any) -> Any:
        """Repeats the request until the coordinator has loaded its partition; returns the response."""
        while (answer := self(api, version, **fields)).error_code:
            assert answer.error_code in (errors.CoordinatorLoadInProgress.code, errors.NotCoordinator.code)
        return answer


def allow(kind: AclResourceType, name: str, user: str, operation: AclOperation = AclOperation.ALL) -> dict[str, Any]:
    return {
        "resource_type": kind, "resource_name": name, "resource_pattern_type": PatternType.LITERAL,
        "principal": f"User:{user}", "host": "*", "operation": operation, "permission_type": AclPermissionType.ALLOW,
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {**SETTINGS, **RIGHTS, **REAUTH, "delegation.token.secret.key": KEY}
    with running(tmp_path_factory.mktemp("strangers"), **settings) as broker:
        root = Client(broker)
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (THEIRS, OWN)]
        assert not codes(root(p.CreateTopics, 7, topics=topics, timeout_ms=10_000))
        kinds = KINDS.TOPIC, KINDS.GROUP, KINDS.TRANSACTIONAL_ID
        acls = [allow(kind, name, who) for kind in kinds for name, who in ((THEIRS, "alice"), (OWN, "bob"))]
        assert not codes(root(p.CreateAcls, 3, creations=acls))
        for kind in range(2):
            root(p.FindCoordinator, 4, key_type=kind, coordinator_keys=[THEIRS])
        yield broker


@pytest.fixture
def alice(served: Running) -> Client:
    return Client(served, "alice")


@pytest.fixture
def bob(served: Running) -> Client:
    return Client(served, "bob")


def begun(alice: Client) -> dict[str, Any]:
    """Begins a transaction of alice that has a record; returns its producer."""
    wanted = {"transactional_id": THEIRS, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
    found = alice.until_ready(p.InitProducerId, 4, **wanted)
    producer = {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    assert not codes(alice(p.Produce, 12, **produce(THEIRS, of(producer), transactional_id=THEIRS)))
    return producer


def of(producer: dict[str, Any], base_sequence: int = 0) -> bytes:
    return batch(**producer, base_sequence=base_sequence, transactional=True)


def commit(name: str = OWN, **more: Any) -> list[dict[str, Any]]:
    partition = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    return [{"name": name, "partitions": [partition], **more}]


def test_a_foreign_producer_id_gives_no_access_to_its_transaction(
    served: Running, alice: Client, bob: Client
) -> None:
    producer = begun(alice)
    own = {"transactional_id": OWN, "transaction_timeout_ms": 60_000}
    bob.until_ready(p.InitProducerId, 4, **own, producer_id=-1, producer_epoch=-1)
    taken = {"transactional_id": OWN, **producer}
    unknown, fenced = errors.InvalidProducerIdMapping.code, errors.ProducerFenced.code
    old = {f"v3_and_below_{name}": value for name, value in taken.items()}
    topics = [{"name": OWN, "partitions": [0]}]
    assert codes(bob(p.AddPartitionsToTxn, 3, **old, v3_and_below_topics=topics)) == {unknown}
    assert codes(bob(p.AddOffsetsToTxn, 3, **taken, group_id=OWN)) == {unknown}
    for version in (3, 5):
        answer = bob(p.TxnOffsetCommit, version, **taken, group_id=OWN, topics=commit())
        assert codes(answer) == {unknown}
    for version in (3, 5):
        assert codes(bob(p.EndTxn, version, **taken, committed=False)) == {unknown}
    assert codes(bob(p.InitProducerId, 4, **own, **producer)) == {fenced}
    for version in (9, 12):
        assert codes(bob(p.Produce, version, **produce(OWN, of(producer), transactional_id=OWN))) == {unknown}
        for more in ({"transactional_id": OWN}, {}):
            assert codes(bob(p.Produce, version, **produce(THEIRS, of(producer, 1), **more))) == {TOPIC}
    marker = {**producer, "transaction_result": True, "topics": [{"name": THEIRS, "partition_indexes": [0]}]}
    assert codes(bob(p.WriteTxnMarkers, 1, markers=[marker])) == {CLUSTER}
    assert codes(bob(p.DescribeTransactions, 0, transactional_ids=[THEIRS, "none"])) == {TXN}
    found = bob(p.ListTransactions, 2, producer_id_filters=[producer["producer_id"]], transactional_id_pattern="th.*")
    assert found.transaction_states == []
    topics = [{"name": THEIRS, "partition_indexes": [0]}]
    assert codes(bob(p.DescribeProducers, 0, topics=topics)) == {TOPIC}
    assert not codes(alice(p.EndTxn, 3, transactional_id=THEIRS, **producer, committed=True))


@pytest.mark.parametrize(
    "pattern", ["(" * 16_000 + ")" * 16_000, r"\pL" * 10_000, "a?" * 1000], ids=["groups", "classes", "repetitions"]
)
def test_a_pattern_that_takes_long_to_parse_is_refused(bob: Client, pattern: str) -> None:
    """The defects: the first pattern took gigabytes if there was any transaction, the second one second of the loop."""
    answer = bob(p.ListTransactions, 2, transactional_id_pattern=pattern)
    assert codes(answer) == {errors.InvalidRegularExpression.code}
    read = {"group_id": OWN, "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000, "topic_partitions": []}
    bob.until_ready(p.FindCoordinator, 3, key=OWN, key_type=CoordinatorType.GROUP)
    loading = errors.CoordinatorLoadInProgress.code
    while (answer := bob(p.ConsumerGroupHeartbeat, 1, **read, subscribed_topic_regex=pattern)).error_code == loading:
        pass
    assert codes(answer) == {errors.InvalidRegularExpression.code}


def test_the_id_of_a_hidden_topic_does_not_lead_to_its_name(served: Running, bob: Client) -> None:
    hidden = served.broker.metadata.image.topics[THEIRS].id
    by_id = {"name": None, "topic_id": hidden}
    (found,) = bob(p.Metadata, 12, topics=[by_id], allow_auto_topic_creation=True).topics
    assert (found.error_code, found.name, found.partitions) == (TOPIC, None, [])
    (gone,) = bob(p.DeleteTopics, 6, topics=[by_id], timeout_ms=1000).responses
    assert (gone.error_code, gone.name) == (TOPIC, None)
    both = {"name": OWN, "topic_id": hidden}
    assert codes(bob(p.DeleteTopics, 6, topics=[both], timeout_ms=1000)) == {errors.InvalidRequest.code}
    for id, code in ((hidden, TOPIC), (NOBODYS, errors.UnknownTopicId.code)):
        asked = {"topic_id": id, "name": ""}
        data = [{**asked, "partition_data": [{"index": 0, "records": batch()}]}]
        for answer in (
            bob(p.Fetch, 13, **fetch({"topic_id": id})),
            bob(p.Produce, 13, acks=1, timeout_ms=1000, topic_data=data),
            bob(p.OffsetCommit, 10, group_id=OWN, topics=commit("", topic_id=id)),
            bob(p.OffsetFetch, 10, groups=[{"group_id": OWN, "topics": [{**asked, "partition_indexes": [0]}]}]),
            bob(p.TxnOffsetCommit, 6, transactional_id=OWN, group_id=OWN, producer_id=1, producer_epoch=0,
                topics=commit("", topic_id=id)),
        ):
            assert codes(answer) == {code}
            assert THEIRS not in repr(answer)
    assert THEIRS in served.broker.metadata.image.topics


def test_a_client_cannot_use_the_fetch_session_of_another(served: Running, alice: Client, bob: Client) -> None:
    """The defect: everybody who guessed a session's id got the names and the ends of its topics."""
    alice(p.Produce, 9, **produce(THEIRS, batch()))
    session: dict[str, Any] = {"max_wait_ms": 0, "session_id": 0, "session_epoch": 0}
    begun = alice(p.Fetch, 12, **fetch({"topic": THEIRS}, **session))
    assert begun.session_id
    assert begun.responses[0].partitions[0].records
    session["session_id"] = begun.session_id
    unknown = errors.FetchSessionIdNotFound.code
    for epoch, code in ((1, unknown), (2, unknown), (0, 0), (-1, 0)):
        found = bob(p.Fetch, 12, **{**session, "session_epoch": epoch}, min_bytes=0, topics=[])
        assert (found.error_code, found.responses) == (code, [])
    assert not codes(alice(p.Fetch, 12, **{**session, "session_epoch": 1}, min_bytes=0, topics=[]))


def test_fetch_sessions_over_forbidden_topics_evict_no_others(
    alice: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_session, "MOST_PARTITIONS", 100)
    session: dict[str, Any] = {"max_wait_ms": 0, "session_id": 0, "session_epoch": 0}

    def begun(client: Client, topic: str, *indexes: int) -> bool:
        (asked,) = fetch({"topic": topic})["topics"]
        (first,) = asked["partitions"]
        topics = [{**asked, "partitions": [{**first, "partition": index} for index in indexes]}]
        found: int = client(p.Fetch, 12, **session, min_bytes=0, topics=topics).session_id
        return found > 0

    while begun(bob, THEIRS, *range(10)) and begun(bob, "none", *range(10)):
        pass
    assert begun(alice, THEIRS, 0)
    assert not begun(bob, "none", *range(10))


def test_re_authentication_as_another_user_ends_only_that_connection(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session, the member and the transaction still belong to alice, who continues them on another connection."""
    monkeypatch.setattr(authentication, "AGAIN_AFTER_S", 0.0)
    first = Client(served, "alice")
    producer = begun(first)
    session: dict[str, Any] = {"max_wait_ms": 0, "session_id": 0, "session_epoch": 0}
    session["session_id"] = first(p.Fetch, 12, **fetch({"topic": THEIRS}, **session)).session_id
    assert first.login(LOGINS["bob"]).error_message == "Cannot change principals during re-authentication"
    assert first.receive() is None
    alice = Client(served, "alice")
    session["session_epoch"] = 1
    assert not codes(alice(p.Fetch, 12, **session, min_bytes=0, topics=[]))
    assert not codes(alice(p.EndTxn, 3, transactional_id=THEIRS, **producer, committed=False))


def test_a_member_of_a_foreign_group_is_not_affected(served: Running, alice: Client, bob: Client) -> None:
    joins = {
        "group_id": THEIRS, "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    member = alice(p.JoinGroup, 5, **joins, member_id="").member_id
    joined = alice(p.JoinGroup, 5, **joins, member_id=member)
    of_member = {"generation_id": joined.generation_id, "member_id": member}
    mine = [{"member_id": member, "assignment": b"all"}]
    assert not codes(alice(p.SyncGroup, 4, group_id=THEIRS, **of_member, assignments=mine))

    def beat(client: Client, group: str) -> Any:
        return client(p.Heartbeat, 4, group_id=group, **of_member)

    for group, expected in ((THEIRS, {GROUP}), (OWN, None)):
        for answer in (
            beat(bob, group),
            bob(p.LeaveGroup, 4, group_id=group, members=[{"member_id": member, "group_instance_id": None}]),
            bob(p.SyncGroup, 4, group_id=group, **of_member, assignments=mine),
            bob(p.OffsetCommit, 8, group_id=group, generation_id_or_member_epoch=joined.generation_id,
                member_id=member, topics=commit()),
            bob(p.OffsetDelete, 0, group_id=group, topics=[{"name": OWN, "partitions": [{"partition_index": 0}]}]),
            bob(p.ConsumerGroupHeartbeat, 1, group_id=group, member_id=member, member_epoch=-1),
            bob(p.ConsumerGroupHeartbeat, 1, group_id=group, member_id=member, member_epoch=joined.generation_id),
        ):
            assert codes(answer) == expected if expected else codes(answer)
    assert not codes(beat(alice, THEIRS))
    assert bob(p.ListGroups, 5, states_filter=[], types_filter=[]).groups == []


@pytest.mark.parametrize("operation", [None, AclOperation.CLUSTER_ACTION, AclOperation.ALL])
def test_only_a_broker_opens_an_envelope_whatever_principal_it_names(
    served: Running, operation: AclOperation | None
) -> None:
    if operation is not None:
        acl = allow(KINDS.CLUSTER, CLUSTER_NAME, "bob", operation)
        assert not codes(Client(served)(p.CreateAcls, 3, creations=[acl]))
    topic = {"name": "forged", "num_partitions": 1, "replication_factor": 1}
    frame = p.CreateTopics.encode_request(7, 1, "x", built(p.CreateTopics, {"topics": [topic], "timeout_ms": 1000}))
    root, host = identity.encoded("User:ANONYMOUS", "127.0.0.1")
    for client in (Client(served, "bob"), Client(served)):
        for principal in (root, b"", None):
            envelope = {"request_data": joined(frame)[4:], "request_principal": principal, "client_host_address": host}
            assert codes(client(p.Envelope, 0, **envelope)) == {CLUSTER}
    assert "forged" not in served.broker.metadata.image.topics
    everything = {
        "resource_type_filter": KINDS.CLUSTER, "resource_name_filter": None, "pattern_type_filter": PatternType.ANY,
        "principal_filter": "User:bob", "host_filter": None, "operation": AclOperation.ANY,
        "permission_type": AclPermissionType.ANY,
    }
    assert not codes(Client(served)(p.DeleteAcls, 3, filters=[everything]))


def test_a_stranger_neither_renews_nor_sees_a_token(served: Running, alice: Client, bob: Client) -> None:
    token = alice(p.CreateDelegationToken, 3, renewers=[], max_lifetime_ms=-1)
    assert not token.error_code
    for api in (p.RenewDelegationToken, p.ExpireDelegationToken):
        assert codes(bob(api, 2, hmac=token.hmac)) == {errors.DelegationTokenOwnerMismatch.code}
        assert codes(bob(api, 2, hmac=token.hmac[:-1])) == {errors.DelegationTokenNotFound.code}
    for owners in (None, [{"principal_type": "User", "principal_name": "alice"}]):
        assert bob(p.DescribeDelegationToken, 3, owners=owners).tokens == []


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (p.ListGroups, 5, {"states_filter": ["Stable"] * 30_000, "types_filter": []}),
        (p.CreateDelegationToken, 3, {
            "renewers": [{"principal_type": "User", "principal_name": "bob"}] * 10_000, "max_lifetime_ms": -1
        }),
        (p.DescribeDelegationToken, 3, {
            "owners": [{"principal_type": "User", "principal_name": "bob"}] * 10_000
        }),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_requests_with_too_many_items_are_refused_at_once(
    bob: Client, api: Any, version: int, fields: dict[str, Any]
) -> None:
    """The request is refused when it is decoded, on a thread."""
    assert bob(api, version, **fields) is None


@pytest.mark.parametrize(
    ("api", "version", "fields", "found"),
    [
        (p.DescribeGroups, 5, {"groups": [OWN] * 1000}, lambda answer: answer.groups),
        (p.ConsumerGroupDescribe, 1, {"group_ids": [OWN] * 1000}, lambda answer: answer.groups),
        (p.OffsetFetch, 8, {"groups": [{"group_id": OWN, "topics": None}] * 1000}, lambda answer: answer.groups),
        (p.DescribeTransactions, 0, {"transactional_ids": [OWN] * 1000}, lambda answer: answer.transaction_states),
        (
            p.DescribeProducers, 0, {"topics": [{"name": OWN, "partition_indexes": [0] * 20}] * 50},
            lambda answer: [each for topic in answer.topics for each in topic.partitions],
        ),
        (
            p.DescribeConfigs, 4,
            {"resources": [
                {"resource_type": ResourceType.TOPIC, "resource_name": OWN, "configuration_keys": None}
            ] * 1000},
            lambda answer: answer.results,
        ),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_what_a_request_repeats_is_described_once(
    bob: Client, api: Any, version: int, fields: dict[str, Any], found: Callable[[Any], list[Any]]
) -> None:
    """The defect: a small request could get an answer of any size: 30 MB for 1.5 KB that repeated a group's name."""
    assert len(found(bob(api, version, **fields))) == 1


def test_a_group_is_answered_for_each_list_of_its_topics(bob: Client) -> None:
    topics = [p.OffsetFetch.Request.OffsetFetchRequestTopics(name=OWN, partition_indexes=[0])]
    groups = [{"group_id": OWN, "topics": each} for each in (topics, None, topics, None)]
    assert len(bob(p.OffsetFetch, 8, groups=groups).groups) == 3
