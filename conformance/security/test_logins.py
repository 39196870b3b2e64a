"""Users of each mechanism log in by TLS, with each client and with Spark's source and sink; others are refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.drivers.logins import Login
from conformance.security.base import Client, Refused
from conformance.security.confluent import ConfluentClient, store_password
from conformance.security.conftest import FRANZ_GO, KAFKA_GO, Grant
from harness.servers.guarded import LOGIN_MODULES, Guarded
from harness.servers.issuer import Issuer
from harness.witnesses import used

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

mechanisms = pytest.mark.parametrize("mechanism", LOGIN_MODULES)


@pytest.fixture
def login(mechanism: str, user: Login, guarded: Guarded, authority: Path, issuer: Issuer) -> Login:
    """Makes the user's login by TLS."""
    if mechanism.startswith("SCRAM"):
        store_password(guarded.bootstrap, user.user, user.password, mechanism)
    return user._replace(
        bootstrap=guarded.addresses["SASL_SSL"],
        mechanism=mechanism,
        ca=str(authority / "ca.pem"),
        issuer=issuer if mechanism == "OAUTHBEARER" else None,
    )


@mechanisms
def test_s112_a_tls_user_may_do_what_its_acls_allow(
    client: Client, login: Login, topic: str, grant: Grant
) -> None:
    with pytest.raises(Refused, match=f"^{client.refusal_of('hidden topic')}:"):
        client.write(login, topic, b"x")
    grant(("ALL", "TOPIC", topic), ("ALL", "GROUP", topic))
    client.write(login, topic, b"second")
    assert client.read(login, topic, topic, 2) == [b"first", b"second"]


@pytest.mark.parametrize("mechanism", [name for name in LOGIN_MODULES if name != "OAUTHBEARER"])
@pytest.mark.parametrize("name", ["librdkafka", "java", FRANZ_GO, KAFKA_GO])
def test_s112_a_wrong_password_is_refused(name: str, clients: dict[str, Client], login: Login, topic: str) -> None:
    with pytest.raises(Refused, match=f"^{clients[name].refusals['login']}:.*nvalid"):
        clients[name].write(login._replace(password="wrong"), topic, b"x")


@mechanisms
def test_s112_spark_reads_and_writes_as_a_user_of_each_mechanism(
    spark: SparkSession, login: Login, admin: Login, topic: str, grant: Grant
) -> None:
    grant(("ALL", "TOPIC", topic))
    used("PySpark")
    frame = spark.createDataFrame([("from Spark",)], "value string")
    frame.write.format("pybroker").options(**login.spark(), topic=topic).mode("append").save()
    rows = spark.read.format("pybroker").options(**login.spark(), subscribe=topic).load().collect()
    assert sorted(bytes(row.value) for row in rows) == [b"first", b"from Spark"]
    assert sorted(ConfluentClient().read(admin, topic, topic, 2)) == [b"first", b"from Spark"]
