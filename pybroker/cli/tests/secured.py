"""The ACLs, quotas and delegation tokens of a scripted broker."""

from __future__ import annotations

from typing import Any

from pyclient.core.tests.scripted import ScriptedBroker
from pyclient.protocol import (
    AlterClientQuotas,
    CreateAcls,
    CreateDelegationToken,
    DeleteAcls,
    DescribeAcls,
    DescribeClientQuotas,
    DescribeDelegationToken,
    ExpireDelegationToken,
    RenewDelegationToken,
)
from pyclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from pyclient.protocol.errors import DelegationTokenNotFound, InvalidRequest, SecurityDisabled

ANY = 1
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000

Acl = tuple[AclResourceType, str, PatternType, str, str, AclOperation, AclPermissionType]


class Acls:
    """ACLs in the order of their creation; ``enabled`` is True if there is an authorizer."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.there: list[Acl] = []
        self.enabled = True
        broker.handlers[CreateAcls] = self._create
        broker.handlers[DescribeAcls] = self._describe
        broker.handlers[DeleteAcls] = self._delete

    def _create(self, request: Any, version: int) -> CreateAcls.Response:
        kind = CreateAcls.Response.AclCreationResult
        results = []
        for row in request.creations:
            acl = (row.resource_type, row.resource_name, row.resource_pattern_type, row.principal, row.host)
            if row.host == "nowhere":
                results.append(kind(error_code=InvalidRequest.code, error_message="the host is none"))
                continue
            self.there.append(
                (
                    AclResourceType(acl[0]),
                    acl[1],
                    PatternType(acl[2]),
                    *acl[3:],
                    AclOperation(row.operation),
                    AclPermissionType(row.permission_type),
                )
            )
            results.append(kind())
        self.there = list(dict.fromkeys(self.there))
        return CreateAcls.Response(results=results)

    def _describe(self, request: Any, version: int) -> DescribeAcls.Response:
        if not self.enabled:
            text = "No Authorizer is configured."
            return DescribeAcls.Response(error_code=SecurityDisabled.code, error_message=text)
        kind = DescribeAcls.Response
        resources: dict[tuple[Any, ...], list[Any]] = {}
        for acl in filter(lambda acl: fits(request, acl), self.there):
            entry = kind.AclDescription(principal=acl[3], host=acl[4], operation=acl[5], permission_type=acl[6])
            resources.setdefault(acl[:3], []).append(entry)
        rows = [
            kind.DescribeAclsResource(resource_type=key[0], resource_name=key[1], pattern_type=key[2], acls=acls)
            for key, acls in resources.items()
        ]
        return kind(resources=rows)

    def _delete(self, request: Any, version: int) -> DeleteAcls.Response:
        kind = DeleteAcls.Response
        results = []
        for each in request.filters:
            gone = [acl for acl in self.there if fits(each, acl)]
            self.there = [acl for acl in self.there if acl not in gone]
            rows = [
                kind.DeleteAclsMatchingAcl(
                    resource_type=acl[0],
                    resource_name=acl[1],
                    pattern_type=acl[2],
                    principal=acl[3],
                    host=acl[4],
                    operation=acl[5],
                    permission_type=acl[6],
                )
                for acl in gone
            ]
            results.append(kind.DeleteAclsFilterResult(matching_acls=rows))
        return kind(filter_results=results)


def fits(wanted: Any, acl: Acl) -> bool:
    """Whether a filter finds an ACL."""
    kind, name, pattern, principal, host, operation, permission = acl
    return (
        wanted.resource_type_filter in (ANY, kind)
        and fits_name(wanted.resource_name_filter, wanted.pattern_type_filter, name, pattern)
        and wanted.principal_filter in (None, principal)
        and wanted.host_filter in (None, host)
        and wanted.operation in (ANY, operation)
        and wanted.permission_type in (ANY, permission)
    )


def fits_name(wanted: str | None, how: int, name: str, pattern: PatternType) -> bool:
    if how == PatternType.MATCH and wanted is not None:
        return covers(name, pattern, wanted)
    return how in (ANY, PatternType.MATCH, pattern) and wanted in (None, name)


def covers(name: str, pattern: PatternType, wanted: str) -> bool:
    return wanted.startswith(name) if pattern is PatternType.PREFIXED else name in (wanted, "*")


class Quotas:
    """Quotas by entity, which is a mapping of types to names as pairs in order."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.there: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self.validated = 0
        broker.handlers[DescribeClientQuotas] = self._describe
        broker.handlers[AlterClientQuotas] = self._alter

    def _describe(self, request: Any, version: int) -> DescribeClientQuotas.Response:
        kind = DescribeClientQuotas.Response
        rows = [
            kind.EntryData(
                entity=[kind.EntityData(entity_type=each, entity_name=name) for each, name in entity],
                values=[kind.ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in self.there.items()
            if self._fits(request, dict(entity))
        ]
        return kind(entries=rows)

    @staticmethod
    def _fits(request: Any, entity: dict[str, str | None]) -> bool:
        wanted = {each.entity_type: each for each in request.components}
        if not wanted.keys() <= entity.keys() or (request.strict and wanted.keys() != entity.keys()):
            return False
        return all(each.match_type == 2 or each.match == entity[kind] for kind, each in wanted.items())

    def _alter(self, request: Any, version: int) -> AlterClientQuotas.Response:
        kind = AlterClientQuotas.Response
        rows = []
        for each in request.entries:
            names = [(name.entity_type, name.entity_name) for name in each.entity]
            entity = tuple(sorted(names, key=lambda pair: pair[0]))
            self.validated += request.validate_only
            if not request.validate_only:
                known = self.there.setdefault(entity, {})
                for op in each.ops:
                    known.pop(op.key, None)
                    if not op.remove:
                        known[op.key] = op.value
                if not known:
                    del self.there[entity]
            shown = [kind.EntityData(entity_type=name, entity_name=value) for name, value in names]
            rows.append(kind.EntryData(entity=shown))
        return kind(entries=rows)


class Tokens:
    """Tokens by hmac: id, owner, renewers, expiry, longest life."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.there: dict[bytes, dict[str, Any]] = {}
        broker.handlers[CreateDelegationToken] = self._create
        broker.handlers[DescribeDelegationToken] = self._describe
        broker.handlers[RenewDelegationToken] = self._renew
        broker.handlers[ExpireDelegationToken] = self._expire

    def _create(self, request: Any, version: int) -> CreateDelegationToken.Response:
        number = len(self.there) + 1
        known = {
            "token_id": f"token-{number}",
            "owner": request.owner_principal_name or "admin",
            "renewers": [each.principal_name for each in request.renewers],
            "expiry": NOW_MS + HOUR_MS,
            "latest": NOW_MS + (7 * 24 * HOUR_MS if request.max_lifetime_ms < 0 else request.max_lifetime_ms),
        }
        hmac = b"hmac-%d" % number
        self.there[hmac] = known
        return CreateDelegationToken.Response(
            principal_type="User",
            principal_name=known["owner"],
            token_requester_principal_type="User",
            token_requester_principal_name="admin",
            issue_timestamp_ms=NOW_MS,
            expiry_timestamp_ms=known["expiry"],
            max_timestamp_ms=known["latest"],
            token_id=known["token_id"],
            hmac=hmac,
        )

    def _describe(self, request: Any, version: int) -> DescribeDelegationToken.Response:
        kind = DescribeDelegationToken.Response
        owners = None if request.owners is None else [each.principal_name for each in request.owners]
        rows = [
            kind.DescribedDelegationToken(
                principal_type="User",
                principal_name=known["owner"],
                token_requester_principal_type="User",
                token_requester_principal_name="admin",
                issue_timestamp=NOW_MS,
                expiry_timestamp=known["expiry"],
                max_timestamp=known["latest"],
                token_id=known["token_id"],
                hmac=hmac,
                renewers=[
                    kind.DescribedDelegationTokenRenewer(principal_type="User", principal_name=name)
                    for name in known["renewers"]
                ],
            )
            for hmac, known in self.there.items()
            if owners is None or known["owner"] in owners
        ]
        return kind(tokens=rows)

    def _renew(self, request: Any, version: int) -> RenewDelegationToken.Response:
        known = self.there.get(bytes(request.hmac))
        if known is None:
            return RenewDelegationToken.Response(error_code=DelegationTokenNotFound.code)
        known["expiry"] = NOW_MS + (HOUR_MS if request.renew_period_ms < 0 else request.renew_period_ms)
        return RenewDelegationToken.Response(expiry_timestamp_ms=known["expiry"])

    def _expire(self, request: Any, version: int) -> ExpireDelegationToken.Response:
        known = self.there.get(bytes(request.hmac))
        if known is None:
            return ExpireDelegationToken.Response(error_code=DelegationTokenNotFound.code)
        if request.expiry_time_period_ms < 0:
            del self.there[bytes(request.hmac)]
        known["expiry"] = NOW_MS + max(0, request.expiry_time_period_ms)
        return ExpireDelegationToken.Response(expiry_timestamp_ms=known["expiry"])
