"""Defects of what clients are allowed to do."""

from __future__ import annotations

from proofs.defects import Patch, defect
from pybroker.handlers.common.call import ForwardedCall
from pybroker.handlers.common.security.permitted_fetch import PermittedFetch
from pybroker.replication.fetching import Fetch

TESTS = "pybroker/tests/security/test_rights_in_time.py"


@defect(f"{TESTS}::test_a_waiting_fetch_returns_no_topic_that_was_forbidden_meanwhile")
def a_fetch_that_waits_is_asked_for_once() -> list[Patch]:
    """As in Kafka, a waiting client goes on reading after its right was revoked."""
    return [(PermittedFetch, "read_again", Fetch.read_again)]


@defect(f"{TESTS}::test_the_controller_decides_by_the_rights_of_the_client")
def what_a_broker_hands_on_is_the_brokers_own() -> list[Patch]:
    """A client may do everything that needs the controller if it asks another broker."""
    return [(ForwardedCall, "is_of_broker", property(lambda self: True))]
