"""Adapts kafka-python to the tests of security."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin._acls import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError

from conformance.drivers.logins import Login
from conformance.security.base import ANY_HOST, PATIENCE_S, Acl, Administrator, Client, Refused
from harness.waiting import until
from harness.witnesses import used

#: kafka-python formats an error like this if it has no class for it.
UNEXPECTED = re.compile(r"Unexpected error in \w+: \[Error \d+\] (\w+)")


@contextmanager
def _refusing() -> Iterator[None]:
    """Translates the library's errors for the tests."""
    used("kafka-python")
    try:
        yield
    except KafkaError as error:
        told = UNEXPECTED.search(str(error))
        raise Refused(told[1] if told else type(error).__name__, error) from error


class KafkaPythonClient(Client):
    refusals = {
        "topic": "TopicAuthorizationFailedError",
        "group": "GroupAuthorizationFailedError",
        "transactional id": "TransactionalIdAuthorizationFailedError",
        "cluster": "ClusterAuthorizationFailedError",
        "login": "SaslAuthenticationFailedError",
    }
    #: It logs that it is not authorized, and waits.
    tells_of_hidden_topics = False

    def write(self, login: Login, topic: str, value: bytes, *, idempotent: bool = False) -> None:
        settings = {**login.kafka_python(), "enable_idempotence": idempotent}
        with _refusing(), closing(KafkaProducer(**settings)) as producer:
            producer.send(topic, value).get(PATIENCE_S)

    def read(self, login: Login, topic: str, group: str, count: int = 1) -> list[bytes]:
        more = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        values: list[bytes] = []
        with _refusing(), closing(KafkaConsumer(topic, **login.kafka_python(), **more)) as consumer:

            def come() -> bool:
                # A poll that ends during a join loses SyncGroup's assignment, and does not ask again.
                for rows in consumer.poll(PATIENCE_S * 1000).values():
                    values.extend(row.value for row in rows)
                return len(values) >= count

            until(come, "the records", PATIENCE_S, 0)
            consumer.commit()
        return values

    def transact(self, login: Login, topic: str, transactional_id: str) -> None:
        settings = {**login.kafka_python(), "transactional_id": transactional_id}
        with _refusing(), closing(KafkaProducer(**settings)) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"x").get(PATIENCE_S)
            producer.commit_transaction()


class KafkaPythonAdministrator(Administrator):
    def create(self, login: Login, acls: Sequence[Acl]) -> None:
        with self._admin(login) as admin:
            done = admin.create_acls([ACL(*_entry(acl), ResourcePattern(*_pattern(acl))) for acl in acls])
            if done["failed"]:
                raise Refused(done["failed"][0].__name__)

    def describe(self, login: Login, kind: str, name: str) -> set[Acl]:
        pattern = ResourcePatternFilter(ResourceType[kind], name, ACLResourcePatternType.MATCH)
        with self._admin(login) as admin:
            found, _ = admin.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, pattern))
            return set(map(_acl, found))

    def delete(self, login: Login, acl: Acl) -> None:
        with self._admin(login) as admin:
            wanted = ACLFilter(*_entry(acl), ResourcePatternFilter(*_pattern(acl)))
            ((_, found, error),) = admin.delete_acls([wanted])
            if error.errno:
                raise Refused(error.__name__)
            assert list(map(_acl, found)) == [acl]

    @contextmanager
    def _admin(self, login: Login) -> Iterator[Any]:
        with _refusing(), closing(KafkaAdminClient(**login.kafka_python())) as admin:
            yield admin


def _pattern(acl: Acl) -> tuple[Any, ...]:
    return ResourceType[acl.kind], acl.name, ACLResourcePatternType[acl.pattern]


def _entry(acl: Acl) -> tuple[Any, ...]:
    return acl.principal, ANY_HOST, ACLOperation[acl.operation], ACLPermissionType[acl.permission]


def _acl(one: Any) -> Acl:
    pattern = one.resource_pattern
    return Acl(
        one.principal, one.operation.name, pattern.resource_type.name, pattern.resource_name,
        pattern.pattern_type.name, one.permission_type.name,
    )  # fmt: skip
