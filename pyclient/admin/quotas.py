"""Quotas of users, client ids and addresses (KIP-546): find and change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from pyclient.admin.base import Base
from pyclient.admin.fan_out import Anywhere, fan_out
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.security_types import CLIENT_ID, IP, USER, ClientQuotaEntity, ClientQuotaFilterComponent
from pyclient.errors import CONTROLLER_LOST, KafkaError, of_code
from pyclient.errors import check as check_code
from pyclient.protocol import AlterClientQuotas, DescribeClientQuotas
from pyclient.protocol.acls import AclOperation

_TYPES: Final = frozenset({USER, CLIENT_ID, IP})


class _Match(IntEnum):
    """How a filter compares a name."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Quotas(Base):
    """The part of the admin client for quotas."""

    @needing(cluster=AclOperation.DESCRIBE_CONFIGS)
    async def describe_client_quotas(
        self,
        components: Iterable[ClientQuotaFilterComponent] = (),
        *,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[ClientQuotaEntity, dict[str, float]]:
        """Returns the quotas of each entity that matches all ``components``, by Kafka's names (``producer_byte_rate``).
        ``strict`` excludes entities that also have other types.
        """
        request = DescribeClientQuotas.Request
        message = request(components=[_component(*each) for each in components], strict=strict)
        deadline = self._deadline(timeout)

        async def attempt() -> DescribeClientQuotas.Response:
            node = self._client.nodes.any_node()
            response: DescribeClientQuotas.Response = await self._client.send(node, DescribeClientQuotas, message)
            check_code(response.error_code, response.error_message)
            return response

        response = await self._client.retrying(attempt, deadline=deadline)
        return {
            _entity(row.entity): {each.key: each.value for each in row.values}
            for row in response.entries or ()
            if _TYPES.issuperset(each.entity_type for each in row.entity)
        }

    @needing(cluster=AclOperation.ALTER_CONFIGS)
    async def alter_client_quotas(
        self,
        quotas: Mapping[ClientQuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        check: bool = True,
    ) -> Results[ClientQuotaEntity, None]:
        """Sets these quotas and no others; None removes one. Raises the first error unless ``check=False``."""
        request = AlterClientQuotas.Request

        async def ask(node: int, some: list[ClientQuotaEntity]) -> dict[ClientQuotaEntity, KafkaError | None]:
            rows = [
                request.EntryData(
                    entity=[
                        request.EntityData(entity_type=kind, entity_name=name or None)
                        for kind, name in entity.names.items()
                    ],
                    ops=[
                        request.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                        for key, value in quotas[entity].items()
                    ],
                )
                for entity in some
            ]
            response = await self._client.send(
                node, AlterClientQuotas, request(entries=rows, validate_only=validate_only)
            )
            return {_entity(row.entity): of_code(row.error_code, row.error_message) for row in response.entries}

        places = Anywhere(self._client, controller=True)
        results = await fan_out(self._client, quotas, places, ask, self._deadline(timeout), retry=CONTROLLER_LOST)
        return results.checked(check)


def _component(entity_type: str, match: str | None) -> DescribeClientQuotas.Request.ComponentData:
    how = _Match.ANY if match is None else _Match.EXACT if match else _Match.DEFAULT
    name = match if how is _Match.EXACT else None
    return DescribeClientQuotas.Request.ComponentData(entity_type=entity_type, match_type=how, match=name)


def _entity(
    rows: Iterable[DescribeClientQuotas.Response.EntityData | AlterClientQuotas.Response.EntityData],
) -> ClientQuotaEntity:
    names = {row.entity_type: row.entity_name or "" for row in rows}
    return ClientQuotaEntity(names.get(USER), names.get(CLIENT_ID), names.get(IP))
