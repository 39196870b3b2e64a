"""Several brokers whose inter-broker listener uses TLS."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from pybroker.cluster.decisions.config_changes import ConfigOperation
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata.image import ResourceType
from pybroker.handlers import incremental_alter_configs
from pybroker.handlers.common.call import Call
from pybroker.handlers.tests.harness import FakeConnection
from pybroker.server import Broker
from pybroker.tests.cluster import Cluster, in_loop
from pyclient.aio import Producer
from pyclient.protocol import DescribeCluster, IncrementalAlterConfigs, errors

CA, OTHER = trustme.CA(), trustme.CA()
RULES = "RULE:^.*OU=([a-z]+).*$/$1/,DEFAULT"
"""The name of a broker is its certificate's organizational unit."""


def keys(path: Path, unit: str = "brokers", authority: trustme.CA = CA, host: str = "127.0.0.1") -> str:
    leaf = authority.issue_cert(host, organization_unit_name=unit)
    leaf.private_key_and_cert_chain_pem.write_to_path(str(path))
    return str(path)


def secured(folder: Path, **settings: str) -> Cluster:
    """Returns brokers that authenticate each other by certificates, on a separate listener."""
    CA.cert_pem.write_to_path(str(folder / "ca.pem"))
    given = {
        "listeners": "INTERNAL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener_security_protocol_map": "INTERNAL:SSL,PLAINTEXT:PLAINTEXT",
        "inter_broker_listener_name": "internal",
        "ssl_keystore_location": keys(folder / "keys.pem"),
        "ssl_truststore_location": str(folder / "ca.pem"),
        "ssl_principal_mapping_rules": RULES,
        "ssl_client_auth": "required",
    }
    return Cluster(folder, **{**given, **settings})


def test_traffic_between_brokers_is_encrypted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with secured(tmp_path) as cluster:
            first, second = await cluster.start(1), await cluster.start(2)
            await cluster.until(lambda: len(first.metadata.image.brokers) == len(second.metadata.image.brokers) == 2)
            await first.controller.create_topics([NewTopic("t", 3, 2)])
            await cluster.until(lambda: second.metadata.image.topic("t") is not None)
            host, port = first.listeners().rpartition("PLAINTEXT://")[2].rsplit(":", 1)
            async with Producer(f"{host}:{port}", acks="all") as producer:
                for number in range(9):
                    await (await producer.send("t", b"record %d" % number))
            ends = [log.log_end_offset for broker in (first, second) for log in broker.logs]
            assert sum(ends) == 18
            for broker in (first, second):
                between = [each for each in broker.net.connections if each.broker_id is not None]
                assert {(each.listener_name, each.principal) for each in between} == {("INTERNAL", "User:brokers")}

    in_loop(scenario)


async def _asked(cluster: Cluster, **settings: str) -> str:
    """Returns the error that broker 1 gets when it asks a broker with these settings."""
    first = await cluster.start(1)
    await cluster.start(2, **settings)
    await cluster.until(lambda: len(first.metadata.image.brokers) == 2)
    with pytest.raises(errors.NetworkException) as caught:
        await first.peers.request(2, DescribeCluster.Request())
    return str(caught.value)


def test_a_broker_with_another_name_is_refused_unless_it_is_a_super_user(tmp_path: Path) -> None:
    other = keys(tmp_path / "other.pem", "others")

    async def refused() -> None:
        async with secured(tmp_path) as cluster:
            said = await _asked(cluster, ssl_keystore_location=other)
            assert "User:brokers is not User:others, which is the broker's own name, and none of super.users" in said

    async def admitted() -> None:
        async with secured(tmp_path, super_users="User:others;User:brokers") as cluster:
            first, second = await cluster.start(1), await cluster.start(2, ssl_keystore_location=other)
            for here, there in ((first, second), (second, first)):
                await cluster.until(lambda here=here: len(here.metadata.image.brokers) == 2)
                answer = await here.peers.request(there.node_id, DescribeCluster.Request())
                assert len(answer.brokers) == 2

    in_loop(refused)
    in_loop(admitted)


@pytest.mark.parametrize(
    ("host", "authority", "why"),
    [
        pytest.param("10.1.1.1", CA, "IP address mismatch", id="host"),
        pytest.param("127.0.0.1", OTHER, "unable to get local issuer certificate", id="authority"),
    ],
)
def test_a_broker_with_an_unsuitable_certificate_gets_no_requests(
    host: str, authority: trustme.CA, why: str, tmp_path: Path
) -> None:
    strange = keys(tmp_path / "strange.pem", authority=authority, host=host)

    async def scenario() -> None:
        async with secured(tmp_path) as cluster:
            assert why in await _asked(cluster, ssl_keystore_location=strange)

    in_loop(scenario)


def test_a_host_missing_from_the_certificate_is_accepted_without_verification(tmp_path: Path) -> None:
    strange = keys(tmp_path / "strange.pem", host="10.1.1.1")

    async def scenario() -> None:
        async with secured(tmp_path, ssl_endpoint_identification_algorithm="") as cluster:
            first, _ = await cluster.start(1), await cluster.start(2, ssl_keystore_location=strange)
            await cluster.until(lambda: len(first.metadata.image.brokers) == 2)
            assert len((await first.peers.request(2, DescribeCluster.Request())).brokers) == 2

    in_loop(scenario)


def test_a_client_with_the_secret_but_no_certificate_is_not_a_broker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with secured(tmp_path) as cluster:
            first = await cluster.start(1)
            plain = await cluster.start(2, inter_broker_listener_name="PLAINTEXT", ssl_client_auth="none")
            await cluster.until(lambda: len(plain.metadata.image.brokers) == 2)
            assert plain.peer_secret == first.peer_secret
            with pytest.raises(errors.NetworkException, match="must use the listener INTERNAL"):
                await plain.peers.request(1, DescribeCluster.Request())

    in_loop(scenario)


def test_brokers_that_switch_to_tls_one_by_one_reach_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with secured(tmp_path, ssl_client_auth="requested") as cluster:
            new, old = await cluster.start(1), await cluster.start(2, inter_broker_listener_name="PLAINTEXT")
            for here, there in ((new, old), (old, new)):
                await cluster.until(lambda here=here: len(here.metadata.image.brokers) == 2)  # type: ignore[misc]
                answer = await here.peers.request(there.node_id, DescribeCluster.Request())
                assert len(answer.brokers) == 2

    in_loop(scenario)


def _altering(name: str, location: Path, *, validate_only: bool = False) -> IncrementalAlterConfigs.Request:
    """Returns a request to change the key store of a broker."""
    asked, to_set = IncrementalAlterConfigs.Request, ConfigOperation.SET
    config = asked.AlterableConfig(name="ssl.keystore.location", config_operation=to_set, value=str(location))
    resource = asked.AlterConfigsResource(resource_type=ResourceType.BROKER, resource_name=name, configs=[config])
    return asked(resources=[resource], validate_only=validate_only)


def test_a_broker_that_is_not_the_controller_tries_its_settings_and_another_one_cannot(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with secured(tmp_path, ssl_allow_dn_changes="true") as cluster:
            both = await cluster.start(1), await cluster.start(2)
            for broker in both:
                await cluster.until(lambda broker=broker: len(broker.metadata.image.brokers) == 2)  # type: ignore[misc]
            controller, other = both if both[0].controller.is_controller else both[::-1]
            own, good = str(other.node_id), Path(keys(tmp_path / "good.pem"))

            async def altered(broker: Broker, request: IncrementalAlterConfigs.Request) -> str | None:
                call = Call(broker, 1, "test", FakeConnection())  # type: ignore[arg-type]
                (result,) = (await incremental_alter_configs.handle(request, call)).responses
                return result.error_message

            said = await altered(other, _altering(own, tmp_path / "none.pem"))
            assert "none.pem: No such file" in (said or "")
            said = await altered(controller, _altering(own, good))
            assert said == f"only broker {own} can check its own TLS settings: send the request to that broker"
            assert await altered(other, _altering(own, good, validate_only=True)) is None
            assert await altered(other, _altering(own, good)) is None
            await cluster.until(lambda: other.config["ssl.keystore.location"] == str(good))
            assert controller.config["ssl.keystore.location"] != str(good)

    in_loop(scenario)


def test_a_certificate_that_is_replaced_serves_the_next_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with secured(tmp_path) as cluster:
            first, second = await cluster.start(1), await cluster.start(2)
            await cluster.until(lambda: len(first.metadata.image.brokers) == 2)
            assert first.protection.tls is not None
            assert first.protection.tls.between is not None
            before = first.protection.tls.between.client_context
            keys(tmp_path / "keys.pem")
            for broker in (first, second):
                assert broker.protection.tls is not None
                broker.protection.tls.listeners["INTERNAL"].refresh()
            assert first.protection.tls.between.client_context is not before
            answer = await first.peers.request(2, DescribeCluster.Request(), purpose="another")
            assert len(answer.brokers) == 2

    in_loop(scenario)

