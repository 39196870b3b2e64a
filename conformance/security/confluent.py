"""Adapts librdkafka, through confluent-kafka, to the tests of security."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from conformance.drivers.logins import Login
from conformance.security.base import ANY_HOST, PATIENCE_S, Acl, Administrator, Client, Refused
from harness.clients.librdkafka import Consumer
from harness.waiting import until
from harness.witnesses import used

ITERATIONS = 4096


def _refused(error: KafkaError) -> Refused:
    return Refused(error.name(), error.str())


class ConfluentClient(Client):
    refusals = {
        "topic": "TOPIC_AUTHORIZATION_FAILED",
        "group": "GROUP_AUTHORIZATION_FAILED",
        "transactional id": "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "cluster": "CLUSTER_AUTHORIZATION_FAILED",
        "login": "_AUTHENTICATION",
    }

    def write(self, login: Login, topic: str, value: bytes, *, idempotent: bool = False) -> None:
        used("librdkafka")
        heard: list[KafkaError | None] = []
        settings = {**login.librdkafka(), "enable.idempotence": idempotent, "error_cb": heard.append}
        producer = Producer(settings)
        try:
            producer.produce(topic, value, on_delivery=lambda error, _: heard.append(error))
            until(lambda: producer.poll(0.05) and heard, "a delivery report or an error", PATIENCE_S)
        except KafkaException as raised:  # This error is fatal.
            raise _refused(raised.args[0]) from raised
        if heard[0] is not None:
            raise _refused(heard[0])

    def read(self, login: Login, topic: str, group: str, count: int = 1) -> list[bytes]:
        refused: list[KafkaError] = []
        more = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**login.librdkafka(), **more, "error_cb": refused.append})
        consumer.subscribe([topic])
        values: list[bytes] = []

        def come() -> bool:
            message = consumer.poll(0.05)
            if refused:
                raise _refused(refused[0])
            if message is not None and message.error() is not None:
                raise _refused(message.error())
            if message is not None:
                values.append(message.value())
            return len(values) >= count

        try:
            until(come, "the records", PATIENCE_S, 0)
            consumer.commit(asynchronous=False)
        except KafkaException as raised:
            raise _refused(raised.args[0]) from raised
        finally:
            consumer.close()
        return values

    def transact(self, login: Login, topic: str, transactional_id: str) -> None:
        used("librdkafka")
        producer = Producer({**login.librdkafka(), "transactional.id": transactional_id})
        try:
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
            producer.produce(topic, b"x")
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as raised:
            raise _refused(raised.args[0]) from raised


#: librdkafka has an older name for the cluster.
KINDS = {"CLUSTER": "BROKER"}
OWN_KINDS = {own: name for name, own in KINDS.items()}


class ConfluentAdministrator(Administrator):
    def create(self, login: Login, acls: Sequence[Acl]) -> None:
        bindings = [AclBinding(*_words(acl)) for acl in acls]
        _asked(login, lambda admin: admin.create_acls(bindings))

    def describe(self, login: Login, kind: str, name: str) -> set[Acl]:
        wanted = AclBindingFilter(
            ResourceType[KINDS.get(kind, kind)], name, ResourcePatternType.MATCH,
            None, None, AclOperation.ANY, AclPermissionType.ANY,  # type: ignore[arg-type] # None is any, here
        )  # fmt: skip
        (found,) = _asked(login, lambda admin: {wanted: admin.describe_acls(wanted)})
        return set(map(_acl, found))

    def delete(self, login: Login, acl: Acl) -> None:
        wanted = AclBindingFilter(*_words(acl))
        (found,) = _asked(login, lambda admin: admin.delete_acls([wanted]))
        assert list(map(_acl, found)) == [acl]


def _words(
    acl: Acl,
) -> tuple[ResourceType, str, ResourcePatternType, str, str, AclOperation, AclPermissionType]:
    return (
        ResourceType[KINDS.get(acl.kind, acl.kind)], acl.name, ResourcePatternType[acl.pattern],
        acl.principal, ANY_HOST, AclOperation[acl.operation], AclPermissionType[acl.permission],
    )  # fmt: skip


def _acl(binding: AclBinding) -> Acl:
    kind = _word(binding.restype)
    return Acl(
        binding.principal, _word(binding.operation), OWN_KINDS.get(kind, kind), binding.name,
        _word(binding.resource_pattern_type), _word(binding.permission_type),
    )  # fmt: skip


def _word(member: object) -> str:
    """Returns Kafka's name for a member of an enum; librdkafka also takes other types, and returns none."""
    assert isinstance(member, Enum)
    return member.name


def _asked(login: Login, ask: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> list[Any]:
    """Returns an admin client's answer; the client has to live until then."""
    admin = AdminClient(login.librdkafka())
    try:
        return [each.result(PATIENCE_S) for each in ask(admin).values()]
    except KafkaException as raised:
        raise _refused(raised.args[0]) from raised


def store_password(bootstrap: str, user: str, password: str, mechanism: str) -> None:
    """Stores a password of SCRAM, and waits until the broker knows it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], ITERATIONS)
    for done in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, info, password.encode())]
    ).values():
        done.result(PATIENCE_S)

    def is_known() -> bool:
        described = admin.describe_user_scram_credentials()
        assert isinstance(described, Future), "all users by one future"
        return user in described.result(PATIENCE_S)

    until(is_known, "the password")
