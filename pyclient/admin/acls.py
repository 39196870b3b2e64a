"""ACLs (KIP-140, KIP-290): create, find and delete them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from pyclient.admin.base import Base
from pyclient.admin.fan_out import Anywhere, fan_out
from pyclient.admin.needing import needing
from pyclient.admin.results import Results
from pyclient.admin.security_types import AccessControlEntry, AclBinding, AclBindingFilter, ResourcePattern
from pyclient.errors import CONTROLLER_LOST, KafkaError, of_code
from pyclient.errors import check as check_code
from pyclient.protocol import CreateAcls, DeleteAcls, DescribeAcls
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType

E = TypeVar("E", bound=IntEnum)


class Acls(Base):
    """The part of the admin client for ACLs."""

    @needing(cluster=AclOperation.DESCRIBE)
    async def describe_acls(
        self, filter: AclBindingFilter | None = None, *, timeout: float | None = None
    ) -> list[AclBinding]:
        """Returns the ACLs that match, or all. Raises SecurityDisabled if the broker has no authorizer."""
        pattern, entry = filter or AclBindingFilter()
        message = DescribeAcls.Request(
            resource_type_filter=pattern.resource_type,
            resource_name_filter=pattern.name,
            pattern_type_filter=pattern.pattern_type,
            principal_filter=entry.principal,
            host_filter=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
        deadline = self._deadline(timeout)

        async def attempt() -> DescribeAcls.Response:
            node = self._client.nodes.any_node()
            response: DescribeAcls.Response = await self._client.send(node, DescribeAcls, message)
            check_code(response.error_code, response.error_message)
            return response

        response = await self._client.retrying(attempt, deadline=deadline)
        return [
            _binding(row.resource_type, row.resource_name, row.pattern_type, acl)
            for row in response.resources
            for acl in row.acls
        ]

    @needing(cluster=AclOperation.ALTER)
    async def create_acls(
        self, acls: Iterable[AclBinding], *, timeout: float | None = None, check: bool = True
    ) -> Results[AclBinding, None]:
        """Creates ACLs; existing ones stay unchanged. Raises the first error unless ``check=False``."""
        request = CreateAcls.Request

        async def ask(node: int, some: list[AclBinding]) -> dict[AclBinding, KafkaError | None]:
            rows = [
                request.AclCreation(
                    resource_type=pattern.resource_type,
                    resource_name=pattern.name,
                    resource_pattern_type=pattern.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission_type,
                )
                for pattern, entry in some
            ]
            response = await self._client.send(node, CreateAcls, request(creations=rows))
            outcomes = (of_code(row.error_code, row.error_message) for row in response.results)
            return dict(zip(some, outcomes, strict=True))

        places = Anywhere(self._client, controller=True)
        results = await fan_out(self._client, acls, places, ask, self._deadline(timeout), retry=CONTROLLER_LOST)
        return results.checked(check)

    @needing(cluster=AclOperation.ALTER)
    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout: float | None = None, check: bool = True
    ) -> Results[AclBindingFilter, list[AclBinding]]:
        """Deletes the ACLs that match, and returns those of each filter. Raises the first error unless ``check=False``.
        """
        request = DeleteAcls.Request

        async def ask(
            node: int, some: list[AclBindingFilter]
        ) -> dict[AclBindingFilter, list[AclBinding] | KafkaError]:
            rows = [
                request.DeleteAclsFilter(
                    resource_type_filter=pattern.resource_type,
                    resource_name_filter=pattern.name,
                    pattern_type_filter=pattern.pattern_type,
                    principal_filter=entry.principal,
                    host_filter=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission_type,
                )
                for pattern, entry in some
            ]
            response = await self._client.send(node, DeleteAcls, request(filters=rows))
            return dict(zip(some, map(_deleted, response.filter_results), strict=True))

        places = Anywhere(self._client, controller=True)
        results = await fan_out(self._client, filters, places, ask, self._deadline(timeout), retry=CONTROLLER_LOST)
        return results.checked(check)


def _deleted(result: DeleteAcls.Response.DeleteAclsFilterResult) -> list[AclBinding] | KafkaError:
    """Returns the ACLs that one filter has deleted, or the first error."""
    codes = [(row.error_code, row.error_message) for row in result.matching_acls]
    for code, text in [(result.error_code, result.error_message), *codes]:
        if error := of_code(code, text):
            return error
    return [_binding(row.resource_type, row.resource_name, row.pattern_type, row) for row in result.matching_acls]


def _binding(
    resource_type: int,
    name: str,
    pattern_type: int,
    row: DescribeAcls.Response.AclDescription | DeleteAcls.Response.DeleteAclsMatchingAcl,
) -> AclBinding:
    pattern = ResourcePattern(_known(AclResourceType, resource_type), name, _known(PatternType, pattern_type))
    operation, permission = _known(AclOperation, row.operation), _known(AclPermissionType, row.permission_type)
    return AclBinding(pattern, AccessControlEntry(row.principal, row.host, operation, permission))


def _known(kind: type[E], number: int) -> E:
    """Returns the member with that number, or UNKNOWN if this client does not know it."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
