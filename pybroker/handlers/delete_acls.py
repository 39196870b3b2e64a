"""DeleteAcls (31), 1 to 3: deletes the ACLs that filters find, and returns them (KIP-140).

Before the reply, they cease to apply on all connections of this broker. One walk through the ACLs, in turns, serves all
filters that name no resource. The matching ACLs of each filter are deleted piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import ne
from typing import Final

from pybroker.cluster.decisions.acl_changes import Acls, candidates
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.pacing import PIECE, Paced, in_turns, one_by_one, settled, walk
from pybroker.handlers.common.security.acls import filter_of, refusal
from pybroker.security.acls import AclBinding, AclFilter, ResourcePattern
from pyclient.protocol import DeleteAcls
from pyclient.protocol.acls import PatternType
from pyclient.protocol.errors import KafkaError

Response = DeleteAcls.Response
Filter = DeleteAcls.Request.DeleteAclsFilter
Result = Response.DeleteAclsFilterResult

ACLS_AT_ONCE: Final = 1000
"""How many ACLs the patterns of one write have, deleted or not. One write deletes all of a pattern's ACLs."""
ANYTHING: Final = AclFilter()


async def handle(request: DeleteAcls.Request, call: Call) -> DeleteAcls.Response:
    """Answers with one result per filter, in order; SECURITY_DISABLED without an authorizer."""
    disabled = refusal(call)
    answer = _at_controller(request, call) if disabled is None else settled(refused(request, call, disabled))
    response: DeleteAcls.Response = await answer
    return response


@in_turns
def refused(request: DeleteAcls.Request, call: Call, error: KafkaError) -> Paced[DeleteAcls.Response]:
    """Returns the response to a client that may not delete ACLs."""
    response = Response()
    for _ in request.filters:
        yield
        response.filter_results.append(_refused(error))
    return response


async def _delete(request: DeleteAcls.Request, call: Call) -> DeleteAcls.Response:
    acls = call.broker.metadata.image.acls
    of_nameless = await settled(walk(_sorted(acls, request.filters), call))
    left: list[ResourcePattern] = []  # could not be deleted for a filter without a name; other filters may match them

    async def delete(each: Filter) -> Result:
        wanted = filter_of(each)
        found: list[ResourcePattern] = []
        try:
            wanted.check()
            if wanted.name is None:
                found = of_nameless.pop(_plain(wanted), [])
                if left:
                    found = list(dict.fromkeys([*found, *await settled(walk(_found(acls, wanted, left), call))]))
                return await _delete_found(wanted, acls, found, call)
            acls_now = call.broker.metadata.image.acls
            among = candidates(acls_now, wanted)
            named = await settled(walk(_found(acls_now, wanted, among), call))
            return await _delete_found(wanted, acls_now, named, call)
        except KafkaError as error:
            left.extend(found)
            return _refused(error)

    return Response(filter_results=await one_by_one(request.filters, delete, call))


_at_controller = forwarded(DeleteAcls, _delete)


async def _delete_found(wanted: AclFilter, acls: Acls, found: list[ResourcePattern], call: Call) -> Result:
    """Deletes the ACLs of the patterns ``found`` that match the filter, and returns them. Raises KafkaError.

    The controller is asked even if none matches: only it knows that there is none.
    """
    result = Result()
    for part in _parts(acls, found) if found else ([],):
        result.matching_acls += map(_told, await call.broker.controller.delete_acls(wanted, part))
    return result


def _sorted(acls: Acls, filters: list[Filter]) -> Paced[dict[AclFilter, list[ResourcePattern]]]:
    """Finds the patterns that match filters without a name. An ACL counts only for the first filter that it matches."""
    places: dict[AclFilter, int] = {}
    for number, each in enumerate(filters):
        if each.resource_name_filter is None:
            places.setdefault(_plain(filter_of(each)), number)
        yield
    found: dict[AclFilter, list[ResourcePattern]] = {}
    given = {tuple(map(ne, wanted, ANYTHING)) for wanted in places}  # which fields the filters have
    for pattern, entries in acls.items() if places else ():
        firsts: set[AclFilter] = set()
        for entry in entries:
            acl = (*pattern, *entry)
            ways = [AclFilter._make(map(_chosen, fields, acl, ANYTHING)) for fields in given]
            if ways := [way for way in ways if way in places]:
                firsts.add(min(ways, key=places.__getitem__))
            yield
        for wanted in firsts:
            found.setdefault(wanted, []).append(pattern)
    return found


def _chosen(is_given: bool, of_acl: object, otherwise: object) -> object:
    return of_acl if is_given else otherwise


def _plain(wanted: AclFilter) -> AclFilter:
    """Returns a filter without a name in its plain form: without a name, MATCH means ANY."""
    return wanted._replace(pattern_type=PatternType.ANY) if wanted.pattern_type is PatternType.MATCH else wanted


def _found(acls: Acls, wanted: AclFilter, among: Iterable[ResourcePattern]) -> Paced[list[ResourcePattern]]:
    """Returns the patterns among ``among`` that have at least one ACL that matches the filter."""
    found: list[ResourcePattern] = []
    looked_at = 0
    for pattern in among:
        looked_at += 1
        if wanted.matches_pattern(pattern):
            entries = acls[pattern]
            looked_at += len(entries)
            if any(map(wanted.matches_entry, entries)):
                found.append(pattern)
        if looked_at >= PIECE:
            looked_at = 0
            yield
    return found


def _parts(acls: Acls, found: list[ResourcePattern]) -> Iterator[list[ResourcePattern]]:
    part: list[ResourcePattern] = []
    count = 0
    for pattern in found:
        part.append(pattern)
        count += len(acls[pattern])
        if count >= ACLS_AT_ONCE:
            yield part
            part, count = [], 0
    if part:
        yield part


def _refused(error: KafkaError) -> Result:
    return Result(error_code=error.code, error_message=str(error))


def _told(binding: AclBinding) -> Response.DeleteAclsMatchingAcl:
    (kind, name, pattern_type), (principal, host, operation, permission) = binding
    return Response.DeleteAclsMatchingAcl(
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )
