"""Kafka's AdminClient creates delegation tokens. Its clients, Spark and franz-go log in by them; others cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.drivers.logins import Login
from conformance.security.base import Client, Refused
from conformance.security.conftest import Grant
from conformance.security.java import JavaAdministrator
from conformance.security.tokens import MECHANISMS, Token, Tokens
from harness.waiting import until
from harness.witnesses import used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_s112_java_creates_a_token_and_logs_in_with_it_until_it_expires(
    mechanism: str, tokens: Tokens, token: Token, java_tool: JavaAdministrator, clients: dict[str, Client],
    user: Login, topic: str, grant: Grant,
) -> None:  # fmt: skip
    java, holder = clients["java"], token.login(user, mechanism)
    assert (token.owner, token.requester) == (user.user, user.user)
    with pytest.raises(Refused, match=f"^{java.refusals['topic']}:"):
        java.write(holder, topic, b"x")
    grant(("ALL", "TOPIC", topic), ("ALL", "GROUP", topic))
    java.write(holder, topic, b"by token")
    assert java.read(holder, topic, topic, 2) == [b"first", b"by token"]
    with pytest.raises(Refused, match="UnsupportedByAuthenticationException"):
        Tokens(java_tool, holder).create()
    assert "Completed renew operation" in tokens.renew(token)
    assert "Completed expire operation" in tokens.expire(token)
    until(lambda: token.name not in tokens.describe(), "no token")
    with pytest.raises(Refused, match=f"^{java.refusals['login']}:"):
        java.write(holder, topic, b"x")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_s112_spark_reads_and_writes_as_the_owner_of_a_token(
    mechanism: str, spark: SparkSession, token: Token, clients: dict[str, Client], admin: Login, user: Login,
    topic: str, grant: Grant,
) -> None:  # fmt: skip
    options = token.login(user, mechanism).spark()
    assert 'tokenauth="true"' in options["kafka.sasl.jaas.config"]
    used("PySpark")
    frame = spark.createDataFrame([("from Spark",)], "value string")
    written = frame.write.format("pybroker").options(**options, topic=topic).mode("append")
    with pytest.raises(Exception, match="TopicAuthorizationFailed"):
        written.save()
    grant(("ALL", "TOPIC", topic))
    written.save()
    rows = spark.read.format("pybroker").options(**options, subscribe=topic).load().collect()
    assert sorted(bytes(row.value) for row in rows) == [b"first", b"from Spark"]
    assert sorted(clients["librdkafka"].read(admin, topic, topic, 2)) == [b"first", b"from Spark"]


@pytest.mark.parametrize("name", ["librdkafka"])
def test_s112_a_client_that_cannot_mark_its_login_as_a_token_is_refused(
    name: str, token: Token, clients: dict[str, Client], user: Login, topic: str
) -> None:
    """SCRAM's extension ``tokenauth=true`` marks a token. Without it, the token's id is the name of an unknown user."""
    client = clients[name]
    for forged in (token.name, f"{token.name},tokenauth=true"):
        holder = token.login(user, "SCRAM-SHA-256")._replace(user=forged)
        with pytest.raises(Refused, match=f"^{client.refusals['login']}:"):
            client.write(holder, topic, b"x")
