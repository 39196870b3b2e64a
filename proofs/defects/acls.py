"""Defects of ACLs: each grants access that should be denied."""

from __future__ import annotations

from proofs.defects import Patch, defect
from proofs.defects.suites import in_histories
from pybroker.cluster.decisions import acl_changes
from pybroker.cluster.decisions.plan import Plan
from pybroker.cluster.nodes import loading
from pybroker.handlers.common.forwarding import Forwarding
from pybroker.security import acl_index, authorizer
from pybroker.security.acls import AclBinding
from pybroker.security.authorizer import StandardAuthorizer

NODES = "pybroker/cluster/decisions/tests/test_acls.py"
GUESTS = "conformance/faults/test_guests.py::test_s112_clients_have_access_only_as_long_as_it_is_granted"
RULES = "pybroker/security/tests/test_authorizer.py"
CHECKS = "pybroker/security/tests/test_acls.py"


@defect(f"{NODES}::test_unreadable_acls_deny_everything_and_are_logged_in_one_line")
def acls_that_cannot_be_read_are_none() -> list[Patch]:
    """The broker ignores unreadable ACLs. The ACLs of a prefix then allow requests that they denied."""
    return [(loading, "UNREADABLE", ())]


@defect(f"{NODES}::test_one_of_several_acls_is_deleted_and_the_others_stay")
def all_acls_of_a_resource_go_with_one() -> list[Patch]:
    """The broker opens a resource to everybody when it loses one of its ACLs (CVE-2024-27309)."""
    steps = acl_changes._steps
    return [(acl_changes, "_steps", lambda image, changed: steps(image, dict.fromkeys(changed, ())))]


@in_histories("rights", "let in", "kept out")
@defect(f"{RULES}::test_a_change_counts_at_once_and_has_a_version")
def decisions_are_kept_over_changes() -> list[Patch]:
    """A connection that has used a right keeps the right after its revocation."""
    update = StandardAuthorizer.update

    def keeping(self: StandardAuthorizer, acls: object) -> None:
        rights = dict(self._rights)
        update(self, acls)  # type: ignore[arg-type]
        self._rights.update(rights)

    return [(StandardAuthorizer, "update", keeping)]


@in_histories("rights", "let in")
@defect(GUESTS, says="found let in: ")
def connections_keep_decisions_over_changes() -> list[Patch]:
    """A connection that goes on using a revoked right keeps the right."""
    return [(StandardAuthorizer, "version", property(lambda self: 0, lambda self, version: None))]


@in_histories("rights", "let in", "kept out")
def a_change_is_answered_before_it_counts() -> list[Patch]:
    """The broker answers once the controller has applied a change, and before the broker itself has received it."""

    async def answer_at_once(self: Forwarding, version: int) -> None:
        """Does not wait for the version."""

    return [(Forwarding, "_catch_up", answer_at_once)]


@defect(f"{NODES}::test_a_replaced_controller_answers_not_controller_even_if_no_acl_would_change[delete]")
def what_is_so_already_is_not_confirmed() -> list[Patch]:
    """A deposed controller answers that there is nothing to revoke, and the user keeps the right."""
    return [(Plan, "confirmed", lambda self: self)]


@defect(f"{RULES}::test_an_address_is_the_same_however_it_is_written")
def addresses_are_compared_as_they_are_written() -> list[Patch]:
    """An ACL that denies an IPv6 address has no effect if the client's address is written differently."""
    return [(module, "canonical", lambda host: host) for module in (acl_index, authorizer)]


@defect(f"{CHECKS}::test_an_invalid_acl_is_refused_in_kafkas_words", says="DID NOT RAISE")
@defect(f"{CHECKS}::test_an_acl_for_a_range_of_hosts_is_refused_since_it_would_match_no_client")
def acls_are_stored_for_any_host() -> list[Patch]:
    """A DENY for an empty host or for a range of addresses is stored, and denies nobody anything."""
    check = AclBinding.check

    def check_the_rest(self: AclBinding) -> None:
        check(self._replace(entry=self.entry._replace(host="*")))

    return [(AclBinding, "check", check_the_rest)]
