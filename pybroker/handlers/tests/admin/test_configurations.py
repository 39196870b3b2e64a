"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pybroker.cluster.decisions.config_changes import ConfigOperation
from pybroker.cluster.decisions.plan import NewTopic
from pybroker.cluster.metadata.image import ResourceType
from pybroker.config import KEYS, TOPICS, Source, Type
from pybroker.handlers.tests.admin.administration import Administration, run
from pyclient.protocol import (
    AlterConfigs,
    DescribeConfigs,
    IncrementalAlterConfigs,
    ListConfigResources,
    errors,
)

Entry = DescribeConfigs.Response.DescribeConfigsResourceResult
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
LOGGER = ResourceType.BROKER_LOGGER
SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE


async def describe(
    ask: Administration,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    documentation: bool = False,
) -> DescribeConfigs.Response.DescribeConfigsResult:
    resource = DescribeConfigs.Request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigs.Request(
        resources=[resource], include_synonyms=True, include_documentation=documentation
    )
    [result] = (await ask(DescribeConfigs, version, request)).results
    return result


async def alter(
    ask: Administration, kind: int, name: str, *keys: tuple[str, int, str | None]
) -> tuple[int, str | None]:
    config = IncrementalAlterConfigs.Request.AlterableConfig
    resource = IncrementalAlterConfigs.Request.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[config(name=k, config_operation=op, value=value) for k, op, value in keys],
    )
    request = IncrementalAlterConfigs.Request(resources=[resource])
    [result] = (await ask(IncrementalAlterConfigs, 1, request)).responses
    return result.error_code, result.error_message


def by_name(result: DescribeConfigs.Response.DescribeConfigsResult) -> dict[str, Entry]:
    assert (result.error_code, result.error_message) == (0, "")
    return {entry.name: entry for entry in result.configs}


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_describe_configs_returns_value_source_type_and_synonyms_of_a_topics_settings(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        topic = NewTopic("t", 1, 1, configs=(("retention.ms", "5"),))
        await ask.node.controller.create_topics([topic])
        shown = by_name(await describe(ask, TOPIC, "t", version=version))
        assert set(shown) == set(TOPICS)
        retention = shown["retention.ms"]
        assert (retention.value, retention.config_source) == ("5", Source.DYNAMIC_TOPIC)
        assert retention.config_type == Type.LONG
        assert [s.name for s in retention.synonyms] == ["retention.ms", "log.retention.hours"]
        assert retention.documentation is None
        assert not retention.read_only
        segment = shown["segment.bytes"]
        assert (segment.value, segment.config_source) == ("4096", Source.STATIC_BROKER)

    run(scenario, {"log.segment.bytes": "4096"})


def test_describe_configs_shows_which_broker_settings_are_dynamic_and_hides_passwords() -> None:
    async def scenario(ask: Administration) -> None:
        shown = by_name(await describe(ask, BROKER, "1", documentation=True))
        assert set(shown) == set(KEYS)
        assert shown["num.partitions"].read_only
        assert not shown["log.retention.ms"].read_only
        password = shown["ssl.key.password"]
        assert (password.value, password.is_sensitive) == (None, True)
        assert "s3cr3t" not in repr(shown)
        assert shown["log.segment.bytes"].documentation == KEYS["log.segment.bytes"].doc

    run(scenario, {"ssl.key.password": "s3cr3t"})


def test_describe_configs_returns_the_requested_keys_and_an_empty_list_means_all() -> None:
    async def scenario(ask: Administration) -> None:
        shown = by_name(await describe(ask, BROKER, "1", ["log.roll.ms", "no.such.key"]))
        assert set(shown) == {"log.roll.ms"}
        assert len(by_name(await describe(ask, BROKER, "1", []))) == len(KEYS)

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "no", errors.UnknownTopicOrPartition),
        (TOPIC, "a/b", errors.InvalidTopicException),
        (TOPIC, "", errors.InvalidTopicException),
        (BROKER, "2", errors.InvalidRequest),
        (BROKER, "x", errors.InvalidRequest),
        (LOGGER, "", errors.InvalidRequest),
        (LOGGER, "2", errors.InvalidRequest),
        (GROUP, "", errors.InvalidRequest),
        (99, "x", errors.InvalidRequest),
    ],
)
def test_describe_configs_refuses_an_unknown_or_invalid_resource(
    kind: int, name: str, error: type[errors.KafkaError]
) -> None:
    async def scenario(ask: Administration) -> None:
        result = await describe(ask, kind, name)
        assert result.error_code == error.code
        assert (result.resource_type, result.resource_name, result.configs) == (kind, name, [])

    run(scenario)


def test_a_dynamic_setting_is_in_effect_when_the_answer_arrives() -> None:
    async def scenario(ask: Administration) -> None:
        assert await alter(ask, BROKER, "", ("log.retention.ms", SET, "7")) == (0, None)
        assert await alter(ask, BROKER, "1", ("log.retention.ms", SET, "8")) == (0, None)
        assert ask.config["log.retention.ms"] == 8
        shown = by_name(await describe(ask, BROKER, "1", ["log.retention.ms"]))
        assert [(s.value, s.source) for s in shown["log.retention.ms"].synonyms] == [
            ("8", Source.DYNAMIC_BROKER),
            ("7", Source.DYNAMIC_DEFAULT_BROKER),
            ("168", Source.DEFAULT),
        ]
        defaults = by_name(await describe(ask, BROKER, ""))
        assert {name: entry.value for name, entry in defaults.items()} == {"log.retention.ms": "7"}
        assert await alter(ask, BROKER, "1", ("log.retention.ms", DELETE, None)) == (0, None)
        assert ask.config["log.retention.ms"] == 7

    run(scenario)


def test_a_change_of_a_read_only_setting_is_refused() -> None:
    async def scenario(ask: Administration) -> None:
        code, message = await alter(ask, BROKER, "1", ("num.partitions", SET, "7"))
        assert code == errors.InvalidRequest.code
        assert message == "num.partitions cannot be changed while the broker runs"

    run(scenario)


def test_settings_that_are_dynamic_in_kafka_are_accepted_even_without_effect() -> None:
    async def scenario(ask: Administration) -> None:
        key = "sasl.kerberos.min.time.before.relogin"
        assert await alter(ask, BROKER, "1", (key, SET, "70000")) == (0, None)
        shown = by_name(await describe(ask, BROKER, "1"))
        assert (shown[key].value, shown[key].read_only) == ("70000", False)
        code, _ = await alter(ask, BROKER, "1", ("ssl.keystore.password", SET, "secret"))
        assert code == errors.InvalidRequest.code, "a secret without use is not kept"

    run(scenario)


def test_a_group_can_be_configured_before_it_exists() -> None:
    async def scenario(ask: Administration) -> None:
        key = "consumer.session.timeout.ms"
        assert await alter(ask, GROUP, "g", (key, SET, "50000")) == (0, None)
        assert by_name(await describe(ask, GROUP, "g"))[key].value == "50000"
        assert by_name(await describe(ask, GROUP, "h"))[key].value == "45000"

    run(scenario)


def test_the_levels_of_loggers_are_changed_and_described() -> None:
    name = "pybroker.cluster.membership"

    async def scenario(ask: Administration) -> None:
        assert await alter(ask, LOGGER, "1", (name, SET, "DEBUG")) == (0, None)
        assert logging.getLogger(name).level == logging.DEBUG
        assert by_name(await describe(ask, LOGGER, "1"))[name].value == "DEBUG"
        assert await alter(ask, LOGGER, "1", (name, DELETE, None)) == (0, None)
        assert logging.getLogger(name).level == logging.NOTSET
        for resource, change, error in (
            ("1", ("no.such.logger", SET, "INFO"), errors.InvalidConfig),
            ("1", (name, SET, "LOUD"), errors.InvalidConfig),
            ("1", (name, SET, None), errors.InvalidRequest),
            ("1", (name, 2, "INFO"), errors.InvalidRequest),
            ("1", ("root", DELETE, None), errors.InvalidRequest),
            ("2", (name, SET, "INFO"), errors.InvalidRequest),
            ("", (name, SET, "INFO"), errors.InvalidRequest),
        ):
            assert (await alter(ask, LOGGER, resource, change))[0] == error.code

    run(scenario)


def test_incremental_alter_configs_returns_results_in_the_order_of_the_request() -> None:
    async def scenario(ask: Administration) -> None:
        resource = IncrementalAlterConfigs.Request.AlterConfigsResource
        request = IncrementalAlterConfigs.Request(
            resources=[
                resource(resource_type=kind, resource_name=name, configs=[])
                for kind, name in ((LOGGER, "2"), (TOPIC, "no"), (LOGGER, "1"), (BROKER, "1"))
            ]
        )
        responses = (await ask(IncrementalAlterConfigs, 1, request)).responses
        assert [(r.resource_type, r.error_code) for r in responses] == [
            (LOGGER, errors.InvalidRequest.code),
            (TOPIC, errors.UnknownTopicOrPartition.code),
            (LOGGER, 0),
            (BROKER, 0),
        ]

    run(scenario)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_alter_configs_replaces_all_settings_of_a_topic(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        topic = NewTopic("t", 1, 1, configs=(("retention.ms", "5"), ("segment.ms", "6")))
        await ask.node.controller.create_topics([topic])
        config = AlterConfigs.Request.AlterableConfig(name="retention.ms", value="7")
        resource = AlterConfigs.Request.AlterConfigsResource
        request = AlterConfigs.Request(
            resources=[
                resource(resource_type=TOPIC, resource_name="t", configs=[config]),
                resource(resource_type=LOGGER, resource_name="1", configs=[]),
            ]
        )
        responses = (await ask(AlterConfigs, version, request)).responses
        assert [(r.resource_name, r.error_code) for r in responses] == [
            ("t", 0),
            ("1", errors.InvalidRequest.code),
        ]
        assert ask.node.metadata.image.topics["t"].configs == {"retention.ms": "7"}

    run(scenario)


def test_settings_cannot_be_changed_without_a_controller() -> None:
    async def scenario(ask: Administration) -> None:
        ask.node.controller.step_down()
        code, _ = await alter(ask, BROKER, "1", ("log.retention.ms", SET, "8"))
        assert code == errors.NotController.code
        resource = AlterConfigs.Request.AlterConfigsResource(resource_type=BROKER, resource_name="1")
        response = await ask(AlterConfigs, 2, AlterConfigs.Request(resources=[resource]))
        assert response.responses[0].error_code == errors.NotController.code

    run(scenario)


@pytest.mark.parametrize("api", [AlterConfigs, IncrementalAlterConfigs], ids=lambda api: api.name)
def test_a_resource_that_a_long_request_names_twice_is_refused(api: Any) -> None:
    """It is refused even if it is in different pieces: the request is written piece by piece."""

    async def scenario(ask: Administration) -> None:
        names = [f"g{number}" for number in range(250)]
        twice = [names[0], names[150], names[-1]]
        kind = api.Request.AlterConfigsResource
        resources = [kind(resource_type=GROUP, resource_name=name) for name in [*names, *twice]]
        response = await ask(api, 1, api.Request(resources=resources))
        codes = {each.resource_name: each.error_code for each in response.responses}
        assert codes == {name: errors.InvalidRequest.code if name in twice else 0 for name in names}

    run(scenario)


def test_list_config_resources_returns_the_requested_types() -> None:
    async def scenario(ask: Administration) -> None:
        await ask.node.controller.create_topics([NewTopic("t", 1, 1)])
        await alter(ask, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
        response = await ask(ListConfigResources, 1, ListConfigResources.Request())
        assert {(r.resource_type, r.resource_name) for r in response.config_resources} == {
            (ResourceType.TOPIC, "t"),
            (ResourceType.BROKER, "1"),
            (ResourceType.BROKER_LOGGER, "1"),
            (ResourceType.GROUP, "g"),
        }
        request = ListConfigResources.Request(resource_types=[GROUP])
        [only] = (await ask(ListConfigResources, 1, request)).config_resources
        assert only.resource_name == "g"
        request = ListConfigResources.Request(resource_types=[99])
        refused = await ask(ListConfigResources, 1, request)
        assert refused.error_code == errors.UnsupportedVersion.code
        assert (await ask(ListConfigResources, 0, ListConfigResources.Request())).error_code == 0

    run(scenario)
