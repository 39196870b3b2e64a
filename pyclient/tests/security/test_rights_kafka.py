"""ACLs, quotas and tokens by the admin client, and clients that lack rights, against a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from harness.servers.guarded import GuardedKafka
from pyclient import Admin, Consumer, Producer
from pyclient.admin import (
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclResourceType,
    ClientQuotaEntity,
    ClientQuotaFilterComponent,
)
from pyclient.errors import (
    ClusterAuthorizationFailed,
    DelegationTokenNotFound,
    DelegationTokenRequestNotAllowed,
    GroupAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    SaslRefused,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from pyclient.tests.brokers import QUICK as QUICK_GROUPS
from pyclient.tests.security.guarded import by_name
from pyclient.tests.support import PATIENCE_S, answered

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP, ID = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID
ALICE, BOB = "User:alice", "User:bob"
QUICK = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 1_000_000}
MUCH = {"consumer_byte_rate": 1 << 40}
"""A quota so high that no other test has to wait."""

numbers = count(1)


@pytest.fixture(scope="module")
def java_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    guarded = GuardedKafka(tmp_path_factory.mktemp("guarded") / "data")
    guarded.config |= QUICK_GROUPS
    with guarded as broker:
        yield broker


@pytest.fixture
def admin(java_broker: GuardedKafka) -> Iterator[Admin]:
    with Admin(java_broker.bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    name = f"t{next(numbers)}"
    admin.create_topics(name)
    return name


def allow(admin: Admin, *rights: tuple[AclOperation, AclResourceType, str], user: str = ALICE) -> None:
    admin.create_acls([AclBinding.allow(user, *right) for right in rights])


def granted(work: Any) -> Any:
    """Returns the result of a call as soon as it is authorized."""

    def attempt() -> Any:
        try:
            return work()
        except KafkaError:
            return None

    return answered(attempt, lambda found: found is not None)


def test_acls_are_created_described_and_deleted(admin: Admin) -> None:
    right = AclBinding.allow("User:eve", READ, TOPIC, "a name, with a comma")
    wrong = AclBinding.allow("eve", READ, TOPIC, "t")
    done = admin.create_acls([right, wrong, right], check=False)
    assert done == {right: None}
    assert isinstance(done.errors[wrong], KafkaError)
    hers = AclBindingFilter(entry=AccessControlEntryFilter("User:eve"))
    answered(lambda: admin.describe_acls(hers) == [right])
    assert admin.delete_acls([hers]) == {hers: [right]}
    answered(lambda: admin.describe_acls(hers) == [])


def test_quotas_are_set_described_and_removed(admin: Admin) -> None:
    pair, default = ClientQuotaEntity("eve", ""), ClientQuotaEntity(client_id="")
    wrong = ClientQuotaEntity("eve", ip="127.0.0.9")
    rates = {"producer_byte_rate": 1024, "request_percentage": 25}
    done = admin.alter_client_quotas({pair: rates, default: MUCH, wrong: rates}, check=False)
    assert done == {pair: None, default: None}
    assert isinstance(done.errors[wrong], InvalidRequest)
    answered(lambda: admin.describe_client_quotas() == {pair: rates, default: MUCH})
    component = ClientQuotaFilterComponent
    assert admin.describe_client_quotas([component("user", "eve")]) == {pair: rates}
    assert admin.describe_client_quotas([component("user", "eve")], strict=True) == {}
    assert admin.describe_client_quotas([component("user"), component("client-id", "")]) == {pair: rates}
    admin.alter_client_quotas({pair: dict.fromkeys(rates), default: {"consumer_byte_rate": None}})
    answered(lambda: admin.describe_client_quotas() == {})


def test_a_token_logs_in_as_its_owner_until_it_expires(java_broker: GuardedKafka, admin: Admin, topic: str) -> None:
    address = java_broker.guarded
    allow(admin, (WRITE, TOPIC, topic))
    with Admin(address, **by_name("alice")) as hers:
        token = hers.create_delegation_token(renewers=BOB)
        assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB,))
        answered(lambda: hers.describe_delegation_tokens(ALICE) == [token])
        assert hers.renew_delegation_token(token.hmac) >= token.expiry_timestamp
        with pytest.raises(DelegationTokenNotFound):
            hers.renew_delegation_token(b"nobody's")
        known = {"sasl_username": token.token_id, "sasl_password": token.password, "sasl_mechanism": "SCRAM-SHA-256"}
        by_token = {"security_protocol": "SASL_PLAINTEXT", **known, "sasl_tokenauth": True}
        with Producer(address, **by_token) as producer:
            granted(lambda: producer.send(topic, b"by token").result(PATIENCE_S))
        with Admin(address, **by_token) as his, pytest.raises(DelegationTokenRequestNotAllowed):
            his.create_delegation_token()
        hers.expire_delegation_token(token.hmac)
        answered(lambda: hers.describe_delegation_tokens() == [])
        with Admin(address, **by_token) as his, pytest.raises(SaslRefused, match="has it not expired"):
            his.describe_cluster(timeout=PATIENCE_S)


def test_a_producer_names_the_missing_right_and_works_once_it_is_granted(
    java_broker: GuardedKafka, admin: Admin, topic: str
) -> None:
    with Producer(java_broker.guarded, **by_name("alice")) as producer:
        for granting in ((), (DESCRIBE,)):
            allow(admin, *((each, TOPIC, topic) for each in granting))
            with pytest.raises((TopicAuthorizationFailed, ClusterAuthorizationFailed)) as caught:
                producer.send(topic, b"x").result(PATIENCE_S)
            assert caught.value.grant.startswith(f"pybroker acl create --allow {ALICE} --operation ")
        allow(admin, (WRITE, TOPIC, topic))
        assert granted(lambda: producer.send(topic, b"x").result(PATIENCE_S)).offset == 0


def test_a_transactional_producer_names_the_missing_right_and_works_once_granted(
    java_broker: GuardedKafka, admin: Admin, topic: str
) -> None:
    with Producer(java_broker.guarded, transactional_id=topic, **by_name("alice")) as producer:
        with pytest.raises(TransactionalIdAuthorizationFailed, match=f"--transactional-id {topic}") as caught:
            producer.init_transactions()
        assert "needs WRITE on transactional id" in str(caught.value)
        allow(admin, (WRITE, ID, topic))
        granted(lambda: producer.init_transactions() or True)
        with pytest.raises(KafkaError), producer.transaction():
            producer.send(topic, b"x").result(PATIENCE_S)
        allow(admin, (WRITE, TOPIC, topic))

        def commit() -> bool:
            with producer.transaction():
                producer.send(topic, b"x").result(PATIENCE_S)
            return True

        granted(commit)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_names_the_missing_rights_and_works_once_they_are_granted(
    java_broker: GuardedKafka, admin: Admin, topic: str, protocol: str
) -> None:
    with Producer(java_broker.bootstrap) as producer:
        producer.send(topic, b"x").result(PATIENCE_S)
    group = {"group_id": f"group-{topic}", "group_protocol": protocol, **QUICK}
    with Consumer(java_broker.guarded, topics=[topic], **group, **by_name("alice")) as consumer:
        told = [refusal(consumer)]
        allow(admin, (READ, GROUP, f"group-{topic}"))
        answered(lambda: told.append(refusal(consumer)) or isinstance(told[-1], TopicAuthorizationFailed))
        allow(admin, (READ, TOPIC, topic))
        records = granted(lambda: list(consumer.poll(PATIENCE_S)) or None)
        assert [record.value for record in records] == [b"x"]
        consumer.commit()
    kinds = {type(error) for error in told}
    assert kinds <= {GroupAuthorizationFailed, TopicAuthorizationFailed}
    assert all(error.grant.startswith(f"pybroker acl create --allow {ALICE} --operation read") for error in told)


def test_a_consumer_without_a_group_works_once_authorized(java_broker: GuardedKafka, admin: Admin, topic: str) -> None:
    with Producer(java_broker.bootstrap) as producer:
        producer.send(topic, b"x").result(PATIENCE_S)
    with Consumer(java_broker.guarded, topics=[topic], **QUICK, **by_name("alice")) as consumer:
        assert isinstance(refusal(consumer), TopicAuthorizationFailed)
        allow(admin, (DESCRIBE, TOPIC, topic))
        answered(lambda: "needs READ" in str(refusal(consumer)))
        allow(admin, (READ, TOPIC, topic))
        records = granted(lambda: list(consumer.poll(PATIENCE_S)) or None)
        assert [record.value for record in records] == [b"x"]


def test_an_admin_call_names_the_missing_right(java_broker: GuardedKafka, topic: str) -> None:
    with Admin(java_broker.guarded, **by_name("bob")) as his:
        with pytest.raises(TopicAuthorizationFailed, match=f"{BOB} needs DELETE on topic {topic}"):
            his.delete_topics(topic)
        with pytest.raises(TopicAuthorizationFailed, match=f"{BOB} needs DESCRIBE on topic {topic}"):
            his.describe_topics(topic)
        with pytest.raises(KafkaError, match=f"{BOB} needs ALTER on the cluster, which an administrator grants: `"):
            his.create_acls([AclBinding.allow(BOB, READ, TOPIC, topic)])
        with pytest.raises(GroupAuthorizationFailed, match=f"{BOB} needs DESCRIBE on group nobodys"):
            his.list_consumer_group_offsets("nobodys")


def refusal(consumer: Consumer) -> KafkaError:
    """Returns the error that a poll raises."""
    with pytest.raises((GroupAuthorizationFailed, TopicAuthorizationFailed)) as caught:
        consumer.poll(PATIENCE_S)
    return caught.value
