"""``pybroker.run(acls=[…])``, and the ACLs of a running broker by other projects' clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pybroker
from pybroker.acl import OPERATIONS, Acl, texts
from pybroker.config import ConfigError, rights
from pybroker.embedded import AUTHORIZER
from pybroker.process import broker_process
from pybroker.process.start_options import StartOptions, first_acls
from pybroker.security.acls import AccessControlEntry, AclBinding, ResourcePattern
from pybroker.tests.waiting import until
from pyclient.protocol.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)

PATIENCE_S = 60


def bindings(*acls: Acl) -> list[AclBinding]:
    """Returns the ACLs as the broker parses them."""
    return first_acls(StartOptions(add_acl=tuple(text for acl in acls for text in texts(acl))))


def test_an_acl_is_made_from_its_short_form() -> None:
    assert bindings(Acl("alice", "READ", "DescribeConfigs", topic="flights")) == [
        AclBinding(
            ResourcePattern(AclResourceType.TOPIC, "flights"),
            AccessControlEntry("User:alice", "*", operation, AclPermissionType.ALLOW),
        )
        for operation in (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    ]
    assert bindings(Acl("Group:x", "all", group="my-", prefixed=True, deny=True, host="10.0.0.1")) == [
        AclBinding(
            ResourcePattern(AclResourceType.GROUP, "my-", PatternType.PREFIXED),
            AccessControlEntry("Group:x", "10.0.0.1", AclOperation.ALL, AclPermissionType.DENY),
        )
    ]
    (cluster,) = bindings(Acl("User:*", "cluster_action", cluster=True))
    assert cluster.pattern == ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME)
    kinds = (Acl("a", "ALL", transactional_id="x"), Acl("a", "ALL", delegation_token="x"), Acl("a", "ALL", user="x"))
    assert [each.pattern.resource_type.name for each in bindings(*kinds)] == [
        *("TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
    ]


def test_an_acl_is_shown_in_its_short_form() -> None:
    for acl in (
        Acl("User:alice", "READ", "WRITE", topic="flights"),
        Acl("User:*", "ALL", group="my-", prefixed=True, deny=True, host="::1"),
        Acl("User:a", "ALTER", cluster=True),
    ):
        assert list(texts(eval(repr(acl)))) == list(texts(acl))


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    [
        (("alice", "READ"), {}, "exactly one resource"),
        (("alice", "READ"), {"topic": "t", "group": "g"}, "exactly one resource"),
        (("alice", "READ"), {"topic": ""}, "exactly one resource"),
        (("alice",), {"topic": "t"}, "needs an operation"),
        (("alice", "FLY"), {"topic": "t"}, "'FLY' is not an operation; the operations are ALL, READ"),
    ],
)
def test_a_value_that_is_not_an_acl_is_refused(arguments: tuple[str, ...], named: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Acl(*arguments, **named)  # type: ignore[arg-type]


def test_the_words_of_the_short_form_are_the_brokers() -> None:
    assert [AclOperation[name] for name in OPERATIONS] == [each for each in AclOperation if each > AclOperation.ANY]
    assert AUTHORIZER == {rights.AUTHORIZER: rights.STANDARD}


def test_an_invalid_acl_on_the_command_line_is_refused() -> None:
    for text in ("x", "[]", '["TOPIC","t","LITERAL","alice","*","READ","ALLOW"]', "[1,2,3,4,5,6,7]"):
        with pytest.raises(ConfigError, match="--add-acl"):
            first_acls(StartOptions(add_acl=(text,)))


def test_members_get_the_acls(tmp_path: Path) -> None:
    (text,) = texts(Acl("alice", "READ", topic="t"))
    words = broker_process.command(StartOptions(add_acl=(text,)), tmp_path, ())
    assert words[-2:] == ["--add-acl", text]


@pytest.fixture(scope="module")
def own_broker() -> Iterator[pybroker.EmbeddedBroker]:
    """Starts a broker whose clients are anonymous and may do everything."""
    acls = [pybroker.Acl("alice", "READ", topic="flights"), pybroker.Acl("alice", "READ", group="*")]
    with pybroker.run(acls=acls, super_users="User:ANONYMOUS") as broker:
        yield broker


def test_the_acls_are_there_before_the_first_client(own_broker: pybroker.EmbeddedBroker) -> None:
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:alice", None, AclOperation.ANY, AclPermissionType.ANY
    )
    found = admin.describe_acls(everything).result(PATIENCE_S)
    assert sorted((each.restype.name, each.name, each.operation.name) for each in found) == [
        ("GROUP", "*", "READ"),
        ("TOPIC", "flights", "READ"),
    ]
    own_broker.restart()
    again = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    assert len(again.describe_acls(everything).result(PATIENCE_S)) == len(found)


def test_librdkafka_creates_describes_and_deletes_acls(own_broker: pybroker.EmbeddedBroker) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap_servers})
    allow = AclPermissionType.ALLOW
    prefixed, literal = ResourcePatternType.PREFIXED, ResourcePatternType.LITERAL
    made = [
        AclBinding(ResourceType.TOPIC, "ro", prefixed, "User:bob", "*", AclOperation.WRITE, allow),
        AclBinding(ResourceType.BROKER, CLUSTER_NAME, literal, "User:bob", "10.0.0.1", AclOperation.ALTER, allow),
    ]
    for outcome in admin.create_acls(made).values():
        assert outcome.result(PATIENCE_S) is None
    bobs = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:bob", None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert set(admin.describe_acls(bobs).result(PATIENCE_S)) == set(made)
    about = AclBindingFilter(
        ResourceType.TOPIC, "routes", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(about).result(PATIENCE_S) == made[:1]
    (outcome,) = admin.delete_acls([bobs]).values()
    assert set(outcome.result(PATIENCE_S)) == set(made)
    assert admin.describe_acls(bobs).result(PATIENCE_S) == []


def test_kafka_python_creates_describes_and_deletes_acls(own_broker: pybroker.EmbeddedBroker) -> None:
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )

    admin = KafkaAdminClient(bootstrap_servers=own_broker.bootstrap_servers)
    made = ACL(
        principal="User:carol",
        host="*",
        operation=ACLOperation.READ,
        permission_type=ACLPermissionType.DENY,
        resource_pattern=ResourcePattern(ResourceType.TOPIC, "cities", ACLResourcePatternType.LITERAL),
    )
    carols = ACLFilter(
        principal="User:carol",
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    try:
        assert admin.create_acls([made])["failed"] == []
        assert admin.describe_acls(carols)[0] == [made]
        ((_, deleted, _),) = admin.delete_acls([carols])
        assert deleted == [made]
        assert admin.describe_acls(carols)[0] == []
    finally:
        admin.close()


@pytest.mark.nightly
def test_several_brokers_have_the_acls() -> None:
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    with pybroker.run(2, acls=[pybroker.Acl("alice", "READ", topic="flights")], super_users="User:ANONYMOUS") as broker:
        for address in broker.bootstrap_servers.split(","):
            admin = AdminClient({"bootstrap.servers": address})
            wanted = AclBindingFilter(
                ResourceType.TOPIC,
                "flights",
                ResourcePatternType.MATCH,
                None,
                None,
                AclOperation.ANY,
                AclPermissionType.ANY,
            )
            assert [each.principal for each in admin.describe_acls(wanted).result(PATIENCE_S)] == ["User:alice"]


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [1, 2])
def test_librdkafka_may_do_what_acls_say_and_a_change_counts_on_its_open_connections(processes: int) -> None:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    acls = [
        Acl("alice", "WRITE", "CREATE", topic="orders"),
        Acl("bob", "READ", topic="ord", prefixed=True),
        Acl("bob", "READ", group="*"),
    ]
    users = {"alice": "a-secret", "bob": "b-secret", "admin": "x-secret"}
    with pybroker.run(
        processes, sasl="SCRAM-SHA-256", users=users, acls=acls, super_users="User:admin", tls=processes > 1
    ) as broker:
        clients = {user: broker.client_settings(user, library="confluent-kafka") for user in users}

        def produced(producer: Producer, topic: str) -> int:
            codes: list[int] = []
            producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
            producer.flush(PATIENCE_S)
            return codes[0]

        def consumed(consumer: Consumer) -> object:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            return message.error().code() if message.error() else message.value()

        alice, bob = Producer(clients["alice"]), Producer(clients["bob"])
        consumer = Consumer({**clients["bob"], "group.id": "g", "auto.offset.reset": "earliest"})
        denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert produced(alice, "orders") == 0
        assert produced(alice, "routes") == denied
        assert produced(bob, "orders") == denied
        consumer.subscribe(["orders"])
        assert consumed(consumer) == b"x"
        admin = AdminClient(clients["admin"])
        assert "routes" not in admin.list_topics(timeout=PATIENCE_S).topics
        no_more = AclBinding(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            "User:bob",
            "*",
            AclOperation.ALL,
            AclPermissionType.DENY,
        )
        for outcome in admin.create_acls([no_more]).values():
            outcome.result(PATIENCE_S)

        def is_denied() -> bool:
            assert produced(alice, "orders") == 0
            return consumed(consumer) == denied

        if processes == 1:
            assert is_denied()
        else:  # the brokers that did not answer learn of it a moment later
            until(is_denied)
        consumer.close()
