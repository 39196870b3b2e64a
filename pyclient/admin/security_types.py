"""The types of the admin client's arguments and results for ACLs, quotas and delegation tokens."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyclient.protocol.acls import WILDCARD, AclOperation, AclPermissionType, AclResourceType, PatternType


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about. The literal name ``*`` stands for all resources of the type."""

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class AccessControlEntry(NamedTuple):
    """A right of a principal, or its denial. The principal ``User:*`` is everybody, and the host ``*`` any host."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW


class AclBinding(NamedTuple):
    """An ACL: resources, and a right to them or its denial."""

    pattern: ResourcePattern
    entry: AccessControlEntry

    @classmethod
    def allow(
        cls,
        principal: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        pattern_type: PatternType = PatternType.LITERAL,
        host: str = WILDCARD,
    ) -> AclBinding:
        """Returns an ACL that allows an operation."""
        return cls(ResourcePattern(resource_type, name, pattern_type), AccessControlEntry(principal, host, operation))


class ResourcePatternFilter(NamedTuple):
    """A filter for resource patterns. None matches any name. ``MATCH`` finds all patterns that cover the name."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY


class AccessControlEntryFilter(NamedTuple):
    """A filter for ACL entries. None matches any principal or host."""

    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY


class AclBindingFilter(NamedTuple):
    """A filter for ACLs; by default it matches all."""

    pattern: ResourcePatternFilter = ResourcePatternFilter()
    entry: AccessControlEntryFilter = AccessControlEntryFilter()


USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"


class ClientQuotaEntity(NamedTuple):
    """The owner of a quota: a user, a client id, both together, or an address. An empty name is the default of its
    type; None means that the entity does not have this type.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """The names by Kafka's types: ``user``, ``client-id``, ``ip``."""
        return {kind: name for kind, name in zip((USER, CLIENT_ID, IP), self, strict=True) if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or '(default)'}" for kind, name in self.names.items())


class ClientQuotaFilterComponent(NamedTuple):
    """A filter for entities by one type: ``user``, ``client-id`` or ``ip``. An empty name matches the default, None any
    name.
    """

    entity_type: str
    match: str | None = None


@dataclass(frozen=True)
class DelegationToken:
    """A token with which a client logs in as its owner. Times are in ms. ``requester`` is None if the broker does not
    tell it. The hmac is as secret as a password.
    """

    token_id: str
    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The password to log in with: the hmac in base64. The name is ``token_id``, the mechanism SCRAM."""
        return base64.b64encode(self.hmac).decode()
