"""Configurations of topics, brokers and groups: describe them, alter single keys, list resources with a configuration.

Requests about a broker or its loggers go to that broker. All other requests go to any broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeVar

from pyclient.admin.base import Base, config_text
from pyclient.admin.fan_out import LAG_S, Ask, fan_out, lasting
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.types import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    ResourceType,
)
from pyclient.errors import KafkaError, UnknownTopicOrPartition, of_code
from pyclient.errors import check as check_code
from pyclient.protocol import DescribeConfigs, IncrementalAlterConfigs, ListConfigResources
from pyclient.protocol.acls import AclOperation

READING: Final = AclOperation.DESCRIBE_CONFIGS
WRITING: Final = AclOperation.ALTER_CONFIGS
R = TypeVar("R")


class Configs(Base):
    """The part of the admin client for configurations."""

    @needing(topic=READING, group=READING, cluster=READING)
    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        keys: Collection[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """Returns all keys, or these keys, of each resource by name. Raises the first error unless ``check=False``."""
        request = DescribeConfigs.Request
        wanted = None if keys is None else list(keys)

        async def ask(
            node: int, some: list[ConfigResource]
        ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
            rows = [
                request.DescribeConfigsResource(
                    resource_type=each.type, resource_name=each.name, configuration_keys=wanted
                )
                for each in some
            ]

            def message(version: int) -> DescribeConfigs.Request:
                documented = {"include_documentation": include_documentation} if version >= 3 else {}
                return request(resources=rows, include_synonyms=include_synonyms, **documented)

            response = await self._client.send(node, DescribeConfigs, message)
            return {
                _resource(row.resource_type, row.resource_name): of_code(
                    row.error_code, row.error_message
                )
                or {each.name: _entry(each) for each in row.configs}
                for row in response.results
            }

        return await self._at_resources(resources, ask, timeout, check)

    @needing(topic=WRITING, group=WRITING, cluster=WRITING)
    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[ConfigResource, None]:
        """Changes these keys and no others (KIP-339). Each resource is changed completely or not at all. Raises the
        first error unless ``check=False``.
        """
        request = IncrementalAlterConfigs.Request
        ops = {resource: list(rows) for resource, rows in changes.items()}
        if wrong := [op for rows in ops.values() for op in rows if not isinstance(op, AlterConfigOp)]:
            raise TypeError(f"{wrong[0]!r} is not an AlterConfigOp(name, value)")

        async def ask(
            node: int, some: list[ConfigResource]
        ) -> dict[ConfigResource, KafkaError | None]:
            rows = [
                request.AlterConfigsResource(
                    resource_type=each.type,
                    resource_name=each.name,
                    configs=[
                        request.AlterableConfig(name=op.name, config_operation=op.op, value=config_text(op.value))
                        for op in ops[each]
                    ],
                )
                for each in some
            ]
            message = request(resources=rows, validate_only=validate_only)
            response = await self._client.send(node, IncrementalAlterConfigs, message)
            return {
                _resource(row.resource_type, row.resource_name): of_code(
                    row.error_code, row.error_message
                )
                for row in response.responses
            }

        return await self._at_resources(ops, ask, timeout, check)

    @needing(cluster=AclOperation.DESCRIBE_CONFIGS)
    async def list_config_resources(
        self, types: Collection[ResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Returns the resources of these types, or of all types, that have a configuration (KIP-1142).

        Raises UnsupportedByBroker before Kafka 3.7. Brokers before 4.1 know only client metrics.
        """

        def message(version: int) -> ListConfigResources.Request:
            given = {"resource_types": [int(each) for each in types]} if version >= 1 else {}
            return ListConfigResources.Request(**given)

        response = await self._any(ListConfigResources, message, self._deadline(timeout))
        check_code(response.error_code)
        return [_resource(row.resource_type, row.resource_name) for row in response.config_resources]

    async def _at_resources(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        ask: Ask[ConfigResource, R],
        timeout: float | None,
        check: bool,
    ) -> Results[ConfigResource, R]:
        """Asks about each resource at a broker that knows it."""
        given = [resources] if isinstance(resources, ConfigResource) else list(resources)
        if wrong := [each for each in given if not isinstance(each, ConfigResource)]:
            raise TypeError(f"{wrong[0]!r} is not a ConfigResource(ResourceType.TOPIC, name)")
        deadline = self._deadline(timeout)

        async def place(resource: ConfigResource) -> int | KafkaError:
            own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
            if not own or not resource.name.isdecimal():
                return self._client.nodes.any_node()
            try:
                return await self._known(int(resource.name))
            except KafkaError as error:
                return error

        async def locate(some: Collection[ConfigResource]) -> dict[ConfigResource, int | KafkaError]:
            return {each: await place(each) for each in some}

        patience = self._client.clock() + LAG_S

        async def patiently(node: int, some: list[ConfigResource]) -> Mapping[ConfigResource, R | KafkaError]:
            answers = await ask(node, some)
            if self._client.clock() > patience:
                for answer in answers.values():
                    if isinstance(answer, UnknownTopicOrPartition):
                        lasting(answer)
            return answers

        results = await fan_out(self._client, given, locate, patiently, deadline)
        return results.checked(check)


def _resource(kind: int, name: str) -> ConfigResource:
    try:
        return ConfigResource(ResourceType(kind), name)
    except ValueError:
        return ConfigResource(kind, name)  # type: ignore[arg-type]


def _entry(row: DescribeConfigs.Response.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        row.name,
        row.value,
        row.config_source,
        row.read_only,
        row.is_sensitive,
        tuple(ConfigSynonym(each.name, each.value, each.source) for each in row.synonyms),
        row.config_type,
        row.documentation,
    )
